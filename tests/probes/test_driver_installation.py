"""The installed driver: module file and signature, DKMS, packages, fabric manager."""

from __future__ import annotations

from typing import Any

import pytest

from envcheck.model import Absent, Known, Source, Unknown
from envcheck.probes.driver import (
    collect_driver,
    find_module_file,
    parse_fabric_version,
    parse_make_log,
    parse_modules_dep,
    read_dkms,
    read_fabric_manager,
    read_packages,
    read_signature,
)
from envcheck.probes.gpus import detect_nvswitch, scan_pci
from tests.probes.gpu_machines import bare, pci

KERNEL = "6.8.0-45-generic"
ROOT = f"/lib/modules/{KERNEL}"
MODULE = f"{ROOT}/updates/dkms/nvidia.ko"
DEP = "kernel/fs/ext4/ext4.ko.zst: \nupdates/dkms/nvidia-uvm.ko: updates/dkms/nvidia.ko\nupdates/dkms/nvidia.ko: \n"
MODINFO = "/usr/sbin/modinfo"


@pytest.mark.parametrize(
    ("line", "path"),
    [
        (
            "updates/dkms/nvidia.ko.zst: kernel/drivers/gpu/drm/drm.ko.zst",
            "updates/dkms/nvidia.ko.zst",
        ),
        ("kernel/nvidia-550/nvidia.ko:", "kernel/nvidia-550/nvidia.ko"),
        ("updates/dkms/nvidia-current.ko.xz:", "updates/dkms/nvidia-current.ko.xz"),
        ("updates/dkms/nvidia-uvm.ko:", None),
        ("kernel/drivers/video/fbdev/nvidia/nvidiafb.ko:", None),
    ],
)
def test_modules_dep(line: str, path: str | None) -> None:
    assert parse_modules_dep(f"kernel/a.ko:\n{line}\n") == path


def test_module_file() -> None:
    assert find_module_file(bare({f"{ROOT}/modules.dep": DEP})).value == MODULE
    assert isinstance(find_module_file(bare({f"{ROOT}/modules.dep": "kernel/a.ko:\n"})), Absent)
    assert isinstance(find_module_file(bare()), Absent)
    assert isinstance(find_module_file(bare({f"{ROOT}/modules.dep": {"error": "denied"}})), Unknown)
    assert isinstance(find_module_file(bare(system_facts={"kernel_release": ""})), Unknown)


def signature(files: dict[str, Any], path: str = MODULE, **recording: Any) -> Any:
    return read_signature(
        bare(files, **recording), Known(path, Source("file", path)), is_loaded=False
    )


@pytest.mark.parametrize("path", [MODULE, MODULE + ".zst"])
def test_signature(path: str) -> None:
    argv = [MODINFO, "-F", "sig_id", path]
    assert isinstance(signature({path: "x"}, path), Unknown)

    def run_modinfo(**entry: Any) -> Any:
        return signature({path: "x", MODINFO: "x"}, path, commands=[{"argv": argv, **entry}])

    assert run_modinfo(stdout="PKCS#7\n").value is True
    assert run_modinfo(stdout="").value is False
    assert isinstance(run_modinfo(returncode=1, stderr="modinfo: ERROR"), Unknown)
    assert run_modinfo(unknown=["timeout", "2 s"]).why == "timeout"


def test_the_signature_of_a_loaded_or_missing_module_is_not_read() -> None:
    loaded = read_signature(bare(), Known(MODULE, Source("file", MODULE)), is_loaded=True)
    assert isinstance(loaded, Unknown)
    assert isinstance(read_signature(bare(), Absent(), is_loaded=False), Absent)


DKMS = "/var/lib/dkms/nvidia"
LOG = f"DKMS make.log for nvidia-550.163.01 for kernel {KERNEL} (x86_64)\nerror: implicit declaration\n"


def states(files: dict[str, Any], **recording: Any) -> list[tuple[str, str, str]]:
    modules = read_dkms(bare(files, **recording)).value or ()
    return [(module.version, module.kernel_release, module.state) for module in modules]


def test_dkms_states() -> None:
    build = f"{DKMS}/550.163.01/{KERNEL}/x86_64"
    link = {f"{DKMS}/kernel-{KERNEL}-x86_64": {"link": f"550.163.01/{KERNEL}/x86_64"}}
    module = {f"{build}/module/nvidia.ko": "x", f"{DKMS}/550.163.01/source/dkms.conf": ""}
    assert states(module) == [("550.163.01", KERNEL, "built")]
    assert states({**module, **link}) == [("550.163.01", KERNEL, "installed")]
    failed = {f"{DKMS}/550.163.01/build/make.log": LOG}
    assert states(failed) == [("550.163.01", KERNEL, "failed")]
    assert states({**module, **failed}) == [("550.163.01", KERNEL, "built")]
    assert states({f"{DKMS}/550.163.01/build/dkms.conf": ""}) == [("550.163.01", "", "added")]
    assert states({f"{DKMS}/550.163.01": {"error": "denied"}}) == [("550.163.01", "", "added")]


def test_dkms_of_others_or_none() -> None:
    assert isinstance(read_dkms(bare({"/var/lib/dkms/virtualbox/7.0/source/x": ""})), Absent)
    assert isinstance(read_dkms(bare()), Absent)
    assert isinstance(read_dkms(bare({"/var/lib/dkms": {"error": "denied"}})), Unknown)
    assert parse_make_log("rubbish") is None


STATUS = """\
Package: bash
Status: install ok installed
Version: 5.2

Package: libnvidia-compute-535
Status: install ok installed
Priority: optional
Version: 535.261.03-0ubuntu0.22.04.1

Package: nvidia-driver-470
Status: deinstall ok config-files
Version: 470.1

Package: nvidia-cuda-toolkit
Status: install ok installed
Version: 11.5.1-1ubuntu1

Package: libcuda1
Status: hold ok installed
Version: 535.1-1
"""


def test_packages() -> None:
    expected = {"libnvidia-compute-535": "535.261.03-0ubuntu0.22.04.1", "libcuda1": "535.1-1"}
    assert read_packages(bare({"/var/lib/dpkg/status": STATUS})).value == expected
    assert isinstance(read_packages(bare({"/var/lib/dpkg/status": STATUS[:70]})), Absent)
    assert isinstance(read_packages(bare()), Absent)
    assert isinstance(read_packages(bare({"/var/lib/dpkg/status": {"error": "denied"}})), Unknown)


FABRIC = "/usr/bin/nv-fabricmanager"
SWITCH = Known(True, Source("file", "x"))


def test_nvswitch() -> None:
    def present(files: dict[str, Any]) -> bool | None:
        return detect_nvswitch(scan_pci(bare(files))).value

    assert present(pci("0000:05:00.0", "0x1af1", "0x068000", "nvidia-nvswitch")) is True
    assert present(pci("0000:00:08.0", "0x0373", "0x068000", "forcedeth")) is False
    assert present({"/dev/nvidia-nvswitchctl": {"kind": "char"}, **pci()}) is False


def test_the_fabric_manager_is_not_searched_without_nvswitch() -> None:
    facts = collect_driver(bare(pci()))
    assert isinstance(facts.fabric_manager_version, Absent)
    assert isinstance(facts.fabric_manager_running, Absent)


def test_fabric_manager_version() -> None:
    text = "Fabric Manager version is : 535.54.03\n"
    host = bare({FABRIC: "x"}, commands=[{"argv": [FABRIC, "--version"], "stdout": text}])
    assert read_fabric_manager(host, SWITCH)[0].value == "535.54.03"
    assert parse_fabric_version("usage:") is None
    assert isinstance(read_fabric_manager(bare(), SWITCH)[0], Absent)


def test_fabric_manager_running() -> None:
    def running(files: dict[str, Any], **recording: Any) -> Any:
        return read_fabric_manager(bare(files, **recording), SWITCH)[1]

    other = {"/proc/812/comm": "bash\n"}
    assert running({"/proc/812/comm": "nv-fabricmanage\n"}).value is True
    assert running(other).value is False
    assert isinstance(running({**other, "/.dockerenv": ""}), Unknown)
    assert isinstance(running(other, environment={"KUBERNETES_SERVICE_HOST": "10.0.0.1"}), Unknown)
    assert isinstance(running({"/proc": {"error": "denied"}}), Unknown)


def test_the_fabric_manager_is_unknown_where_nvswitch_is() -> None:
    unknown = Unknown("denied", "x")
    assert read_fabric_manager(bare(), unknown) == (unknown, unknown)

"""Machines with one thing wrong: the root cause must be named, and nothing else take its place."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envcheck.model import COMPATIBLE, INCOMPATIBLE, FrameworkBuild
from tests.rules.factory_machine import known
from tests.scenarios.machine import (
    A100,
    MULTIARCH,
    NODE,
    RTX4090,
    Card,
    Machine,
    judge,
    told,
    torch,
)
from tests.scenarios.test_healthy import DOCKER, EIGHT, FABRIC, FABRIC_VERSION, SWITCH, with_card

CLOSED = {
    f"/dev/{name}": {
        **NODE,
        "mode": "crw-rw----",
        "owner": "0:44",
        "readable": False,
        "writable": False,
    }
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm")
}
UNBOUND = replace(A100, bound_to="", listed=False)
STOPPED = {"kernel": None, "nvml": 9, "init": 100}
SECURE = {
    "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c": "\x06\0\0\0\x01",
    "/lib/modules/6.8.0-45-generic/updates/dkms/nvidia.ko": "ELF no signature",
    "/lib/modules/6.8.0-45-generic/modules.dep": "updates/dkms/nvidia.ko:\n",
    "/usr/sbin/modinfo": "binary",
}
MODINFO = {
    "argv": [
        "/usr/sbin/modinfo",
        *("-F", "sig_id", "/lib/modules/6.8.0-45-generic/updates/dkms/nvidia.ko"),
    ],
    "returncode": 0,
    "stdout": "",
}
OTHER_KERNEL = {
    "/var/lib/dkms/nvidia/550.163.01/6.5.0-10-generic/x86_64/module/nvidia.ko": "x",
    "/var/lib/dkms/nvidia/kernel-6.5.0-10-generic-x86_64": {
        "link": "550.163.01/6.5.0-10-generic/x86_64"
    },
}
K80 = Card("102d", "Tesla K80", "3.7", listed=False)
GTX980 = Card("17c8", "NVIDIA GeForce GTX 980 Ti", "5.2", listed=False)
RTX5090 = Card("2b85", "NVIDIA GeForce RTX 5090", "12.0", listed=False)
NO_LIBCUDA = {f"{MULTIARCH}/libcuda.so.1": None, f"{MULTIARCH}/libcuda.so.550.163.01": None}
OLD_FABRIC = {**FABRIC_VERSION, "stdout": "Fabric Manager version is : 535.183.01\n"}
CGROUP = {"nvml": 999, "init": 100, "env": {"NVIDIA_VISIBLE_DEVICES": "all"}}
TWO = (A100, replace(A100, slot="0000:08:00.0"), replace(A100, slot="0000:09:00.0", listed=False))

TORCH_128 = replace(
    torch("2.7.1+cu128"),
    cuda_version=known("12.8"),
    compute_capabilities=known(("sm_90", "sm_120")),
)

CAUSES = {
    "nodes-closed": (with_card(files=CLOSED, nvml=4, init=304), "driver-device-nodes"),
    "container-lost-its-devices": (with_card(files=DOCKER, **CGROUP), "driver-device-nodes"),
    "resumed": (with_card(init=999), "driver-device-nodes"),
    "uvm-missing": (with_card(uvm=False, init=999), "driver-device-nodes"),
    "updated-underneath": (
        with_card(kernel="550.144.03", nvml=18, init=803),
        "driver-library-mismatch",
    ),
    "updated-under-a-container": (
        with_card(kernel="550.144.03", nvml=18, init=803, files=DOCKER),
        "driver-library-mismatch",
    ),
    "built-for-another-kernel": (
        with_card(UNBOUND, files=OTHER_KERNEL, **STOPPED),
        "driver-missing",
    ),
    "refused-by-secure-boot": (
        with_card(UNBOUND, files=SECURE, commands=(MODINFO,), **STOPPED),
        "driver-secure-boot",
    ),
    "nouveau": (
        with_card(replace(RTX4090, bound_to="nouveau", listed=False), kernel=None, libraries=None),
        "driver-nouveau",
    ),
    "no-driver-for-an-unknown-id": (
        with_card(Card("3fff", bound_to="", listed=False), kernel=None, libraries=None),
        "driver-missing",
    ),
    "lost": (with_card(RTX4090, nvml=15, init=100), "gpu-hardware-fault"),
    "no-fabric-manager": (Machine(cards=(*EIGHT, SWITCH), init=802), "fabric-manager"),
    "fabric-manager-of-another-release": (
        Machine(cards=(*EIGHT, SWITCH), files=FABRIC, commands=(OLD_FABRIC,), init=802),
        "fabric-manager",
    ),
    "host-of-the-container-lacks-the-fabric-manager": (
        with_card(files=DOCKER, nodes=(), init=802),
        "fabric-manager",
    ),
    "kepler-on-a-later-driver": (
        with_card(replace(K80, bound_to=""), init=100),
        "gpu-arch-too-old",
    ),
    "maxwell-on-a-later-driver": (
        with_card(GTX980, driver="590.48.01", init=100),
        "gpu-arch-too-old",
    ),
    "blackwell-on-the-proprietary-module": (
        with_card(RTX5090, driver="570.133.07", cuda=12080, init=100),
        "driver-missing",
    ),
    "libcuda-not-installed": (with_card(files=NO_LIBCUDA), "libcuda-not-on-path"),
    "nixos-without-a-path": (
        with_card(libraries="/run/opengl-driver/lib", cached=False, release="ID=nixos\n"),
        "libcuda-not-on-path",
    ),
    "docker-devices-without-libraries": (
        with_card(files=DOCKER, libraries=None),
        "driver-not-in-container",
    ),
    "docker-without-gpus": (
        with_card(files=DOCKER, libraries=None, nodes=()),
        "driver-not-in-container",
    ),
    "apptainer-without-nv": (
        with_card(env={"APPTAINER_CONTAINER": "/x.sif"}, libraries=None),
        "driver-not-in-container",
    ),
    "numbers-of-the-whole-node-in-a-job": (
        Machine(cards=TWO, env={"CUDA_VISIBLE_DEVICES": "2,3"}),
        "visible-devices-hidden",
    ),
    "vgpu-of-an-old-branch": (
        with_card(Card("1eb8", "GRID T4-16Q", "7.5"), driver="470.239.06", cuda=11040),
        "driver-too-old",
    ),
    "driver-of-2018": (
        with_card(
            Card("1b80", "GeForce GTX 1080", "6.1"),
            driver="390.157",
            cuda=9010,
            libraries="/usr/lib/nvidia-390",
        ),
        "driver-too-old",
    ),
}


@pytest.mark.parametrize("name", CAUSES)
def test_the_cause_is_named(name: str) -> None:
    machine, cause = CAUSES[name]
    report = judge(machine, TORCH_128 if name.startswith("blackwell") else torch())
    assert report.verdict == INCOMPATIBLE
    assert [finding.id for finding in report.findings if finding.primary] == [cause], told(report)
    roots = {
        item.id for item in report.findings if item.verdict == INCOMPATIBLE and not item.caused_by
    }
    assert roots == {cause}, told(report)


CPU_TORCH = FrameworkBuild(
    "torch", "torch", "2.7.1+cpu", cuda_build=known(False), libraries=known(())
)
BARE = Machine(cards=(), kernel=None, libraries=None)
WSL = {"kernel_release": "5.15.153.1-microsoft-standard-WSL2"}
WSL_FOLDERS = {
    "/usr/lib/wsl/lib": ["libd3d12.so"],
    "/usr/lib/wsl/drivers": ["iigd_dch.inf_amd64_0f9f"],
}
CPU_MACHINES = {
    "login-node": BARE,
    "login-node-with-the-driver's-libraries": Machine(cards=(), kernel=None, nvml=9, init=100),
    "login-node-with-the-module": Machine(cards=(), init=100),
    "docker-left-without-gpu": with_card(files=DOCKER, libraries=None, nodes=()),
    "wsl-on-intel-graphics": replace(
        BARE, facts=WSL, files={"/dev/dxg": NODE}, folders=WSL_FOLDERS
    ),
    "wsl-without-a-gpu": replace(BARE, facts=WSL),
    "freebsd": replace(BARE, system="freebsd14"),
    "macos": replace(BARE, system="darwin", facts={"machine": "arm64"}),
}


@pytest.mark.parametrize("name", CPU_MACHINES)
def test_a_machine_for_cpu_work_is_well(name: str) -> None:
    python = {"architecture": known("arm64")} if name == "macos" else None
    report = judge(CPU_MACHINES[name], CPU_TORCH, python=python)
    assert (report.verdict, report.goal) == (COMPATIBLE, "cpu"), told(report)
    assert all(finding.severity == "note" for finding in report.findings), told(report)

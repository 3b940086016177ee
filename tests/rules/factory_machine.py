"""Small composed facts for the rules on hardware, driver and runtime; every one is made up here."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from envcheck.matrix.load import load_document
from envcheck.matrix.query import Matrix
from envcheck.model import (
    Absent,
    DeviceNode,
    Distribution,
    DriverFacts,
    Fact,
    Facts,
    Finding,
    FrameworkBuild,
    Gpu,
    HostFacts,
    Known,
    MigDevice,
    PythonFacts,
    Source,
    Unknown,
)
from envcheck.rules import RULES, Context, Target
from envcheck.rules.engine import is_explained
from tests.typed import remedied

SOURCE = Source("file", "composed", "")
UNREAD = Unknown("timeout", "no answer in 2 s")
NONE = Absent(("everywhere",))


def known(value: Any) -> Known[Any]:
    return Known(value, SOURCE)


def fact(value: Any) -> Fact[Any]:
    return value if isinstance(value, (Known, Absent, Unknown)) else Known(value, SOURCE)


@lru_cache(maxsize=1)
def _document() -> dict[str, Any]:
    return load_document()


@lru_cache(maxsize=1)
def _built_in() -> Matrix:
    return Matrix(_document())  # it builds each of its rows once


def matrix(without: tuple[str, ...] = ()) -> Matrix:
    """Return the built-in matrix; `without` deletes one row by its path: ("toolkits", "12.6")."""
    if not without:
        return _built_in()
    document = copy.copy(_document())
    section = copy.copy(document[without[0]])
    document[without[0]] = section
    for key in without[1:-1]:
        section[key] = copy.copy(section[key])
        section = section[key]
    del section[without[-1]]
    return Matrix(document)


def gpu(
    name: Any = "NVIDIA A100-SXM4-40GB", capability: Any = "8.0", index: Any = 0, **more: Any
) -> Gpu:
    """Compose a GPU that works and is idle."""
    made = Gpu(
        nvml_index=known(index),
        name=fact(name),
        uuid=known(f"GPU-{index}aaa0000-1111-2222-3333-44445555666{index}"),
        pci_address=known(f"0000:0{index}:00.0"),
        pci_id=NONE,
        compute_capability=known(capability) if capability else NONE,
        kernel_driver=known("nvidia"),
        memory_bytes=known(40 << 30),
        memory_used_bytes=known(3 << 20),
        compute_mode=known("default"),
        mig_enabled=NONE,
        mig_devices=NONE,
        processes=known(()),
    )
    return replace(made, **more)


def split_gpu(*instances: str, index: int = 0) -> Gpu:
    """Compose a GPU in MIG mode with these instances."""
    return gpu(
        index=index,
        mig_enabled=known(True),
        mig_devices=known(tuple(MigDevice(uuid) for uuid in instances)),
    )


def nodes(*names: str, closed: str = "") -> Fact[Any]:
    """Compose device nodes by the end of their name; `closed` is one this user may not open."""
    found = tuple(
        DeviceNode(f"/dev/nvidia{name}", known(name != closed), "crw-rw---- root:video")
        for name in names
    )
    return known(found) if found else NONE


HOST = HostFacts(
    os=known("linux"),
    distribution_id=known("ubuntu"),
    distribution_like=known("debian"),
    kernel_release=known("6.8.0-45-generic"),
    architecture=known("x86_64"),
    cpu_flags=known(("sse", "avx", "avx2", "fma")),
    shm_bytes=known(32 << 30),
    container=NONE,
    wsl_version=NONE,
    jetson_release=NONE,
    secure_boot=known(False),
    is_root=known(False),
    environment=known({}),
)


def driver(release: Any = "550.163.01", cuda: Any = "12.4", **more: Any) -> DriverFacts:
    """Compose a driver that is installed, loaded and starts CUDA."""
    version = fact(release)
    made = DriverFacts(
        release=version, cuda_driver_version=known(cuda), kernel_module_version=version,
        kernel_module_kind=known("open"), module_file=known("/lib/modules/x/nvidia.ko"), module_file_signed=known(True),
        dkms=NONE, uvm_loaded=known(True), nouveau_loaded=known(False),
        libcuda_path=known(f"/usr/lib/x86_64-linux-gnu/libcuda.so.{release}"), libcuda_version=version,
        libcuda_unversioned=NONE, libcuda_elsewhere=NONE,
        libnvidia_ml_path=known(f"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{release}"), libnvidia_ml_version=version,
        cuda_init_result=known(0), nvml_result=known(0), nvml_driver_version=version, smi_path=NONE, smi_exit_code=NONE,
        smi_message=NONE, device_nodes=nodes("0", "ctl", "-uvm"), nvswitch_present=known(False),
        fabric_manager_version=NONE, fabric_manager_running=NONE, packages=NONE,
    )  # fmt: skip
    return replace(made, **more)


NO_DRIVER: dict[str, Any] = dict.fromkeys(
    (
        *(
            "release",
            "cuda_driver_version",
            "kernel_module_version",
            "kernel_module_kind",
            "module_file",
        ),
        *(
            "module_file_signed",
            "libcuda_path",
            "libcuda_version",
            "libnvidia_ml_path",
            "libnvidia_ml_version",
        ),
        *("cuda_init_result", "nvml_result", "device_nodes"),
    ),
    NONE,
)


def build(version: str = "2.7.1", framework: str = "torch", **more: Any) -> FrameworkBuild:
    """Compose an installed framework build of which the matrix row tells the rest."""
    return FrameworkBuild(framework, more.pop("distribution", framework), version, **more)


def context(
    *gpus: Gpu,
    driver: DriverFacts | None = None,
    host: Mapping[str, Any] | None = None,
    builds: tuple[FrameworkBuild, ...] = (),
    expect: str = "auto",
    without: tuple[str, ...] = (),
    **facts: Any,
) -> Context:
    """Compose a context: no `gpus` means that there are none, unless `facts` says otherwise."""
    installed = tuple(
        Distribution(item.distribution, item.version, installer="pip") for item in builds
    )
    python = PythonFacts(
        version=known("3.11.9"), architecture=known("x86_64"), abi_tag=known("cp311"), bits=known(64),
        distributions=known(facts.pop("distributions", installed)), frameworks=known(builds) if builds else NONE,
    )  # fmt: skip
    parts: dict[str, Any] = {
        "host": replace(HOST, **(host or {})),
        "driver": driver or _driver(),
        "gpus": known(gpus) if gpus else NONE,
        "python": python,
    }
    return Context(Facts(**{**parts, **facts}), matrix(without), Target(expect))


def _driver() -> DriverFacts:
    return driver()


def run(finding_id: str, judged: Context) -> list[Finding]:
    """Run every rule of one id as the engine does, but let an undecided one raise."""
    found: list[Finding] = []
    for item in RULES:
        if finding_id in item.ids and not (item.last and is_explained(judged, item.ids)):
            found += (
                each
                for each in item.check(judged)
                if each.id == finding_id or each.id not in item.ids
            )
    return remedied(found, judged)


def only(finding_id: str, judged: Context) -> Finding:
    """Return the one finding of an id."""
    found = [finding for finding in run(finding_id, judged) if finding.id == finding_id]
    assert len(found) == 1, found
    return found[0]

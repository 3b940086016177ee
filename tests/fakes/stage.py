"""Lay out in a folder what a stand-in GPU host shows under /proc, /sys, /dev, /usr and /etc."""

from __future__ import annotations

import os
import platform
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.fakes.build import build_libraries
from tests.fakes.machine import FakeGpu, GpuHost

_MAJOR = 195  # of NVIDIA's device nodes
_CONTAINER_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"), Path("/run/systemd/container"))
_PLAIN_NODES = {"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9}


def stage(host: GpuHost, folder: Path) -> None:
    """Write everything the namespace of `host` is made of below `folder`; files/ is laid over this machine's /."""
    files = folder / "files"
    for name in ("files/usr/bin", "driver", "module", "dev/pts", "dev/shm"):
        (folder / name).mkdir(parents=True)
    _stage_kernel(host, folder)
    _stage_pci(host, folder / "pci")
    _stage_devices(host, folder / "dev")
    _write(folder / "cgroup", "0::/init.scope\n")
    if host.libraries:
        _stage_libraries(host, files)
    _stage_programs(host, files / "usr/bin")
    for path, content in host.files.items():
        _write(files / path.lstrip("/"), content)
    _hide(files, _own_driver())
    _hide(files, (path for path in _CONTAINER_MARKS if path.exists()))
    if host.hide_toolkit:
        _hide(files, _own_toolkit())


def _write(path: Path, content: str | Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, Path):
        shutil.copy2(content, path)
    else:
        path.write_text(content, encoding="utf-8")


def _stage_kernel(host: GpuHost, folder: Path) -> None:
    modules = []
    if host.nouveau:
        modules.append("nouveau")
    if host.loaded_version:
        modules += ["nvidia", *(["nvidia_uvm"] if host.uvm else [])]
        _write(folder / "module/nvidia/version", host.loaded_version + "\n")
        _write(folder / "driver/nvidia/version", _version_text(host))
        for index, gpu in enumerate(host.gpus):
            _write(folder / f"driver/nvidia/gpus/{gpu.pci}/information", _information(index, gpu))
    for name in modules:
        (folder / "module" / name).mkdir(exist_ok=True)
    lines = (f"{name} 1000000 0 - Live 0x0000000000000000\n" for name in modules)
    _write(folder / "modules", "".join(lines))  # shown where this kernel has /proc/modules to cover


def _version_text(host: GpuHost) -> str:
    machine = platform.machine()
    kind = f"Open Kernel Module for {machine}" if host.open_module else f"{machine} Kernel Module"
    built = "Thu Jun 12 00:00:00 UTC 2025"
    return (
        f"NVRM version: NVIDIA UNIX {kind}  {host.loaded_version}  {built}\n"
        "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n"
    )


def _information(index: int, gpu: FakeGpu) -> str:
    return (
        f"Model: \t\t {gpu.name}\nIRQ:   \t\t {16 + index}\nGPU UUID: \t {gpu.uuid}\nBus Type: \t PCIe\n"
        f"Bus Location: \t {gpu.pci}\nDevice Minor: \t {index}\nGPU Excluded:\t No\n"
    )


def _stage_pci(host: GpuHost, bus: Path) -> None:
    (bus / "drivers").mkdir(parents=True)
    (bus / "devices").mkdir()
    _stage_pci_device(
        bus, "0000:00:00.0", {"vendor": "0x8086", "device": "0x1237", "class": "0x060000"}, None
    )
    for gpu in host.gpus:
        values = {"vendor": "0x10de", "device": f"0x{gpu.device_id}", "class": "0x030200"}
        _stage_pci_device(bus, gpu.pci, values, gpu.bound_to)


def _stage_pci_device(bus: Path, address: str, values: dict[str, str], driver: str | None) -> None:
    for name, value in values.items():
        _write(bus / "devices" / address / name, value + "\n")
    if driver:
        (bus / "drivers" / driver).mkdir(exist_ok=True)
        (bus / "devices" / address / "driver").symlink_to(f"../../drivers/{driver}")


def _stage_devices(host: GpuHost, dev: Path) -> None:
    for name, minor in _PLAIN_NODES.items():
        _node(dev / name, 1, minor, 0o666)
    _node(dev / "tty", 5, 0, 0o666)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        (dev / name).symlink_to(f"/proc/self/fd/{number}")
    (dev / "fd").symlink_to("/proc/self/fd")
    (dev / "ptmx").symlink_to("pts/ptmx")
    if host.nodes:
        _node(dev / "nvidiactl", _MAJOR, 255, host.node_mode)
        for index in range(len(host.gpus)):
            _node(dev / f"nvidia{index}", _MAJOR, index, host.node_mode)
        if host.uvm:
            _node(dev / "nvidia-uvm", 511, 0, host.node_mode)


def _node(path: Path, major: int, minor: int, mode: int) -> None:
    os.mknod(path, stat.S_IFCHR, os.makedev(major, minor))
    path.chmod(mode)


def _stage_libraries(host: GpuHost, root: Path) -> None:
    folder = root / "usr" / (host.library_folder or f"lib/{platform.machine()}-linux-gnu")
    folder.mkdir(parents=True, exist_ok=True)
    built = build_libraries()
    for name in ("libcuda", "libnvidia-ml"):
        shutil.copy(built / f"{name}.so.1", folder / f"{name}.so.{host.driver}")
        (folder / f"{name}.so.1").symlink_to(f"{name}.so.{host.driver}")


def _stage_programs(host: GpuHost, folder: Path) -> None:
    if host.nvidia_smi:
        shutil.copy(host.nvidia_smi, folder / "nvidia-smi")
        (folder / "nvidia-smi").chmod(0o755)
    for name, body in host.programs.items():
        _write(folder / name, f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)


def _hide(root: Path, paths: Iterable[Path]) -> None:
    """Mark files of this machine as deleted, in the way overlayfs marks it: character devices 0/0."""
    for path in paths:
        hidden = root / str(path).lstrip("/")
        if not os.path.lexists(hidden):
            hidden.parent.mkdir(parents=True, exist_ok=True)
            os.mknod(hidden, stat.S_IFCHR, os.makedev(0, 0))


def _own_driver() -> Iterator[Path]:
    yield from (path for path in (Path("/usr/bin/nvidia-smi"),) if path.exists())
    for folder in (
        Path("/usr/lib"),
        Path("/usr/lib64"),
        Path(f"/usr/lib/{platform.machine()}-linux-gnu"),
    ):
        yield from (*folder.glob("libcuda.so*"), *folder.glob("libnvidia-ml.so*"))


def _own_toolkit() -> Iterator[Path]:
    local = Path("/usr/local")
    yield from local.glob("cuda*")
    names = {path.name for path in local.glob("cuda*/bin/*")} | {"nvcc", "ptxas"}
    for folder in (local / "bin", Path("/usr/bin")):
        yield from (path for path in folder.iterdir() if path.name in names)

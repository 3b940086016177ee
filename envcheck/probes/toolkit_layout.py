"""The parts of a toolkit that lie in its folders: nvcc, ptxas, libcudart, libdevice."""

from __future__ import annotations

import re
from typing import List, Optional, Tuple

from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known, Source, Unknown
from envcheck.probes.toolkit_paths import join

_CUDART = r"^(libcudart\.so\.[\d.]+|cudart64_\d+\.dll|libcudart\.[\d.]+\.dylib)$"
_LIBDEVICE = r"^libdevice\.(10|compute_\d+\.10)\.bc$"  # one file for all architectures since CUDA 9.0


def find_tool(host: Host, folders: Tuple[str, ...], name: str) -> Fact[str]:
    """Return the first program of that name; unknown when what bears it cannot be run."""
    suffix = ".exe" if host.system == "windows" else ""
    tried: List[str] = []
    unusable: Optional[Unknown] = None
    for folder in folders:
        path = join(host, folder, name + suffix)
        status = host.status(path)
        if isinstance(status, Known) and status.value.kind != "file":
            unusable = Unknown("failed", f"{path} is a {status.value.kind}, not a program", (path,))
        elif isinstance(status, Known) and host.system != "windows" and "x" not in status.value.mode:
            unusable = Unknown("denied", f"{path} is not executable", (path,))
        elif isinstance(status, Known):
            return Known(path, Source("file", path))
        elif isinstance(status, Unknown):
            unusable = status
        tried.append(path)
    return unusable or Absent(tuple(tried))


def find_cudart(host: Host, folders: Tuple[str, ...]) -> Fact[str]:
    """Return the real file of the newest libcudart in the first folder that has one."""
    return _find_by_pattern(host, folders, _CUDART)


def find_libdevice(host: Host, folders: Tuple[str, ...]) -> Fact[str]:
    """Return libdevice's bitcode, which XLA and clang need."""
    return _find_by_pattern(host, folders, _LIBDEVICE)


def _find_by_pattern(host: Host, folders: Tuple[str, ...], pattern: str) -> Fact[str]:
    unread: Optional[Unknown] = None
    for folder in folders:
        names = host.list_folder(folder)
        if isinstance(names, Unknown):
            unread = names
        matching = [name for name in names.value if re.search(pattern, name)] if isinstance(names, Known) else []
        for name in sorted(matching, key=_numbers, reverse=True):
            real = host.real_path(join(host, folder, name))
            if isinstance(real, Known):
                return real
    return unread or Absent(folders)


def _numbers(name: str) -> List[int]:
    return [int(number) for number in re.findall(r"\d+", name)]

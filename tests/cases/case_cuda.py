"""Turn what a report states of CUDA, cuDNN and the driver's library into the form the probes give."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from envcheck.model import (
    NOT_STATED,
    Absent,
    DriverFacts,
    Fact,
    Known,
    LibraryInstall,
    Source,
    ToolkitFacts,
    ToolkitInstall,
)

SOURCE = Source("report", "case")
NONE = r"(?i)(?:none|no|not installed|-)$"
_COMPAT = r"(?:^|/)(?:cuda-)?compat(?:[-/]|$)"


def known(value: Any) -> Fact[Any]:
    """Make a fact of what is stated; nothing stated stays unknown."""
    return Known(value, SOURCE) if value not in (None, "", (), {}) else NOT_STATED


def first_number(text: Any) -> Fact[Any]:
    """Read the first version in a text: "390.x" is 390."""
    found = re.search(r"\d+(?:\.\d+)*", str(text)) if text else None
    return known(found.group(0)) if found else NOT_STATED


def driver_of(stated: Mapping[str, Any], environment: Mapping[str, str]) -> DriverFacts:
    """Read the driver, and the forward-compatibility libcuda where one is installed and on the loader's path."""
    told = str(stated.get("driver", ""))
    if told == "nouveau" or re.match(NONE, told):
        gone = Absent((f"the report says {told}",))
        return DriverFacts(
            release=gone, kernel_module_version=gone, nouveau_loaded=known(told == "nouveau")
        )
    return DriverFacts(
        release=first_number(told),
        cuda_driver_version=first_number(stated.get("driver_cuda")),
        libcuda_path=_compat_library(stated, environment),
    )


def _compat_library(stated: Mapping[str, Any], environment: Mapping[str, str]) -> Fact[str]:
    there = any(re.search(_COMPAT, str(text)) for text in stated.get("cuda_toolkits") or ())
    folders = [
        item
        for item in environment.get("LD_LIBRARY_PATH", "").split(":")
        if re.search(_COMPAT, item)
    ]
    return known(f"{folders[0].rstrip('/')}/libcuda.so.1" if there and folders else "")


def toolkits_of(stated: Mapping[str, Any], environment: Mapping[str, str]) -> ToolkitFacts:
    """Read the toolkits; an empty list says that there is none, and nvcc belongs to the toolkit of its version."""
    named = [
        found.group(0)
        for found in map(_toolkit_version, stated.get("cuda_toolkits") or ())
        if found
    ]
    nvcc = re.search(r"\d+\.\d+", str(stated.get("nvcc", "")))
    release = nvcc.group(0) if nvcc else ""
    on_path = re.findall(r"(/[\w./-]*cuda-[\w.]+)/lib", environment.get("LD_LIBRARY_PATH", ""))
    roots = {
        version: next(
            (root for root in on_path if root.endswith(f"-{version}")), f"the CUDA {version} stated"
        )
        for version in (*named, *([release] if release else []))
    }
    installs = tuple(_install(root, version, release) for version, root in roots.items())
    none = stated.get("cuda_toolkits") == [] and not installs
    home = environment.get("CUDA_HOME") or environment.get("CUDA_PATH") or ""
    meant = next(
        (
            root
            for version, root in roots.items()
            if re.search(rf"[-v]{re.escape(version)}\b", home)
        ),
        "",
    )
    return ToolkitFacts(
        installs=Absent(("the report says that there is none",)) if none else known(installs),
        root_on_path=known(roots.get(release)),
        cuda_home=known(home),
        cuda_home_root=known(meant),
        roots_on_library_path=known(tuple(on_path)),
    )


def _toolkit_version(text: Any) -> re.Match[str] | None:
    elsewhere = re.search(_COMPAT, str(text)) or "Windows side" in str(text)
    return None if elsewhere else re.search(r"\d+\.\d+", str(text))


def _install(root: str, version: str, nvcc: str) -> ToolkitInstall:
    release = known(version)
    return ToolkitInstall(
        root, "path", version=release, nvcc_release=release if version == nvcc else NOT_STATED
    )


def cudnn_of(stated: Mapping[str, Any]) -> Fact[Any]:
    """Read the copies of cuDNN; a Debian version tells the CUDA it was built for: 8.9.2.26-1+cuda12.1."""
    told = stated.get("cudnn")
    if told in ([], {}, False) or (isinstance(told, str) and re.match(NONE, told)):
        return Absent(("the report says that there is none",))
    if not isinstance(told, Mapping):
        told = {"header": told} if told else {}
    copies = [*_stated_copies(told), *_packaged(stated.get("packages") or {})]
    return known(tuple(copies))


def _stated_copies(told: Mapping[str, Any]) -> Iterator[LibraryInstall]:
    for kind, version in told.items():
        if kind == "built_against" or not re.search(r"\d", str(version)):
            continue
        if re.search(r"\d-\d|\+cuda", str(version)):
            yield _debian(str(version))
        else:
            yield LibraryInstall(
                "cudnn", "not stated", "system", library_version=first_number(version)
            )


def _packaged(packages: Mapping[str, Any]) -> Iterator[LibraryInstall]:
    for name, version in packages.items():
        if re.fullmatch(r"libcudnn\d+(-cuda-\d+)?", name):
            yield _debian(str(version), name)


def _debian(version: str, name: str = "") -> LibraryInstall:
    cuda = re.search(r"cuda-?(\d+)", f"{version} {name}")
    package, major = first_number(version), known(cuda.group(1) if cuda else "")
    # where Debian puts it
    path = known(f"/usr/lib/x86_64-linux-gnu/libcudnn.so.{re.sub(r'[^0-9].*', '', version)}")
    return LibraryInstall(
        "cudnn", "/usr", "debian", package_version=package, cuda_major=major, library_path=path
    )

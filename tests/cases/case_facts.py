"""Turn the few facts that a report states into the form the probes give; what is not stated stays unknown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from envcheck.model.facts import NOT_STATED, Absent, Fact, Known, Source
from envcheck.model.machine import (
    CompilerFacts,
    DriverFacts,
    Gpu,
    HostFacts,
    LibraryInstall,
    MigDevice,
    ToolkitFacts,
    ToolkitInstall,
)
from envcheck.model.python_env import Distribution, FrameworkBuild, PythonFacts
from envcheck.model.snapshot import Facts

_SOURCE = Source("report", "case")
_FRAMEWORKS = {
    **dict.fromkeys(("tensorflow", "tensorflow-gpu", "tensorflow-cpu", "tensorflow-intel"), "tensorflow"),
    **dict.fromkeys(("tf-nightly", "tf-nightly-gpu"), "tensorflow"),
    **dict.fromkeys(("torch", "pytorch"), "torch"),
    **dict.fromkeys(("jax", "jaxlib", "jax-cuda12-plugin"), "jax"),
}
_SYSTEMS = {"windows": "windows", "macos": "darwin", "mac": "darwin", "osx": "darwin", "darwin": "darwin"}
_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)*(?:\.?(?:dev|rc|a|b|post)\d+)?")


def facts_of(stated: Mapping[str, Any]) -> Facts:
    """Read the facts of a case; free text in them counts only where it holds a version, a path or a name."""
    return Facts(
        host=_host(stated),
        driver=_driver(stated),
        gpus=_gpus(stated),
        toolkits=_toolkits(stated),
        cudnn=_cudnn(stated),
        compilers=CompilerFacts(gcc_version=_first_number(stated.get("gcc"))),
        python=_python(stated),
    )


def _known(value: Any) -> Fact[Any]:
    return Known(value, _SOURCE) if value not in (None, "", (), {}) else NOT_STATED


def _first_number(text: Any) -> Fact[Any]:
    found = re.search(r"\d+(?:\.\d+)*", str(text)) if text else None
    return _known(found.group(0)) if found else NOT_STATED


def _host(stated: Mapping[str, Any]) -> HostFacts:
    name = str(stated.get("os", ""))
    system = next((_SYSTEMS[word] for word in re.findall(r"[a-z]+", name.lower()) if word in _SYSTEMS), "linux")
    container = stated.get("container")
    if isinstance(container, str) and container.upper().startswith("WSL"):
        container = None
    host = HostFacts(
        os=_known(system if name else ""),
        distribution_id=_known(name.lower().split(" ")[0] if system == "linux" and name != "Linux" else ""),
        distribution_version=_first_number(stated.get("os_version")),
        architecture=_known(stated.get("arch")),
        libc_kind=_known("glibc" if stated.get("glibc") else ""),
        libc_version=_first_number(stated.get("glibc")),
        container=Absent() if container is False else _known("docker" if container else ""),
        wsl_version=_wsl(stated),
        environment=_known(_environment(stated)),
    )
    return replace(host, cpu_model=_known(stated.get("cpu")))


def _wsl(stated: Mapping[str, Any]) -> Fact[Any]:
    told = " ".join(str(stated.get(name, "")) for name in ("wsl", "container", "os", "os_version"))
    if re.search(r"\bWSL ?1\b|^1\b", told, re.IGNORECASE):
        return _known(1)
    return _known(2) if stated.get("wsl") or "WSL" in told else NOT_STATED


def _environment(stated: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for name, value in (stated.get("env") or {}).items():
        text = str(value)
        if name.endswith("PATH"):
            text = ":".join(re.findall(r"(?<![\w.])/[\w./+-]+", text)) if "without" not in text else ""
        else:
            text = "" if text.startswith("(") and "empty" not in text else text.split(" (")[0]
        if text:
            found[name] = text
    return found


def _driver(stated: Mapping[str, Any]) -> DriverFacts:
    return DriverFacts(
        release=_first_number(stated.get("driver")), cuda_driver_version=_first_number(stated.get("driver_cuda"))
    )


def _gpus(stated: Mapping[str, Any]) -> Fact[Any]:
    names = stated.get("gpus")
    if names is None:
        return NOT_STATED
    if not names:
        return Absent(("the report says that there is none",))
    if all(re.search(r"Intel|AMD|Radeon|Apple", str(name)) for name in names):
        return Absent(("the report names none of NVIDIA",))
    found = []
    for name in names:
        bare, _, extra = str(name).partition(" (")
        gpu = Gpu(name=Known(re.sub(r" \d+ ?GB$", "", bare), _SOURCE))
        if "MIG" in extra:
            gpu = replace(gpu, mig_enabled=_known(True), mig_devices=_known((MigDevice("", extra.rstrip(")")),)))
        found.append(gpu)
    return _known(tuple(found)) if not re.search(r"\d GPUs|GPU with", str(names)) else NOT_STATED


def _toolkits(stated: Mapping[str, Any]) -> ToolkitFacts:
    installs = []
    for text in stated.get("cuda_toolkits") or ():
        version = re.search(r"\d+\.\d+", str(text))
        if version and "compat" not in str(text) and "Windows side" not in str(text):
            installs.append(ToolkitInstall("not stated", "path", version=_known(version.group(0))))
    nvcc = re.search(r"\d+\.\d+", str(stated.get("nvcc", "")))
    if nvcc:
        release = _known(nvcc.group(0))
        installs.append(ToolkitInstall("not stated", "path", version=release, nvcc_release=release))
    roots = re.findall(r"(/[\w./-]*cuda-[\w.]+)/lib", _environment(stated).get("LD_LIBRARY_PATH", ""))
    return ToolkitFacts(installs=_known(tuple(installs)), roots_on_library_path=_known(tuple(roots)))


def _cudnn(stated: Mapping[str, Any]) -> Fact[Any]:
    told = stated.get("cudnn")
    if not isinstance(told, Mapping):
        told = {"header": told} if told else {}
    packages = stated.get("packages") or {}
    apt = next((str(text) for name, text in packages.items() if re.match(r"libcudnn\d", name)), "")
    major = re.search(r"cuda(\d+)", apt)
    copies = [
        LibraryInstall("cudnn", "not stated", "system", library_version=_first_number(version))
        for kind, version in told.items()
        if kind != "built_against" and re.search(r"\d", str(version))
    ]
    if apt:
        package = _first_number(apt)
        cuda = _known(major.group(1)) if major else NOT_STATED
        copies.append(LibraryInstall("cudnn", "/usr", "debian", package_version=package, cuda_major=cuda))
    return _known(tuple(copies))


def _python(stated: Mapping[str, Any]) -> PythonFacts:
    packages = {
        str(name).lower().replace("_", "-"): str(version) for name, version in (stated.get("packages") or {}).items()
    }
    installed = tuple(
        Distribution(name, _version(text), installer=str(stated.get("installer", "")))
        for name, text in packages.items()
        if re.fullmatch(r"[a-z0-9.-]+", name) and "wanted" not in text and "asked" not in text
    )
    builds = tuple(found for found in (_build(item.name, packages[item.name]) for item in installed) if found)
    return PythonFacts(
        version=_known(_version(str(stated.get("python", "")))),
        bits=_known(32 if "32" in str(stated.get("python_arch", "")) else None),
        architecture=_known(stated.get("arch")),
        kind=_known("conda" if stated.get("conda") else ""),
        pip_version=_pip(str(stated.get("pip", ""))),
        distributions=_known(installed),
        frameworks=_known(builds),
    )


def _pip(text: str) -> Fact[Any]:
    below = re.match(r"< ?(\d+)", text)
    return _known(str(int(below.group(1)) - 1)) if below else _first_number(text)


def _version(text: str) -> str:
    found = _VERSION.search(text)
    label = re.search(r"\d(\+(?:cu|cpu)[\w.]*)", text) if found else None
    return (found.group(0) if found else "") + (label.group(1) if label else "")


def _build(name: str, text: str) -> FrameworkBuild | None:
    framework, version = _FRAMEWORKS.get(name), _version(text)
    if framework is None or name == "jax" or not (version or re.search(r"cu\d\d", text)):
        return None
    label = re.search(r"cu(?:da)?(\d\d|9)(\d)(?![\d.])", text)
    cpu = re.search(r"\+cpu|_cpu_|\bmkl_|\bcpu\b", text) is not None
    vendor = re.match(r"(?:nvidia|intel)-tensorflow", text)  # a vendor's build under the plain name
    return FrameworkBuild(
        framework,
        vendor.group(0) if vendor else {"pytorch": "torch"}.get(name, name),
        version or "0",
        cuda_build=_known(False) if cpu else (_known(True) if label else NOT_STATED),
        cuda_version=_known(f"{label.group(1)}.{label.group(2)}" if label else ""),
    )

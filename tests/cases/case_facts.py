"""Turn the few facts that a report states into the form the probes give; what is not stated stays unknown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from envcheck.frameworks.jax import parse_local_version
from envcheck.matrix.images import parse_framework
from envcheck.matrix.load import load_matrix
from envcheck.matrix.query import Matrix
from envcheck.model import (
    NOT_STATED,
    Absent,
    CompilerFacts,
    Distribution,
    Fact,
    Facts,
    FrameworkBuild,
    Gpu,
    HostFacts,
    Known,
    MigDevice,
    PythonFacts,
    canonical_name,
)
from envcheck.rules.context import Target
from tests.cases.case_cuda import SOURCE, cudnn_of, driver_of, first_number, known, toolkits_of

_OTHER_NAMES = {"pytorch": "torch", "tf-nightly": "tensorflow", "tf-nightly-gpu": "tensorflow"}
_ASKED = r"\b(?:wanted|asked)\b"
_SYSTEMS = {
    "windows": "windows",
    "macos": "darwin",
    "mac": "darwin",
    "osx": "darwin",
    "darwin": "darwin",
}
_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)*(?:\.?(?:dev|rc|a|b|post)\d+)?")


@cache
def matrix() -> Matrix:
    """Load the built-in matrix once."""
    return load_matrix()


def target_of(stated: Mapping[str, Any]) -> Target:
    """Read what the reporter was after: the releases wanted, and whether something is built from source."""
    asked = {
        str(name): str(text)
        for name, text in (stated.get("packages") or {}).items()
        if re.search(_ASKED, text)
    }
    wanted = (f"{name}=={_version(text)}" for name, text in asked.items() if _version(text))
    known_names = (
        text for text in wanted if matrix().framework_of(canonical_name(text.partition("==")[0]))
    )
    return Target(requirements=tuple(known_names), compiles=stated.get("installer") == "source")


def facts_of(stated: Mapping[str, Any]) -> Facts:
    """Read the facts of a case; free text in them counts only where it holds a version, a path or a name."""
    stated = _in_one_form(stated)
    environment = _environment(stated)
    return Facts(
        host=_host(stated),
        driver=driver_of(stated, environment),
        gpus=_gpus(stated),
        toolkits=toolkits_of(stated, environment),
        cudnn=cudnn_of(stated),
        compilers=CompilerFacts(gcc_version=first_number(stated.get("gcc"))),
        python=_python(stated),
    )


def _in_one_form(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Write facts that name one GPU, one CUDA and the machine in words as those that list them."""
    found = dict(stated)
    if "gpu" in found:
        text = str(found.pop("gpu"))
        parts = re.split(r" beside an? | / | and |, ", text)
        found["gpus"] = [] if re.match(r"none\b", text) else [part for part in parts if part]
    if "cuda" in found:
        found["cuda_toolkits"] = [found.pop("cuda")]
    if "machine" in found:
        found["arch"] = str(found.pop("machine")).split(" ")[0]
    driver = re.fullmatch(r"(?:([\d.]+) \()?CUDA ([\d.]+)\)?", str(found.get("driver", "")))
    if driver:
        found |= {"driver": driver[1] or "", "driver_cuda": driver[2]}
    system = re.search(r"(?i)\b(ubuntu|debian|fedora) (\d+(?:\.\d+)?)", str(found.get("os", "")))
    if system and "os_version" not in found:
        found |= {"os": system[1].capitalize(), "os_version": system[2]}
        found |= {"wsl": "2"} if "WSL" in str(stated["os"]) else {}
    return found


def _host(stated: Mapping[str, Any]) -> HostFacts:
    name = str(stated.get("os", ""))
    system = next(
        (_SYSTEMS[word] for word in re.findall(r"[a-z]+", name.lower()) if word in _SYSTEMS),
        "linux",
    )
    container = stated.get("container")
    if isinstance(container, str) and container.upper().startswith("WSL"):
        container = None
    host = HostFacts(
        os=known(system if name else ""),
        distribution_id=known(
            name.lower().split(" ")[0] if system == "linux" and name != "Linux" else ""
        ),
        distribution_version=first_number(stated.get("os_version")),
        architecture=known(stated.get("arch")),
        libc_kind=known("glibc" if stated.get("glibc") else ""),
        libc_version=first_number(stated.get("glibc")),
        container=Absent() if container is False else known("docker" if container else ""),
        wsl_version=_wsl(stated),
        environment=known(_environment(stated)),
    )
    return replace(host, cpu_model=known(stated.get("cpu")))


def _wsl(stated: Mapping[str, Any]) -> Fact[Any]:
    told = " ".join(str(stated.get(name, "")) for name in ("wsl", "container", "os", "os_version"))
    if re.search(r"\bWSL ?1\b|^1\b", told, re.IGNORECASE):
        return known(1)
    return known(2) if stated.get("wsl") or "WSL" in told else NOT_STATED


def _environment(stated: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for name, value in (stated.get("env") or {}).items():
        text = str(value)
        if text == "unset":
            continue
        if name.endswith("PATH"):
            text = (
                ":".join(re.findall(r"(?<![\w.])/[\w./+-]+", text)) if "without" not in text else ""
            )
        elif text.startswith("("):
            if "empty" in text:
                found[name] = ""
            continue
        text = text.split(" (")[0]
        if text or (value == "" and not name.endswith("PATH")):
            found[name] = text
    return found


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
        bare, _, extra = re.sub(r" with (MIG.*)", r" (\1)", str(name)).partition(" (")
        capability = known(extra[:-1] if re.fullmatch(r"\d{1,2}\.\d\)", extra) else "")
        named = Known(re.sub(r" \d+ ?GB$", "", bare), SOURCE)
        gpu = Gpu(name=named, compute_capability=capability)
        if "MIG" in extra:
            none = re.search(r"\bno\b|without", extra) is not None
            devices = Absent((extra,)) if none else known((MigDevice("", extra.rstrip(")")),))
            gpu = replace(gpu, mig_enabled=known(True), mig_devices=devices)
        found.append(gpu)
    return known(tuple(found)) if not re.search(r"\d GPUs|GPU with", str(names)) else NOT_STATED


def _python(stated: Mapping[str, Any]) -> PythonFacts:
    packages = {
        str(name).lower().replace("_", "-"): str(version)
        for name, version in (stated.get("packages") or {}).items()
    }
    installed = tuple(
        _distribution(name, text, str(stated.get("installer", "")))
        for name, text in packages.items()
        if re.fullmatch(r"[a-z0-9.-]+", name) and not re.search(_ASKED, text)
    )
    builds = [
        found for item in installed for found in _build(item.name, packages[item.name])
    ] or _of_image(stated)
    # the probe reads them, not jaxlib
    plugins = [item for item in builds if item.distribution.endswith("-plugin")]
    bits = re.match(r"(32|64)\b", str(stated.get("python_arch", "")))
    own = str(stated.get("python_arch", "")) if not bits else ""
    return PythonFacts(
        version=known(_version(str(stated.get("python", "")))),
        bits=known(int(bits.group(1)) if bits else None),
        architecture=known(own or stated.get("arch")),
        kind=known("conda" if stated.get("conda") else ""),
        pip_version=_pip(str(stated.get("pip", ""))),
        distributions=known(installed),
        frameworks=known(
            tuple(
                item for item in builds if item in plugins or not plugins or item.framework != "jax"
            )
        ),
    )


def _of_image(stated: Mapping[str, Any]) -> list[FrameworkBuild]:
    """Read the build out of the image a container was made of, where it is stated and nothing else is."""
    told = [
        found
        for word in re.split(r"[ ,()]+", str(stated.get("container", "")))
        if (found := parse_framework(word))
    ]
    if len(told) != 1 or any(
        matrix().framework_of(canonical_name(name)) for name in stated.get("packages") or {}
    ):
        return []
    name, version, cuda = told[0]
    is_cuda = known(cuda != "cpu")
    number = known(cuda if cuda != "cpu" else "")
    return [
        FrameworkBuild(
            str(matrix().framework_of(name)), name, version, cuda_build=is_cuda, cuda_version=number
        )
    ]


def _distribution(name: str, text: str, installer: str) -> Distribution:
    place = re.search(r"\bin (/[\w./+-]+)", text)
    location = place.group(1) if place else ""
    scope = "user" if "/.local/" in location else ""
    return Distribution(name, _version(text), location=location, scope=scope, installer=installer)


def _pip(text: str) -> Fact[Any]:
    below = re.match(r"< ?(\d+)", text)
    return known(str(int(below.group(1)) - 1)) if below else first_number(text)


def _version(text: str) -> str:
    found = _VERSION.search(text)
    label = re.search(r"\d(\+[a-z][\w.]*)", text) if found else None
    return (found.group(0) if found else "") + (label.group(1) if label else "")


def _build(name: str, text: str) -> Iterator[FrameworkBuild]:
    framework, version = matrix().framework_of(_OTHER_NAMES.get(name, name)), _version(text)
    # neither is a build: jaxlib and the plugins are
    aside = name == "jax" or name.endswith("-pjrt")
    if not framework or aside or not (version or re.search(r"cu\d\d|rocm", text)):
        return
    label = re.search(r"cu(?:da)?(\d\d|9)(\d)(?![\d.])", text)
    cpu = re.search(r"\+cpu|_cpu_|\bmkl_|\bcpu\b", text) is not None
    cpu = cpu or "rocm" in text
    vendor = re.match(r"(?:nvidia|intel)-tensorflow", text)  # a vendor's build under the plain name
    cudnn = parse_local_version(version)[1]
    yield FrameworkBuild(
        framework,
        vendor.group(0) if vendor else {"pytorch": "torch"}.get(name, name),
        version or "0",
        cuda_build=known(False) if cpu else (known(True) if label else NOT_STATED),
        cuda_version=known(f"{label.group(1)}.{label.group(2)}" if label else ""),
        cudnn_version=known(cudnn),
    )

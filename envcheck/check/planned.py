"""Turn a blueprint into the facts of the machine it will make: what the file does not say is unknown."""

from __future__ import annotations

import re

from envcheck.check.blueprint import Blueprint, Image, Line
from envcheck.model.facts import Absent, Fact, Known, Source, Unknown
from envcheck.model.machine import Facts, HostFacts, LibraryInstall, PythonFacts, ToolkitFacts, ToolkitInstall

_LATER = Unknown("failed", "the file does not say; it shows when the image runs")
_USUAL = Known("x86_64", Source("file", "the file", "assumed: it does not name a platform"))
_MACHINES = {"amd64": "x86_64", "x86_64": "x86_64", "arm64": "aarch64", "aarch64": "aarch64"}
_LIBRARIES = ("runtime", "devel")  # the flavors that hold CUDA's libraries, not libcudart alone
ROOT = "/usr/local/cuda"


def planned_facts(blueprint: Blueprint) -> Facts:
    """Compose the facts that the file decides."""
    return Facts(
        host=_host(blueprint),
        gpus=_LATER,
        toolkits=ToolkitFacts(installs=_toolkits(blueprint)),
        cudnn=_cudnn(blueprint),
        tensorrt=_LATER,
        nccl=_LATER,
        python=_python(blueprint),
    )


def _known(value: str, image: Image) -> Fact[str]:
    return Known(value, Source("file", image.where, image.reference)) if value else _LATER


def _architecture(blueprint: Blueprint) -> Fact[str]:
    if not blueprint.platform:
        return _USUAL
    machine = _MACHINES.get(blueprint.platform.split("/")[1] if "/" in blueprint.platform else blueprint.platform)
    where = blueprint.image.where if blueprint.image is not None else blueprint.path
    return Known(machine, Source("file", where, blueprint.platform)) if machine else _LATER


def _host(blueprint: Blueprint) -> HostFacts:
    image = blueprint.image
    if image is None:
        return HostFacts(os=Known("linux", Source("file", "the file")), libc_version=_LATER)
    seen = Source("file", image.where, image.reference)
    libc = "musl" if image.os == "alpine" else "glibc" if image.glibc else ""
    return HostFacts(
        os=_LATER if "windows" in image.reference.lower() else Known("linux", seen),
        distribution_id=_known(image.os, image),
        distribution_version=_known(image.os_version, image),
        architecture=_architecture(blueprint),
        libc_kind=_known(libc, image),
        libc_version=_known(image.glibc, image),
        container=Known("docker", seen),
        is_root=Known(value=True, source=seen),
    )


def _toolkits(blueprint: Blueprint) -> Fact[tuple[ToolkitInstall, ...]]:
    """Name the toolkit; what a step adds, an image of unknown contents and a file without an image leave it open."""
    image, spec = blueprint.image, conda_version(blueprint, ("cudatoolkit", "cuda-toolkit", "cuda-version"))
    installs: list[ToolkitInstall] = []
    if spec is not None:
        found = Known(spec.text, Source("file", spec.where, spec.text))
        installs.append(ToolkitInstall("$CONDA_PREFIX", "conda", version=found))
    if image is None or not image.source or blueprint.added or image.frameworks:
        return Known(tuple(installs), installs[0].version.source) if installs else _LATER  # type: ignore[union-attr]
    if image.cuda and image.flavor in _LIBRARIES:
        version = _known(".".join(image.cuda.split(".")[:2]), image)
        nvcc = _known(f"{ROOT}/bin/nvcc", image) if image.flavor == "devel" else Absent((image.where,))
        installs.insert(0, ToolkitInstall(ROOT, "usr-local", version=version, nvcc_path=nvcc))
    return Known(tuple(installs), Source("file", image.where)) if installs else Absent((image.where,))


def _cudnn(blueprint: Blueprint) -> Fact[tuple[LibraryInstall, ...]]:
    image, spec = blueprint.image, conda_version(blueprint, ("cudnn",))
    if spec is not None:
        named = Source("file", spec.where, spec.text)
        copy = LibraryInstall("cudnn", "$CONDA_PREFIX", "conda", package_version=Known(spec.text, named))
        return Known((copy,), named)
    if image is not None and image.cudnn and not image.frameworks and not blueprint.added:
        seen = Source("file", image.where, image.reference)
        version: Fact[str] = Known(image.cudnn, seen) if image.cudnn != "any" else _LATER
        major = Known(image.cuda.split(".")[0], seen)
        copy = LibraryInstall("cudnn", "/usr", "debian", library_version=version, cuda_major=major)
        return Known((copy,), seen)
    told = image is not None and image.source and not image.frameworks and not blueprint.added
    return Absent((image.where,)) if told and image is not None else _LATER


def _python(blueprint: Blueprint) -> PythonFacts:
    version: Fact[str] = _LATER
    if blueprint.python is not None:
        version = Known(blueprint.python.text, Source("file", blueprint.python.where))
    elif blueprint.image is not None:
        version = _known(blueprint.image.python, blueprint.image)
    tag = f"cp{version.value.replace('.', '')}" if isinstance(version, Known) else ""
    seen = version.source if isinstance(version, Known) else Source("file", blueprint.path)
    return PythonFacts(
        executable=Known("python", seen),
        pip_version=_pip(blueprint),
        version=version,
        abi_tag=Known(tag, seen) if tag else _LATER,
        bits=Known(64, seen),
        architecture=_architecture(blueprint),
        distributions=Known((), seen),
        frameworks=Absent((blueprint.path,)),
    )


def _pip(blueprint: Blueprint) -> Fact[str]:
    """Name the system's own pip where the file installs it, and neither renews it nor uses another."""
    image, line = blueprint.image, blueprint.pip
    renewed = any(re.match(r"pip\b(?!-)", item.text) for item in blueprint.requirements)
    if image is None or line is None or not image.pip or blueprint.own_pip or blueprint.built or renewed:
        return _LATER
    return Known(image.pip, Source("file", line.where, f"{line.text}: {image.pip} in {image.os} {image.os_version}"))


def conda_version(blueprint: Blueprint, names: tuple[str, ...]) -> Line | None:
    """Return the version that a conda spec pins one of `names` to: cudatoolkit=11.2.2 -> 11.2.2."""
    for line in blueprint.conda:
        found = re.match(r"([\w-]+)\s*={1,2}\s*(\d+(?:\.\d+)*)", line.text)
        if found and found[1] in names:
            return Line(found[2], line.where)
    return None

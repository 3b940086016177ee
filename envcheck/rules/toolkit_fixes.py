"""Commands that put the CUDA libraries a build needs in place."""

from __future__ import annotations

import re

from packaging.version import Version

from envcheck.model.facts import Known, value_of
from envcheck.model.findings import Command, Fix
from envcheck.rules.builds import Build
from envcheck.rules.context import Context
from envcheck.rules.cuda_libraries import brings_cuda
from envcheck.rules.cudnn_copies import built_with
from envcheck.rules.fixes_python import conda_install, install_steps, library_path_hook

_ARCHIVE = "https://developer.nvidia.com/cuda-toolkit-archive"
_CUDNN_ARCHIVE = "https://developer.nvidia.com/cudnn-archive"


def install_toolkit(context: Context, build: Build, cuda: str) -> Fix:
    """Bring the toolkit's libraries: from conda into a conda environment, else from NVIDIA's repository."""
    version = _minor(cuda)
    summary = f"Install the CUDA {version} libraries beside what is there; {build.label} loads no other version."
    if value_of(context.facts.python.kind) == "conda":
        note = f"{summary} Then let the environment's activation put its lib folder on LD_LIBRARY_PATH."
        return Fix(note, (conda_install(f"cudatoolkit={version}"), *_activation(context)))
    command = _system(context, f"cuda-libraries-{version.replace('.', '-')}", f"CUDA {version} libraries")
    return Fix(f"{summary} NVIDIA's archive: {_ARCHIVE}.", command)


def install_nvcc(context: Context, build: Build, cuda: str, why: str) -> Fix:
    """Bring nvcc with ptxas and libdevice: as the wheel a build asks for, else from NVIDIA's repository."""
    wheels = build.release.cuda_wheels if build.release else ()
    wheel = next((item for item in wheels if item.startswith("nvidia-cuda-nvcc")), "")
    if wheel:
        return Fix(why, install_steps(context, wheel))
    return Fix(why, _system(context, f"cuda-nvcc-{_minor(cuda).replace('.', '-')}", "nvcc, ptxas and libdevice"))


def install_compiler(context: Context, major: int) -> Fix:
    """Bring a GCC beside the one that is there, and let nvcc use it."""
    path = f"/usr/bin/g++-{major}"
    summary = f"Install GCC {major} beside the present one and let nvcc use it: export NVCC_CCBIN={path}"
    if value_of(context.facts.python.kind) == "conda":
        command = conda_install(f"gxx_linux-64={major}")
        return Fix(f"Install GCC {major} into the environment; its activation sets CXX.", (command,))
    known = _family(context)
    if known == "debian":
        return Fix(summary, (Command(("sudo", "apt-get", "install", f"g++-{major}"), "system", f"GCC {major}"),))
    return Fix(summary)


def install_cudnn(context: Context, build: Build) -> Fix | None:
    """Bring the cuDNN a build was made with: from conda, as a wheel, else from NVIDIA's archive."""
    cudnn, cuda = built_with(build), value_of(build.cuda)
    if cudnn is None:
        return None
    wanted, major = f"cuDNN {_minor(cudnn)}", Version(cudnn).major
    of_cuda = f" for CUDA {Version(cuda).major}" if cuda else ""
    summary = f"Install {wanted}{of_cuda}, or a newer {major}.x; {build.label} was built with it."
    if value_of(context.facts.python.kind) == "conda":
        return Fix(summary, (conda_install(f"cudnn={major}"), *_activation(context)))
    wheel = f"nvidia-cudnn-cu{Version(cuda).major}" if cuda else ""
    if wheel and _is_published(context, wheel):
        folders = (f"{build.facts.location}/nvidia/cudnn/lib",) if build.facts and build.facts.location else ()
        pip = install_steps(context, f"{wheel}>={_minor(cudnn)},<{major + 1}")
        return Fix(summary, (*pip, *(() if brings_cuda(build) else library_path_hook(context, folders))))
    return Fix(f"{summary} NVIDIA's archive: {_CUDNN_ARCHIVE}.")


def _is_published(context: Context, wheel: str) -> bool:
    """Tell whether a wheel of that name exists: some release of a framework asks for it."""
    releases = context.matrix.releases("torch", context.platform)
    return any(item.startswith(wheel) for release in releases for item in release.cuda_wheels)


def is_plain_path(path: str) -> bool:
    """Tell whether a path can be shown within a shell line as it is."""
    return re.fullmatch(r"/[\w./+~-]+", path) is not None


def _activation(context: Context) -> tuple[Command, ...]:
    prefix = value_of(context.facts.python.prefix)
    return library_path_hook(context, (f"{prefix}/lib",)) if prefix else ()


def _system(context: Context, package: str, purpose: str) -> tuple[Command, ...]:
    tool = {"debian": "apt-get", "rhel": "dnf"}.get(_family(context))
    return (
        (Command(("sudo", tool, "install", package), "system", f"{purpose}, from NVIDIA's repository"),) if tool else ()
    )


def _family(context: Context) -> str:
    host = context.facts.host
    known = " ".join(fact.value for fact in (host.distribution_id, host.distribution_like) if isinstance(fact, Known))
    if re.search(r"\b(debian|ubuntu)\b", known):
        return "debian"
    return "rhel" if re.search(r"\b(rhel|fedora|centos)\b", known) else ""


def _minor(version: str) -> str:
    parsed = Version(version)
    return f"{parsed.major}.{parsed.minor}"

"""Commands that put the CUDA libraries a build needs in place."""

from __future__ import annotations

import re

from envcheck.model import Command, Fix, get_value
from envcheck.rules.builds import Build
from envcheck.rules.context import Context
from envcheck.rules.cuda_libraries import brings_cuda, numbers
from envcheck.rules.cudnn_copies import built_with
from envcheck.rules.fixes_python import conda_install, install_steps, library_path_hook
from envcheck.rules.packages import install

_ARCHIVE = "https://developer.nvidia.com/cuda-toolkit-archive"
_CUDNN_ARCHIVE = "https://developer.nvidia.com/cudnn-archive"


def install_toolkit(context: Context, build: Build, cuda: str) -> Fix:
    """Bring the toolkit's libraries: from conda into a conda environment, else from NVIDIA's repository."""
    version = _full(context, cuda)
    summary = f"Install the CUDA {version} libraries beside what is there; {build.label} was built for CUDA {cuda}."
    if get_value(context.facts.python.kind) == "conda":
        note = f"{summary} Then let the environment's activation put its lib folder on LD_LIBRARY_PATH."
        return Fix(note, (_conda_libraries(context, version), *_activation(context)))
    commands = _from_repository(context, "cuda-libraries", version, f"CUDA {version} libraries")
    return Fix(f"{summary} NVIDIA's archive: {_ARCHIVE}.", commands)


def install_nvcc(context: Context, build: Build, cuda: str, why: str) -> Fix:
    """Bring nvcc with ptxas and libdevice: as the wheel a build asks for, else from NVIDIA's repository."""
    wheels = build.release.cuda_wheels if build.release else ()
    wheel = next((item for item in wheels if item.startswith("nvidia-cuda-nvcc")), "")
    if wheel:
        return Fix(why, install_steps(context, wheel))
    return Fix(why, _from_repository(context, "cuda-nvcc", _full(context, cuda), "nvcc, ptxas and libdevice"))


def install_cudnn(context: Context, build: Build) -> Fix:
    """Bring the cuDNN a build was made with: from conda, as a wheel, else from NVIDIA's archive."""
    cudnn, cuda = built_with(build), get_value(build.cuda)
    if cudnn is None or not numbers(cudnn):
        return Fix(f"Install the cuDNN {build.label} was built with, for its CUDA. NVIDIA's archive: {_CUDNN_ARCHIVE}.")
    wanted, major, of = f"cuDNN {_minor(cudnn)}", numbers(cudnn)[0], numbers(cuda or "")[:1]
    of_cuda = f" for CUDA {of[0]}" if of else ""
    summary = f"Install {wanted}{of_cuda}, or a newer {major}.x; {build.label} was built with it."
    if get_value(context.facts.python.kind) == "conda":
        return Fix(summary, (conda_install(f"cudnn={major}"), *_activation(context)))
    wheel = f"nvidia-cudnn-cu{of[0]}" if of else ""
    if wheel and _is_published(context, wheel):
        folders = (f"{build.facts.location}/nvidia/cudnn/lib",) if build.facts and build.facts.location else ()
        pip = install_steps(context, f"{wheel}>={_minor(cudnn)},<{major + 1}")
        return Fix(summary, (*pip, *(() if brings_cuda(build) else library_path_hook(context, folders))))
    return Fix(f"{summary} NVIDIA's archive: {_CUDNN_ARCHIVE}.")


def older_cudnn(context: Context, build: Build, version: str, capability: str) -> Fix:
    """Go back to the newest cuDNN that still serves a GPU, as far as the build allows."""
    needed, (major, minor) = numbers(built_with(build) or "")[:2], numbers(version)[:2]
    lowest = needed[1] if len(needed) > 1 else 0
    for candidate in range(minor - 1, lowest - 1, -1):
        row = context.matrix.cudnn(f"{major}.{candidate}")
        if row and row.compute_capability_min and numbers(row.compute_capability_min) <= numbers(capability):
            wheels = [name for name in context.distributions if name.startswith("nvidia-cudnn-cu")]
            pinned = build.framework == "torch" and len(needed) > 1  # PyTorch's wheels pin one cuDNN exactly
            limits = f"=={built_with(build)}" if pinned else f">={major}.{lowest},<{major}.{candidate + 1}"
            steps = install_steps(context, f"{wheels[0]}{limits}") if wheels else ()
            last = f"cuDNN {row.version} is the last that serves compute capability {capability}"
            return Fix(f"Go back to an older cuDNN: {last}.", steps)
    return Fix(
        f"No cuDNN that {build.label} accepts serves compute capability {capability}: use an older release of it."
    )


def _is_published(context: Context, wheel: str) -> bool:
    """Tell whether a wheel of that name exists: some release of a framework asks for it."""
    releases = context.matrix.releases("torch", context.platform)
    return any(item.startswith(wheel) for release in releases for item in release.cuda_wheels)


def is_plain_path(path: str) -> bool:
    """Tell whether a path can be shown within a shell line as it is."""
    return re.fullmatch(r"/[\w./+~-]+", path) is not None


def _conda_libraries(context: Context, version: str) -> Command:
    # conda-forge's one package gave way to many when CUDA's sonames gave up the minor version.
    major_only = context.matrix.cuda_sonames(version).get("cudart", "").endswith(f".so.{numbers(version)[0]}")
    return (
        conda_install(f"cuda-version={version}", "cuda-libraries")
        if major_only
        else conda_install(f"cudatoolkit={version}")
    )


def _activation(context: Context) -> tuple[Command, ...]:
    prefix = get_value(context.facts.python.prefix)
    return library_path_hook(context, (f"{prefix}/lib",)) if prefix else ()


def _from_repository(context: Context, what: str, version: str, purpose: str) -> tuple[Command, ...]:
    """Install one of NVIDIA's packages where their repository, or winget, serves this system; () elsewhere."""
    if context.os == "windows":
        argv = ("winget", "install", "Nvidia.CUDA", "--version", version)
        return (Command(argv, "system", f"the CUDA Toolkit {version}"),)
    return install(context, what, f"{purpose}, from NVIDIA's repository", cuda=version.replace(".", "-"))


def _full(context: Context, cuda: str) -> str:
    """Complete a bare major version with the newest minor the matrix lists: 11 -> 11.8."""
    if len(numbers(cuda)) > 1:
        return _minor(cuda)
    lines = (row.version for row in context.matrix.toolkits())
    return next((line for line in lines if numbers(line)[:1] == numbers(cuda)), cuda)


def _minor(version: str) -> str:
    return ".".join(map(str, numbers(version)[:2]))

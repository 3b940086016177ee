"""What to do about the libraries that frameworks load.

The CUDA wheels, cuDNN, TensorRT, and libraries of the system.
"""

from __future__ import annotations

import posixpath
import re

from envcheck.actions import (
    APT,
    CreateEnvironment,
    InstallPackages,
    InstallSystemPackages,
    LinkFile,
    SetVariables,
)
from envcheck.frameworks import identities, identity
from envcheck.model import (
    ENVIRONMENT,
    Alternative,
    FrameworkRelease,
    Remedy,
    major_minor,
    numbers,
    replace,
)
from envcheck.model.fixes import (
    BoundCudnn,
    ExposeCudaWheels,
    InstallCudaLibraries,
    InstallCudnn,
    InstallOlderCudnn,
    InstallSystemLibrary,
    InstallTensorrt,
    ReplaceCudaWheels,
    StartActivated,
    UseFreshEnvironment,
)
from envcheck.model.versions import write_pin
from envcheck.remedies.frameworks import install_build_of_log
from envcheck.remedies.rows import machine_steps
from envcheck.remedies.situation import (
    DEBIAN,
    PLAIN_FILE,
    PROGRAM_SHELL,
    UBUNTU,
    Situation,
    install_conda_packages,
)
from envcheck.remedies.system import CudnnPackage, install_anywhere, system_packages
from envcheck.remedies.toolkit import activate_conda_libraries, list_matching_builds
from envcheck.rules.builds import Build, brings_cuda, built_with
from envcheck.rules.gpu_releases import gpu_rows

_ARCHIVE = "https://developer.nvidia.com/cudnn-archive"


# cuDNN.


def install_cudnn(situation: Situation, fix: InstallCudnn) -> Remedy | None:
    """Install the cuDNN that a build was made with, for its CUDA."""
    build = situation.build(fix.framework, fix.distribution)
    version = fix.version or (built_with(build) if build else None) or ""
    cuda = fix.cuda or (build.cuda.value if build else None) or ""
    if not numbers(version):
        return _install_named_libraries(situation, fix, build)
    summary = _describe_cudnn(fix, build, version, cuda)
    ways = _list_ways(situation, fix, build, version, numbers(cuda)[:1])
    if not ways:
        return Remedy(f"{summary} NVIDIA's archive: {_ARCHIVE}.")
    first, *others = ways
    if first.actions[0].scope == ENVIRONMENT:
        archive = ""
    else:
        archive = f" NVIDIA's archive: {_ARCHIVE}."
    return Remedy(summary + archive, first.actions, tuple(others))


def _describe_cudnn(fix: InstallCudnn, build: Build | None, version: str, cuda: str) -> str:
    summary = f"Install cuDNN {major_minor(version) if build else version}"
    if cuda:
        summary += f" for CUDA {numbers(cuda)[0] if build else cuda}"
    if "." in version and not fix.exact:
        summary += f", or a newer {numbers(version)[0]}.x"
    if build:
        summary += f"; {build.label} was built with it"
    return f"{summary}."


def _install_named_libraries(
    situation: Situation, fix: InstallCudnn, build: Build | None
) -> Remedy | None:
    steps = situation.install_gpu_build(fix.framework) if situation.from_log else ()
    if build is not None:
        built = f"{build.label} was built with, for its CUDA"
        return Remedy(f"Install the cuDNN that {built}. NVIDIA's archive: {_ARCHIVE}.", steps)
    if steps:
        return Remedy("Install the framework with the CUDA libraries that it requires.", steps)
    return None


def _list_ways(
    situation: Situation,
    fix: InstallCudnn,
    build: Build | None,
    version: str,
    cuda_major: tuple[int, ...],
) -> list[Alternative]:
    """List the ways to a cuDNN, the one for this machine first."""
    major = numbers(version)[0]
    if situation.os == "windows":
        check = machine_steps("cudnn-dll", sudo=False, major=str(major))
        return [Alternative("On Windows:", check)]
    conda = _install_with_conda(situation, version)
    wheel = _install_wheel(situation, fix, build, version, cuda_major)
    if situation.has_conda:
        return [*conda, *wheel]
    apt = _install_with_apt(situation, fix, major, cuda_major)
    # the step after it lets the loader look there
    is_reachable = any(len(way.actions) > 1 for way in wheel)
    is_reachable = is_reachable or (
        brings_cuda(build) if build else _finds_wheels(situation, fix, version)
    )
    # the loader looks where apt puts it
    return [*wheel, *conda, *apt] if is_reachable else [*apt, *conda, *wheel]


def _install_wheel(
    situation: Situation,
    fix: InstallCudnn,
    build: Build | None,
    version: str,
    cuda_major: tuple[int, ...],
) -> list[Alternative]:
    """Install the wheel, with what lets a build that does not look there find it."""
    major, line = numbers(version)[0], major_minor(version)
    cuda_major = cuda_major or _find_cuda_of_cudnn(situation, fix, build, version)
    if not cuda_major and fix.site_packages:
        package_row = _find_cudnn_package(major)
        cuda_major = numbers(package_row.usual_cuda) if package_row else ()
    wheel = f"nvidia-cudnn-cu{cuda_major[0]}" if cuda_major else ""
    if (
        not wheel
        or major < system_packages().cudnn.first_wheel
        or not _is_published(situation, wheel)
    ):
        return []
    limits = f"=={line}.*" if fix.exact else f">={line},<{major + 1}"
    steps = situation.install(_find_pinned_wheel(build, wheel) or f"{wheel}{limits}")
    if build is not None and not brings_cuda(build):
        folder = ""
        if build.facts and build.facts.location:
            folder = f"{build.facts.location}/nvidia/cudnn/lib"
        steps = (*steps, *(situation.add_loader_folders((folder,)) if folder else ()))
    elif (
        fix.site_packages and steps
    ):  # a program that loads cuDNN itself looks only where it is told to
        folder = f"{fix.site_packages}/nvidia/cudnn/lib:$LD_LIBRARY_PATH"
        steps = (*steps, SetVariables((("LD_LIBRARY_PATH", folder),), PROGRAM_SHELL))
    if steps:
        return [Alternative("If the framework uses CUDA from wheels:", steps)]
    return []


def _find_pinned_wheel(build: Build | None, wheel: str) -> str:
    """Return the requirement of the cuDNN that a build asks for, or "".

    It is such as nvidia-cudnn-cu12==9.1.0.70.
    """
    wheels = build.release.cuda_wheels if build is not None and build.release else ()
    return next((item for item in wheels if item.startswith(f"{wheel}==")), "")


def _list_releases_with_cudnn(
    situation: Situation, fix: InstallCudnn, cudnn: str
) -> list[FrameworkRelease]:
    """List the releases that load a cuDNN of this major from outside, newest first."""
    rows = gpu_rows(situation.context, fix.framework) if fix.framework else ()
    return [row for row in rows if row.cudnn and numbers(row.cudnn)[:1] == numbers(cudnn)[:1]]


def _finds_wheels(situation: Situation, fix: InstallCudnn, cudnn: str) -> bool:
    """Return whether every release that may be meant finds the cuDNN of a wheel."""
    rows = _list_releases_with_cudnn(situation, fix, cudnn)
    return bool(rows) and all(row.finds_cuda_wheels for row in rows)


def _find_cuda_of_cudnn(
    situation: Situation, fix: InstallCudnn, build: Build | None, cudnn: str
) -> tuple[int, ...]:
    """Return the CUDA major that the newest release with this minor of cuDNN goes with.

    Return () where a build is known, or none.
    """
    rows = _list_releases_with_cudnn(situation, fix, cudnn) if build is None else []
    same_minor = [row for row in rows if major_minor(row.cudnn or "") == major_minor(cudnn)]
    newest = next(iter(same_minor or rows), None)
    return numbers(newest.cuda)[:1] if newest else ()


def _install_with_conda(situation: Situation, version: str) -> list[Alternative]:
    line = major_minor(version)
    builds = list_matching_builds(situation.matrix.conda_builds("cudnn"), line)
    if not builds:
        return []
    channel = builds[0].channel
    activation = activate_conda_libraries(situation) if situation.has_conda else ()
    return [
        Alternative(
            "Into a conda environment:",
            (install_conda_packages(f"cudnn={line}", channel=channel), *activation),
        )
    ]


def _find_cudnn_package(major: int) -> CudnnPackage | None:
    for item in reversed(system_packages().cudnn.apt):
        if item.first <= major:
            return item
    return None


def _install_with_apt(
    situation: Situation, fix: InstallCudnn, major: int, cuda_major: tuple[int, ...]
) -> list[Alternative]:
    packages, package_row = system_packages().cudnn, _find_cudnn_package(major)
    if package_row is None or fix.exact or situation.os == "darwin":
        return []
    if situation.is_distribution_known and situation.distribution not in (DEBIAN, UBUNTU):
        return []
    published_for = packages.released.get(str(major))
    version = f"{situation.distribution} {situation.distribution_version}"
    if published_for and situation.distribution_version and version not in published_for:
        return []
    package = package_row.package.format(
        major=major, cuda=cuda_major[0] if cuda_major else package_row.usual_cuda
    )
    summary = (
        "Debian and Ubuntu, from NVIDIA's repository;"
        " in a container, use an image with -cudnn in its name:"
    )
    return [Alternative(summary, (InstallSystemPackages(APT, (package,), situation.sudo),))]


def bound_cudnn(situation: Situation, fix: BoundCudnn) -> Remedy | None:
    """Install a requested release with a cuDNN that still serves the GPUs."""
    framework = situation.framework(fix.framework)
    if framework is None:
        return None
    main = framework.main
    requirement = write_pin(main.distribution, main.version, framework.extras)
    return Remedy(
        f"Install {requirement} with {fix.requirement}.",
        situation.install(requirement, fix.requirement),
    )


def install_older_cudnn(situation: Situation, fix: InstallOlderCudnn) -> Remedy | None:
    """Go back to the newest cuDNN that still serves a GPU, as far as the build allows."""
    build = situation.build(fix.framework, fix.distribution)
    if build is None:
        return None
    built = built_with(build) or ""
    needed, (major, minor) = numbers(built)[:2], numbers(fix.version)[:2]
    lowest = needed[1] if len(needed) > 1 else 0
    for candidate in range(minor - 1, lowest - 1, -1):
        row = situation.matrix.cudnn(f"{major}.{candidate}")
        if (
            row
            and row.compute_capability_min
            and numbers(row.compute_capability_min) <= numbers(fix.capability)
        ):
            wheels = [
                name
                for name in situation.context.distributions
                if name.startswith("nvidia-cudnn-cu")
            ]
            is_pinned = build.traits.cuda.pins_cudnn and len(needed) > 1
            if is_pinned:
                limits = f"=={built}"
            else:
                limits = f">={major}.{lowest},<{major}.{candidate + 1}"
            steps = situation.install(f"{wheels[0]}{limits}") if wheels else ()
            reason = (
                f"cuDNN {row.version} is the last that supports compute capability {fix.capability}"
            )
            return Remedy(f"Go back to an older cuDNN: {reason}.", steps)
    none = f"No cuDNN that {build.label} accepts supports compute capability {fix.capability}"
    return Remedy(f"{none}: use an older release of it.")


def _is_published(situation: Situation, wheel: str) -> bool:
    """Return whether a wheel of that name exists: some release of a framework asks for it."""
    pinning = (item.name for item in identities() if item.cuda.pins_cudnn)
    asking = (
        row
        for name in pinning
        for row in gpu_rows(situation.context, name)
        or situation.matrix.releases(name, "linux_x86_64")
    )
    return any(item.startswith(wheel) for row in asking for item in row.cuda_wheels)


# TensorRT, and libraries of the system.


def install_tensorrt(situation: Situation, fix: InstallTensorrt) -> Remedy | None:
    """Install the TensorRT that a release was built with."""
    row = situation.release_row(fix.framework, fix.release)
    if row is None or not row.tensorrt or row.tensorrt == "none":
        return None
    requirement = f"tensorrt=={row.tensorrt}" + (".*" if row.tensorrt.count(".") < 3 else "")
    summary = f"Install TensorRT {row.tensorrt}, which {row.label} was built with."
    if numbers(row.tensorrt) < numbers(system_packages().tensorrt.first_wheel):
        return Remedy(f"{summary} NVIDIA's archive: https://developer.nvidia.com/tensorrt.")
    return Remedy(summary, situation.install(requirement))


def install_system_library(situation: Situation, fix: InstallSystemLibrary) -> Remedy:
    """Say where a library comes from that no wheel of the framework brings."""
    if fix.library.startswith(("libav", "libsw")):
        return _install_ffmpeg(situation)
    stem = fix.library.partition(".so")[0]
    summary = f"Install the system package that contains {fix.library}."
    if stem not in system_packages().packages:
        return Remedy(summary)
    return Remedy(summary, *install_anywhere(situation, stem, f"contains {fix.library}"))


def _install_ffmpeg(situation: Situation) -> Remedy:
    steps, elsewhere = install_anywhere(situation, "ffmpeg", "FFmpeg and its shared libraries")
    show = machine_steps("ffmpeg", sudo=False)
    conda = Alternative("In a conda environment:", (install_conda_packages("ffmpeg"),))
    summary = (
        "Install FFmpeg with its shared libraries, in a major version that the package supports."
    )
    return Remedy(summary, (*steps, *show), (*elsewhere, conda))


# The CUDA libraries that come as wheels into an environment.


def install_cuda_libraries(situation: Situation, fix: InstallCudaLibraries) -> Remedy | None:
    """Install them from the index of the framework's build.

    Where none are named, a build that brings its own.
    """
    if not fix.requirements:
        return _install_build_with_libraries(situation, fix.framework)
    steps = situation.install(*fix.requirements, index=fix.index)
    return Remedy(f"Install {' and '.join(fix.requirements)}; no CUDA Toolkit is needed.", steps)


def _install_build_with_libraries(situation: Situation, name: str) -> Remedy | None:
    steps = situation.install_gpu_build(name)
    if identity(name).cuda.brings_libraries:
        summary = f"Reinstall {name} with the nvidia-* wheels that it requires, without --no-deps."
        return Remedy(summary, (*situation.uninstall(name), *steps))
    extra = identity(name).plans.gpu_requirement
    if not extra:
        return None
    windows = ""
    if situation.os in ("", "windows"):
        windows = " Windows has none: use WSL 2."
    return Remedy(f"Install the framework with its CUDA libraries: {extra}.{windows}", steps)


def start_activated(situation: Situation, _: StartActivated) -> Remedy:
    """Activate it by hand."""
    return Remedy("Activate the environment before you start a program.", situation.activate())


def expose_cuda_wheels(situation: Situation, fix: ExposeCudaWheels) -> Remedy:
    """Link the libraries where the framework looks, else add their folders to the path."""
    alternatives: tuple[Alternative, ...] = ()
    if fix.requirement:
        summary = f"Install {fix.requirement}, which finds them."
        alternatives = (Alternative(summary, situation.install(fix.requirement)),)
    links = _link_libraries(situation, fix)
    if links:
        names = ", ".join(posixpath.basename(link.link) for link in links)
        summary = f"Link {names} into {fix.reached}, where the framework looks."
        return Remedy(summary, links, alternatives)
    summary = "Add the wheels' folders to the loader's path when the environment is activated."
    return Remedy(summary, situation.add_loader_folders(fix.folders), alternatives)


def _link_libraries(situation: Situation, fix: ExposeCudaWheels) -> tuple[LinkFile, ...]:
    """Link libraries by paths that hold wherever the environment lies."""
    reached, paths = fix.reached, fix.links
    if (
        not reached
        or situation.os != "linux"
        or not all(re.fullmatch(PLAIN_FILE, path) for path in (reached, *paths))
    ):
        return ()
    return tuple(
        LinkFile(posixpath.relpath(path, reached), f"{reached}/{posixpath.basename(path)}")
        for path in paths
    )


def replace_cuda_wheels(situation: Situation, fix: ReplaceCudaWheels) -> Remedy:
    """Remove the wheels, and force the others to be written again."""
    reinstalled = " and ".join(text.partition("==")[0] for text in fix.requirements)
    steps = (*situation.uninstall(*fix.removed), *situation.install(*fix.requirements, force=True))
    summary = (
        f"Remove {', '.join(fix.removed)}, then reinstall"
        f" {reinstalled}, whose files were overwritten."
    )
    return Remedy(summary, steps)


def use_fresh_environment(situation: Situation, fix: UseFreshEnvironment) -> Remedy | None:
    """Install the build of the log into a new environment; None where none is known for it."""
    create = CreateEnvironment(".venv-new", starter=(situation.python,))
    python = create.interpreter(situation.os)
    steps = install_build_of_log(situation, fix.framework)
    fresh = tuple(
        replace(item, python=python) for item in steps if isinstance(item, InstallPackages)
    )
    summary = "Make a fresh environment with one framework, and install no nvidia-* wheels by hand."
    return Remedy(summary, (create, *fresh)) if fresh else None

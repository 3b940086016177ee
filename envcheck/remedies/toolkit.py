"""What to do about CUDA beside a framework: toolkit, cuDNN, TensorRT, host compiler, loader paths, extensions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from envcheck.actions import (
    APT,
    Action,
    InstallCondaPackages,
    InstallPackages,
    InstallSystemPackages,
    LinkFile,
    MakeFolder,
    RunEnvcheck,
    SetVariables,
    Show,
    UnsetVariable,
)
from envcheck.frameworks import Framework, identities, identity
from envcheck.matrix.companions import (
    SourceBuild,
    SourceInstall,
    TorchBuild,
    find_file,
    shares_cuda,
    source_package,
)
from envcheck.matrix.package_index import cuda_label, index_url
from envcheck.model import (
    ENVIRONMENT,
    LINUX,
    SYSTEM,
    USER,
    WINDOWS,
    Absent,
    Alternative,
    CondaBuild,
    FrameworkRelease,
    Problem,
    Remedy,
    ToolkitInstall,
    Unknown,
    major_minor,
    numbers,
    replace,
)
from envcheck.model.fixes.packages import InstallDependant
from envcheck.model.specifiers import matches, within
from envcheck.remedies import remedy
from envcheck.remedies.packages import install_dependant
from envcheck.remedies.situation import DEBIAN, UBUNTU, Situation, find_setting, install_conda_packages, set_entries
from envcheck.remedies.system import (
    CudnnPackage,
    install,
    install_anywhere,
    install_compiler,
    install_visual_studio,
    install_windows_toolkit,
    set_host_compiler,
    system_packages,
)
from envcheck.rules.builds import Build, brings_cuda, built_with, is_conda_build, is_free_threaded
from envcheck.rules.compilers import toolkits_with_nvcc
from envcheck.rules.context import Context
from envcheck.rules.described_machine import capabilities
from envcheck.rules.gpu_releases import gpu_rows

_ARCHIVE = "https://developer.nvidia.com/cuda-toolkit-archive"
_CUDNN_ARCHIVE = "https://developer.nvidia.com/cudnn-archive"
_REPOSITORY = "from NVIDIA's repository"
_PROGRAM_SHELL = "in the program's shell"
_BUILD_SHELL = "in the build shell"


# The toolkit.


@remedy("toolkit-missing", "toolkit-wrong-version")
def install_matching_toolkit(situation: Situation, problem: Problem) -> Remedy | None:
    """Install the CUDA that a build loads, or name the release that takes the one that is there."""
    build = situation.build(problem.framework, problem.distribution) if problem.framework else None
    if "nvcc" in problem.cases and build is not None:
        return install_nvcc(situation, build, problem.cuda, problem.advice)
    if not problem.cuda:
        return _install_one_of(situation, problem)
    if problem.folders:  # installed, and not found
        root = problem.folders[0]
        return Remedy(f"CUDA {problem.cuda} is installed: add it to the search path.", (_use_toolkit(root, problem),))
    if situation.has_conda and not problem.compiles:
        return _install_conda_libraries(situation, problem, build)
    version = complete_version(situation, problem.cuda)
    other_releases = _name_release_for_installed(situation, problem)
    if situation.os == "windows":
        return replace(_install_windows_toolkit(problem, build, version), alternatives=other_releases)
    steps, elsewhere = install_toolkit(situation, version, compiles=problem.compiles)
    return Remedy(_describe_toolkit(problem, build, version), steps, (*elsewhere, *other_releases))


def _describe_toolkit(problem: Problem, build: Build | None, version: str) -> str:
    if problem.compiles:
        return f"Build with CUDA {version}{' next to the installed one' if problem.value('installed') else ''}."
    built = f"; {build.label} was built for CUDA {problem.cuda}" if build else ""
    return f"Install the CUDA {version} libraries{built}. NVIDIA's archive: {_ARCHIVE}."


def _install_windows_toolkit(problem: Problem, build: Build | None, version: str) -> Remedy:
    return Remedy(_describe_toolkit(problem, build, version), install_windows_toolkit(version))


def _install_conda_libraries(situation: Situation, problem: Problem, build: Build | None) -> Remedy:
    version = complete_version(situation, problem.cuda)
    libraries = _find_conda_toolkit(situation, version) or install_conda_packages(f"cudatoolkit={version}")
    built = f"; {build.label} was built for CUDA {problem.cuda}" if build else ""
    summary = f"Install the CUDA {version} libraries{built}."
    note = f"{summary} Then have the activation script add its lib folder to LD_LIBRARY_PATH."
    return Remedy(note, (libraries, *_activate_conda_libraries(situation)), _install_outside_conda(situation, version))


def _activate_conda_libraries(situation: Situation) -> tuple[Action, ...]:
    if situation.prefix:
        return situation.add_loader_folders((f"{situation.prefix}/lib",))
    return (SetVariables((("LD_LIBRARY_PATH", "$CONDA_PREFIX/lib:$LD_LIBRARY_PATH"),), _PROGRAM_SHELL),)


def _install_outside_conda(situation: Situation, version: str, *, compiles: bool = False) -> tuple[Alternative, ...]:
    if situation.os != "linux":
        return ()
    steps, elsewhere = _install_from_repository(situation, version, compiles=compiles)
    return (Alternative("Outside conda, from NVIDIA's repository:", steps), *elsewhere)


def _install_one_of(situation: Situation, problem: Problem) -> Remedy | None:
    """Say which release was built with which of the CUDA lines that hold what is missing."""
    lines = tuple(problem.value("cuda_lines").split())
    if not lines:
        return None
    framework = identity(problem.framework) if problem.framework else None
    built = _list_releases_by_cuda(situation, framework, lines) if framework and framework.build_info else []
    cuda_text = ", ".join(built) or (lines[0] if len(lines) == 1 else f"one of {lines[-1]} to {lines[0]}")
    summary = f"Install the CUDA that the release was built with: {cuda_text}; or a release for the installed CUDA"
    check: Action = _DOCTOR
    if framework and built:
        hint = f"envcheck matrix show {framework.name}==VERSION shows it without installing"
        check = situation.run_python(framework.build_info, f"the CUDA and cuDNN of {framework.title}; {hint}")
    return Remedy(f"{summary}. NVIDIA's archive: {_ARCHIVE}.", (check,))


_DOCTOR = RunEnvcheck(("doctor",), "shows the CUDA that the build needs, and the installed CUDA")


def _list_releases_by_cuda(situation: Situation, framework: Framework, lines: tuple[str, ...]) -> list[str]:
    """Name the releases of a framework for each CUDA line, newest first: CUDA 11.0 for TensorFlow 2.4."""
    # The first release of each minor stands for all of it: its patches are for the same CUDA and fewer platforms.
    first = {major_minor(version): version for version in situation.matrix.versions(framework.name)}
    releases: dict[str, list[str]] = {}
    for minor, version in first.items():
        for cuda in situation.matrix.cudas(framework.name, version, situation.context.platform):
            if cuda in lines:
                releases.setdefault(cuda, []).append(minor)
    return [
        f"CUDA {cuda} for {framework.title} {minors[-1]}" + (f" to {minors[0]}" if minors[0] != minors[-1] else "")
        for cuda, minors in releases.items()
    ]


def install_build_toolkit(situation: Situation, cuda: str) -> tuple[tuple[Action, ...], tuple[Alternative, ...]]:
    """Install a whole toolkit and point the build at it."""
    return install_toolkit(situation, complete_version(situation, cuda), compiles=True)


def install_toolkit(
    situation: Situation, version: str, *, compiles: bool
) -> tuple[tuple[Action, ...], tuple[Alternative, ...]]:
    """Install a CUDA line from NVIDIA's repository and point the loader, or the build, at it; and the other ways."""
    if situation.os in ("windows", "darwin") or len(numbers(version)) < 2:
        check = Show(("nvcc", "--version"), f"must say {version}; NVIDIA's archive: {_ARCHIVE}", ENVIRONMENT)
        return (replace(check, systems=(LINUX, WINDOWS)),), ()
    conda_steps = _install_with_conda(situation, version, compiles=compiles)
    if situation.has_conda and conda_steps:
        return conda_steps, _install_outside_conda(situation, version, compiles=compiles)
    steps, elsewhere = _install_from_repository(situation, version, compiles=compiles)
    return steps, (*elsewhere, *((Alternative("In a conda environment:", conda_steps),) if conda_steps else ()))


def _install_from_repository(
    situation: Situation, version: str, *, compiles: bool
) -> tuple[tuple[Action, ...], tuple[Alternative, ...]]:
    """Install a CUDA line from NVIDIA's repository and point the loader, or the build, at it."""
    summary = "cuda-toolkit" if compiles else "cuda-libraries"
    purpose = _REPOSITORY if compiles else f"CUDA {version} libraries, {_REPOSITORY}"
    steps, elsewhere = install_anywhere(situation, summary, purpose, cuda=version.replace(".", "-"))
    return (*steps, point_at_toolkit(f"/usr/local/cuda-{version}", compiles=compiles)), elsewhere


def point_at_toolkit(root: str, *, compiles: bool) -> SetVariables:
    """Point the build, or the loader, at a toolkit."""
    if compiles:
        return SetVariables((("CUDA_HOME", root), ("PATH", f"{root}/bin:$PATH")), _BUILD_SHELL)
    return SetVariables((("LD_LIBRARY_PATH", f"{root}/lib64:$LD_LIBRARY_PATH"),), _PROGRAM_SHELL)


def _use_toolkit(root: str, problem: Problem) -> SetVariables:
    return point_at_toolkit(root, compiles=problem.compiles)


def _install_with_conda(situation: Situation, cuda: str, *, compiles: bool) -> tuple[Action, ...]:
    """Install a CUDA line into a conda environment, from a channel that has it."""
    if compiles:
        nvcc = system_packages().conda_nvcc
        is_available = numbers(cuda) >= numbers(nvcc.first)
        return (install_conda_packages(f"cuda-nvcc={cuda}", channel=nvcc.channel),) if is_available else ()
    found = _find_conda_toolkit(situation, cuda)
    return (found, *_activate_conda_libraries(situation)) if found else ()


def _find_conda_toolkit(situation: Situation, cuda: str) -> InstallCondaPackages | None:
    """Install the libraries of a CUDA line with conda: one package, or many beside one that fixes the line."""
    toolkit_builds, version_builds = (
        situation.matrix.conda_builds("cudatoolkit"),
        situation.matrix.conda_builds("cuda-version"),
    )
    channels = [row.channel for row in toolkit_builds if cuda in row.cuda]
    if channels:
        return install_conda_packages(f"cudatoolkit={cuda}", channel=channels[0])
    if _list_matching_builds(version_builds, cuda) and not _list_matching_builds(toolkit_builds, cuda):
        return install_conda_packages(f"cuda-version={cuda}", "cuda-libraries")
    return None


def _list_matching_builds(rows: Iterable[CondaBuild], version: str) -> list[CondaBuild]:
    """List the builds on conda's channels whose versions admit one."""
    from packaging.specifiers import SpecifierSet

    return [row for row in rows if SpecifierSet(row.versions).contains(version)]


def _name_release_for_installed(situation: Situation, problem: Problem) -> tuple[Alternative, ...]:
    """Name the release of the framework that takes the CUDA that is there, and the command that installs it."""
    line = major_minor(problem.value("installed"))
    if not line or not problem.framework:
        return ()
    rows = situation.matrix.releases(problem.framework, situation.context.platform)
    identity_row = identity(problem.framework)
    if identity_row.index:
        named_row = situation.release_row(identity_row.name, problem.release)
        matching = (
            [named_row] if named_row and line in named_row.variants else [row for row in rows if line in row.variants]
        )
        if not matching:
            return ()
        index = index_url(identity_row.name, cuda_label(line))
        step = InstallPackages((f"{identity_row.name}=={matching[0].version}",), situation.python, index=index)
        return (Alternative(f"Install a {identity_row.name} for CUDA {line}, such as {matching[0].version}.", (step,)),)
    near = [row for row in rows if row.cuda == line]
    return (Alternative(f"Use {near[0].distribution} {near[0].version}, which loads CUDA {line}."),) if near else ()


def complete_version(situation: Situation, cuda: str) -> str:
    """Complete a bare major version with the newest minor the matrix lists: 11 becomes 11.8."""
    if len(numbers(cuda)) > 1:
        return _parse_minor(cuda)
    lines = (row.version for row in situation.matrix.toolkits())
    return next((line for line in lines if numbers(line)[:1] == numbers(cuda)), cuda)


def install_nvcc(situation: Situation, build: Build, cuda: str, summary: str) -> Remedy:
    """Install nvcc with ptxas and libdevice: as the wheel a build asks for, else from NVIDIA's repository."""
    wheels = build.release.cuda_wheels if build.release else ()
    wheel = next((item for item in wheels if item.startswith("nvidia-cuda-nvcc")), "")
    if wheel:
        return Remedy(summary, situation.install(wheel))
    version = complete_version(situation, cuda)
    if situation.os == "windows":
        steps = install_windows_toolkit(version)
        return Remedy(summary if steps else f"{summary} NVIDIA's archive: {_ARCHIVE}.", steps)
    purpose = f"nvcc, ptxas and libdevice, {_REPOSITORY}"
    return Remedy(summary, *install_anywhere(situation, "cuda-nvcc", purpose, cuda=version.replace(".", "-")))


# What XLA compiles with.


@remedy("libdevice-missing")
def find_libdevice(situation: Situation, problem: Problem) -> Remedy | None:
    """Let XLA find libdevice, or install it."""
    build = next((item for item in situation.builds if identity(item.framework).needs_libdevice), None)
    if "elsewhere" in problem.cases:
        return _name_libdevice(situation, problem)
    if build is None or not problem.cuda:
        return None
    return install_nvcc(situation, build, problem.cuda, "Install the part of CUDA that contains libdevice.")


def _name_libdevice(situation: Situation, problem: Problem) -> Remedy:
    root = problem.folders[0]
    flags = SetVariables((("XLA_FLAGS", f"--xla_gpu_cuda_data_dir={root}"),), "in the environment's activation script")
    steps = (*_link_libdevice(root, problem.value("path")), flags) if is_plain_path(root) else ()
    return Remedy("Set XLA_FLAGS to that folder in the environment's activation script.", steps)


def _link_libdevice(root: str, path: str) -> tuple[Action, ...]:
    """Link a libdevice that lies elsewhere in its toolkit, as in conda's cudatoolkit, to where XLA looks below it."""
    folder = f"{root}/nvvm/libdevice"
    if path.startswith(folder + "/") or not (is_plain_path(path) and is_plain_path(folder)):
        return ()
    link = LinkFile(path, f"{folder}/libdevice.10.bc")
    return (MakeFolder(folder, "XLA searches this subfolder"), link)


@remedy("ptxas-problem")
def use_newer_ptxas(situation: Situation, problem: Problem) -> Remedy | None:
    """Put a ptxas that knows the GPU first."""
    row = situation.matrix.architecture(problem.capability)
    first = row.first_toolkit if row else None
    if first is None:
        return None
    if "bundled" in problem.cases:
        return _name_ptxas(problem, first)
    build = situation.build(problem.framework, problem.distribution) if problem.framework else None
    if build is not None:
        found = install_nvcc(situation, build, first, f"Put a ptxas of CUDA {first} or newer first on PATH.")
        if not any(item.scope == SYSTEM for item in found.actions):
            return found
        before = SetVariables((("PATH", f"/usr/local/cuda-{first}/bin:$PATH"),), "where training is started")
        changed: Remedy = replace(found, actions=(*found.actions, before))  # it lies beside the one that is called
        return changed
    root = f"/usr/local/cuda-{first}/bin"
    summary = f"Let the ptxas of CUDA {first} or newer be found first: none before it knows {problem.capability}."
    look = Show(("ptxas", "--version"), "the one that is found now", ENVIRONMENT)
    triton = ((name, f"{root}/ptxas") for name in ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"))
    named = (("PATH", f"{root}:$PATH"), *triton)
    return Remedy(summary, (look, SetVariables(named, "where that toolkit is installed; Triton reads its own two")))


def _name_ptxas(problem: Problem, first: str) -> Remedy:
    """Name another ptxas to a package that calls its own."""
    variable, newer, path = (problem.value(name) for name in ("variable", "newer", "path"))
    upgrade = f"install a torch that requires {newer} or newer" if newer else ""
    if not variable:
        return Remedy(f"{upgrade[:1].upper()}{upgrade[1:]}.")
    place = "in the program's shell" if path else "where that toolkit is installed"
    named = SetVariables(((variable, path or f"/usr/local/cuda-{first}/bin/ptxas"),), place)
    options = f", or {upgrade}" if upgrade else ""
    return Remedy(f"Let the ptxas of CUDA {first} or newer be called{options}.", (named,))


# cuDNN.


@remedy("cudnn-missing", "cudnn-wrong-major", "cudnn-too-old", "cudnn-wrong-cuda-build", "cudnn-too-new")
def install_matching_cudnn(situation: Situation, problem: Problem) -> Remedy | None:
    """Install the cuDNN that a build was made with, for its CUDA."""
    build = situation.build(problem.framework, problem.distribution) if problem.framework else None
    if "requested" in problem.cases and build is not None:
        return _bound_cudnn(situation, build, problem)
    if "dropped-gpu" in problem.cases and build is not None:
        return _install_older_cudnn(situation, build, problem.cudnn, problem.capability)
    version = problem.cudnn or (built_with(build) if build else None) or ""
    cuda = problem.cuda or (build.cuda.value if build else None) or ""
    if not numbers(version):
        return _install_named_libraries(situation, problem, build)
    cuda_major = numbers(cuda)[:1]
    summary = _describe_cudnn(problem, build, version, cuda)
    alternatives = _list_cudnn_alternatives(situation, problem, build, version, cuda_major)
    if not alternatives:
        return Remedy(f"{summary} NVIDIA's archive: {_CUDNN_ARCHIVE}.")
    first, *others = alternatives
    archive = "" if first.actions[0].scope == ENVIRONMENT else f" NVIDIA's archive: {_CUDNN_ARCHIVE}."
    return Remedy(summary + archive, first.actions, tuple(others))


def _describe_cudnn(problem: Problem, build: Build | None, version: str, cuda: str) -> str:
    version_text, major = (_parse_minor(version) if build else version), numbers(version)[0]
    cuda_text = f" for CUDA {numbers(cuda)[0] if build else cuda}" if cuda else ""
    newer_text = f", or a newer {major}.x" if "." in version and not problem.exact else ""
    return (
        f"Install cuDNN {version_text}{cuda_text}{newer_text}{f'; {build.label} was built with it' if build else ''}."
    )


def _install_named_libraries(situation: Situation, problem: Problem, build: Build | None) -> Remedy | None:
    steps = situation.install_gpu_build(problem.framework) if situation.from_log else ()
    if build is not None:
        summary = (
            f"Install the cuDNN that {build.label} was built with, for its CUDA. NVIDIA's archive: {_CUDNN_ARCHIVE}."
        )
        return Remedy(summary, steps)
    return Remedy("Install the framework with the CUDA libraries that it requires.", steps) if steps else None


def _list_cudnn_alternatives(
    situation: Situation, problem: Problem, build: Build | None, version: str, cuda_major: tuple[int, ...]
) -> list[Alternative]:
    """List the ways to a cuDNN, the one for this machine first."""
    major = numbers(version)[0]
    if situation.os == "windows":
        check = Show(
            ("where.exe", f"cudnn64_{major}.dll"), "its folder must be on PATH, in the stated version",
            USER, (WINDOWS,),
        )  # fmt: skip
        return [Alternative("On Windows:", (check,))]
    conda = _install_cudnn_with_conda(situation, version)
    wheel = _install_cudnn_wheel(situation, problem, build, version, cuda_major)
    if situation.has_conda:
        return [*conda, *wheel]
    apt = _install_cudnn_with_apt(situation, problem, major, cuda_major)
    is_reachable = any(len(way.actions) > 1 for way in wheel)  # the step after it lets the loader look there
    is_reachable = is_reachable or (brings_cuda(build) if build else _finds_wheels(situation, problem, version))
    return [*wheel, *conda, *apt] if is_reachable else [*apt, *conda, *wheel]  # the loader looks where apt puts it


def _install_cudnn_wheel(
    situation: Situation, problem: Problem, build: Build | None, version: str, cuda_major: tuple[int, ...]
) -> list[Alternative]:
    """Install the wheel, with what lets a build that does not look there find it."""
    major, line = numbers(version)[0], _parse_minor(version)
    cuda_major = cuda_major or _find_cuda_of_cudnn(situation, problem, build, version)
    if not cuda_major and problem.value("site_packages"):
        package_row = _find_cudnn_package(major)
        cuda_major = numbers(package_row.usual_cuda) if package_row else ()
    wheel = f"nvidia-cudnn-cu{cuda_major[0]}" if cuda_major else ""
    if not wheel or major < system_packages().cudnn.first_wheel or not _is_published(situation, wheel):
        return []
    limits = f"=={line}.*" if problem.exact else f">={line},<{major + 1}"
    steps = situation.install(_find_pinned_wheel(build, wheel) or f"{wheel}{limits}")
    if build is not None and not brings_cuda(build):
        folder = f"{build.facts.location}/nvidia/cudnn/lib" if build.facts and build.facts.location else ""
        steps = (*steps, *(situation.add_loader_folders((folder,)) if folder else ()))
    elif problem.value("site_packages") and steps:  # a program that loads cuDNN itself looks only where it is told to
        folder = f"{problem.value('site_packages')}/nvidia/cudnn/lib:$LD_LIBRARY_PATH"
        steps = (*steps, SetVariables((("LD_LIBRARY_PATH", folder),), _PROGRAM_SHELL))
    return [Alternative("If the framework uses CUDA from wheels:", steps)] if steps else []


def _find_pinned_wheel(build: Build | None, wheel: str) -> str:
    """Return the requirement of the very cuDNN that a build asks for: nvidia-cudnn-cu12==9.1.0.70; "" for none."""
    wheels = build.release.cuda_wheels if build is not None and build.release else ()
    return next((item for item in wheels if item.startswith(f"{wheel}==")), "")


def _list_releases_with_cudnn(situation: Situation, problem: Problem, cudnn: str) -> list[FrameworkRelease]:
    """List the releases of a framework that load a cuDNN of this major from outside, newest first."""
    rows = gpu_rows(situation.context, problem.framework) if problem.framework else ()
    return [row for row in rows if row.cudnn and numbers(row.cudnn)[:1] == numbers(cudnn)[:1]]


def _finds_wheels(situation: Situation, problem: Problem, cudnn: str) -> bool:
    """Tell whether every release that may be meant finds the cuDNN of a wheel."""
    rows = _list_releases_with_cudnn(situation, problem, cudnn)
    return bool(rows) and all(row.finds_cuda_wheels for row in rows)


def _find_cuda_of_cudnn(situation: Situation, problem: Problem, build: Build | None, cudnn: str) -> tuple[int, ...]:
    """Return the CUDA major that the newest release with this cuDNN goes with; () where a build is known, or none."""
    rows = _list_releases_with_cudnn(situation, problem, cudnn) if build is None else []
    return numbers(rows[0].cuda or "")[:1] if rows else ()


def _install_cudnn_with_conda(situation: Situation, version: str) -> list[Alternative]:
    line = _parse_minor(version)
    builds = _list_matching_builds(situation.matrix.conda_builds("cudnn"), line)
    if not builds:
        return []
    channel = builds[0].channel
    activation = _activate_conda_libraries(situation) if situation.has_conda else ()
    return [
        Alternative(
            "Into a conda environment:", (install_conda_packages(f"cudnn={line}", channel=channel), *activation)
        )
    ]


def _find_cudnn_package(major: int) -> CudnnPackage | None:
    return next((item for item in reversed(system_packages().cudnn.apt) if item.first <= major), None)


def _install_cudnn_with_apt(
    situation: Situation, problem: Problem, major: int, cuda_major: tuple[int, ...]
) -> list[Alternative]:
    packages, package_row = system_packages().cudnn, _find_cudnn_package(major)
    if package_row is None or problem.exact or situation.os == "darwin":
        return []
    if situation.is_distribution_known and situation.distribution not in (DEBIAN, UBUNTU):
        return []
    published_for = packages.released.get(str(major))
    version = f"{situation.distribution} {situation.distribution_version}"
    if published_for and situation.distribution_version and version not in published_for:
        return []
    package = package_row.package.format(major=major, cuda=cuda_major[0] if cuda_major else package_row.usual_cuda)
    summary = "Debian and Ubuntu, from NVIDIA's repository; in a container, use an image with -cudnn in its name:"
    return [Alternative(summary, (InstallSystemPackages(APT, (package,), situation.sudo),))]


def _bound_cudnn(situation: Situation, build: Build, problem: Problem) -> Remedy:
    """Install a requested release with a cuDNN that still serves the GPUs."""
    framework = situation.framework(build.framework)
    main = framework.main if framework else build
    extras = f"[{','.join(framework.extras)}]" if framework and framework.extras else ""
    requirement = f"{main.distribution}{extras}=={main.version}"
    return Remedy(
        f"Install {requirement} with {problem.requirements[0]}.", situation.install(requirement, *problem.requirements)
    )


def _install_older_cudnn(situation: Situation, build: Build, version: str, capability: str) -> Remedy:
    """Go back to the newest cuDNN that still serves a GPU, as far as the build allows."""
    needed, (major, minor) = numbers(built_with(build) or "")[:2], numbers(version)[:2]
    lowest = needed[1] if len(needed) > 1 else 0
    for candidate in range(minor - 1, lowest - 1, -1):
        row = situation.matrix.cudnn(f"{major}.{candidate}")
        if row and row.compute_capability_min and numbers(row.compute_capability_min) <= numbers(capability):
            wheels = [name for name in situation.context.distributions if name.startswith("nvidia-cudnn-cu")]
            is_pinned = identity(build.framework).pins_cudnn and len(needed) > 1
            limits = f"=={built_with(build)}" if is_pinned else f">={major}.{lowest},<{major}.{candidate + 1}"
            steps = situation.install(f"{wheels[0]}{limits}") if wheels else ()
            reason = f"cuDNN {row.version} is the last that supports compute capability {capability}"
            return Remedy(f"Go back to an older cuDNN: {reason}.", steps)
    return Remedy(
        f"No cuDNN that {build.label} accepts supports compute capability {capability}: use an older release of it."
    )


def _is_published(situation: Situation, wheel: str) -> bool:
    """Tell whether a wheel of that name exists: some release of a framework asks for it."""
    pinning = (item.name for item in identities() if item.pins_cudnn)
    asking = (
        row
        for name in pinning
        for row in gpu_rows(situation.context, name) or situation.matrix.releases(name, "linux_x86_64")
    )
    return any(item.startswith(wheel) for row in asking for item in row.cuda_wheels)


# Paths.


@remedy("cudnn-shadowed", "toolkit-path-conflict")
def use_matching_copy(situation: Situation, problem: Problem) -> Remedy | None:
    """Let the loader, or the build, find the copy that is meant."""
    unwanted = [folder for name, folder in problem.values if name == "unwanted"]
    if unwanted:
        libraries = (f"{folder}/{name}" for folder in unwanted for name in ("lib", "lib64"))
        steps = situation.leave_out("LD_LIBRARY_PATH", *unwanted, *libraries)
        return Remedy(problem.advice, steps or (find_setting(unwanted[0]),))
    if problem.advice:
        steps = situation.add_loader_folders(problem.folders) if problem.folders else _set_paths(problem)
        return Remedy(problem.advice, steps)
    if problem.value("meant"):  # the toolkit that torch was built with, where nvcc is of another
        cuda = problem.value("meant")
        step = point_at_toolkit(f"/usr/local/cuda-{cuda}", compiles=True)
        return Remedy(f"Point CUDA_HOME and PATH at CUDA {cuda}, which torch was built with.", (step,))
    if problem.cuda and situation.os != "windows":
        step = point_at_toolkit(f"/usr/local/cuda-{problem.cuda}", compiles=False)
        return Remedy(f"CUDA {problem.cuda} is installed: add its lib64 folder to the loader's path.", (step,))
    return _remove_folders(problem)


def _set_paths(problem: Problem) -> tuple[Action, ...]:
    """Set the variables in this shell, and show the file that sets them otherwise; () where neither is known."""
    root, variable, setting = map(problem.value, ("root", "unset", "setting"))
    if not (root or variable) or not all(re.fullmatch(r"[~\w./+-]*", text) for text in (root, variable, setting)):
        return ()
    step = point_at_toolkit(root, compiles=True) if root else UnsetVariable(variable, _PROGRAM_SHELL)
    return (step, find_setting(setting))


def _remove_folders(problem: Problem) -> Remedy | None:
    """Take the folders of another copy off the library path that was read."""
    folders = problem.folders
    others = [folder for folder in folders if re.search(r"cuda|cudnn|nvidia", folder, re.IGNORECASE)]
    remaining = [folder for folder in folders if folder not in others]
    if not others or not all(re.fullmatch(r"[~\w./+-]+", folder) for folder in folders):
        return None
    summary = f"Let the framework load its own libraries: remove {', '.join(others)} from LD_LIBRARY_PATH."
    return Remedy(summary, (set_entries("LD_LIBRARY_PATH", remaining, ":"),))


# The host compiler.


@remedy("host-compiler-too-new", "host-compiler-too-old")
def use_matching_compiler(situation: Situation, problem: Problem) -> Remedy | None:
    """Point nvcc at a compiler that it accepts, or install one."""
    highest, lowest = problem.value("highest"), problem.value("lowest")
    kind = problem.value("kind") or "gcc"
    if kind == "msvc":
        return install_visual_studio(highest)
    if not numbers(highest) and not numbers(lowest):
        return None
    path = _find_installed_compiler(situation, highest, lowest, kind)
    if path:
        return Remedy(f"Point nvcc at {path}, which CUDA {problem.cuda} accepts.", (set_host_compiler(path),))
    newest = (numbers(highest) or numbers(lowest))[0]
    present = problem.value("version") or situation.facts.compilers.gcc_version.value or ""
    if highest and numbers(present)[:1] == (newest,):
        newest -= 1  # nvcc fails with the one that is there, though it takes that major
    remedy_found = install_compiler(situation, (numbers(lowest) or (0,))[0], newest)
    remedy_found = replace(
        remedy_found, alternatives=(*remedy_found.alternatives, *_name_newer_cuda(situation, problem, highest))
    )
    if kind == "clang":
        return replace(remedy_found, summary=f"{remedy_found.summary} A {kind} that it accepts works too.")
    return remedy_found


def _find_installed_compiler(situation: Situation, highest: str, lowest: str, kind: str) -> str:
    """Return the newest GCC within bounds that is installed; "" where there is none."""
    compilers = situation.facts.compilers
    gcc = {compilers.gcc_path.value or "": compilers.gcc_version.value or ""} if kind == "clang" else {}
    installed = {**(compilers.others.value or {}), **gcc}
    for path, version in sorted(installed.items(), key=lambda item: numbers(item[1]), reverse=True):
        limit = numbers(highest or version)  # nvcc's headers compare as many numbers as the limit names
        fits = numbers(version)[: len(limit)] <= limit and numbers(version) >= numbers(lowest or "0")
        if version and fits and re.search(r"/(?:gcc|g\+\+)(?:-[\d.]+)?$", path) and is_plain_path(path):
            return path
    return ""


def _name_newer_cuda(situation: Situation, problem: Problem, highest: str) -> tuple[Alternative, ...]:
    """Name the first CUDA that takes the compiler that is there."""
    gcc = numbers(problem.value("version"))
    if not gcc or not numbers(highest) or gcc[0] <= numbers(highest)[0]:
        return ()
    accepting = [row.version for row in situation.matrix.toolkits() if numbers(row.gcc_max or "")[:1] >= gcc[:1]]
    return (Alternative(f"Use CUDA {accepting[-1]} or newer, which accepts gcc {gcc[0]}."),) if accepting else ()


# TensorRT.


@remedy("tensorrt-missing")
def install_matching_tensorrt(situation: Situation, problem: Problem) -> Remedy | None:
    """Install the TensorRT that a release was built with."""
    build = next((item for item in situation.builds if item.release and item.release.tensorrt), None)
    row = build.release if build else situation.release_row(problem.framework, problem.release)
    if row is None or not row.tensorrt or row.tensorrt == "none":
        title = identity(build.framework).title if build else ""
        return Remedy(f"Install the TensorRT release that this {title} release requires.") if build else None
    requirement = f"tensorrt=={row.tensorrt}.*" if row.tensorrt.count(".") < 3 else f"tensorrt=={row.tensorrt}"
    summary = f"Install TensorRT {row.tensorrt}, which {row.distribution} {row.version} was built with."
    if numbers(row.tensorrt) < numbers(system_packages().tensorrt.first_wheel):
        return Remedy(f"{summary} NVIDIA's archive: https://developer.nvidia.com/tensorrt.")
    return Remedy(summary, situation.install(requirement))


# Extensions: the built file that fits, or a build that can work here.


def torch_build(context: Context, version: str, cuda: str | None) -> TorchBuild | None:
    """Describe what a file must be built for to load beside a torch here; None where that is not known."""
    python, libc = context.facts.python.version.value, context.facts.host.libc_version
    if not python or not cuda or is_free_threaded(context) or context.facts.host.libc_kind.value == "musl":
        return None
    glibc = libc.value if context.os == "linux" and libc.value is not None else ""
    return TorchBuild(version, cuda, major_minor(python), context.platform, glibc)


def find_install(
    context: Context, text: str, version: str, cuda: str | None, *, compiles: bool = True
) -> SourceInstall | None:
    """Choose the built file of a package for a torch, or a build of it where that may compile; None for neither."""
    if find_obstacle(context, text, version, cuda):
        return None
    return _use_file(context, text, version, cuda) or _use_sources(context, text, version, cuda, compiles=compiles)


def _use_file(context: Context, text: str, version: str, cuda: str | None) -> SourceInstall | None:
    """Name the built file of a package for a torch; None where none is known."""
    name, specifier = _split(text)
    wanted = torch_build(context, version, cuda)
    found = find_file(name, specifier, wanted) if wanted else None
    if found is None or wanted is None:
        return None
    described: SourceInstall = replace(found, notes=(_describe_file(found, wanted),))
    return described


def _describe_file(found: SourceInstall, wanted: TorchBuild) -> str:
    if found.options:
        return f"documented: {found.options[-1]} lists {found.name} {found.version} for this CUDA; it was not read."
    built = f"{found.name} for torch {major_minor(wanted.version)} and Python {wanted.python}"
    return f"documented: the project's build files name this file of {built}; the file itself was not read."


def _use_sources(
    context: Context, text: str, version: str, cuda: str | None, *, compiles: bool
) -> SourceInstall | None:
    """Plan how a package is built for a torch; None where that would have to compile."""
    name, specifier = _split(text)
    package = source_package(name)
    release = _newest(name, specifier)
    if package is None or not release or package.options:
        return None
    pin, build = f"{name}=={release}", package.build
    if build is None:  # nothing is compiled: the sources are what is installed
        return SourceInstall(name, release, pin)
    if not compiles or not cuda:
        return None
    toolkit, situation = _find_nvcc(context, build, cuda), Situation(context)
    steps = () if toolkit else _install_nvcc(situation, cuda)
    root = toolkit.root if toolkit else "" if situation.has_conda else f"/usr/local/cuda-{major_minor(cuda)}"
    home = {"CUDA_HOME": root} if is_plain_path(root) else {}
    compiler = _bring_compiler(situation, (toolkit.version.value if toolkit else "") or cuda)
    chosen = dict(pair for action in compiler if isinstance(action, SetVariables) for pair in action.values)
    limits = {**_limit_jobs(context, build), **_limit_architectures(context, build)}
    settings = {**home, **chosen, **build.settings, **limits}
    return SourceInstall(
        name,
        release,
        pin,
        ("--no-build-isolation",),
        tuple(settings.items()),
        build.requires,
        compiles=True,
        machine_steps=(*steps, *(action for action in compiler if not action.in_shell)),
        notes=_describe_build(context, pin, build),
    )


def find_obstacle(context: Context, text: str, version: str, cuda: str | None) -> str:
    """Say why a package cannot be built for a torch here, and what would help; "" where it can."""
    name, _ = _split(text)
    package = source_package(name)
    build = package.build if package else None
    if build is None:
        return ""
    if context.platform not in build.platforms:
        return f"{name} is built on {' and '.join(build.platforms)} only" + (
            ": use WSL 2." if context.os == "windows" else "."
        )
    if not cuda:
        return f"{name} is CUDA code: it needs a CUDA build of torch."
    oldest = min(capabilities(context.facts), key=numbers, default="")
    obstacles = (
        (f"torch{build.torch}", f"this is {version}", within(version.partition("+")[0], build.torch)),
        (f"nvcc {build.cuda} or newer", f"torch {version} is built for CUDA {cuda}", _reaches(cuda, build.cuda)),
        (
            f"compute capability {build.compute_capability} or newer",
            f"the GPU has {oldest}",
            not oldest or _reaches(oldest, build.compute_capability),
        ),
    )
    return next((f"{name} needs {need}; {present}." for need, present, is_met in obstacles if not is_met), "")


def _reaches(version: str, lowest: str) -> bool:
    return numbers(version) >= numbers(lowest or "0")


def _split(text: str) -> tuple[str, str]:
    name = re.split(r"[<>=!~]", text, maxsplit=1)[0]
    return name, text[len(name) :]


def _newest(name: str, specifier: str) -> str:
    package = source_package(name)
    versions = (version for release in package.releases for version in release.versions) if package else ()
    return next((version for version in versions if within(version, specifier)), "")


def _find_nvcc(context: Context, build: SourceBuild, cuda: str) -> ToolkitInstall | None:
    """Find an nvcc of the CUDA major of torch, the one of its own minor first."""
    fitting = [
        item
        for item in toolkits_with_nvcc(context)
        if numbers(item.version.value or "0") >= numbers(build.cuda or "0")
        and numbers(item.version.value or "0")[:1] == numbers(cuda)[:1]
    ]
    return min(fitting, key=lambda item: item.version.value != major_minor(cuda), default=None)


def _install_nvcc(situation: Situation, cuda: str) -> tuple[Action, ...]:
    """Install the toolkit of a CUDA; its folder is named to the build itself."""
    steps, _ = install_build_toolkit(situation, cuda)
    is_read = not isinstance(situation.facts.toolkits.installs, Unknown)
    purpose = f"Install nvcc of CUDA {major_minor(cuda)}" + ("." if is_read else ", if it is not installed.")
    return tuple(replace(item, purpose=purpose) for item in steps if not item.in_shell)


def _bring_compiler(situation: Situation, cuda: str) -> tuple[Action, ...]:
    """Install, or name to nvcc, a host compiler that it accepts; () where the one that is there will do."""
    gcc, row = situation.facts.compilers.gcc_version, situation.matrix.toolkit(cuda)
    if isinstance(gcc, Absent):
        return install_anywhere(situation, "compiler-for-python", "Install a C++ compiler.")[0]
    if row is None or gcc.value is None:
        return ()
    highest, lowest = row.gcc_max or "", row.gcc_min or ""
    limit = numbers(highest or gcc.value)  # nvcc's headers compare as many numbers as the limit names
    if numbers(gcc.value)[: len(limit)] <= limit and _reaches(gcc.value, lowest):
        return ()
    bounds = (("highest", highest), ("lowest", lowest), ("kind", "gcc"), ("version", gcc.value))
    found = use_matching_compiler(situation, Problem(cuda=row.version, values=bounds))
    return tuple(action.with_purpose(found.summary) for action in found.actions) if found else ()


def _limit_jobs(context: Context, build: SourceBuild) -> dict[str, str]:
    memory = context.facts.host.memory_bytes.value
    if not memory or not build.job_gigabytes:
        return {}
    return {"MAX_JOBS": str(max(1, int(memory / 1e9 / build.job_gigabytes)))}


def _limit_architectures(context: Context, build: SourceBuild) -> dict[str, str]:
    """Compile for the GPUs that are there alone, where the build can be told."""
    present = capabilities(context.facts)
    if not build.variable or not present:
        return {}
    if not build.architectures:
        return {build.variable: ";".join(present)}
    codes = {_code_for(capability, build.architectures) for capability in present}
    return {build.variable: ";".join(sorted(codes, key=int))}


def _code_for(capability: str, codes: tuple[str, ...]) -> str:
    """Return the newest code of a GPU's major that it runs: 80 for 8.9."""
    own = int(capability.replace(".", ""))
    return next((code for code in sorted(codes, key=int, reverse=True) if int(code) <= own), codes[0])


def _describe_build(context: Context, pin: str, build: SourceBuild) -> tuple[str, ...]:
    name, _, _ = pin.partition("==")
    text = f"No built file of {name} is known for this torch, CUDA and Python, so it is compiled."
    if build.looks_for_file:
        text += " Its build first looks for a file on the project's page."
    count = len(_limit_architectures(context, build).get(build.variable, "").split(";")) if build.variable else 0
    minutes = build.core_minutes * (count or build.compiled)
    jobs = int(_limit_jobs(context, build).get("MAX_JOBS", "0"))
    if minutes:
        text += f" That takes about {minutes:.0f} minutes of one core"
        text += f", {minutes / jobs:.0f} minutes on {jobs} cores" if jobs > 1 else ""
        text += f", and {build.job_gigabytes:g} GB of memory for each job." if build.job_gigabytes else "."
    else:
        text += " How long that takes is not known."
    return (text,)


@remedy("extension-build-mismatch")
def rebuild_extension(situation: Situation, problem: Problem) -> Remedy | None:
    """Install the build of an extension that was made for the installed framework, or build it against that."""
    name = problem.names[0] if problem.names else problem.value("extension_known")
    from_project = _install_from_project(situation, name) if source_package(name) else None
    known: dict[str, Callable[[], Remedy | None]] = {
        "labelled": lambda: Remedy(f"Install the {name} build for {problem.value('label')}."),
        "companion": lambda: _install_companion(situation, problem),
        "other-cuda": lambda: _install_for_one_cuda(situation, problem),
        "compiled": lambda: _install_fitting_pair(situation, name) or _rebuild(situation, name),
    }
    return from_project or next((make() for case, make in known.items() if case in problem.cases), None)


def _install_companion(situation: Situation, problem: Problem) -> Remedy | None:
    framework = problem.requirements[0].partition("==")[0]
    return install_dependant(situation, InstallDependant(problem.names[0], framework, problem.value("release")))


def _rebuild(situation: Situation, name: str) -> Remedy:
    """Rebuild an extension of which no more is known."""
    options = ("--force-reinstall", "--no-deps", "--no-build-isolation", "--no-cache-dir", "--no-binary", name)
    rebuild = InstallPackages((name,), situation.python, options=options, purpose=f"rebuild {name}")
    is_name = re.fullmatch(r"[a-z0-9][a-z0-9._-]*", name) is not None
    wheel = (Alternative("Install its wheel for this framework, CUDA and Python, if there is one."),)
    return Remedy("Rebuild it against the installed framework.", (rebuild,) if is_name else (), wheel)


def _install_from_project(situation: Situation, name: str) -> Remedy | None:
    """Install the file that its project built for the framework that is there; where there is none, build it."""
    context = situation.context
    build = next((item for item in situation.builds if item.traits.hosts_extensions), None)
    if build is None or is_conda_build(context, build):
        return None
    version, cuda = build.label.partition(" ")[2], build.cuda.value
    present = context.distributions.get(name)
    pin = f"{name}=={present.version.partition('+')[0]}" if present else name
    found = find_install(context, pin, version, cuda, compiles=False) or find_install(context, name, version, cuda)
    if found is None:
        obstacle = find_obstacle(context, name, version, cuda)
        removal = situation.uninstall(name) if present else ()
        return Remedy(f"{obstacle} Uninstall it." if removal else obstacle, removal) if obstacle else None
    verb = f"Build {name} {found.version} against" if found.compiles else f"Install {name} {found.version}, built for"
    summary = " ".join((f"{verb} {build.label}.", *found.notes))
    plan = situation.plan_command("", name) if found.compiles else ()
    without_compiler = (Alternative("With a torch that it has a built file for, it needs no compiler:", plan),)
    steps = (*found.machine_steps, *_install_again(situation, found))
    return Remedy(summary, steps, without_compiler if plan else ())


def _install_again(situation: Situation, found: SourceInstall) -> tuple[Action, ...]:
    """Replace an extension, and nothing else, by another build of it."""
    options = ("--force-reinstall", "--no-deps", *found.options)
    options = (*options, "--no-cache-dir", "--no-binary", found.name) if found.compiles else options
    replaced = InstallPackages((found.requirement,), situation.python, options=options, settings=found.settings)
    return (*(situation.install(*found.requires) if found.requires else ()), replaced)


def _install_fitting_pair(situation: Situation, name: str) -> Remedy | None:
    """Install the release of a package that goes with the framework that is there, or a pair that goes together."""
    build = next((item for item in situation.builds if item.traits.hosts_extensions), None)
    row = build.release if build else None
    if row is None or build is None:
        return None
    platform, matrix = situation.context.platform, situation.matrix
    known = matrix.companions_of(row.framework, row.version, platform, name)
    fitting = next((item.version for item in known if shares_cuda(item, row) and not build.local), "")
    if fitting:
        requirement = f"{name}=={fitting}"
        return Remedy(f"Install {requirement}, which was made for {build.label}.", situation.install(requirement))
    newest = next((item for item in matrix.companion_releases(name) if item.platform == platform), None)
    pin = matrix.companion_pins(row.framework, name).get(newest.version) if newest else None
    if newest is None or pin is None:
        return None
    admitted = matrix.releases(row.framework, platform, lambda version: matches(version, pin))
    release = next((item for item in admitted if shares_cuda(newest, item)), None)
    if release is None:
        return None
    pair = (f"{release.distribution}=={release.version}", f"{name}=={newest.version}")
    return Remedy(f"Install {' and '.join(pair)}, which go together.", situation.install(*pair))


def _install_for_one_cuda(situation: Situation, problem: Problem) -> Remedy:
    """Install the build of the framework for the companion's CUDA, or the companion's for the framework's."""
    (pin, companion), label = problem.requirements, problem.value("label")
    name, _, version = pin.partition("==")
    there = problem.value("release").partition("+")[2]
    if situation.matrix.build(name, version, label, situation.context.platform):
        steps = situation.install(f"{pin}+{label}", index=index_url(name, label))
        return Remedy(f"Install {pin}+{label}, which is for the same CUDA as {companion}.", steps)
    steps = situation.install(companion, index=index_url(name, there), force=True) if there else ()
    return Remedy(f"Install {companion} and {pin} for the same CUDA.", steps)


@remedy("library-missing")
def restore_library(situation: Situation, problem: Problem) -> Remedy | None:
    """Say where a library comes from that no wheel of the framework brings."""
    library = problem.value("library")
    if problem.requirements:
        return Remedy(f"Install what {problem.distribution} requires.", situation.install(*problem.requirements))
    stem = library.partition(".so")[0]
    steps = install(situation, stem, f"contains {library}") if stem in system_packages().packages else ()
    return Remedy(f"Install the system package that contains {library}.", steps) if library else None


def is_plain_path(path: str) -> bool:
    """Tell whether a path can stand in a shell line as it is."""
    return re.fullmatch(r"/[\w./+~-]+", path) is not None


def _parse_minor(version: str) -> str:
    return ".".join(map(str, numbers(version)[:2]))

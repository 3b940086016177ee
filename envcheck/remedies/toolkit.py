"""What to do about CUDA beside a framework.

Toolkit, cuDNN, TensorRT, host compiler, loader paths, extensions.
"""

from __future__ import annotations

from collections.abc import Iterable

from envcheck.actions import (
    Action,
    InstallCondaPackages,
    InstallPackages,
    LinkFile,
    MakeFolder,
    RunEnvcheck,
    SetVariables,
    Show,
)
from envcheck.frameworks import Framework, identity
from envcheck.matrix.package_index import cuda_label, index_url
from envcheck.model import (
    ENVIRONMENT,
    LINUX,
    SYSTEM,
    WINDOWS,
    Alternative,
    CondaBuild,
    Remedy,
    major_minor,
    numbers,
    replace,
)
from envcheck.model.fixes.toolkit import (
    ChooseToolkit,
    InstallLibdevice,
    InstallNvcc,
    InstallToolkit,
    NameLibdevice,
    ReplaceBundledPtxas,
    UseNewerPtxas,
)
from envcheck.remedies import writes
from envcheck.remedies.paths import PROGRAM_SHELL, is_plain_path, point_at_toolkit
from envcheck.remedies.situation import Situation, install_conda_packages
from envcheck.remedies.system import (
    install_anywhere,
    install_windows_toolkit,
    system_packages,
)
from envcheck.rules.builds import Build

_ARCHIVE = "https://developer.nvidia.com/cuda-toolkit-archive"
_REPOSITORY = "from NVIDIA's repository"


# The toolkit.


@writes(InstallToolkit)
def install_matching_toolkit(situation: Situation, fix: InstallToolkit) -> Remedy:
    """Install the CUDA that a build loads, or name the release that takes the one that is there."""
    build = situation.build(fix.framework, fix.distribution)
    version = complete_version(situation, fix.cuda)
    built = f"; {build.label} was built for CUDA {fix.cuda}" if build else ""
    summary = f"Install the CUDA {version} libraries{built}."
    if fix.compiles:
        beside = ""
        if _find_installed(situation):
            beside = " next to the installed one"
        summary = f"Build with CUDA {version}{beside}."
    elif situation.has_conda:
        return _install_conda_libraries(situation, version, summary)
    else:
        summary = f"{summary} NVIDIA's archive: {_ARCHIVE}."
    other_releases = _name_release_for_installed(situation, fix)
    if situation.os == "windows":
        return Remedy(summary, install_windows_toolkit(version), other_releases)
    steps, elsewhere = install_toolkit(situation, version, compiles=fix.compiles)
    return Remedy(summary, steps, (*elsewhere, *other_releases))


def _install_conda_libraries(situation: Situation, version: str, summary: str) -> Remedy:
    libraries = find_conda_toolkit(situation, version) or install_conda_packages(
        f"cudatoolkit={version}"
    )
    note = f"{summary} Then have the activation script add its lib folder to LD_LIBRARY_PATH."
    return Remedy(
        note,
        (libraries, *activate_conda_libraries(situation)),
        _install_outside_conda(situation, version),
    )


def activate_conda_libraries(situation: Situation) -> tuple[Action, ...]:
    """Make the loader look in the lib folder of the conda environment."""
    if situation.prefix:
        return situation.add_loader_folders((f"{situation.prefix}/lib",))
    return (
        SetVariables((("LD_LIBRARY_PATH", "$CONDA_PREFIX/lib:$LD_LIBRARY_PATH"),), PROGRAM_SHELL),
    )


def _install_outside_conda(
    situation: Situation, version: str, *, compiles: bool = False
) -> tuple[Alternative, ...]:
    if situation.os != "linux":
        return ()
    steps, elsewhere = _install_from_repository(situation, version, compiles=compiles)
    return (Alternative("Outside conda, from NVIDIA's repository:", steps), *elsewhere)


@writes(ChooseToolkit)
def choose_toolkit(situation: Situation, fix: ChooseToolkit) -> Remedy:
    """Say which release was built with which of the CUDA lines that hold what is missing."""
    framework = identity(fix.framework) if fix.framework else None
    if framework and framework.cuda.build_info:
        built = _list_releases_by_cuda(situation, framework, fix.lines)
    else:
        built = []
    if len(fix.lines) > 1:
        one_of = f"one of {fix.lines[-1]} to {fix.lines[0]}"
    else:
        one_of = fix.lines[0]
    cuda_text = ", ".join(built) or one_of
    summary = (
        "Install the CUDA that the release was built with:"
        f" {cuda_text}; or a release for the installed CUDA"
    )
    check: Action = _DOCTOR
    if framework and built:
        hint = f"envcheck matrix show {framework.name}==VERSION shows it without installing"
        check = situation.run_python(
            framework.cuda.build_info, f"the CUDA and cuDNN of {framework.title}; {hint}"
        )
    return Remedy(f"{summary}. NVIDIA's archive: {_ARCHIVE}.", (check,))


_DOCTOR = RunEnvcheck(("doctor",), "shows the CUDA that the build needs, and the installed CUDA")


def _list_releases_by_cuda(
    situation: Situation, framework: Framework, lines: tuple[str, ...]
) -> list[str]:
    """Name the releases of a framework for each CUDA line, newest first.

    CUDA 11.0 for TensorFlow 2.4.
    """
    # The first release of each minor stands for all of it: its patches are for the same CUDA and
    # fewer platforms.
    first = {major_minor(version): version for version in situation.matrix.versions(framework.name)}
    releases: dict[str, list[str]] = {}
    for minor, version in first.items():
        for cuda in situation.matrix.cudas(framework.name, version, situation.context.platform):
            if cuda in lines:
                releases.setdefault(cuda, []).append(minor)
    return [
        f"CUDA {cuda} for {framework.title} {minors[-1]}"
        + (f" to {minors[0]}" if minors[0] != minors[-1] else "")
        for cuda, minors in releases.items()
    ]


def install_build_toolkit(
    situation: Situation, cuda: str
) -> tuple[tuple[Action, ...], tuple[Alternative, ...]]:
    """Install a whole toolkit and point the build at it."""
    return install_toolkit(situation, complete_version(situation, cuda), compiles=True)


def install_toolkit(
    situation: Situation, version: str, *, compiles: bool
) -> tuple[tuple[Action, ...], tuple[Alternative, ...]]:
    """Install a CUDA line from NVIDIA's repository and point at it; and the other ways."""
    if situation.os in ("windows", "darwin") or len(numbers(version)) < 2:
        check = Show(
            ("nvcc", "--version"), f"must say {version}; NVIDIA's archive: {_ARCHIVE}", ENVIRONMENT
        )
        return (replace(check, systems=(LINUX, WINDOWS)),), ()
    conda_steps = _install_with_conda(situation, version, compiles=compiles)
    if situation.has_conda and conda_steps:
        return conda_steps, _install_outside_conda(situation, version, compiles=compiles)
    steps, elsewhere = _install_from_repository(situation, version, compiles=compiles)
    return steps, (
        *elsewhere,
        *((Alternative("In a conda environment:", conda_steps),) if conda_steps else ()),
    )


def _install_from_repository(
    situation: Situation, version: str, *, compiles: bool
) -> tuple[tuple[Action, ...], tuple[Alternative, ...]]:
    """Install a CUDA line from NVIDIA's repository and point the loader, or the build, at it."""
    summary = "cuda-toolkit" if compiles else "cuda-libraries"
    purpose = _REPOSITORY if compiles else f"CUDA {version} libraries, {_REPOSITORY}"
    steps, elsewhere = install_anywhere(situation, summary, purpose, cuda=version.replace(".", "-"))
    return (*steps, point_at_toolkit(f"/usr/local/cuda-{version}", compiles=compiles)), elsewhere


def _install_with_conda(situation: Situation, cuda: str, *, compiles: bool) -> tuple[Action, ...]:
    """Install a CUDA line into a conda environment, from a channel that has it."""
    if compiles:
        nvcc = system_packages().conda_nvcc
        is_available = numbers(cuda) >= numbers(nvcc.first)
        if is_available:
            return (install_conda_packages(f"cuda-nvcc={cuda}", channel=nvcc.channel),)
        return ()
    found = find_conda_toolkit(situation, cuda)
    return (found, *activate_conda_libraries(situation)) if found else ()


def find_conda_toolkit(situation: Situation, cuda: str) -> InstallCondaPackages | None:
    """Install the libraries of a CUDA line with conda.

    One package, or many beside one that fixes the line.
    """
    toolkit_builds = situation.matrix.conda_builds("cudatoolkit")
    version_builds = situation.matrix.conda_builds("cuda-version")
    channels = [row.channel for row in toolkit_builds if cuda in row.cuda]
    if channels:
        return install_conda_packages(f"cudatoolkit={cuda}", channel=channels[0])
    if list_matching_builds(version_builds, cuda) and not list_matching_builds(
        toolkit_builds, cuda
    ):
        return install_conda_packages(f"cuda-version={cuda}", "cuda-libraries")
    return None


def list_matching_builds(rows: Iterable[CondaBuild], version: str) -> list[CondaBuild]:
    """List the builds on conda's channels whose versions admit one."""
    from packaging.specifiers import SpecifierSet

    return [row for row in rows if SpecifierSet(row.versions).contains(version)]


def _find_installed(situation: Situation) -> str:
    """Return the CUDA line of the toolkit that is there; "" for none."""
    installs = situation.facts.toolkits.installs.value or ()
    return next((major_minor(item.version.value) for item in installs if item.version.value), "")


def _name_release_for_installed(
    situation: Situation, fix: InstallToolkit
) -> tuple[Alternative, ...]:
    """Name the framework release for the CUDA that is there, and its command."""
    line = _find_installed(situation) if situation.from_log else ""
    if not line or not fix.framework:
        return ()
    rows = situation.matrix.releases(fix.framework, situation.context.platform)
    identity_row = identity(fix.framework)
    if identity_row.index:
        build = situation.build(fix.framework, fix.distribution)
        named_row = build.release if build else None
        if named_row and line in named_row.variants:
            matching = [named_row]
        else:
            matching = [row for row in rows if line in row.variants]
        if not matching:
            return ()
        index = index_url(identity_row.name, cuda_label(line))
        step = InstallPackages(
            (f"{identity_row.name}=={matching[0].version}",), situation.python, index=index
        )
        return (
            Alternative(
                f"Install a {identity_row.name} for CUDA {line}, such as {matching[0].version}.",
                (step,),
            ),
        )
    near = [row for row in rows if row.cuda == line]
    if near:
        return (
            Alternative(f"Use {near[0].distribution} {near[0].version}, which loads CUDA {line}."),
        )
    return ()


def complete_version(situation: Situation, cuda: str) -> str:
    """Complete a bare major version with the newest minor the matrix lists: 11 becomes 11.8."""
    if len(numbers(cuda)) > 1:
        return major_minor(cuda)
    lines = (row.version for row in situation.matrix.toolkits())
    return next((line for line in lines if numbers(line)[:1] == numbers(cuda)), cuda)


@writes(InstallNvcc)
def install_matching_nvcc(situation: Situation, fix: InstallNvcc) -> Remedy:
    """Install the nvcc of the CUDA that a framework was built with."""
    build = situation.build(fix.framework, fix.distribution)
    summary = (
        f"Install nvcc of CUDA {fix.cuda}, and point CUDA_HOME"
        " at its folder where you compile extensions."
    )
    return _install_nvcc_for(situation, build, fix.cuda, summary)


def _install_nvcc_for(situation: Situation, build: Build | None, cuda: str, summary: str) -> Remedy:
    """Install nvcc with ptxas and libdevice.

    As the wheel a build asks for, else from NVIDIA's repository.
    """
    wheels = build.release.cuda_wheels if build and build.release else ()
    wheel = next((item for item in wheels if item.startswith("nvidia-cuda-nvcc")), "")
    if wheel:
        return Remedy(summary, situation.install(wheel))
    version = complete_version(situation, cuda)
    if situation.os == "windows":
        steps = install_windows_toolkit(version)
        return Remedy(summary if steps else f"{summary} NVIDIA's archive: {_ARCHIVE}.", steps)
    purpose = f"nvcc, ptxas and libdevice, {_REPOSITORY}"
    return Remedy(
        summary, *install_anywhere(situation, "cuda-nvcc", purpose, cuda=version.replace(".", "-"))
    )


# What XLA compiles with.


@writes(InstallLibdevice)
def install_libdevice(situation: Situation, fix: InstallLibdevice) -> Remedy:
    """Install the part of CUDA that holds libdevice."""
    build = next((item for item in situation.builds if item.traits.cuda.needs_libdevice), None)
    return _install_nvcc_for(
        situation, build, fix.cuda, "Install the part of CUDA that contains libdevice."
    )


@writes(NameLibdevice)
def name_libdevice(_: Situation, fix: NameLibdevice) -> Remedy:
    """Let XLA look in the folder where libdevice is."""
    root = fix.root
    flags = SetVariables(
        (("XLA_FLAGS", f"--xla_gpu_cuda_data_dir={root}"),),
        "in the environment's activation script",
    )
    steps = (*_link_libdevice(root, fix.path), flags) if is_plain_path(root) else ()
    return Remedy("Set XLA_FLAGS to that folder in the environment's activation script.", steps)


def _link_libdevice(root: str, path: str) -> tuple[Action, ...]:
    """Link a libdevice, such as conda's, to where XLA looks in its toolkit."""
    folder = f"{root}/nvvm/libdevice"
    if path.startswith(folder + "/") or not (is_plain_path(path) and is_plain_path(folder)):
        return ()
    link = LinkFile(path, f"{folder}/libdevice.10.bc")
    return (MakeFolder(folder, "XLA searches this subfolder"), link)


@writes(UseNewerPtxas)
def use_newer_ptxas(situation: Situation, fix: UseNewerPtxas) -> Remedy:
    """Put a ptxas that knows the GPU first."""
    build = situation.build(fix.framework, fix.distribution)
    root = f"/usr/local/cuda-{fix.cuda}/bin"
    if build is not None:
        summary = f"Put a ptxas of CUDA {fix.cuda} or newer first on PATH."
        found = _install_nvcc_for(situation, build, fix.cuda, summary)
        if not any(item.scope == SYSTEM for item in found.actions):
            return found
        before = SetVariables((("PATH", f"{root}:$PATH"),), "where training is started")
        # it lies beside the one that is called
        return replace(found, actions=(*found.actions, before))
    summary = (
        f"Let the ptxas of CUDA {fix.cuda} or newer be found first: none before it knows"
        f" {fix.capability}."
    )
    look = Show(("ptxas", "--version"), "the one that is found now", ENVIRONMENT, (LINUX,))
    triton = (
        (name, f"{root}/ptxas") for name in ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH")
    )
    named = (("PATH", f"{root}:$PATH"), *triton)
    return Remedy(
        summary,
        (look, SetVariables(named, "where that toolkit is installed; Triton reads its own two")),
    )


@writes(ReplaceBundledPtxas)
def replace_bundled_ptxas(_: Situation, fix: ReplaceBundledPtxas) -> Remedy | None:
    """Name another ptxas to a package that calls its own."""
    upgrade = ""
    if fix.newer:
        upgrade = f"nstall a torch that requires {fix.newer} or newer"
    if not fix.variable:
        return Remedy(f"I{upgrade}.") if upgrade else None
    place = PROGRAM_SHELL if fix.path else "where that toolkit is installed"
    named = SetVariables(
        ((fix.variable, fix.path or f"/usr/local/cuda-{fix.cuda}/bin/ptxas"),), place
    )
    options = f", or i{upgrade}" if upgrade else ""
    return Remedy(f"Let the ptxas of CUDA {fix.cuda} or newer be called{options}.", (named,))

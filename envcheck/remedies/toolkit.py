"""What to do about the CUDA Toolkit.

Its libraries and compilers, what XLA and Triton compile with, and which of them is found first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from envcheck.actions import (
    WINGET,
    Action,
    InstallCondaPackages,
    InstallSystemPackages,
    LinkFile,
    MakeFolder,
    RunEnvcheck,
    SetVariables,
)
from envcheck.frameworks import Framework, identity
from envcheck.matrix.package_index import cuda_label, index_url
from envcheck.model import (
    SYSTEM,
    Alternative,
    CondaBuild,
    Remedy,
    major_minor,
    numbers,
    replace,
)
from envcheck.model.fixes import (
    AddToLibraryPath,
    BuildWithToolkit,
    ChooseToolkit,
    InstallLibdevice,
    InstallNvcc,
    InstallToolkit,
    InstallVisualStudio,
    NameLibdevice,
    RemoveFromLibraryPath,
    ReplaceBundledPtxas,
    UseInstalledToolkit,
    UseNewerPtxas,
    UseOtherCompiler,
)
from envcheck.remedies.rows import machine_steps
from envcheck.remedies.situation import (
    PROGRAM_SHELL,
    Actions,
    Situation,
    find_setting,
    install_conda_packages,
)
from envcheck.remedies.system import (
    install_anywhere,
    install_compiler,
    install_windows_toolkit,
    set_host_compiler,
    system_packages,
)
from envcheck.rules.builds import Build

_ARCHIVE = "https://developer.nvidia.com/cuda-toolkit-archive"
_REPOSITORY = "from NVIDIA's repository"


# The toolkit.


def install_toolkit(situation: Situation, fix: InstallToolkit) -> Remedy:
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
    steps, elsewhere = _bring_toolkit(situation, version, compiles=fix.compiles)
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


def activate_conda_libraries(situation: Situation) -> Actions:
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


def choose_toolkit(situation: Situation, fix: ChooseToolkit) -> Remedy:
    """Say which release was built with which of the CUDA lines that hold what is missing."""
    framework = identity(fix.framework) if fix.framework else None
    built = list[str]()
    if framework and framework.cuda.build_info:
        built = _list_releases_by_cuda(situation, framework, fix.lines)
    one_of = fix.lines[0]
    if fix.lines[1:]:
        one_of = f"one of {fix.lines[-1]} to {fix.lines[0]}"
    summary = (
        "Install the CUDA that the release was built with:"
        f" {', '.join(built) or one_of}; or a release for the installed CUDA"
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
) -> tuple[Actions, tuple[Alternative, ...]]:
    """Install a whole toolkit and point the build at it."""
    return _bring_toolkit(situation, complete_version(situation, cuda), compiles=True)


def _bring_toolkit(
    situation: Situation, version: str, *, compiles: bool
) -> tuple[Actions, tuple[Alternative, ...]]:
    """Install a CUDA line from NVIDIA's repository and point at it; and the other ways."""
    if situation.os in ("windows", "darwin") or len(numbers(version)) < 2:
        purpose = f"must say {version}; NVIDIA's archive: {_ARCHIVE}"
        return machine_steps("nvcc", sudo=False, purpose=purpose), ()
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
) -> tuple[Actions, tuple[Alternative, ...]]:
    """Install a CUDA line from NVIDIA's repository and point the loader, or the build, at it."""
    summary = "cuda-toolkit" if compiles else "cuda-libraries"
    purpose = _REPOSITORY if compiles else f"CUDA {version} libraries, {_REPOSITORY}"
    steps, elsewhere = install_anywhere(situation, summary, purpose, cuda=version.replace(".", "-"))
    return (*steps, point_at_toolkit(f"/usr/local/cuda-{version}", compiles=compiles)), elsewhere


def _install_with_conda(situation: Situation, cuda: str, *, compiles: bool) -> Actions:
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
    build = situation.build(fix.framework, fix.distribution)
    name, named = fix.framework, [build.release] if build and build.release else []
    if not identity(name).index:
        for row in rows:
            if row.cuda == line:
                return (Alternative(f"Use {row.label}, which loads CUDA {line}."),)
        return ()
    for row in (*named, *rows):
        if line in row.variants:
            index = index_url(name, cuda_label(line))
            summary = f"Install a {name} for CUDA {line}, such as {row.version}."
            steps = situation.install(f"{name}=={row.version}", index=index)
            return (Alternative(summary, steps),)
    return ()


def complete_version(situation: Situation, cuda: str) -> str:
    """Complete a bare major version with the newest minor the matrix lists: 11 becomes 11.8."""
    if len(numbers(cuda)) > 1:
        return major_minor(cuda)
    lines = (row.version for row in situation.matrix.toolkits())
    return next((line for line in lines if numbers(line)[:1] == numbers(cuda)), cuda)


def install_nvcc(situation: Situation, fix: InstallNvcc) -> Remedy:
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


def install_libdevice(situation: Situation, fix: InstallLibdevice) -> Remedy:
    """Install the part of CUDA that holds libdevice."""
    build = next((item for item in situation.builds if item.traits.cuda.needs_libdevice), None)
    return _install_nvcc_for(
        situation, build, fix.cuda, "Install the part of CUDA that contains libdevice."
    )


def name_libdevice(_: Situation, fix: NameLibdevice) -> Remedy:
    """Let XLA look in the folder where libdevice is."""
    root = fix.root
    flags = SetVariables(
        (("XLA_FLAGS", f"--xla_gpu_cuda_data_dir={root}"),),
        "in the environment's activation script",
    )
    steps = (*_link_libdevice(root, fix.path), flags) if is_plain_path(root) else ()
    return Remedy("Set XLA_FLAGS to that folder in the environment's activation script.", steps)


def _link_libdevice(root: str, path: str) -> Actions:
    """Link a libdevice, such as conda's, to where XLA looks in its toolkit."""
    folder = f"{root}/nvvm/libdevice"
    if path.startswith(folder + "/") or not (is_plain_path(path) and is_plain_path(folder)):
        return ()
    link = LinkFile(path, f"{folder}/libdevice.10.bc")
    return (MakeFolder(folder, "XLA searches this subfolder"), link)


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
    triton = (
        (name, f"{root}/ptxas") for name in ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH")
    )
    named = (("PATH", f"{root}:$PATH"), *triton)
    return Remedy(
        summary,
        (
            *machine_steps("ptxas", sudo=False),
            SetVariables(named, "where that toolkit is installed; Triton reads its own two"),
        ),
    )


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


# The folders of the loader's path, and the toolkit that builds use.


def is_plain_path(path: str) -> bool:
    """Return whether a path can stand in a shell line as it is."""
    return re.fullmatch(r"/[\w./+~-]+", path) is not None


def point_at_toolkit(root: str, *, compiles: bool) -> SetVariables:
    """Set the variables by which a build, or the loader, finds a toolkit."""
    if compiles:
        return SetVariables(
            (("CUDA_HOME", root), ("PATH", f"{root}/bin:$PATH")), "in the build shell"
        )
    return SetVariables((("LD_LIBRARY_PATH", f"{root}/lib64:$LD_LIBRARY_PATH"),), PROGRAM_SHELL)


def add_to_library_path(situation: Situation, fix: AddToLibraryPath) -> Remedy:
    """Make the loader look in folders whenever the environment is activated."""
    summary = f"Add {' and '.join(fix.folders)} to LD_LIBRARY_PATH in the environment's activation."
    return Remedy(summary, situation.add_loader_folders(fix.folders))


def remove_from_library_path(situation: Situation, fix: RemoveFromLibraryPath) -> Remedy | None:
    """Take folders off the variable as it was read, and show the line that sets it.

    Return None where none is known.
    """
    named = " and ".join(fix.folders)
    if fix.toolkit:
        named = f"the folders of {fix.toolkit}"
    reason = f"; {fix.unneeded_by} needs none of them" if fix.unneeded_by else ""
    summary = f"Remove {named} from LD_LIBRARY_PATH where it is set{reason}."
    if not fix.folders:
        return Remedy(summary) if named else None
    libraries = (f"{folder}/{name}" for folder in fix.folders for name in ("lib", "lib64"))
    steps = situation.leave_out("LD_LIBRARY_PATH", *fix.folders, *libraries)
    return Remedy(summary, steps or (find_setting(fix.folders[0]),))


def use_installed_toolkit(situation: Situation, fix: UseInstalledToolkit) -> Remedy | None:
    """Point the loader, or the build, at the folder where NVIDIA's packages install a CUDA."""
    if situation.os == "windows":
        return None
    where = "its lib64 folder to the loader's path"
    if fix.compiles:
        where = "it to the search path"
    step = point_at_toolkit(f"/usr/local/cuda-{fix.cuda}", compiles=fix.compiles)
    return Remedy(f"CUDA {fix.cuda} is installed: add {where}.", (step,))


def build_with_toolkit(situation: Situation, fix: BuildWithToolkit) -> Remedy:
    """Set both variables in the build shell, and show the line that sets them otherwise."""
    toolkit = f"{fix.root} where you compile CUDA code"
    if fix.torch_cuda:
        toolkit = f"CUDA {fix.torch_cuda}, which torch was built with"
    summary = f"Point CUDA_HOME and PATH at {toolkit}."
    is_plain = is_plain_path(fix.root) and (not fix.instead_of or is_plain_path(fix.instead_of))
    if situation.os == "windows" or not is_plain:
        return Remedy(summary)
    steps = (point_at_toolkit(fix.root, compiles=True),)
    return Remedy(summary, (*steps, find_setting(fix.instead_of)) if fix.instead_of else steps)


# The host compiler that nvcc calls.


def install_visual_studio(_: Situation, fix: InstallVisualStudio) -> Remedy:
    """Install a Visual Studio whose compiler nvcc accepts; compiler 19.29 belongs to 2019."""
    highest = int(fix.highest.replace(".", ""))
    rows = [row for row in system_packages().msvc.rows if row.highest <= highest]
    if not rows:
        return Remedy(
            "Install a Visual Studio release that this CUDA accepts, or a newer CUDA Toolkit."
        )
    row = rows[-1]
    component_options = " ".join(f"--add {name}" for name in row.components)
    options = ("--override", f"--passive --wait {component_options} --includeRecommended")
    purpose = f"the C++ compiler of Visual Studio {row.studio}"
    step = InstallSystemPackages(WINGET, (row.package,), options=options, purpose=purpose)
    return Remedy(
        f"Install the Build Tools of Visual Studio {row.studio},"
        " and build from its x64 Native Tools prompt.",
        (step,),
        (Alternative("Use a newer CUDA Toolkit, which accepts this compiler."),),
    )


def use_other_compiler(situation: Situation, fix: UseOtherCompiler) -> Remedy | None:
    """Point nvcc at a compiler that it accepts, or install one."""
    lowest, highest = numbers(fix.lowest), numbers(fix.highest)
    if not highest and not lowest:
        return None
    path = _find_installed_compiler(situation, fix)
    if path:
        return Remedy(
            f"Point nvcc at {path}, which CUDA {fix.cuda} accepts.", (set_host_compiler(path),)
        )
    newest = (highest or lowest)[0]
    present = fix.present or situation.facts.compilers.gcc_version.value or ""
    if highest and numbers(present)[:1] == (newest,):
        newest -= 1  # nvcc fails with the one that is there, though it takes that major
    found = install_compiler(situation, (lowest or (0,))[0], newest)
    summary = found.summary
    if fix.calls_clang:
        summary = f"{found.summary} A clang that it accepts works too."
    ways = (*found.alternatives, *_name_newer_cuda(situation, fix))
    return replace(found, summary=summary, alternatives=ways)


def _find_installed_compiler(situation: Situation, fix: UseOtherCompiler) -> str:
    """Return the newest GCC within bounds that is installed; "" where there is none."""
    compilers = situation.facts.compilers
    installed = dict(compilers.others.value or {})
    if fix.calls_clang:
        installed[compilers.gcc_path.value or ""] = compilers.gcc_version.value or ""
    for path, version in sorted(installed.items(), key=lambda item: numbers(item[1]), reverse=True):
        # nvcc's headers compare as many numbers as the limit names
        limit = numbers(fix.highest or version)
        fits = numbers(version)[: len(limit)] <= limit and numbers(version) >= numbers(
            fix.lowest or "0"
        )
        if (
            version
            and fits
            and re.search(r"/(?:gcc|g\+\+)(?:-[\d.]+)?$", path)
            and is_plain_path(path)
        ):
            return path
    return ""


def _name_newer_cuda(situation: Situation, fix: UseOtherCompiler) -> tuple[Alternative, ...]:
    """Name the first CUDA that takes the compiler that is there."""
    present, highest = numbers(fix.present), numbers(fix.highest)
    if not present or not highest or present[0] <= highest[0]:
        return ()
    accepting = [
        row.version
        for row in situation.matrix.toolkits()
        if numbers(row.gcc_max)[:1] >= present[:1]
    ]
    if accepting:
        return (Alternative(f"Use CUDA {accepting[-1]} or newer, which accepts gcc {present[0]}."),)
    return ()

"""What to do about CUDA beside a framework: toolkit, cuDNN, TensorRT, host compiler, loader paths, extensions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

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
    WINDOWS,
    Absent,
    Alternative,
    CondaBuild,
    Problem,
    Remedy,
    ToolkitInstall,
    Unknown,
    major_minor,
    numbers,
    replace,
)
from envcheck.model.fixes.compilers import UseOtherCompiler
from envcheck.model.fixes.packages import InstallDependant
from envcheck.model.fixes.toolkit import (
    ChooseToolkit,
    InstallLibdevice,
    InstallNvcc,
    InstallToolkit,
    NameLibdevice,
    ReplaceBundledPtxas,
    UseNewerPtxas,
)
from envcheck.model.specifiers import matches, within
from envcheck.remedies import remedy, writes
from envcheck.remedies.compilers import use_other_compiler
from envcheck.remedies.packages import install_dependant
from envcheck.remedies.paths import PROGRAM_SHELL, is_plain_path, point_at_toolkit
from envcheck.remedies.situation import Situation, install_conda_packages
from envcheck.remedies.system import (
    install_anywhere,
    install_windows_toolkit,
    system_packages,
)
from envcheck.rules.builds import Build, is_conda_build, is_free_threaded
from envcheck.rules.compilers import toolkits_with_nvcc
from envcheck.rules.context import Context
from envcheck.rules.described_machine import capabilities

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
        beside = " next to the installed one" if fix.installed else ""
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
    libraries = find_conda_toolkit(situation, version) or install_conda_packages(f"cudatoolkit={version}")
    note = f"{summary} Then have the activation script add its lib folder to LD_LIBRARY_PATH."
    return Remedy(note, (libraries, *activate_conda_libraries(situation)), _install_outside_conda(situation, version))


def activate_conda_libraries(situation: Situation) -> tuple[Action, ...]:
    """Make the loader look in the lib folder of the conda environment."""
    if situation.prefix:
        return situation.add_loader_folders((f"{situation.prefix}/lib",))
    return (SetVariables((("LD_LIBRARY_PATH", "$CONDA_PREFIX/lib:$LD_LIBRARY_PATH"),), PROGRAM_SHELL),)


def _install_outside_conda(situation: Situation, version: str, *, compiles: bool = False) -> tuple[Alternative, ...]:
    if situation.os != "linux":
        return ()
    steps, elsewhere = _install_from_repository(situation, version, compiles=compiles)
    return (Alternative("Outside conda, from NVIDIA's repository:", steps), *elsewhere)


@writes(ChooseToolkit)
def choose_toolkit(situation: Situation, fix: ChooseToolkit) -> Remedy:
    """Say which release was built with which of the CUDA lines that hold what is missing."""
    framework = identity(fix.framework) if fix.framework else None
    built = _list_releases_by_cuda(situation, framework, fix.lines) if framework and framework.build_info else []
    one_of = f"one of {fix.lines[-1]} to {fix.lines[0]}" if len(fix.lines) > 1 else fix.lines[0]
    cuda_text = ", ".join(built) or one_of
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


def _install_with_conda(situation: Situation, cuda: str, *, compiles: bool) -> tuple[Action, ...]:
    """Install a CUDA line into a conda environment, from a channel that has it."""
    if compiles:
        nvcc = system_packages().conda_nvcc
        is_available = numbers(cuda) >= numbers(nvcc.first)
        return (install_conda_packages(f"cuda-nvcc={cuda}", channel=nvcc.channel),) if is_available else ()
    found = find_conda_toolkit(situation, cuda)
    return (found, *activate_conda_libraries(situation)) if found else ()


def find_conda_toolkit(situation: Situation, cuda: str) -> InstallCondaPackages | None:
    """Install the libraries of a CUDA line with conda: one package, or many beside one that fixes the line."""
    toolkit_builds, version_builds = (
        situation.matrix.conda_builds("cudatoolkit"),
        situation.matrix.conda_builds("cuda-version"),
    )
    channels = [row.channel for row in toolkit_builds if cuda in row.cuda]
    if channels:
        return install_conda_packages(f"cudatoolkit={cuda}", channel=channels[0])
    if list_matching_builds(version_builds, cuda) and not list_matching_builds(toolkit_builds, cuda):
        return install_conda_packages(f"cuda-version={cuda}", "cuda-libraries")
    return None


def list_matching_builds(rows: Iterable[CondaBuild], version: str) -> list[CondaBuild]:
    """List the builds on conda's channels whose versions admit one."""
    from packaging.specifiers import SpecifierSet

    return [row for row in rows if SpecifierSet(row.versions).contains(version)]


def _name_release_for_installed(situation: Situation, fix: InstallToolkit) -> tuple[Alternative, ...]:
    """Name the release of the framework that takes the CUDA that is there, and the command that installs it."""
    line = major_minor(fix.installed)
    if not line or not fix.framework:
        return ()
    rows = situation.matrix.releases(fix.framework, situation.context.platform)
    identity_row = identity(fix.framework)
    if identity_row.index:
        named_row = situation.release_row(identity_row.name, fix.release)
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


@writes(InstallNvcc)
def install_matching_nvcc(situation: Situation, fix: InstallNvcc) -> Remedy:
    """Install the nvcc of the CUDA that a framework was built with."""
    build = situation.build(fix.framework, fix.distribution)
    summary = f"Install nvcc of CUDA {fix.cuda}, and point CUDA_HOME at its folder where you compile extensions."
    return _install_nvcc_for(situation, build, fix.cuda, summary)


def _install_nvcc_for(situation: Situation, build: Build | None, cuda: str, summary: str) -> Remedy:
    """Install nvcc with ptxas and libdevice: as the wheel a build asks for, else from NVIDIA's repository."""
    wheels = build.release.cuda_wheels if build and build.release else ()
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


@writes(InstallLibdevice)
def install_libdevice(situation: Situation, fix: InstallLibdevice) -> Remedy:
    """Install the part of CUDA that holds libdevice."""
    build = next((item for item in situation.builds if item.traits.needs_libdevice), None)
    return _install_nvcc_for(situation, build, fix.cuda, "Install the part of CUDA that contains libdevice.")


@writes(NameLibdevice)
def name_libdevice(_: Situation, fix: NameLibdevice) -> Remedy:
    """Let XLA look in the folder where libdevice is."""
    root = fix.root
    flags = SetVariables((("XLA_FLAGS", f"--xla_gpu_cuda_data_dir={root}"),), "in the environment's activation script")
    steps = (*_link_libdevice(root, fix.path), flags) if is_plain_path(root) else ()
    return Remedy("Set XLA_FLAGS to that folder in the environment's activation script.", steps)


def _link_libdevice(root: str, path: str) -> tuple[Action, ...]:
    """Link a libdevice that lies elsewhere in its toolkit, as in conda's cudatoolkit, to where XLA looks below it."""
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
        changed: Remedy = replace(found, actions=(*found.actions, before))  # it lies beside the one that is called
        return changed
    summary = f"Let the ptxas of CUDA {fix.cuda} or newer be found first: none before it knows {fix.capability}."
    look = Show(("ptxas", "--version"), "the one that is found now", ENVIRONMENT, (LINUX,))
    triton = ((name, f"{root}/ptxas") for name in ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"))
    named = (("PATH", f"{root}:$PATH"), *triton)
    return Remedy(summary, (look, SetVariables(named, "where that toolkit is installed; Triton reads its own two")))


@writes(ReplaceBundledPtxas)
def replace_bundled_ptxas(_: Situation, fix: ReplaceBundledPtxas) -> Remedy | None:
    """Name another ptxas to a package that calls its own."""
    upgrade = f"nstall a torch that requires {fix.newer} or newer" if fix.newer else ""
    if not fix.variable:
        return Remedy(f"I{upgrade}.") if upgrade else None
    place = PROGRAM_SHELL if fix.path else "where that toolkit is installed"
    named = SetVariables(((fix.variable, fix.path or f"/usr/local/cuda-{fix.cuda}/bin/ptxas"),), place)
    options = f", or i{upgrade}" if upgrade else ""
    return Remedy(f"Let the ptxas of CUDA {fix.cuda} or newer be called{options}.", (named,))


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
    found = use_other_compiler(situation, UseOtherCompiler(row.version, highest, lowest, gcc.value))
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


def _parse_minor(version: str) -> str:
    return ".".join(map(str, numbers(version)[:2]))

"""What to do about the Python environment: interpreter, framework release and build, CUDA wheels, other packages."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable

from envcheck.actions import (
    WINGET,
    Action,
    CreateEnvironment,
    InstallCondaPackages,
    InstallPackages,
    InstallSystemPackages,
    LinkFile,
    RenameFile,
    RunCommand,
    RunEnvcheck,
    SetCondaVariable,
    SetVariables,
    Show,
    UnsetVariable,
    UpgradePip,
    is_requirement,
)
from envcheck.frameworks import framework_names, identity
from envcheck.matrix.companions import companion_row
from envcheck.matrix.package_index import cuda_label, index_url
from envcheck.model import (
    LINUX,
    PIP,
    USER,
    UV,
    WINDOWS,
    Alternative,
    Distribution,
    FrameworkRelease,
    Problem,
    Remedy,
    major,
    major_minor,
    replace,
)
from envcheck.model.requirements import name_of
from envcheck.model.specifiers import admits_others, can_be_met, matches
from envcheck.remedies import remedy
from envcheck.remedies.rows import remedy_table
from envcheck.remedies.situation import PLAIN_FILE, Situation, find_last_gpu_release, install_conda_packages
from envcheck.remedies.system import system_packages
from envcheck.rules import Context
from envcheck.rules.builds import Build, WantedRelease, is_conda_build, wanted_releases
from envcheck.rules.gpu_releases import best_gpu_row, choose_variant, gpu_requirement, gpu_rows
from envcheck.rules.requirements import requirements_on

_KERAS_2_CASES = {"keras-3-words", "keras-2-or-3", "keras-config"}  # code or a file of Keras 2 meets Keras 3
_ELSEWHERE = "Use a platform with GPU wheels, or a container image or build for this one"
_NO_CUDA_ON_MACOS = (
    "Use a Linux machine with an NVIDIA GPU: no framework has CUDA builds for macOS. (PyTorch and tensorflow-metal use "
    "Apple's GPU)"
)
_LDD = Show(("ldd", "--version"), "shows the installed glibc", systems=(LINUX,))
_NAMED = 3  # requirements in a sentence
_PROGRAM_SHELL = "in the program's shell"


# The interpreter and the system below it.


@remedy("python-unsupported")
def use_other_python(situation: Situation, problem: Problem) -> Remedy | None:
    """Make an environment with a Python that has a wheel of the release."""
    minors = tuple(problem.value("pythons").split())
    if not minors:
        return _install_listed(situation, problem) if problem.requirements or problem.advice else None
    usual = system_packages().python.usual
    chosen = problem.python or (usual if usual in minors else minors[-1])
    versions = minors[0] if len(minors) == 1 else f"{minors[0]} to {minors[-1]}"
    if problem.value("open_end"):
        versions = f"{minors[0]} or newer"
    requirement = problem.requirements[0] if problem.requirements else ""
    is_requested = problem.value("asks") == "package"
    reason = (
        f"The package requires Python {versions}"
        if is_requested
        else f"{requirement or 'The release'} has wheels for Python {versions}"
    )
    new = situation.new_environment(chosen)
    install = _install_into_new(situation, new, requirement)
    check = () if situation.facts.python.version.value is not None else (_ask_bits(situation),)
    other_release = problem.value("other_release")
    alternatives = (
        (Alternative(f"Request {other_release}, which has a wheel for this Python."),) if other_release else ()
    )
    return Remedy(f"{reason} (64-bit): create an environment with one.", (*check, *new, *install), alternatives)


def _install_into_new(situation: Situation, new: tuple[Action, ...], requirement: str) -> tuple[Action, ...]:
    environment = new[0] if new else None
    if not is_requirement(requirement) or not isinstance(environment, CreateEnvironment) or not environment.folder:
        return ()
    index = index_url(name_of(requirement), requirement.partition("+")[2])
    return (InstallPackages((requirement,), environment.interpreter(situation.os), index=index),)


def _ask_bits(situation: Situation) -> Action:
    code = "import struct, sys; print(sys.version, 8 * struct.calcsize('P'))"
    return situation.run_python(code, "shows the Python; the last number must be 64")


@remedy("python-32bit")
def install_64_bit_python(situation: Situation, problem: Problem) -> Remedy | None:
    """Install a 64-bit Python."""
    return _install_python(situation, problem, "a 64-bit Python")


@remedy("python-wrong-arch")
def install_native_python(situation: Situation, problem: Problem) -> Remedy | None:
    """Install a Python for the machine's own architecture."""
    return _install_python(situation, problem, f"a Python for {situation.facts.host.architecture.value}")


_BUILDS = {"darwin": "-macos-aarch64-none", "linux": "-linux-{cpu}-gnu"}  # 64-bit builds, as uv names them


def _install_python(situation: Situation, problem: Problem, what: str) -> Remedy | None:
    """Make an environment with another build of Python, which uv, or on Windows winget, downloads."""
    if "read" not in problem.cases:
        return None
    minor = system_packages().python.usual
    winget = InstallSystemPackages(WINGET, (f"Python.Python.{minor}",), scope=USER)
    install = (winget,) if situation.os == "windows" else ()
    is_arm = situation.facts.host.architecture.value in ("aarch64", "arm64")
    build = _BUILDS.get(situation.os, "").format(cpu="aarch64" if is_arm else "x86_64")
    starter = () if install else (f"cpython-{minor}{build}",)
    create = CreateEnvironment(f".venv-{minor}", PIP if install else UV, minor, starter)
    return Remedy(f"Install {what}, and recreate the environment with it.", (*install, create))


@remedy("pip-too-old")
def upgrade_pip(situation: Situation, problem: Problem) -> Remedy | None:
    """Upgrade pip, then install what it did not find."""
    if not problem.requirements:
        return None
    upgrade = UpgradePip(situation.python)
    return Remedy("Upgrade pip, then install again.", (upgrade, *situation.install(*problem.requirements)))


@remedy("glibc-too-old")
def use_newer_glibc(situation: Situation, problem: Problem) -> Remedy | None:
    """Use a system with the C library that the wheels need."""
    version = problem.value("glibc_wanted")
    systems = remedy_table().systems_of_glibc.items()
    system_names = next(
        (names for line, names in systems if _parse_minor(version) and _parse_minor(line) >= _parse_minor(version)), ""
    )
    if not version:
        return None
    oldest = f" (the oldest: {system_names})" if system_names else ""
    summary = f"Use a system or image with glibc {version} or newer{oldest}, or a release for an older one"
    check = () if situation.facts.host.libc_version.value is not None else (_LDD,)
    return Remedy(f"{summary}. Never replace the system's glibc.", check)


def _parse_minor(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split("."))) if re.fullmatch(r"\d+\.\d+", version) else ()


@remedy("libstdcxx-mismatch")
def update_libstdcxx(situation: Situation, problem: Problem) -> Remedy | None:
    """Update the environment's libstdc++, or let the loader find the system's."""
    if "library-path" in problem.cases:
        return _keep_off_library_path(situation, problem)
    if not {"older-than-tag", "lacks-version"} & set(problem.cases):
        return None
    return Remedy(
        "Update the environment's libstdc++.", (install_conda_packages("libstdcxx-ng"),) if situation.has_conda else ()
    )


def _keep_off_library_path(situation: Situation, problem: Problem) -> Remedy:
    """Take the folder of an old copy off LD_LIBRARY_PATH."""
    folder = problem.folders[0]
    summary = f"Remove {folder} from LD_LIBRARY_PATH: its {problem.value('library')} is too old."
    is_linked = UnsetVariable("LD_LIBRARY_PATH", _PROGRAM_SHELL)  # the variable names the folder in another way
    return Remedy(summary, situation.leave_out("LD_LIBRARY_PATH", folder) or (is_linked,))


@remedy("msvc-runtime-missing")
def install_visual_c_runtime(situation: Situation, problem: Problem) -> Remedy:
    """Install Microsoft's Visual C++ runtime."""
    install = InstallSystemPackages(WINGET, ("Microsoft.VCRedist.2015+.x64",))
    url = "https://aka.ms/vs/17/release/vc_redist.x64.exe"
    return Remedy(f"Install Microsoft's Visual C++ runtime for x64 ({url}), then open a new terminal.", (install,))


# The framework: its release and its build.


def install_judged_releases(context: Context) -> RunEnvcheck | None:
    """Install the releases that were judged without being installed; None without any."""
    wanted = [item for item in wanted_releases(context) if item.build is not None and not item.build.installed]
    texts = tuple(_pinned(item, item.build) for item in wanted if item.build is not None)
    packages = (item.package for item in wanted_releases(context) if item.package is not None)
    texts += tuple(f"{row.distribution}=={row.version}" for row in packages)
    return RunEnvcheck(("install", *texts), "installs what was judged") if texts else None


def _pinned(wanted: WantedRelease, build: Build) -> str:
    extras = f"[{','.join(wanted.extras)}]" if wanted.extras else ""
    return f"{build.distribution}{extras}=={build.version}" + (f"+{build.local}" if build.local else "")


@remedy("framework-missing")
def install_missing_framework(situation: Situation, problem: Problem) -> Remedy | None:
    """Install the framework into the Python that runs the program."""
    if problem.requirements:
        return _install_listed(situation, problem)
    if "none-installed" in problem.cases:
        summary = "Install a framework, or check one before the installation with --for."
        return Remedy(summary, _install_any(situation))
    if problem.framework not in framework_names():
        return None
    show_python = situation.run_python("import sys; print(sys.executable)", "shows the Python that runs")
    summary = f"Install {problem.framework} into the Python that runs the program: use python -m pip."
    traits = identity(problem.framework)
    steps = situation.install_gpu_build(problem.framework) or situation.install(traits.main or traits.name)
    return Remedy(summary, (show_python, *steps))


def _install_any(situation: Situation) -> tuple[Action, ...]:
    """Install the framework that most start with, or another that has releases for this platform; () without one."""
    platform = situation.context.platform
    names = (system_packages().python.usual_framework, *framework_names())
    name = next((each for each in names if any(situation.matrix.releases(each, platform))), "")
    is_own = situation.facts.python.kind.value == "venv" and situation.prefix
    folder = ("--env", situation.prefix) if is_own else ()
    purpose = f"Install the {identity(name).title} that fits this machine, or name another framework." if name else ""
    return (RunEnvcheck(("install", name, *folder), purpose, USER),) if name else ()


def _install_listed(situation: Situation, problem: Problem) -> Remedy:
    """Install the requirements that a row of the matrix names, with its advice."""
    text = f"Install {', '.join(problem.requirements)}." if problem.requirements else ""
    summary = " ".join(filter(None, (text, problem.advice)))
    return Remedy(summary, situation.install(*problem.requirements))


@remedy("framework-package-removed")
def install_replacement(situation: Situation, problem: Problem) -> Remedy | None:
    """Install what replaced a withdrawn distribution."""
    if not problem.requirements:
        return None
    requirement = problem.requirements[0]
    return Remedy(f"Install {requirement} instead.", situation.install(requirement))


@remedy("platform-no-gpu-wheel")
def use_other_platform(situation: Situation, problem: Problem) -> Remedy | None:
    """Use a platform that has GPU wheels, or the last release that has one here."""
    if not problem.framework or not situation.os:
        return None
    is_musl = situation.facts.host.libc_kind.value == "musl"
    last = None if is_musl else next(iter(gpu_rows(situation.context, problem.framework)), None)
    if situation.os == "windows":
        advice = "Use WSL 2, where the Linux wheels support the GPU"
    else:
        elsewhere = "Use a system or container image with glibc" if is_musl else _ELSEWHERE
        advice = _NO_CUDA_ON_MACOS if situation.os == "darwin" else elsewhere
    steps: tuple[Action, ...] = (_install_wsl(problem.framework),) if situation.os == "windows" else ()
    alternatives: tuple[Alternative, ...] = ()
    if last is not None:
        requirement = f"{last.distribution}=={last.version}"
        plan_words = ("plan", requirement, "--platform", situation.context.platform, "--python", last.pythons[-1])
        alternatives = (
            Alternative(
                f"Use {requirement}, the last release with a GPU wheel here.",
                (RunEnvcheck(plan_words, "shows the plan"),),
            ),
        )
    return Remedy(f"{advice}.", steps, alternatives)


def _install_wsl(framework: str) -> RunCommand:
    return RunCommand(
        ("wsl.exe", "--install"), f"WSL 2; inside it: envcheck plan {framework}", USER, (WINDOWS,),
        check_argv=("wsl.exe", "--status"), lasting="removing WSL would remove its distributions",
        ends_session=True,
    )  # fmt: skip


@remedy("framework-cpu-build")
def install_cuda_build(situation: Situation, problem: Problem) -> Remedy | None:
    """Replace a CPU build: through conda where conda chose it, else by the GPU build for this Python and driver."""
    name = problem.framework
    framework = situation.framework(name)
    if "conda-cpu-build" in problem.cases or (framework and is_conda_build(situation.context, framework.main)):
        summary = f"Install the CUDA build of {name} with conda. Name the build: conda may choose a CPU build."
        steps = situation.install_gpu_build(name) if situation.from_log else ()
        alternatives = (Alternative("Or install the build from pip's index.", steps),) if steps else ()
        spec = identity(name).conda_gpu_spec if name in framework_names() else ""
        return Remedy(summary, (install_conda_packages(spec),) if spec else (), alternatives)
    if problem.advice:
        return Remedy(problem.advice)
    facts = situation.facts
    is_described = facts.python.version.value is not None or facts.driver.release.value is not None
    if framework is not None and (is_described or not situation.from_log):
        return _install_gpu_build(
            situation, framework.main, tuple(item.distribution for item in framework.builds if item.installed)
        )
    if name not in framework_names():
        return None
    removals = situation.uninstall(*identity(name).cpu_builds)
    summary = f"Remove the CPU build and install the one for CUDA.{_describe_end_on_windows(situation, name)}"
    return Remedy(summary, (*removals, *_install_cuda_build_of_log(situation, problem)))


def _install_cuda_build_of_log(situation: Situation, problem: Problem) -> tuple[Action, ...]:
    """Install the CUDA build of the release that a log names, for the CUDA that it names, else the one that fits."""
    name, release = problem.framework, problem.release
    return (
        (situation.install_gpu_build(name, release=release, cuda=problem.cuda) if problem.cuda and release else ())
        or (situation.install_gpu_build(name, release=release) if release else ())
        or situation.install_gpu_build(name)
    )


def _describe_end_on_windows(situation: Situation, name: str) -> str:
    """Say after which release a framework has no CUDA build for Windows, where this may be one."""
    last = find_last_gpu_release(situation.matrix, name, "win_amd64") if situation.os in ("", "windows") else ""
    title = identity(name).title
    return f" On Windows no {title} after {major_minor(last)} has CUDA: use WSL 2 there." if last else ""


def _install_gpu_build(situation: Situation, build: Build, installed: tuple[str, ...]) -> Remedy:
    context = situation.context
    if identity(build.framework).index:
        return _install_labelled_build(situation, build)
    row = best_gpu_row(context, build.framework, build.version)
    if row is None:
        return Remedy(
            f"No GPU release of {build.framework} fits this Python and driver: use another Python or a newer driver."
        )
    is_kept = row.distribution in installed or bool(identity(row.framework).plugins)
    requirement = gpu_requirement(context, row)
    steps = (*situation.uninstall(*(() if is_kept else installed)), *situation.install(requirement))
    return Remedy(f"Install the GPU build: {requirement}.", steps)


def _install_labelled_build(situation: Situation, build: Build) -> Remedy:
    """Install a CUDA build from the framework's own index, whose versions have labels such as +cu126."""
    name, title = build.framework, identity(build.framework).title
    version, variant = choose_variant(situation.context, name, build.version)
    if not variant:
        return Remedy(
            f"Install a CUDA build from {title}'s package index, as its installation page shows for this driver."
        )
    index = index_url(name, cuda_label(variant))
    steps = situation.install(f"{name}=={version}", index=index, force=build.installed)
    return Remedy(f"Install {name} {version} for CUDA {variant} from {title}'s package index.", steps)


@remedy("framework-cuda-extra-missing")
def install_cuda_extra(situation: Situation, problem: Problem) -> Remedy | None:
    """Install the release that is there with the extra that brings its CUDA libraries."""
    if problem.requirements:
        steps = situation.install(*problem.requirements, index=problem.value("index"))
        return Remedy(f"Install {' and '.join(problem.requirements)}; no CUDA Toolkit is needed.", steps)
    if problem.advice:
        return Remedy(problem.advice)
    framework = situation.framework(problem.framework)
    if "no-plugin" in problem.cases and framework is not None:
        return install_cuda_build(situation, problem)
    row = situation.release_row(problem.framework, problem.release)
    if row is not None and row.gpu_extra and len(row.extras) < 2 and situation.os not in ("windows", "darwin"):
        requirement = f"{row.distribution}[{row.gpu_extra}]=={row.version}"
        return Remedy(f"Install {requirement}; no CUDA Toolkit is needed.", situation.install(requirement))
    return _plan_cuda_extra(situation, problem)


def _plan_cuda_extra(situation: Situation, problem: Problem) -> Remedy | None:
    steps = situation.install_gpu_build(problem.framework)
    if problem.framework and identity(problem.framework).brings_cuda:
        summary = f"Reinstall {problem.framework} with the nvidia-* wheels that it requires, without --no-deps."
        return Remedy(summary, (*situation.uninstall(problem.framework), *steps))
    extra = problem.value("framework_extra")
    windows = " Windows has none: use WSL 2." if situation.os in ("", "windows") else ""
    summary = f"Install the framework with its CUDA libraries: {extra}.{windows}"
    return Remedy(summary, steps) if extra else None


@remedy("framework-duplicate-dists")
def keep_one_distribution(situation: Situation, problem: Problem) -> Remedy | None:
    """Remove the distributions that share a module, then install one of them."""
    if "files" in problem.cases:
        return Remedy("Request only one of them.")
    if not problem.names:
        return None
    requirement = problem.requirements[0] if problem.requirements else ""
    steps = (*situation.uninstall(*problem.names), *(situation.install(requirement) if requirement else ()))
    return Remedy(f"Remove them all, then install only {requirement or 'the one you need'}.", steps)


@remedy("release-unknown")
def refresh_matrix(situation: Situation, problem: Problem) -> Remedy:
    """Renew the matrix, or envcheck itself."""
    renewal = situation.matrix.renewal
    framework_option = ("--framework", problem.framework) if problem.framework and renewal == "refresh" else ()
    renew = RunEnvcheck(("matrix", renewal, *framework_option), scope="user")
    return Remedy(problem.advice or f"Update envcheck, or {renewal} its matrix.", (renew,))


# The files of what is installed.


@remedy("install-interrupted", "install-damaged")
def reinstall(situation: Situation, problem: Problem) -> Remedy | None:
    """Install the damaged distributions again, at the releases that are there; settle an installation of our own."""
    where = ("--env", problem.value("folder")) if problem.value("folder") else ()
    if "marker" in problem.cases:
        purpose = "finishes the installation, or restores the environment as it was"
        settle = RunEnvcheck(("install", "--resume", *where), purpose)
        return Remedy("Let envcheck settle the installation.", (settle,))
    if "marker-alone" in problem.cases:
        complete = RunEnvcheck(("fix", *where), "repairs what is there, and completes the environment")
        return Remedy("Let envcheck complete the environment.", (complete,))
    if not problem.requirements:
        return None
    if "unowned" in problem.cases:
        requirement = problem.requirements[0]
        public, _, label = requirement.partition("+")
        steps = situation.install(public, index=index_url(name_of(public), label))
        return Remedy(f"Install {requirement}, over what is left of it.", steps)
    names = ", ".join(problem.requirements[:_NAMED]) + (" …" if len(problem.requirements) > _NAMED else "")
    is_unlisted = "no-record" in problem.cases
    modules = problem.value("modules")
    steps = situation.reinstall(*problem.requirements, modules=modules, without_record=is_unlisted)
    return Remedy(f"Reinstall {names}: the same releases, without their dependencies.", steps)


# The CUDA wheels.


@remedy("cuda-wheel-not-found")
def expose_cuda_wheels(situation: Situation, problem: Problem) -> Remedy | None:
    """Put the wheels' folders on the loader's path, or install a release that finds them."""
    if "needs-activation" in problem.cases:
        return Remedy("Activate the environment before you start a program.", situation.activate())
    if problem.folders:
        requirement = problem.requirements[0] if problem.requirements else ""
        install = situation.install(requirement) if requirement else ()
        alternatives = (Alternative(f"Install {requirement}, which finds them.", install),) if requirement else ()
        links = _link_libraries(situation, problem)
        if links:
            names = ", ".join(posixpath.basename(link.link) for link in links)
            summary = f"Link {names} into {problem.value('reached')}, where the framework looks."
            return Remedy(summary, links, alternatives)
        summary = "Add the wheels' folders to the loader's path when the environment is activated."
        return Remedy(summary, situation.add_loader_folders(problem.folders), alternatives)
    return _install_listed(situation, problem) if problem.requirements or problem.advice else None


def _link_libraries(situation: Situation, problem: Problem) -> tuple[LinkFile, ...]:
    """Link libraries into a folder that a framework looks in, by paths that hold wherever the environment lies."""
    reached, paths = problem.value("reached"), problem.value("links").split()
    if not reached or situation.os != "linux" or not all(re.fullmatch(PLAIN_FILE, path) for path in (reached, *paths)):
        return ()
    return tuple(LinkFile(posixpath.relpath(path, reached), f"{reached}/{posixpath.basename(path)}") for path in paths)


@remedy("cuda-wheel-conflict")
def keep_one_cuda_major(situation: Situation, problem: Problem) -> Remedy | None:
    """Keep the wheels of one CUDA major, and install them again: the others wrote into the same folders."""
    if "apart" in problem.cases:
        return Remedy("Use separate environments for frameworks that need different CUDA majors.")
    if problem.names and problem.requirements:
        removed = ", ".join(problem.names)
        reinstalled = " and ".join(text.partition("==")[0] for text in problem.requirements)
        steps = (*situation.uninstall(*problem.names), *situation.install(*problem.requirements, force=True))
        return Remedy(f"Remove {removed}, then reinstall {reinstalled}, whose files were overwritten.", steps)
    return meet_pins(situation, problem) or _start_afresh(situation, problem)


def _start_afresh(situation: Situation, problem: Problem) -> Remedy | None:
    """Make an environment for one framework, with the CUDA wheels that it asks for itself."""
    create = CreateEnvironment(".venv-new", starter=(situation.python,), python=problem.python)
    python = create.interpreter(situation.os)
    steps = _install_cuda_build_of_log(situation, problem)
    fresh = tuple(replace(item, python=python) for item in steps if isinstance(item, InstallPackages))
    summary = "Make a fresh environment with one framework, and install no nvidia-* wheels by hand."
    return Remedy(summary, (create, *fresh)) if fresh else None


# The packages around a framework.


@remedy("numpy-abi", "protobuf-conflict", "keras-mismatch", "dependency-conflict")
def meet_pins(situation: Situation, problem: Problem) -> Remedy | None:
    """Install the releases that meet what a framework asks for."""
    case = next((name for name in problem.cases if name in _PINS), "")
    if case:
        return _PINS[case](situation, problem)
    if problem.requirements or problem.advice:
        rival, requirements = _fit_installed(situation, problem.requirements)
        return Remedy(rival) if rival else _install_listed(situation, replace(problem, requirements=requirements))
    if _KERAS_2_CASES & set(problem.cases):
        return _restore_keras_2(situation, problem)
    return _install_named_release(situation, problem)


def _reinstall_part(situation: Situation, problem: Problem) -> Remedy:
    requirement = problem.requirements[0]
    return Remedy(f"Reinstall {requirement}: pip then installs the matching parts.", situation.install(requirement))


def _restore_requirements(situation: Situation, problem: Problem) -> Remedy:
    """Install what a distribution requires, in releases that the other installed packages admit, too."""
    rival, requirements = _fit_installed(situation, problem.requirements)
    if rival:
        return Remedy(rival)
    summary = f"Install {', '.join((*requirements[1:], requirements[0]))}."
    if "missing-requirements" in problem.cases:
        others_text = f", with {' and '.join(requirements[1:])}" if requirements[1:] else ""
        summary = f"Reinstall {requirements[0]}{others_text}: pip then installs what is missing."
    return Remedy(summary, situation.install(*requirements))


def _fit_installed(situation: Situation, texts: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Bound requirements by what installed packages require; say why where that leaves none."""
    fitted = []
    for text in texts:
        rival, requirement = _fit_others(situation, text)
        if rival:
            name = name_of(text)
            reason = f"{rival} needs another release of {name} than {text.removeprefix(name)}"
            return f"Use separate environments: {reason}.", ()
        fitted.append(requirement)
    return "", tuple(fitted)


def _fit_others(situation: Situation, text: str) -> tuple[str, str]:
    """Bound a requirement by what installed packages require that are well now, and name who refuses all of it."""
    name = name_of(text)
    specifier = text.removeprefix(name)
    installed = situation.context.distributions.get(name)
    if installed is None or specifier[:1] not in ("<", ">", "=", "!", "~"):
        return "", text
    for owner, other in requirements_on(situation.context, name):
        if not matches(installed.version, other):
            continue  # it is broken already, by what is installed
        if not can_be_met(f"{specifier},{other}"):
            return f"{owner.name} {owner.version}", text
        extra = [clause for clause in other.split(",") if admits_others(specifier, clause)]
        specifier = ",".join((specifier, *extra))
    return "", name + specifier


def install_matching_dependant(situation: Situation, problem: Problem) -> Remedy | None:
    """Install the release that was made for the framework that is there, from the index that build came from."""
    name, (framework_pin, *_) = problem.names[0], problem.requirements
    framework, _, version = framework_pin.partition("==")
    label = problem.value("release").partition("+")[2]
    index = index_url(framework, label)
    known = _list_dependants(situation, framework, version, name)
    of_index = companion_row(name).on_index
    build = situation.matrix.build(framework, version, label, situation.context.platform)
    fits = [row for row in known if build is None or situation.matrix.is_of_one_cuda(row, build)]
    installed = situation.context.distributions.get(name)
    if fits:
        requirement = f"{fits[0].distribution}=={fits[0].version}"
        # pip takes another build of this very release for the one that is asked for.
        is_other = installed and installed.version.partition("+")[0] != fits[0].version and fits[0].distribution == name
        replaced = () if is_other else situation.uninstall(name)
        steps = situation.install(framework_pin, requirement, index=index if of_index else "")
        return Remedy(f"Install {requirement}, which was made for {framework} {version}.", (*replaced, *steps))
    if known:
        there = (row for row in known if installed and row.version == installed.version)
        return _install_for_cuda_of(situation, framework, version, next(there, known[0]))
    kept = _keep_dependant(situation, framework, label, installed) if installed else None
    if kept or situation.from_log:
        return kept
    summary = f"Install the release of {name} that was made for {framework} {version}."
    return Remedy(summary, situation.install(*problem.requirements, index=index))


def _keep_dependant(situation: Situation, framework: str, label: str, installed: Distribution) -> Remedy | None:
    """Install the framework's newest release that an installed companion was made for; None where none is known."""
    matrix, platform = situation.matrix, situation.context.platform
    pin = matrix.companion_pins(framework, installed.name).get(installed.version.partition("+")[0])
    minor = major_minor(situation.facts.python.version.value or "")
    rows = matrix.releases(framework, platform, lambda version: matches(version, pin)) if pin else ()
    row = next((item for item in rows if item.distribution == framework and (not minor or minor in item.pythons)), None)
    if row is None:
        return None
    index = index_url(framework, label) if matrix.build(framework, row.version, label, platform) else ""
    summary = f"Install {framework}=={row.version}, which {installed.name} {installed.version} was made for."
    return Remedy(summary, situation.install(f"{framework}=={row.version}", index=index))


def _list_dependants(situation: Situation, framework: str, version: str, name: str) -> list[FrameworkRelease]:
    """List the releases of a companion, or of one with the same module, that go with a framework's, newest first."""
    matrix, row, platform = situation.matrix, companion_row(name), situation.context.platform
    minor = major_minor(situation.facts.python.version.value or "")
    found = [*matrix.companions_of(framework, version, platform, name)]
    owners = matrix.companions_of(framework, version, platform, row.pinned_by) if row.pinned_by else ()
    for item in row.distributions if owners else ():
        pins = {owner.requires.get(item, "").removeprefix("==") for owner in owners}
        releases = matrix.companion_releases(item) if any(pins) else ()
        found += (each for each in releases if each.version in pins and each.platform in (platform, "any"))
    return [each for each in found if not minor or each.platform == "any" or minor in each.pythons]


def _install_for_cuda_of(situation: Situation, framework: str, version: str, companion: FrameworkRelease) -> Remedy:
    """Install the framework's build for the CUDA that a companion's only build is for."""
    row = situation.matrix.release(framework, version, situation.context.platform)
    builds = situation.matrix.index_builds(row) if row else ()
    same = next((each for each in builds if each.cuda and major(each.cuda) == major(companion.cuda or "")), None)
    pin, label = f"{framework}=={version}", same.local if same else ""
    other = f"{companion.distribution}=={companion.version}"
    summary = f"Install {pin}{'+' if label else ''}{label} with {other}: that one is for CUDA {companion.cuda}."
    installed = situation.context.distributions.get(companion.distribution)
    is_there = installed is not None and installed.version.partition("+")[0] == companion.version
    steps = situation.install(f"{pin}+{label}", index=index_url(framework, label)) if label else ()
    return Remedy(summary, (*steps, *(() if is_there else situation.install(other))))


def _install_legacy_keras(situation: Situation, problem: Problem) -> Remedy:
    steps = situation.install(*problem.requirements)
    unset = UnsetVariable("TF_USE_LEGACY_KERAS", _PROGRAM_SHELL)
    return Remedy(f"Install {problem.requirements[0]}.", steps, (Alternative("Use Keras 3.", (unset,)),))


_PINS: dict[str, Callable[[Situation, Problem], Remedy | None]] = {
    "part": _reinstall_part,
    "missing-requirements": _restore_requirements,
    "unmet-requirements": _restore_requirements,
    "dependant": install_matching_dependant,
    "legacy-keras": _install_legacy_keras,
}


def _restore_keras_2(situation: Situation, problem: Problem) -> Remedy | None:
    """Install the tf-keras of the TensorFlow that is there, which brings Keras 2 back."""
    framework = identity(problem.framework) if problem.framework else None
    row = situation.release_row(framework.name, problem.release) if framework else None
    known = (row.framework, row.version, situation.context.platform, "tf-keras") if row else None
    companion = next(iter(situation.matrix.companions_of(*known) if known else ()), None)
    if companion is None or row is None or framework is None:
        return None
    requirement = f"tf-keras=={companion.version}"
    switch = SetVariables((("TF_USE_LEGACY_KERAS", "1"),), _PROGRAM_SHELL)
    summary = f"Code for Keras 2 needs {requirement} with {framework.title} {row.version}."
    return Remedy(summary, (*situation.install(requirement), switch))


def _install_named_release(situation: Situation, problem: Problem) -> Remedy | None:
    """Install what the release of the log names of a package."""
    name = problem.names[0] if problem.names else ""
    row = situation.release_row(problem.framework, problem.release)
    specifier = row.requires.get(name, "").replace(" ", "").replace("dev", ".dev0") if row else ""
    requirement = f"{name}{specifier}"
    if (
        row is None or "<" not in specifier or not is_requirement(requirement)
    ):  # without an upper bound it rules nothing out
        return None
    return Remedy(f"Install the {name} that {row.distribution} {row.version} requires.", situation.install(requirement))


@remedy("env-mixed")
def isolate_environment(situation: Situation, problem: Problem) -> Remedy | None:
    """Keep packages of another place out of the environment."""
    if "user-site" in problem.cases:
        name, value = "PYTHONNOUSERSITE", "1"
        keep_out = SetVariables(((name, value),), _PROGRAM_SHELL)
        step = SetCondaVariable(name, value) if situation.has_conda else keep_out
        return Remedy("Keep the other copy out: set PYTHONNOUSERSITE=1 for this environment.", (step,))
    if {"python-path", "other-python"} & set(problem.cases):
        folders = " and ".join(filter(None, problem.folders)) or "the other copy"
        steps = situation.leave_out("PYTHONPATH", *problem.folders) or (UnsetVariable("PYTHONPATH", _PROGRAM_SHELL),)
        return Remedy(f"Keep {folders} out: remove it from PYTHONPATH.", steps)
    if "two-installers" in problem.cases:
        name = problem.names[0]
        is_name = re.fullmatch(r"[a-z0-9][a-z0-9._-]*", name)
        reinstall = (InstallCondaPackages((name,), (), options=("--force-reinstall",)),) if is_name else ()
        summary = f"Remove the copy of {problem.value('installer')}, then reinstall it with conda."
        return Remedy(summary, (*situation.uninstall(name), *reinstall))
    return None


@remedy("local-module-shadowing")
def rename_file(situation: Situation, problem: Problem) -> Remedy | None:
    """Rename the file that is imported in a framework's place, or take its folder off PYTHONPATH."""
    path = problem.value("path")
    if "read" not in problem.cases or not path:
        return None
    cut = max(path.rfind("/"), path.rfind("\\")) + 1
    new_path = f"{path[:cut]}my_{path[cut:]}"
    is_plain = re.fullmatch(PLAIN_FILE, path) is not None
    rename = (RenameFile(path, new_path, "only if it is yours, and change what imports it"),) if is_plain else ()
    summary = f"Rename {path}."
    steps = situation.leave_out("PYTHONPATH", path[:cut])
    if steps:
        return Remedy(f"Remove {path[:cut]} from PYTHONPATH.", steps, (Alternative(summary, rename),))
    return Remedy(summary, rename)

"""What to do about the Python environment: interpreter, framework release and build, CUDA wheels, other packages."""

from __future__ import annotations

import re
from collections.abc import Callable

from envcheck.actions import (
    WINGET,
    Action,
    CreateEnvironment,
    InstallCondaPackages,
    InstallPackages,
    InstallSystemPackages,
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
from envcheck.matrix.package_index import cuda_label, index_url
from envcheck.model import LINUX, USER, WINDOWS, Alternative, Known, Problem, Remedy, get_value, major_minor
from envcheck.remedies import remedy
from envcheck.remedies.rows import remedy_table
from envcheck.remedies.situation import Situation, conda_packages, last_gpu_release
from envcheck.remedies.system import system_packages
from envcheck.rules.builds import Build, is_conda_build
from envcheck.rules.gpu_releases import best_gpu_row, choose_variant, gpu_requirement, gpu_rows

_KERAS_2 = {"keras-3-words", "keras-2-or-3", "keras-config"}  # code or a file of Keras 2 meets Keras 3
_ELSEWHERE = "Use a platform that has GPU wheels, or a container image or build made for this one"
_NO_CUDA_ON_MACOS = (
    "Use a Linux machine with an NVIDIA GPU: no framework has CUDA builds for macOS (PyTorch and tensorflow-metal use "
    "Apple's GPU)"
)
_LDD = Show(("ldd", "--version"), "the glibc that is here", systems=(LINUX,))
_PROGRAM_SHELL = "in the shell that starts the program"


# The interpreter and the system below it.


@remedy("python-unsupported")
def other_python(situation: Situation, problem: Problem) -> Remedy | None:
    """Make an environment with a Python that has a wheel of the release."""
    minors = tuple(problem.value("pythons").split())
    if not minors:
        return _install_listed(situation, problem) if problem.requirements or problem.advice else None
    usual = system_packages().python.usual
    chosen = problem.python or (usual if usual in minors else minors[-1])
    shown = minors[0] if len(minors) == 1 else f"{minors[0]} to {minors[-1]}"
    if problem.value("open_end"):
        shown = f"{minors[0]} or newer"
    named = problem.requirements[0] if problem.requirements else ""
    asks = problem.value("asks") == "package"
    fits = f"The package asks for Python {shown}" if asks else f"{named or 'The release'} has wheels for Python {shown}"
    new = situation.new_environment(chosen)
    install = _into_new(situation, new, named)
    look = () if isinstance(situation.facts.python.version, Known) else (_ask_bits(situation),)
    other = problem.value("other_release")
    ways = (Alternative(f"Ask for {other}, which has a wheel for this Python."),) if other else ()
    return Remedy(f"{fits}, of 64 bits: make an environment with one.", (*look, *new, *install), ways)


def _into_new(situation: Situation, new: tuple[Action, ...], named: str) -> tuple[Action, ...]:
    made = new[0] if new else None
    if not is_requirement(named) or not isinstance(made, CreateEnvironment) or not made.folder:
        return ()
    return (InstallPackages((named,), made.interpreter(situation.os)),)


def _ask_bits(situation: Situation) -> Action:
    asked = "import struct, sys; print(sys.version, 8 * struct.calcsize('P'))"
    return situation.ask_python(asked, "which Python this is; the last number must be 64")


@remedy("python-32bit")
def python_of_64_bits(situation: Situation, problem: Problem) -> Remedy | None:
    """Install a 64-bit Python."""
    if "read" not in problem.cases:
        return None
    return Remedy("Install a 64-bit Python and create the environment anew with it.")


@remedy("python-wrong-arch")
def python_of_machine(situation: Situation, problem: Problem) -> Remedy | None:
    """Install a Python for the machine's own architecture."""
    machine = get_value(situation.facts.host.architecture)
    if "read" not in problem.cases:
        return None
    return Remedy(f"Install a Python for {machine} and create the environment anew with it.")


@remedy("pip-too-old")
def newer_pip(situation: Situation, problem: Problem) -> Remedy | None:
    """Upgrade pip, then install what it did not find."""
    if not problem.requirements:
        return None
    upgrade = UpgradePip(situation.python)
    return Remedy("Upgrade pip, then install again.", (upgrade, *situation.install(*problem.requirements)))


@remedy("glibc-too-old")
def newer_glibc(situation: Situation, problem: Problem) -> Remedy | None:
    """Use a system with the C library that the wheels need."""
    wanted = problem.value("glibc_wanted")
    known = remedy_table().systems_of_glibc.items()
    having = next((names for line, names in known if _two(wanted) and _two(line) >= _two(wanted)), "")
    if not wanted:
        return None
    oldest = f" (the oldest: {having})" if having else ""
    what = f"Use a system or image with glibc {wanted} or newer{oldest}, or a release made for an older one"
    look = () if isinstance(situation.facts.host.libc_version, Known) else (_LDD,)
    planned = situation.plan_command(problem.framework)
    return Remedy(f"{what}; never replace the system's own.", (*look, *(planned if situation.from_log else ())))


def _two(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split("."))) if re.fullmatch(r"\d+\.\d+", version) else ()


@remedy("libstdcxx-mismatch")
def newer_libstdcxx(situation: Situation, problem: Problem) -> Remedy | None:
    """Update the environment's libstdc++."""
    if "older-than-tag" not in problem.cases:
        return None
    return Remedy(
        "Update the environment's libstdc++.", (conda_packages("libstdcxx-ng"),) if situation.has_conda else ()
    )


@remedy("msvc-runtime-missing")
def visual_c_runtime(situation: Situation, problem: Problem) -> Remedy:
    """Install Microsoft's Visual C++ runtime."""
    install = InstallSystemPackages(WINGET, ("Microsoft.VCRedist.2015+.x64",))
    where = "https://aka.ms/vs/17/release/vc_redist.x64.exe"
    return Remedy(f"Install Microsoft's Visual C++ runtime for x64 ({where}), then open a new terminal.", (install,))


# The framework: its release and its build.


@remedy("framework-missing")
def missing_framework(situation: Situation, problem: Problem) -> Remedy | None:
    """Install the framework into the Python that runs the program."""
    if problem.requirements:
        return _install_listed(situation, problem)
    if "none-installed" in problem.cases:
        return Remedy("Install the framework you want to use, or name it with --for to judge it before.")
    planned = situation.plan_command(problem.framework)
    if not planned:
        return None
    runs = situation.ask_python("import sys; print(sys.executable)", "the Python that runs")
    what = f"Install {problem.framework} into the Python that runs the program: python -m pip always belongs to it."
    return Remedy(what, (runs, *planned))


def _install_listed(situation: Situation, problem: Problem) -> Remedy:
    """Install the requirements that a row of the matrix names, with its advice."""
    wanted = f"Install {', '.join(problem.requirements)}." if problem.requirements else ""
    summary = " ".join(filter(None, (wanted, problem.advice)))
    return Remedy(summary, situation.install(*problem.requirements))


@remedy("framework-package-removed")
def living_package(situation: Situation, problem: Problem) -> Remedy | None:
    """Install what replaced a withdrawn distribution."""
    if not problem.requirements:
        return None
    wanted = problem.requirements[0]
    planned = situation.plan_command(problem.framework) if situation.from_log else ()
    ways = (Alternative("Take what the planner chooses for that machine.", planned),) if planned else ()
    return Remedy(f"Install {wanted} instead.", situation.install(wanted), ways)


@remedy("platform-no-gpu-wheel")
def other_platform(situation: Situation, problem: Problem) -> Remedy | None:
    """Use a platform that has GPU wheels, or the last release that has one here."""
    if not problem.framework or not situation.os:
        return None
    is_musl = get_value(situation.facts.host.libc_kind) == "musl"
    last = None if is_musl else next(iter(gpu_rows(situation.context, problem.framework)), None)
    if situation.os == "windows":
        advice = "Use WSL 2, where the Linux wheels run on the GPU"
    else:
        elsewhere = "Use a system or container image with glibc" if is_musl else _ELSEWHERE
        advice = _NO_CUDA_ON_MACOS if situation.os == "darwin" else elsewhere
    steps: tuple[Action, ...] = (_install_wsl(problem.framework),) if situation.os == "windows" else ()
    steps += situation.plan_command(problem.framework) if situation.from_log else ()
    ways: tuple[Alternative, ...] = ()
    if last is not None:
        named = f"{last.distribution}=={last.version}"
        line = ("plan", named, "--platform", situation.context.platform, "--python", last.pythons[-1])
        ways = (Alternative(f"Use {named}, the last release with a GPU wheel here.", (RunEnvcheck(line, "plans it"),)),)
    return Remedy(f"{advice}.", steps, ways)


def _install_wsl(framework: str) -> RunCommand:
    return RunCommand(
        ("wsl.exe", "--install"), f"WSL 2; inside it: envcheck plan {framework}", USER, (WINDOWS,),
        check_argv=("wsl.exe", "--status"), lasting="removing WSL would take its distributions with it",
        ends_session=True,
    )  # fmt: skip


@remedy("framework-cpu-build")
def cuda_build(situation: Situation, problem: Problem) -> Remedy | None:
    """Replace a CPU build: through conda where conda chose it, else by the GPU build for this Python and driver."""
    name = problem.framework
    found = situation.framework(name)
    if "conda-cpu-build" in problem.cases or (found and is_conda_build(situation.context, found.main)):
        what = f"Install the CUDA build of {name} with conda: name the build, else conda may take one for the CPU."
        planned = situation.plan_command(name) if situation.from_log else ()
        ways = (Alternative("Take what the planner chooses.", planned),) if planned else ()
        spec = identity(name).conda_gpu_spec if name in framework_names() else ""
        return Remedy(what, (conda_packages(spec),) if spec else (), ways)
    if problem.advice:
        return Remedy(problem.advice)
    facts = situation.facts
    is_described = isinstance(facts.python.version, Known) or isinstance(facts.driver.release, Known)
    if found is not None and (is_described or not situation.from_log):
        return _gpu_build(situation, found.main, tuple(item.distribution for item in found.builds if item.installed))
    planned = situation.plan_command(name)
    if not planned or name not in framework_names():
        return None
    removed = situation.uninstall(*identity(name).cpu_builds)
    what = f"Remove the CPU build and install the one for CUDA.{_end_on_windows(situation, name)}"
    return Remedy(what, (*removed, *planned))


def _end_on_windows(situation: Situation, name: str) -> str:
    """Say after which release a framework has no CUDA build for Windows, where this may be one."""
    last = last_gpu_release(situation.matrix, name, "win_amd64") if situation.os in ("", "windows") else ""
    title = identity(name).title
    return f" On Windows no {title} after {major_minor(last)} has CUDA: use WSL 2 there." if last else ""


def _gpu_build(situation: Situation, build: Build, installed: tuple[str, ...]) -> Remedy:
    context = situation.context
    if identity(build.framework).index:
        return _labelled_build(situation, build)
    row = best_gpu_row(context, build.framework, build.version)
    if row is None:
        return Remedy(
            f"No GPU release of {build.framework} fits this Python and driver: use another Python or a newer driver."
        )
    is_kept = row.distribution in installed or bool(identity(row.framework).plugins)
    requirement = gpu_requirement(context, row)
    steps = (*situation.uninstall(*(() if is_kept else installed)), *situation.install(requirement))
    return Remedy(f"Install the GPU build: {requirement}.", steps)


def _labelled_build(situation: Situation, build: Build) -> Remedy:
    """Install a CUDA build from the framework's own index, whose versions have labels such as +cu126."""
    name, title = build.framework, identity(build.framework).title
    version, variant = choose_variant(situation.context, name, build.version)
    if not variant:
        return Remedy(
            f"Install a CUDA build from {title}'s own package index, as its installation page tells for this driver."
        )
    index = index_url(name, cuda_label(variant))
    steps = situation.install(f"{name}=={version}", index=index, force=build.installed)
    return Remedy(f"Install {name} {version} for CUDA {variant} from {title}'s own package index.", steps)


@remedy("framework-cuda-extra-missing")
def with_cuda_extra(situation: Situation, problem: Problem) -> Remedy | None:
    """Install the release that is there with the extra that brings its CUDA libraries."""
    if problem.requirements:
        wanted = problem.requirements[0]
        steps = situation.install(wanted, index=problem.value("index"))
        return Remedy(f"Install {wanted}; no CUDA Toolkit is needed.", steps)
    if problem.advice:
        return Remedy(problem.advice)
    found = situation.framework(problem.framework)
    if "no-plugin" in problem.cases and found is not None:
        return cuda_build(situation, problem)
    row = situation.release_row(problem.framework, problem.release)
    if row is not None and row.gpu_extra and len(row.extras) < 2 and situation.os not in ("windows", "darwin"):
        wanted = f"{row.distribution}[{row.gpu_extra}]=={row.version}"
        return Remedy(f"Install {wanted}; no CUDA Toolkit is needed.", situation.install(wanted))
    return _planned_extra(situation, problem)


def _planned_extra(situation: Situation, problem: Problem) -> Remedy | None:
    planned = situation.plan_command(problem.framework)
    if problem.framework and identity(problem.framework).brings_cuda:
        what = f"Install {problem.framework} anew with the nvidia-* wheels that it asks for, not with --no-deps."
        return Remedy(what, (*situation.uninstall(problem.framework), *planned))
    extra = problem.value("framework_extra")
    windows = " For Windows there are none: use WSL 2." if situation.os in ("", "windows") else ""
    what = f"Install the framework with its CUDA libraries: {extra}.{windows}"
    return Remedy(what, planned) if planned and extra else None


@remedy("framework-duplicate-dists")
def one_distribution(situation: Situation, problem: Problem) -> Remedy | None:
    """Remove the distributions that share a module, then install one of them."""
    if "files" in problem.cases:
        return Remedy("Name one of them only.")
    if not problem.names:
        return None
    kept = problem.requirements[0] if problem.requirements else ""
    steps = (*situation.uninstall(*problem.names), *(situation.install(kept) if kept else ()))
    return Remedy(f"Remove them all, then install {kept or 'the one you mean'} alone.", steps)


@remedy("release-unknown")
def newer_matrix(situation: Situation, problem: Problem) -> Remedy:
    """Renew the matrix, or envcheck itself."""
    named = ("--framework", problem.framework) if problem.framework else ()
    refresh = RunEnvcheck(("matrix", "refresh", *named), scope="user")
    return Remedy(problem.advice or "Update envcheck, or renew its matrix.", (refresh,))


# The CUDA wheels.


@remedy("cuda-wheel-not-found")
def reachable_wheels(situation: Situation, problem: Problem) -> Remedy | None:
    """Put the wheels' folders on the loader's path, or install a release that finds them."""
    if "needs-activation" in problem.cases:
        return Remedy("Activate the environment before you start a program in it.", situation.activate())
    if problem.folders:
        wanted = problem.requirements[0] if problem.requirements else ""
        install = situation.install(wanted) if wanted else ()
        ways = (Alternative(f"Install {wanted}, which finds them by itself.", install),) if wanted else ()
        what = "Put the wheels' folders on the loader's path when the environment is activated."
        return Remedy(what, situation.add_loader_folders(problem.folders), ways)
    return _install_listed(situation, problem) if problem.requirements or problem.advice else None


@remedy("cuda-wheel-conflict")
def wheels_of_one_cuda(situation: Situation, problem: Problem) -> Remedy | None:
    """Keep the wheels of one CUDA major, and install them again: the others wrote into the same folders."""
    if "apart" in problem.cases:
        return Remedy("Put the frameworks that need different CUDA majors into environments of their own.")
    if problem.names and problem.requirements:
        gone = ", ".join(problem.names)
        again = " and ".join(text.partition("==")[0] for text in problem.requirements)
        steps = (*situation.uninstall(*problem.names), *situation.install(*problem.requirements, force=True))
        return Remedy(f"Remove {gone}, then install {again} again, whose files were overwritten.", steps)
    return meet_pins(situation, problem)


# The packages around a framework.


@remedy("numpy-abi", "protobuf-conflict", "keras-mismatch", "dependency-conflict")
def meet_pins(situation: Situation, problem: Problem) -> Remedy | None:
    """Install the releases that meet what a framework asks for."""
    case = next((name for name in problem.cases if name in _PINS), "")
    if case:
        return _PINS[case](situation, problem)
    if problem.requirements or problem.advice:
        return _install_listed(situation, problem)
    if _KERAS_2 & set(problem.cases):
        return _keras_2(situation, problem)
    return _named_by_release(situation, problem)


def _part_again(situation: Situation, problem: Problem) -> Remedy:
    again = problem.requirements[0]
    return Remedy(f"Install {again} again: pip then brings the parts that fit.", situation.install(again))


def _missing_again(situation: Situation, problem: Problem) -> Remedy:
    again, *kept = problem.requirements
    beside = f", with {' and '.join(kept)}" if kept else ""
    what = f"Install {again} again{beside}: pip then brings what is missing."
    return Remedy(what, situation.install(again, *kept))


def _fitting_dependant(situation: Situation, problem: Problem) -> Remedy:
    what = f"Install the release of {problem.names[0]} made for it."
    return Remedy(what, situation.install(*problem.requirements))


def _legacy_keras(situation: Situation, problem: Problem) -> Remedy:
    steps = situation.install(*problem.requirements)
    unset = UnsetVariable("TF_USE_LEGACY_KERAS", _PROGRAM_SHELL)
    return Remedy(f"Install {problem.requirements[0]}.", steps, (Alternative("Use Keras 3.", (unset,)),))


_PINS: dict[str, Callable[[Situation, Problem], Remedy]] = {
    "part": _part_again,
    "missing-requirements": _missing_again,
    "dependant": _fitting_dependant,
    "legacy-keras": _legacy_keras,
}


def _keras_2(situation: Situation, problem: Problem) -> Remedy | None:
    """Install the tf-keras of the TensorFlow that is there, which brings Keras 2 back."""
    known = identity(problem.framework) if problem.framework else None
    row = situation.release_row(known.name, problem.release) if known and known.has_companions else None
    rows = situation.matrix.companions_of(row.version, situation.context.platform) if row else ()
    found = next((item for item in rows if item.distribution == "tf-keras"), None)
    if found is None or row is None or known is None:
        return None
    wanted = f"tf-keras=={found.version}"
    switch = SetVariables((("TF_USE_LEGACY_KERAS", "1"),), _PROGRAM_SHELL)
    what = f"Code for Keras 2 needs {wanted} beside {known.title} {row.version}."
    return Remedy(what, (*situation.install(wanted), switch))


def _named_by_release(situation: Situation, problem: Problem) -> Remedy | None:
    """Install what the release of the log names of a package."""
    name = problem.names[0] if problem.names else ""
    row = situation.release_row(problem.framework, problem.release)
    specifier = row.requires.get(name, "").replace(" ", "").replace("dev", ".dev0") if row else ""
    wanted = f"{name}{specifier}"
    if row is None or "<" not in specifier or not is_requirement(wanted):  # without an upper bound it rules nothing out
        return None
    return Remedy(f"Install the {name} that {row.distribution} {row.version} names.", situation.install(wanted))


@remedy("env-mixed")
def separate_environment(situation: Situation, problem: Problem) -> Remedy | None:
    """Keep packages of another place out of the environment."""
    if "user-site" in problem.cases:
        steps = (SetCondaVariable("PYTHONNOUSERSITE", "1"),) if situation.has_conda else ()
        return Remedy("Keep the other copy out: set PYTHONNOUSERSITE=1 for this environment.", steps)
    if "python-path" in problem.cases:
        return Remedy("Keep the other copy out: unset PYTHONPATH for this environment.")
    if "other-python" in problem.cases:
        return Remedy("Unset PYTHONPATH, or take that entry out of it.")
    if "two-installers" in problem.cases:
        name = problem.names[0]
        plain = re.fullmatch(r"[a-z0-9][a-z0-9._-]*", name)
        again = (InstallCondaPackages((name,), (), options=("--force-reinstall",)),) if plain else ()
        what = f"Remove the copy of {problem.value('installer')}, then let conda install it again."
        return Remedy(what, (*situation.uninstall(name), *again))
    return None


@remedy("local-module-shadowing")
def renamed_file(situation: Situation, problem: Problem) -> Remedy | None:
    """Rename the file that is imported in a framework's place."""
    path = problem.value("path")
    if "read" not in problem.cases or not path:
        return None
    return Remedy(f"Rename {path}, and delete the __pycache__ folder beside it.")

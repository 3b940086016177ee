"""What to do about the frameworks: which is installed, in which release and build."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.actions import RunEnvcheck
from envcheck.frameworks import framework_names, framework_of, identity
from envcheck.model import USER, Alternative, Remedy, major_minor
from envcheck.model.fixes import (
    ChooseFramework,
    InstallCudaBuild,
    InstallFramework,
    KeepOneDistribution,
    RenewMatrix,
    UseOtherPlatform,
)
from envcheck.model.versions import name_of, write_pin
from envcheck.remedies.rows import machine_steps
from envcheck.remedies.situation import (
    Actions,
    Situation,
    find_last_gpu_release,
    install_conda_packages,
)
from envcheck.remedies.system import system_packages
from envcheck.rules import Context
from envcheck.rules.builds import Build, is_conda_build
from envcheck.rules.gpu_releases import best_gpu_row, gpu_requirement, gpu_rows, nearest_index_build
from envcheck.rules.targets import wanted_releases

_ELSEWHERE = "Use a platform with GPU wheels, or a container image or build for this one"
_NO_CUDA_ON_MACOS = (
    "Use a Linux machine with an NVIDIA GPU: no framework has CUDA builds for macOS. (PyTorch and"
    " tensorflow-metal use Apple's GPU)"
)


def install_judged_releases(situation: Situation) -> RunEnvcheck | None:
    """Install the releases that were judged without being installed; None without any."""
    texts = []
    for item in wanted_releases(situation.context):
        build = item.build
        if build is not None and not build.installed:
            texts.append(write_pin(build.distribution, build.full_version, item.extras))
    texts += [item.package.pin for item in wanted_releases(situation.context) if item.package]
    if texts:
        words = ("install", *texts, *_name_environment(situation))
        return RunEnvcheck(words, "installs what was judged")
    return None


def _name_environment(situation: Situation) -> tuple[str, ...]:
    """Return the option that names the judged venv: the command may be typed anywhere."""
    is_own = situation.facts.python.kind.value == "venv" and situation.prefix
    return ("--env", situation.prefix) if is_own else ()


def choose_framework(situation: Situation, _: ChooseFramework) -> Remedy:
    """Install the framework that installed packages require, else the one that most start with.

    It has releases for this platform.
    """
    summary = "Install a framework, or check one before the installation with --for."
    matrix, platform = situation.matrix, situation.context.platform
    usual = system_packages().python.usual_framework
    names = (*_list_required(situation.context), usual, *framework_names())
    # The newest release most likely has a row: to list all of them takes 2 ms.
    published = (
        each
        for each in names
        if any(matrix.release(each, version, platform) for version in matrix.versions(each))
    )
    name = next(published, "")
    if not name:
        return Remedy(summary)
    purpose = (
        f"Install the {identity(name).title} that fits this machine, or name another framework."
    )
    return Remedy(
        summary, (RunEnvcheck(("install", name, *_name_environment(situation)), purpose, USER),)
    )


def _list_required(context: Context) -> Iterator[str]:
    """Yield the frameworks that installed distributions require, extras aside."""
    for owner in context.distributions.values():
        plain = (text for text in owner.requires if "extra" not in text)
        yield from filter(None, (framework_of(name_of(text)) for text in plain))


def install_framework(situation: Situation, fix: InstallFramework) -> Remedy | None:
    """Install its build for this machine, and show which Python runs."""
    name = fix.framework
    if name not in framework_names():
        return None
    show_python = situation.run_python(
        "import sys; print(sys.executable)", "shows the Python that runs"
    )
    summary = f"Install {name} into the Python that runs the program: use python -m pip."
    steps = situation.install_gpu_build(name) or situation.install(identity(name).main or name)
    return Remedy(summary, (show_python, *steps))


def use_other_platform(situation: Situation, fix: UseOtherPlatform) -> Remedy | None:
    """Name the nearest platform with GPU wheels; None where the system is not known."""
    if situation.facts.host.jetson_release.value:  # in a container too
        return _install_jetson_build(fix.framework)
    if not situation.os:
        return None
    if situation.facts.host.libc_kind.value == "musl":
        return Remedy("Use a system or container image with glibc.")
    last = next(iter(gpu_rows(situation.context, fix.framework)), None)
    alternatives: tuple[Alternative, ...] = ()
    if last is not None:
        requirement = last.pin
        words = (
            "plan",
            requirement,
            "--platform",
            situation.context.platform,
            "--python",
            last.pythons[-1],
        )
        summary = f"Use {requirement}, the last release with a GPU wheel here."
        alternatives = (Alternative(summary, (RunEnvcheck(words, "shows the plan"),)),)
    if situation.os == "windows":
        advice = "Use WSL 2, where the Linux wheels support the GPU."
        steps = machine_steps("install-wsl", sudo=False, framework=fix.framework)
        return Remedy(advice, steps, alternatives)
    advice = _NO_CUDA_ON_MACOS if situation.os == "darwin" else _ELSEWHERE
    return Remedy(f"{advice}.", (), alternatives)


def _install_jetson_build(framework: str) -> Remedy:
    return Remedy(
        f"Install NVIDIA's build of {framework} for the JetPack that runs, or use a container image"
        " of its L4T release: the package index has no build for a Jetson."
    )


def install_cuda_build(situation: Situation, fix: InstallCudaBuild) -> Remedy | None:
    """Install it through conda where conda chose the build, else what fits."""
    name = fix.framework
    if name not in framework_names():
        return None
    if situation.facts.host.jetson_release.value:  # in a container too
        return _install_jetson_build(name)
    framework = situation.framework(name)
    if fix.by_conda or (framework and is_conda_build(situation.context, framework.main)):
        return _install_condas_build(situation, name)
    facts = situation.facts
    is_described = facts.python.version.value is not None or facts.driver.release.value is not None
    if framework is not None and (is_described or not situation.from_log):
        installed = tuple(item.distribution for item in framework.builds if item.installed)
        return _install_gpu_build(situation, framework.main, installed)
    steps, end = install_build_of_log(situation, name, fix.cuda), _describe_end(situation, name)
    if not steps:  # what is there stays
        return Remedy(f"No CUDA build of {name} is known to work here.{end}")
    removals = situation.uninstall(*identity(name).plans.cpu_builds)
    return Remedy(f"Remove the CPU build and install the one for CUDA.{end}", (*removals, *steps))


def _install_condas_build(situation: Situation, name: str) -> Remedy:
    summary = (
        f"Install the CUDA build of {name} with conda."
        " Name the build: conda may choose a CPU build."
    )
    steps = situation.install_gpu_build(name) if situation.from_log else ()
    alternatives = []
    if steps:
        alternatives = [Alternative("Or install the build from pip's index.", steps)]
    spec = identity(name).plans.conda_gpu_spec
    install = (install_conda_packages(spec),) if spec else ()
    return Remedy(summary, install, tuple(alternatives))


def install_build_of_log(situation: Situation, name: str, cuda: str = "") -> Actions:
    """Install the CUDA build that a log names, else the one that fits."""
    build = situation.build(name)
    steps: Actions = ()
    release = build.version if build else ""
    if cuda and release:
        steps = situation.install_gpu_build(name, release=release, cuda=cuda)
    if release and not steps:
        steps = situation.install_gpu_build(name, release=release)
    return steps or situation.install_gpu_build(name)


def _describe_end(situation: Situation, name: str) -> str:
    """Say after which release a framework has no CUDA build for Windows, where this may be one."""
    last = ""
    if situation.os in ("", "windows"):
        last = find_last_gpu_release(situation.matrix, name, "win_amd64")
    title = identity(name).title
    if last:
        return f" On Windows no {title} after {major_minor(last)} has CUDA: use WSL 2 there."
    return ""


def _install_gpu_build(situation: Situation, build: Build, installed: tuple[str, ...]) -> Remedy:
    context = situation.context
    if identity(build.framework).index:
        return _install_labelled_build(situation, build)
    row = best_gpu_row(context, build.framework, build.version)
    if row is None:
        return Remedy(
            f"No GPU release of {build.framework} fits this Python and driver: use another Python"
            " or a newer driver."
        )
    is_kept = row.distribution in installed or bool(identity(row.framework).plugins)
    requirement = gpu_requirement(context, row)
    steps = (*situation.uninstall(*(() if is_kept else installed)), *situation.install(requirement))
    return Remedy(f"Install the GPU build: {requirement}.", steps)


def _install_labelled_build(situation: Situation, build: Build) -> Remedy:
    """Install a CUDA build from the framework's own index, with a label such as +cu126."""
    name, title = build.framework, identity(build.framework).title
    row = nearest_index_build(situation.context, build)
    if row is None:
        return Remedy(
            f"Install a CUDA build from {title}'s package index,"
            " as its installation page shows for this driver."
        )
    requirement = f"{name}=={row.version}"
    steps = situation.install(requirement, index=row.index, force=build.installed)
    return Remedy(
        f"Install {name} {row.version} for CUDA {row.cuda} from {title}'s package index.", steps
    )


def keep_one_distribution(situation: Situation, fix: KeepOneDistribution) -> Remedy:
    """Remove them all, since each overwrote files of the others, then install one."""
    steps = (*situation.uninstall(*fix.names), *situation.install(fix.kept))
    return Remedy(f"Remove them all, then install only {fix.kept}.", steps)


def renew_matrix(situation: Situation, fix: RenewMatrix) -> Remedy:
    """Renew it from where it came from."""
    renewal = situation.matrix.renewal
    words = ["matrix", renewal]
    if fix.framework and renewal == "refresh":
        words += ["--framework", fix.framework]
    renew = RunEnvcheck(tuple(words), scope="user")
    return Remedy(fix.advice or f"Update envcheck, or {renewal} its matrix.", (renew,))

"""The steps of a plan: what makes an environment, and what the machine itself needs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from envcheck.actions import (
    APT,
    DNF,
    SH,
    ZYPPER,
    Action,
    AskPerson,
    CreateEnvironment,
    ImportFrameworks,
    InstallLock,
    InstallPackages,
    RestartService,
    Trace,
    UpgradePip,
    action_line,
    activation_hooks,
    conda_hooks,
    environment_python,
    find_free_folder,
    move_environment,
    shell_line,
    write_launcher,
)
from envcheck.frameworks import framework, framework_of
from envcheck.matrix.companions import companion_row
from envcheck.model import (
    CONDA,
    ENVIRONMENT,
    ERROR,
    INCOMPATIBLE,
    PIP,
    SYSTEM,
    UV,
    Environment,
    Finding,
    Plan,
    Remedy,
    RequirementSet,
    Step,
    replace,
)
from envcheck.model.versions import name_of
from envcheck.plan.data import plan_data
from envcheck.plan.requests import join_words
from envcheck.remedies import with_remedy
from envcheck.remedies.situation import MACOS, WINDOWS, Situation
from envcheck.rules.catalogue import catalogue
from envcheck.rules.context import Context

CREATE = "create-environment"
NO_COMPANIONS: Mapping[str, bool] = MappingProxyType({})


# An environment.


def interpreter(environment: Environment) -> str:
    """Return the path of an environment's Python as it can be typed."""
    system = WINDOWS if _is_windows(environment) else ""
    return environment_python(environment.folder, environment.installer, system)


def pip_of(environment: Environment) -> str:
    """Name what installs requirements: uv, or pip, which is in an environment of conda too."""
    return UV if environment.installer == UV else PIP


def _is_windows(environment: Environment) -> bool:
    return environment.platform.startswith("win")


def environment_steps(
    environment: Environment,
    frameworks: tuple[str, ...],
    goal: str,
    base: str = "",
    *,
    shells: tuple[str, ...] = (SH,),
    doubted: tuple[str, ...] = (),
    companions: Mapping[str, bool] = NO_COMPANIONS,
) -> tuple[Step, ...]:
    """Create an environment, install into it, set its loader paths, import the frameworks.

    `base` is the interpreter it is made with; frameworks that are `doubted` must compute, too. Of
    `companions`, by name, it is told whether they are imported: what has no build for the CPU may
    not import there. Raises ValueError for a requirement or spec that no command may hold.
    """
    steps = (_create(environment, base), *_upgrade_pip(environment), *_list_installs(environment))
    for step in steps:
        step.action.command()  # raises it here, before any format prints a part of the plan
    return (
        *steps,
        *activation_steps(environment, shells),
        verification_step(environment, frameworks, goal, doubted, companions),
    )


def _create(environment: Environment, base: str) -> Step:
    brings_cuda = environment.sets and any(
        re.match("cudatoolkit|cudnn", spec) for spec in environment.packages
    )
    if environment.installer == CONDA:
        purpose = f"Create a conda environment with Python {environment.python}"
        purpose += " and the CUDA libraries." if brings_cuda else "."
    else:
        purpose = f"Create an environment with Python {environment.python}."
    action = CreateEnvironment(
        environment.folder,
        environment.installer,
        environment.python,
        (base,) if base else (),
        environment.packages,
        environment.channels,
        tuple(environment.variables.items()),
        purpose=purpose,
    )
    return Step(CREATE, action, environment=environment.folder)


def _upgrade_pip(environment: Environment) -> tuple[Step, ...]:
    """Renew pip where the bundled one may be too old for the wheels; uv needs none."""
    is_pylock = environment.lock.endswith(".toml")
    if not (environment.pip_too_old or is_pylock) or environment.installer == UV:
        return ()
    purpose = f"Upgrade pip: the wheels need pip {environment.pip_too_old} or newer."
    if is_pylock:
        purpose = "Upgrade pip: the one that Python brings reads no pylock.toml."
    requirement = plan_data().bundled_pip.last.get(environment.python, "pip")
    action = UpgradePip(interpreter(environment), requirement, purpose, _offline(environment))
    return (Step("upgrade-pip", action, environment=environment.folder),)


def _offline(environment: Environment) -> tuple[str, ...]:
    """Return pip's options for pins whose wheels lie beside them: no network is used."""
    if not environment.lock or environment.lock.endswith(".toml"):
        return ()
    return ("--no-index", "--find-links", os.path.dirname(environment.lock))  # noqa: PTH120 - of any system


def _list_installs(environment: Environment) -> tuple[Step, ...]:
    if environment.lock:
        options = _offline(environment)
        where = " from its folder, without a network" if options else ""
        purpose = f"Install what {environment.lock} pins{where}, each file checked by its hash."
        python, installer = interpreter(environment), pip_of(environment)
        action = InstallLock(environment.lock, python, installer, options, purpose=purpose)
        return (Step("install", action, environment=environment.folder),)
    is_numbered = len(environment.sets) > 1
    return tuple(
        Step(
            f"install-{number}" if is_numbered else "install",
            _install(environment, requirement_set),
            environment=environment.folder,
        )
        for number, requirement_set in enumerate(environment.sets, 1)
    )


def _install(environment: Environment, requirement_set: RequirementSet) -> InstallPackages:
    return InstallPackages(
        requirement_set.requirements,
        interpreter(environment),
        pip_of(environment),
        requirement_set.index,
        options=requirement_set.options,
        wheels_only=True,
        source_only=requirement_set.source_only,
        kept=requirement_set.kept,
        settings=requirement_set.settings,
        purpose=install_purpose(requirement_set),
    )


_NAMED = 6  # packages that a step names before it counts the rest


def install_purpose(requirement_set: RequirementSet) -> str:
    """Say what installing a set is for, and from which index of its own."""
    texts = requirement_set.requirements
    exact = [
        re.split("[=<>~! ]", text)[0]
        for text in texts
        if "==" in text or companion_row(name_of(text)).frameworks
    ]
    exact = exact or list(texts)
    if requirement_set.settings:
        return f"Build {', '.join(exact)}."
    shown = [*exact[:_NAMED], *([f"{len(exact) - _NAMED} more"] if len(exact) > _NAMED else [])]
    purpose = f"Install {', '.join(shown)} and {'their' if len(exact) > 1 else 'its'} dependencies"
    owner = framework_of(exact[0].partition("[")[0]) if exact else ""
    if requirement_set.index and owner:
        purpose += f" from {framework(owner).title}'s package index"
    return purpose + (
        f"; {', '.join(requirement_set.kept)} must stay." if requirement_set.kept else "."
    )


def activation_steps(environment: Environment, shells: tuple[str, ...] = (SH,)) -> tuple[Step, ...]:
    """Write what sets the loader paths, and let each shell's activation call it.

    Return () where no paths are needed.
    """
    if not environment.library_folders:
        return ()
    hooks = conda_hooks if environment.installer == CONDA else activation_hooks
    actions = [hook for shell in shells for hook in hooks(environment.folder, shell)]
    # conda runs the scripts of one folder on activation, those of another on deactivation
    names = [
        "deactivation-hook" if "/deactivate.d/" in hook.path else "activation-hook"
        for hook in actions
    ]
    launcher = write_launcher(environment.folder, folder_words(environment))
    steps = zip(("library-path", *names), (launcher, *actions), strict=True)
    return tuple(Step(name, action, environment=environment.folder) for name, action in steps)


def folder_words(environment: Environment) -> tuple[str, ...]:
    """Write the folders of CUDA libraries as words of the program that sets them."""
    return tuple(f'"$prefix"/{folder}' for folder in environment.library_folders)


def verification_step(
    environment: Environment,
    frameworks: tuple[str, ...],
    goal: str,
    doubted: tuple[str, ...] = (),
    companions: Mapping[str, bool] = NO_COMPANIONS,
) -> Step:
    """Import each framework in the activated environment and print version and GPUs.

    Those that are `doubted` must compute there, too; `companions` are imported, or must be
    installed if they cannot be.
    """
    lines = [_import_line(name, goal, computes=name in doubted) for name in frameworks]
    modules = {name: companion_row(name).distributions.get(name, "") for name in companions}
    imported = [
        name
        for name, is_imported in companions.items()
        if is_imported and modules[name].isidentifier()
    ]
    installed = [name for name in companions if name not in imported]
    lines += [f"import {modules[name]}" for name in imported]
    lines += [f"import importlib.metadata as m; print(m.version('{name}'))" for name in installed]
    code = "; ".join(lines)
    if not _is_windows(environment):
        code = code.replace("'", '"')  # each shell prints best what holds none of its own quotes
    # Windows finds conda's CUDA by the PATH that an activation sets.
    by_path = environment.installer == CONDA and _is_windows(environment) and goal == "gpu"
    computing = " and ".join(
        name for name in frameworks if name in doubted and framework(name).plans.computation
    )
    if goal == "gpu":
        claims = [_join(frameworks, "finds the GPU", "find the GPU")]
    else:
        claims = []
    claims += [_join([*([] if claims else frameworks), *imported], "imports", "import")]
    claims += [
        _join(installed, "is installed", "are installed"),
        f"{computing} computes" if computing else "",
    ]
    purpose = f"Check that {', and that '.join(filter(None, claims))}."
    is_activated = bool(environment.library_folders) or by_path
    action = ImportFrameworks(
        code, environment.folder, environment.installer, is_activated, purpose=purpose
    )
    return Step("verify", action, environment=environment.folder)


def _join(names: Sequence[str], one: str, several: str) -> str:
    """Write what names do: "torch and vllm import"; "" without names."""
    if names:
        return f"{join_words(names)} {several if len(names) > 1 else one}"
    return ""


def _import_line(name: str, goal: str, *, computes: bool) -> str:
    if goal == "gpu":
        computation = ""
        if computes and framework(name).plans.computation:
            computation = f"; {framework(name).plans.computation}"
        return (
            f"{framework(name).plans.gpu_listing}; print(t.__version__, d); assert d, 'no GPU"
            f" seen'{computation}"
        )
    return f"import {name} as t; print(t.__version__)"


def without_gpu_check(plan: Plan) -> Plan:
    """Let a plan's check import alone: its GPUs wait for a driver that is not there yet."""
    names = tuple(item.framework for item in plan.releases if item.framework)
    steps = tuple(
        verification_step(plan.environments[0], names, "cpu")
        if isinstance(step.action, ImportFrameworks)
        else step
        for step in plan.steps
    )
    return replace(plan, steps=steps)


def use_free_folders(
    plan: Plan, exists: Callable[[str], bool], words: tuple[str, ...] = ()
) -> Plan:
    """Let a plan make its new environments in free folders.

    What is there is updated by `envcheck install`.
    """
    for environment in plan.environments:
        if exists(environment.folder):
            free = find_free_folder(environment.folder, exists)
            note = f"{environment.folder} exists and stays as it is: these steps make {free}."
            if any(exists(f"{environment.folder}/{name}") for name in _OF_AN_ENVIRONMENT):
                note += f" {_update_command(plan, environment, words)}"
            moved = move_environment(plan, environment.folder, free)
            plan = replace(moved, notes=(*plan.notes, note))
    return plan


_OF_AN_ENVIRONMENT = ("pyvenv.cfg", "conda-meta")


def _update_command(plan: Plan, environment: Environment, words: tuple[str, ...]) -> str:
    requirements = [
        item.requirement for item in plan.releases if item.environment == environment.folder
    ]
    texts = (words or plan.requirements) if len(plan.environments) == 1 else requirements
    command = shell_line(("envcheck", "install", *texts, "--env", environment.folder), plan.system)
    return f"`{command}` updates the existing one, and asks before it changes anything."


# The machine itself: printed, and run only when asked for.

# layers of the catalogue: the machine itself, the interpreter itself
_NO_STEP_HELPS = ("hardware", "python")


def blockers(findings: Iterable[Finding], context: Context) -> tuple[Finding, ...]:
    """List what no step can mend: the hardware, and what has no remedy."""
    return tuple(item for item in _list_errors(findings) if _find_remedy(item, context) is None)


def _list_errors(findings: Iterable[Finding]) -> list[Finding]:
    return [item for item in findings if item.severity == ERROR and item.verdict == INCOMPATIBLE]


def _find_remedy(finding: Finding, context: Context) -> Remedy | None:
    """Return the remedy that mends a machine; None where none does."""
    if finding.cure is None:
        return None

    remedy = with_remedy(replace(finding, fix=None), Situation(context)).fix
    by_commands = remedy is not None and any(action.scope == SYSTEM for action in remedy.actions)
    if by_commands or catalogue()[finding.id].layer not in _NO_STEP_HELPS:
        return remedy
    return None


def with_remedies(findings: Iterable[Finding], context: Context) -> tuple[Finding, ...]:
    """Say of findings what to do about them."""
    all_findings = tuple(findings)
    if all(item.cure is None for item in all_findings):
        return all_findings

    situation = Situation(context)
    return tuple(with_remedy(item, situation) for item in all_findings)


def machine_steps(
    findings: Iterable[Finding], context: Context, *, consequences: bool = False
) -> tuple[Step, ...]:
    """Turn the remedies of what is wrong with the machine into steps.

    What only a person can do has no command.

    `consequences` are steps of their own where each of them is a thing to install on the system:
    what a remedy would put into the environment that was read, a planned one does not see.
    """
    steps: list[Step] = []
    for finding in _list_errors(findings):
        remedy = None
        if consequences or finding.caused_by is None:
            remedy = _find_remedy(finding, context)
        if remedy:
            steps += _list_steps(finding, remedy, include_all=not consequences)
    return tuple(steps)


def list_alternatives(findings: Iterable[Finding], context: Context) -> tuple[str, ...]:
    """Say what could be done in place of such steps."""
    found = []
    for item in _list_errors(findings):
        remedy = _find_remedy(item, context)
        if item.caused_by is not None or remedy is None:
            continue
        for alternative in remedy.alternatives:
            words = [f"In place of the steps for {item.id}: {alternative.summary}"]
            words += [f"$ {action_line(action, context.os)}" for action in alternative.actions]
            found.append(" ".join(words))
    return tuple(found)


def _list_steps(finding: Finding, remedy: Remedy, *, include_all: bool) -> list[Step]:
    in_environment = any(action.scope == ENVIRONMENT for action in remedy.actions)
    actions = [
        action
        for action in remedy.actions
        if include_all or (action.scope == SYSTEM and not in_environment)
    ]
    if not actions:
        return [Step(finding.id, AskPerson(remedy.summary, SYSTEM), (finding.id,))]
    is_numbered = len(actions) > 1
    return [
        Step(
            f"{finding.id}-{number}" if is_numbered else finding.id,
            action.with_purpose(remedy.summary),
            (finding.id,),
        )
        for number, action in enumerate(actions, 1)
    ]


_DESKTOP = (
    "Use Docker Desktop with its WSL 2 engine and NVIDIA's"
    " driver for Windows: it passes the GPUs through."
)


def container_toolkit_steps(context: Context, engine: str = "docker") -> tuple[Step, ...]:
    """Install NVIDIA's container toolkit on the host, and make an engine use it."""
    from envcheck.remedies.rows import machine_steps
    from envcheck.remedies.system import install

    situation = Situation(context)
    if situation.family in (WINDOWS, MACOS):
        return (Step("container-toolkit", AskPerson(_DESKTOP, SYSTEM)),)
    purpose = "Install NVIDIA's container toolkit on the host, from NVIDIA's repository."
    actions = install(situation, "container-toolkit", purpose)
    if not actions:
        check = Trace(("nvidia-ctk", "--version"))
        return (Step("container-toolkit", AskPerson(purpose, SYSTEM), check=check),)
    sudo, install_step = situation.sudo, actions[0]
    manager = getattr(install_step, "manager", "")
    repository = _add_repository(manager, sudo=sudo)
    purpose = f"Configure {engine} to use it."
    (configure,) = machine_steps(f"configure-{engine}", sudo, purpose=purpose)
    steps = [
        *(
            Step(f"container-repository-{number}", each)
            for number, each in enumerate(repository, 1)
        ),
        Step("container-toolkit", install_step),
        Step("container-runtime", configure),
    ]
    if engine != "podman":  # which has no service to restart
        check_argv = ("docker", "info") if engine == "docker" else ()
        restart = RestartService(engine, sudo, f"Restart {engine}.", check_argv)
        steps.append(Step("container-restart", restart))
    return tuple(steps)


def _add_repository(manager: str, *, sudo: bool) -> Iterator[Action]:
    """Add the repository of the toolkit, as NVIDIA's guide does for each package manager."""
    from envcheck.remedies.repositories import (
        CONTAINER_PAGES,
        CONTAINER_TOOLKIT,
        add_repository,
        find_key,
    )
    from envcheck.remedies.rows import machine_steps

    key = find_key(CONTAINER_TOOLKIT)
    if key is None or manager not in (APT, DNF, ZYPPER):
        return
    folder = "deb/$(ARCH)" if manager == APT else "rpm/$basearch"
    yield from machine_steps(f"container-tools-{manager}", sudo)
    yield from add_repository(
        key, manager, CONTAINER_TOOLKIT, f"{CONTAINER_PAGES}/stable/{folder}", sudo=sudo
    )
    yield from machine_steps(f"container-lists-{manager}", sudo)

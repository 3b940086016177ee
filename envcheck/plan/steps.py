"""The steps of a plan: what makes an environment, and what the machine itself needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from envcheck.actions import (
    SH,
    AskPerson,
    CreateEnvironment,
    ImportFrameworks,
    InstallPackages,
    RestartService,
    Trace,
    UpgradePip,
    WriteFile,
    action_line,
    activation_hooks,
    conda_hooks,
    environment_python,
    quoted,
    write_launcher,
)
from envcheck.frameworks import framework, framework_of
from envcheck.model import (
    CONDA,
    ENVIRONMENT,
    ERROR,
    INCOMPATIBLE,
    SYSTEM,
    Environment,
    Finding,
    Plan,
    Remedy,
    RequirementSet,
    Step,
    replace,
)
from envcheck.plan.data import plan_data
from envcheck.remedies import remedy_for, with_remedy
from envcheck.remedies.situation import MACOS, WINDOWS, Situation
from envcheck.rules.catalogue import catalogue
from envcheck.rules.context import Context

CREATE = "create-environment"


# An environment.


def interpreter(made: Environment) -> str:
    """Return the path of an environment's Python as it can be typed."""
    return environment_python(made.folder, made.installer, windows=_is_windows(made))


def _is_windows(made: Environment) -> bool:
    return made.platform.startswith("win")


def environment_steps(
    made: Environment, frameworks: tuple[str, ...], goal: str, base: str = "", shells: tuple[str, ...] = (SH,)
) -> tuple[Step, ...]:
    """Create an environment, install into it, let its activation set its loader paths, and import the frameworks.

    `base` is the interpreter it is made with. Raises ValueError for a requirement or spec that no command may hold.
    """
    steps = (_create(made, base), *_upgrade_pip(made), *_installs(made))
    for step in steps:
        step.action.command()  # raises it here, before any format prints a part of the plan
    return (*steps, *activation_steps(made, shells), verification_step(made, frameworks, goal))


def _create(made: Environment, base: str) -> Step:
    brings_cuda = made.sets and any(re.match("cudatoolkit|cudnn", spec) for spec in made.packages)
    if made.installer == CONDA:
        purpose = f"Create a conda environment with Python {made.python}"
        purpose += " and the CUDA libraries." if brings_cuda else "."
    else:
        purpose = f"Create an environment with Python {made.python}."
    action = CreateEnvironment(
        made.folder,
        made.installer,
        made.python,
        (base,) if base else (),
        made.packages,
        made.channels,
        tuple(made.variables.items()),
        purpose=purpose,
    )
    return Step(CREATE, action, environment=made.folder)


def _upgrade_pip(made: Environment) -> tuple[Step, ...]:
    """Renew pip where the bundled one may be too old for the wheels; uv needs none."""
    if not made.pip_too_old or made.installer == "uv":
        return ()
    purpose = f"Bring pip up to date: the wheels need pip {made.pip_too_old} or newer."
    wanted = plan_data().bundled_pip.last.get(made.python, "pip")
    return (Step("upgrade-pip", UpgradePip(interpreter(made), wanted, purpose), environment=made.folder),)


def _installs(made: Environment) -> tuple[Step, ...]:
    many = len(made.sets) > 1
    return tuple(
        Step(f"install-{number}" if many else "install", _install(made, wanted), environment=made.folder)
        for number, wanted in enumerate(made.sets, 1)
    )


def _install(made: Environment, wanted: RequirementSet) -> InstallPackages:
    exact = [text.partition("==")[0] for text in wanted.requirements if "==" in text]
    purpose = f"Install {', '.join(exact)} and {'their' if len(exact) > 1 else 'its'} dependencies"
    owner = framework_of(exact[0].partition("[")[0]) if exact else ""
    purpose += f" from {framework(owner).title}'s package index" if wanted.index and owner else ""
    purpose += f"; {', '.join(wanted.kept)} must stay." if wanted.kept else "."
    return InstallPackages(
        wanted.requirements,
        interpreter(made),
        "uv" if made.installer == "uv" else "pip",
        wanted.index,
        wheels_only=True,
        source_only=wanted.source_only,
        kept=wanted.kept,
        purpose=purpose,
    )


def activation_steps(made: Environment, shells: tuple[str, ...] = (SH,)) -> tuple[Step, ...]:
    """Write what sets the loader paths, and let each shell's activation call it; () where no paths are needed."""
    if not made.library_folders:
        return ()
    hooks = conda_hooks if made.installer == CONDA else activation_hooks
    written = [("activation-hook", hook) for shell in shells for hook in hooks(made.folder, shell)]
    if made.installer == CONDA:
        written = [(_hook_of_conda(hook), hook) for _, hook in written]
    launcher = write_launcher(made.folder, folder_words(made))
    return tuple(Step(name, hook, environment=made.folder) for name, hook in (("library-path", launcher), *written))


def _hook_of_conda(hook: WriteFile) -> str:
    return "deactivation-hook" if "/deactivate.d/" in hook.path else "activation-hook"


def folder_words(made: Environment) -> tuple[str, ...]:
    """Write the folders of an environment's CUDA libraries as words of the program that sets them."""
    return tuple(f'"$prefix"/{folder}' for folder in made.library_folders)


def verification_step(made: Environment, frameworks: tuple[str, ...], goal: str) -> Step:
    """Import each framework in the activated environment and print its version, and for GPU work what GPUs it sees."""
    code = "; ".join(_import_line(name, goal) for name in frameworks)
    if not _is_windows(made):
        code = code.replace("'", '"')  # each shell prints best what holds none of its own quotes
    # Windows finds conda's CUDA by the PATH that an activation sets.
    by_path = made.installer == CONDA and _is_windows(made) and goal == "gpu"
    does = ("finds the GPU" if len(frameworks) == 1 else "find the GPU") if goal == "gpu" else "imports"
    does = "import" if goal != "gpu" and len(frameworks) > 1 else does
    purpose = f"Check that {' and '.join(frameworks)} {does}."
    activated = bool(made.library_folders) or by_path
    action = ImportFrameworks(code, made.folder, made.installer, activated, purpose=purpose)
    return Step("verify", action, environment=made.folder)


def _import_line(name: str, goal: str) -> str:
    if goal == "gpu":
        return f"{framework(name).gpu_listing}; print(t.__version__, d); assert d, 'no GPU seen'"
    return f"import {name} as t; print(t.__version__)"


def mark_existing(plan: Plan, is_there: Callable[[str], bool]) -> Plan:
    """Tell of the folders of a plan for new environments that are there: no undo may remove them."""
    taken = {made.folder: made for made in plan.environments if is_there(made.folder)}
    changed: Plan = replace(
        plan,
        steps=tuple(_existing(step) if step.environment in taken else step for step in plan.steps),
        notes=(*plan.notes, *(_existing_note(plan, made) for made in taken.values())),
    )
    return changed


def _existing(step: Step) -> Step:
    is_new = isinstance(step.action, CreateEnvironment)
    kept: Step = replace(step, action=replace(step.action, existed=True)) if is_new else step
    return kept


def _existing_note(plan: Plan, made: Environment) -> str:
    replaces = ", and conda puts that in its place" if made.installer == CONDA else ""
    own = [item.requirement for item in plan.releases if item.environment == made.folder]
    wanted = plan.requirements if len(plan.environments) == 1 else own
    asked = quoted(("envcheck", "install", *wanted, "--env", made.folder), plan.system)
    return (
        f"{made.folder} is there, and these steps are for a new environment{replaces}: `{asked}` plans for what it "
        "holds and asks before it does anything."
    )


# The machine itself: printed, and run only when asked for.

_NO_STEP_HELPS = ("hardware", "python")  # layers of the catalogue: the machine itself, the interpreter itself


def blockers(findings: Iterable[Finding], context: Context) -> tuple[Finding, ...]:
    """List what no step can mend: the hardware, and what has no remedy."""
    return tuple(item for item in _wrong(findings) if _mending(item, context) is None)


def _wrong(findings: Iterable[Finding]) -> list[Finding]:
    return [item for item in findings if item.severity == ERROR and item.verdict == INCOMPATIBLE]


def _mending(finding: Finding, context: Context) -> Remedy | None:
    """Return the remedy that mends a machine; None where none does."""
    if finding.problem is None:
        return None

    found = remedy_for(finding.id, finding.problem, Situation(context))
    by_commands = found is not None and any(action.scope == SYSTEM for action in found.actions)
    return found if by_commands or catalogue()[finding.id].layer not in _NO_STEP_HELPS else None


def with_remedies(findings: Iterable[Finding], context: Context) -> tuple[Finding, ...]:
    """Say of findings what to do about them."""
    told = tuple(findings)
    if all(item.problem is None for item in told):
        return told

    situation = Situation(context)
    return tuple(with_remedy(item, situation) for item in told)


def machine_steps(findings: Iterable[Finding], context: Context, *, consequences: bool = False) -> tuple[Step, ...]:
    """Turn the remedies of what is wrong with the machine into steps; what only a person can do has no command.

    `consequences` are steps of their own where each of them is a thing to install on the system: what a remedy would
    put into the environment that was read, a planned one does not see.
    """
    steps: list[Step] = []
    for finding in _wrong(findings):
        found = _mending(finding, context) if consequences or finding.caused_by is None else None
        steps += _steps(finding, found, everything=not consequences) if found else []
    return tuple(steps)


def other_ways(findings: Iterable[Finding], context: Context) -> tuple[str, ...]:
    """Say what could be done in place of such steps."""
    roots = [item for item in _wrong(findings) if item.caused_by is None]
    mended = [(item, found) for item in roots if (found := _mending(item, context)) is not None]
    return tuple(
        " ".join(
            [
                f"In place of the steps for {item.id}: {way.summary}",
                *(f"$ {action_line(action, context.os)}" for action in way.actions),
            ]
        )
        for item, found in mended
        for way in found.alternatives
    )


def _steps(finding: Finding, found: Remedy, *, everything: bool) -> list[Step]:
    in_environment = any(action.scope == ENVIRONMENT for action in found.actions)
    actions = [action for action in found.actions if everything or (action.scope == SYSTEM and not in_environment)]
    if not actions:
        return [Step(finding.id, AskPerson(found.summary, SYSTEM), (finding.id,))]
    many = len(actions) > 1
    return [
        Step(f"{finding.id}-{number}" if many else finding.id, action.with_purpose(found.summary), (finding.id,))
        for number, action in enumerate(actions, 1)
    ]


_DESKTOP = "Use Docker Desktop with its WSL 2 engine and NVIDIA's driver for Windows: it passes the GPUs through."


def container_toolkit_steps(context: Context) -> tuple[Step, ...]:
    """Install NVIDIA's container toolkit on the host, and make Docker use it."""
    from envcheck.remedies.driver import configure_docker
    from envcheck.remedies.system import install

    situation = Situation(context)
    if situation.family in (WINDOWS, MACOS):
        return (Step("container-toolkit", AskPerson(_DESKTOP, SYSTEM)),)
    purpose = "Install NVIDIA's container toolkit on the host, from NVIDIA's repository."
    found = install(situation, "container-toolkit", purpose)
    if not found:
        check = Trace(("nvidia-ctk", "--version"))
        return (Step("container-toolkit", AskPerson(purpose, SYSTEM), check=check),)
    restart = RestartService("docker", situation.sudo, "Restart Docker.", ("docker", "info"))
    return (
        Step("container-toolkit", found[0]),
        Step("container-runtime", configure_docker(situation.sudo, "Make Docker use it.")),
        Step("container-restart", restart),
    )

"""A plan for the environment that is there: what has to go first, what comes, and by which interpreter."""

from __future__ import annotations

import re

from envcheck.model import Absent, Command, Fix, Known, dataclass, replace
from envcheck.model.plans import CONDA, PIP, Environment, Plan, PlannedRelease, Step
from envcheck.model.quoting import quoted
from envcheck.plan.build import choose_all, plan_of
from envcheck.plan.candidates import SYSTEM as SYSTEM_TOOLKIT
from envcheck.plan.changes import another_python, may_do
from envcheck.plan.choose import Choice, Judge
from envcheck.plan.existing_environment import removal_steps
from envcheck.plan.paths import interpreter
from envcheck.plan.requests import Description, Request, RequestError, Wish, planned_facts, read_requests
from envcheck.plan.system import blockers
from envcheck.rules import Context, Target
from envcheck.rules.fixes_python import python_program
from envcheck.rules.framework_state import is_conda_build, judged_frameworks

_PLAIN_PATH = r"[~\w./+:\\ @()-]+"
_CREATE = "create-environment"


@dataclass(frozen=True)
class Broken:
    """A framework that is to be replaced."""

    name: str
    requests: tuple[str, ...]  # what to ask for, the least change first
    causes: frozenset[str]  # the finding ids that are to go


def planned_fix(context: Context, judge: Judge, broken: list[Broken]) -> Fix | None:
    """Choose releases of broken frameworks; None where no other release helps without doubt.

    The frameworks that are well stay at their release, as long as that can be met.
    """
    if blockers(judge.own_findings()) or not isinstance(context.facts.python.version, Known):
        return None
    for well in dict.fromkeys((_well(context, broken), ())):
        for number in range(max(len(item.requests) for item in broken)):
            texts = tuple(item.requests[min(number, len(item.requests) - 1)] for item in broken)
            found = _fix(context, judge, broken, (*texts, *well))
            if found is None and number == 0 and any("python-unsupported" in item.causes for item in broken):
                found = _fix_with_python(context, judge, broken, texts)
            if found is not None:
                return found
    return None


def _well(context: Context, broken: list[Broken]) -> tuple[str, ...]:
    names = {item.name for item in broken}
    mains = (item.main for item in judged_frameworks(context) if item.name not in names)
    return tuple(f"{build.framework}=={build.version}" for build in mains if build.release is not None)


def _fix(context: Context, judge: Judge, broken: list[Broken], texts: tuple[str, ...]) -> Fix | None:
    """Plan for texts in the environment that is there, or for a new one where that is what brings the CUDA."""
    try:
        requests = read_requests(texts, context.matrix)
    except RequestError:
        return None  # a version that no requirement can name
    is_condas = _is_condas(context, broken)
    here = _own_folder(context, is_condas=is_condas)
    plan = _sure_plan(judge, requests, broken, Wish(context.goal, CONDA if is_condas else PIP, here)) if here else None
    if plan is not None and (
        _has_activation(context, here) or not any(made.library_folders for made in plan.environments)
    ):
        return _written(context, plan, broken, here)
    plan = _sure_plan(judge, requests, broken, Wish(context.goal, CONDA if is_condas else ""))
    return _written(context, plan, broken) if plan is not None else None


def _fix_with_python(context: Context, judge: Judge, broken: list[Broken], texts: tuple[str, ...]) -> Fix | None:
    """Plan for texts with the Python that their newest releases are for, in a new environment."""
    requests = read_requests(texts, context.matrix)
    installer = CONDA if _is_condas(context, broken) else ""
    python = another_python(judge.context, requests, Wish(context.goal, installer))
    said = Description(python=python)
    facts = planned_facts(judge.context.facts, said, context.matrix, expects_gpu=False)
    other = Judge(Context(facts, context.matrix, Target(context.goal)))
    folder = f".conda-env-{python}" if installer else f".venv-{python}"
    plan = (
        _sure_plan(other, requests, broken, Wish(context.goal, installer, folder, described=said)) if python else None
    )
    return _written(context, plan, broken, python=python) if plan is not None else None


def _sure_plan(judge: Judge, requests: tuple[Request, ...], broken: list[Broken], wish: Wish) -> Plan | None:
    unwanted = frozenset[str]().union(*(item.causes for item in broken))
    try:
        choices, clashes = choose_all(judge, requests, wish.installer, lambda item: may_do(judge.context, item))
        sure = all(_is_sure(judge, choice, unwanted) for choice in choices)
        return plan_of(judge, choices, clashes, wish) if sure else None
    except ValueError:
        return None  # a user's matrix holds what may stand in no command


def _is_sure(judge: Judge, choice: Choice, unwanted: frozenset[str]) -> bool:
    """Tell whether a release works with what its environment will hold, and is not warned of what is to go.

    Of a system's CUDA all must be known.
    """
    best, facts = choice.best, judge.context.facts
    if best is None or not best.is_compatible or any(item.id in unwanted for item in best.warnings):
        return False
    known = isinstance(facts.toolkits.installs, Known) and isinstance(facts.cudnn, Known)
    return best.source.kind != SYSTEM_TOOLKIT or (known and not best.mended)


def _is_condas(context: Context, broken: list[Broken]) -> bool:
    names = {item.name for item in broken}
    found = [item.main for item in judged_frameworks(context) if item.name in names]
    return any(is_conda_build(context, build) for build in found)


def _own_folder(context: Context, *, is_condas: bool) -> str:
    """Return where the inspected environment lies, or any name where nobody asks; "" where it must not be changed."""
    python = context.facts.python
    if isinstance(python.externally_managed, Known) and python.externally_managed.value:
        return ""
    prefix = python.prefix.value if isinstance(python.prefix, Known) else ""
    if re.fullmatch(_PLAIN_PATH, prefix) and not prefix.startswith("-"):
        return prefix
    return "" if is_condas else "environment"


def _has_activation(context: Context, here: str) -> bool:
    kind, prefix = context.facts.python.kind, context.facts.python.prefix
    is_its_own = isinstance(prefix, Known) and prefix.value == here
    return is_its_own and isinstance(kind, Known) and kind.value in ("venv", "conda")


def _written(context: Context, plan: Plan, broken: list[Broken], here: str = "", python: str = "") -> Fix:
    """Write a plan's steps for the environments of broken frameworks as commands; `here` is the one that is there."""
    names = {item.name for item in broken}
    wanted = [item for item in plan.releases if item.framework in names]
    commands: list[Command] = []
    for made in plan.environments:
        releases = [item for item in wanted if item.environment == made.folder]
        steps = [step for step in plan.steps if step.environment == made.folder and step.argv != step.verify]
        if releases and here == made.folder:
            there = [item for item in plan.releases if item.environment == made.folder]
            steps = _fitted(context, made, there, steps)
        commands += [Command(step.argv, step.scope, step.purpose) for step in steps if releases]
    chosen = " and ".join(item.requirement for item in wanted)
    asked = quoted((*plan.requirements, *(("--python", python) if python else ())), context.os)
    where = "" if here else " into a new environment"
    return Fix(f"Install {chosen} with what it needs{where}, as `envcheck plan {asked}` chooses.", tuple(commands))


def _fitted(context: Context, made: Environment, releases: list[PlannedRelease], steps: list[Step]) -> list[Step]:
    """Fit the steps to the environment that is there: what is in the way goes first, nothing is created."""
    program = python_program(context)
    own = {interpreter(made): program}
    gone = removal_steps(context, made, releases)
    changed = [steps[0], *gone, *steps[1:]]  # the first one creates the environment
    fitted = [replace(step, argv=tuple(own.get(word, word) for word in step.argv)) for step in changed]
    if made.installer == CONDA:
        bring = [replace(step, argv=("conda", "install", *step.argv[2:])) for step in fitted[:1]]
        return [*bring, *fitted[1:]] if made.sets else [*fitted[1 : 1 + len(gone)], *bring, *fitted[1 + len(gone) :]]
    pip = [Step("bring-pip", "There is no pip yet.", (program, "-m", "ensurepip", "--upgrade"))]
    return [*(pip if isinstance(context.facts.python.pip_version, Absent) else []), *fitted[1:]]

"""The remedy that is a plan.

Another build or release for the environment, where that takes findings away.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from envcheck.actions import Action, CreateEnvironment, ImportFrameworks, shell_line
from envcheck.diagnosis.acceptance import RELEASE_FINDINGS
from envcheck.model import (
    CONDA,
    ERROR,
    INCOMPATIBLE,
    NOT_STATED,
    NOTE,
    PIP,
    SYSTEM,
    Alternative,
    Environment,
    Finding,
    Known,
    Plan,
    PlannedRelease,
    Remedy,
    Report,
    RequestError,
    dataclass,
    replace,
)
from envcheck.model.fixes import InstallCudaLibraries
from envcheck.model.versions import read_requirement
from envcheck.plan.build import another_python, plan_of
from envcheck.plan.candidates import SYSTEM as SYSTEM_TOOLKIT
from envcheck.plan.candidates import is_possible
from envcheck.plan.choose import Choice, Judge, choose, choose_together
from envcheck.plan.existing_environment import isolate_framework, removal_steps
from envcheck.plan.requests import (
    PlanOptions,
    Request,
    read_requests,
    with_any_version,
)
from envcheck.plan.steps import blockers, interpreter
from envcheck.remedies.situation import Situation
from envcheck.remedies.system import system_packages
from envcheck.rules import Context, Target, evaluate
from envcheck.rules.builds import is_conda_build
from envcheck.rules.catalogue import catalogue
from envcheck.rules.context import is_typeable
from envcheck.rules.described_machine import (
    Description,
    check_description,
    planned_facts,
)
from envcheck.rules.engine import judge_release
from envcheck.rules.targets import REMOVED, judged_frameworks, wanted_releases

# Findings that go with the release that is replaced.
_REPLACED_FINDINGS = RELEASE_FINDINGS | {
    "cuda-wheel-not-found",
    "cudnn-missing",
    "cudnn-too-old",
    "cudnn-wrong-cuda-build",
    "cudnn-wrong-major",
    "dependency-conflict",
    "keras-mismatch",
    "libdevice-missing",
    "numpy-abi",
    "protobuf-conflict",
}
_TOOLKIT_FINDINGS = {"toolkit-missing", "toolkit-wrong-version"}
_FindingKeys = frozenset[tuple[str, str]]  # ids and messages


def with_planned_remedies(
    report: Report, situation: Situation, *, strictly: bool = False
) -> Report:
    """Give the findings that another build or release takes away the plan for it.

    Other remedies stay.

    `strictly`: with no release that the requirements asked for do not admit.
    """
    if not any(map(_is_cause, report.findings)):
        return report
    context = situation.context
    judge = _build_judge(context)
    failing, replaced = _list_failing_frameworks(report, context, judge, strictly=strictly)
    remedy = _plan_remedy(context, judge, failing) if failing else None
    if remedy is None:
        return report
    findings = tuple(
        _with_planned_fix(item, remedy) if item.key in replaced else item
        for item in report.findings
    )
    return replace(report, findings=findings)


def judge_what_works(
    context: Context, only: frozenset[str], newest: Report
) -> tuple[Context, Report]:
    """Judge the releases that the planner takes where the newest that ranges admit do not work.

    A range asks whether a release works, not whether the newest one does. Returns what was judged
    already where every release is pinned or none works; otherwise what is wrong with the newest
    stays as a note. What is wrong with the machine itself is held against no release.
    """
    asked = tuple(item.text for item in wanted_releases(context) if not item.required_by)
    if all(read_requirement(text).pin for text in asked):
        return context, newest
    judge = _build_judge(context)
    try:
        choices, clashes = choose_together(judge, read_requests(asked, context.matrix), PIP)
    except RequestError:  # a package that is judged and not planned, such as tensorrt
        return context, newest
    if clashes or not all(choice.best and choice.best.is_compatible for choice in choices):
        return context, newest
    chosen = _list_texts(choices)
    working = Context(context.facts, context.matrix, replace(context.target, requirements=chosen))
    judgement = judge_release(working, only)
    if judgement.errors:
        return context, newest
    report = judgement.report
    remaining = {item.key for item in report.findings}
    errors = (
        item
        for item in newest.findings
        if item.severity == ERROR and item.verdict == INCOMPATIBLE and item.key not in remaining
    )
    notes = tuple(
        replace(item, severity=NOTE, primary=False, caused_by=None, cure=None) for item in errors
    )
    return working, replace(report, findings=(*report.findings, *notes))


def plan_to_meet(
    context: Context, requirements: tuple[str, ...], against: tuple[str, ...]
) -> Remedy | None:
    """Plan for requirements that an environment does not meet.

    Return None where no release helps without doubt.

    `against` are the finding ids that speak against what pip would choose.
    """
    releases = wanted_releases(
        Context(context.facts, context.matrix, Target(context.goal, requirements))
    )
    failing = []
    for item in releases:
        # of what a package brings, the plan chooses a release
        text = item.framework if item.required_by else item.text
        failing.append(FailingFramework(item.framework, (text,), frozenset(against)))
    if failing:
        return _plan_remedy(context, _build_judge(context), failing)
    return None


def describe_host(driver: str, gpus: tuple[str, ...]) -> Description:
    """Describe the machine that runs what is built elsewhere.

    Raises RequestError for what is no driver or GPU.
    """
    host = Description(driver=driver, gpus=gpus)
    check_description(host)
    return host


def name_working_releases(context: Context, texts: tuple[str, ...]) -> str:
    """Write what to ask for in place of requirements.

    The newest releases that the rules accept; "" for none.
    """
    facts, usual = context.facts, system_packages().python.usual
    if not facts.python.version.value:
        usual_python = Description(python=usual)
        facts = planned_facts(facts, usual_python, context.matrix, expects_gpu=False)
    gpus = facts.gpus if isinstance(facts.gpus, Known) else NOT_STATED
    judge = Judge(Context(replace(facts, gpus=gpus), context.matrix, Target(context.goal)))
    requests = read_requests(texts, context.matrix)
    for variant in (requests, tuple(map(with_any_version, requests))):
        choices = [choose(judge, request, "pip") for request in variant]
        if all(choice.best and not choice.best.errors for choice in choices):
            found = [choice.best.candidate for choice in choices if choice.best]
            indexes = dict.fromkeys(
                f"--extra-index-url {item.row.index}" for item in found if item.row.index
            )
            chosen = _list_texts(choices)
            wanted = wanted_releases(
                Context(judge.context.facts, context.matrix, Target(context.goal, chosen))
            )
            pins = {row.distribution: row.pin for row in (item.package for item in wanted) if row}
            return " ".join((*(pins.get(text, text) for text in chosen), *indexes))
    return ""


def _list_texts(choices: Sequence[Choice]) -> tuple[str, ...]:
    """List what to ask for to get chosen releases, and what comes beside them."""
    found = (choice.best.candidate for choice in choices if choice.best)
    return tuple(text for item in found for text in (item.requirement, *item.companions))


def _build_judge(context: Context) -> Judge:
    facts = planned_facts(
        context.facts, Description(), context.matrix, expects_gpu=context.goal == "gpu"
    )
    return Judge(Context(facts, context.matrix, Target(context.goal)))


def _is_cause(finding: Finding) -> bool:
    """Return whether another release may help.

    Not where the root is something else, such as a missing driver.
    """
    if isinstance(finding.cure, InstallCudaLibraries) and finding.cure.are_pinned:
        return False  # the release is well, and says itself what it lacks
    is_root = finding.caused_by is None or finding.caused_by in _REPLACED_FINDINGS
    return (
        is_root
        and finding.id in RELEASE_FINDINGS
        and finding.severity != NOTE
        and finding.verdict == INCOMPATIBLE
    )


def _with_planned_fix(finding: Finding, plan: Remedy) -> Finding:
    """Put the plan in the place of a remedy; that of the machine itself stays as another way."""
    own, ways = finding.fix, plan.alternatives
    of_machine = catalogue()[finding.id].layer in ("driver", "toolkit")
    # in a container: what to do on the host
    is_advice = own is not None and not own.actions and of_machine
    if own is not None and (is_advice or any(action.scope == SYSTEM for action in own.actions)):
        ways = (*ways, Alternative(own.summary, own.actions))
    return replace(finding, fix=replace(plan, alternatives=ways))


def _list_failing_frameworks(
    report: Report, context: Context, judge: Judge, *, strictly: bool
) -> tuple[list[FailingFramework], _FindingKeys]:
    """List the frameworks that a cause is about, and all that goes when they are replaced.

    What the rules say of the machine without any framework stays.
    """
    excluded = {item.key for item in judge.machine_findings()}
    keyed_findings = {item.key: item for item in report.findings if item.verdict == INCOMPATIBLE}
    remaining = frozenset(key for key in keyed_findings if key[0] in _REPLACED_FINDINGS) - excluded
    # a log may state a build without its release: there is nothing to plan from
    installed = [item.name for item in judged_frameworks(context) if item.main.version]
    names = [*dict.fromkeys((*installed, *(item.framework for item in wanted_releases(context))))]
    failing, replaced = [], frozenset[tuple[str, str]]()
    for name in names:
        related = remaining
        if len(names) > 1:
            related = remaining & frozenset(
                item.key for item in evaluate(isolate_framework(context, name)).findings
            )
        causes = {key[0] for key in related if _is_cause(keyed_findings[key])}
        if causes:
            failing.append(
                FailingFramework(
                    name,
                    _list_requests(context, name, causes, strictly=strictly),
                    frozenset(causes),
                    _has_gpu_build(context, name),
                )
            )
            replaced |= related
    return failing, replaced


def _has_gpu_build(context: Context, framework: str) -> bool:
    matrix, platform = context.matrix, context.platform
    installed = filter(None, map(context.distributions.get, matrix.distributions(framework)))
    rows = (matrix.release(framework, item.version, platform, item.name) for item in installed)
    return any(row is not None and row.cuda_build for row in rows)


def _list_requests(
    context: Context, name: str, causes: set[str], *, strictly: bool
) -> tuple[str, ...]:
    """List what to ask for: the installed release, its line, its major, any.

    What --for asks for comes first.

    Where nothing but a system's CUDA is wrong, another line of releases is no remedy.
    """
    requirement = next((item for item in wanted_releases(context) if item.framework == name), None)
    version = next(
        (item.main.version for item in judged_frameworks(context) if item.name == name), ""
    )
    if requirement is not None and strictly:
        pinned = (f"{name}=={version}",) if version else ()
        return tuple(dict.fromkeys((*pinned, requirement.text)))
    if requirement is not None:
        text = requirement.text
        if requirement.obstacle == REMOVED:
            text = name + requirement.specifier
        return tuple(dict.fromkeys((text, name)))
    major, line = (".".join(version.split(".")[:count]) for count in (1, 2))
    nearby = (f"{name}=={version}", f"{name}=={line}.*")
    if causes <= _TOOLKIT_FINDINGS:
        return nearby
    return (*nearby, f"{name}=={major}.*", name)


@dataclass
class FailingFramework:
    """A framework that is to be replaced."""

    name: str
    requests: tuple[str, ...]  # what to ask for, the least change first
    causes: frozenset[str]  # the finding ids that are to go
    has_gpu_build: bool = False  # a distribution is installed that is built for GPUs


def _plan_remedy(context: Context, judge: Judge, failing: list[FailingFramework]) -> Remedy | None:
    """Choose releases of broken frameworks; None where no other release helps without doubt.

    The frameworks that are well stay at their release, as long as that can be met.
    """
    if blockers(judge.machine_findings(), judge.context) or not context.python.version.value:
        return None
    for working in dict.fromkeys((_list_working(context, failing), ())):
        for number in range(max(len(item.requests) for item in failing)):
            texts = tuple(item.requests[min(number, len(item.requests) - 1)] for item in failing)
            remedy = _plan_in_place(context, judge, failing, (*texts, *working))
            if (
                remedy is None
                and number == 0
                and any("python-unsupported" in item.causes for item in failing)
            ):
                remedy = _plan_with_other_python(context, judge, failing, texts)
            if remedy is not None:
                return remedy
    return None


def _list_working(context: Context, failing: list[FailingFramework]) -> tuple[str, ...]:
    names = {item.name for item in failing}
    mains = (item.main for item in judged_frameworks(context) if item.name not in names)
    return tuple(
        f"{build.framework}=={build.version}" for build in mains if build.release is not None
    )


def _plan_in_place(
    context: Context, judge: Judge, failing: list[FailingFramework], texts: tuple[str, ...]
) -> Remedy | None:
    """Plan for texts in the existing environment, or in a new one where that brings CUDA."""
    try:
        requests = read_requests(texts, context.matrix)
    except RequestError:
        return None  # a version that no requirement can name
    installer = CONDA if _is_from_conda(context, failing) else ""
    folder = _find_environment_folder(context, is_condas=bool(installer))
    ways = [(installer or PIP, folder)] if folder else []
    for chosen, place in (*ways, (installer, "")):
        plan = _build_certain_plan(
            judge, requests, failing, PlanOptions(context.goal, chosen, place)
        )
        if plan is None:
            continue
        needs_activation = any(environment.library_folders for environment in plan.environments)
        if not (place and needs_activation) or _has_activation(context, place):
            return _make_remedy(context, plan, failing, place)
    return None


def _plan_with_other_python(
    context: Context, judge: Judge, failing: list[FailingFramework], texts: tuple[str, ...]
) -> Remedy | None:
    """Plan for texts with the Python that their newest releases are for, in a new environment."""
    requests = read_requests(texts, context.matrix)
    installer = CONDA if _is_from_conda(context, failing) else ""
    python = another_python(judge.context, requests, PlanOptions(context.goal, installer))
    description = Description(python=python)
    facts = planned_facts(judge.context.facts, description, context.matrix, expects_gpu=False)
    other = Judge(Context(facts, context.matrix, Target(context.goal)))
    folder = f".conda-env-{python}" if installer else f".venv-{python}"
    plan = None
    if python:
        plan = _build_certain_plan(
            other,
            requests,
            failing,
            PlanOptions(context.goal, installer, folder, description=description),
        )
    if plan is not None:
        return _make_remedy(context, plan, failing, python=python)
    return None


def _build_certain_plan(
    judge: Judge,
    requests: tuple[Request, ...],
    failing: list[FailingFramework],
    options: PlanOptions,
) -> Plan | None:
    try:
        choices, clashes = choose_together(
            judge, requests, options.installer, partial(is_possible, judge.context)
        )
        if all(_is_certain(judge, choice, failing) for choice in choices):
            return plan_of(judge, choices, clashes, options)
    except ValueError:
        pass  # a user's matrix holds what may stand in no command
    return None


def _is_certain(judge: Judge, choice: Choice, failing: list[FailingFramework]) -> bool:
    """Return whether a release works with what its environment will hold.

    It must not be warned of what is to go. Of a system's CUDA all must be known. No CPU build
    replaces a GPU build, which works on a CPU too.
    """
    best, facts = choice.best, judge.context.facts
    unwanted = frozenset[str]().union(*(item.causes for item in failing))
    if best is None or not best.is_compatible or any(item.id in unwanted for item in best.warnings):
        return False
    row = best.candidate.row
    on_gpu = (item.name for item in failing if item.has_gpu_build)
    if not row.cuda_build and row.framework in on_gpu:
        return False
    is_known = facts.toolkits.installs.value is not None and facts.cudnn.value is not None
    return best.source.kind != SYSTEM_TOOLKIT or (is_known and not best.resolved)


def _is_from_conda(context: Context, failing: list[FailingFramework]) -> bool:
    names = {item.name for item in failing}
    builds = [item.main for item in judged_frameworks(context) if item.name in names]
    return any(is_conda_build(context, build) for build in builds)


def _find_environment_folder(context: Context, *, is_condas: bool) -> str:
    """Return where the inspected environment lies, or any name where nobody asks.

    Return "" where it must not be changed.
    """
    python = context.python
    if not context.judges_environment or (python.externally_managed.value):
        return ""
    prefix = python.prefix.value or ""
    if is_typeable(prefix):
        return prefix
    return "" if is_condas else "environment"


def _has_activation(context: Context, folder: str) -> bool:
    kind, prefix = context.python.kind.value, context.python.prefix.value
    is_inspected = prefix == folder
    return is_inspected and kind in ("venv", "conda")


def _make_remedy(
    context: Context,
    plan: Plan,
    failing: list[FailingFramework],
    folder: str = "",
    python: str = "",
) -> Remedy:
    """Turn the plan's steps for the broken frameworks into a remedy.

    `folder` is the environment that exists.
    """
    names = {item.name for item in failing}
    releases = [item for item in plan.releases if item.framework in names]
    actions: list[Action] = []
    for environment in plan.environments:
        if any(item.environment == environment.folder for item in releases):
            actions += _list_actions(context, plan, environment, folder)
    chosen = " and ".join(item.requirement for item in releases)
    options = ("--python", python) if python else ()
    command = shell_line(("plan", *plan.requirements, *options), context.os)
    target = "" if folder else " into a new environment"
    summary = f"Install {chosen} and its dependencies{target}, as `envcheck {command}` selects."
    return Remedy(summary, tuple(actions))


def _list_actions(
    context: Context, plan: Plan, environment: Environment, folder: str
) -> list[Action]:
    """List what brings one environment about; the import at the end belongs to plans alone."""
    steps = [step for step in plan.steps if step.environment == environment.folder]
    actions = [step.action for step in steps if not isinstance(step.action, ImportFrameworks)]
    if folder != environment.folder:
        return actions
    releases = [item for item in plan.releases if item.environment == environment.folder]
    return _fit_to_environment(context, environment, releases, actions)


def _fit_to_environment(
    context: Context,
    environment: Environment,
    releases: list[PlannedRelease],
    actions: list[Action],
) -> list[Action]:
    """Fit actions to the environment that is there.

    What is in the way goes first, nothing is created.
    """
    removals = [step.action for step in removal_steps(context, environment, releases)]
    first = actions[0]
    remaining = [
        _with_python(action, interpreter(environment), context.python_program)
        for action in (*removals, *actions[1:])
    ]
    if isinstance(first, CreateEnvironment) and environment.installer == CONDA:
        packages = first.into_existing()
        if environment.sets:
            return [packages, *remaining]
        return [*remaining[: len(removals)], packages, *remaining[len(removals) :]]
    return [*Situation(context).fit(remaining)]


def _with_python(action: Action, planned: str, python: str) -> Action:
    """Return an action for the interpreter that is there in place of the planned one."""
    if getattr(action, "python", None) == planned:
        return replace(action, python=python)
    return action

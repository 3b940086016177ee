"""Plan for an environment that exists: what stays, what must go first, and what comes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from envcheck.actions import (
    ReinstallPackages,
    RemoveCondaPackages,
    UninstallPackages,
    is_requirement,
    shell_line,
)
from envcheck.frameworks import framework as known_framework
from envcheck.matrix.query import Matrix
from envcheck.model import (
    CONDA,
    ERROR,
    Clash,
    Distribution,
    Environment,
    Fact,
    Facts,
    Known,
    Plan,
    PlannedRelease,
    RequestError,
    Step,
    Trace,
    UserError,
    replace,
)
from envcheck.model.versions import Requirement, name_of, read_requirement
from envcheck.plan.build import (
    EnvironmentUpdate,
    InstalledFramework,
    goal_of,
    plan_of,
    unmet_plan,
)
from envcheck.plan.choose import Choice, Judge, choose_together
from envcheck.plan.data import conda_builds_data
from envcheck.plan.requests import PlanOptions, Request
from envcheck.plan.steps import CREATE, interpreter, pip_of, with_remedies
from envcheck.rules import Target, evaluate
from envcheck.rules.builds import Build
from envcheck.rules.context import Context
from envcheck.rules.cuda_wheels import split_cuda_suffix, wheels_in_one_folder
from envcheck.rules.dependencies import broken_pins
from envcheck.rules.described_machine import Description, planned_facts
from envcheck.rules.requirements import needs_of
from envcheck.rules.targets import judged_frameworks, wanted_releases

T = TypeVar("T")


def isolate_framework(context: Context, framework: str) -> Context:
    """Return the environment as it would be with no other framework in it."""
    found, owner_of = context.python, context.matrix.framework_of
    python = replace(
        found,
        frameworks=_keep(found.frameworks, lambda item: item.framework == framework),
        distributions=_keep(
            found.distributions, lambda item: owner_of(item.name) in ("", framework)
        ),
    )
    requirements = tuple(
        item.text for item in wanted_releases(context) if item.framework == framework
    )
    return Context(
        replace(context.facts, python=python), context.matrix, Target(context.goal, requirements)
    )


def _keep(fact: Fact[tuple[T, ...]], fits: Callable[[T], bool]) -> Fact[tuple[T, ...]]:
    """Leave out the items of a fact that do not fit."""
    if isinstance(fact, Known):
        return Known(tuple(filter(fits, fact.value)), fact.source)
    return fact


def installed_frameworks(context: Context, judge: Judge) -> tuple[InstalledFramework, ...]:
    """List the frameworks of an environment.

    What is wrong with the machine itself is held against none.
    """
    machine_errors = {item.key for item in judge.machine_findings()}
    return tuple(
        _describe_installed(context, item.main, machine_errors)
        for item in judged_frameworks(context)
    )


def satisfies(context: Context, installed: InstalledFramework, request: Request) -> bool:
    """Return whether an installed framework is what a request asks for, with its extras."""
    is_same_module = context.matrix.module_of(request.distribution) == context.matrix.module_of(
        installed.distribution
    )
    # the framework's own name leaves the build open
    names = (installed.distribution, installed.framework)
    if (
        request.framework != installed.framework
        or not is_same_module
        or request.distribution not in names
    ):
        return False
    for name in _distributions_of(context, installed.framework):
        for line in context.distributions[name].requires:
            is_asked = any(_is_of_extra(line, item) for item in request.extras)
            if is_asked and name_of(line) not in context.distributions:
                return False
    requirement = read_requirement(request.distribution + request.specifier)
    return requirement.admits(installed.version, prereleases=True) and _are_installed(
        context, request.companions
    )


def _are_installed(context: Context, texts: Iterable[str]) -> bool:
    """Return whether everything that is asked for beside a framework is there."""
    for requirement in map(read_requirement, texts):
        there = context.distributions.get(requirement.name)
        if there is None or not requirement.admits(there.version, prereleases=True):
            return False
    return True


def _describe_installed(
    context: Context, build: Build, machine_errors: set[tuple[str, str]]
) -> InstalledFramework:
    findings = evaluate(isolate_framework(context, build.framework)).findings
    errors = [
        item.message
        for item in findings
        if item.severity == ERROR and item.key not in machine_errors
    ]
    owner = context.distributions.get(build.framework)  # jax, whose compiled half is jaxlib
    name = owner.name if owner else build.distribution
    version = owner.version if owner else build.full_version
    extras = sorted(_list_extras(context, build.framework, name, version))
    text = Requirement("", name, tuple(extras), f"=={version}").plain
    requirement = text if is_requirement(text) else ""
    pins = tuple(dict.fromkeys(_list_pins(context, build.framework)))
    return InstalledFramework(
        build.framework, name, version, "".join(errors[:1]), requirement, pins
    )


def _list_extras(context: Context, framework: str, name: str, version: str) -> Iterator[str]:
    """Yield the extras that brought the CUDA libraries which are there."""
    distributions, matrix = context.distributions, context.matrix
    row = matrix.release(framework, version.partition("+")[0], context.platform, name)
    if row is not None and row.gpu_extra and row.distribution == name:
        pattern = known_framework(framework).plugin_of_extra
        plugins = [
            extra
            for extra in row.extras
            if pattern and pattern.format(extra=extra) in distributions
        ]
        has_wheels = any(
            name_of(text) in distributions
            for text in row.cuda_wheels
            if name_of(text).startswith("nvidia-")
        )
        yield from plugins or ([row.gpu_extra] if has_wheels else [])


def _list_pins(context: Context, framework: str) -> Iterator[str]:
    for name in _distributions_of(context, framework):
        for need in needs_of(context, context.distributions[name]):
            any_release = ">=0" if split_cuda_suffix(need.name)[1] else ""
            text = need.name + (need.specifier or any_release)
            try:
                read_requirement(text)
            except RequestError:  # old metadata holds what no longer is one
                continue
            if text != need.name:
                yield text


def _distributions_of(context: Context, framework: str) -> list[str]:
    return [
        name for name in context.distributions if context.matrix.framework_of(name) == framework
    ]


def _is_of_extra(line: str, extra: str) -> bool:
    _, _, marker = line.partition(";")
    condition = marker.replace("'", '"').replace(" ", "").replace("_", "-")
    return f'extra=="{extra}"' in condition


_AGAIN = (
    "Reinstall the packages whose files are damaged:"
    " an installer skips what is listed as installed."
)
_LATER = Trace(reason="the import is checked after the last step")


def _reinstall_steps(
    context: Context,
    environment: Environment,
    releases: Iterable[PlannedRelease],
    removals: Iterable[Step],
) -> Iterator[Step]:
    """Reinstall the distributions that doctor reports as damaged, unless the plan replaces them."""
    if environment.installer == CONDA:
        return
    removed = {name for step in removals for name in getattr(step.action, "names", ())}
    replaced = {item.distribution: item.version.partition("+")[0] for item in releases}
    errors = [item for item in evaluate(context).findings if item.severity == ERROR]
    fixes = [item.fix for item in with_remedies(errors, context) if item.fix]
    again = dict.fromkeys(
        item for fix in fixes for item in fix.actions if isinstance(item, ReinstallPackages)
    )
    for number, action in enumerate(again, 1):
        pins = [pin.partition("==") for pin in action.requirements]
        kept = [(name, version) for name, _, version in pins if name not in removed]
        texts = tuple(
            f"{name}=={version}" for name, version in kept if replaced.get(name, version) == version
        )
        if texts:
            fitted = replace(
                action,
                requirements=texts,
                python=interpreter(environment),
                installer=pip_of(environment),
                purpose=_AGAIN,
            )
            yield Step(f"reinstall-{number}", fitted, environment=environment.folder, check=_LATER)


_NAME = r"[a-z0-9][a-z0-9._-]*"
_REPLACED = "Uninstall the packages that this replaces."


def removal_steps(
    context: Context, environment: Environment, releases: Iterable[PlannedRelease]
) -> tuple[Step, ...]:
    """Remove what is in the way of planned releases; () where nothing is."""
    if environment.installer == CONDA:
        return removal_steps_of_conda(context, environment, tuple(releases))
    return uninstall_steps(
        environment, (name for item in releases for name in conflicts(context, item))
    )


def uninstall_steps(
    environment: Environment,
    distributions: Iterable[str],
    purpose: str = _REPLACED,
) -> tuple[Step, ...]:
    """Remove distributions by pip, or uv; () where there are none."""
    names = tuple(name for name in dict.fromkeys(distributions) if re.fullmatch(_NAME, name))
    if not names:
        return ()
    python, installer = interpreter(environment), pip_of(environment)
    action = UninstallPackages(names, python, installer, purpose=purpose)
    return (Step("remove", action, environment=environment.folder),)


def conflicts(context: Context, release: PlannedRelease) -> tuple[str, ...]:
    """List the distributions that pip would leave beside or in place of a release.

    Of two that own one module, or lie in one folder, the files of both are damaged; and to pip
    2.8.0+cpu meets ==2.8.0.
    """
    matrix = context.matrix
    name = release.distribution
    public = release.version.partition("+")[0]
    row = matrix.release(release.framework, public, context.platform, name)
    keep = (name, row.stub_for if row is not None else None)
    present = _own_distributions(context)
    rivals = [
        key for key in present if matrix.framework_of(key) == release.framework and key not in keep
    ]
    owners = [key for key in rivals if matrix.module_of(key) == matrix.module_of(name)]
    current = present[name].version if name in present else ""
    if name not in context.distributions:  # a log states a build, and lists no distributions
        builds = context.python.frameworks.value or ()
        current = next((item.version for item in builds if item.distribution == name), "")
    is_other_build = current != release.version and current.partition("+")[0] == public
    plugins = [key for key in rivals if _is_other_plugin(present[key], release)]
    same_name = (name,) if current and (owners or is_other_build) else ()
    return (*same_name, *owners, *plugins, *_wheels_of_another_cuda(context, present, release))


def _own_distributions(context: Context) -> dict[str, Distribution]:
    """Return what lies in the environment itself.

    What a venv borrows from its base, it cannot remove.
    """
    kind = context.python.kind.value
    outside = ("conda", "system") if kind == "venv" else ("conda",)
    return {key: item for key, item in context.distributions.items() if item.scope not in outside}


def _is_other_plugin(plugin: Distribution, release: PlannedRelease) -> bool:
    """Return whether a plugin is for another CUDA, or release, than comes."""
    extra = known_framework(release.framework).extra_of_plugin(plugin.name)
    if not extra:
        return False
    if release.build == "gpu":
        return extra not in release.requirement
    return plugin.version != release.version


def _wheels_of_another_cuda(
    context: Context, present: dict[str, Distribution], release: PlannedRelease
) -> Iterator[str]:
    """Yield nvidia wheels that share their folder with coming ones of another CUDA."""
    for name in _list_wheels(context, release):
        bare, cuda = split_cuda_suffix(name)
        same = [key for key in present if cuda and split_cuda_suffix(key)[0] == bare]
        if same not in ([], [name]):
            yield from sorted(same, key=lambda key: key == name)  # what comes is the last


def _list_wheels(context: Context, release: PlannedRelease) -> list[str]:
    """List the nvidia wheels that a release brings, as far as the matrix knows."""
    public, _, label = release.version.partition("+")
    if release.build != "gpu":
        return []
    if label:  # its pins are not held, but their CUDA is told by the label: cu126
        return [f"{name}-{label[:4]}" for name in wheels_in_one_folder()]
    rows = context.matrix.releases(release.framework, context.platform, admits=public.__eq__)
    match = re.search(r"\[(?:.*,)?(cuda\d+)", release.requirement)
    plugin = ""
    if match:
        plugin = known_framework(release.framework).plugin_of_extra.format(extra=match[1])
    names = (release.distribution, plugin)
    texts = [text for row in rows if row.distribution in names for text in row.cuda_wheels]
    return list(dict.fromkeys(map(name_of, (*texts, *release.constraints))))


_BY_PIP = "Uninstall the packages that pip installed: conda's files would mix with theirs."
_BY_CONDA = "Remove conda's build: pip would overwrite it, and conda would still list it."


def removal_steps_of_conda(
    context: Context, environment: Environment, releases: tuple[PlannedRelease, ...]
) -> tuple[Step, ...]:
    """Remove planned frameworks that the other installer brought.

    Neither knows of the other's files.
    """
    # what conda lists, also where pip has put another release in its place
    distributions = context.python.distributions.value or ()
    conda_names = frozenset(item.name for item in distributions if item.installer == "conda")
    pips: list[str] = []
    for item in releases:
        if environment.sets:
            pips += [name for name in conflicts(context, item) if name not in conda_names]
        else:
            pips += _pip_distributions(context, item, conda_names)
    steps = uninstall_steps(environment, pips, _REPLACED if environment.sets else _BY_PIP)
    packages = conda_builds_data().packages
    names = {name for item in releases for name in packages[item.framework] if name in conda_names}
    condas = tuple(sorted(names)) if environment.sets or steps else ()
    # What depends on it stays: the framework comes again.
    action = RemoveCondaPackages(condas, environment.folder, purpose=_BY_CONDA)
    return (
        *steps,
        *((Step("remove-conda", action, environment=environment.folder),) if condas else ()),
    )


def _pip_distributions(
    context: Context, release: PlannedRelease, conda_names: frozenset[str]
) -> Iterator[str]:
    """Yield a framework's distributions from pip, and their needs that conda does not list."""
    distributions = context.distributions
    names = [
        name
        for name, item in distributions.items()
        if context.matrix.framework_of(name) == release.framework and item.installer != "conda"
    ]
    seen = set(names)
    for name in names:
        yield name
        required = dict.fromkeys(need.name for need in needs_of(context, distributions[name]))
        new = [key for key in required if key in distributions and key not in seen | conda_names]
        seen.update(new)
        names += new


class OccupiedError(UserError):
    """What is in the environment speaks against the plan; the message says what to type instead."""


def plan_update(
    facts: Facts, matrix: Matrix, requests: tuple[Request, ...], options: PlanOptions
) -> EnvironmentUpdate:
    """Plan for the environment that `facts` describe. Raises OccupiedError."""
    empty = planned_facts(facts, Description(), matrix, expects_gpu=options.expect == "gpu")
    goal = goal_of(empty, matrix, requests, options)
    context = Context(facts, matrix, Target(goal))
    empty_context = Context(empty, matrix, Target(goal))
    present = installed_frameworks(context, Judge(empty_context))
    fitting = tuple(
        item
        for item in present
        if not item.error and any(satisfies(context, item, one) for one in requests)
    )
    satisfied = () if options.upgrade else fitting
    names = {request.framework for request in requests}
    others = tuple(item for item in present if item.framework not in names)
    renamed = tuple(_keep_installed_name(context, one, present, options) for one in requests)
    unmet_requests = tuple(
        one for one in renamed if one.framework not in {item.framework for item in satisfied}
    )
    if not unmet_requests and _are_installed(context, options.beside):
        return EnvironmentUpdate(Plan("", (), ()), satisfied, is_satisfied=True)
    _check_others_work(context, others, requests, options)
    attempts = dict.fromkeys([(unmet_requests, (*others, *satisfied)), (renamed, others)])
    attempts.pop(((), (*others, *satisfied)), None)  # only packages beside the frameworks lack
    update = _try_updates(context, empty_context, tuple(attempts), options)
    is_well = names <= {item.framework for item in fitting}
    if not (options.upgrade and is_well and _is_newest(context, update.plan, options)):
        return update
    newest = " and ".join(item.label for item in fitting)
    note = f"{newest} is already installed, and no newer release works here."
    plan = replace(update.plan, notes=(*update.plan.notes, note))
    return replace(update, plan=plan, unchanged=fitting, is_satisfied=True)


def _is_newest(context: Context, plan: Plan, options: PlanOptions) -> bool:
    """Return whether an environment holds all that a plan would bring to it."""
    wanted: list[str] = []
    for item in plan.releases:
        wanted += [f"{item.distribution}=={item.version}", *item.companions]
    is_open = options.beside or any(item.open_companions for item in plan.releases)
    mends = (UninstallPackages, ReinstallPackages)
    removes = any(isinstance(step.action, mends) for step in plan.steps)
    is_planned = bool(plan.releases) and not is_open and not removes
    return is_planned and _are_installed(context, wanted)


def _keep_installed_name(
    context: Context,
    request: Request,
    present: tuple[InstalledFramework, ...],
    options: PlanOptions,
) -> Request:
    """Keep the name of an installed framework, and its release if only companions lack."""
    installed = next((item for item in present if item.framework == request.framework), None)
    if installed is None:
        return request
    keeps_release = (
        not options.upgrade
        and (request.companions or options.beside)
        and not installed.error
        and satisfies(context, installed, replace(request, companions=()))
    )
    specifier = f"=={installed.version}" if keeps_release else request.specifier
    return replace(
        request,
        preferred_name=request.preferred_name or installed.distribution,
        specifier=specifier,
    )


def _check_others_work(
    context: Context,
    others: tuple[InstalledFramework, ...],
    requests: tuple[Request, ...],
    options: PlanOptions,
) -> None:
    broken = next((item for item in others if item.error), None)
    if broken is not None:
        texts = (*(request.text for request in requests), broken.framework)
        command = shell_line(("envcheck", "install", *texts, "--env", options.folder), context.os)
        raise OccupiedError(
            f"{options.folder} holds {broken.label}, which does not work: {broken.error} "
            f"Fix both with `{command}`, or give a new folder."
        )


def _try_updates(
    context: Context,
    empty_context: Context,
    attempts: tuple[tuple[tuple[Request, ...], tuple[InstalledFramework, ...]], ...],
    options: PlanOptions,
) -> EnvironmentUpdate:
    clash: Clash | None = None
    for requests, keep in attempts:
        judge = Judge(
            empty_context,
            tuple((installed.label, pin) for installed in keep for pin in installed.pins),
        )
        update_options = replace(
            options,
            keep=tuple(installed.requirement for installed in keep if installed.requirement),
        )
        choices, clashes = choose_together(judge, requests, options.installer)
        failure = unmet_plan(judge, choices, update_options)
        if failure is not None:
            return EnvironmentUpdate(failure, keep)
        labels = tuple(f"{installed.label}: " for installed in keep)
        clash = None
        if labels:
            clash = next((item for item in clashes if item.first.startswith(labels)), None)
        if clash is None:
            return EnvironmentUpdate(
                _with_removals(context, plan_of(judge, choices, clashes, update_options), keep),
                keep,
            )
    raise OccupiedError(_clash_message(clash, choices, keep, options, context.os))


def _clash_message(
    clash: Clash | None,
    choices: list[Choice],
    keep: tuple[InstalledFramework, ...],
    options: PlanOptions,
    system: str,
) -> str:
    new = [choice.request.text for choice in choices]
    texts = (*new, *(item.framework for item in keep))
    command = shell_line(("envcheck", "install", *texts, "--env", options.folder), system)
    pins = f"{clash.first}, and {clash.second}" if clash else ""
    folder = f"{options.folder}-{choices[0].request.framework}"
    return (
        f"no release of {' '.join(new)} works with what {options.folder} keeps: {pins}. Use a"
        f" separate environment ({shell_line(('--env', folder), system)}),"
        f" or choose all releases again: `{command}`."
    )


def _with_removals(context: Context, plan: Plan, keep: tuple[InstalledFramework, ...]) -> Plan:
    """Remove first what is in the way; what was broken before is not held against a step."""
    environment = plan.environments[0]
    removals = removal_steps(context, environment, plan.releases)
    removals = (*removals, *_reinstall_steps(context, environment, plan.releases, removals))
    # conda's first step brings all
    by_conda = environment.installer == CONDA and not environment.sets
    position = next(
        place
        for place, step in enumerate(plan.steps)
        if step.environment and (step.id != CREATE or by_conda)
    )
    steps = (*plan.steps[:position], *removals, *plan.steps[position:])
    if broken_pins(context):
        unchecked = Trace(reason="the environment already had broken dependencies")
        steps = tuple(
            replace(step, check=unchecked) if step.id.startswith("install") else step
            for step in steps
        )
    notes = tuple(f"{item.label} is installed and works, so it stays unchanged." for item in keep)
    return replace(plan, steps=steps, notes=(*plan.notes, *notes))

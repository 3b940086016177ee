"""Plan for an environment that exists: what stays, what must go first, and what comes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from packaging.requirements import InvalidRequirement, Requirement

from envcheck.actions import RemoveCondaPackages, UninstallPackages, is_requirement, quoted
from envcheck.frameworks import framework as known_framework
from envcheck.matrix.query import Matrix
from envcheck.model import (
    CONDA,
    ERROR,
    PIP,
    UV,
    Clash,
    Distribution,
    Environment,
    Facts,
    Known,
    Plan,
    PlannedRelease,
    Step,
    Trace,
    dataclass,
    replace,
)
from envcheck.plan.build import choose_all, goal_of, plan_of, unmet
from envcheck.plan.choose import Choice, Judge
from envcheck.plan.data import conda_builds_data
from envcheck.plan.requests import PlanOptions, Request
from envcheck.plan.steps import CREATE, interpreter
from envcheck.rules import Target, evaluate
from envcheck.rules.builds import Build, judged_frameworks, wanted_releases
from envcheck.rules.context import Context
from envcheck.rules.cuda_wheels import split_cuda_suffix, wheels_in_one_folder
from envcheck.rules.dependencies import broken_pins, requirements_of
from envcheck.rules.described_machine import Description, planned_facts
from envcheck.rules.gpu_releases import name_of
from envcheck.rules.requirements import canonical_name, read_requirement


@dataclass(frozen=True)
class InstalledFramework:
    """One framework that is installed."""

    framework: str
    distribution: str
    version: str  # with its label: 2.13.0+cpu
    wrong: str  # what the rules say against it; "" where it is well
    text: str  # asks for exactly what is there: tensorflow[and-cuda]==2.20.0; "" where nothing plain does
    pins: tuple[str, ...]  # what it needs of others, as its own metadata tells

    @property
    def label(self) -> str:
        """Name it as people do."""
        return f"{self.distribution} {self.version}"


def alone(context: Context, framework: str) -> Context:
    """Return the environment as it would be with no other framework in it."""
    python = context.facts.python
    if isinstance(python.frameworks, Known):
        builds = tuple(item for item in python.frameworks.value if item.framework == framework)
        python = replace(python, frameworks=Known(builds, python.frameworks.source))
    if isinstance(python.distributions, Known):
        found = python.distributions
        kept = tuple(item for item in found.value if context.matrix.framework_of(item.name) in (None, framework))
        python = replace(python, distributions=Known(kept, found.source))
    asked = tuple(item.text for item in wanted_releases(context) if item.framework == framework)
    return Context(replace(context.facts, python=python), context.matrix, Target(context.goal, asked))


def installed_frameworks(context: Context, judge: Judge) -> tuple[InstalledFramework, ...]:
    """List the frameworks of an environment; what is wrong with the machine itself is held against none."""
    own = {(item.id, item.message) for item in judge.machine_findings()}
    return tuple(_describe_installed(context, item.main, own) for item in judged_frameworks(context))


def satisfies(context: Context, there: InstalledFramework, request: Request) -> bool:
    """Tell whether a framework that is there is what a request asks for, with all that its extras bring."""
    same = context.matrix.module_of(request.distribution) == context.matrix.module_of(there.distribution)
    if request.framework != there.framework or not same or request.distribution not in _names(there):
        return False
    owners = [context.distributions[name] for name in _of_framework(context, there.framework)]
    lines = [line for owner in owners for line in owner.requires]
    needed = [line for line in lines if any(_is_of_extra(line, item) for item in request.extras)]
    has_extras = all(_name(line) in context.distributions for line in needed)
    asked = read_requirement(request.distribution + request.specifier)
    return has_extras and asked.admits(there.version, prereleases=True) and all(_is_beside(context, request))


def _is_beside(context: Context, request: Request) -> Iterator[bool]:
    """Tell of each thing asked for beside a framework whether it is there."""
    for asked in map(read_requirement, request.beside):
        found = context.distributions.get(canonical_name(asked.name))
        yield found is not None and asked.admits(found.version, prereleases=True)


def _names(there: InstalledFramework) -> tuple[str, str]:
    """List what may be asked for: its own name, or that of the framework, which leaves the build open."""
    return (there.distribution, there.framework)


def _describe_installed(context: Context, build: Build, own: set[tuple[str, str]]) -> InstalledFramework:
    found = evaluate(alone(context, build.framework)).findings
    wrong = [item.message for item in found if item.severity == ERROR and (item.id, item.message) not in own]
    whole = context.distributions.get(build.framework)  # jax, whose compiled half is jaxlib
    name = whole.name if whole else build.distribution
    version = whole.version if whole else build.version + (f"+{build.local}" if build.local else "")
    extras = sorted(_extras(context, build.framework, name, version))
    text = name + (f"[{','.join(extras)}]" if extras else "") + f"=={version}"
    plain = text if is_requirement(text) else ""
    pins = tuple(dict.fromkeys(_pins(context, build.framework)))
    return InstalledFramework(build.framework, name, version, "".join(wrong[:1]), plain, pins)


def _extras(context: Context, framework: str, name: str, version: str) -> Iterator[str]:
    """Yield the extras that brought the CUDA libraries which are there."""
    there, matrix = context.distributions, context.matrix
    row = matrix.release(framework, version.partition("+")[0], context.platform, name)
    if row is not None and row.gpu_extra and row.distribution == name:
        pattern = known_framework(framework).plugin_of_extra
        plugins = [extra for extra in row.extras if pattern and pattern.format(extra=extra) in there]
        has_wheels = any(name_of(text) in there for text in row.cuda_wheels if name_of(text).startswith("nvidia-"))
        yield from plugins or ([row.gpu_extra] if has_wheels else [])


def _pins(context: Context, framework: str) -> Iterator[str]:
    for name in _of_framework(context, framework):
        for needed, specifier, _ in requirements_of(context, context.distributions[name]):
            text = needed + ("".join(specifier.split()) or (">=0" if split_cuda_suffix(needed)[1] else ""))
            if text != needed and _is_readable(text):
                yield text


def _is_readable(text: str) -> bool:
    """Tell whether others can read a requirement: old metadata holds what no longer is one."""
    try:
        Requirement(text)
    except InvalidRequirement:
        return False
    return True


def _of_framework(context: Context, framework: str) -> list[str]:
    return [name for name in context.distributions if context.matrix.framework_of(name) == framework]


def _name(line: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", line.strip())
    return canonical_name(found.group()) if found else ""


def _is_of_extra(line: str, extra: str) -> bool:
    _, _, marker = line.partition(";")
    words = marker.replace("'", '"').replace(" ", "").replace("_", "-")
    return f'extra=="{extra}"' in words


_NAME = r"[a-z0-9][a-z0-9._-]*"


def removal_steps(context: Context, made: Environment, releases: Iterable[PlannedRelease]) -> tuple[Step, ...]:
    """Remove what is in the way of planned releases by the environment's installer; () where nothing is."""
    if made.installer == CONDA:
        return removal_steps_of_conda(context, made, tuple(releases))
    return uninstall_steps(made, (name for item in releases for name in conflicts(context, item)))


def uninstall_steps(
    made: Environment, found: Iterable[str], purpose: str = "Uninstall the packages that this replaces."
) -> tuple[Step, ...]:
    """Remove distributions by pip, or uv; () where there are none."""
    names = tuple(name for name in dict.fromkeys(found) if re.fullmatch(_NAME, name))
    action = UninstallPackages(names, interpreter(made), UV if made.installer == UV else PIP, purpose=purpose)
    return (Step("remove", action, environment=made.folder),) if names else ()


def conflicts(context: Context, release: PlannedRelease) -> tuple[str, ...]:
    """List the distributions that pip would leave beside or in place of a release.

    Of two that own one module, or lie in one folder, the files of both are damaged; and to pip 2.8.0+cpu meets ==2.8.0.
    """
    matrix, name, public = context.matrix, release.distribution, release.version.partition("+")[0]
    row = matrix.release(release.framework, public, context.platform, name)
    stays = (name, row.stub_for if row is not None else None)
    found = _own(context)
    same = [key for key in found if matrix.framework_of(key) == release.framework and key not in stays]
    owners = [key for key in same if matrix.module_of(key) == matrix.module_of(name)]
    there = found[name].version if name in found else ""
    is_other_build = there != release.version and there.partition("+")[0] == public
    plugins = [key for key in same if _is_other_plugin(found[key], release)]
    itself = (name,) if name in found and (owners or is_other_build) else ()
    return (*itself, *owners, *plugins, *_wheels_of_another_cuda(context, found, release))


def _own(context: Context) -> dict[str, Distribution]:
    """Return what lies in the environment itself: what a venv borrows from its base, it cannot remove."""
    kind = context.facts.python.kind
    borrowed = ("conda", "system") if isinstance(kind, Known) and kind.value == "venv" else ("conda",)
    return {key: item for key, item in context.distributions.items() if item.scope not in borrowed}


def _is_other_plugin(found: Distribution, release: PlannedRelease) -> bool:
    """Tell whether a plugin is for another CUDA, or release, than comes: jax-cuda12-pjrt beside jax[cuda13]."""
    extra = known_framework(release.framework).extra_of_plugin(found.name)
    if not extra:
        return False
    return extra not in release.requirement if release.build == "gpu" else found.version != release.version


def _wheels_of_another_cuda(context: Context, found: dict[str, Distribution], release: PlannedRelease) -> Iterator[str]:
    """Yield nvidia wheels whose folder is that of wheels of another CUDA that come, and those whose files it has."""
    for name in _wheels(context, release):
        bare, cuda = split_cuda_suffix(name)
        others = [key for key in found if split_cuda_suffix(key)[0] == bare and key != name] if cuda else []
        yield from (*others, *((name,) if others and name in found else ()))


def _wheels(context: Context, release: PlannedRelease) -> list[str]:
    """List the nvidia wheels that a release brings, as far as the matrix knows."""
    public, _, label = release.version.partition("+")
    if release.build != "gpu":
        return []
    if label:  # its pins are not held, but their CUDA is told by the label: cu126
        return [f"{name}-{label[:4]}" for name in wheels_in_one_folder()]
    rows = context.matrix.releases(release.framework, context.platform, admits=public.__eq__)
    found = re.search(r"\[(?:.*,)?(cuda\d+)", release.requirement)
    plugin = known_framework(release.framework).plugin_of_extra.format(extra=found[1]) if found else ""
    names = (release.distribution, plugin)
    texts = [text for row in rows if row.distribution in names for text in row.cuda_wheels]
    return list(dict.fromkeys(name_of(text) for text in (*texts, *release.constraints)))


_BY_PIP = "Uninstall the packages that pip installed: conda's files would mix with theirs."
_BY_CONDA = "Remove conda's build: pip would overwrite it, and conda would still list it."


def removal_steps_of_conda(
    context: Context, made: Environment, releases: tuple[PlannedRelease, ...]
) -> tuple[Step, ...]:
    """Remove planned frameworks that the other installer brought: neither knows of the other's files."""
    recorded = _recorded(context)
    if made.sets:
        pips = [name for item in releases for name in conflicts(context, item) if name not in recorded]
        steps = uninstall_steps(made, pips)
    else:
        pips = [name for item in releases for name in _pips(context, item, recorded)]
        steps = uninstall_steps(made, pips, _BY_PIP)
    packages = conda_builds_data().packages
    held = {name for item in releases for name in packages[item.framework] if name in recorded}
    condas = tuple(sorted(held)) if made.sets or steps else ()
    # What depends on it stays: the framework comes again.
    gone = Step("remove-conda", RemoveCondaPackages(condas, made.folder, purpose=_BY_CONDA), environment=made.folder)
    return (*steps, *((gone,) if condas else ()))


def _recorded(context: Context) -> frozenset[str]:
    """Name what conda lists, also where pip has put another release in its place."""
    found = context.facts.python.distributions
    return (
        frozenset(item.name for item in found.value if item.installer == "conda")
        if isinstance(found, Known)
        else frozenset()
    )


def _pips(context: Context, release: PlannedRelease, recorded: frozenset[str]) -> Iterator[str]:
    """Yield a framework's distributions that pip brought, and what they need of others that conda does not list."""
    there = context.distributions
    queue = [
        name
        for name, item in there.items()
        if context.matrix.framework_of(name) == release.framework and item.installer != "conda"
    ]
    seen = set(queue)
    for name in queue:
        yield name
        needed = dict.fromkeys(each for each, *_ in requirements_of(context, there[name]) if each in there)
        new = [each for each in needed if each not in seen | recorded]
        seen.update(new)
        queue += new


class OccupiedError(Exception):
    """What is in the environment speaks against the plan; the message says what to type instead."""


@dataclass(frozen=True)
class EnvironmentUpdate:
    """What comes of planning into an environment; `plan` None: what is asked for is there and well."""

    plan: Plan | None
    kept: tuple[InstalledFramework, ...]  # stay as they are


def plan_update(facts: Facts, matrix: Matrix, requests: tuple[Request, ...], wish: PlanOptions) -> EnvironmentUpdate:
    """Plan for the environment that `facts` describe. Raises OccupiedError."""
    empty = planned_facts(facts, Description(), matrix, expects_gpu=wish.expect == "gpu")
    goal = goal_of(empty, matrix, requests, wish)
    here, bare = Context(facts, matrix, Target(goal)), Context(empty, matrix, Target(goal))
    found = installed_frameworks(here, Judge(bare))
    met = tuple(there for there in found if not there.wrong and any(satisfies(here, there, one) for one in requests))
    asked = {request.framework for request in requests}
    others = tuple(there for there in found if there.framework not in asked)
    named = tuple(_held(here, one, found) for one in requests)
    open_ = tuple(one for one in named if one.framework not in {there.framework for there in met})
    if not open_:
        return EnvironmentUpdate(None, met)
    _check_others_work(here, others, requests, wish)
    tries = dict.fromkeys([(open_, (*others, *met)), (named, others)])
    return _first_that_fits(here, bare, tuple(tries), wish)


def _held(here: Context, request: Request, found: tuple[InstalledFramework, ...]) -> Request:
    """Keep the name that a framework is there under, and its release where only what goes beside it is missing."""
    there = next((item for item in found if item.framework == request.framework), None)
    if there is None:
        return request
    stays = request.beside and not there.wrong and satisfies(here, there, replace(request, beside=()))
    kept = f"=={there.version}" if stays else request.specifier
    named: Request = replace(request, held=request.held or there.distribution, specifier=kept)
    return named


def _check_others_work(
    here: Context, others: tuple[InstalledFramework, ...], requests: tuple[Request, ...], wish: PlanOptions
) -> None:
    wrong = next((there for there in others if there.wrong), None)
    if wrong is not None:
        texts = (*(one.text for one in requests), wrong.framework)
        asked = quoted(("envcheck", "install", *texts, "--env", wish.folder), here.os)
        raise OccupiedError(
            f"{wish.folder} holds {wrong.label}, with which no environment counts as good: {wrong.wrong} "
            f"Have both put right by `{asked}`, or give a new folder."
        )


def _first_that_fits(
    here: Context,
    bare: Context,
    tries: tuple[tuple[tuple[Request, ...], tuple[InstalledFramework, ...]], ...],
    wish: PlanOptions,
) -> EnvironmentUpdate:
    clash: Clash | None = None
    for requests, kept in tries:
        judge = Judge(bare, tuple((there.label, pin) for there in kept for pin in there.pins))
        wanted = replace(wish, kept=tuple(there.text for there in kept if there.text))
        choices, clashes = choose_all(judge, requests, wish.installer)
        blocked = unmet(judge, choices, wanted)
        if blocked is not None:
            return EnvironmentUpdate(blocked, kept)
        labels = tuple(f"{there.label}: " for there in kept)
        clash = next((item for item in clashes if item.first.startswith(labels)), None) if labels else None
        if clash is None:
            return EnvironmentUpdate(_fitted(here, plan_of(judge, choices, clashes, wanted), kept), kept)
    raise OccupiedError(_clashing(clash, choices, kept, wish, here.os))


def _clashing(
    clash: Clash | None, choices: list[Choice], kept: tuple[InstalledFramework, ...], wish: PlanOptions, system: str
) -> str:
    new = [choice.request.text for choice in choices]
    both = quoted(("envcheck", "install", *new, *(there.framework for there in kept), "--env", wish.folder), system)
    pins = f"{clash.first}, and {clash.second}" if clash else ""
    apart = f"{wish.folder}-{choices[0].request.framework}"
    return (
        f"what {wish.folder} holds stays as it is, and nothing that {quoted(new, system)} admits goes with it: {pins}. "
        f"Give it an environment of its own (--env {quoted((apart,), system)}), or have all chosen anew: `{both}`."
    )


def _fitted(here: Context, plan: Plan, kept: tuple[InstalledFramework, ...]) -> Plan:
    """Remove first what is in the way; what was broken before is not held against a step."""
    made = plan.environments[0]
    gone = removal_steps(here, made, plan.releases)
    by_conda = made.installer == CONDA and not made.sets  # conda's first step brings all
    first = next(place for place, step in enumerate(plan.steps) if step.environment and (step.id != CREATE or by_conda))
    steps = (*plan.steps[:first], *gone, *plan.steps[first:])
    if broken_pins(here):
        unchecked = Trace(reason="the environment held what was broken before")
        steps = tuple(replace(step, check=unchecked) if step.id.startswith("install") else step for step in steps)
    notes = tuple(f"{there.label} is there, works, and stays as it is." for there in kept)
    fitted: Plan = replace(plan, steps=steps, notes=(*plan.notes, *notes))
    return fitted

"""Build a plan: choose releases, write their steps, and search for alternatives where none fits."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from functools import partial
from itertools import chain, islice
from typing import Any

from packaging.version import Version

from envcheck.actions import move_environment
from envcheck.frameworks import framework, framework_names
from envcheck.matrix.companions import companion_row
from envcheck.matrix.package_index import package_index
from envcheck.matrix.query import Matrix
from envcheck.model import (
    COMPATIBLE,
    CONDA,
    INCOMPATIBLE,
    UNDETERMINED,
    Change,
    Clash,
    Environment,
    Facts,
    FrameworkRelease,
    Known,
    Plan,
    PlannedRelease,
    Step,
    dataclass,
    numbers,
    replace,
)
from envcheck.model.text import counted
from envcheck.model.versions import name_of
from envcheck.plan.candidates import (
    SYSTEM,
    Candidate,
    list_apple_plugins,
    needs_gpu,
    newest_with_apple_plugin,
    python_minor,
)
from envcheck.plan.choose import Choice, Judge, choose, choose_together, groups_of, note_companions
from envcheck.plan.environments import environment_of, planned_release
from envcheck.plan.requests import (
    DEFAULT_OPTIONS,
    EVERY,
    PlanOptions,
    Request,
    assumptions,
    list_other_sources,
    read_requests,
    stated_machine,
    with_any_name,
    with_any_version,
    with_same_line,
    without_cuda,
)
from envcheck.plan.steps import (
    blockers,
    container_toolkit_steps,
    environment_steps,
    list_alternatives,
    machine_steps,
    with_remedies,
)
from envcheck.rules import Context, Target
from envcheck.rules.builds import is_free_threaded, rows_by_extra
from envcheck.rules.described_machine import (
    LINUX,
    WHATIF,
    Description,
    capabilities,
    in_wsl,
    planned_facts,
)
from envcheck.rules.gpu_architecture import is_reported_to_fail
from envcheck.rules.gpu_releases import driver_floor, full_driver, newest_branch
from envcheck.rules.matrix_question import is_refused_for_gpu
from envcheck.rules.requirements import wheel_glibc

# By effort: an environment, two compromises, a second system beside this one, a restart, another
# system.
PYTHON, RELEASE, CPU, WSL, DRIVER, LIBC = 1, 2, 3, 4, 5, 6
Requests = tuple[Request, ...]


@dataclass
class InstalledFramework:
    """One framework that is installed."""

    framework: str
    distribution: str
    version: str  # with its label: 2.13.0+cpu
    error: str  # what the rules say against it; "" where it is well
    # asks for exactly what is there: tensorflow[and-cuda]==2.20.0; "" where nothing plain does
    requirement: str
    pins: tuple[str, ...]  # what it needs of others, as its own metadata tells

    @property
    def label(self) -> str:
        """Name it as people do."""
        return f"{self.distribution} {self.version}"


@dataclass
class EnvironmentUpdate:
    """A plan for a new or existing environment, and the frameworks that it leaves alone."""

    plan: Plan
    unchanged: tuple[InstalledFramework, ...] = ()  # stay as they are
    is_satisfied: bool = False  # they are all that is asked for, and well: the plan is empty


def possible_changes(
    context: Context, requests: tuple[Request, ...], options: PlanOptions
) -> tuple[Change, ...]:
    """List the single changes after which every request can be met.

    Where there are none, pairs of them.
    """
    search = AlternativeSearch(context, requests, options)
    single = [*search.pythons(), *search.releases(), *search.frameworks(), *search.cpu()]
    single += [*search.wsl(), *search.drivers(), *search.libcs()]
    return tuple(sorted(single or [*search.pairs()], key=lambda change: change.effort))


def another_python(context: Context, requests: tuple[Request, ...], options: PlanOptions) -> str:
    """Name the Python with which every request can be met by its newest release.

    Return "" where there is none.
    """
    return AlternativeSearch(context, requests, options).best_python(
        context.facts, context.goal, requests
    )[0]


class AlternativeSearch:
    """Searches the single changes, then the pairs of them, that make a plan possible."""

    def __init__(
        self, context: Context, requests: tuple[Request, ...], options: PlanOptions
    ) -> None:
        self.context, self.requests, self.options = context, requests, options

    def pythons(
        self,
        goal: str = "",
        requests: Requests = (),
        **described: Any,
    ) -> Iterator[Change]:
        """Try every Python with a wheel, and keep the one with the newest release."""
        machine = self._describe(self.context.facts, **described)
        minor = self.best_python(machine, goal, requests or self.requests)[0]
        if minor:
            yield from self._try(
                _python_named(self.context, minor),
                PYTHON,
                goal=goal,
                requests=requests,
                python=minor,
                **described,
            )

    def best_python(self, facts: Facts, goal: str, requests: Requests) -> tuple[str, list[Choice]]:
        """Return the Python with the newest releases of all requests, and these.

        Return "" where there is none.
        """
        minors = self._minors(facts, goal or self.context.goal)
        attempts = [
            (minor, self._find_choices(self._describe(facts, python=minor), goal, requests))
            for minor in minors
        ]
        return max((item for item in attempts if item[1]), key=self._preference, default=("", []))

    def _preference(self, item: tuple[str, list[Choice]]) -> tuple[list[Version], int]:
        """Prefer the newest releases, then the Python nearest to the one that is there."""
        current = self.context.python.version.value
        minors = [numbers(text)[1] for text in (item[0], current or item[0])]
        chosen = (choice.best for choice in item[1])
        versions = [Version(best.candidate.row.version) for best in chosen if best]
        return versions, -abs(minors[0] - minors[1])

    def releases(self, goal: str = "") -> Iterator[Change]:
        """Try the rest of the line asked for, then any version, then any name without extras."""
        what = "a different release from the one requested"
        found = (
            change
            for requests in self._relaxed_requests()
            for change in self._try(what, RELEASE, goal=goal, requests=requests)
        )
        return islice(found, 1)

    def _relaxed_requests(self) -> list[Requests]:
        variants = [
            tuple(map(relax, self.requests))
            for relax in (with_same_line, with_any_version, with_any_name)
        ]
        return [requests for requests in dict.fromkeys(variants) if requests != self.requests]

    def frameworks(self) -> Iterator[Change]:
        """Try the other frameworks that a package comes beside: keras-hub beside jax."""
        request, *others = self.requests
        accepted = [companion_row(name_of(text)).frameworks for text in request.companions]
        for name in accepted[0] if accepted and not others else ():
            if name == request.framework or not all(name in names for names in accepted):
                continue
            requests = read_requests((name, *request.companions), self.context.matrix)
            what = f"{name} in place of {request.framework}"
            yield from self._try(what, RELEASE, requests=requests)

    def cpu(self) -> Iterator[Change]:
        """Try CPU builds, of which no extra and no label brings CUDA."""
        if self.context.goal == "gpu":
            requests = tuple(map(without_cuda, self.requests))
            yield from self._try("work on the CPU", CPU, goal="cpu", requests=requests)

    def wsl(self) -> Iterator[Change]:
        """Try the Linux wheels in WSL 2, which runs on the driver of Windows."""
        facts = self.context.facts
        if self.context.platform == "win_amd64" and self.context.goal == "gpu":
            linux = planned_facts(None, in_wsl(facts), self.context.matrix, expects_gpu=True)
            facts_in_wsl = replace(linux, gpus=facts.gpus, driver=facts.driver)
            yield from self._try(
                "WSL 2, where the wheels for Linux run",
                WSL,
                facts=replace(facts_in_wsl, host=replace(linux.host, wsl_version=Known(2, WHATIF))),
                platform=LINUX,
                driver=facts.driver.release.value or "",
                gpus=self.options.description.gpus or capabilities(facts),
            )

    def drivers(self) -> Iterator[Change]:
        """Try the newest driver that drives every GPU.

        Where that is an older one, it is the last that does.
        """
        release, what = self._newest_driver()
        if release:
            yield from self._try(what, DRIVER, driver=release)

    def libcs(self) -> Iterator[Change]:
        """Try the C libraries that admitted releases need, from the oldest on.

        In place of musl, from the newest.
        """
        versions = self._libcs()
        if self.context.host.libc_kind.value == "musl":
            versions.reverse()
        found = (
            change
            for version in versions
            for change in self._try(
                f"a system with glibc {version} or newer",
                LIBC,
                glibc=version,
            )
        )
        return islice(found, 1)

    def pairs(self) -> Iterator[Change]:
        """Try another Python with a newer driver, CPU builds or other releases, and two of them."""
        yield from self._with_newer_driver()
        for requests in self._relaxed_requests()[-1:]:
            for change in self.pythons(requests=requests):
                summary = f"{change.what} and a different release from the one requested"
                yield replace(change, what=summary, effort=PYTHON + RELEASE)
        if self.context.goal == "gpu":
            asked = tuple(map(without_cuda, self.requests))
            for change in (*self.pythons(goal="cpu", requests=asked), *self.releases(goal="cpu")):
                yield replace(
                    change,
                    what=f"{change.what} and work on the CPU",
                    effort=change.effort + CPU,
                )

    def _with_newer_driver(self) -> Iterator[Change]:
        release, summary = self._newest_driver()
        if release:
            for change in self.pythons(driver=release):
                yield replace(change, what=f"{change.what} and {summary}", effort=PYTHON + DRIVER)

    def _try(
        self,
        what: str,
        effort: int,
        *,
        facts: Facts | None = None,
        goal: str = "",
        requests: Requests = (),
        **described: Any,
    ) -> Iterator[Change]:
        """Yield a change if every request can be met after it."""
        asked = requests or self.requests
        facts = facts or self._describe(self.context.facts, **described)
        choices = self._find_choices(facts, goal, asked)
        if not choices:
            return
        description = replace(self.options.description, **described)
        texts = tuple(text for item in asked for text in item.texts)
        if asked == self.requests and self.options.typed:
            texts = self.options.typed
        argv = replan(texts, description, goal or self.options.expect)
        solution = ", ".join(choice.best.candidate.label for choice in choices if choice.best)
        yield Change(what, effort, solution, (*argv, *self.options.repeat_options))

    def _describe(self, facts: Facts, **described: Any) -> Facts:
        """Return the facts of a machine with what a change describes, as its command states it."""
        description = Description(**described)
        return planned_facts(facts, description, self.context.matrix, expects_gpu=False)

    def _find_choices(self, facts: Facts, goal: str, requests: Requests) -> list[Choice]:
        judge = Judge(Context(facts, self.context.matrix, Target(goal or self.context.goal)))
        choices = []
        for request in requests:
            choice = choose(
                judge,
                request,
                self.options.installer,
                admits=partial(self._is_tried, judge.context),
                explains=False,
            )
            # Most machines have no release at all: what is wrong with the others is asked
            # afterwards.
            if choice.best is None or blockers(judge.machine_findings(), judge.context):
                return []
            choices.append(choice)
        return choices

    def _is_tried(self, context: Context, candidate: Candidate) -> bool:
        if python_minor(context) == python_minor(self.context) and is_refused(
            self.options, candidate
        ):
            return False
        is_planned = self.context.goal == "cpu" and self.options.expect != "cpu"
        return is_planned or not needs_gpu(context, candidate)

    def _minors(self, facts: Facts, goal: str) -> list[str]:
        """List the Pythons of releases that driver and GPU code allow, newest first."""
        context = Context(facts, self.context.matrix, Target(goal))
        minors: set[str] = set()
        builds = (context.matrix.builds(item.framework, context.platform) for item in self.requests)
        for row in chain.from_iterable(builds):
            if not minors.issuperset(row.pythons) and any(
                _may_serve(context, part) for part in rows_by_extra(row)
            ):
                minors.update(row.pythons)
        return sorted(
            (minor for minor in minors if minor.startswith("3.")), key=Version, reverse=True
        )

    def _newest_driver(self) -> tuple[str, str]:
        """Name the driver to propose, in words too.

        The newest that drives every GPU; "" where it is there.
        """
        context, release = self.context, self.context.driver.release.value
        if context.goal != "gpu":
            return "", ""
        branch = newest_branch(context)
        if branch:
            newest = context.matrix.newest_driver(branch) or branch
        else:
            newest = self._highest_floor()
        current = Version(release) if release else Version("0")
        if newest and Version(newest) > current:
            return (
                newest,
                f"NVIDIA driver {newest}" if branch else f"NVIDIA driver {newest} or newer",
            )
        if newest and branch and current.major > int(branch):
            return newest, f"NVIDIA driver {newest}, of the last branch that supports the GPU"
        return "", ""

    def _highest_floor(self) -> str:
        rows = self.context.matrix.toolkits()
        floors = {
            floor
            for row in rows
            for find in (driver_floor, full_driver)
            if (floor := find(self.context, row))
        }
        return max(floors, key=Version, default="")

    def _libcs(self) -> list[str]:
        current = self.context.host.libc_version.value
        if not current:
            return []
        matrix = self.context.matrix
        companions = (
            matrix.companion_releases(name_of(text))
            for item in self.requests
            for text in item.companions
        )
        rows = chain(*(matrix.releases(item.framework) for item in self.requests), *companions)
        floors = {
            floor for floor in map(wheel_glibc, rows) if floor and Version(floor) > Version(current)
        }
        return sorted(floors, key=Version)


def replan(requirements: tuple[str, ...], description: Description, expect: str) -> tuple[str, ...]:
    """Write the command that plans with a description."""
    options = [
        ("--python", description.python),
        ("--driver", description.driver),
        ("--glibc", description.glibc),
    ]
    options += [
        ("--platform", description.platform),
        *(("--gpu", name) for name in description.gpus),
    ]
    options += [("--expect", expect if expect != "auto" else "")]
    return (
        "envcheck",
        "plan",
        *requirements,
        *(part for name, value in options if value for part in (name, value)),
    )


def _python_named(context: Context, minor: str) -> str:
    """Name another Python, with what else it is other than the one that is there."""
    python, machine = context.python, context.host.architecture.value
    if python.bits.value is not None and python.bits.value != 64:
        return f"a 64-bit Python {minor}"
    if python.architecture.value and machine and python.architecture.value != machine:
        return f"Python {minor} built for {machine}"
    if python.implementation.value and python.implementation.value.lower() != "cpython":
        return f"CPython {minor}"
    if is_free_threaded(context):
        return f"the usual build of Python {minor}"
    return f"Python {minor}"


def _may_serve(context: Context, row: FrameworkRelease) -> bool:
    """Return whether a build is for the goal, and driver and GPU code allow it."""
    is_for_goal = context.goal == "cpu" or row.cuda_build or bool(framework(row.framework).plugins)
    return is_for_goal and not is_refused_for_gpu(context, row)


_NATIVE = (
    "conda's own builds use the CUDA version that conda resolves. Run with --verify to check that"
    " the channel still has builds for this release."
)

_WITH_BACKEND = (
    "{name} computes on the GPU of this Mac through {backend}; the check below imports it on the"
    " CPU."
)
_WITH_APPLE_PLUGIN = (
    "This plan computes on the CPU. {plugin}, the plugin for Apple GPUs, supports {name} up to"
    " {newest}. `envcheck plan {name} {plugin}` plans both."
)


def verdict_on(plan: Plan) -> str:
    """Judge a plan: incompatible without releases.

    Undetermined with doubts, or if a release is not known.
    """
    if not plan.is_feasible:
        unknown = not plan.blocked_by and {item.finding for item in plan.rejected} == {
            "release-unknown"
        }
        return UNDETERMINED if unknown else INCOMPATIBLE
    is_open = any(release.doubts or release.open_companions for release in plan.releases)
    return UNDETERMINED if is_open else COMPATIBLE


def use_mirror(plan: Plan, mirror: str) -> Plan:
    """Replace each framework's own index by its mirror in a plan; "" replaces none."""
    for owner in filter(None, map(package_index, framework_names() if mirror else ())):
        plan = move_environment(plan, owner.url.rstrip("/"), mirror.rstrip("/"))
    return plan


def build_plan(
    facts: Facts,
    matrix: Matrix,
    requests: tuple[Request, ...],
    options: PlanOptions = DEFAULT_OPTIONS,
) -> Plan:
    """Plan for a machine; `facts` are those of `described.planned_facts`."""
    judge = Judge(Context(facts, matrix, Target(goal_of(facts, matrix, requests, options))))

    def admits(candidate: Candidate) -> bool:
        is_fit = options.expect != "cpu" or not needs_gpu(judge.context, candidate)
        return is_fit and not is_refused(options, candidate)

    bounded = tuple(without_refused(request, options.refused) for request in requests)
    found, clashes = choose_together(judge, bounded, options.installer, admits)
    choices = [
        replace(choice, request=request) for choice, request in zip(found, requests, strict=True)
    ]
    return unmet_plan(judge, choices, options) or plan_of(judge, choices, clashes, options)


def is_refused(options: PlanOptions, candidate: Candidate) -> bool:
    """Return whether an index was asked for a release, and cannot resolve it."""
    return bool({EVERY, candidate.label, *candidate.companions} & options.refused)


def without_refused(request: Request, refused: frozenset[str]) -> Request:
    """Bound companions to the newest release that an index resolves here: vllm>0.21.0."""
    texts = list(request.companions)
    for place, text in enumerate(texts):
        for item in refused:
            name, _, newest = item.partition(">")
            if name == name_of(text):
                texts[place] += f"<={newest}" if texts[place] == name else f",<={newest}"
    return replace(request, companions=tuple(texts))


def goal_of(
    facts: Facts, matrix: Matrix, requests: tuple[Request, ...], options: PlanOptions
) -> str:
    """Say whether a plan is to be for the "gpu" or the "cpu"."""
    return Context(
        facts, matrix, Target(options.expect, tuple(request.text for request in requests))
    ).goal


def unmet_plan(judge: Judge, choices: list[Choice], options: PlanOptions) -> Plan | None:
    """Return the plan that says what is in the way and what would help.

    Return None where all were chosen.
    """
    obstacles = blockers(judge.machine_findings(), judge.context)
    if not obstacles and all(choice.best is not None for choice in choices):
        return None
    requests = tuple(choice.request for choice in choices)
    return Plan(
        judge.context.goal,
        (),
        (),
        blocked_by=with_remedies(obstacles, judge.context),
        requirements=tuple(text for request in requests for text in request.texts),
        system=judge.context.os,
        changes=possible_changes(judge.context, requests, options),
        rejected=tuple(
            item for choice in choices if choice.best is None for item in choice.rejected
        ),
        notes=(
            *list_other_sources(judge.context),
            *_describe_horizons(judge.context.matrix, choices),
        ),
    )


def _describe_horizons(matrix: Matrix, choices: list[Choice]) -> Iterator[str]:
    """Say how far back the matrix reads what was asked for, where nothing was found."""
    for request in (choice.request for choice in choices if choice.best is None):
        for text in request.companions or (request.text,):
            name = name_of(text)
            held = matrix.companion_releases(name) or matrix.releases(request.framework, pin="")
            versions = {
                row.version
                for row in held
                if not row.yanked and not Version(row.version).is_prerelease
            }
            has_older = companion_row(name).has_older or name in framework_names()
            if versions and has_older and not re.search("[<>=!~]", text):
                first = min(versions, key=Version)
                yield (
                    f"None of the {counted(len(versions), 'release')} of {name} known since {first}"
                    " works here; older ones were not read."
                )


def plan_of(
    judge: Judge, choices: list[Choice], clashes: list[Clash], options: PlanOptions
) -> Plan:
    """Put choices that were all made into environments, and write the steps."""
    context = judge.context
    groups = groups_of(choices, clashes)
    environments: list[Environment] = []
    releases: list[PlannedRelease] = []
    steps = [*machine_steps(judge.machine_findings(), context)]
    for group in groups:
        environment = environment_of(context, group, options)
        names = tuple(choice.request.framework for choice in group)
        if clashes:
            head, tail = posixpath.split(environment.folder)
            folder = posixpath.join(head, "-".join((tail, *names)))
            environment = replace(environment, folder=folder)
        planned = [planned_release(context, choice, environment) for choice in group]
        doubted = [item for item in planned if any(map(is_reported_to_fail, item.warnings))]
        steps += _steps_of_machine(context, group)
        steps += environment_steps(
            environment,
            names,
            context.goal,
            base_python(context, options),
            shells=options.shells,
            doubted=tuple(item.framework for item in doubted),
            companions={
                name: name not in release.needs_gpu
                for release in planned
                for name in map(name_of, release.companions)
            },
        )
        environments.append(environment)
        releases += planned
    if options.in_container and context.goal == "gpu":
        steps = [*container_toolkit_steps(context), *steps]
    steps = _with_unique_ids(steps)
    notes = [note for choice in choices for note in note_companions(context, choice)]
    notes += assumptions(context, releases, options)
    notes += [
        note
        for environment in environments
        for note in _write_notes(context, environment, releases)
    ]
    return Plan(
        context.goal,
        tuple(releases),
        tuple(steps),
        resolves=tuple(dict.fromkeys(name for step in steps for name in step.resolves)),
        requirements=tuple(text for choice in choices for text in choice.request.texts),
        environments=tuple(environments),
        clashes=tuple(clashes),
        notes=tuple(dict.fromkeys([*list_alternatives(judge.machine_findings(), context), *notes])),
        system=context.os,
        machine=stated_machine(context),
    )


def _steps_of_machine(context: Context, group: list[Choice]) -> Iterator[Step]:
    """Yield what the machine needs first, for these choices alone."""
    judgements = [choice.best for choice in group if choice.best is not None]
    for one in judgements:
        for item in one.candidate.chosen:
            if item.source:
                name = f"toolkit-for-{item.source.name}"
                yield from (Step(name, action) for action in item.source.machine_steps)
    missing = [item for one in judgements for item in one.resolved if one.source.kind == SYSTEM]
    yield from machine_steps(missing, context, consequences=True)


def _write_notes(
    context: Context, environment: Environment, releases: list[PlannedRelease]
) -> list[str]:
    native = [_NATIVE] if environment.packages and not environment.sets else []
    plugins = list_apple_plugins(context, releases)
    native += [f"{row.label}: {row.note}" for row in plugins if row.note]
    if environment.platform == "macosx_arm64":
        backends = {item.framework: framework(item.framework).apple_backend for item in releases}
        native += [
            _WITH_BACKEND.format(name=name, backend=text) for name, text in backends.items() if text
        ]
    for name in [] if plugins else dict.fromkeys(item.framework for item in releases):
        newest = newest_with_apple_plugin(context, name)
        plugin = framework(name).apple_plugin
        if newest:
            native += [_WITH_APPLE_PLUGIN.format(name=name, newest=newest, plugin=plugin)]
    if environment.installer == CONDA and context.os == "windows" and context.goal == "gpu":
        native.append(
            "Activate it before use (conda activate): Windows finds the CUDA libraries through the"
            " PATH that this sets."
        )
    return [
        *native,
        *([f"The wheels are for macOS {environment.macos} or newer."] if environment.macos else []),
    ]


def base_python(context: Context, options: PlanOptions) -> str:
    """Return the interpreter that an environment is made with.

    Return "" where another one, or machine, is planned for.
    """
    description = options.description
    is_current = (
        context.python.executable.value is not None
        and not description.python
        and not description.platform
    )
    return context.python_program if is_current else options.find_interpreter()


def _with_unique_ids(steps: list[Step]) -> list[Step]:
    """Give steps of one name a number, so that each id names one."""
    counts: dict[str, int] = {}
    result = []
    for step in steps:
        counts[step.id] = counts.get(step.id, 0) + 1
        result.append(
            step if counts[step.id] == 1 else replace(step, id=f"{step.id}-{counts[step.id]}")
        )
    return result

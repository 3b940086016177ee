"""Build a plan: choose releases, write their steps, and search for alternatives where none fits."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator

from packaging.version import Version

from envcheck.frameworks import framework
from envcheck.matrix.query import Matrix
from envcheck.model import CONDA, Change, Clash, Environment, Facts, Known, Plan, PlannedRelease, Step, numbers, replace
from envcheck.plan.candidates import (
    SYSTEM,
    Candidate,
    list_apple_plugins,
    list_unknown_companions,
    newest_with_apple_plugin,
)
from envcheck.plan.choose import Choice, Judge, choose, choose_together, groups_of, note_newer_releases
from envcheck.plan.environments import environment_of, planned_release
from envcheck.plan.requests import (
    DEFAULT_OPTIONS,
    PlanOptions,
    Request,
    assumptions,
    list_other_sources,
    of_any_name,
    of_any_version,
    of_its_line,
    stated_machine,
    without_cuda,
)
from envcheck.plan.steps import (
    blockers,
    container_toolkit_steps,
    environment_steps,
    machine_steps,
    other_ways,
    with_remedies,
)
from envcheck.rules import Context, Target
from envcheck.rules.builds import is_free_threaded, supports_python
from envcheck.rules.described_machine import (
    LINUX,
    WHATIF,
    Description,
    capabilities,
    in_wsl,
    planned_facts,
    with_driver,
    with_libc,
    with_python,
)
from envcheck.rules.gpu_releases import driver_floor, driver_runs, full_driver
from envcheck.rules.requirements import wheel_glibc

# By effort: an environment, two compromises, a second system beside this one, a restart, another system.
PYTHON, RELEASE, CPU, WSL, DRIVER, LIBC = 1, 2, 3, 4, 5, 6
Requests = tuple[Request, ...]


def possible_changes(context: Context, requests: tuple[Request, ...], wish: PlanOptions) -> tuple[Change, ...]:
    """List the single changes after which every request can be met; where there are none, pairs of them."""
    tries = AlternativeSearch(context, requests, wish)
    single = [*tries.pythons(), *tries.releases(), *tries.cpu(), *tries.wsl(), *tries.drivers(), *tries.libcs()]
    return tuple(sorted(single or [*tries.pairs()], key=lambda change: change.effort))


def another_python(context: Context, requests: tuple[Request, ...], wish: PlanOptions) -> str:
    """Name the Python with which every request can be met by its newest release; "" where there is none."""
    return AlternativeSearch(context, requests, wish).best_python(context.facts, context.goal, requests)[0]


class AlternativeSearch:
    """Searches the single changes, then the pairs of them, that make a plan possible."""

    def __init__(self, context: Context, requests: tuple[Request, ...], wish: PlanOptions) -> None:
        self.context, self.requests, self.wish = context, requests, wish

    def pythons(
        self, facts: Facts | None = None, goal: str = "", requests: Requests = (), **said: str
    ) -> Iterator[Change]:
        """Try every Python that some admitted release has a wheel for, and keep the one with the newest release."""
        asked = requests or self.requests
        minor, met = self.best_python(facts or self.context.facts, goal, asked)
        if minor:
            what, expect = _python_named(self.context, minor), goal or self.wish.expect
            yield self._change(what, PYTHON, met, python=minor, expect=expect, requests=asked, **said)

    def best_python(self, facts: Facts, goal: str, requests: Requests) -> tuple[str, list[Choice]]:
        """Return the Python with the newest releases of all requests, and these; "" where there is none."""
        found = [(minor, self._met(with_python(facts, minor), goal, requests)) for minor in self._minors()]
        return max((item for item in found if item[1]), key=self._preference, default=("", []))

    def _preference(self, item: tuple[str, list[Choice]]) -> tuple[list[Version], int]:
        """Prefer the newest releases, then the Python nearest to the one that is there."""
        here = self.context.facts.python.version
        minors = [numbers(text)[1] for text in (item[0], here.value if isinstance(here, Known) else item[0])]
        return [_version(choice) for choice in item[1]], -abs(minors[0] - minors[1])

    def releases(self, goal: str = "") -> Iterator[Change]:
        """Try the others of the line that was asked for, then any version, then any name and no extras."""
        for requests in self._freed():
            met = self._met(self.context.facts, goal, requests)
            if met:
                what, expect = "another release than the one asked for", goal or self.wish.expect
                yield self._change(what, RELEASE, met, requests=requests, expect=expect)
                return

    def _freed(self) -> list[Requests]:
        less = [tuple(map(relax, self.requests)) for relax in (of_its_line, of_any_version, of_any_name)]
        return [requests for requests in dict.fromkeys(less) if requests != self.requests]

    def cpu(self) -> Iterator[Change]:
        """Try CPU builds, of which no extra and no label brings CUDA."""
        asked = tuple(map(without_cuda, self.requests))
        met = self._met(self.context.facts, "cpu", asked) if self.context.goal == "gpu" else []
        if met:
            own = not any(choice.best and choice.best.candidate.is_gpu for choice in met)
            what = "a build for the CPU" if own else "work on the CPU"
            yield self._change(what, CPU, met, expect="cpu", requests=asked)

    def wsl(self) -> Iterator[Change]:
        """Try the Linux wheels in WSL 2, which hands the GPUs of Windows on by the driver of Windows."""
        facts = self.context.facts
        if self.context.platform == "win_amd64" and self.context.goal == "gpu":
            linux = planned_facts(None, in_wsl(facts), self.context.matrix, expects_gpu=True)
            found = replace(linux, gpus=facts.gpus, driver=facts.driver)
            met = self._met(replace(found, host=replace(linux.host, wsl_version=Known(2, WHATIF))))
            if met:
                release, gpus = facts.driver.release, self.wish.described.gpus or capabilities(facts)
                driver = release.value if isinstance(release, Known) else ""
                what = "WSL 2, where the wheels for Linux run"
                yield self._change(what, WSL, met, platform=LINUX, driver=driver, gpus=gpus)

    def drivers(self) -> Iterator[Change]:
        """Try the driver that each CUDA Toolkit needs, from the oldest on, then the last that drives the GPUs."""
        newer = ((floor, f"NVIDIA driver {floor} or newer") for floor in self._floors())
        older = ((last, f"NVIDIA driver {last}, the last branch that drives the GPU") for last in self._last_branches())
        for release, what in (*newer, *older):
            met = self._met(with_driver(self.context.facts, release))
            if met:
                yield self._change(what, DRIVER, met, driver=release)
                return

    def libcs(self) -> Iterator[Change]:
        """Try the C libraries that admitted releases need, from the oldest on; in place of musl, from the newest."""
        kind = self.context.facts.host.libc_kind
        found = self._libcs()
        for version in found[::-1] if isinstance(kind, Known) and kind.value == "musl" else found:
            met = self._met(with_libc(self.context.facts, version))
            if met:
                yield self._change(f"a system with glibc {version} or newer", LIBC, met, glibc=version)
                return

    def pairs(self) -> Iterator[Change]:
        """Try another Python together with a newer driver, with CPU builds and with other releases, and those two."""
        yield from self._with_newer_driver()
        for requests in self._freed()[-1:]:
            for change in self.pythons(requests=requests):
                what = f"{change.what} and another release than the one asked for"
                yield replace(change, what=what, effort=PYTHON + RELEASE)
        if self.context.goal == "gpu":
            asked = tuple(map(without_cuda, self.requests))
            for change in (*self.pythons(goal="cpu", requests=asked), *self.releases(goal="cpu")):
                yield replace(change, what=f"{change.what} and a build for the CPU", effort=change.effort + CPU)

    def _with_newer_driver(self) -> Iterator[Change]:
        for floor in self._floors():
            for change in self.pythons(with_driver(self.context.facts, floor), driver=floor):
                what = f"{change.what} and NVIDIA driver {floor} or newer"
                yield replace(change, what=what, effort=PYTHON + DRIVER)
                return

    def _met(self, facts: Facts, goal: str = "", requests: Requests = ()) -> list[Choice]:
        judge = Judge(Context(facts, self.context.matrix, Target(goal or self.context.goal)))
        if blockers(judge.machine_findings(), judge.context):
            return []
        choices = []
        for request in requests or self.requests:
            choice = choose(
                judge, request, self.wish.installer, admits=lambda item: is_worth_judging(judge.context, item)
            )
            if choice.best is None:
                return []
            choices.append(choice)
        return choices

    def _change(self, what: str, effort: int, met: list[Choice], **changed: object) -> Change:
        requests = changed.pop("requests", self.requests)
        expect = str(changed.pop("expect", self.wish.expect))
        said = replace(self.wish.described, **changed)
        assert isinstance(requests, tuple)  # noqa: S101 - given so above
        argv = (*replan(tuple(text for item in requests for text in item.texts), said, expect), *self.wish.repeated)
        return Change(what, effort, ", ".join(_requirement(choice) for choice in met), argv)

    def _rows(self) -> Iterable[tuple[str, ...]]:
        for request in self.requests:
            for row in self.context.matrix.releases(request.framework, self.context.platform):
                yield row.pythons

    def _minors(self) -> list[str]:
        minors = {minor for pythons in self._rows() for minor in pythons if minor.startswith("3.")}
        return sorted(minors, key=Version, reverse=True)

    def _floors(self) -> list[str]:
        rows = self.context.matrix.toolkits() if self.context.goal == "gpu" else ()
        needs = (find(self.context, row) for row in rows for find in (driver_floor, full_driver))
        floors = {floor for floor in needs if floor}
        release = self.context.facts.driver.release
        known = Version(release.value) if isinstance(release, Known) else Version("0")
        return sorted((floor for floor in floors if Version(floor) > known), key=Version)

    def _last_branches(self) -> list[str]:
        """Name the last branch that drives every GPU where the driver here is a later one."""
        rows = [self.context.matrix.architecture(item) for item in capabilities(self.context.facts)]
        last = min((int(row.last_driver_branch) for row in rows if row and row.last_driver_branch), default=0)
        release = self.context.facts.driver.release
        is_later = last and isinstance(release, Known) and Version(release.value).major > last
        return [str(last)] if is_later else []

    def _libcs(self) -> list[str]:
        known = self.context.facts.host.libc_version
        if not isinstance(known, Known):
            return []
        rows = (row for item in self.requests for row in self.context.matrix.releases(item.framework))
        floors = {floor for floor in map(wheel_glibc, rows) if floor and Version(floor) > Version(known.value)}
        return sorted(floors, key=Version)


def replan(requirements: tuple[str, ...], said: Description, expect: str) -> tuple[str, ...]:
    """Write the command that plans with a description."""
    options = [("--python", said.python), ("--driver", said.driver), ("--glibc", said.glibc)]
    options += [("--platform", said.platform), *(("--gpu", name) for name in said.gpus)]
    options += [("--expect", expect if expect != "auto" else "")]
    return ("envcheck", "plan", *requirements, *(part for name, value in options if value for part in (name, value)))


def _python_named(context: Context, minor: str) -> str:
    """Name another Python, with what else it is other than the one that is there."""
    python, machine = context.facts.python, context.facts.host.architecture
    if isinstance(python.bits, Known) and python.bits.value != 64:
        return f"a 64-bit Python {minor}"
    if (
        isinstance(python.architecture, Known)
        and isinstance(machine, Known)
        and python.architecture.value != machine.value
    ):
        return f"Python {minor} built for {machine.value}"
    if isinstance(python.implementation, Known) and python.implementation.value.lower() != "cpython":
        return f"CPython {minor}"
    return f"the usual build of Python {minor}" if is_free_threaded(context) else f"Python {minor}"


def is_worth_judging(context: Context, candidate: Candidate) -> bool:
    """Tell whether a candidate is worth judging: the rules reject what is left out here."""
    if not supports_python(context, candidate.row):
        return False
    return context.goal == "cpu" or (candidate.is_gpu and driver_runs(context, candidate.cuda))


def _version(choice: Choice) -> Version:
    return Version(choice.best.candidate.row.version) if choice.best else Version("0")


def _requirement(choice: Choice) -> str:
    return choice.best.candidate.requirement if choice.best else choice.request.text


_NATIVE = (
    "conda's own builds take the CUDA that conda solves. The channel's recipes were built for this release; whether it "
    "holds that still, only --verify tells."
)

_WITH_APPLE_PLUGIN = (
    "This computes on the CPU: {name} {newest} is the newest that {plugin}, the plugin for Apple's GPU, "
    "goes with. `envcheck plan {name} {plugin}` plans the two."
)


def build_plan(
    facts: Facts, matrix: Matrix, requests: tuple[Request, ...], wish: PlanOptions = DEFAULT_OPTIONS
) -> Plan:
    """Plan for a machine; `facts` are those of `described.planned_facts`."""
    judge = Judge(Context(facts, matrix, Target(goal_of(facts, matrix, requests, wish))))
    choices, clashes = choose_all(judge, requests, wish.installer)
    return unmet(judge, choices, wish) or plan_of(judge, choices, clashes, wish)


def goal_of(facts: Facts, matrix: Matrix, requests: tuple[Request, ...], wish: PlanOptions) -> str:
    """Say whether a plan is to be for the "gpu" or the "cpu"."""
    return Context(facts, matrix, Target(wish.expect, tuple(request.text for request in requests))).goal


def choose_all(
    judge: Judge, requests: tuple[Request, ...], installer: str, admits: Callable[[Candidate], bool] = lambda _: True
) -> tuple[list[Choice], list[Clash]]:
    """Choose a release for each request, such as go together; else those that do not, with what clashes.

    What `admits` refuses is not judged.
    """
    if len(requests) == 1 and not judge.installed:
        return [choose(judge, requests[0], installer, admits=admits)], []
    return choose_together(judge, requests, installer, admits)


def unmet(judge: Judge, choices: list[Choice], wish: PlanOptions) -> Plan | None:
    """Return the plan that says what is in the way and what would help; None where all were chosen."""
    in_the_way = blockers(judge.machine_findings(), judge.context)
    if not in_the_way and all(choice.best is not None for choice in choices):
        return None
    # where a plan is possible, nobody asks

    requests = tuple(choice.request for choice in choices)
    return Plan(
        judge.context.goal,
        (),
        (),
        blocked_by=with_remedies(in_the_way, judge.context),
        requirements=tuple(text for request in requests for text in request.texts),
        system=judge.context.os,
        changes=possible_changes(judge.context, requests, wish),
        rejected=tuple(item for choice in choices if choice.best is None for item in choice.rejected),
        notes=list_other_sources(judge.context),
    )


def plan_of(judge: Judge, choices: list[Choice], clashes: list[Clash], wish: PlanOptions) -> Plan:
    """Put choices that were all made into environments, and write the steps."""
    context = judge.context
    groups = _groups(choices, clashes)
    environments, releases, steps = [], [], [*machine_steps(judge.machine_findings(), context)]
    for group in groups:
        judged = tuple(choice.best for choice in group if choice.best is not None)
        made = environment_of(context, group, wish)
        if clashes:
            made = replace(
                made, folder=_own_folder(made.folder, "-".join(choice.request.framework for choice in group))
            )
        environments.append(made)
        releases += [planned_release(context, choice, made) for choice in group]
        missing = [item for one in judged for item in one.resolved if one.source.kind == SYSTEM]
        steps += machine_steps(missing, context, consequences=True)
        frameworks = tuple(choice.request.framework for choice in group)
        steps += environment_steps(made, frameworks, context.goal, _base_python(context, wish), wish.shells)
    if wish.in_container and context.goal == "gpu":
        steps = [*container_toolkit_steps(context), *steps]
    steps = _numbered(steps)
    notes = [*_of_what_is_beside(context, choices), *assumptions(context, releases, wish)]
    notes += [note for made in environments for note in _notes(context, made, releases)]
    return Plan(
        context.goal,
        tuple(releases),
        tuple(steps),
        resolves=tuple(dict.fromkeys(name for step in steps for name in step.resolves)),
        requirements=tuple(text for choice in choices for text in choice.request.texts),
        environments=tuple(environments),
        clashes=tuple(clashes),
        notes=tuple(dict.fromkeys([*other_ways(judge.machine_findings(), context), *notes])),
        system=context.os,
        machine=stated_machine(context),
    )


def _groups(choices: list[Choice], clashes: list[Clash]) -> list[list[Choice]]:
    if not clashes:
        return [choices]
    return groups_of(choices, clashes)


def _of_what_is_beside(context: Context, choices: list[Choice]) -> list[str]:
    """Say of which things beside a framework nothing tells whether they go with it, and what they hold back."""
    if not any(choice.request.beside for choice in choices):
        return []
    made = [(choice, choice.best.candidate.row) for choice in choices if choice.best]
    told = [
        f"{name}: which release goes with {row.distribution} {row.version} is not known here; pip "
        "takes the newest whose own requirements admit it."
        for choice, row in made
        for name in list_unknown_companions(context, row, choice.request.beside)
    ]
    return [*told, *(note for choice, _ in made for note in note_newer_releases(context, choice))]


def _notes(context: Context, made: Environment, releases: list[PlannedRelease]) -> list[str]:
    native = [_NATIVE] if made.packages and not made.sets else []
    plugins = list_apple_plugins(context, releases)
    native += [f"{row.distribution} {row.version}: {row.note}" for row in plugins if row.note]
    for name in [] if plugins else dict.fromkeys(item.framework for item in releases):
        newest, plugin = newest_with_apple_plugin(context, name), framework(name).apple_plugin
        native += [_WITH_APPLE_PLUGIN.format(name=name, newest=newest, plugin=plugin)] if newest else []
    if made.installer == CONDA and context.os == "windows" and context.goal == "gpu":
        native.append(
            "Activate it before use (conda activate): Windows finds the CUDA libraries by the PATH that sets."
        )
    return [*native, *([f"The wheels are for macOS {made.macos} or newer."] if made.macos else [])]


def _base_python(context: Context, wish: PlanOptions) -> str:
    """Return the interpreter that an environment is made with; "" where another one, or machine, is planned for."""
    said = wish.described
    known = isinstance(context.facts.python.executable, Known) and not said.python and not said.platform
    return context.python_program if known else ""


def _own_folder(folder: str, framework: str) -> str:
    head, tail = posixpath.split(folder)
    return posixpath.join(head, f"{tail}-{framework}")


def _numbered(steps: list[Step]) -> list[Step]:
    """Give steps of one name a number, so that each id names one."""
    seen: dict[str, int] = {}
    found = []
    for step in steps:
        seen[step.id] = seen.get(step.id, 0) + 1
        found.append(step if seen[step.id] == 1 else replace(step, id=f"{step.id}-{seen[step.id]}"))
    return found

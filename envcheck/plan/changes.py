"""Find the changes that would make a plan possible, each by judging again with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from packaging.version import Version

from envcheck.model import Change, Facts, Known, numbers, replace
from envcheck.plan.candidates import Candidate
from envcheck.plan.choose import Choice, Judge, choose
from envcheck.plan.requests import PlanOptions, Request, of_any_name, of_any_version, of_its_line, without_cuda
from envcheck.plan.steps import blockers
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

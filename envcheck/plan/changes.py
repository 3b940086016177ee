"""What would make a plan possible where none is: each change found by judging again with it, the least effort first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from packaging.version import Version

from envcheck.model.facts import Absent, Known, Source
from envcheck.model.plans import Change
from envcheck.model.records import replaced
from envcheck.model.snapshot import Facts
from envcheck.plan.candidates import Candidate
from envcheck.plan.choose import Choice, choose
from envcheck.plan.described import Description, planned_facts
from envcheck.plan.judge import Judge
from envcheck.plan.requests import Request
from envcheck.plan.system import blockers
from envcheck.plan.wish import Wish
from envcheck.rules import Context, Target
from envcheck.rules.driver_release import driver_floor
from envcheck.rules.gpu_releases import driver_runs
from envcheck.rules.targets import supports_python

# By effort: an environment, two compromises, a second system beside this one, a restart, another system.
PYTHON, RELEASE, CPU, WSL, DRIVER, LIBC = 1, 2, 3, 4, 5, 6
_LINUX = "linux_x86_64"
_WHATIF = Source("override", "what if")


def possible_changes(context: Context, requests: tuple[Request, ...], wish: Wish) -> tuple[Change, ...]:
    """List the single changes after which every request can be met; where there are none, pairs with a Python."""
    tries = _Tries(context, requests, wish)
    single = [*tries.pythons(), *tries.releases(), *tries.cpu(), *tries.wsl(), *tries.drivers(), *tries.libcs()]
    return tuple(sorted(single or [*tries.pairs()], key=lambda change: change.effort))


def another_python(context: Context, requests: tuple[Request, ...], wish: Wish) -> str:
    """Name the Python with which every request can be met by its newest release; "" where there is none."""
    change = next(_Tries(context, requests, wish).pythons(), None)
    return change.argv[change.argv.index("--python") + 1] if change else ""


class _Tries:
    def __init__(self, context: Context, requests: tuple[Request, ...], wish: Wish) -> None:
        self.context, self.requests, self.wish = context, requests, wish

    def pythons(self, facts: Facts | None = None) -> Iterator[Change]:
        """Try every Python that some admitted release has a wheel for, and keep the one with the newest release."""
        found = [(minor, self._met(_with_python(facts or self.context.facts, minor))) for minor in self._minors()]
        working = [(minor, met) for minor, met in found if met]
        if working:
            minor, met = max(working, key=self._preference)
            yield self._change(f"Python {minor}", PYTHON, met, python=minor)

    def _preference(self, item: tuple[str, list[Choice]]) -> tuple[list[Version], int]:
        """Prefer the newest releases, then the Python nearest to the one that is there."""
        here = self.context.facts.python.version
        minors = [int(text.split(".")[1]) for text in (item[0], here.value if isinstance(here, Known) else item[0])]
        return [_version(choice) for choice in item[1]], -abs(minors[0] - minors[1])

    def releases(self) -> Iterator[Change]:
        """Try without the version clauses."""
        free = tuple(replaced(item, specifier="", text=item.distribution) for item in self.requests)
        met = self._met(self.context.facts, requests=free) if free != self.requests else []
        if met:
            yield self._change("another release than the one asked for", RELEASE, met, requests=free)

    def cpu(self) -> Iterator[Change]:
        """Try CPU builds."""
        met = self._met(self.context.facts, goal="cpu") if self.context.goal == "gpu" else []
        if met:
            yield self._change("a build for the CPU", CPU, met, expect="cpu")

    def wsl(self) -> Iterator[Change]:
        """Try the Linux wheels in WSL 2, which hands the GPUs of Windows on by the driver of Windows."""
        facts = self.context.facts
        if self.context.platform == "win_amd64" and self.context.goal == "gpu":
            linux = planned_facts(None, _in_wsl(facts), self.context.matrix, expects_gpu=True)
            found = replaced(linux, gpus=facts.gpus, driver=facts.driver)
            met = self._met(replaced(found, host=replaced(linux.host, wsl_version=Known(2, _WHATIF))))
            if met:
                release, gpus = facts.driver.release, self.wish.described.gpus or _capabilities(facts)
                driver = release.value if isinstance(release, Known) else ""
                what = "WSL 2, where the wheels for Linux run"
                yield self._change(what, WSL, met, platform=_LINUX, driver=driver, gpus=gpus)

    def drivers(self) -> Iterator[Change]:
        """Try the driver that each CUDA Toolkit needs, from the oldest on."""
        for floor in self._floors():
            met = self._met(_with_driver(self.context.facts, floor))
            if met:
                yield self._change(f"NVIDIA driver {floor} or newer", DRIVER, met, driver=floor)
                return

    def libcs(self) -> Iterator[Change]:
        """Try the C libraries that admitted releases need, from the oldest on; in place of musl, from the newest."""
        kind = self.context.facts.host.libc_kind
        found = self._libcs()
        for version in found[::-1] if isinstance(kind, Known) and kind.value == "musl" else found:
            met = self._met(_with_libc(self.context.facts, version))
            if met:
                yield self._change(f"a system with glibc {version} or newer", LIBC, met, glibc=version)
                return

    def pairs(self) -> Iterator[Change]:
        """Try another Python together with a newer driver, then with CPU builds."""
        for floor in self._floors():
            for change in self.pythons(_with_driver(self.context.facts, floor)):
                yield replaced(
                    change,
                    what=f"{change.what} and NVIDIA driver {floor} or newer",
                    effort=PYTHON + DRIVER,
                    argv=(*change.argv, "--driver", floor),
                )
                return

    def _met(self, facts: Facts, goal: str = "", requests: tuple[Request, ...] = ()) -> list[Choice]:
        judge = Judge(Context(facts, self.context.matrix, Target(goal or self.context.goal)))
        if blockers(judge.own_findings()):
            return []
        choices = []
        for request in requests or self.requests:
            choice = choose(judge, request, self.wish.installer, admits=lambda item: may_do(judge.context, item))
            if choice.best is None:
                return []
            choices.append(choice)
        return choices

    def _change(self, what: str, effort: int, met: list[Choice], **changed: object) -> Change:
        requests = changed.pop("requests", self.requests)
        expect = str(changed.pop("expect", self.wish.expect))
        said = replaced(self.wish.described, **changed)
        assert isinstance(requests, tuple)  # noqa: S101 - given so above
        argv = (*replan(tuple(item.text for item in requests), said, expect), *self.wish.repeated)
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
        floors = {floor for floor in (driver_floor(self.context, row) for row in rows) if floor}
        release = self.context.facts.driver.release
        known = Version(release.value) if isinstance(release, Known) else Version("0")
        return sorted((floor for floor in floors if Version(floor) > known), key=Version)

    def _libcs(self) -> list[str]:
        from envcheck.rules.wheel_tags import wheel_glibc

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


def _in_wsl(facts: Facts) -> Description:
    version = facts.python.version
    python = ".".join(version.value.split(".")[:2]) if isinstance(version, Known) else ""
    return Description(python=python, platform=_LINUX)


def _capabilities(facts: Facts) -> tuple[str, ...]:
    gpus = facts.gpus.value if isinstance(facts.gpus, Known) else ()
    found = (gpu.compute_capability for gpu in gpus)
    return tuple(dict.fromkeys(item.value for item in found if isinstance(item, Known)))


def _with_python(facts: Facts, minor: str) -> Facts:
    python = replaced(
        facts.python, version=Known(minor, _WHATIF), abi_tag=Known(f"cp{minor.replace('.', '')}", _WHATIF)
    )
    native = replaced(python, implementation=Known("cpython", _WHATIF), bits=Known(64, _WHATIF))
    return replaced(facts, python=replaced(native, architecture=facts.host.architecture))


def _with_driver(facts: Facts, release: str) -> Facts:
    driver = replaced(facts.driver, release=Known(release, _WHATIF), cuda_driver_version=Absent(("what if",)))
    return replaced(facts, driver=driver)


def _with_libc(facts: Facts, version: str) -> Facts:
    host = replaced(facts.host, libc_kind=Known("glibc", _WHATIF), libc_version=Known(version, _WHATIF))
    return replaced(facts, host=host)


def may_do(context: Context, candidate: Candidate) -> bool:
    """Tell whether a candidate is worth judging: the rules reject what is left out here."""
    fits = supports_python(context, candidate.row) and candidate.is_gpu == (context.goal == "gpu")
    return fits and (not candidate.is_gpu or driver_runs(context, candidate.cuda))


def _version(choice: Choice) -> Version:
    return Version(choice.best.candidate.row.version) if choice.best else Version("0")


def _requirement(choice: Choice) -> str:
    return choice.best.candidate.requirement if choice.best else choice.request.text

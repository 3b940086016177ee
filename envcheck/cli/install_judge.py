"""Judge an environment after its installation: as the doctor does, and by computing where that is asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from envcheck.matrix.clauses import within
from envcheck.model.facts import Known
from envcheck.model.findings import COMPATIBLE
from envcheck.model.machine import Facts
from envcheck.model.plans import Plan, PlannedRelease
from envcheck.model.records import dataclass
from envcheck.plan.there import Standing
from envcheck.rules import Context


@dataclass(frozen=True)
class Judged:
    """What is judged, and how."""

    plan: Plan
    folder: Path
    matrix_file: str | None
    smoke: bool
    quiet: bool
    before: Facts | None = None  # of the environment as it was; None: there was none
    kept: tuple[Standing, ...] = ()  # frameworks in it that were to stay as they are


def judge(wanted: Judged) -> str:
    """Return "" where the environment holds what was planned and works for the goal; else what is wrong."""
    from envcheck.host.local import LocalHost
    from envcheck.matrix.load import load_matrix
    from envcheck.probes import PythonSelection, collect
    from envcheck.rules import Target, evaluate

    with _activated(wanted):
        facts = collect(LocalHost(), PythonSelection(env=str(wanted.folder))).facts
        missing = _missing(wanted, facts)
        if missing:
            return f"the environment does not hold {', '.join(missing)}"
        context = Context(facts, load_matrix(wanted.matrix_file), Target(wanted.plan.goal))
        broken = _newly_broken(wanted.before, context)
        if broken:
            return f"it would break what was there: {broken}"
        report = evaluate(context, frozenset())
        if report.verdict != COMPATIBLE:
            return f"the doctor finds it {report.verdict}: {report.headline.rstrip('.')}"
        return _smoke(wanted) if wanted.smoke else ""


def _missing(wanted: Judged, facts: Facts) -> list[str]:
    """List the planned releases, and those that were to stay, that are not installed, whatever the installer said."""
    found = facts.python.distributions
    installed = found.value if isinstance(found, Known) else ()
    there = {(item.name, version) for item in installed for version in (item.version, _public(item.version))}
    planned = [item for item in wanted.plan.releases if not any(_meets(*held, item) for held in there)]
    lost = [item for item in wanted.kept if (item.distribution, item.version) not in there]
    return [*(item.requirement for item in planned), *(item.label for item in lost)]


def _meets(name: str, version: str, planned: PlannedRelease) -> bool:
    """Tell whether a distribution is a planned release: conda's are planned by their line, tensorflow==2.16.*."""
    wanted = planned.requirement.partition("==")[2]
    return name == planned.distribution and within(version, f"=={_public(wanted)}")


def _public(version: str) -> str:
    return version.partition("+")[0]


def _newly_broken(before: Facts | None, now: Context) -> str:
    """Name a requirement that was met, or not there, and is not met now; "" where there is none."""
    from envcheck.rules.pins import broken_pins

    if before is None:
        return ""
    was = {(item.owner.name, item.owner.version, item.name) for item in broken_pins(Context(before, now.matrix))}
    for item in broken_pins(now):
        if (item.owner.name, item.owner.version, item.name) not in was:
            found = f"{item.found.version} is there then" if item.found else "it is not there then"
            return f"{item.owner.name} {item.owner.version} requires {item.name}{item.specifier}; {found}"
    return ""


def _smoke(wanted: Judged) -> str:
    from envcheck.cli.smoke_options import SmokeOptions
    from envcheck.cli.smoke_session import run_session
    from envcheck.smoke.protocol import FRAMEWORKS
    from envcheck.smoke.verdict import headline_of, verdict_of

    # Not what one of them brings for itself: TensorFlow 2.12 requires JAX, and no jaxlib to compute with.
    meant = {*(item.framework for item in wanted.plan.releases), *(item.framework for item in wanted.kept)}
    named = tuple(name for name in FRAMEWORKS if name in meant)
    asked = SmokeOptions(env=str(wanted.folder), frameworks=named, expect=wanted.plan.goal, quiet=wanted.quiet)
    session = run_session(asked)
    return "" if verdict_of(session) == COMPATIBLE else f"the smoke test: {headline_of(session).rstrip('.')}"


class _activated:  # noqa: N801 - used as a function
    """Set for a while what the environment's activation sets, as the planned hook does it."""

    def __init__(self, wanted: Judged) -> None:
        made = wanted.plan.environments[0]
        self._folders = [found for name in made.library_folders for found in sorted(map(str, wanted.folder.glob(name)))]
        self._before: Mapping[str, str] = {}

    def __enter__(self) -> None:
        self._before = dict(os.environ)
        if self._folders:
            kept = os.environ.get("LD_LIBRARY_PATH")
            os.environ["LD_LIBRARY_PATH"] = ":".join([*reversed(self._folders), *([kept] if kept else [])])

    def __exit__(self, *_: object) -> None:
        os.environ.clear()
        os.environ.update(self._before)

"""Let the doctor decide whether the environment that a transaction leaves counts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from envcheck.diagnosis.doctor import Diagnosis, Doctor
from envcheck.frameworks import framework_names, framework_of
from envcheck.model import (
    COMPATIBLE,
    ERROR,
    FAILED,
    INCOMPATIBLE,
    NOTE,
    Facts,
    Finding,
    Plan,
    PlannedRelease,
    Report,
    UserError,
    dataclass,
)
from envcheck.model.versions import within
from envcheck.plan.build import InstalledFramework
from envcheck.rules import Context
from envcheck.rules.dependencies import broken_pins

Smoke = Callable[[str, tuple[str, ...], str], str]  # folder, frameworks, goal -> "" or what failed


@dataclass
class PlannedEnvironment:
    """What an installation was to bring about."""

    folder: Path
    plan: Plan
    doctor: Doctor  # judges for the plan's goal
    before: Facts | None = None  # of the old environment; None if there was none
    kept: tuple[InstalledFramework, ...] = ()  # frameworks that had to stay as they were
    smoke: Smoke | None = None  # the test that it must pass, too

    def judge(self) -> str:
        """Return what is wrong with the environment for plan and goal; "" for nothing."""
        with _activated(self.folder, self.plan):
            try:
                now = self.doctor.examine("", str(self.folder), is_unfinished=True)
            except UserError as error:  # no Python is there
                return str(error)
            missing = _list_missing(self, now.context.facts)
            if missing:
                return f"the environment does not hold {', '.join(missing)}"
            broken = find_broken_requirement(self.before, now.context)
            if broken:
                return broken
            if now.report.verdict != COMPATIBLE:
                return (
                    f"the doctor finds it {now.report.verdict}: {now.report.headline.rstrip('.')}"
                )
            if self.smoke is None:
                return ""
            # Not their dependencies: TensorFlow 2.12 requires JAX, but no jaxlib to compute with.
            meant = {
                *(item.framework for item in self.plan.releases),
                *(item.framework for item in self.kept),
            }
            names = tuple(name for name in framework_names() if name in meant)
            return self.smoke(str(self.folder), names, self.plan.goal)


@contextmanager
def _activated(folder: Path, plan: Plan) -> Iterator[None]:
    """Set the variables that the environment's activation sets, until the block ends."""
    names = plan.environments[0].library_folders
    folders = [found for name in names for found in sorted(map(str, folder.glob(name)))]
    before = dict(os.environ)
    if folders:
        kept = os.environ.get("LD_LIBRARY_PATH")
        os.environ["LD_LIBRARY_PATH"] = ":".join([*reversed(folders), *([kept] if kept else [])])
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _list_missing(wanted: PlannedEnvironment, facts: Facts) -> list[str]:
    """List the planned and kept releases that are missing, whatever the installer said."""
    installed = facts.python.distributions.value or ()
    there = {
        (item.name, version)
        for item in installed
        for version in (item.version, _cut_label(item.version))
    }
    planned = [
        item for item in wanted.plan.releases if not any(_is_planned(*held, item) for held in there)
    ]
    lost = [item for item in wanted.kept if (item.distribution, item.version) not in there]
    return [*(item.requirement for item in planned), *(item.label for item in lost)]


def _is_planned(name: str, version: str, planned: PlannedRelease) -> bool:
    """Return whether a distribution is a planned release; conda plans tensorflow==2.16.*."""
    wanted = planned.requirement.partition("==")[2]
    return name == planned.distribution and within(version, f"=={_cut_label(wanted)}")


def _cut_label(version: str) -> str:
    return version.partition("+")[0]


def find_broken_requirement(before: Facts | None, now: Context) -> str:
    """Describe a requirement that is newly not met; "" if there is none."""
    if before is None:
        return ""
    was = {
        (item.owner.name, item.owner.version, item.name)
        for item in broken_pins(Context(before, now.matrix))
    }
    for item in broken_pins(now):
        if (item.owner.name, item.owner.version, item.name) not in was:
            found = "it would be missing"
            if item.found:
                found = f"{item.found.version} would be installed"
            needs = f"{item.owner.name} {item.owner.version} requires {item.name}{item.specifier}"
            return f"it would break an installed package: {needs}; {found}"
    return ""


@dataclass
class FixedEnvironment:
    """What a fix was to bring about: less is wrong than before, and nothing new."""

    folder: Path
    doctor: Doctor
    before: Diagnosis
    resolves: tuple[str, ...]  # the finding ids that its steps are for
    is_new: bool  # it takes the place of the one that was judged

    def judge(self) -> str:
        """Return "" if the environment is better than before; else what is wrong with it."""
        now = self.doctor.examine("", str(self.folder), is_unfinished=True, is_proven=True)
        if self.is_new:
            broken = ""
        else:
            broken = find_broken_requirement(self.before.context.facts, now.context)
        if broken:
            return broken
        failed_before = {} if self.is_new else list_failing_imports(self.before)
        errors = _list_errors(now.report)
        errors_before = _list_errors(self.before.report)
        for name, text in list_failing_imports(now).items():
            if name not in failed_before:
                return f"{name} no longer imports: {_last_line(text)}"
            if not errors:
                return f"{name} still does not import: {_last_line(text)}"
        new = [item for key, item in errors.items() if key not in errors_before]
        if new and not failed_before:
            return f"the doctor finds {new[0].id}: {new[0].message}"
        return self._describe_remaining(now.report)

    def _describe_remaining(self, report: Report) -> str:
        """Describe the first finding of the steps if all are still there, else return ""."""
        before = {
            key: item
            for key, item in _list_findings(self.before.report).items()
            if item.id in self.resolves
        }
        wanted = {key: item for key, item in before.items() if item.severity == ERROR} or before
        if not wanted or not wanted.keys() <= _list_findings(report).keys():
            return ""
        first = next(iter(wanted.values()))
        return f"{first.id} is still there: {first.message}"


def _last_line(text: str) -> str:
    return text.rpartition("\n")[2]


def _list_findings(report: Report) -> dict[tuple[str, str], Finding]:
    real = (
        item for item in report.findings if item.severity != NOTE and item.verdict == INCOMPATIBLE
    )
    return {item.key: item for item in real}


def _list_errors(report: Report) -> dict[tuple[str, str], Finding]:
    return {key: item for key, item in _list_findings(report).items() if item.severity == ERROR}


def list_failing_imports(proven: Diagnosis) -> dict[str, str]:
    """Map each framework whose real import died to what it printed."""
    tests = proven.context.python.imports.value or ()
    dead = (each for each in tests if each.outcome == FAILED and framework_of(each.distribution))
    return {each.distribution: each.printed for each in dead}

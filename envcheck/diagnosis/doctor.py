"""The doctor of this machine.

It reads an environment, judges it for one target, and offers what fixes it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from envcheck.diagnosis import diagnose, with_steps
from envcheck.host.paths import fold_home, shorten_path
from envcheck.model import (
    ERROR,
    NOT_STATED,
    Facts,
    Finding,
    Known,
    Report,
    Snapshot,
    dataclass,
    replace,
)
from envcheck.rules import Context, Target
from envcheck.rules.catalogue import rank_findings

if TYPE_CHECKING:
    from envcheck.matrix import Matrix

Exists = Callable[[str], bool]


@dataclass
class Diagnosis:
    """An environment as it was read, and the report on it."""

    snapshot: Snapshot
    context: Context
    report: Report


# Reads how real imports end: a machine, seconds for all of them, what hears of each.
Prove = Callable[[Snapshot, float, "Callable[[str, int, int], None]"], Snapshot]
_ALL_DAY = 900.0  # seconds: a first import compiles and reads gigabytes


@dataclass
class Doctor:
    """What must work, and what judges it.

    `doctor`, `check`, `install` and `fix` ask the same one.
    """

    matrix: Matrix
    target: Target
    read: Callable[[str, str], Snapshot]  # this machine, with the environment of --python or --env
    gate: Callable[[Facts, tuple[str, ...], Exists | None], Report] | None = None  # of a project
    project: str = ""  # the file that makes its demands
    prove: Prove | None = None
    explain: Callable[[Context, str], Finding | None] | None = None  # what a failing import prints

    def judge(
        self,
        machine: Snapshot,
        inspected: tuple[str, ...],
        *,
        only: frozenset[str] = frozenset(),
        is_here: bool = True,
    ) -> Diagnosis:
        """Judge a machine; on this one, name existing folders and the command that fixes it.

        `inspected` are the options that say what was looked at, `only` limits the rules to some
        finding ids.
        """
        context = Context(machine.facts, self.matrix, self.target)
        exists = os.path.lexists if is_here else None
        if is_here and machine.facts.python.is_found and not inspected:
            inspected = ("--env", shorten_path(machine.facts.python.prefix.value or ""))
        if self.gate is None:
            report = diagnose(context, only, inspected=inspected, exists=exists)
        else:
            report = self.gate(machine.facts, inspected, exists)
        report = self._explain_deaths(report, context)
        return Diagnosis(
            machine, context, self._offer_fix(report, machine.facts) if is_here else report
        )

    def examine(
        self, python: str, env: str, *, is_unfinished: bool = False, is_proven: bool = False
    ) -> Diagnosis:
        """Read an environment of this machine and judge it.

        `is_unfinished`: leave out the marker that a transaction keeps in it until it is complete.
        `is_proven`: by the real imports, too.
        """
        machine = self.read(python, env)
        if is_unfinished:
            machine = replace(machine, facts=_without_marker(machine.facts))
        if is_proven and self.prove is not None:
            machine = self.prove(machine, _ALL_DAY, lambda *_: None)
        return self.judge(machine, inspected_options(fold_home(python), fold_home(env)))

    def _explain_deaths(self, report: Report, context: Context) -> Report:
        """Put before each dead import the cause in its traceback, if the rules name none."""
        tried = context.python.imports.value
        if not tried or self.explain is None:
            return report
        from envcheck.rules.imports import is_unexplained_death  # 1 ms; few reports hold imports

        dead = {
            item.about.distribution: item for item in report.findings if is_unexplained_death(item)
        }
        if not dead:
            return report
        printed = {test.distribution: test.printed for test in tried}
        untried = replace(context.facts, python=replace(context.python, imports=NOT_STATED))
        findings = list(report.findings)
        for name, death in dead.items():
            if name not in printed:
                continue  # its files say why
            cause = self.explain(Context(untried, self.matrix, self.target), printed[name])
            if cause is not None:
                findings = _put_cause(findings, death, cause)
        return with_steps(replace(report, findings=rank_findings(findings)))

    def _offer_fix(self, report: Report, facts: Facts) -> Report:
        """Name the command that fixes the environment, where this user may change it."""
        if not report.steps or not find_changeable_environment(facts)[0]:
            return report
        from envcheck.diagnosis.repair import with_fix_command

        return with_fix_command(report, self.project)


def _put_cause(findings: list[Finding], death: Finding, cause: Finding) -> list[Finding]:
    """Link a death to its cause, in place of a mere warning under the same id."""
    cause = replace(
        cause, severity=death.severity, stops=death.stops, primary=False, caused_by=None
    )
    cause = replace(cause, evidence=(*cause.evidence, *death.evidence))
    others = [item for item in findings if item.id != cause.id and item is not death]
    same = [item for item in findings if item.id == cause.id and item.severity == ERROR]
    return [*others, *(same or [cause]), replace(death, caused_by=cause.id)]


def _without_marker(facts: Facts) -> Facts:
    found = facts.python.install_leftovers
    if not isinstance(found, Known):
        return facts
    left = Known(tuple(item for item in found.value if item.kind != "marker"), found.source)
    return replace(facts, python=replace(facts.python, install_leftovers=left))


def inspected_options(python: str, env: str) -> tuple[str, ...]:
    """Return the options with which another command inspects the same environment."""
    return (*(("--python", python) if python else ()), *(("--env", env) if env else ()))


_OWN_KINDS = ("venv", "conda")  # of a Python that no other program uses


def find_other_users(folder: str, facts: Facts, *, is_environment: bool) -> str:
    """Say which other programs run from an environment; "" where none do.

    Nobody may change it then.
    """
    managed = facts.python.externally_managed.value is True
    if managed or not is_environment:
        reason = "it is not a virtual environment"
        if managed:
            reason = "it is managed from outside (PEP 668)"
        return f"holds a Python that other programs use: {reason}"
    is_condas = os.path.isdir(os.path.join(folder, "condabin"))  # noqa: PTH112, PTH118 - pathlib is slow to import
    if is_condas:
        return "is conda's own environment, which conda itself runs from"
    return ""


def find_changeable_environment(facts: Facts) -> tuple[str, str]:
    """Return the environment that this user may change, or "" and the reason."""
    prefix = facts.python.prefix.value or ""
    if not prefix:
        return "", "no Python environment was found: name one with --env"
    folder = prefix.replace("$USER", os.environ.get("USER", "$USER"))
    folder = os.path.realpath(os.path.expanduser(folder))  # noqa: PTH111
    others = find_other_users(folder, facts, is_environment=facts.python.kind.value in _OWN_KINDS)
    if others:
        return "", f"{prefix} {others}. Name another one with --env"
    if not os.path.isdir(folder):  # noqa: PTH112
        return "", f"{prefix} is not a folder of this machine"
    is_own = not hasattr(os, "geteuid") or os.stat(folder).st_uid == os.geteuid()  # noqa: PTH116
    parent = os.path.dirname(folder)  # noqa: PTH120
    if not is_own or not os.access(folder, os.W_OK) or not os.access(parent, os.W_OK):
        return (
            "",
            (
                f"{prefix} cannot be replaced by this user: ask its owner, or name another one with"
                " --env"
            ),
        )
    return folder, ""

"""Findings and reports: what the rules concluded, and from what."""

from __future__ import annotations

from typing import Optional, Tuple

from envcheck.model.actions import Action, Step
from envcheck.model.fixes import NOBODY, About, Fix
from envcheck.model.machine import OtherEnvironment, Source
from envcheck.model.records import dataclass

COMPATIBLE = "compatible"
INCOMPATIBLE = "incompatible"
UNDETERMINED = "undetermined"
OTHER_CAUSE = "other-cause"  # of a log: the program, its data or a service, not the environment

ERROR = "error"
WARNING = "warning"
NOTE = "note"


@dataclass
class Citation:
    """Name the artifact or document behind a matrix row, and when it was checked."""

    url_or_artifact: str
    locator: str = ""
    checked: str = ""


@dataclass
class Evidence:
    """One thing seen (a source on the machine) or known (a matrix citation)."""

    fact: str  # dotted fact name or matrix row: "driver.release", "toolkits 12.6"
    shown: str  # the value in words
    source: Optional[Source] = None
    citation: Optional[Citation] = None


@dataclass
class Alternative:
    """Another way to the same end, taken instead of the remedy's own actions."""

    summary: str
    actions: Tuple[Action, ...] = ()


@dataclass
class Remedy:
    """What to do about a finding: a sentence and the actions, one after the other."""

    summary: str
    actions: Tuple[Action, ...] = ()
    alternatives: Tuple[Alternative, ...] = ()  # to do instead: never a next step


@dataclass
class Finding:
    """One root cause, or one check that could not be decided."""

    id: str
    verdict: str
    severity: str
    message: str
    evidence: Tuple[Evidence, ...] = ()
    fix: Optional[Remedy] = None  # attached by remedies, which write `cure`
    primary: bool = False
    caused_by: Optional[str] = None
    cure: Optional[Fix] = None  # what must change; None: nothing to do about it
    about: About = NOBODY
    # what it stops, where that is another thing than the catalogue says of its id, or was seen
    stops: str = ""

    @property
    def is_the_cause(self) -> bool:
        """Return whether it is what stops an import or a computation.

        A warning that comes first stops none.
        """
        return self.primary and self.severity == ERROR


@dataclass
class Judged:
    """What a verdict is about."""

    machine: bool = True  # False: what a file will build
    # its prefix, "" if that is unknown; None where there was none to judge
    environment: Optional[str] = None
    chosen_by: str = ""  # see PythonFacts.chosen_by
    others: Tuple[OtherEnvironment, ...] = ()  # see PythonFacts.others


@dataclass
class Report:
    """The verdict on a snapshot with its findings, the primary one first."""

    verdict: str
    goal: str  # gpu or cpu: what the verdict is about
    headline: str
    findings: Tuple[Finding, ...]
    checked: Tuple[str, ...]  # ids of the rules that ran to a decision
    # releases that were judged without being installed: "tensorflow 2.15.1 (CUDA 12.2)"
    asked: Tuple[str, ...] = ()
    system: str = ""  # whose shells the commands are for: linux, windows, darwin; "" not known
    wanted: Tuple[str, ...] = ()  # the options that say what must work: --expect gpu --for torch
    inspected: Tuple[str, ...] = ()  # the options that say what was looked at: --env .venv
    steps: Tuple[Step, ...] = ()  # of the plan that fixes what was found
    judged: Judged = Judged()
    obtained_by: Optional[Action] = None  # what installs the releases of `asked`
    matrix: str = ""  # by which data it was judged: "2026-11-23, built in"
    # runs the environment's steps; () where the environment may not be changed
    fix_command: Tuple[str, ...] = ()

    def steps_for(self, finding: Finding) -> Tuple[str, ...]:
        """Name the steps that resolve a finding: its own, or those of its cause."""
        wanted = self._root_of(finding)
        return tuple(step.id for step in self.steps if wanted in step.resolves)

    def _root_of(self, finding: Finding) -> str:
        """Follow a finding to the id of the cause that is nobody's consequence."""
        causes = {item.id: item.caused_by for item in self.findings if item.caused_by is not None}
        roots = {item.id for item in self.findings if item.caused_by is None}
        wanted, seen = finding.caused_by or finding.id, {finding.id}
        while wanted not in roots and wanted in causes and wanted not in seen:
            seen.add(wanted)
            wanted = causes[wanted]
        return wanted

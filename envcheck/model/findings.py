"""Findings and reports: what the rules concluded, and from what."""

from __future__ import annotations

from typing import Optional, Tuple

from envcheck.model.facts import Source
from envcheck.model.records import dataclass

COMPATIBLE = "compatible"
INCOMPATIBLE = "incompatible"
UNDETERMINED = "undetermined"

ERROR = "error"
WARNING = "warning"
NOTE = "note"


@dataclass(frozen=True)
class Citation:
    """Name the artifact or document behind a matrix row, and when it was checked."""

    url_or_artifact: str
    locator: str = ""
    checked: str = ""


@dataclass(frozen=True)
class Evidence:
    """One thing seen (a source on the machine) or known (a matrix citation)."""

    fact: str  # dotted fact name or matrix row: "driver.release", "toolkits 12.6"
    shown: str  # the value in words
    source: Optional[Source] = None
    citation: Optional[Citation] = None


@dataclass(frozen=True)
class Command:
    """A command to type, as arguments; `scope` is environment, user or system."""

    argv: Tuple[str, ...]
    scope: str = "environment"
    purpose: str = ""


@dataclass(frozen=True)
class Way:
    """Another way to the same end: a sentence and its commands, taken in place of those before it."""

    summary: str
    commands: Tuple[Command, ...] = ()


@dataclass(frozen=True)
class Fix:
    """What to do about a finding: a sentence and the exact commands, one after the other."""

    summary: str
    commands: Tuple[Command, ...] = ()
    alternatives: Tuple[Way, ...] = ()  # to do instead: never a next step


@dataclass(frozen=True)
class Finding:
    """One root cause, or one check that could not be decided."""

    id: str
    verdict: str
    severity: str
    message: str
    evidence: Tuple[Evidence, ...] = ()
    fix: Optional[Fix] = None
    primary: bool = False
    caused_by: Optional[str] = None


@dataclass(frozen=True)
class Report:
    """The verdict on a snapshot with its findings, the primary one first."""

    verdict: str
    goal: str  # gpu or cpu: what the verdict is about
    headline: str
    findings: Tuple[Finding, ...]
    checked: Tuple[str, ...]  # ids of the rules that ran to a decision
    asked: Tuple[str, ...] = ()  # releases that were judged without being installed: "tensorflow 2.15.1 (CUDA 12.2)"
    system: str = ""  # whose shells the commands are for: linux, windows, darwin; "" not told
    wanted: Tuple[str, ...] = ()  # the options that say what must work: --expect gpu --for torch
    inspected: Tuple[str, ...] = ()  # the options that say what was looked at: --env .venv

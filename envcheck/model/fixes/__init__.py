"""What must change so that a finding goes away.

Records without text and calls, which `envcheck.remedies` writes out.

A rule, a file and a log make the same record for the same situation. The records of a subject stand
in the module of its name (`model/fixes/driver.py`), and the functions that write them in the module
of that name below `remedies/`.
"""

from __future__ import annotations

from typing import Tuple

from envcheck.model.records import dataclass


class Fix:
    """The base of all records here."""


@dataclass
class Advise(Fix):
    """Say one sentence: no command does it."""

    sentence: str


@dataclass
class FollowRow(Fix):
    """Do what data/advice/remedies.json says of the finding.

    In its row of that name, or in the one for all.
    """

    row: str = ""
    values: Tuple[Tuple[str, str], ...] = ()  # for the {names} of the row


@dataclass
class About:
    """Name what a finding is about."""

    framework: str = ""  # tensorflow, torch, jax ...
    distribution: str = ""
    names: Tuple[str, ...] = ()  # of further distributions


NOBODY = About()

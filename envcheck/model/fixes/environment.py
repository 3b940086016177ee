"""Fixes of an environment's files: what an installation left, and what comes in from outside."""

from __future__ import annotations

from typing import Tuple

from envcheck.model.fixes import Fix
from envcheck.model.records import dataclass


@dataclass
class SettleInstallation(Fix):
    """Let envcheck finish its interrupted installation, or undo it."""

    folder: str = ""  # of the environment
    lacks_journal: bool = False  # it can be repaired alone


@dataclass
class ReinstallFiles(Fix):
    """Reinstall the same releases of distributions whose files are damaged."""

    requirements: Tuple[str, ...]
    modules: str = ""  # whose imports show that it worked
    without_record: bool = False  # pip does not know their files


@dataclass
class InstallOverRemains(Fix):
    """Install a distribution of which files are left that belong to nothing."""

    requirement: str


@dataclass
class LeaveOutFolders(Fix):
    """Take folders off PYTHONPATH, or keep a file from running that puts them first."""

    folders: Tuple[str, ...]  # none: the file does something else
    file: str = ""  # whose code puts them there; "": PYTHONPATH does


@dataclass
class ChangeVariable(Fix):
    """Unset an environment variable, or give it a value that is understood."""

    name: str
    grammar: str = ""  # which values those are, in words
    value: str = ""  # one that fits this machine


@dataclass
class RenameShadow(Fix):
    """Rename a file that is imported in a framework's place, or take its folder off PYTHONPATH."""

    path: str

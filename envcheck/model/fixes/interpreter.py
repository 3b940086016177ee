"""Fixes of the Python that runs, of its pip, and of the C and C++ libraries below it."""

from __future__ import annotations

from typing import Tuple

from envcheck.model.fixes import Fix
from envcheck.model.records import dataclass


@dataclass
class UseOtherPython(Fix):
    """Make an environment with a Python that a release has a wheel for."""

    pythons: Tuple[str, ...]  # their minors, oldest first
    requirement: str = ""  # on that release; "" not known
    by_package: bool = False  # a package asks for them, whatever wheels there are
    or_newer: bool = False
    other_release: str = ""  # one with a wheel for the Python that is there


@dataclass
class InstallPython(Fix):
    """Recreate the environment with another build of Python."""

    architecture: str = ""  # of the machine, where Python is for another one; "": it has 32 bits
    lacks: Tuple[str, ...] = ()  # modules of its own that this one does not have


@dataclass
class RestorePython(Fix):
    """Start the Python in an environment again whose packages it holds."""

    folder: str
    minor: str  # 3.11


@dataclass
class UpdatePip(Fix):
    """Update pip, which does not know the tags of a release's wheels."""

    requirement: str


@dataclass
class UseNewerGlibc(Fix):
    """Use a system with a newer C library, which cannot be replaced on this one."""

    version: str


@dataclass
class LeaveOutOldLibrary(Fix):
    """Take the folder with an old copy of a system's library off LD_LIBRARY_PATH."""

    folder: str
    library: str

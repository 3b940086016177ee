"""Fixes of the frameworks: which is installed, in which release and build."""

from __future__ import annotations

from typing import Tuple

from envcheck.model.fixes import Fix
from envcheck.model.records import dataclass


@dataclass(frozen=True)
class ChooseFramework(Fix):
    """Install any framework: the environment has none."""


@dataclass(frozen=True)
class InstallFramework(Fix):
    """Install a framework into the Python that runs the program."""

    framework: str


@dataclass(frozen=True)
class InstallReplacement(Fix):
    """Install what took the place of a withdrawn distribution."""

    requirement: str


@dataclass(frozen=True)
class UseOtherPlatform(Fix):
    """Use a platform that a framework has GPU wheels for, or its last release with one for this platform."""

    framework: str


@dataclass(frozen=True)
class InstallCudaBuild(Fix):
    """Replace a build for the CPU by the one for CUDA."""

    framework: str
    release: str = ""  # which a log names
    cuda: str = ""
    by_conda: bool = False  # a log shows that conda chose the build


@dataclass(frozen=True)
class KeepOneDistribution(Fix):
    """Keep one of the distributions that contain the same module."""

    names: Tuple[str, ...]
    kept: str  # as a requirement


@dataclass(frozen=True)
class RenewMatrix(Fix):
    """Get a matrix that lists a release."""

    framework: str = ""
    advice: str = ""  # in place of the general sentence

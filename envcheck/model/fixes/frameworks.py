"""Fixes of the frameworks: which is installed, in which release and build."""

from __future__ import annotations

from typing import Tuple

from envcheck.model.fixes import Fix
from envcheck.model.records import dataclass


@dataclass
class ChooseFramework(Fix):
    """Install any framework: the environment has none."""


@dataclass
class InstallFramework(Fix):
    """Install a framework into the Python that runs the program."""

    framework: str


@dataclass
class InstallReplacement(Fix):
    """Install what took the place of a withdrawn distribution."""

    requirement: str


@dataclass
class UseOtherPlatform(Fix):
    """Use a platform with GPU wheels of a framework, or its last release for this one."""

    framework: str


@dataclass
class InstallCudaBuild(Fix):
    """Replace a build for the CPU by the one for CUDA."""

    framework: str
    cuda: str = ""  # that a log names
    by_conda: bool = False  # a log shows that conda chose the build


@dataclass
class KeepOneDistribution(Fix):
    """Keep one of the distributions that contain the same module."""

    names: Tuple[str, ...]
    kept: str  # as a requirement


@dataclass
class RenewMatrix(Fix):
    """Get a matrix that lists a release."""

    framework: str = ""
    advice: str = ""  # in place of the general sentence

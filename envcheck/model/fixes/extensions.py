"""Fixes of compiled packages that were built for another framework than the one that is there."""

from __future__ import annotations

from envcheck.model.fixes import Fix
from envcheck.model.records import dataclass


@dataclass
class RebuildExtension(Fix):
    """Install the build of a package for the framework that is there, or build it against that."""

    name: str


@dataclass
class InstallProjectsBuild(Fix):
    """Install what the package's own project built for the framework that is there."""

    name: str  # "" not known


@dataclass
class ReplaceLabelledBuild(Fix):
    """Install the build of a package whose label names the framework that is there."""

    name: str
    framework: str  # as its build is called: torch 2.7.1+cu118


@dataclass
class MatchInstalledFramework(Fix):
    """Install the release of a package that goes with the release of its framework."""

    name: str
    framework: str  # its distribution
    release: str  # that is installed: 2.7.1+cu118; "" not known


@dataclass
class MatchCudaOfPackage(Fix):
    """Install framework and package for one CUDA."""

    name: str
    package: str  # its release: torchaudio==2.7.1
    framework: str  # the release that is installed: torch==2.7.1
    framework_label: str  # of its build: cu118
    label: str  # of the package's CUDA: cu126

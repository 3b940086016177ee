"""Fixes of what frameworks load beside the toolkit.

CuDNN, TensorRT, and libraries of the system.
"""

from __future__ import annotations

from envcheck.model.fixes import Fix
from envcheck.model.records import dataclass


@dataclass
class InstallCudnn(Fix):
    """Install the cuDNN that a build was made with, for its CUDA."""

    framework: str = ""
    distribution: str = ""
    version: str = ""  # "": that of the build
    cuda: str = ""  # "": that of the build
    exact: bool = False  # a newer one does not serve
    site_packages: str = ""  # of a program that finds the wheel there only if it is told


@dataclass
class InstallOlderCudnn(Fix):
    """Go back to the newest cuDNN that still serves a GPU."""

    framework: str
    distribution: str
    version: str  # the one that is loaded
    capability: str


@dataclass
class BoundCudnn(Fix):
    """Install a requested release with a cuDNN that serves the GPUs."""

    framework: str
    requirement: str


@dataclass
class InstallTensorrt(Fix):
    """Install the TensorRT that a release was built with."""

    framework: str
    release: str


@dataclass
class InstallSystemLibrary(Fix):
    """Install the package of the system that holds a library."""

    library: str

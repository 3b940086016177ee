"""Fixes of the CUDA libraries that come as wheels into an environment."""

from __future__ import annotations

from typing import Tuple

from envcheck.model.fixes import Fix
from envcheck.model.records import dataclass


@dataclass
class InstallCudaLibraries(Fix):
    """Install requirements that bring a framework its CUDA libraries."""

    framework: str
    requirements: Tuple[str, ...] = ()  # (): those of a build that fits
    index: str = ""  # PyTorch's, where the build is from there
    are_pinned: bool = False  # by the installed release, which then works


@dataclass
class StartActivated(Fix):
    """Activate the environment, which sets the loader's path, before a program starts."""


@dataclass
class ExposeCudaWheels(Fix):
    """Make the loader find the libraries of wheels that are installed."""

    folders: Tuple[str, ...]
    links: Tuple[str, ...] = ()  # the libraries to link into `reached`
    reached: str = ""  # a folder that the framework looks in; "" none of that depth
    requirement: str = ""  # on a release that finds them


@dataclass
class ReplaceCudaWheels(Fix):
    """Remove wheels that wrote into the folders of others, and reinstall those."""

    removed: Tuple[str, ...]
    requirements: Tuple[str, ...]


@dataclass
class UseFreshEnvironment(Fix):
    """Make an environment for one framework, with the CUDA wheels that it asks for itself."""

    framework: str

"""Fixes of what is found first.

The folders of the loader's path, and the toolkit that builds use.
"""

from __future__ import annotations

from typing import Tuple

from envcheck.model.fixes import Fix
from envcheck.model.records import dataclass


@dataclass
class AddToLibraryPath(Fix):
    """Make the loader look in folders whenever the environment is activated."""

    folders: Tuple[str, ...]


@dataclass
class RemoveFromLibraryPath(Fix):
    """Keep the loader from folders that hold other copies."""

    folders: Tuple[str, ...]
    named: str = ""  # in words, where the folders alone do not say it
    unneeded_by: str = ""


@dataclass
class UseInstalledToolkit(Fix):
    """Point the loader, or the build, at the CUDA that is installed and not found."""

    cuda: str
    compiles: bool = False


@dataclass
class BuildWithToolkit(Fix):
    """Point CUDA_HOME and PATH at a toolkit where CUDA code is compiled."""

    root: str
    instead_of: str = ""  # the root of the one that is found now
    torch_cuda: str = ""  # the CUDA of torch, where that is the reason

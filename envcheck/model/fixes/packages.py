"""Fixes of the packages around a framework: what it requires, and what was made for it."""

from __future__ import annotations

from typing import Tuple

from envcheck.model.fixes import Fix
from envcheck.model.records import dataclass


@dataclass
class InstallRequirements(Fix):
    """Install requirements, within what the other installed packages require."""

    requirements: Tuple[str, ...]
    advice: str = ""  # one more sentence
    index: str = ""  # package index that has them; "" for the configured one


@dataclass
class RestoreRequirements(Fix):
    """Install what a distribution requires, together with the release of it that is there."""

    owner: str  # as a requirement
    others: Tuple[str, ...] = ()
    is_missing: bool = False  # nothing of it is installed: the owner brings it


@dataclass
class ReinstallParts(Fix):
    """Reinstall a framework, whose parts are of several releases."""

    requirement: str


@dataclass
class InstallDependant(Fix):
    """Install the release of a package that was made for the framework that is there."""

    name: str
    framework: str  # its distribution
    release: str  # that is installed: 2.7.1+cu118


@dataclass
class RestoreKeras2(Fix):
    """Run code for Keras 2 with the TensorFlow that is there."""

    framework: str


@dataclass
class InstallRequiredRelease(Fix):
    """Install the release of a package that a framework's release requires."""

    name: str
    framework: str


@dataclass
class InstallTogether(Fix):
    """Install releases that fit each other, where a resolver found that others do not."""

    requirements: Tuple[str, ...]
    tool: str = ""  # that could not resolve them, and takes them: uv, uv pip, conda

"""Fixes of the CUDA Toolkit: its libraries, nvcc, and what XLA and Triton compile with."""

from __future__ import annotations

from typing import Tuple

from envcheck.model.fixes import Fix
from envcheck.model.records import dataclass


@dataclass
class InstallToolkit(Fix):
    """Install the CUDA that a build needs, or a release for the CUDA that is there."""

    cuda: str
    framework: str = ""
    distribution: str = ""
    compiles: bool = False  # CUDA code is built: it needs nvcc


@dataclass
class ChooseToolkit(Fix):
    """Install one of several CUDA lines: the release of the framework decides."""

    lines: Tuple[str, ...]  # the newest first
    framework: str = ""


@dataclass
class InstallNvcc(Fix):
    """Install the nvcc of the CUDA that a framework was built with."""

    cuda: str
    framework: str
    distribution: str


@dataclass
class InstallLibdevice(Fix):
    """Install the part of CUDA that XLA takes libdevice from."""

    cuda: str


@dataclass
class NameLibdevice(Fix):
    """Tell XLA where libdevice is."""

    root: str  # of its toolkit
    path: str


@dataclass
class UseNewerPtxas(Fix):
    """Put a ptxas first on PATH that knows the GPU."""

    cuda: str  # the first whose ptxas does
    capability: str
    framework: str = ""
    distribution: str = ""


@dataclass
class ReplaceBundledPtxas(Fix):
    """Point a package at another ptxas than its own, or install a newer release of it."""

    cuda: str  # the first whose ptxas knows the GPU
    variable: str = ""  # names another ptxas; "" where nothing does
    path: str = ""  # of a ptxas that is there
    newer: str = ""  # "triton 3.6", which holds one

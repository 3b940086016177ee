"""Fixes of the host compiler that nvcc calls."""

from __future__ import annotations

from envcheck.model.fixes import Fix
from envcheck.model.records import dataclass


@dataclass
class UseOtherCompiler(Fix):
    """Point nvcc at a GCC that it accepts, or install one.

    Or take a CUDA that accepts the compiler that is there.
    """

    cuda: str  # of nvcc
    highest: str = ""  # the GCC that it still accepts
    lowest: str = ""
    present: str = ""  # the version of the compiler that it would call
    calls_clang: bool = False


@dataclass
class InstallVisualStudio(Fix):
    """Install a Visual Studio that nvcc accepts."""

    highest: str  # the cl that it still accepts: 19.49

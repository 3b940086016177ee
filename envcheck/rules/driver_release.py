"""Find the driver release that a CUDA Toolkit needs."""

from __future__ import annotations

from envcheck.model import Known
from envcheck.model.releases import Toolkit
from envcheck.rules.context import Context


def is_windows_driver(context: Context) -> bool:
    """Say whether the driver in charge is the Windows one: on Windows, and in WSL."""
    return context.os == "windows" or isinstance(context.facts.host.wsl_version, Known)


def toolkit_of(context: Context, cuda: str) -> Toolkit | None:
    """Find the row of a CUDA version; a bare major ("12", as JAX names its builds) means the oldest of that major."""
    return context.matrix.resolve_toolkit(cuda)


def driver_floor(context: Context, toolkit: Toolkit) -> str | None:
    """Return the lowest driver that runs builds of a toolkit: under minor-version compatibility where that exists."""
    if is_windows_driver(context):
        return toolkit.minor_floor_windows or toolkit.min_driver_windows
    return toolkit.minor_floor_linux or toolkit.min_driver_linux


def full_driver(context: Context, toolkit: Toolkit) -> str | None:
    """Return the driver a toolkit was released with, from which on its PTX can be compiled."""
    return toolkit.min_driver_windows if is_windows_driver(context) else toolkit.min_driver_linux

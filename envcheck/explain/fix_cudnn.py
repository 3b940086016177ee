"""Fixes of cuDNN: the one a build was made with, for its CUDA, by each way it comes."""

from __future__ import annotations

import re

from envcheck.explain.fix_context import context_of, plan_command, release_row
from envcheck.explain.fix_cuda import wanted_cuda
from envcheck.explain.log import number
from envcheck.explain.reasons_cuda import parse_library
from envcheck.explain.told import Told
from envcheck.model import Command, Fix, Way
from envcheck.rules.fixes_python import conda_install, python_program

_ARCHIVE = "https://developer.nvidia.com/cudnn-archive"
_WHEEL = "where the framework takes its CUDA from wheels"
_APT = "Debian and Ubuntu, from NVIDIA's repository; in a container take an image with -cudnn in its name"


def fitting_cudnn(told: Told) -> Fix | None:
    """Name the cuDNN a build was made with, for its CUDA, and the ways to it."""
    wanted, cuda = _wanted(told), wanted_cuda(told)
    if not re.fullmatch(r"\d{1,2}(?:\.\d{1,2}){0,3}", wanted):
        planned = plan_command(told, "", "names the release with its CUDA libraries, cuDNN among them")
        return Fix("Install the framework with the CUDA libraries it names.", planned) if planned else None
    of_cuda = f" for CUDA {cuda}" if cuda else ""
    exact = told.claim.id == "cudnn-too-new"
    newer = f", or a newer {number(wanted)[0]}.x" if "." in wanted and not exact else ""
    ways = _commands(told, wanted, cuda)
    here = [item for item in ways if "conda" in told.tags and item.argv[0] == "conda"] or ways
    others = [
        Way(f"{item.purpose[0].upper()}{item.purpose[1:]}:", (Command(item.argv, item.scope),))
        for item in ways
        if item not in here[:1]
    ]
    summary = f"Install cuDNN {wanted}{of_cuda}{newer}. NVIDIA's archive: {_ARCHIVE}."
    return Fix(summary, tuple(here[:1]), tuple(others))


def _wanted(told: Told) -> str:
    """Find the cuDNN that is asked for: as a message names it, as the release does, as the library's name does."""
    row, named = release_row(told), told.value("cudnn_wanted")
    if named:
        return named
    names = (event.captured.get("library", "") for event in told.claim.events)
    library = next((parse_library(name).version for name in names if "cudnn" in name), "")
    return (row.cudnn or "" if row else "") or library.partition(".")[0]


def _commands(told: Told, wanted: str, cuda: str) -> tuple[Command, ...]:
    """List the ways to a cuDNN, each one command that says where it is the one."""
    major, line, of = number(wanted)[0], ".".join(map(str, number(wanted)[:2])), cuda.partition(".")[0]
    exact = told.claim.id == "cudnn-too-new"
    if told.system == "windows":
        name = f"cudnn64_{major}.dll"
        return (Command(("where.exe", name), "user", "its folder must be on PATH, in the version named above"),)
    commands = []
    if major >= 8 and told.framework != "tensorflow" and of in ("", "11", "12", "13"):
        limits = f"=={line}.*" if exact else f">={wanted},<{major + 1}"
        said = _WHEEL + ("" if of else "; nvidia-cudnn-cu11 or -cu13 where CUDA is of that major")
        pip = (python_program(context_of(told)), "-m", "pip", "install", f"nvidia-cudnn-cu{of or '12'}{limits}")
        commands.append(Command(pip, "environment", said))
    if number(line) >= (7, 0):
        channel = "conda-forge" if number(line) >= (7, 6) or number(line) == (8,) else "defaults"
        argv = conda_install(f"cudnn={line}", channel=channel).argv
        commands.append(Command(argv, "environment", "into a conda environment"))
    if major >= 7 and not exact:
        package = f"libcudnn{major}" if major < 9 else f"cudnn9-cuda-{of or '12'}"
        commands.append(Command(("sudo", "apt-get", "install", "-y", package), "system", _APT))
    return tuple(commands)

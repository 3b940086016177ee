"""Fixes of CUDA beside a framework: the driver and the toolkit, in the versions that the log asks for."""

from __future__ import annotations

import re
from collections.abc import Iterable

from envcheck.explain.fix_context import context_of, plan_command, python_says, release_row
from envcheck.explain.log import number
from envcheck.explain.reasons_cuda import PROFILER, TOOLKIT, parse_library, providers
from envcheck.explain.told import Told
from envcheck.model import Command, Fix, Way
from envcheck.rules.fixes_python import conda_install, pip_install

_ARCHIVE = "https://developer.nvidia.com/cuda-toolkit-archive"
_BUILD_INFO = "import tensorflow as tf; print(tf.sysconfig.get_build_info())"
_BUILT = "the CUDA and cuDNN of the TensorFlow; envcheck matrix show tensorflow==VERSION tells without it"
_DOCTOR = Command(("envcheck", "doctor"), "environment", "which CUDA the build names, and which is there")
_REPOSITORY = "from NVIDIA's repository"
_EXACT = ("image-driver", "ptx-", "container-requirement", "forward-compat")  # need the driver of that very CUDA


def newer_driver(told: Told) -> Fix | None:
    """Name the least driver for the CUDA that is asked for, and what runs on the one that is there."""
    from envcheck.rules.driver_release import driver_floor, full_driver, toolkit_of
    from envcheck.rules.fixes_system import install_driver

    context, cuda = context_of(told), _needed_cuda(told)
    toolkit = toolkit_of(context, cuda) if cuda else None
    exact = any(name.startswith(_EXACT) for name in told.signatures)
    floor = (full_driver if exact else driver_floor)(context, toolkit) if toolkit else None
    fix = install_driver(context, told.captured("driver_wanted") or floor)
    planned = plan_command(told)
    why = f" CUDA {toolkit.version} needs it." if toolkit and floor else ""
    tells = () if told.log.driver else (Command(("nvidia-smi",), "system", "the driver that is there, on the host"),)
    other = (Way("Use a build for the driver that is there.", planned),) if planned else ()
    return Fix(fix.summary + why, (*tells, *fix.commands), (*fix.alternatives, *other))


def _needed_cuda(told: Told) -> str:
    """Find the CUDA that the driver does not reach: as a condition names it, or that of the build."""
    for name in ("condition", "needed_cuda", "cuda_wanted"):
        value = next((event.captured[name] for event in told.claim.events if name in event.captured), "")
        found = re.fullmatch(r"\s*(?:cuda\s*[>=]+\s*)?(\d{1,2}(?:\.\d)?)\s*", value or "")
        if found:
            return found.group(1)
    return wanted_cuda(told)


def wanted_cuda(told: Told) -> str:
    """Return the CUDA line that a build asks for: by its release, by the libraries it names; "" where several fit."""
    label = re.fullmatch(r"cu(\d+)(\d)", told.value("torch_label"))
    row = release_row(told)
    stated = f"{label.group(1)}.{label.group(2)}" if label else (row.cuda or "" if row else "")
    lines = fitting_lines(told)
    if stated and (not lines or stated in lines):
        return stated
    return lines[0] if len(lines) == 1 else ""


def fitting_lines(told: Told) -> tuple[str, ...]:
    """List the CUDA lines that hold every library that is missing, and every one that was opened."""
    missing = [event.captured.get("library") or event.captured.get("library2", "") for event in told.claim.events]
    asked = _holding(told, missing)
    opened = _holding(told, told.log.values("opened"))
    return tuple(line for line in asked if line in opened) or asked


def _holding(told: Told, names: Iterable[str]) -> tuple[str, ...]:
    libraries = [parse_library(name) for name in names if name]
    held = [providers(told.log.matrix, item) for item in libraries if item.family in (TOOLKIT, PROFILER)]
    known = [lines for lines in held if lines]
    return tuple(line for line in known[0] if all(line in lines for lines in known)) if known else ()


def fitting_toolkit(told: Told) -> Fix | None:
    """Bring the CUDA that is asked for, or name the release that takes the one that is there."""
    compiles = told.compiles
    named = (told.captured("cuda_wanted") or told.captured("torch_cuda")) if compiles else ""
    cuda = named if re.fullmatch(r"\d{1,2}\.\d", named) else wanted_cuda(told)
    if not cuda:
        return _any_of(told)
    steps, ways = toolkit_commands(told, cuda, compiles=compiles)
    if cuda in told.log.cudas:
        return Fix(f"CUDA {cuda} is installed: let it be found.", steps[-1:])
    installed = told.captured("nvcc") or next(iter(told.log.cudas), "")
    other = _other_release(told, installed) if installed else ()
    verb = "Build with" if compiles else "Install the libraries of"
    where = " beside what is there" if installed else ""
    return Fix(f"{verb} CUDA {cuda}{where}.", steps, (*ways, *other))


def _any_of(told: Told) -> Fix | None:
    """Say which release of TensorFlow was built with which of the CUDA lines that hold what is missing."""
    lines = fitting_lines(told)
    if not lines:
        return None
    built = _releases_of(told, lines) if told.framework == "tensorflow" else []
    shown = ", ".join(built) or (lines[0] if len(lines) == 1 else f"one of {lines[-1]} to {lines[0]}")
    what = f"Install the CUDA that the release was built with: {shown}; or a release for the CUDA that is there"
    tells = python_says(told, _BUILD_INFO, _BUILT) if built else _DOCTOR
    return Fix(f"{what}. NVIDIA's archive: {_ARCHIVE}.", (tells, *plan_command(told)))


def _releases_of(told: Told, lines: tuple[str, ...]) -> list[str]:
    """Name the TensorFlow releases of each CUDA line, newest first: CUDA 11.0 for TensorFlow 2.4."""
    # The first release of each minor stands for all of it: its patches are for the same CUDA and fewer platforms.
    first = {".".join(version.split(".")[:2]): version for version in told.log.matrix.versions("tensorflow")}
    found: dict[str, list[str]] = {}
    platform = context_of(told).platform
    for minor, version in first.items():
        for cuda in told.log.matrix.cudas("tensorflow", version, platform):
            if cuda in lines:
                found.setdefault(cuda, []).append(minor)
    return [
        f"CUDA {cuda} for TensorFlow {old[-1]}" + (f" to {old[0]}" if old[0] != old[-1] else "")
        for cuda, old in found.items()
    ]


def toolkit_commands(told: Told, cuda: str, *, compiles: bool) -> tuple[tuple[Command, ...], tuple[Way, ...]]:
    """Bring a CUDA line from NVIDIA's repository and name it in a variable; the other ways: other distributions, conda.

    Where the log is of a conda environment, conda comes first.
    """
    if told.system in ("windows", "darwin") or len(number(cuda)) < 2:
        return (Command(("nvcc", "--version"), "environment", f"must say {cuda}; NVIDIA's archive: {_ARCHIVE}"),), ()
    from envcheck.rules.packages import install_somewhere

    what = "cuda-toolkit" if compiles else "cuda-libraries"
    steps, elsewhere = install_somewhere(context_of(told), what, _REPOSITORY, cuda=cuda.replace(".", "-"))
    root = f"/usr/local/cuda-{cuda}"
    named = (f"CUDA_HOME={root}", f"PATH={root}/bin:$PATH") if compiles else (_path(f"{root}/lib64"),)
    where = "in the shell that builds" if compiles else "in the shell that starts the program"
    steps = (*steps, Command(("export", *named), "user", where))
    condas = _conda(told, cuda, compiles=compiles)
    if condas and "conda" in told.tags:
        return condas, (Way("Outside of conda, from NVIDIA's repository:", steps), *elsewhere)
    return steps, (*elsewhere, *((Way("In a conda environment:", condas),) if condas else ()))


def _conda(told: Told, cuda: str, *, compiles: bool) -> tuple[Command, ...]:
    """Install a CUDA line into a conda environment, from a channel that has it."""
    if compiles:
        found = conda_install(f"cuda-nvcc={cuda}", channel="nvidia") if number(cuda) >= (11, 3) else None
    elif number(cuda) >= (12,):
        found = conda_install(f"cuda-version={cuda}", "cuda-libraries")
    else:
        channels = [row.channel for row in told.log.matrix.conda_builds("cudatoolkit") if cuda in row.cuda]
        found = conda_install(f"cudatoolkit={cuda}", channel=channels[0]) if channels else None
    where = Command(("export", _path("$CONDA_PREFIX/lib")), "user", "in the shell that starts the program")
    return (found, *(() if compiles else (where,))) if found else ()


def _path(folder: str) -> str:
    return f"LD_LIBRARY_PATH={folder}:$LD_LIBRARY_PATH"


def _other_release(told: Told, installed: str) -> tuple[Way, ...]:
    """Name the release of the framework that takes the CUDA that is there, and the command that installs it."""
    from envcheck.rules.pytorch_index import index_url

    context, own = context_of(told), release_row(told)
    line = ".".join(installed.split(".")[:2])
    rows = told.log.matrix.releases(told.framework, context.platform) if told.framework else ()
    if told.framework == "torch":
        made = [own] if own and line in own.variants else [row for row in rows if line in row.variants]
        if not made:
            return ()
        command = pip_install(context, f"torch=={made[0].version}", index=index_url(line))
        return (Way(f"Install a torch for CUDA {line}, such as {made[0].version}.", (command,)),)
    near = [row for row in rows if row.cuda == line]
    return (Way(f"Use {near[0].distribution} {near[0].version}, which loads CUDA {line}."),) if near else ()

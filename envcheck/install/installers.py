"""The installers of this machine.

Where they are, and their settings, which lead none of them elsewhere.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from envcheck.actions import InstallPackages, ReinstallPackages, move_environment
from envcheck.host.pip_settings import (
    UV_MISLEADING,
    SettingsError,
    read_uv_bounds,
    uv_variables,
    without_options,
)
from envcheck.host.prerequisites import find_program
from envcheck.model import CONDA, PIP, UV, Plan, RequirementSet, numbers, replace
from envcheck.plan.build import use_mirror
from envcheck.plan.steps import install_purpose
from envcheck.plan.verify import UnreachableError, find_uv, is_served


def installer_of(folder: Path) -> str:
    """Return the installer of an environment: conda or pip."""
    return CONDA if (folder / "conda-meta").is_dir() else PIP


def find_uv_program() -> str:
    """Return the path of uv; "" where it is not installed."""
    try:
        return find_uv(os.environ)
    except UnreachableError:
        return ""


def find_uv_for_pip() -> str:
    """Return the path of uv if it can replace pip.

    Return "" where it is not installed, or cannot follow pip's settings.
    """
    return find_uv_program() if can_replace_pip(os.environ) else ""


def find_substitutes(installer: str) -> tuple[tuple[str, str], ...]:
    """Return the program that replaces uv or conda where PATH lacks it: conda -> micromamba."""
    if installer == PIP or find_program(installer, os.environ):
        return ()
    others = (name for name in ("mamba", "micromamba") if find_program(name, os.environ))
    found = find_uv_program() if installer == UV else next(others, "")
    return ((installer, found),) if found else ()


def with_reachable_indexes(plan: Plan, mirror: str = "") -> Plan:
    """Replace a framework's index by its mirror, or by configured ones with the same builds."""
    if mirror:
        return use_mirror(plan, mirror)
    for place, step in enumerate(plan.steps):
        action, index = step.action, str(getattr(step.action, "index", ""))
        if isinstance(action, ReinstallPackages):
            action = action.with_label()
        wanted = RequirementSet(
            getattr(action, "requirements", ()), kept=getattr(action, "kept", ())
        )
        if index and is_served(plan.environments[0], wanted, os.environ):
            if isinstance(action, InstallPackages):
                action = replace(action, purpose=install_purpose(wanted))
            steps = (*plan.steps[:place], replace(step, action=action), *plan.steps[place + 1 :])
            plan = move_environment(replace(plan, steps=steps), index, "")
    return plan


# Options of pip that put packages elsewhere, install something else, or install nothing.
_MISLEADING_OPTIONS = (
    "target",
    "prefix",
    "root",
    "user",
    "python",
    "dry-run",
    "ignore-installed",
    "no-deps",
    "requirement",
    "editable",
    "report",
    "global-option",
    "install-option",
    "platform",
    "python-version",
    "implementation",
    "abi",
)
_MISLEADING = (  # the last ones make another Python's packages seem to be there
    *(f"PIP_{name.upper().replace('-', '_')}" for name in _MISLEADING_OPTIONS),
    *UV_MISLEADING,
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONUSERBASE",
    "VIRTUAL_ENV",
    "__PYVENV_LAUNCHER__",
)
_QUIET = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    # from distutils' files alone: its variables and files are read all the same
    "PIP_ISOLATED": "1",
    "PIP_NO_INPUT": "1",
    "PYTHONNOUSERSITE": "1",
    "PYTHONUNBUFFERED": "1",
}


def step_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for the steps; variables of uv that are set stay."""
    kept = {name: value for name, value in environment.items() if name not in _MISLEADING}
    try:
        told = {**uv_variables(environment, Path()), "UV_NO_CONFIG": "1"}
    except (
        SettingsError
    ):  # a broken file, or files cannot be read here: the installer says so itself
        told = {}
    # mamba and micromamba read it under a name of their own
    alias = environment.get("CONDA_CHANNEL_ALIAS", "")
    mamba = {"MAMBA_CHANNEL_ALIAS": alias} if alias else {}
    return {**mamba, **told, **kept, **_QUIET}


def pip_progress(folder: Path) -> dict[str, str]:
    """Let the pip of an environment say its bytes in lines; pip 24.1 was the first that can."""
    name = "site-packages/pip-*.dist-info"
    for found in (*folder.glob(f"lib/python3*/{name}"), *folder.glob(f"Lib/{name}")):
        if numbers(found.name[len("pip-") :]) >= (24, 1):
            return {"PIP_PROGRESS_BAR": "raw"}
    return {}


def can_replace_pip(environment: Mapping[str, str]) -> bool:
    """Return whether the configuration of pip and of uv can be read and passed on to uv."""
    try:
        uv_variables(environment, Path())
    except SettingsError:
        return False
    return True


def write_settings(folder: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """Write files that keep the files of pip and uv from leading them elsewhere.

    Return the variables that name them.

    pip reads its file after all others, and an option without a value there has none. uv reads none
    of its own files: their bounds stand in files that these variables add.
    """
    found: dict[str, str] = {}
    named, path = variables.get("PIP_CONFIG_FILE", ""), folder / "pip.conf"
    if named != os.devnull:  # else pip reads no file at all
        # pip says so itself
        with contextlib.suppress(SettingsError, UnicodeDecodeError, FileNotFoundError):
            text = Path(named).read_text(encoding="utf-8") if named else ""
            path.write_text(without_options(text, _MISLEADING_OPTIONS), encoding="utf-8")
            found["PIP_CONFIG_FILE"] = str(path)
    with contextlib.suppress(SettingsError):
        for name, text in read_uv_bounds(os.environ, Path()).items():
            path = folder / f"{name.lower()}.txt"
            path.write_text(text, encoding="utf-8")
            found[name] = f"{variables.get(name, '')} {path}".strip()
    return found

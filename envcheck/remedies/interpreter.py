"""What to do about the Python that runs, its pip, and the C and C++ libraries below it."""

from __future__ import annotations

import re

from envcheck.actions import (
    WINGET,
    Action,
    CreateEnvironment,
    InstallPackages,
    InstallSystemPackages,
    Show,
    UnsetVariable,
    UpgradePip,
    is_requirement,
)
from envcheck.matrix.package_index import index_url
from envcheck.model import LINUX, PIP, USER, UV, Alternative, Remedy
from envcheck.model.fixes.interpreter import (
    InstallPython,
    LeaveOutOldLibrary,
    RestorePython,
    UpdatePip,
    UseNewerGlibc,
    UseOtherPython,
)
from envcheck.model.versions import name_of
from envcheck.remedies import writes
from envcheck.remedies.rows import remedy_table
from envcheck.remedies.situation import Situation
from envcheck.remedies.system import system_packages

_LDD = Show(("ldd", "--version"), "shows the installed glibc", systems=(LINUX,))


@writes(UseOtherPython)
def use_other_python(situation: Situation, fix: UseOtherPython) -> Remedy:
    """Make an environment with the usual Python among those that serve, and install the release."""
    minors, usual = fix.pythons, system_packages().python.usual
    versions = minors[0] if len(minors) == 1 else f"{minors[0]} to {minors[-1]}"
    if fix.or_newer:
        versions = f"{minors[0]} or newer"
    reason = f"{fix.requirement or 'The release'} has wheels for Python {versions}"
    if fix.by_package:
        reason = f"The package requires Python {versions}"
    new = situation.new_environment(usual if usual in minors else minors[-1])
    install = _install_into_new(situation, new, fix.requirement)
    code = "import struct, sys; print(sys.version, 8 * struct.calcsize('P'))"
    ask = situation.run_python(code, "shows the Python; the last number must be 64")
    check = () if situation.facts.python.version.value is not None else (ask,)
    alternatives: tuple[Alternative, ...] = ()
    if fix.other_release:
        text = f"Request {fix.other_release}, which has a wheel for this Python."
        alternatives = (Alternative(text),)
    summary = f"{reason} (64-bit): create an environment with one."
    return Remedy(summary, (*check, *new, *install), alternatives)


def _install_into_new(
    situation: Situation, new: tuple[Action, ...], requirement: str
) -> tuple[Action, ...]:
    environment = new[0] if new else None
    if not isinstance(environment, CreateEnvironment) or not environment.folder:
        return ()
    if not is_requirement(requirement):
        return ()
    index = index_url(name_of(requirement), requirement.partition("+")[2])
    return (InstallPackages((requirement,), environment.interpreter(situation.os), index=index),)


# 64 bits, as uv names them
_BUILDS = {"darwin": "-macos-aarch64-none", "linux": "-linux-{cpu}-gnu"}


@writes(InstallPython)
def install_python(situation: Situation, fix: InstallPython) -> Remedy:
    """Make an environment with the build of Python that uv, or on Windows winget, downloads."""
    minor = system_packages().python.usual
    what = "a 64-bit Python"
    if fix.architecture:
        what = f"a Python for {fix.architecture}"
    if fix.lacks:
        what = f"a Python that has {' and '.join(fix.lacks)}"
    summary = f"Install {what}, and recreate the environment with it."
    if situation.os == "windows":
        install = InstallSystemPackages(WINGET, (f"Python.Python.{minor}",), scope=USER)
        return Remedy(summary, (install, CreateEnvironment(f".venv-{minor}", PIP, minor)))
    is_arm = situation.facts.host.architecture.value in ("aarch64", "arm64")
    build = _BUILDS.get(situation.os, "").format(cpu="aarch64" if is_arm else "x86_64")
    create = CreateEnvironment(f".venv-{minor}", UV, minor, (f"cpython-{minor}{build}",))
    return Remedy(summary, (create,))


@writes(RestorePython)
def restore_python(_: Situation, fix: RestorePython) -> Remedy:
    """Name the two ways out; a new environment would not have the packages."""
    return Remedy(
        f"Link Python {fix.minor} into {fix.folder} again, as `python{fix.minor} -m venv` of that"
        " folder does; its packages stay. Or install the packages for the new Python."
    )


@writes(UpdatePip)
def update_pip(situation: Situation, fix: UpdatePip) -> Remedy:
    """Update pip, then install what it did not find."""
    update = UpgradePip(situation.python)
    summary = "Upgrade pip, then install again."
    return Remedy(summary, (update, *situation.install(fix.requirement)))


@writes(UseNewerGlibc)
def use_newer_glibc(situation: Situation, fix: UseNewerGlibc) -> Remedy:
    """Name the oldest system that has the C library."""
    system = ""
    for line, names in remedy_table().systems_of_glibc.items():
        if _parse_minor(fix.version) and _parse_minor(line) >= _parse_minor(fix.version):
            system = f" (the oldest: {names})"
            break
    check = () if situation.facts.host.libc_version.value is not None else (_LDD,)
    return Remedy(
        f"Use a system or image with glibc {fix.version} or newer{system}, or a release for an"
        " older one. Never replace the system's glibc.",
        check,
    )


def _parse_minor(version: str) -> tuple[int, ...]:
    if re.fullmatch(r"\d+\.\d+", version):
        return tuple(map(int, version.split(".")))
    return ()


@writes(LeaveOutOldLibrary)
def leave_out_old_library(situation: Situation, fix: LeaveOutOldLibrary) -> Remedy:
    """Set the variable without the folder, or unset it where it names the folder in another way."""
    summary = f"Remove {fix.folder} from LD_LIBRARY_PATH: its {fix.library} is too old."
    unset = UnsetVariable("LD_LIBRARY_PATH", "in the program's shell")
    return Remedy(summary, situation.leave_out("LD_LIBRARY_PATH", fix.folder) or (unset,))

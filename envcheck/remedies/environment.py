"""What to do about an environment.

Its files, what comes in from outside, the Python that runs, its pip, and the libraries below it.
"""

from __future__ import annotations

import re

from envcheck.actions import (
    WINGET,
    CreateEnvironment,
    InstallPackages,
    InstallSystemPackages,
    RenameFile,
    SetVariables,
    UnsetVariable,
    is_requirement,
)
from envcheck.matrix.package_index import index_url
from envcheck.model import PIP, USER, UV, Alternative, Remedy
from envcheck.model.fixes import (
    ChangeVariable,
    InstallOverRemains,
    InstallPython,
    LeaveOutFolders,
    LeaveOutOldLibrary,
    ReinstallFiles,
    RenameShadow,
    UseNewerGlibc,
    UseOtherPython,
)
from envcheck.model.versions import name_of
from envcheck.remedies.rows import machine_steps, remedy_table
from envcheck.remedies.situation import PLAIN_FILE, PROGRAM_SHELL, Actions, Situation, find_setting
from envcheck.remedies.system import system_packages

_NAMED = 3  # requirements in a sentence


def reinstall_files(situation: Situation, fix: ReinstallFiles) -> Remedy:
    """Reinstall the distributions alone: what they require is not damaged."""
    names = ", ".join(fix.requirements[:_NAMED]) + (" …" if len(fix.requirements) > _NAMED else "")
    steps = situation.reinstall(
        *fix.requirements, modules=fix.modules, without_record=fix.without_record
    )
    return Remedy(f"Reinstall {names}: the same releases, without their dependencies.", steps)


def install_over_remains(situation: Situation, fix: InstallOverRemains) -> Remedy:
    """Install it from the index that its label names."""
    public, _, label = fix.requirement.partition("+")
    steps = situation.install(public, index=index_url(name_of(public), label))
    return Remedy(f"Install {fix.requirement}, over what is left of it.", steps)


def leave_out_folders(situation: Situation, fix: LeaveOutFolders) -> Remedy:
    """Set PYTHONPATH without them, or unset it where it names them in another way."""
    folders = " and ".join(filter(None, fix.folders)) or "the other copy"
    if fix.file:
        is_plain = re.fullmatch(PLAIN_FILE, fix.file) is not None
        off = RenameFile(fix.file, f"{fix.file}.off", "only if nothing else in it is needed")
        summary = f"Keep {folders} out: {fix.file} puts it first."
        if not fix.folders:
            summary = f"Keep Python from running {fix.file} when it starts."
        return Remedy(summary, (off,) if is_plain else ())
    steps = situation.leave_out("PYTHONPATH", *fix.folders) or (
        UnsetVariable("PYTHONPATH", PROGRAM_SHELL),
    )
    return Remedy(f"Keep {folders} out: remove it from PYTHONPATH.", steps)


def change_variable(situation: Situation, fix: ChangeVariable) -> Remedy:
    """Unset it in the program's shell, and show where it is set; set one that is not."""
    other = Alternative(f"Set it to a value that is understood: {fix.grammar}.")
    if fix.value:
        setting = SetVariables(((fix.name, fix.value),), PROGRAM_SHELL)
        other = Alternative(f"Set it to {fix.value}.", (setting,))
        if fix.name not in situation.context.environment:
            return Remedy(f"Set {fix.name} to {fix.value}.", (setting,))
    steps = (UnsetVariable(fix.name, PROGRAM_SHELL), find_setting(fix.name))
    return Remedy(f"Unset {fix.name}.", steps, (other,) if fix.value or fix.grammar else ())


def rename_shadow(situation: Situation, fix: RenameShadow) -> Remedy:
    """Take its folder off PYTHONPATH where that names it, else rename the file."""
    path = fix.path
    cut = max(path.rfind("/"), path.rfind("\\")) + 1
    new_path = f"{path[:cut]}my_{path[cut:]}"
    is_plain = re.fullmatch(PLAIN_FILE, path) is not None
    purpose = "only if it is yours, and change what imports it"
    rename = (RenameFile(path, new_path, purpose),) if is_plain else ()
    summary = f"Rename {path}."
    steps = situation.leave_out("PYTHONPATH", path[:cut])
    if steps:
        return Remedy(
            f"Remove {path[:cut]} from PYTHONPATH.", steps, (Alternative(summary, rename),)
        )
    return Remedy(summary, rename)


# The Python that runs, its pip, and the C and C++ libraries below it.


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


def _install_into_new(situation: Situation, new: Actions, requirement: str) -> Actions:
    environment = new[0] if new else None
    if not isinstance(environment, CreateEnvironment) or not environment.folder:
        return ()
    if not is_requirement(requirement):
        return ()
    index = index_url(name_of(requirement), requirement.partition("+")[2])
    return (InstallPackages((requirement,), environment.interpreter(situation.os), index=index),)


# 64 bits, as uv names them
_BUILDS = {"darwin": "-macos-aarch64-none", "linux": "-linux-{cpu}-gnu"}


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


def use_newer_glibc(situation: Situation, fix: UseNewerGlibc) -> Remedy:
    """Name the oldest system that has the C library."""
    system = ""
    for line, names in remedy_table().systems_of_glibc.items():
        if _parse_minor(fix.version) and _parse_minor(line) >= _parse_minor(fix.version):
            system = f" (the oldest: {names})"
            break
    is_known = situation.facts.host.libc_version.value is not None
    check = machine_steps("" if is_known else "glibc", sudo=False)
    return Remedy(
        f"Use a system or image with glibc {fix.version} or newer{system}, or a release for an"
        " older one. Never replace the system's glibc.",
        check,
    )


def _parse_minor(version: str) -> tuple[int, ...]:
    if re.fullmatch(r"\d+\.\d+", version):
        return tuple(map(int, version.split(".")))
    return ()


def leave_out_old_library(situation: Situation, fix: LeaveOutOldLibrary) -> Remedy:
    """Set the variable without the folder, or unset it where it names the folder in another way."""
    summary = f"Remove {fix.folder} from LD_LIBRARY_PATH: its {fix.library} is too old."
    unset = UnsetVariable("LD_LIBRARY_PATH", PROGRAM_SHELL)
    return Remedy(summary, situation.leave_out("LD_LIBRARY_PATH", fix.folder) or (unset,))

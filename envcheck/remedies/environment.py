"""What to do about an environment's files.

What an installation left, and what comes in from outside.
"""

from __future__ import annotations

import re

from envcheck.actions import (
    RenameFile,
    RunEnvcheck,
    SetVariables,
    UnsetVariable,
)
from envcheck.matrix.package_index import index_url
from envcheck.model import Alternative, Remedy
from envcheck.model.fixes.environment import (
    ChangeVariable,
    InstallOverRemains,
    LeaveOutFolders,
    ReinstallFiles,
    RenameShadow,
    SettleInstallation,
)
from envcheck.model.versions import name_of
from envcheck.remedies import writes
from envcheck.remedies.situation import PLAIN_FILE, Situation, find_setting

_NAMED = 3  # requirements in a sentence
_PROGRAM_SHELL = "in the program's shell"


@writes(SettleInstallation)
def settle_installation(_: Situation, fix: SettleInstallation) -> Remedy:
    """Finish it by its journal.

    Without one nobody knows what else was wanted, and what is there is repaired.
    """
    folder = ("--env", fix.folder) if fix.folder else ()
    if fix.lacks_journal:
        complete = RunEnvcheck(
            ("fix", *folder), "repairs what is there, and completes the environment"
        )
        return Remedy("Let envcheck complete the environment.", (complete,))
    purpose = "finishes the installation, or restores the environment as it was"
    settle = RunEnvcheck(("install", "--resume", *folder), purpose)
    return Remedy("Let envcheck settle the installation.", (settle,))


@writes(ReinstallFiles)
def reinstall_files(situation: Situation, fix: ReinstallFiles) -> Remedy:
    """Reinstall the distributions alone: what they require is not damaged."""
    names = ", ".join(fix.requirements[:_NAMED]) + (" …" if len(fix.requirements) > _NAMED else "")
    steps = situation.reinstall(
        *fix.requirements, modules=fix.modules, without_record=fix.without_record
    )
    return Remedy(f"Reinstall {names}: the same releases, without their dependencies.", steps)


@writes(InstallOverRemains)
def install_over_remains(situation: Situation, fix: InstallOverRemains) -> Remedy:
    """Install it from the index that its label names."""
    public, _, label = fix.requirement.partition("+")
    steps = situation.install(public, index=index_url(name_of(public), label))
    return Remedy(f"Install {fix.requirement}, over what is left of it.", steps)


@writes(LeaveOutFolders)
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
        UnsetVariable("PYTHONPATH", _PROGRAM_SHELL),
    )
    return Remedy(f"Keep {folders} out: remove it from PYTHONPATH.", steps)


@writes(ChangeVariable)
def change_variable(situation: Situation, fix: ChangeVariable) -> Remedy:
    """Unset it in the program's shell, and show where it is set; set one that is not."""
    other = Alternative(f"Set it to a value that is understood: {fix.grammar}.")
    if fix.value:
        setting = SetVariables(((fix.name, fix.value),), _PROGRAM_SHELL)
        other = Alternative(f"Set it to {fix.value}.", (setting,))
        if fix.name not in situation.context.environment:
            return Remedy(f"Set {fix.name} to {fix.value}.", (setting,))
    steps = (UnsetVariable(fix.name, _PROGRAM_SHELL), find_setting(fix.name))
    return Remedy(f"Unset {fix.name}.", steps, (other,) if fix.value or fix.grammar else ())


@writes(RenameShadow)
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

"""What to do about what is found first.

The folders of the loader's path, and the toolkit that builds use.
"""

from __future__ import annotations

import re

from envcheck.actions import SetVariables
from envcheck.model import Remedy
from envcheck.model.fixes.paths import (
    AddToLibraryPath,
    BuildWithToolkit,
    RemoveFromLibraryPath,
    UseInstalledToolkit,
)
from envcheck.remedies import writes
from envcheck.remedies.situation import Situation, find_setting

PROGRAM_SHELL = "in the program's shell"


def is_plain_path(path: str) -> bool:
    """Return whether a path can stand in a shell line as it is."""
    return re.fullmatch(r"/[\w./+~-]+", path) is not None


def point_at_toolkit(root: str, *, compiles: bool) -> SetVariables:
    """Point the build, or the loader, at a toolkit."""
    if compiles:
        return SetVariables(
            (("CUDA_HOME", root), ("PATH", f"{root}/bin:$PATH")), "in the build shell"
        )
    return SetVariables((("LD_LIBRARY_PATH", f"{root}/lib64:$LD_LIBRARY_PATH"),), PROGRAM_SHELL)


@writes(AddToLibraryPath)
def add_to_library_path(situation: Situation, fix: AddToLibraryPath) -> Remedy:
    """Make the loader look in folders whenever the environment is activated."""
    summary = f"Add {' and '.join(fix.folders)} to LD_LIBRARY_PATH in the environment's activation."
    return Remedy(summary, situation.add_loader_folders(fix.folders))


@writes(RemoveFromLibraryPath)
def remove_from_library_path(situation: Situation, fix: RemoveFromLibraryPath) -> Remedy | None:
    """Take folders off the variable as it was read, and show the line that sets it.

    Return None where none is known.
    """
    named = fix.named or " and ".join(fix.folders)
    reason = f"; {fix.unneeded_by} needs none of them" if fix.unneeded_by else ""
    summary = f"Remove {named} from LD_LIBRARY_PATH where it is set{reason}."
    if not fix.folders:
        return Remedy(summary) if named else None
    libraries = (f"{folder}/{name}" for folder in fix.folders for name in ("lib", "lib64"))
    steps = situation.leave_out("LD_LIBRARY_PATH", *fix.folders, *libraries)
    return Remedy(summary, steps or (find_setting(fix.folders[0]),))


@writes(UseInstalledToolkit)
def use_installed_toolkit(situation: Situation, fix: UseInstalledToolkit) -> Remedy | None:
    """Point the loader, or the build, at the folder where NVIDIA's packages install a CUDA."""
    if situation.os == "windows":
        return None
    where = "its lib64 folder to the loader's path"
    if fix.compiles:
        where = "it to the search path"
    step = point_at_toolkit(f"/usr/local/cuda-{fix.cuda}", compiles=fix.compiles)
    return Remedy(f"CUDA {fix.cuda} is installed: add {where}.", (step,))


@writes(BuildWithToolkit)
def build_with_toolkit(situation: Situation, fix: BuildWithToolkit) -> Remedy:
    """Set both variables in the build shell, and show the line that sets them otherwise."""
    toolkit = f"{fix.root} where you compile CUDA code"
    if fix.torch_cuda:
        toolkit = f"CUDA {fix.torch_cuda}, which torch was built with"
    summary = f"Point CUDA_HOME and PATH at {toolkit}."
    is_plain = is_plain_path(fix.root) and (not fix.instead_of or is_plain_path(fix.instead_of))
    if situation.os == "windows" or not is_plain:
        return Remedy(summary)
    steps = (point_at_toolkit(fix.root, compiles=True),)
    return Remedy(summary, (*steps, find_setting(fix.instead_of)) if fix.instead_of else steps)

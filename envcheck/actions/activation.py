"""Loader paths that an environment sets while it is activated: a program of its own, and lines that call it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from envcheck.actions.files import WriteFile
from envcheck.host.data_files import read_data

SH = "sh"  # and bash, zsh, dash, ksh, busybox
_OTHERS = {"fish": "fish", "csh": "csh", "tcsh": "csh", "pwsh": "ps1"}  # program -> its scripts' suffix
_SCRIPTS = {  # that activate a venv: venv's, and uv's and virtualenv's where they differ
    SH: ("activate",),
    "fish": ("activate.fish",),
    "csh": ("activate.csh",),
    "ps1": ("Activate.ps1", "activate.ps1"),
}
EVERY_SHELL = tuple(_SCRIPTS)
_NAMES = {SH: "sh, bash, zsh and ksh", "fish": "fish", "csh": "csh and tcsh", "ps1": "PowerShell"}
_WRITE = "Write what runs a command with the environment's CUDA libraries on the loader's path."


def shells_of(variables: Mapping[str, str]) -> tuple[str, ...]:
    """List the shells to serve: those like sh, and the user's own."""
    own = _OTHERS.get(variables.get("SHELL", "").rpartition("/")[2])
    return (SH, own) if own else (SH,)


def launcher_path(prefix: str) -> str:
    """Return where the program lies in an environment: `sh PATH COMMAND...` runs a command with the paths."""
    return f"{prefix}/bin/envcheck-cuda"


def write_launcher(prefix: str, words: Iterable[str]) -> WriteFile:
    """Write the program: every folder, given as a word of sh, in front of what LD_LIBRARY_PATH holds."""
    folders = " ".join(words)
    lines = tuple(line.replace("@FOLDERS@", folders) for line in _lines("launcher.sh"))
    return WriteFile(launcher_path(prefix), lines, is_program=True, purpose=_WRITE)


def folder_word(prefix: str, folder: str) -> str:
    """Write a folder as a word of the program: below the environment it moves with it."""
    return f'"$prefix"{folder[len(prefix) :]}' if folder.startswith(f"{prefix}/") else folder


def venv_hooks(prefix: str, folders: Iterable[str], already: Iterable[str]) -> tuple[WriteFile, ...]:
    """Put folders on the loader's path of a venv that exists, beside those that its activation sets already."""
    words = (folder_word(prefix, folder) for folder in dict.fromkeys([*already, *folders]))
    hook = activation_hooks(prefix, SH, purpose="Then activate it again.")
    return (write_launcher(prefix, words), *hook)


def activation_hooks(prefix: str, shell: str, purpose: str = "") -> tuple[WriteFile, ...]:
    """Let the scripts that activate a venv in one shell call the program."""
    usual = f"Let the environment's activation use it, until `deactivate`, in {_NAMES[shell]}."
    return tuple(
        WriteFile(
            f"{prefix}/bin/{script}",
            _lines(f"venv.{shell}"),
            appends=True,
            if_there=shell != SH,
            block=True,
            sets_path_of=f"{prefix}/lib" if shell == SH else "",
            purpose=purpose or usual,
        )
        for script in _SCRIPTS[shell]
    )


def conda_hooks(prefix: str, shell: str) -> tuple[WriteFile, ...]:
    """Write the two scripts that conda reads: when the environment is activated, and when it is left."""
    return tuple(
        WriteFile(
            f"{prefix}/etc/conda/{kind}e.d/envcheck-cuda.{shell}",
            _lines(f"{name}.{shell}"),
            new_folder=True,
            purpose=f"Let {what}, in {_NAMES[shell]}.",
        )
        for kind, name, what in (
            ("activat", "conda", "the environment's activation use it"),
            ("deactivat", "conda-leave", "leaving the environment take that back"),
        )
    )


def _lines(name: str) -> tuple[str, ...]:
    return tuple(read_data(f"activation/{name}").decode("utf-8").splitlines())

"""Loader paths that an environment sets while it is activated, and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping

from envcheck.model.plans import CONDA, Environment, Step
from envcheck.model.writing import Writing, writing_argv
from envcheck.rules.loader_hook import hook_lines, hooked, launcher_lines, launcher_path

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
_HOLDS = 'grep -qxF -- "$2" "$1"'
_HOLDS_IF_THERE = f'[ ! -e "$1" ] || {_HOLDS}'
_SEES = '. "$1" && printenv LD_LIBRARY_PATH | grep -qF -- "$2"'
_CUT = 'sed "/^# envcheck: begin/,/^# envcheck: end/d" "$1" > "$1.new" && cat "$1.new" > "$1" && rm -f "$1.new"'
_REMOVE = f'[ ! -e "$1" ] || {{ {_CUT}; }}'


def shells_of(variables: Mapping[str, str]) -> tuple[str, ...]:
    """List the shells to serve: those like sh, and the user's own."""
    own = _OTHERS.get(variables.get("SHELL", "").rpartition("/")[2])
    return (SH, own) if own else (SH,)


def activation_steps(made: Environment, shells: tuple[str, ...] = (SH,)) -> tuple[Step, ...]:
    """Write what sets the paths, and let each shell's activation call it; () where no paths are needed."""
    if not made.library_folders:
        return ()
    each = _conda if made.installer == CONDA else _venv
    return (_launcher(made), *(step for shell in shells for step in each(made, shell)))


def folder_words(made: Environment) -> tuple[str, ...]:
    """Write the folders of an environment's CUDA libraries as words of the program that sets them."""
    return tuple(f'"$prefix"/{folder}' for folder in made.library_folders)


def _launcher(made: Environment) -> Step:
    path = launcher_path(made.folder)
    return Step(
        "library-path",
        "Write what runs a command with the environment's CUDA libraries on the loader's path.",
        writing_argv(Writing(path, launcher_lines(folder_words(made)))),
        verify=("sh", path, "true"),
        undo=("rm", "-f", path),
        environment=made.folder,
    )


def _venv(made: Environment, shell: str) -> list[Step]:
    return [_appended(made, shell, hooked(made.folder, name, shell)) for name in _SCRIPTS[shell]]


def _appended(made: Environment, shell: str, what: Writing) -> Step:
    holds = ("sh", "-c", _HOLDS_IF_THERE, "sh", what.path, what.lines[0])
    sees = ("sh", "-c", _SEES, "sh", what.path, f"{made.folder}/lib")
    return Step(
        "activation-hook",
        f"Let the environment's activation use it, until `deactivate`, in {_NAMES[shell]}.",
        writing_argv(what),
        verify=sees if shell == SH else holds,
        undo=("sh", "-c", _REMOVE, "sh", what.path),
        environment=made.folder,
    )


def _conda(made: Environment, shell: str) -> list[Step]:
    """Write the two scripts that conda reads: when the environment is activated, and when it is left."""
    return [
        Step(
            f"{kind}ion-hook",
            f"Let {what}, in {_NAMES[shell]}.",
            writing_argv(Writing(path, hook_lines(f"{name}.{shell}"), new_folder=True)),
            verify=("test", "-s", path),
            undo=("rm", "-f", path),
            environment=made.folder,
        )
        for kind, name, what in (
            ("activat", "conda", "the environment's activation use it"),
            ("deactivat", "conda-leave", "leaving the environment take that back"),
        )
        for path in (f"{made.folder}/etc/conda/{kind}e.d/envcheck-cuda.{shell}",)
    ]

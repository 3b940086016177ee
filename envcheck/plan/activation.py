"""Loader paths that an environment sets while it is activated, and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping

from envcheck.host.data_files import read_data
from envcheck.model.plans import CONDA, Environment, Step
from envcheck.model.writing import Writing, writing_argv

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


def launcher_path(made: Environment) -> str:
    """Return where that lies which runs a command with the paths: `sh PATH COMMAND...`."""
    return f"{made.folder}/bin/envcheck-cuda"


def launcher_lines(made: Environment) -> tuple[str, ...]:
    """Write it: every folder of CUDA libraries in front of what LD_LIBRARY_PATH holds."""
    folders = " ".join(f'"$prefix"/{folder}' for folder in made.library_folders)
    return tuple(line.replace("@FOLDERS@", folders) for line in hook_lines("launcher.sh"))


def hook_lines(name: str) -> tuple[str, ...]:
    """Read a script of data/activation."""
    return tuple(read_data(f"activation/{name}").decode("utf-8").splitlines())


def _launcher(made: Environment) -> Step:
    path = launcher_path(made)
    return Step(
        "library-path",
        "Write what runs a command with the environment's CUDA libraries on the loader's path.",
        writing_argv(Writing(path, launcher_lines(made))),
        verify=("sh", path, "true"),
        undo=("rm", "-f", path),
        environment=made.folder,
    )


def _venv(made: Environment, shell: str) -> list[Step]:
    return [_appended(made, shell, f"{made.folder}/bin/{name}") for name in _SCRIPTS[shell]]


def _appended(made: Environment, shell: str, path: str) -> Step:
    lines = hook_lines(f"venv.{shell}")
    holds = ("sh", "-c", _HOLDS_IF_THERE, "sh", path, lines[0])
    sees = ("sh", "-c", _SEES, "sh", path, f"{made.folder}/lib")
    return Step(
        "activation-hook",
        f"Let the environment's activation use it, until `deactivate`, in {_NAMES[shell]}.",
        writing_argv(Writing(path, lines, appends=True, if_there=shell != SH)),
        verify=sees if shell == SH else holds,
        undo=("sh", "-c", _REMOVE, "sh", path),
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

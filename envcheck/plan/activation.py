"""Loader paths that an environment sets when it is activated, and nowhere else."""

from __future__ import annotations

from envcheck.model.plans import CONDA, Environment, Step

_NAME = "envcheck-cuda.sh"
_BEFORE = '"${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"'
_WRITE = 'mkdir -p "$(dirname "$1")" && file=$1 && shift && printf "%s\\n" "$@" > "$file"'
_APPEND = 'grep -qxF -- "$2" "$1" || printf "%s\\n" "$2" >> "$1"'
_REMOVE = 'grep -vxF -- "$2" "$1" > "$1.new"; cat "$1.new" > "$1" && rm -f "$1.new"'
_SEES = '. "$1" && printenv LD_LIBRARY_PATH | grep -qF -- "$2"'


def activation_steps(made: Environment) -> tuple[Step, ...]:
    """Write the hook of an environment and, for a venv, let its activation read it; () where none is needed."""
    if not made.library_folders:
        return ()
    return _conda(made) if made.installer == CONDA else _venv(made)


def hook_path(made: Environment) -> str:
    """Return where the hook lies below the environment."""
    return f"etc/conda/activate.d/{_NAME}" if made.installer == CONDA else f"bin/{_NAME}"


def hook_lines(made: Environment, prefix: str) -> tuple[str, ...]:
    """Write the hook: every folder of CUDA libraries in front of what LD_LIBRARY_PATH holds."""
    folders = [f'"{prefix}"/{folder}' for folder in made.library_folders]
    said = "# Written by envcheck: the CUDA libraries of this environment, which its frameworks do not look for."
    if len(folders) == 1 and "*" not in folders[0]:
        return (said, f"LD_LIBRARY_PATH={folders[0]}{_BEFORE}", "export LD_LIBRARY_PATH")
    return (
        said,
        f"for envcheck_folder in {' '.join(folders)}; do",
        f'  LD_LIBRARY_PATH="$envcheck_folder"{_BEFORE}',
        "done; export LD_LIBRARY_PATH",
        "unset envcheck_folder",
    )


def _venv(made: Environment) -> tuple[Step, ...]:
    activate, hook = f"{made.folder}/bin/activate", f"{made.folder}/{hook_path(made)}"
    line = f'. "$VIRTUAL_ENV/bin/{_NAME}"'
    return (
        _hook_step(made, hook, hook_lines(made, "$VIRTUAL_ENV")),
        Step(
            "activation-hook",
            "Let the environment's activation read that file.",
            ("sh", "-c", _APPEND, "sh", activate, line),
            verify=("sh", "-c", _SEES, "sh", activate, f"{made.folder}/lib"),
            undo=("sh", "-c", _REMOVE, "sh", activate, line),
            environment=made.folder,
        ),
    )


def _conda(made: Environment) -> tuple[Step, ...]:
    return (_hook_step(made, f"{made.folder}/{hook_path(made)}", hook_lines(made, "$CONDA_PREFIX")),)


def _hook_step(made: Environment, path: str, lines: tuple[str, ...]) -> Step:
    return Step(
        "library-path",
        "Put the environment's CUDA libraries on the loader's path when it is activated.",
        ("sh", "-c", _WRITE, "sh", path, *lines),
        verify=("test", "-s", path),
        undo=("rm", "-f", path),
        environment=made.folder,
    )

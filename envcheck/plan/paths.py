"""Where programs of a planned environment lie."""

from __future__ import annotations

from envcheck.model.plans import CONDA, Environment


def interpreter(made: Environment) -> str:
    """Return the path of an environment's Python as it can be typed."""
    if made.platform.startswith("win"):
        return f"{made.folder}\\python.exe" if made.installer == CONDA else f"{made.folder}\\Scripts\\python.exe"
    return f"{made.folder}/bin/python"


def prefix(made: Environment) -> str:
    """Return an environment's folder as conda's -p takes it: without a separator mamba would read a name."""
    folder = made.folder
    if "/" in folder or "\\" in folder:
        return folder
    return f".\\{folder}" if made.platform.startswith("win") else f"./{folder}"


def starter(made: Environment, base: str) -> tuple[str, ...]:
    """Return the command that starts the Python an environment is made with: `base`, or one found by its minor."""
    if base:
        return (base,)
    return ("py", f"-{made.python}") if made.platform.startswith("win") else (f"python{made.python}",)


def activation(made: Environment) -> tuple[str, ...]:
    """Return what is typed in a shell that shall use an environment."""
    if made.installer == CONDA:
        return ("conda", "activate", prefix(made))
    return activation_of(made.folder, windows=made.platform.startswith("win"))


def activation_of(folder: str, *, windows: bool) -> tuple[str, ...]:
    """Return what is typed in a shell that shall use a virtual environment."""
    return (f"{folder}\\Scripts\\activate",) if windows else (".", f"{folder}/bin/activate")


def removal(made: Environment) -> tuple[str, ...]:
    """Return the command that removes an environment's folder."""
    return removal_of(made.folder, windows=made.platform.startswith("win"))


def removal_of(folder: str, *, windows: bool) -> tuple[str, ...]:
    """Return the command that removes a folder: both shells of Windows start cmd, which takes / for an option."""
    if windows:
        return ("cmd", "/c", "rmdir", "/s", "/q", folder.replace("/", "\\"))
    return ("rm", "-rf", "--", folder)

"""Where programs of a planned environment lie."""

from __future__ import annotations

from envcheck.model.plans import CONDA, Environment


def interpreter(made: Environment) -> str:
    """Return the path of an environment's Python as it can be typed."""
    if made.platform.startswith("win"):
        return f"{made.folder}\\python.exe" if made.installer == CONDA else f"{made.folder}\\Scripts\\python.exe"
    return f"{made.folder}/bin/python"


def starter(made: Environment, base: str) -> tuple[str, ...]:
    """Return the command that starts the Python an environment is made with: `base`, or one found by its minor."""
    if base:
        return (base,)
    return ("py", f"-{made.python}") if made.platform.startswith("win") else (f"python{made.python}",)


def removal(made: Environment) -> tuple[str, ...]:
    """Return the command that removes an environment's folder."""
    if made.platform.startswith("win"):
        return ("powershell", "-Command", "Remove-Item", "-Recurse", "-Force", "-LiteralPath", made.folder)
    return ("rm", "-rf", "--", made.folder)

"""Options that several commands share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def inspected_python(command: F) -> F:
    """Add --python and --env: which Python environment to look into."""
    command = click.option("--env", "env", default="", metavar="NAME_OR_DIR", help="Inspect this venv or conda environment.")(command)
    return click.option("--python", "python", default="", metavar="PATH", help="Inspect this Python interpreter.")(command)


def verbosity(command: F) -> F:
    """Add -v and -q."""
    command = click.option("-q", "--quiet", is_flag=True, help="Print the verdict and its cause only.")(command)
    return click.option("-v", "--verbose", is_flag=True, help="Show where each fact was read, and every note.")(command)


def color(command: F) -> F:
    """Add --color."""
    choice = click.Choice(["auto", "always", "never"])
    return click.option("--color", "color_mode", type=choice, default="auto", help="Colour the text report (NO_COLOR is honoured).")(command)


def wants_color(mode: str) -> bool:
    """Decide on colour: the option, then NO_COLOR, then whether stdout is a terminal."""
    if mode != "auto":
        return mode == "always"
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and sys.stdout.isatty()

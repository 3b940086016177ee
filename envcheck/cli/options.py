"""Options that several commands share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TextIO, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def inspected_python(command: F) -> F:
    """Add --python and --env: which Python environment to look into."""
    env = click.option("--env", default="", metavar="NAME_OR_DIR", help="Inspect this venv or conda environment.")
    python = click.option("--python", default="", metavar="PATH", help="Inspect this Python interpreter.")
    return python(env(command))


def verbosity(command: F) -> F:
    """Add -v and -q."""
    quiet = click.option("-q", "--quiet", is_flag=True, help="Print the verdict and its cause only.")
    verbose = click.option("-v", "--verbose", is_flag=True, help="Show where each fact was read, and every note.")
    return verbose(quiet(command))


def matrix(words: str) -> Callable[[F], F]:
    """Add --matrix: another matrix than the built-in one, a file or an address with its hash."""
    named = f"{words} A file, or https://HOST/FILE#sha256=HASH."
    return click.option("--matrix", "matrix_file", metavar="FILE_OR_URL", default=None, help=named)


def color(command: F) -> F:
    """Add --color."""
    choice = click.Choice(["auto", "always", "never"])
    words = "Colour the text report (NO_COLOR is honoured)."
    return click.option("--color", "color_mode", type=choice, default="auto", help=words)(command)


def wants_color(mode: str, stream: TextIO | None = None) -> bool:
    """Decide on colour: the option, then NO_COLOR, then whether stdout (or another stream) is a terminal."""
    if mode != "auto":
        return mode == "always"
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and (stream or sys.stdout).isatty()

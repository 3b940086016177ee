"""Options that several commands share, and files that the user names."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TextIO, TypeVar, cast

import click

from envcheck.cli.exits import UserError
from envcheck.model import dataclass


def typed_here(argv: tuple[str, ...]) -> str:
    """Quote a command for the shells of this machine."""
    import os

    from envcheck.actions.shells import shell_line

    return shell_line(argv, "windows" if os.name == "nt" else "")


def write_file(path: str, text: str) -> None:
    """Write it whole or not at all; that it cannot be written is the user's to mend."""
    from envcheck.host.file_changes import write_output

    try:
        write_output(Path(path), text)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None


F = TypeVar("F", bound=Callable[..., Any])


# What a command looks at: whoever names two would be told about one of them only.
_LOOKED_AT = {"python": "--python", "env": "--env", "snapshot_file": "--snapshot", "file": "--dockerfile"}


def inspected_python(command: F) -> F:
    """Add --python and --env: which Python environment to look into; two things to look at are refused."""

    @functools.wraps(command)
    def of_one(**given: object) -> object:
        named = [option for name, option in _LOOKED_AT.items() if given.get(name)]
        if len(named) > 1:
            raise UserError(f"{named[0]} and {named[1]} name two things to look at: choose one of them.")
        return command(**given)

    env = click.option("--env", default="", metavar="NAME_OR_DIR", help="Inspect this venv or conda environment.")
    python = click.option("--python", default="", metavar="PATH", help="Inspect this Python interpreter.")
    return python(env(cast("F", of_one)))


_LESS = "Print the verdict and its cause only."
_MORE = "Show where each fact was read, and every note."


def verbosity(command: F) -> F:
    """Add -v and -q."""
    quiet = click.option("-q", "--quiet", is_flag=True, help=_LESS)
    verbose = click.option("-v", "--verbose", is_flag=True, help=_MORE)
    return verbose(quiet(command))


@dataclass(frozen=True)
class Printing:
    """How to print: the format, and how much of it."""

    form: str = "text"
    color_mode: str = "auto"
    verbose: bool = False
    quiet: bool = False

    @property
    def color(self) -> bool:
        """Tell whether standard output gets colours."""
        return wants_color(self.color_mode)


def printing(*forms: str, quiet: str = _LESS, verbose: str = _MORE) -> Callable[[F], F]:
    """Add --format with these, --color, -q and -v; the command takes them as one `printing`."""

    def add(command: F) -> F:
        @functools.wraps(command)
        def packed(*, form: str = "text", color_mode: str, verbose: bool, quiet: bool, **others: object) -> object:
            return command(printing=Printing(form, color_mode, verbose, quiet), **others)

        less = click.option("-q", "--quiet", is_flag=True, help=quiet)
        more = click.option("-v", "--verbose", is_flag=True, help=verbose)
        whole = color(more(less(packed)))
        choice = click.option("--format", "form", type=click.Choice(forms), default="text", help="How to print.")
        return cast("F", choice(whole) if forms else whole)

    return add


def matrix(words: str) -> Callable[[F], F]:
    """Add --matrix: another matrix than the built-in one, a file or an address with its hash."""
    named = f"{words} A file, or https://HOST/FILE#sha256=HASH."
    return click.option("--matrix", "matrix_file", metavar="FILE_OR_URL", default=None, help=named)


def check_framework(name: str, known: Iterable[str]) -> None:
    """Raise UserError for a framework that the matrix does not know, and suggest a similar name."""
    from difflib import get_close_matches

    names = list(known)
    if name not in names:
        similar = get_close_matches(name.lower(), names, n=1)
        hint = f" Did you mean {similar[0]}?" if similar else ""
        raise UserError(f"--framework {name}: unknown framework. The matrix has {', '.join(names)}.{hint}")


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

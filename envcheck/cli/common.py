"""What the commands share: options, the files that a user names, and the machine that a command works on."""

from __future__ import annotations

import functools
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO, TypeVar, cast

import click

from envcheck.cli.exits import INTERRUPTED, OF_VERDICT, READER_GONE, STEP_FAILED, UserError
from envcheck.host.process import list_running_programs
from envcheck.model import (
    SCHEMA_VERSION,
    CodecError,
    Facts,
    Known,
    Snapshot,
    Unknown,
    dataclass,
    decode,
    get_value,
    mark_uncollected,
)

if TYPE_CHECKING:
    from envcheck.matrix import Matrix

__all__ = ["INTERRUPTED", "OF_VERDICT", "READER_GONE", "STEP_FAILED", "UserError"]  # beside what stands here


def write_file(path: str, text: str) -> None:
    """Write a file whole or not at all; raises UserError if it cannot be written."""
    from pathlib import Path  # 3 ms, and few runs write a file

    from envcheck.host.file_changes import write_output

    try:
        write_output(Path(path), text)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None


F = TypeVar("F", bound=Callable[..., Any])


# What a command can inspect. Two of them are refused: only one would be inspected.
_INSPECTED = {"python": "--python", "env": "--env", "snapshot_file": "--snapshot", "file": "--dockerfile"}


def inspected_python(command: F) -> F:
    """Add --python and --env: which Python environment to inspect."""

    @functools.wraps(command)
    def check_one(**given: object) -> object:
        named = [option for name, option in _INSPECTED.items() if given.get(name)]
        if len(named) > 1:
            raise UserError(f"{named[0]} and {named[1]} exclude each other: choose one of them.")
        return command(**given)

    env = click.option("--env", default="", metavar="NAME_OR_DIR", help="Inspect this venv or conda environment.")
    python = click.option("--python", default="", metavar="PATH", help="Inspect this Python interpreter.")
    return python(env(cast("F", check_one)))


_MIRROR = r"(?:https?|file)://[\w.:/@%~+-]+"


def torch_index(command: F) -> F:
    """Add --torch-index: a mirror of PyTorch's own package index."""

    def check(_: click.Context, __: click.Parameter, value: str) -> str:
        if value and not re.fullmatch(_MIRROR, value):
            raise UserError(f"--torch-index {value[:80]!r} is no address, such as https://mirror.example/whl.")
        return value

    words = "A mirror of https://download.pytorch.org/whl."
    option = click.option(
        "--torch-index", default="", envvar="ENVCHECK_TORCH_INDEX", metavar="URL", callback=check, help=words
    )
    return option(command)


_QUIET = "Print only the verdict and its cause."
_VERBOSE = "Show where each fact was read, and every note."


def verbosity(quiet: str = _QUIET, verbose: str = _VERBOSE) -> Callable[[F], F]:
    """Add -v and -q with these help texts."""

    def add(command: F) -> F:
        less = click.option("-q", "--quiet", is_flag=True, help=quiet)
        return click.option("-v", "--verbose", is_flag=True, help=verbose)(less(command))

    return add


@dataclass(frozen=True)
class Printing:
    """How to print: in which format and colour, and how much."""

    form: str = "text"
    color_mode: str = "auto"
    verbose: bool = False
    quiet: bool = False

    @property
    def color(self) -> bool:
        """Tell whether standard output gets colours."""
        return self.wants_color(sys.stdout)

    def wants_color(self, stream: TextIO) -> bool:
        """Decide by --color, then by NO_COLOR, then by whether the stream is a terminal."""
        if self.color_mode != "auto":
            return self.color_mode == "always"
        return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()


def output_format(*forms: str) -> Callable[[F], F]:
    """Add --format with these formats, and --json, which is short for one of them; the command takes `form`."""

    def add(command: F) -> F:
        @functools.wraps(command)
        def choose(*, form: str | None, as_json: bool, **others: object) -> object:
            if as_json and form not in (None, "json"):
                raise UserError(f"--json and --format {form} exclude each other: choose one of them.")
            return command(form="json" if as_json else form or forms[0], **others)

        short = click.option("--json", "as_json", is_flag=True, help="Short for --format json.")
        choice = click.option("--format", "form", type=click.Choice(forms), help=f"How to print [{forms[0]}].")
        return choice(short(cast("F", choose)))

    return add


def printing(*forms: str, quiet: str = _QUIET, verbose: str = _VERBOSE) -> Callable[[F], F]:
    """Add --format with these formats, --json, --color, -q and -v; the command takes them as one `printing`."""

    def add(command: F) -> F:
        @functools.wraps(command)
        def packed(*, form: str = "text", color_mode: str, verbose: bool, quiet: bool, **others: object) -> object:
            return command(printing=Printing(form, color_mode, verbose, quiet), **others)

        modes = click.Choice(["auto", "always", "never"])
        words = "Colour the text report; auto honours NO_COLOR."
        color = click.option("--color", "color_mode", type=modes, default="auto", help=words)
        whole = color(verbosity(quiet, verbose)(packed))
        return cast("F", output_format(*forms)(whole) if forms else whole)

    return add


def expectation(words: str = "What must work; auto: a GPU if there is one.") -> Callable[[F], F]:
    """Add --expect."""
    return click.option("--expect", type=click.Choice(["auto", "gpu", "cpu"]), default="auto", help=words)


def matrix(words: str) -> Callable[[F], F]:
    """Add --matrix: a file, or an address with its hash, that replaces the built-in matrix."""
    named = f"{words} A file, or https://HOST/FILE#sha256=HASH."
    return click.option("--matrix", "matrix_file", metavar="FILE_OR_URL", default=None, help=named)


def load_matrix(matrix_file: str | None) -> Matrix:
    """Load the matrix; raises UserError for one that cannot be used."""
    from envcheck.matrix import MatrixError  # snapshot and gpus need no matrix: 3 ms
    from envcheck.matrix import load_matrix as load

    try:
        return load(matrix_file)
    except MatrixError as error:
        raise UserError(str(error)) from None


def check_framework(name: str, known: Iterable[str]) -> None:
    """Raise UserError for a framework that the matrix does not know, and suggest a similar name."""
    from difflib import get_close_matches

    names = list(known)
    if name not in names:
        similar = get_close_matches(name.lower(), names, n=1)
        hint = f" Did you mean {similar[0]}?" if similar else ""
        raise UserError(f"--framework {name}: unknown framework. The matrix has {', '.join(names)}.{hint}")


_PATIENCE = 1.0  # seconds until the programs that have not answered are named


@contextmanager
def slow_programs() -> Iterator[None]:
    """Name on stderr, after a second, the programs that have not answered; nothing if stderr is no terminal."""
    if not sys.stderr.isatty():
        yield
        return
    timer = threading.Timer(_PATIENCE, _name_running)
    timer.daemon = True
    with suppress(RuntimeError):  # no thread to spare: the report matters more
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _name_running() -> None:
    waiting = list_running_programs()
    if waiting:
        sys.stderr.write(f"Waiting for {', '.join(waiting)} ...\n")
        sys.stderr.flush()


_LIMIT = 64 << 20  # bytes of a snapshot file; the largest real ones are below one megabyte


def live_snapshot(python: str, env: str, without: Collection[str] = (), *, without_packages: bool = False) -> Snapshot:
    """Read this machine without the probes named in `without`; raises UserError for an unknown --python or --env.

    `without_packages`: read the interpreter but not its packages.
    """
    from envcheck.host.local import LocalHost  # a saved machine needs no probes: 9 ms
    from envcheck.probes.collection import collect
    from envcheck.probes.environment_choice import PythonSelection

    with slow_programs():
        snapshot = collect(LocalHost(), PythonSelection(python, env, without_packages), without)
    executable = snapshot.facts.python.executable
    # A probe that crashed is not the user's error: the report says it.
    crashed = isinstance(executable, Unknown) and executable.why == "crashed"
    if (python or env) and not isinstance(executable, Known) and not crashed:
        option = f"--python {python}" if python else f"--env {env}"
        raise UserError(f"{option}: no Python environment found. {_tried(executable)}")
    return snapshot


def inspected_options(python: str, env: str) -> tuple[str, ...]:
    """Return the options with which another command inspects the same environment."""
    return (*(("--python", python) if python else ()), *(("--env", env) if env else ()))


_OWN_KINDS = ("venv", "conda")  # of a Python that no other program uses


def find_changeable_environment(facts: Facts) -> tuple[str, str]:
    """Return the folder of the environment that this user may change, or "" and the reason why there is none."""
    python = facts.python
    prefix, kind = get_value(python.prefix) or "", get_value(python.kind)
    if not prefix:
        return "", "no Python environment was found: name one with --env"
    managed = get_value(python.externally_managed) is True
    if managed or kind not in _OWN_KINDS:
        reason = "it is managed from outside (PEP 668)" if managed else "it is not a virtual environment"
        return "", f"{prefix} holds a Python that other programs use: {reason}. Name an environment with --env"
    folder = os.path.realpath(os.path.expanduser(prefix.replace("$USER", os.environ.get("USER", "$USER"))))  # noqa: PTH111 - pathlib is slow to import
    if not os.path.isdir(folder):  # noqa: PTH112
        return "", f"{prefix} is not a folder of this machine"
    if os.path.isdir(os.path.join(folder, "condabin")):  # noqa: PTH112, PTH118
        return "", f"{prefix} is conda's own environment, which conda itself runs from: name another one with --env"
    is_own = not hasattr(os, "geteuid") or os.stat(folder).st_uid == os.geteuid()  # noqa: PTH116
    if not is_own or not os.access(folder, os.W_OK) or not os.access(os.path.dirname(folder), os.W_OK):  # noqa: PTH120
        return "", f"{prefix} cannot be replaced by this user: ask its owner, or name another one with --env"
    return folder, ""


def _tried(fact: object) -> str:
    tried = getattr(fact, "tried", ())
    detail = getattr(fact, "detail", "")
    return detail or (f"Looked at {', '.join(tried)}." if tried else "")


def saved_snapshot(path: str) -> Snapshot:
    """Read a snapshot file written by `envcheck snapshot` or `doctor --format json`."""
    document = _load(path)
    schema = document.get("schema", "")
    if schema == "envcheck/report/1":
        inside = document.get("snapshot")
        document = inside if isinstance(inside, dict) else {}
        schema = document.get("schema", "")
    if schema != f"envcheck/snapshot/{SCHEMA_VERSION}":
        advice = "Take a new one: envcheck snapshot -o FILE"
        raise UserError(f"{path} is no snapshot this version reads (schema {schema!r}). {advice}")
    body = {key: value for key, value in document.items() if key != "schema"}
    try:
        return mark_uncollected(decode(Snapshot, body))
    except CodecError as error:
        raise UserError(f"{path} is not a valid snapshot: {error}") from None


def read_bytes(path: str, limit: int, advice: str = "") -> bytes:
    """Read a file that the user names, of at most `limit` bytes; raises UserError, with advice if it is missing."""
    try:
        with open(path, "rb") as stream:  # noqa: PTH123 - pathlib costs a third of a bare start
            data = stream.read(limit + 1)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}{advice}") from None
    except ValueError:  # a NUL in the name
        raise UserError(f"cannot read {path!r}: no file has such a name.") from None
    if len(data) > limit:
        raise UserError(f"{path} is larger than {limit >> 20} MiB, the limit for such a file.")
    return data


def _load(path: str) -> dict[str, object]:
    try:
        document = json.loads(read_bytes(path, _LIMIT))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise UserError(f"{path} is not a snapshot: it holds no JSON object.")
    return document

"""What the commands share.

Options, the files that a user names, and the machine that a command works on.
"""

from __future__ import annotations

import functools
import io
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any, ClassVar, TextIO, TypeVar, cast

import click

from envcheck import api
from envcheck.cli.exits import INTERRUPTED, OF_VERDICT, READER_GONE, STEP_FAILED
from envcheck.host.data_files import read_data
from envcheck.host.process import list_running_programs
from envcheck.model import Report, Snapshot, UserError, dataclass, inert
from envcheck.render.text import terminal_size, wants_ascii

# beside what stands here
__all__ = ["INTERRUPTED", "OF_VERDICT", "READER_GONE", "STEP_FAILED", "UserError"]


def write_file(path: str, text: str) -> None:
    """Write a file whole or not at all; raises UserError if it cannot be written."""
    from pathlib import Path  # 3 ms, and few runs write a file

    from envcheck.host.file_changes import write_output

    try:
        write_output(Path(path), text)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None


F = TypeVar("F", bound=Callable[..., Any])


def option(spelling: str, words: str, *target: str, **more: Any) -> Callable[[F], F]:
    """Make an option: "-o --output FILE" takes a text, "" by default; "--all" is a flag."""
    *names, last = spelling.split(" ")
    if last.startswith("-"):
        names.append(last)
        if "type" not in more and "default" not in more:
            more["is_flag"] = True
    else:
        more["metavar"] = last
        if "type" not in more and "multiple" not in more:
            more.setdefault("default", "")
    return click.option(*names, *target, help=words, **more)


def together(*parts: Callable[[Any], Any]) -> Callable[[F], F]:
    """Add several options, in the order of --help."""

    def add(command: F) -> F:
        for part in reversed(parts):
            command = part(command)
        return command

    return add


def taken(make: Callable[..., dict[str, Any]], *names: str) -> Callable[[F], F]:
    """Replace the options `names` of a command by the keyword arguments that `make` returns."""

    def add(command: F) -> F:
        @functools.wraps(command)
        def call(**given: Any) -> object:
            own = {name: given.pop(name) for name in names}
            return command(**make(**own), **given)

        return cast("F", call)

    return add


# What a command can inspect. Two of them are refused: only one would be inspected.
_INSPECTED = {
    "python": "--python",
    "env": "--env",
    "snapshot": "--snapshot",
    "file": "--dockerfile",
}


def _check_one(command: F) -> F:
    @functools.wraps(command)
    def call(**given: object) -> object:
        named = [typed for name, typed in _INSPECTED.items() if given.get(name)]
        if len(named) > 1:
            raise UserError(f"{named[0]} and {named[1]} exclude each other: choose one of them.")
        return command(**given)

    return cast("F", call)


# Which Python environment to inspect.
inspected_python = together(
    option("--python PATH", "Inspect this Python interpreter."),
    option("--env NAME_OR_DIR", "Inspect this venv or conda environment."),
    _check_one,
)


def _check_mirror(_: click.Context, __: click.Parameter, value: str) -> str:
    return api.check_mirror(value)


torch_index = option(
    "--torch-index URL",
    "A mirror of https://download.pytorch.org/whl.",
    envvar="ENVCHECK_TORCH_INDEX",
    callback=_check_mirror,
)
SECONDS = 10.0  # until a plan is shown as it is
_LONG = 300.0  # for who wants to know
_LIMIT = click.FloatRange(min=0, min_open=True, max=3600)


def _choose_seconds(*, verify: bool | None, verify_timeout: float | None) -> dict[str, Any]:
    seconds = verify_timeout or (_LONG if verify else SECONDS)
    return {"verify": "wheels" if verify is None else verify, "verify_timeout": seconds}


# The command takes `verify` and `verify_timeout` as the API.
verification = together(
    option(
        "--verify/--no-verify",
        "Fail unless the plan resolves on the package index;"
        " do not ask it [ask, and say what it answers].",
        default=None,
        envvar="ENVCHECK_VERIFY",
    ),
    option(
        "--verify-timeout SECONDS",
        f"Seconds to wait for the index [{SECONDS:g}; with --verify {_LONG:g}].",
        type=_LIMIT,
    ),
    taken(_choose_seconds, "verify", "verify_timeout"),
)
FOR_PEOPLE = ("text", "markdown", "html")  # formats of a report that people read


@dataclass
class Proof:
    """Whether the frameworks are imported for real, and for how long.

    None: where a person reads the report.
    """

    asked: bool | None = None
    seconds: float = 20.0

    def wanted(self, form: str) -> bool | None:
        """Return whether to import for a report in a format.

        Return None where nobody would ask why not.
        """
        if self.asked is not None or form not in FOR_PEOPLE:
            return self.asked
        return api.allows_imports()

    @classmethod
    def make(cls, *, imports: bool | None, import_timeout: float) -> dict[str, Proof]:
        """Return the keyword argument that replaces the two options: see `proving`."""
        return {"proof": cls(imports, import_timeout)}


# The command takes them as one `proof`.
proving = together(
    option(
        "--import/--no-import",
        "Import the frameworks for real;"
        " judge by files alone [import, in formats that people read].",
        "imports",
        default=None,
        envvar="ENVCHECK_IMPORT",
    ),
    option(
        "--import-timeout SECONDS",
        "Seconds for all imports together [20].",
        type=_LIMIT,
        default=20.0,
    ),
    taken(Proof.make, "imports", "import_timeout"),
)


def complete_names(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Complete the names of frameworks, and of packages on top of them, for a shell."""
    frameworks = json.loads(read_data("frameworks/identity.json"))["frameworks"].values()
    rows = (*frameworks, *json.loads(read_data("packages/index.json"))["rows"])
    return sorted(
        {name for row in rows for name in row["distributions"] if name.startswith(incomplete)}
    )


def _join_names(*, requirements: tuple[str, ...], beside: tuple[str, ...]) -> dict[str, Any]:
    return {"requirements": (*requirements, *beside)}


# A command takes `requirements` and what api.read_project takes.
with_requirements = together(
    click.argument("requirements", metavar="[REQ...]", nargs=-1, shell_complete=complete_names),
    option(
        "-r --requirement FILE", "Also what this file asks for.", "requirement_files", multiple=True
    ),
    option(
        "-c --constraint FILE",
        "Keep within this file's bounds.",
        "constraint_files",
        multiple=True,
    ),
    option(
        "--extra NAME",
        "An extra of the project that REQ names. Repeatable.",
        "extras",
        multiple=True,
    ),
    option(
        "--group NAME",
        "A dependency group of the project that REQ names, too.",
        "groups",
        multiple=True,
    ),
    option(
        "--with REQ",
        "Choose REQ together with this, such as torch==2.8.*. Repeatable.",
        "beside",
        multiple=True,
        shell_complete=complete_names,
    ),
    taken(_join_names, "requirements", "beside"),
)
upgrade = option(
    "-U --upgrade", "Replace what works in the environment by the newest release that works here."
)


def names_requirements(asked: Mapping[str, Any]) -> bool:
    """Return whether the options of `with_requirements` name anything to plan."""
    return bool(asked["requirements"] or asked["requirement_files"])


_QUIET = "Print only the verdict and its cause."
_VERBOSE = "Show where each fact was read, and every note."


def verbosity(quiet: str = _QUIET, verbose: str = _VERBOSE) -> Callable[[F], F]:
    """Add -v and -q with these help texts."""
    return together(option("-v --verbose", verbose), option("-q --quiet", quiet))


_FORCING = ("FORCE_COLOR", "CLICOLOR_FORCE")


@dataclass
class Printing:
    """How to print: in which format and colour, and how much."""

    form: str = "text"
    color_mode: str = "auto"
    verbose: bool = False
    quiet: bool = False

    @property
    def color(self) -> bool:
        """Return whether standard output gets colours."""
        return self.wants_color(sys.stdout)

    def wants_color(self, stream: TextIO) -> bool:
        """Decide by --color, NO_COLOR, FORCE_COLOR, then by whether the stream is a terminal."""
        if self.color_mode != "auto":
            return self.color_mode == "always"
        if os.environ.get("NO_COLOR"):
            return False
        if any(os.environ.get(name, "0") not in {"", "0"} for name in _FORCING):
            return True
        return os.environ.get("TERM") != "dumb" and stream.isatty()


def output_format(*forms: str) -> Callable[[F], F]:
    """Add --format with these formats, and --json for one of them.

    The command takes `form`.
    """

    def choose(*, form: str | None, as_json: bool) -> dict[str, Any]:
        if as_json and form not in (None, "json"):
            raise UserError(f"--json and --format {form} exclude each other: choose one of them.")
        return {"form": "json" if as_json else form or forms[0]}

    return together(
        option("--format", f"How to print [{forms[0]}].", "form", type=click.Choice(forms)),
        option("--json", "Short for --format json.", "as_json"),
        taken(choose, "form", "as_json"),
    )


coloring = option(
    "--color",
    "Colour the text report; auto honours NO_COLOR and FORCE_COLOR.",
    "color_mode",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
)


def printing(
    *forms: str, quiet: str = _QUIET, verbose: str = _VERBOSE, to_file: bool = True
) -> Callable[[F], F]:
    """Add --format with these formats, --json, --color, -q, -v, and -o where `to_file`.

    The command takes them as one `printing`.
    """

    def add(command: F) -> F:
        @functools.wraps(command)
        def packed(
            *,
            form: str = "text",
            color_mode: str,
            verbose: bool,
            quiet: bool,
            report_file: str | None = None,
            **others: object,
        ) -> object:
            asked = Printing(form, color_mode, verbose, quiet)
            with _writing_to(report_file):
                return command(printing=asked, **others)

        parts = [coloring, verbosity(quiet, verbose)]
        if forms and to_file:
            words = "Write to this file instead of standard output."
            parts.insert(0, option("-o --output FILE", words, "report_file", default=None))
        if forms:
            parts.insert(0, output_format(*forms))
        return together(*parts)(cast("F", packed))

    return add


@contextmanager
def _writing_to(path: str | None) -> Iterator[None]:
    """Let a file get what the block prints; it is written when the block ends."""
    if path is None:
        yield
        return
    text = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n")
    with redirect_stdout(text):
        yield
    text.seek(0)
    write_file(path, text.read())


def expectation(words: str = "What must work; auto: a GPU if there is one.") -> Callable[[F], F]:
    """Add --expect."""
    return option("--expect", words, type=click.Choice(["auto", "gpu", "cpu"]), default="auto")


def matrix(words: str) -> Callable[[F], F]:
    """Add --matrix: a file, or an address with its hash, that replaces the built-in matrix."""
    named = f"{words} A file, or https://HOST/FILE#sha256=HASH."
    return option("--matrix FILE_OR_URL", named, default=None)


def snapshot(words: str) -> Callable[[F], F]:
    """Add --snapshot: a saved machine."""
    return option("--snapshot FILE", words, default=None)


def releases(
    words: str = "Judge this release too, installed or not.", name: str = "requirements"
) -> Callable[[F], F]:
    """Add --for: requirements; the command takes them as `requirements`, or by another name."""
    return option("--for REQ", words, name, multiple=True, shell_complete=complete_names)


def installer(usual: str) -> Callable[[F], F]:
    """Add --installer; `usual` says which one is taken without it."""
    choice = click.Choice(["pip", "uv", "conda"])
    return option("--installer", f"Installer to use [{usual}].", type=choice, default=None)


class ProgressLine:
    """The last line of a terminal.

    How far the work is, and since when; none in a pipe, in CI and with -q. It is that of one work
    at a time: a smoke test within an installation takes it over.
    """

    _owner: ClassVar[ProgressLine | None] = None

    def __init__(self, *, quiet: bool = False, total: int = 0) -> None:
        is_bare = bool(os.environ.get("CI")) or os.environ.get("TERM") == "dumb"
        self.is_shown = sys.stderr.isatty() and not quiet and not is_bare
        self._total, self._done, self._text, self._since = total, 0, "", time.monotonic()
        self._lock, self._ended = threading.RLock(), threading.Event()
        self._ended.set()

    def show(self, text: str, done: int = 0, total: int = 0) -> None:
        """Show what is being done, and how many parts are."""
        with self._lock:
            if not self.is_shown:
                return
            self._text, self._done, self._total = text, done, total or self._total
            owner, ProgressLine._owner = ProgressLine._owner, self
            if owner is not None and owner is not self:
                owner.remove()
            self._draw()
            if self._ended.is_set():
                self._ended.clear()
                with suppress(RuntimeError):  # no thread to spare: the seconds stand still
                    threading.Thread(target=self._count_seconds, daemon=True).start()

    def print(self, line: str) -> None:
        """Print a line above."""
        with self._lock:
            self._write(("\r\x1b[K" if self.is_shown else "") + inert(line) + "\n")
            if not self._ended.is_set():
                self._draw()

    def close(self) -> None:
        """Remove the line, for good: a timer may still be about to show something."""
        with self._lock:
            self.is_shown = False
            self.remove()

    def remove(self) -> None:
        """Remove the line until it is shown again."""
        if not self._ended.is_set():
            self._ended.set()
            self._write("\r\x1b[K")

    def _count_seconds(self) -> None:
        while not self._ended.wait(1.0):
            with self._lock:
                if not self._ended.is_set():
                    self._draw()

    def _draw(self) -> None:
        width = terminal_size(sys.stderr)[0] - 1
        seconds = f" ({time.monotonic() - self._since:.0f} s)"
        bar = counted = ""
        if self._total:
            size = min(24, width // 4)
            full = size * min(self._done, self._total) // self._total
            left, right = ("#", "-") if wants_ascii(sys.stderr) else ("\u2501", "\u2500")
            bar = left * full + right * (size - full)
            counted = f" {self._done}/{self._total} "
        room = max(width - len(bar + counted + seconds), 0)
        self._write(
            f"\r\x1b[K{f'{bar}{counted}{inert(self._text)[:room]}'.rstrip()}{seconds}"[: width + 4]
        )

    def _write(self, text: str) -> None:
        with suppress(OSError):  # a closed terminal ends no work
            sys.stderr.write(text)
            sys.stderr.flush()


@contextmanager
def import_progress(
    printing: Printing, end_other_line: Callable[[], None]
) -> Iterator[api.OnImport]:
    """Show on a terminal what files alone say, and what is imported."""
    line = ProgressLine(quiet=printing.quiet)

    def hear(report: Report, name: str, done: int, total: int) -> None:
        if done == 0 and line.is_shown:
            end_other_line()
            line.print(f"By its files: {report.headline}")
        line.show(f"Importing {name} ...", done, total)

    try:
        yield hear
    finally:
        line.close()


_PATIENCE = 1.0  # seconds until the programs that have not answered are named


@contextmanager
def slow_programs() -> Iterator[Callable[[], None]]:
    """Name on a terminal, after a second, the programs that have not answered.

    What it yields ends that early.
    """
    line = ProgressLine()
    if not line.is_shown:
        yield line.close
        return
    timer = threading.Timer(_PATIENCE, lambda: _name_running(line))
    timer.daemon = True
    with suppress(RuntimeError):  # no thread to spare: the report matters more
        timer.start()

    def end() -> None:
        timer.cancel()
        line.close()

    try:
        yield end
    finally:
        end()


def _name_running(line: ProgressLine) -> None:
    waiting = list_running_programs()
    if waiting:
        line.show(f"Waiting for {', '.join(waiting)} ...")


def live_snapshot(python: str, env: str) -> Snapshot:
    """Read this machine, and name the programs that it waits for.

    Raises UserError as the API does.
    """
    with slow_programs():
        return api.snapshot(python=python, env=env)

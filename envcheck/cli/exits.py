"""Exit codes, and how the program ends: with a report or a sentence, never with a traceback."""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Any

from envcheck.host.interruption import exit_on_interrupt, remove_handler, was_interrupted
from envcheck.host.process import has_working_folder, kill_programs_on_signal, kill_running_programs
from envcheck.model import (
    COMPATIBLE,
    INCOMPATIBLE,
    OTHER_CAUSE,
    UNDETERMINED,
    MachineError,
    UserError,
    inert,
)

USAGE = 2
STEP_FAILED = 4
INTERNAL = 5
INTERRUPTED = 130
READER_GONE = 141  # 128 + SIGPIPE: `| head` closed the pipe

OF_VERDICT = {COMPATIBLE: 0, INCOMPATIBLE: 1, OTHER_CAUSE: 1, UNDETERMINED: 3}


def guarded(run: Callable[[list[str]], int]) -> int:
    """Run a command line; report any error as one sentence and return the exit code."""
    return _with_output(lambda: _run(run))


def end_interrupted() -> int:
    """End what still runs, report the interruption and return its exit code."""
    return _with_output(_exit_interrupted)


def leave(code: int) -> None:
    """End the process without tearing down the interpreter.

    That would cost another bare start, and would wait for a probe that hangs on a dead mount. A
    caller that redirects the output into an object, a notebook or a test, keeps its process: it
    gets a SystemExit.
    """
    if _is_redirected():
        remove_handler()
        raise SystemExit(code)
    if sys.stderr is not None:
        with suppress(OSError):
            sys.stderr.flush()
    os._exit(code)


def _is_redirected() -> bool:
    return (sys.stdout, sys.stderr) != (sys.__stdout__, sys.__stderr__)


def _with_output(work: Callable[[], int]) -> int:
    """Do the work and flush what it printed.

    Return the exit code even if the output cannot be written.
    """
    with _complete_streams():
        return _do_with_output(work)


def _do_with_output(work: Callable[[], int]) -> int:
    code = None
    _replace_unprintable_characters()
    try:
        code = work()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader went away (`| head`): keep Python from complaining at exit.
        _discard_output()
        code = READER_GONE if code is None else code
    except OSError as error:  # standard output is a full disk
        code = INTERNAL
        _discard_output()
        with suppress(OSError):
            sys.stderr.write(f"envcheck: cannot write the report: {error.strerror}\n")
    return code


@contextmanager
def _complete_streams() -> Iterator[None]:
    """Replace streams that are missing or incomplete, until the end of the block."""
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(_complete_stream, streams)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams


def _complete_stream(stream: Any) -> Any:
    if stream is None:  # the caller closed it (`>&-`), and every print would fail
        return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - open until the end
    is_complete = (
        getattr(stream, "encoding", None)
        and hasattr(stream, "isatty")
        and hasattr(stream, "fileno")
    )
    return stream if is_complete else _TextSink(stream)


class _TextSink(io.TextIOBase):
    """A text stream that writes into an object that has only `write` and `flush`."""

    encoding = "utf-8"

    def __init__(self, target: Any) -> None:
        self._target = target

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError("this stream takes text")  # click tries with bytes what a stream takes
        self._target.write(text)
        return len(text)

    def flush(self) -> None:
        self._target.flush()


def _replace_unprintable_characters() -> None:
    # A Windows code page lacks most characters that a folder may have in its name; so does a
    # terminal of the C locale, where Python writes UTF-8 all the same (PEP 540).
    is_c = (os.environ.get("LC_ALL") or os.environ.get("LANG")) in ("C", "POSIX")
    for stream in (sys.stdout, sys.stderr):
        if (
            is_c
            and stream.isatty()
            and not os.environ.get("PYTHONIOENCODING")
            and hasattr(stream, "reconfigure")
        ):
            stream.reconfigure(encoding="ascii", errors="replace")
        elif stream.encoding.lower() not in ("utf-8", "utf8") and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _discard_output() -> None:
    with suppress(io.UnsupportedOperation):  # no descriptor to be flushed at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(run: Callable[[list[str]], int]) -> int:
    # start-up objects stay alive: looking for garbage takes 5 % of a short run
    gc.set_threshold(100_000)
    kill_programs_on_signal()
    try:
        code = run(sys.argv[1:])
    except Exception as error:  # the last guard
        if was_interrupted():
            raise KeyboardInterrupt from None  # an error on the way out replaced it
        if isinstance(error, UserError):
            return _fail(
                str(error) + _note_missing_folder(),
                STEP_FAILED if isinstance(error, MachineError) else USAGE,
            )
        if isinstance(error, FileNotFoundError) and not has_working_folder():
            return _fail("the working folder no longer exists: change to another one.", USAGE)
        if isinstance(error, OSError) and error.filename is None:
            raise  # the report could not be written
        return _fail(_describe(error), INTERNAL)
    return INTERRUPTED if was_interrupted() else code


def _note_missing_folder() -> str:
    if has_working_folder():
        return ""
    return " (the working folder no longer exists)"


def _exit_interrupted() -> int:
    kill_running_programs()
    if not _is_redirected():
        exit_on_interrupt()
    return _fail("Interrupted.", INTERRUPTED)


def _describe(error: Exception) -> str:
    if os.environ.get("ENVCHECK_TRACEBACK"):
        import traceback

        traceback.print_exc()
    return (
        f"Internal error: {type(error).__name__}: {error}. This is a bug in envcheck;"
        " ENVCHECK_TRACEBACK=1 shows where. Please report it with that output."
    )


def _fail(message: str, code: int) -> int:
    if _wants_json(sys.argv[1:]):
        import json

        from envcheck.host.paths import fold_home

        document = {"schema": "envcheck/error/1", "error": fold_home(message), "exit_code": code}
        sys.stdout.write(json.dumps(document) + "\n")
    else:
        sys.stderr.write(f"envcheck: {inert(message)}\n")
    return code


def _wants_json(arguments: list[str]) -> bool:
    # the rest is of a command
    own = [] if arguments[:1] == ["run"] else arguments[: [*arguments, "--"].index("--")]
    return bool({"--json", "--format=json"} & {*own}) or ("--format", "json") in pairwise(own)

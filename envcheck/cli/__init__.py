"""The command line: `envcheck COMMAND`; a command's module is imported only when it runs."""

from __future__ import annotations

import sys

# Nothing else is imported here: until main() has begun, an interruption is answered by Python in its own words.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> None:
    """Run the command line and exit with the code the README's table gives."""
    from envcheck.host import interruption

    try:
        interruption.install_handler()
        code = _told(_run)
    except KeyboardInterrupt:
        interruption.ignore_interrupts()
        code = _told(_interrupted)
    _leave(code)


def _told(work: Callable[[], int]) -> int:
    """Do the work and get all it printed out; return the exit code, whatever becomes of the output."""
    from envcheck.cli.exits import INTERNAL, READER_GONE

    code = None
    _open_missing_streams()
    _say_all()
    try:
        code = work()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader went away (`| head`): nobody is left to tell; keep Python from complaining at exit.
        _discard_output()
        code = READER_GONE if code is None else code
    except OSError as error:  # standard output is a full disk
        code = INTERNAL
        _discard_output()
        _complain(f"cannot write the report: {error.strerror}")
    return code


def _open_missing_streams() -> None:
    # Closed by the caller (`>&-`), a stream is None here and every print would fail.
    import os

    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - lives as long as we


def _say_all() -> None:
    # A code page of Windows lacks most characters that a folder may have in its name.
    for stream in (sys.stdout, sys.stderr):
        if stream.encoding.lower() not in ("utf-8", "utf8") and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _leave(code: int) -> None:
    # Taking the interpreter down costs another bare start, and would wait for a probe that a dead mount holds.
    import os
    from contextlib import suppress

    with suppress(OSError):
        sys.stderr.flush()
    os._exit(code)


def _complain(message: str) -> None:
    from contextlib import suppress

    with suppress(OSError):
        sys.stderr.write(f"envcheck: {message}\n")


def _run() -> int:
    import gc

    from envcheck.cli.exits import INTERNAL, INTERRUPTED, USAGE, UserError
    from envcheck.host.interruption import was_interrupted
    from envcheck.host.process import kill_programs_on_signal

    gc.set_threshold(100_000)  # what a start makes stays: looking for garbage in it is a twentieth of a short run
    kill_programs_on_signal()
    try:
        from envcheck.cli.group import run

        code = run(sys.argv[1:])
    except Exception as error:  # the last guard: a sentence, never a traceback
        if was_interrupted():
            raise KeyboardInterrupt from None  # what it met on its way out took its place
        if isinstance(error, UserError):
            return _fail(str(error), USAGE)
        if isinstance(error, OSError) and error.filename is None:
            raise  # writing the report failed
        return _fail(_sentence(error), INTERNAL)
    return INTERRUPTED if was_interrupted() else code


def _interrupted() -> int:
    from envcheck.cli.exits import INTERRUPTED
    from envcheck.host.interruption import exit_on_interrupt
    from envcheck.host.process import kill_running_programs

    kill_running_programs()
    exit_on_interrupt()
    return _fail("Interrupted.", INTERRUPTED)


def _sentence(error: Exception) -> str:
    import os

    if os.environ.get("ENVCHECK_TRACEBACK"):
        import traceback

        traceback.print_exc()
    return (
        f"Internal error: {type(error).__name__}: {error}. "
        "This is a bug in envcheck; ENVCHECK_TRACEBACK=1 shows where. Please report it with that output."
    )


def _fail(message: str, code: int) -> int:
    if _wants_json(sys.argv[1:]):
        import json

        document = {"schema": "envcheck/error/1", "error": message, "exit_code": code}
        sys.stdout.write(json.dumps(document) + "\n")
    else:
        from envcheck.model.text import inert

        sys.stderr.write(f"envcheck: {inert(message)}\n")
    return code


def _wants_json(arguments: list[str]) -> bool:
    pairs = zip(arguments, [*arguments, ""][1:], strict=True)
    return any(option == "--format=json" or (option == "--format" and value == "json") for option, value in pairs)


def _discard_output() -> None:
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

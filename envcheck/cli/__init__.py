"""The command line: `envcheck COMMAND`; a command's module is imported only when it runs."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import NoReturn

from envcheck.cli.exits import INTERNAL, INTERRUPTED, USAGE, UserError


def main() -> None:
    """Run the command line and exit with the code the README's table gives."""
    code = INTERNAL
    _open_missing_streams()
    try:
        from envcheck.host.ending import end_cleanly_when_told

        end_cleanly_when_told()
        code = _run()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader went away (`| head`): nobody is left to tell; keep Python from complaining at exit.
        _discard_output()
    except OSError as error:  # standard output is a full disk
        code = INTERNAL
        _discard_output()
        _complain(f"cannot write the report: {error.strerror}")
    _leave(code)


def _open_missing_streams() -> None:
    # Closed by the caller (`>&-`), a stream is None here and every print would fail.
    import os

    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - lives as long as we


def _leave(code: int) -> NoReturn:
    # Taking the interpreter down costs another bare start, and would wait for a probe that a dead mount holds.
    import os

    with suppress(OSError):
        sys.stderr.flush()
    os._exit(code)


def _complain(message: str) -> None:
    with suppress(OSError):
        sys.stderr.write(f"envcheck: {message}\n")


def _run() -> int:
    try:
        from envcheck.cli.group import run

        return run(sys.argv[1:])
    except UserError as error:
        return _fail(str(error), USAGE)
    except KeyboardInterrupt:
        from envcheck.host.process import end_running

        end_running()
        return _fail("Interrupted.", INTERRUPTED)
    except Exception as error:  # the last guard: a sentence, never a traceback
        if isinstance(error, OSError) and error.filename is None:
            raise  # writing the report failed
        return _fail(_sentence(error), INTERNAL)


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
        from envcheck.render.inert import inert

        sys.stderr.write(f"envcheck: {inert(message)}\n")
    return code


def _wants_json(arguments: list[str]) -> bool:
    pairs = zip(arguments, [*arguments[1:], ""], strict=True)
    return any(option == "--format=json" or (option == "--format" and value == "json") for option, value in pairs)


def _discard_output() -> None:
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

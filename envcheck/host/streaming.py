"""Run a long program and hand on each line it prints while it runs."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from typing import IO, Callable, Mapping, Optional, Sequence

from envcheck.host.process import tracked
from envcheck.model.records import dataclass

LINE_LIMIT = 32 << 20  # bytes of one line; what is longer is dropped whole
_PAUSE = 0.2  # seconds of silence after which to look whether the program has ended


@dataclass(frozen=True)
class Ended:
    """How a program ended: its status (negative: a signal), None when its time was up or it did not start."""

    code: Optional[int]
    detail: str = ""


def run_streaming(
    argv: Sequence[str],
    environment: Mapping[str, str],
    heard: Callable[[str], None],
    *,
    log: IO[bytes],
    seconds: float,
    stdin: Optional[str] = None,
) -> Ended:
    """Run `argv` in a session of its own, standard error to `log`, the file `stdin` as its input, for `seconds`."""
    try:
        with open(stdin or os.devnull, "rb") as given:  # noqa: SIM117 - too long for one, and 3.8 has no brackets here
            with tracked(lambda: _start(argv, environment, given, log)) as process:
                return _hear(process, heard, time.monotonic() + seconds)
    except OSError as error:
        return Ended(None, f"{argv[0]} could not be started: {error.strerror or error}")


def _start(
    argv: Sequence[str], environment: Mapping[str, str], given: IO[bytes], log: IO[bytes]
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        list(argv),
        stdin=given,
        stdout=subprocess.PIPE,
        stderr=log,
        env=dict(environment),
        start_new_session=os.name == "posix",
    )


def _hear(process: "subprocess.Popen[bytes]", heard: Callable[[str], None], deadline: float) -> Ended:
    assert process.stdout is not None  # noqa: S101 - asked for above
    held = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while time.monotonic() < deadline:
            done = process.poll() is not None  # before the look at the pipe: what it printed last is in it then
            if not selector.select(0.0 if done else _PAUSE):
                if done:
                    break  # a child of it holds the pipe
                continue
            chunk = os.read(process.stdout.fileno(), 1 << 16)
            if not chunk:
                break
            held += chunk
            if b"\n" in chunk or len(held) > LINE_LIMIT:
                _lines(held, heard)
        else:
            return Ended(None, "its time was up")
    heard(held.decode("utf-8", "replace")) if held else None
    return Ended(_status(process, deadline))


def _lines(held: bytearray, heard: Callable[[str], None]) -> None:
    """Hand on the whole lines and keep the rest."""
    end = held.rfind(b"\n")
    if end >= 0:
        for line in bytes(held[:end]).split(b"\n"):
            heard(line.decode("utf-8", "replace"))
        del held[: end + 1]
    else:
        held.clear()


def _status(process: "subprocess.Popen[bytes]", deadline: float) -> Optional[int]:
    try:
        return process.wait(max(1.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return None

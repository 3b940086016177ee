"""Run one step of an installation: everything it prints is heard, and it ends when this process ends."""

from __future__ import annotations

import os
import subprocess
import threading
from typing import Callable, Mapping, Optional, Sequence

from envcheck.host.process import end_group, tracked
from envcheck.host.streaming import Ended
from envcheck.model.records import dataclass


@dataclass(frozen=True)
class Stepping:
    """How steps run: their variables, where their lines go, what each does first in its own process."""

    environment: Mapping[str, str]
    heard: Callable[[str], None]
    seconds: float
    begins: Optional[Callable[[], None]] = None  # between fork and exec, in its own session; not on Windows


def run_step(argv: Sequence[str], how: Stepping, environment: Mapping[str, str]) -> Ended:
    """Run `argv` in a session of its own, its output and errors heard line by line as one stream."""
    try:
        with tracked(lambda: _start(argv, {**how.environment, **environment}, how.begins)) as process:
            return _hear(process, how)
    except OSError as error:
        return Ended(None, f"{argv[0]} could not be started: {error.strerror or error}")


def _start(
    argv: Sequence[str], environment: Mapping[str, str], begins: Optional[Callable[[], None]]
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(environment),
        start_new_session=os.name == "posix",
        preexec_fn=begins if os.name == "posix" else None,  # noqa: PLW1509 - no other thread runs while a step starts
    )


def _hear(process: "subprocess.Popen[bytes]", how: Stepping) -> Ended:
    late = threading.Event()

    def end() -> None:
        late.set()
        end_group(process)

    timer = threading.Timer(how.seconds, end)
    timer.daemon = True
    timer.start()
    try:
        assert process.stdout is not None  # noqa: S101 - asked for above
        for line in process.stdout:
            how.heard(line.decode("utf-8", "replace").rstrip("\r\n"))
        code = process.wait()
    finally:
        timer.cancel()
    return Ended(None, "its time was up") if late.is_set() else Ended(code)

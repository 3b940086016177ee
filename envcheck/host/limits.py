"""Run a program that writes a report, with limits on its time and memory."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import time
from typing import IO, Callable, Iterator, Optional, Sequence

from envcheck.host.process import start_process
from envcheck.host.protocol import Variables
from envcheck.host.system import kill_processes_with_variable, read_resident_memory
from envcheck.model import dataclass

_PAUSE = 0.02  # seconds to wait for the end of a silent program
_MEMORY_INTERVAL = 0.1  # seconds between checks of its memory
_CHUNK = 1 << 16  # bytes that are read at once
_MARK = "ENVCHECK_RUN"  # the variable by which all that a program starts is found
_numbers = itertools.count(1)
REPORT_LIMIT = 4 << 20  # bytes of a report; the rest is dropped

EXITED = "exited"
TIME = "time"
MEMORY = "memory"
OUTPUT = "output"
NOT_STARTED = "not started"


@dataclass
class Limits:
    """What a program and its children may use.

    Seconds, resident bytes (None: all memory), and room for their log.
    """

    seconds: float
    memory: Optional[int] = None
    output: int = 256 << 20  # bytes


@dataclass
class LimitedRun:
    """How a program with limits ended, and its report."""

    # EXITED; TIME, MEMORY or OUTPUT: the limit that it exceeded; NOT_STARTED: see detail
    ended: str
    code: int = 0  # exit status; negative: the signal that ended it
    seconds: float = 0.0
    peak_memory: Optional[int] = None  # resident bytes; None where the system does not report them
    report: str = ""
    detail: str = ""

    @property
    def signal(self) -> str:
        """Name the signal that ended it, "" for none: SIGSEGV."""
        if self.code >= 0 or os.name != "posix":
            return ""
        import signal  # its enums take a tenth of an interpreter start

        try:
            return signal.Signals(-self.code).name
        except ValueError:
            return f"signal {-self.code}"


def run_with_limits(
    argv: Sequence[str],
    environment: Variables,
    log: str,
    limits: Limits,
    on_line: Callable[[str], None],
    *,
    folder: Optional[str] = None,
) -> LimitedRun:
    """Run `argv` + ("--report", PATH), where it writes a report.

    Its standard output and error go to `log`.

    `on_line` receives each whole line of the report; `folder` is where it starts, if not here. The
    limit on memory is resident memory, never RLIMIT_AS: CUDA reserves more addresses than any
    machine has memory. All that the program started ends with it, in sessions of their own too: it
    is found by a variable.
    """
    mark = f"{os.getpid()}.{next(_numbers)}"
    path = os.path.abspath(f"{log}.report")
    place = {"cwd": folder} if folder else {}
    with contextlib.ExitStack() as stack:
        stack.callback(kill_processes_with_variable, _MARK, mark)
        try:
            stream = stack.enter_context(open(log, "wb"))
            report = _Report(stack.enter_context(_open_report(path)), on_line)
            process = stack.enter_context(
                start_process(
                    (*argv, "--report", path),
                    {**environment, _MARK: mark},
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    **place,
                )
            )
        except OSError as error:
            return LimitedRun(
                NOT_STARTED, detail=f"{argv[0]} could not be started: {error.strerror or error}"
            )
        return _wait(process, limits, report, stream.fileno())


@contextlib.contextmanager
def _open_report(path: str) -> Iterator[IO[bytes]]:
    """Open a file that is removed when the block ends."""
    try:
        with open(path, "wb+") as stream:
            yield stream
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)


class _Report:
    """Reads a report while its file grows, and passes on each whole line."""

    def __init__(self, stream: IO[bytes], on_line: Callable[[str], None]) -> None:
        self._stream, self._on_line, self._line, self.content = stream, on_line, b"", bytearray()

    @property
    def size(self) -> int:
        """Return the bytes that were written, read or not."""
        return os.fstat(self._stream.fileno()).st_size

    def collect(self) -> bool:
        """Read what has arrived; return whether there was anything."""
        chunk = self._stream.read(_CHUNK)
        if chunk and len(self.content) < REPORT_LIMIT:
            self.content += chunk
            *lines, self._line = (self._line + chunk).split(b"\n")
            for line in lines:
                self._on_line(line.decode("utf-8", "replace"))
        return bool(chunk)


def _wait(
    process: "subprocess.Popen[bytes]", limits: Limits, report: _Report, log: int
) -> LimitedRun:
    start = time.monotonic()
    ended, code, peak, next_check = EXITED, None, None, start
    while code is None:
        now = time.monotonic()
        if now >= next_check:
            next_check = now + _MEMORY_INTERVAL
            memory = read_resident_memory(process.pid)
            if peak is None or (memory is not None and memory > peak):
                peak = memory
            if limits.memory is not None and memory is not None and memory > limits.memory:
                ended = MEMORY
            if max(os.fstat(log).st_size, report.size) > limits.output:
                ended = OUTPUT
        if now - start > limits.seconds:
            ended = TIME
        if ended != EXITED:
            break
        if not report.collect():
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(_PAUSE)
    while len(report.content) < REPORT_LIMIT and report.collect():
        pass
    seconds = time.monotonic() - start
    return LimitedRun(ended, code or 0, seconds, peak, report.content.decode("utf-8", "replace"))

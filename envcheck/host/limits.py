"""Run a program that reports on its own descriptor, with limits on its time and memory."""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import subprocess
import time
from typing import IO, Any, Callable, Iterator, Mapping, Optional, Sequence, Tuple

from envcheck.host.process import adopt_orphans, start_process
from envcheck.host.protocol import Variables
from envcheck.host.system import kill_processes_with_variable, read_resident_memory
from envcheck.model import dataclass

_PAUSE = 0.02  # seconds between checks of a silent program
_MEMORY_INTERVAL = 0.1  # seconds between checks of its memory
# reads after its end: one empties a pipe, and a child that still writes must not delay the result
_FINAL_READS = 4
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
    """Run `argv` + ("--fd", N), or ("--file", PATH) on Windows.

    Its standard output and error go to `log`.

    `on_line` receives each whole line of the report; `folder` is where it starts, if not here. The
    limit on memory is resident memory, never RLIMIT_AS: CUDA reserves more addresses than any
    machine has memory. All that the program started ends with it, in sessions of their own too: it
    is found by a variable, or as an orphan where it cleared its environment.
    """
    start = _start_with_pipe if os.name == "posix" else _start_with_file
    mark = f"{os.getpid()}.{next(_numbers)}"
    with contextlib.ExitStack() as stack:
        stack.enter_context(adopt_orphans())
        stack.callback(kill_processes_with_variable, _MARK, mark)
        try:
            stream = stack.enter_context(open(log, "wb"))
            place = {"cwd": folder} if folder else {}
            process, report = stack.enter_context(
                start(argv, {**environment, _MARK: mark}, stream, on_line, place)
            )
        except OSError as error:
            return LimitedRun(
                NOT_STARTED, detail=f"{argv[0]} could not be started: {error.strerror or error}"
            )
        return _wait(process, limits, report, stream.fileno())


@contextlib.contextmanager
def _start_with_pipe(
    argv: Sequence[str],
    environment: Variables,
    log: IO[bytes],
    on_line: Callable[[str], None],
    place: Mapping[str, str],
) -> "Iterator[Tuple[subprocess.Popen[bytes], _ReportFile]]":
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    output: Any = {"stdout": log, "stderr": subprocess.STDOUT, "pass_fds": (writer,), **place}
    try:
        with start_process((*argv, "--fd", str(writer)), environment, **output) as process:
            os.close(writer)
            writer = -1
            yield process, _ReportPipe(reader, on_line)
    finally:
        os.close(reader)
        if writer >= 0:
            os.close(writer)


@contextlib.contextmanager
def _start_with_file(
    argv: Sequence[str],
    environment: Variables,
    log: IO[bytes],
    on_line: Callable[[str], None],
    place: Mapping[str, str],
) -> "Iterator[Tuple[subprocess.Popen[bytes], _ReportFile]]":
    # A child on Windows inherits no descriptors: the program writes to a file that is read while it
    # grows.
    import tempfile  # slow to import, and only Windows needs it

    output: Any = {"stdout": log, "stderr": subprocess.STDOUT, **place}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report")
        argv = (*argv, "--file", path)
        with open(path, "wb+") as report, start_process(argv, environment, **output) as process:
            yield process, _ReportFile(report, on_line)


class _ReportFile:
    """Read a report from a file that grows, and pass on each whole line."""

    def __init__(self, stream: Optional[IO[bytes]], on_line: Callable[[str], None]) -> None:
        self._stream, self._on_line, self._line, self.report = stream, on_line, b"", bytearray()

    def collect(self) -> bool:
        """Read what has arrived; return whether there was anything."""
        chunk = self.read()
        if chunk and len(self.report) < REPORT_LIMIT:
            self.report += chunk
            *lines, self._line = (self._line + chunk).split(b"\n")
            for line in lines:
                self._on_line(line.decode("utf-8", "replace"))
        return bool(chunk)

    def read(self) -> bytes:
        """Return new bytes, b"" for none."""
        return self._stream.read(1 << 16) if self._stream is not None else b""

    def wait(self, process: "subprocess.Popen[bytes]") -> Optional[int]:
        """Wait a moment for new bytes; return the exit status of a process that has ended."""
        try:
            return process.wait(_PAUSE)
        except subprocess.TimeoutExpired:
            return None


class _ReportPipe(_ReportFile):
    """Read a report from a pipe, whose end shows that the process ends without polling it."""

    def __init__(self, descriptor: int, on_line: Callable[[str], None]) -> None:
        super().__init__(None, on_line)
        self._descriptor, self._is_open = descriptor, True

    def read(self) -> bytes:
        """Return new bytes, b"" for none."""
        try:
            chunk = os.read(self._descriptor, 1 << 16)
        except BlockingIOError:
            return b""
        self._is_open = bool(chunk)
        return chunk

    def wait(self, process: "subprocess.Popen[bytes]") -> Optional[int]:
        """Wait for new bytes; once the pipe is closed, for the end of the process."""
        if not self._is_open:
            return super().wait(process)
        select.select([self._descriptor], [], [], _MEMORY_INTERVAL)
        return process.poll()


def _wait(
    process: "subprocess.Popen[bytes]", limits: Limits, report: _ReportFile, log: int
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
            if os.fstat(log).st_size > limits.output:
                ended = OUTPUT
        if now - start > limits.seconds:
            ended = TIME
        if ended != EXITED:
            break
        if not report.collect():
            code = report.wait(process)
    for _ in range(_FINAL_READS):
        report.collect()
    seconds = time.monotonic() - start
    return LimitedRun(ended, code or 0, seconds, peak, report.report.decode("utf-8", "replace"))

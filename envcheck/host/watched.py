"""Run a program that reports over a descriptor of its own, and watch its time and memory."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from typing import IO, Callable, Iterator, Mapping, Optional, Sequence

from envcheck.host.process import tracked
from envcheck.host.usage import resident_memory
from envcheck.model import dataclass

_PAUSE = 0.02  # seconds between looks at a program that says nothing
_LOOK = 0.1  # seconds between looks at its memory
_LAST_WORDS = 4  # reads after the end: a pipe holds one, and a program that still talks is not waited for
SAID_LIMIT = 4 << 20  # bytes of a report; what is beyond is left out

EXITED = "exited"
TIME = "time"
MEMORY = "memory"
NOT_STARTED = "not started"


@dataclass(frozen=True)
class Limits:
    """What a program may use: seconds, and resident bytes with its children (None: all there is)."""

    seconds: float
    memory: Optional[int] = None


@dataclass(frozen=True)
class Watched:
    """How a watched program ended, and what it said."""

    ended: str  # EXITED, TIME, MEMORY: what ended it; NOT_STARTED: see detail
    code: int = 0  # exit status; negative: ended by that signal
    seconds: float = 0.0
    peak_memory: Optional[int] = None  # resident bytes; None where they could not be read
    said: str = ""
    detail: str = ""


def run_watched(
    argv: Sequence[str],
    environment: Mapping[str, str],
    log: str,
    limits: Limits,
    heard: Callable[[str], None],
) -> Watched:
    """Run `argv` + ("--fd", N), or ("--file", PATH) on Windows, its standard output and error written to `log`.

    The process gets a session of its own and ends with all of it when time or memory are used up: resident memory,
    never RLIMIT_AS, since CUDA reserves more addresses than any machine has memory. `heard` gets each whole line.
    """
    try:
        with open(log, "wb") as stream:
            if os.name == "posix":
                return _run_with_pipe(argv, environment, stream, limits, heard)
            return _run_with_file(argv, environment, stream, limits, heard)
    except OSError as error:
        return Watched(NOT_STARTED, detail=f"{argv[0]} could not be started: {error.strerror or error}")


def _run_with_pipe(
    argv: Sequence[str],
    environment: Mapping[str, str],
    log: IO[bytes],
    limits: Limits,
    heard: Callable[[str], None],
) -> Watched:
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)
    try:
        with tracked(lambda: _start((*argv, "--fd", str(theirs)), environment, log, (theirs,))) as process:
            os.close(theirs)
            theirs = -1
            return _watch(process, limits, _PipeEar(ours, heard))
    finally:
        os.close(ours)
        if theirs >= 0:
            os.close(theirs)


def _run_with_file(
    argv: Sequence[str],
    environment: Mapping[str, str],
    log: IO[bytes],
    limits: Limits,
    heard: Callable[[str], None],
) -> Watched:
    # Windows hands no descriptors down: the program writes to a file that is read while it grows.
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "said")
        with open(path, "wb+") as said, tracked(lambda: _start((*argv, "--file", path), environment, log)) as process:
            return _watch(process, limits, _Ear(said, heard))


def _start(
    argv: Sequence[str], environment: Mapping[str, str], log: IO[bytes], descriptors: Sequence[int] = ()
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        env=dict(environment),
        pass_fds=tuple(descriptors),
        start_new_session=os.name == "posix",
    )


class _Ear:
    """Collect what a program says to a file that grows, and hand on each whole line."""

    def __init__(self, stream: Optional[IO[bytes]], heard: Callable[[str], None]) -> None:
        self._stream, self._heard, self._line, self.said = stream, heard, b"", bytearray()

    def listen(self) -> bool:
        """Take what is there; return whether there was anything."""
        chunk = self.read()
        if chunk and len(self.said) < SAID_LIMIT:
            self.said += chunk
            *lines, self._line = (self._line + chunk).split(b"\n")
            for line in lines:
                self._heard(line.decode("utf-8", "replace"))
        return bool(chunk)

    def read(self) -> bytes:
        """Return what is new, empty where nothing is."""
        return self._stream.read(1 << 16) if self._stream is not None else b""

    def wait(self, process: "subprocess.Popen[bytes]") -> Optional[int]:
        """Wait a moment for something to happen; return the exit status of a process that has ended."""
        try:
            return process.wait(_PAUSE)
        except subprocess.TimeoutExpired:
            return None


class _PipeEar(_Ear):
    """Listen at a pipe, whose end tells the process's own without looking for it again and again."""

    def __init__(self, descriptor: int, heard: Callable[[str], None]) -> None:
        super().__init__(None, heard)
        self._descriptor, self._open = descriptor, True

    def read(self) -> bytes:
        """Return what is new, empty where nothing is."""
        try:
            chunk = os.read(self._descriptor, 1 << 16)
        except BlockingIOError:
            return b""
        self._open = bool(chunk)
        return chunk

    def wait(self, process: "subprocess.Popen[bytes]") -> Optional[int]:
        """Wait for the next word; once the pipe is closed, for the end."""
        if not self._open:
            return super().wait(process)
        select.select([self._descriptor], [], [], _LOOK)
        return process.poll()


def _watch(process: "subprocess.Popen[bytes]", limits: Limits, ear: _Ear) -> Watched:
    begun = time.monotonic()
    ended, code, peak, next_look = EXITED, None, None, begun
    while code is None:
        now = time.monotonic()
        if now >= next_look:
            next_look = now + _LOOK
            held = resident_memory(process.pid)
            peak = held if peak is None or (held is not None and held > peak) else peak
            if limits.memory is not None and held is not None and held > limits.memory:
                ended = MEMORY
        if now - begun > limits.seconds:
            ended = TIME
        if ended != EXITED:
            break
        if not ear.listen():
            code = ear.wait(process)
    for _ in range(_LAST_WORDS):
        ear.listen()
    seconds = time.monotonic() - begun
    return Watched(ended, code or 0, seconds, peak, ear.said.decode("utf-8", "replace"))


_ROUNDS = 5  # a process may start another while the list is read


def end_marked(name: str, value: str) -> None:
    """End every process of this user with `name=value` in its environment; nothing happens where there is no /proc.

    Ansible's workers and the ssh they start are in sessions of their own, and outlive a kill of Ansible and its limits.
    """
    wanted = f"{name}={value}".encode()
    for _ in range(_ROUNDS):
        found = list(_bearing(wanted))
        for process in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        if not found:
            return


def _bearing(wanted: bytes) -> Iterator[int]:
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    for name in filter(str.isdigit, names):
        with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as stream:
            if wanted in stream.read().split(b"\0"):
                yield int(name)

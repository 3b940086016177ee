"""Run long programs whose output is read line by line, end them with this process, and guard what they change."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from typing import IO, Any, Callable, Dict, Iterator, Mapping, Optional, Sequence

import envcheck
from envcheck.host.process import end_group, tracked
from envcheck.model import dataclass

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
        with tracked(lambda: _start_step(argv, {**how.environment, **environment}, how.begins)) as process:
            return _hear_step(process, how)
    except OSError as error:
        return Ended(None, f"{argv[0]} could not be started: {error.strerror or error}")


def _start_step(
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


def _hear_step(process: "subprocess.Popen[bytes]", how: Stepping) -> Ended:
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


DONE = "done"  # what the guard hears when all went well
LEFT = "left"  # what it hears when something was left to it by a process that lives and still holds its lock
_GRACE, _GUARD_PAUSE = 2.0, 0.005  # seconds until what was killed is gone, or belongs to nobody who would collect it
_NEW_PROCESS_GROUP, _NO_WINDOW = 0x200, 0x8000000  # winbase.h; a window of its own, which is never shown
_START = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); import importlib; importlib.import_module(sys.argv[1]).main()"
)


class Guard:
    """A process in a session of its own that runs `module`.main() and hears on its standard input what happens here.

    Its standard input ends with this process: what was running then, and what to do, it knows from the lines before.
    """

    def __init__(self, module: str, arguments: Sequence[str], held: Sequence[int] = ()) -> None:
        """Start the guard; it goes on holding the descriptors `held`, which Windows hands down to nobody."""
        root = os.path.dirname(os.path.dirname(os.path.abspath(envcheck.__file__)))
        reader, self._writer = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, root, module, *arguments],
                stdin=reader,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                **_apart(held),
            )
        finally:
            os.close(reader)

    def name_group(self) -> None:
        """Tell the guard, from a process that leads its own group, that it runs: call it between fork and exec."""
        os.write(self._writer, b"%d\n" % os.getpid())

    def group_ended(self) -> None:
        """Tell the guard that the process that named itself last has ended: its number may become another's."""
        os.write(self._writer, b"idle\n")

    def dismiss(self, *, all_is_well: bool) -> None:
        """Let the guard end, and wait for that; where all is not well, it puts things right as after a kill."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._writer, (DONE if all_is_well else LEFT).encode() + b"\n")
        os.close(self._writer)
        self._process.wait()


def _apart(held: Sequence[int]) -> Dict[str, Any]:
    """Say how a process starts that what ends this one, or is typed or closed where it runs, does not reach."""
    if os.name == "posix":
        return {"pass_fds": tuple(held), "start_new_session": True}
    return {"creationflags": _NEW_PROCESS_GROUP | _NO_WINDOW}


def is_needed(lines: Sequence[str]) -> bool:
    """Tell from what a guard heard whether its process was killed; end what that was running."""
    last = lines[-1].strip() if lines else ""
    if last.isdigit():
        _end_group(int(last))
    return last != DONE


def _end_group(group: int) -> None:
    deadline = time.monotonic() + _GRACE
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
        while time.monotonic() < deadline:
            os.killpg(group, 0)
            time.sleep(_GUARD_PAUSE)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Let nothing but SIGKILL end the block: what is half put back must be put back whole."""
    names = [name for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = [signal.signal(getattr(signal, name), signal.SIG_IGN) for name in names]
    try:
        yield
    finally:
        for name, handler in zip(names, before):
            signal.signal(getattr(signal, name), handler)

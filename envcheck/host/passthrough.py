"""Run a command between the user and the terminal without changing what either sees."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple


class OutputChannel:
    """One way out of the command: the end it writes to, the end we read, and where that goes."""

    def __init__(self, name: str, target: int) -> None:
        self.name = name
        self.target = target
        self.is_terminal = os.name == "posix" and os.isatty(target)
        self.outer, self.inner = _open_terminal_like(target) if self.is_terminal else os.pipe()


def is_same_file(first: int, second: int) -> bool:
    """Tell whether two descriptors lead to the same file, pipe or terminal."""
    try:
        return os.path.sameopenfile(first, second)
    except OSError:
        return False


def _open_terminal_like(target: int) -> Tuple[int, int]:
    """Open a terminal like the one at `target`: same size, and what is written to it comes out unchanged."""
    import pty
    import termios

    outer, inner = pty.openpty()
    with contextlib.suppress(termios.error):
        settings: List[Any] = termios.tcgetattr(target)
        settings[1] &= ~termios.OPOST  # the real terminal turns line feeds into line ends
        settings[3] &= ~termios.ECHO
        termios.tcsetattr(inner, termios.TCSANOW, settings)
    copy_terminal_size(target, outer)
    return outer, inner


def copy_terminal_size(source: int, target: int) -> None:
    """Give one terminal the size of another."""
    import fcntl
    import termios

    with contextlib.suppress(OSError):
        fcntl.ioctl(target, termios.TIOCSWINSZ, fcntl.ioctl(source, termios.TIOCGWINSZ, b"\0" * 8))


Watch = Callable[[str, bytes], None]  # (stream, what arrived): stream is output, stdout or stderr

_BLOCK = 65536
_SILENCE = 1.0  # seconds for which what a command left running may stay silent before it is not listened to
_FORWARDED = ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH")


_KEYBOARD = tuple(getattr(signal, name) for name in ("SIGINT", "SIGQUIT") if hasattr(signal, name))
_ENDING = _KEYBOARD + tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class CommandResult:
    """How a command ended."""

    def __init__(self, status: int, signals: Sequence[int], unwatched: str) -> None:
        self.status = (
            status  # as a shell gives it: 128 + n when signal n ended the command; below 0: a crash on Windows
        )
        self.was_told_to_end = any(number in _ENDING for number in signals)  # Ctrl-C, or a signal passed on
        self.unwatched = unwatched  # why its output was not looked at to the end; "" when it was

    @property
    def words(self) -> str:
        """Say what a shell would of a crashed or killed command: "Killed", "0xC0000005"; "" for any other end."""
        if self.status < 0:
            return f"0x{self.status & 0xFFFFFFFF:X}"
        if os.name != "posix" or not 128 < self.status < 160:
            return ""
        return (signal.strsignal(self.status - 128) or "").partition(":")[0]  # macOS adds the number


class CommandNotStartedError(Exception):
    """A command could not be started; `status` is what a shell returns: 127 not found, 126 not executable."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def run_command(argv: Sequence[str], watch: Watch) -> CommandResult:
    """Run `argv` with this program's standard input and copy its output, byte for byte, to this program's.

    Where standard output or error is a terminal the command gets a terminal too, so that colours and progress bars
    live; where both are the same file, pipe or terminal, it gets one for both, so that their order stays.
    `watch` is called from other threads, one call at a time, after the bytes were passed on.
    """
    outlets = (
        [OutputChannel("output", 1)] if is_same_file(1, 2) else [OutputChannel("stdout", 1), OutputChannel("stderr", 2)]
    )
    with _SignalForwarder(outlets) as signals:
        try:
            process = _start(argv, outlets)
        finally:
            for outlet in outlets:
                os.close(outlet.inner)
        signals.send_to(process)
        lock = threading.Lock()
        copiers = [_Copier(outlet, watch, lock) for outlet in outlets]
        with _block_signals():  # threads begin with that, so signals wake this one, which passes them on
            for copier in copiers:
                copier.start()
        code = process.wait()
        ended = time.monotonic()
        for copier in copiers:
            copier.finish(ended)
    return CommandResult(convert_exit_status(code), signals.seen, next((c.failure for c in copiers if c.failure), ""))


def convert_exit_status(code: int) -> int:
    """Turn what subprocess says of a command's end into what this program can end with to say the same.

    Signal 9 is -9 there and 137 in a shell. Windows' 0xC0000005 is too large for an exit status of Python, the negative
    number of the same 32 bits is not.
    """
    if code < 0:
        return 128 - code
    return code - (1 << 32) if code >= 1 << 31 else code


def _start(argv: Sequence[str], outlets: Sequence[OutputChannel]) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(list(argv), stdout=outlets[0].inner, stderr=outlets[-1].inner, close_fds=False)
    except FileNotFoundError:
        if os.path.lexists(argv[0]) and os.path.dirname(argv[0]):
            raise CommandNotStartedError(f"{argv[0]}: what it needs to start is missing", 127) from None
        raise CommandNotStartedError(f"{argv[0]}: command not found", 127) from None
    except NotADirectoryError:
        raise CommandNotStartedError(f"{argv[0]}: command not found", 127) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CommandNotStartedError(f"{argv[0]}: {reason}", 126) from None


@contextlib.contextmanager
def _block_signals() -> Iterator[None]:
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Copier(threading.Thread):
    """Copy one outlet until its end; when nobody reads our side any more, let the command know by closing its."""

    def __init__(self, outlet: OutputChannel, watch: Watch, lock: threading.Lock) -> None:
        super().__init__(daemon=True)
        self.failure = ""
        self._outlet = outlet
        self._watch: Optional[Watch] = watch
        self._lock = lock
        self._heard = time.monotonic()

    def run(self) -> None:
        """Copy: the thread's work."""
        with contextlib.suppress(OSError):  # the last writer to a terminal is gone; our reader is gone
            while True:
                block = os.read(self._outlet.outer, _BLOCK)
                if not block:
                    break
                self._heard = time.monotonic()
                _write(self._outlet.target, block)
                self._show(block)
        with contextlib.suppress(OSError):
            os.close(self._outlet.outer)

    def finish(self, ended: float) -> None:
        """Wait for what was printed, but not for a process that the command left behind and that holds the pipe."""
        while self.is_alive() and time.monotonic() - max(self._heard, ended) < _SILENCE:
            self.join(0.05)

    def _show(self, block: bytes) -> None:
        if self._watch is None:
            return
        try:
            with self._lock:
                self._watch(self._outlet.name, block)
        except Exception as error:  # noqa: BLE001 - a guard: the command must be able to print on, whatever we see in it
            self.failure = f"{type(error).__name__}: {error}"
            self._watch = None


def _write(target: int, block: bytes) -> None:
    view = memoryview(block)
    while view:
        view = view[_write_once(target, view) :]


def _write_once(target: int, view: memoryview) -> int:
    try:
        return os.write(target, view)
    except BlockingIOError:  # somebody made our standard output non-blocking: wait as a blocking one would
        select.select([], [target], [])
        return 0


class _SignalForwarder:
    """Pass signals on to the command while it runs; those of the keyboard reach it by themselves."""

    def __init__(self, outlets: Sequence[OutputChannel]) -> None:
        self.seen: List[int] = []
        self._terminals = [outlet for outlet in outlets if outlet.is_terminal]
        self._process: "Optional[subprocess.Popen[bytes]]" = None
        self._previous: Dict[int, Any] = {}

    def __enter__(self) -> "_SignalForwarder":  # noqa: PYI034 - Python 3.8 has no Self
        for name in ("SIGINT", *_FORWARDED):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) != signal.SIG_IGN:  # what nohup ignores stays ignored
                self._previous[number] = signal.signal(number, self._forward)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def send_to(self, process: "subprocess.Popen[bytes]") -> None:
        """Name the command, and send it what came while it was being started."""
        self._process = process
        for number in self.seen:
            process.send_signal(number)

    def _forward(self, number: int, frame: object) -> None:
        del frame
        if number not in _ENDING:
            for outlet in self._terminals:
                copy_terminal_size(outlet.target, outlet.outer)
        self.seen.append(number)
        if self._process is not None and not (number in _KEYBOARD and _is_in_foreground()):
            with contextlib.suppress(OSError):
                self._process.send_signal(number)


def _is_in_foreground() -> bool:
    """Say whether the keyboard's signals reach this program and the command alike."""
    if os.name != "posix":
        return True
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)

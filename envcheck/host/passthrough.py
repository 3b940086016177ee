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

Watch = Callable[[str, bytes], None]  # (stream, block); stream is output, stdout or stderr

_BLOCK = 65536
_SILENCE = 1.0  # seconds without output after which a background process is no longer read
_FORWARDED = ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH")
_KEYBOARD = tuple(getattr(signal, name) for name in ("SIGINT", "SIGQUIT") if hasattr(signal, name))
_STOPPING = _KEYBOARD + tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class OutputChannel:
    """One output of the command: the end it writes to, the end read here, and the target descriptor."""

    def __init__(self, name: str, target: int) -> None:
        self.name = name
        self.target = target
        self.is_terminal = os.name == "posix" and os.isatty(target)
        self.outer, self.inner = _open_terminal_like(target) if self.is_terminal else os.pipe()


def is_same_file(first: int, second: int) -> bool:
    """Tell whether two descriptors are the same file, pipe or terminal."""
    try:
        return os.path.sameopenfile(first, second)
    except OSError:
        return False


def _open_terminal_like(target: int) -> Tuple[int, int]:
    """Open a terminal of the size of `target` that passes output on unchanged."""
    import pty  # not on Windows
    import termios

    outer, inner = pty.openpty()
    with contextlib.suppress(termios.error):
        settings: List[Any] = termios.tcgetattr(target)
        settings[1] &= ~termios.OPOST  # the real terminal converts line feeds
        settings[3] &= ~termios.ECHO
        termios.tcsetattr(inner, termios.TCSANOW, settings)
    copy_terminal_size(target, outer)
    return outer, inner


def copy_terminal_size(source: int, target: int) -> None:
    """Give one terminal the size of another."""
    import fcntl  # not on Windows
    import termios

    with contextlib.suppress(OSError):
        fcntl.ioctl(target, termios.TIOCSWINSZ, fcntl.ioctl(source, termios.TIOCGWINSZ, b"\0" * 8))


class CommandResult:
    """How a command ended.

    status: as in a shell, 128 + n after signal n; negative after a crash on Windows.
    was_stopped: Ctrl-C or a forwarded signal asked it to end.
    watch_error: why its output was not watched to the end, "" where it was.
    """

    def __init__(self, status: int, signals: Sequence[int], watch_error: str) -> None:
        self.status = status
        self.was_stopped = any(number in _STOPPING for number in signals)
        self.watch_error = watch_error

    @property
    def crash_name(self) -> str:
        """Name a crash or kill as a shell does: "Killed", "0xC0000005"; "" for any other end."""
        if self.status < 0:
            return f"0x{self.status & 0xFFFFFFFF:X}"
        if os.name != "posix" or not 128 < self.status < 160:
            return ""
        return (signal.strsignal(self.status - 128) or "").partition(":")[0]  # macOS adds the number


class CommandNotStartedError(Exception):
    """A command could not start; `status` is that of a shell: 127 not found, 126 not executable."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def run_command(argv: Sequence[str], watch: Watch) -> CommandResult:
    """Run `argv` with this program's standard input and copy its output, byte for byte, to this program's.

    A terminal as output is replaced by a terminal, which keeps colors and progress bars. One channel replaces standard
    output and error that are the same file, which keeps their order. `watch` is called from other threads, one call at
    a time, after the bytes are written.
    """
    targets = {"output": 1} if is_same_file(1, 2) else {"stdout": 1, "stderr": 2}
    channels = [OutputChannel(name, target) for name, target in targets.items()]
    with _SignalForwarder(channels) as signals:
        try:
            process = _start(argv, channels)
        finally:
            for channel in channels:
                os.close(channel.inner)
        signals.send_to(process)
        lock = threading.Lock()
        copiers = [_Copier(channel, watch, lock) for channel in channels]
        with _block_signals():  # threads inherit this, so the main thread receives and forwards signals
            for copier in copiers:
                copier.start()
        code = process.wait()
        ended = time.monotonic()
        for copier in copiers:
            copier.finish(ended)
    return CommandResult(convert_exit_status(code), signals.received, next((c.error for c in copiers if c.error), ""))


def convert_exit_status(code: int) -> int:
    """Convert a return code of subprocess into the exit status with which this program ends alike.

    Signal 9 is -9 in subprocess and 137 in a shell. 0xC0000005 of Windows is too large for sys.exit; the negative
    number of the same 32 bits is not.
    """
    if code < 0:
        return 128 - code
    return code - (1 << 32) if code >= 1 << 31 else code


def _start(argv: Sequence[str], channels: Sequence[OutputChannel]) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(list(argv), stdout=channels[0].inner, stderr=channels[-1].inner, close_fds=False)
    except FileNotFoundError:
        if os.path.lexists(argv[0]) and os.path.dirname(argv[0]):
            raise CommandNotStartedError(f"{argv[0]}: its interpreter or loader is missing", 127) from None
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
    """Copy one channel to its end; when its reader is gone, close it, which tells the command."""

    def __init__(self, channel: OutputChannel, watch: Watch, lock: threading.Lock) -> None:
        super().__init__(daemon=True)
        self.error = ""
        self._channel = channel
        self._watch: Optional[Watch] = watch
        self._lock = lock
        self._last_output = time.monotonic()

    def run(self) -> None:
        """Copy until the end of the channel."""
        with contextlib.suppress(OSError):  # the last writer of a terminal, or the reader of the output, is gone
            while True:
                block = os.read(self._channel.outer, _BLOCK)
                if not block:
                    break
                self._last_output = time.monotonic()
                _write(self._channel.target, block)
                self._call_watch(block)
        with contextlib.suppress(OSError):
            os.close(self._channel.outer)

    def finish(self, ended: float) -> None:
        """Wait for the remaining output, but not for a background process that holds the pipe."""
        while self.is_alive() and time.monotonic() - max(self._last_output, ended) < _SILENCE:
            self.join(0.05)

    def _call_watch(self, block: bytes) -> None:
        if self._watch is None:
            return
        try:
            with self._lock:
                self._watch(self._channel.name, block)
        except Exception as error:  # noqa: BLE001 - a failing watcher must not stop the command's output
            self.error = f"{type(error).__name__}: {error}"
            self._watch = None


def _write(target: int, block: bytes) -> None:
    view = memoryview(block)
    while view:
        view = view[_write_once(target, view) :]


def _write_once(target: int, view: memoryview) -> int:
    try:
        return os.write(target, view)
    except BlockingIOError:  # standard output is non-blocking: wait like a blocking one
        select.select([], [target], [])
        return 0


class _SignalForwarder:
    """Forward signals to the command while it runs; the terminal sends it those of the keyboard."""

    def __init__(self, channels: Sequence[OutputChannel]) -> None:
        self.received: List[int] = []
        self._terminals = [channel for channel in channels if channel.is_terminal]
        self._process: "Optional[subprocess.Popen[bytes]]" = None
        self._previous: Dict[int, Any] = {}

    def __enter__(self) -> "_SignalForwarder":  # noqa: PYI034 - Python 3.8 has no Self
        for name in ("SIGINT", *_FORWARDED):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) != signal.SIG_IGN:  # nohup ignores SIGHUP
                self._previous[number] = signal.signal(number, self._forward)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def send_to(self, process: "subprocess.Popen[bytes]") -> None:
        """Set the command, and send it the signals that arrived while it started."""
        self._process = process
        for number in self.received:
            process.send_signal(number)

    def _forward(self, number: int, frame: object) -> None:
        del frame
        if number not in _STOPPING:
            for channel in self._terminals:
                copy_terminal_size(channel.target, channel.outer)
        self.received.append(number)
        if self._process is not None and not (number in _KEYBOARD and _is_in_foreground()):
            with contextlib.suppress(OSError):
                self._process.send_signal(number)


def _is_in_foreground() -> bool:
    """Tell whether the terminal sends the signals of its keyboard to this program and the command."""
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

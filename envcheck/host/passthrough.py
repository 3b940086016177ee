"""Run a command between the user and the terminal without changing what either sees."""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

Watch = Callable[[str, bytes], None]  # (stream, block); stream is output, stdout or stderr

_BLOCK = 65536
_SILENCE = 1.0  # seconds after which a background process is no longer read
# bytes that a pipe holds at most: what comes later is not of a command that has ended
_BACKLOG = 1 << 20
_FORWARDED = ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH")
_KEYBOARD = tuple(getattr(signal, name) for name in ("SIGINT", "SIGQUIT") if hasattr(signal, name))
_CAN_LEAVE = os.name == "posix"  # a copier can stop, and another process go on
_COPY_ON = """\
import os, select, signal
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
while block := os.read(0, 65536):
    while block:
        try:
            block = block[os.write(1, block):]
        except BlockingIOError:
            select.select([], [1], [])
"""
_STOPPING = _KEYBOARD + tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
)


class OutputChannel:
    """One output of the command.

    The end it writes to, the end read here, and the target descriptor.
    """

    def __init__(self, name: str, target: int) -> None:
        self.name = name
        self.target = target
        self.is_terminal = os.name == "posix" and os.isatty(target)
        self.outer, self.inner = _open_terminal_like(target) if self.is_terminal else os.pipe()


def is_same_file(first: int, second: int) -> bool:
    """Return whether two descriptors are the same file, pipe or terminal."""
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
        # macOS adds the number
        return (signal.strsignal(self.status - 128) or "").partition(":")[0]


class CommandNotStartedError(Exception):
    """A command could not start; `status` is that of a shell: 127 not found, 126 not executable."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def run_command(argv: Sequence[str], watch: Watch) -> CommandResult:
    """Run `argv` with this program's standard input, and copy its output byte for byte.

    A terminal as output is replaced by a terminal, which keeps colors and progress bars. One
    channel replaces standard output and error that are the same file, which keeps their order.
    `watch` is called from other threads, one call at a time, after the bytes are written.

    A process that the command left in the background may go on writing: if one holds a channel a
    second later, a small process in its own session copies on until the channel ends. On Windows
    none does: this one reads until nothing came for a second.
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
        # threads inherit this, so the main thread receives and forwards signals
        with _block_signals():
            for copier in copiers:
                copier.start()
        code = process.wait()
        _wait_for_output(copiers, signals)
        for copier in copiers:
            copier.hand_over()
    return CommandResult(
        convert_exit_status(code), signals.received, next((c.error for c in copiers if c.error), "")
    )


def convert_exit_status(code: int) -> int:
    """Convert a return code of subprocess into the exit status with which this program ends alike.

    Signal 9 is -9 in subprocess and 137 in a shell. 0xC0000005 of Windows is too large for
    sys.exit; the negative number of the same 32 bits is not.
    """
    if code < 0:
        return 128 - code
    return code - (1 << 32) if code >= 1 << 31 else code


def _start(argv: Sequence[str], channels: Sequence[OutputChannel]) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            list(argv), stdout=channels[0].inner, stderr=channels[-1].inner, close_fds=False
        )
    except FileNotFoundError:
        if os.path.lexists(argv[0]) and os.path.dirname(argv[0]):
            raise CommandNotStartedError(
                f"{argv[0]}: its interpreter or loader is missing", 127
            ) from None
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


def _wait_for_output(copiers: "Sequence[_Copier]", signals: "_SignalForwarder") -> None:
    """Wait for what the command wrote, but not for a background process that holds the pipe."""
    ended, known = time.monotonic(), len(signals.received)
    limits = {copier: copier.copied + _BACKLOG for copier in copiers}
    while not any(number in _STOPPING for number in signals.received[known:]):
        awaited = next(
            (copier for copier in copiers if copier.is_awaited(ended, limits[copier])), None
        )
        if awaited is None:
            break
        awaited.join(0.05)


class _Copier(threading.Thread):
    """Copy one channel to its end; when its reader is gone, close it, which tells the command."""

    def __init__(self, channel: OutputChannel, watch: Watch, lock: threading.Lock) -> None:
        super().__init__(daemon=True)
        self.error = ""
        self.copied = 0  # bytes
        self._channel = channel
        self._watch: Optional[Watch] = watch
        self._lock = lock
        self._last_output = time.monotonic()
        self._is_copying = self._has_ended = False
        self._stop_reader, self._stop_writer = os.pipe()

    def run(self) -> None:
        """Copy until the end of the channel, or until it is handed over."""
        # the last writer of a terminal, or the reader of the output, is gone
        with contextlib.suppress(OSError):
            while not self._must_stop():
                block = os.read(self._channel.outer, _BLOCK)
                if not block:
                    break
                self._is_copying = True
                self._last_output = time.monotonic()
                _write(self._channel.target, block)
                self._call_watch(block)
                self.copied += len(block)
                self._is_copying = False
            else:
                return
        self._has_ended = True
        with contextlib.suppress(OSError):
            os.close(self._channel.outer)

    def _must_stop(self) -> bool:
        """Wait for output, or for the request to stop."""
        if not _CAN_LEAVE:  # where a pipe cannot be waited for, it is read
            return False
        with getattr(selectors, "PollSelector", selectors.SelectSelector)() as selector:
            selector.register(self._channel.outer, selectors.EVENT_READ)
            selector.register(self._stop_reader, selectors.EVENT_READ)
            return any(key.fd == self._stop_reader for key, _ in selector.select())

    def is_awaited(self, ended: float, limit: int) -> bool:
        """Return whether output may come of a command that ended then.

        Not while the pipe is empty, or after `limit`.
        """
        if not self.is_alive():
            return False
        if time.monotonic() - (ended if _CAN_LEAVE else max(self._last_output, ended)) < _SILENCE:
            return True
        return self._is_copying and self.copied < limit  # the reader of the output is slow

    def hand_over(self) -> None:
        """Stop, and leave a process that copies on if something still holds the channel."""
        os.close(self._stop_writer)
        if _CAN_LEAVE:
            self.join(_SILENCE)
        if self.is_alive():
            return
        os.close(self._stop_reader)
        if self._has_ended:
            return
        with contextlib.suppress(OSError, ValueError):  # there is no room for another process
            subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _COPY_ON],
                stdin=self._channel.outer,
                stdout=self._channel.target,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
        os.close(self._channel.outer)

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
            # nohup ignores SIGHUP
            if number is not None and signal.getsignal(number) != signal.SIG_IGN:
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
    """Return whether the terminal sends its keyboard's signals to this program too."""
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

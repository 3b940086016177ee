"""Run programs with limits on time and output and leave nothing behind.

Run work concurrently; handle signals.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from functools import partial
from typing import (
    IO,
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    TypeVar,
)

from envcheck.host.interruption import (
    allow_interrupts,
    defer_interrupts,
    handle_interrupt,
    hold_interrupts,
    raise_interrupt,
)
from envcheck.host.protocol import Completed, Host, Variables
from envcheck.model import Absent, Fact, Known, Source, Unknown

if TYPE_CHECKING:
    from envcheck.host.windows import Job

T = TypeVar("T")
R = TypeVar("R")

OUTPUT_LIMIT = 4 << 20  # bytes per stream; a program that prints more is broken
LINE_LIMIT = 32 << 20  # bytes of one line; a longer one is dropped
_running: "Set[subprocess.Popen[bytes]]" = set()
_jobs: "Dict[subprocess.Popen[bytes], Job]" = {}  # on Windows
_starting: Set[object] = set()
_is_shutting_down = threading.Event()
_PAUSE = 0.1  # seconds of silence before checking whether the program has exited
_GRACE = 0.3  # seconds to reap a killed process; the kernel keeps one that is stuck


def run_program(
    argv: Sequence[str], timeout: float, environment: Variables, folder: str = ""
) -> Fact[Completed]:
    """Run `argv` without shell or standard input for `timeout` seconds; capture its output."""
    command = " ".join(argv)
    options = {"cwd": folder} if folder else {}
    try:
        with start_process(
            argv, environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
        ) as process:
            return _capture_output(process, argv, timeout)
    except InterruptedError as error:
        return Unknown("failed", str(error), (command,))
    except (FileNotFoundError, NotADirectoryError) as error:
        if os.path.lexists(argv[0]):
            return Unknown(
                "failed",
                f"{argv[0]}: its interpreter or loader is missing ({error.strerror})",
                (command,),
            )
        return Absent((argv[0],))
    except PermissionError as error:
        return Unknown("denied", f"{argv[0]}: {error.strerror}", (command,))
    except (OSError, ValueError) as error:
        return Unknown("failed", f"{argv[0]} could not be started: {error}", (command,))


class ProgramEnd(NamedTuple):
    """How a program ended: its exit status, negative for a signal.

    None after a timeout or a failed start.
    """

    code: Optional[int]
    detail: str = ""


def run_lines(
    argv: Sequence[str],
    environment: Variables,
    on_line: Callable[[str], None],
    *,
    seconds: float,
    log: Optional[IO[bytes]] = None,
    stdin: str = os.devnull,
    before_exec: Optional[Callable[[], None]] = None,
    patience: float = 0.0,
) -> ProgramEnd:
    """Run `argv` and pass each line of its output to `on_line`.

    Standard error goes to `log`, or without one into the same lines. `stdin` is a file.
    `before_exec` runs between fork and exec, in the new session; not on Windows. However the
    program ends, an interrupt among it, wait `patience` seconds until all that it started is gone;
    StillRunningError after that.
    """
    with contextlib.ExitStack() as stack:
        try:
            process = stack.enter_context(
                start_process(
                    argv,
                    environment,
                    stdin=stack.enter_context(open(stdin, "rb")),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT if log is None else log,
                    preexec_fn=before_exec if os.name == "posix" else None,
                )
            )
        except OSError as error:
            return ProgramEnd(None, f"{argv[0]} could not be started: {error.strerror or error}")
        read_lines = _read_lines_with_timer
        if os.name == "posix":
            read_lines = _read_lines
        try:
            with allow_interrupts():
                return read_lines(process, on_line, seconds)
        finally:
            if patience and not _end_session(process, patience):
                raise StillRunningError(f"{argv[0]} (process {process.pid}) does not end")


@contextlib.contextmanager
def start_process(
    argv: Sequence[str], environment: Variables, **options: Any
) -> "Iterator[subprocess.Popen[bytes]]":
    """Start a process in its own session with the `options` of Popen.

    End it and its children with the block.

    `kill_running_programs` ends it too. Raises InterruptedError after that, OSError where it cannot
    start.
    """
    process = None
    try:
        # an interrupt between start and registration would lose the process
        with defer_interrupts():
            process = _start_tracked(argv, environment, options)
        yield process
    finally:
        if process is not None:
            with defer_interrupts():
                _end_process(process)
                _running.discard(process)


def has_working_folder() -> bool:
    """Return whether the working folder exists.

    Where another process removed it, many programs refuse to start in it.
    """
    if os.name == "nt":  # Windows keeps the folder that a program works in
        return True
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _start_tracked(
    argv: Sequence[str], environment: Variables, options: Mapping[str, Any]
) -> "subprocess.Popen[bytes]":
    token = object()
    _starting.add(token)
    try:
        if _is_shutting_down.is_set():
            raise InterruptedError("interrupted")
        process = subprocess.Popen(
            list(argv),
            env=dict(environment),
            start_new_session=os.name == "posix",
            **{
                "stdin": subprocess.DEVNULL,
                "cwd": None if has_working_folder() else os.sep,
                **options,
            },
        )
        _running.add(process)
        if os.name == "nt":
            _attach_to_job(process)
        if _is_shutting_down.is_set():  # kill_running_programs stopped waiting for it
            kill_with_children(process)
        return process
    finally:
        _starting.discard(token)


def list_running_programs() -> List[str]:
    """List the programs that still run."""
    return sorted(
        {str(process.args[0]) for process in list(_running) if isinstance(process.args, list)}
    )


def kill_running_programs() -> None:
    """Kill every running program and let no other start, after an interrupt."""
    _is_shutting_down.set()
    deadline = time.monotonic() + _GRACE
    while _starting and time.monotonic() < deadline:
        time.sleep(0.002)  # another thread is starting a program
    for process in list(_running):
        kill_with_children(process)


def _capture_output(
    process: "subprocess.Popen[bytes]", argv: Sequence[str], timeout: float
) -> Fact[Completed]:
    deadline = time.monotonic() + timeout
    program, command = argv[0], " ".join(argv)
    read_streams = _read_streams_with_threads
    if os.name == "posix":
        read_streams = _read_streams
    streams = read_streams(process, deadline)
    if any(len(stream) > OUTPUT_LIMIT for stream in streams):
        return Unknown(
            "unparsable", f"{program} printed more than {OUTPUT_LIMIT >> 20} MiB", (command,)
        )
    try:
        code = process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return Unknown("timeout", f"{program} did not finish within {timeout:.1f} s", (command,))
    done = Completed(code, *(stream.decode("utf-8", "replace") for stream in streams))
    return Known(done, Source("command", command, done.first_line))


def _read_streams(process: "subprocess.Popen[bytes]", deadline: float) -> List[bytes]:
    """Read standard output and error until the deadline, or until OUTPUT_LIMIT."""
    buffers = {
        stream.fileno(): bytearray()
        for stream in (process.stdout, process.stderr)
        if stream is not None
    }

    def append(descriptor: int, chunk: bytes) -> bool:
        buffers[descriptor] += chunk
        return len(buffers[descriptor]) <= OUTPUT_LIMIT

    _read_pipes(process, list(buffers), append, deadline)
    return [bytes(buffer) for buffer in buffers.values()]


def _read_streams_with_threads(process: "subprocess.Popen[bytes]", deadline: float) -> List[bytes]:
    # select() does not take the pipes of Windows; communicate() reads them with threads.
    try:
        return list(process.communicate(timeout=max(0.0, deadline - time.monotonic())))
    except subprocess.TimeoutExpired:
        return [b"", b""]


def _read_pipes(
    process: "subprocess.Popen[bytes]",
    descriptors: Sequence[int],
    on_chunk: Callable[[int, bytes], bool],
    deadline: float,
) -> bool:
    """Pass what arrives to `on_chunk` until all pipes or the process end.

    It stops where `on_chunk` returns False. Returns False at the deadline.
    """
    with selectors.DefaultSelector() as selector:
        for descriptor in descriptors:
            selector.register(descriptor, selectors.EVENT_READ)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0.0:
                return False
            # before select: its last output is in the pipe by then
            has_exited = process.poll() is not None
            ready = selector.select(0.0 if has_exited else min(_PAUSE, left))
            if has_exited and not ready:
                return True  # a child of it holds the pipe
            for key, _ in ready:
                chunk = os.read(key.fd, 65536)
                if not chunk:
                    selector.unregister(key.fileobj)
                elif not on_chunk(key.fd, chunk):
                    return True
    return True


def _read_lines(
    process: "subprocess.Popen[bytes]", on_line: Callable[[str], None], seconds: float
) -> ProgramEnd:
    assert process.stdout is not None  # noqa: S101 - start_process got stdout=PIPE
    deadline = time.monotonic() + seconds
    pending = bytearray()

    def split(_: int, chunk: bytes) -> bool:
        pending.extend(chunk)
        if b"\n" in chunk:
            end = pending.rfind(b"\n")
            for line in bytes(pending[:end]).split(b"\n"):
                on_line(_decode_line(line))
            del pending[: end + 1]
        elif len(pending) > LINE_LIMIT:
            pending.clear()
        return True

    if not _read_pipes(process, [process.stdout.fileno()], split, deadline):
        return ProgramEnd(None, "timed out")
    if pending:
        on_line(_decode_line(bytes(pending)))
    try:
        return ProgramEnd(process.wait(max(1.0, deadline - time.monotonic())))
    except subprocess.TimeoutExpired:
        return ProgramEnd(None, "timed out")


def _read_lines_with_timer(
    process: "subprocess.Popen[bytes]", on_line: Callable[[str], None], seconds: float
) -> ProgramEnd:
    # select() does not take the pipes of Windows: a blocking read ends when the timer kills the
    # program.
    assert process.stdout is not None  # noqa: S101 - start_process got stdout=PIPE
    is_late = threading.Event()

    def kill() -> None:
        is_late.set()
        kill_with_children(process)

    timer = threading.Timer(seconds, kill)
    timer.daemon = True
    timer.start()
    try:
        for line in process.stdout:
            on_line(_decode_line(line))
        code = process.wait()
    finally:
        timer.cancel()
    if is_late.is_set():
        return ProgramEnd(None, "timed out")
    return ProgramEnd(code)


def _decode_line(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r\n")


def _attach_to_job(process: "subprocess.Popen[bytes]") -> None:
    from envcheck.host.windows import Job

    with contextlib.suppress(OSError):  # it has exited already
        _jobs[process] = Job(int(vars(process)["_handle"]))


def _end_process(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        kill_with_children(process)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
    elif os.name == "posix":
        _kill_group(process.pid)  # a child of a program that exited may still hold the pipes
    if process in _jobs:
        _jobs.pop(process).close()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def kill_with_children(process: "subprocess.Popen[bytes]") -> None:
    """Kill a program that leads its own session, and its children in it."""
    if os.name == "posix":
        _kill_group(process.pid)
    elif process in _jobs:
        _jobs[process].end()
    else:
        process.kill()


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


class StillRunningError(Exception):
    """A program that was killed does not end.

    The kernel keeps it in a call; the message names it.
    """


def _end_session(process: "subprocess.Popen[bytes]", seconds: float) -> bool:
    """Kill a program and all that it started, and wait for it; False after `seconds`."""
    deadline = time.monotonic() + seconds
    kill_with_children(process)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return end_session(process.pid, deadline - time.monotonic())


def end_session(leader: int, seconds: float) -> bool:
    """Kill the processes of a session and wait until they are gone; False after `seconds`.

    Others' are left alone.
    """
    deadline = time.monotonic() + seconds
    while os.name == "posix" and _kill_session(leader):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def _kill_session(leader: int) -> bool:
    """Kill the processes of a session; return whether one was still there."""
    _kill_group(leader)
    if not os.path.isdir("/proc/self"):
        return _is_killable(-leader)
    return sum(map(_is_killable, _list_session(leader))) > 0


def _is_killable(number: int) -> bool:
    try:
        os.kill(number, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _list_session(leader: int) -> Iterator[int]:
    """Yield the living processes of a session or group, from lines of /proc/NUMBER/stat.

    4711 (python3.11 (x)) S 4710 4711 4711 0 -1 4194560 ...
    """
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as stream:
            state, _, group, session = stream.read().rpartition(b")")[2].split()[:4]
            if state not in (b"Z", b"X") and leader in (int(group), int(session)):
                yield int(name)


def start_thread(work: Callable[[], None]) -> Optional[threading.Thread]:
    """Run `work` in a new thread.

    Run it here and return None where this user may start no more threads.
    """
    thread = threading.Thread(target=work, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        work()
        return None
    return thread


def call_concurrently(calls: Mapping[str, Callable[[], T]]) -> Dict[str, T]:
    """Make every call in its own thread and return the results by name.

    Raises the first exception.
    """
    results: Dict[str, T] = {}
    errors: List[BaseException] = []

    def work(name: str) -> None:
        try:
            results[name] = calls[name]()
        except BaseException as error:  # noqa: BLE001 - raised again in the calling thread
            errors.append(error)

    names = list(calls)
    threads = [start_thread(partial(work, name)) for name in names[1:]]
    for name in names[:1]:  # the first call needs no thread
        work(name)
    for thread in filter(None, threads):
        thread.join()
    if errors:
        raise errors[0]
    return {name: results[name] for name in names}


def run_concurrently(
    host: Host, commands: Mapping[str, Sequence[str]]
) -> Dict[str, Fact[Completed]]:
    """Run all commands at once, each for two seconds, and return their answers by name."""
    return call_concurrently(
        {name: partial(host.run, argv, 2.0) for name, argv in commands.items()}
    )


_MIN_ITEMS = 300  # for fewer, starting processes costs more than they save
_CHUNK_SIZE = 32  # items per message to a worker
_work: List[Callable[[Any], Any]] = []  # workers inherit it by fork, so it need not be picklable


def map_in_processes(work: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """Yield work(item) for each item, in order; the results must be picklable, `work` need not be.

    Uses all cores by forking; works in this process for few items, on one core, or without fork.
    """
    cores = 1
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    if len(items) < _MIN_ITEMS or cores < 2:
        yield from map(work, items)
        return
    from concurrent.futures import ProcessPoolExecutor  # slow to import, for large fleets only
    from multiprocessing import get_context

    _work[:] = [work]
    ignore = (signal.SIGINT, signal.SIG_IGN)  # the parent handles interrupts
    pool = ProcessPoolExecutor(cores, get_context("fork"), signal.signal, ignore)
    try:
        yield from pool.map(_call_work, items, chunksize=_CHUNK_SIZE)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        _work.clear()


def _call_work(item: Any) -> Any:
    return _work[0](item)


_END_SIGNALS = ("SIGTERM", "SIGHUP")
# nohup ignores SIGHUP; None: not set by Python
_LEFT_ALONE = (signal.SIG_IGN, handle_interrupt, None)


def kill_programs_on_signal() -> None:
    """On SIGTERM and SIGHUP, kill every running program, then die of the signal.

    Programs run in their own sessions: nothing else ends them when a time limit ends this process.
    """
    for name in _END_SIGNALS:
        number = getattr(signal, name, None)
        # nohup ignores SIGHUP
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _handle_fatal_signal)


def _handle_fatal_signal(number: int, frame: object) -> None:  # noqa: ARG001 - the interface of signal handlers
    kill_running_programs()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


@contextlib.contextmanager
def interrupt_on_signal() -> Iterator[None]:
    """Raise KeyboardInterrupt in the block on SIGTERM and SIGHUP.

    Once it has cleaned up, deliver the signal.

    Further signals have no effect before that. Blocks that defer or hold Ctrl-C do the same with
    these signals.
    """
    received: List[int] = []
    process = os.getpid()

    def interrupt(number: int, frame: object) -> None:  # noqa: ARG001 - the interface of signal handlers
        # a fork of this one, before it runs its program: nothing to clean up
        if os.getpid() != process:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        received.append(number)
        if len(received) == 1:
            raise_interrupt()

    handlers = {number: signal.getsignal(number) for number in _list_end_signals()}
    handled = [number for number, handler in handlers.items() if handler not in _LEFT_ALONE]
    try:
        with defer_interrupts():
            for number in handled:
                signal.signal(number, interrupt)
        yield
    finally:
        with defer_interrupts():
            for number in handled:
                signal.signal(number, handlers[number])
        if received:
            os.kill(os.getpid(), received[0])


def _list_end_signals() -> List[int]:
    return [getattr(signal, name) for name in ("SIGINT", *_END_SIGNALS) if hasattr(signal, name)]


@contextlib.contextmanager
def hold_signals() -> Iterator[None]:
    """Hold Ctrl-C, SIGTERM and SIGHUP, except where `allow_interrupts` permits them."""
    with interrupt_on_signal(), hold_interrupts():
        yield


@contextlib.contextmanager
def ignore_signals() -> Iterator[None]:
    """Let only SIGKILL end the block: it restores an environment."""
    before: Dict[int, Any] = {}
    try:
        with defer_interrupts():
            for number in _list_end_signals():
                before[number] = signal.signal(number, signal.SIG_IGN)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

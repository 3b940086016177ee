"""Run programs with a time limit, an output limit and nothing left behind; run several at once."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Set

from envcheck.host.interruption import held_back
from envcheck.host.protocol import Completed, Host
from envcheck.model import Absent, Fact, Known, Source, Unknown

if TYPE_CHECKING:
    from envcheck.host.windows import Job


OUTPUT_LIMIT = 4 << 20  # bytes a stream; beyond it a program is taken for broken
_running: "Set[subprocess.Popen[bytes]]" = set()
_jobs: "Dict[subprocess.Popen[bytes], Job]" = {}  # on Windows
_starting: Set[object] = set()
_ending = threading.Event()
_PAUSE = 0.1  # seconds of silence after which to look whether the program has ended
_GRACE = 0.3  # seconds to collect a killed process; one stuck in the kernel is left to it


def run_program(argv: Sequence[str], timeout: float, environment: Mapping[str, str]) -> Fact[Completed]:
    """Run `argv` without a shell or standard input, for at most `timeout` seconds.

    The process gets a session of its own, so that its children end with it.
    """
    command = " ".join(argv)
    try:
        with tracked(lambda: _start(argv, environment)) as process:
            return _finish(process, argv, timeout)
    except InterruptedError as error:
        return Unknown("failed", str(error), (command,))
    except (FileNotFoundError, NotADirectoryError) as error:
        if os.path.lexists(argv[0]):
            return Unknown("failed", f"{argv[0]}: what it needs to start is missing ({error.strerror})", (command,))
        return Absent((argv[0],))
    except PermissionError as error:
        return Unknown("denied", f"{argv[0]}: {error.strerror}", (command,))
    except (OSError, ValueError) as error:
        return Unknown("failed", f"{argv[0]} could not be started: {error}", (command,))


@contextlib.contextmanager
def tracked(start: "Callable[[], subprocess.Popen[bytes]]") -> "Iterator[subprocess.Popen[bytes]]":
    """Start a process, leader of its own session, that `end_running` ends too; end it and its children with the block.

    InterruptedError where nothing may be started any more.
    """
    process = None
    try:
        with held_back():  # else one that has just started would be known to nobody
            process = _started(start)
        yield process
    finally:
        if process is not None:
            with held_back():
                _end(process)
                _running.discard(process)


def _started(start: "Callable[[], subprocess.Popen[bytes]]") -> "subprocess.Popen[bytes]":
    token = object()
    _starting.add(token)
    try:
        if _ending.is_set():
            raise InterruptedError("interrupted")
        process = start()
        _running.add(process)
        if os.name == "nt":
            _hold(process)
        if _ending.is_set():  # end_running did not wait for it any longer
            end_group(process)
        return process
    finally:
        _starting.discard(token)


def running_programs() -> List[str]:
    """Name the programs that have not answered yet."""
    return sorted({str(process.args[0]) for process in list(_running) if isinstance(process.args, list)})


def end_running() -> None:
    """End every program still running and start no other: called when the user interrupts."""
    _ending.set()
    deadline = time.monotonic() + _GRACE
    while _starting and time.monotonic() < deadline:
        time.sleep(0.002)  # a program that another thread is just starting is to be ended, too
    for process in list(_running):
        end_group(process)


def _start(argv: Sequence[str], environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(environment),
        start_new_session=os.name == "posix",
    )


def _finish(process: "subprocess.Popen[bytes]", argv: Sequence[str], timeout: float) -> Fact[Completed]:
    deadline = time.monotonic() + timeout
    program, command = argv[0], " ".join(argv)
    streams = _drain(process, deadline)
    if streams is None:
        return Unknown("unparsable", f"{program} printed more than {OUTPUT_LIMIT >> 20} MiB", (command,))
    try:
        code = process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return Unknown("timeout", f"{program} gave no answer within {timeout:.1f} s", (command,))
    out, err = (stream.decode("utf-8", "replace") for stream in streams)
    first_line = (out or err).strip().split("\n", 1)[0][:200]
    return Known(Completed(code, out, err), Source("command", command, first_line))


def _drain(process: "subprocess.Popen[bytes]", deadline: float) -> Optional[List[bytes]]:
    if os.name != "posix":
        return _drain_simply(process, deadline)
    order = [stream for stream in (process.stdout, process.stderr) if stream is not None]
    buffers: Dict[int, bytearray] = {stream.fileno(): bytearray() for stream in order}
    with selectors.DefaultSelector() as selector:
        for stream in order:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map() and time.monotonic() < deadline:
            done = process.poll() is not None  # before the look at the pipes: what it printed last is in them then
            ready = selector.select(min(0.0 if done else _PAUSE, max(0.0, deadline - time.monotonic())))
            if done and not ready:
                break  # a child of it holds a pipe
            for key, _ in ready:
                chunk = os.read(key.fd, 65536)
                buffers[key.fd] += chunk
                if not chunk:
                    selector.unregister(key.fileobj)
                if len(buffers[key.fd]) > OUTPUT_LIMIT:
                    return None
    return [bytes(buffers[stream.fileno()]) for stream in order]


def _drain_simply(process: "subprocess.Popen[bytes]", deadline: float) -> List[bytes]:
    # Windows pipes cannot be selected on; communicate() reads them with threads.
    try:
        return list(process.communicate(timeout=max(0.0, deadline - time.monotonic())))
    except subprocess.TimeoutExpired:
        return [b"", b""]


def _hold(process: "subprocess.Popen[bytes]") -> None:
    from envcheck.host.windows import Job

    with contextlib.suppress(OSError):  # it has ended already: nothing is to be held
        _jobs[process] = Job(int(vars(process)["_handle"]))


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        end_group(process)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
    elif os.name == "posix":
        _kill_group(process.pid)  # a child of a program that ended may still hold the pipes
    if process in _jobs:
        _jobs.pop(process).close()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def end_group(process: "subprocess.Popen[bytes]") -> None:
    """End a program that leads a session of its own, and all of its children in it."""
    if os.name == "posix":
        _kill_group(process.pid)
    elif process in _jobs:
        _jobs[process].end()
    else:
        process.kill()


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def start_thread(work: Callable[[], None]) -> Optional[threading.Thread]:
    """Do `work` in a thread of its own; right here, returning None, where this user may have no more threads."""
    thread = threading.Thread(target=work, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        work()
        return None
    return thread


_NAMES = ("SIGTERM", "SIGHUP")


def end_cleanly_when_told() -> None:
    """Answer SIGTERM and SIGHUP by ending every program still running, then die of the signal as its sender expects.

    Programs run in sessions of their own: nobody else ends them when a time limit ends this one.
    """
    for name in _NAMES:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:  # under nohup it is ignored
            signal.signal(number, _end_on_signal)


def _end_on_signal(number: int, frame: object) -> None:  # noqa: ARG001 - the interface of signal handlers

    end_running()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


@contextlib.contextmanager
def interrupted_when_told() -> Iterator[None]:
    """Let SIGTERM and SIGHUP interrupt the block as Ctrl-C does; when it has put things right, they end this process.

    A further one is not heard until then.
    """
    told: List[int] = []

    def interrupt(number: int, frame: object) -> None:  # noqa: ARG001 - the interface of signal handlers
        told.append(number)
        if len(told) == 1:
            raise KeyboardInterrupt

    numbers = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    heeded = [number for number, handler in before.items() if handler != signal.SIG_IGN]  # under nohup it is ignored
    for number in heeded:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in heeded:
            signal.signal(number, before[number])
        if told:
            os.kill(os.getpid(), told[0])


def run_together(host: Host, commands: Mapping[str, Sequence[str]], timeout: float = 2.0) -> Dict[str, Fact[Completed]]:
    """Run the commands and return each one's answer under its name."""
    answers: Dict[str, Fact[Completed]] = {}
    missing: List[LookupError] = []

    def work(name: str) -> None:
        try:
            answers[name] = host.run(commands[name], timeout)
        except LookupError as error:  # a recording that lacks the command: to be raised in the caller's thread
            missing.append(error)

    names = list(commands)
    threads = [start_thread(partial(work, name)) for name in names[1:]]
    for name in names[:1]:  # one of them needs no thread of its own
        work(name)
    for thread in filter(None, threads):
        thread.join()
    if missing:
        raise missing[0]
    return {name: answers.get(name, Unknown("crashed", f"{commands[name][0]}: its thread died")) for name in names}

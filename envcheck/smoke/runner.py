"""Run smoke jobs, each in its own process, and describe how each ended."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator

from envcheck.host.documents import parse_object
from envcheck.host.files import read_as_fact, read_file
from envcheck.host.limits import (
    EXITED,
    MEMORY,
    NOT_STARTED,
    OUTPUT,
    TIME,
    LimitedRun,
    Limits,
    run_with_limits,
)
from envcheck.host.process import kill_running_programs
from envcheck.host.protocol import Variables
from envcheck.host.system import has_avx, read_available_memory
from envcheck.model import dataclass, replace
from envcheck.smoke.devices import CPU, CPU_DEVICE, Device, all_together
from envcheck.smoke.events import (
    CRASHED,
    HUNG,
    MARK,
    OUT_OF_MEMORY,
    RAISED,
    Result,
    ScriptEvents,
    parse_events,
)
from envcheck.smoke.findings import Explain, with_findings
from envcheck.smoke.placements import Placement, judge_placements, parse_placements
from envcheck.smoke.session import DRIVER, Job, Run, Subject, worst

_GIB = 1 << 30
# Signal, or Windows' status -> (what it means, the finding it points to).
_ENDINGS = {
    -4: ("an instruction this processor does not have (SIGILL)", "cpu-missing-avx"),
    -6: ("the framework gave up (SIGABRT)", ""),
    -7: (
        "a bad memory page (SIGBUS); a full /dev/shm does that, or a file that was cut off",
        "os-limit",
    ),
    -8: ("an arithmetic fault (SIGFPE)", ""),
    -11: ("a segmentation fault (SIGSEGV)", ""),
    0xC000001D: ("an instruction this processor does not have", "cpu-missing-avx"),
    0xC0000005: ("an access violation", ""),
    0xC0000135: ("a library that is not there", ""),
    0xC0000374: ("a damaged heap", ""),
    0xC0000409: ("the framework gave up (a fast fail)", ""),
}
_KILLED = -9
_CHILDREN = f"{os.path.dirname(os.path.abspath(__file__))}/children/"  # noqa: PTH100, PTH120 - pathlib is slow to import
_LARGEST = 0xFFFF  # exit status that a program chooses
# What TensorFlow's allocator says while it waits for memory that never comes.
_STARVED = ("ran out of memory trying to allocate", "OOM when allocating", "out of memory")

# What it says on a GPU that its build does not know: the driver then translates all kernels, for
# minutes or longer.
_TRANSLATING = "will be jit-compiled from PTX"


def describe_ending(
    watched: LimitedRun, spoken: ScriptEvents, log: str, limits: Limits
) -> Result | None:
    """Return the result that a process could not report itself.

    How it hung or died; None if it finished.
    """
    if watched.ended == NOT_STARTED:
        return Result("start", "", RAISED, watched.detail)
    if watched.ended == EXITED and spoken.done:
        return None
    check, device = spoken.pending or ("start", "")
    if watched.ended == TIME:
        return _report_hung(check, device, log, limits)
    if watched.ended == MEMORY:
        allowed = limits.memory or 0
        if allowed >= _GIB:
            amount = f"{allowed / _GIB:.1f} GiB"
        else:
            amount = f"{allowed >> 20} MiB"
        message = (
            f"used more than the allowed {amount} of memory and was ended;"
            " envcheck smoke --memory allows more"
        )
        return Result(check, device, OUT_OF_MEMORY, message, finding="os-limit")
    if watched.ended == OUTPUT:
        return Result(
            check, device, RAISED, f"printed more than {limits.output >> 20} MiB and was ended"
        )
    return _report_crashed(check, device, watched.code, log)


def _report_hung(check: str, device: str, log: str, limits: Limits) -> Result:
    message = f"gave no answer within {limits.seconds:.0f} s and was ended"
    if any(words in log for words in _STARVED):
        return Result(
            check, device, HUNG, f"{message}; it waited for memory", finding="gpu-memory-exhausted"
        )
    if _TRANSLATING in log:
        why = (
            "the driver was translating the build's kernels for a newer GPU: minutes, once, that"
            " --timeout allows"
        )
        return Result(check, device, HUNG, f"{message}; {why}", finding="gpu-arch-too-new")
    stack = list_frames(log)
    place = ""
    if stack:
        place = _FRAME.sub(r"; it was in \g<function> (\g<file>:\g<line>)", stack[0])
    return Result(
        check, device, HUNG, f"{message}{place}", error="\n".join(stack) or last_log_lines(log)
    )


def _report_crashed(check: str, device: str, code: int, log: str) -> Result:
    if code == _KILLED:
        message = "was killed (SIGKILL): the system does that when memory runs out"
        return Result(check, device, OUT_OF_MEMORY, message, finding="os-limit")
    what, finding = _ENDINGS.get(code, ("", ""))
    if not what:
        status = f"{code:#x}" if code > _LARGEST else code  # as Windows writes its own
        what = f"signal {-code}" if code < 0 else f"exit status {status}"
    if finding == "os-limit" and check in ("start", "import"):
        finding = ""  # no memory is shared yet: a library that was cut off does the same
    if finding == "cpu-missing-avx" and has_avx():
        finding = ""  # another instruction: what ends with one is no proof of which
    return Result(
        check,
        device,
        CRASHED,
        f"the process died: {what}",
        error=last_log_lines(log),
        finding=finding,
    )


# What faulthandler writes: the line that begins it, the stack of each thread, and the names of
# compiled modules.
_DUMP = re.compile(
    r"^(?:Fatal Python error: |Timeout \(|Current thread 0x|Thread 0x|  File |  \.\.\.|Extension"
    r" modules: )"
)
_FRAME = re.compile(r'^  File "(?P<file>[^"]*)", line (?P<line>\d+) in (?P<function>.*)$')
# The line with which a program gives up: the F of a failed check (TensorFlow, JAX), C++'s and C's
# own words.
_FATAL = re.compile(
    r"^\d{4}-\S+ [\d:.]+: F |^F\d{4} |Check failed: |^terminate called |^  what\(\): |Assertion .*"
    r" failed"
)
_FRAMES = 6

_LAST_LINES = 5  # of a log


def last_log_lines(log: str) -> str:
    """Return the last words of a log.

    Where a program gave up, the lines before its end, and its Python stack.

    Our marks and the placements that fill a log are left out, and what faulthandler writes but for
    the stack.
    """
    lines = [
        line
        for line in log.splitlines()
        if line.strip() and MARK not in line and "/job:" not in line
    ]
    words = [line for line in lines if not _DUMP.match(line)]
    fatal = [line for line in words[:-_LAST_LINES] if _FATAL.search(line)]
    return "\n".join([*fatal[-1:], *words[-_LAST_LINES:], *list_frames(log)])[-4000:]


def list_frames(log: str) -> list[str]:
    """List the calls in which a process hung or died, the innermost first.

    faulthandler wrote them.

    The last stack is that of the main thread; of our own script it keeps the call of the framework.
    """
    blocks = re.split(r"^(?:Current thread|Thread) 0x.*$", log, flags=re.MULTILINE)
    current = re.search(r"^Current thread 0x.*\n((?:  .*\n?)*)", log, re.MULTILINE)
    text = blocks[-1] if len(blocks) > 1 else ""
    if current:
        text = current[1]
    frames: list[str] = []
    for line in text.splitlines():
        frame = _FRAME.match(line)
        if frame and not frame["file"].startswith("<frozen"):  # Python's own import
            frames.append(line)
        if frame and frame["file"].startswith(_CHILDREN):
            break
    return frames[:_FRAMES]


# for one process; the first start compiles PTX for minutes
SECONDS = {"quick": 180.0, "full": 600.0, "bench": 900.0}
# beside the logs: a process that is killed leaves its temporary files, TensorFlow always does
TEMPORARY = "tmp"
_SHARE = 0.9  # of the memory that is free when the test begins
_LOG_LIMIT = 8 << 20  # bytes of a log that are looked at

OnStep = Callable[[Job, str, str], None]


@dataclass
class Task:
    """How jobs are run: in which Python, at which level and limits, and where logs go."""

    python: str
    level: str
    folder: str
    environment: Variables
    limits: Limits
    paths: tuple[str, ...] = ()  # folders to import from that an isolated Python leaves out
    explain: Explain | None = None  # names the finding a log points to


def default_limits(level: str, seconds: float | None = None, memory: int | None = None) -> Limits:
    """Return what a process may use.

    The level's time and most of the memory that is free now, where not given.
    """
    free = read_available_memory()
    share = None if free is None else int(free * _SHARE)
    return Limits(seconds or SECONDS[level], memory or share)


def list_jobs(
    subjects: tuple[Subject, ...], gpus: tuple[Device, ...], level: str, *, cpu: bool
) -> tuple[Job, ...]:
    """List the processes: for each framework the CPU, each GPU alone, and all GPUs together.

    At the full level a GPU gets one more, with a share of its memory: most frameworks take that
    only from the start.
    """
    together = all_together(gpus)
    devices = (*((CPU_DEVICE,) if cpu else ()), *gpus, *((together,) if together else ()))
    made = [
        Job(item, device)
        for item in subjects
        for device in devices
        if not (gpus and _is_idle(item, device))
    ]
    if level == "full":
        made += [
            Job(item, gpu, "share")
            for item in subjects
            for gpu in gpus
            if (item.framework is not None and item.framework.smoke.takes_memory_at_start)
        ]
    return tuple(job for job in made if job.subject.name != DRIVER or job.device.kind != CPU)


def _is_idle(subject: Subject, device: Device) -> bool:
    """Return whether a framework computes nothing on a device.

    What computes on GPUs only can but say so on the CPU.
    """
    return device.kind == CPU and subject.framework is not None and subject.framework.cuda.needs_gpu


def run_jobs(task: Task, jobs: tuple[Job, ...], heard: OnStep) -> Iterator[Run]:
    """Run the jobs and yield the result of each, in their order; benchmarks one at a time.

    `heard` gets (job, check, device) when a check begins, from several threads at once. No two
    processes share a GPU: what one takes of its memory the other would miss, and a GPU may be set
    to take one process only.
    """
    if task.level == "bench":
        workers = 1
    else:
        workers = min(len(jobs), (os.cpu_count() or 1) // 4, 8)
    if workers < 2:
        yield from (run_job(task, job, heard) for job in jobs)
        return
    # most machines need none: it brings logging and more
    from concurrent.futures import ThreadPoolExecutor
    from contextlib import ExitStack
    from threading import Lock

    taken = {gpu: Lock() for job in jobs for gpu in _gpus_of(job)}

    def run_alone(job: Job) -> Run:
        with ExitStack() as held:
            for gpu in _gpus_of(job):
                held.enter_context(taken[gpu])
            return run_job(task, job, heard)

    with ThreadPoolExecutor(workers) as pool:
        try:
            yield from pool.map(run_alone, jobs)
        except (KeyboardInterrupt, GeneratorExit):
            kill_running_programs()  # else the pool would wait for all of them
            raise


def _gpus_of(job: Job) -> list[str]:
    """List what a job has for itself, always in the same order.

    Jobs that wait for each other would wait for ever.
    """
    if job.device.kind != CPU:
        return sorted(job.device.visible.split(","))
    return []


def run_job(task: Task, job: Job, heard: OnStep) -> Run:
    """Run one job to its end, whatever that is.

    By the GPU's number where the driver does not take its UUID.
    """
    run = _run_once(task, job, heard)
    if not job.device.numbers or not _saw_no_gpu(run):
        return run
    by_number = _run_once(
        task,
        replace(job, device=replace(job.device, visible=job.device.numbers, numbers="")),
        heard,
    )
    return run if _saw_no_gpu(by_number) else by_number


def _saw_no_gpu(run: Run) -> bool:
    """Return whether a process with a GPU listed none, although its build has CUDA."""
    devices = [
        result
        for result in run.results
        if result.check in ("devices", "start") and result in run.bad
    ]
    listed = any("GPU" in name for item in run.listings for name in item.devices)
    return bool(devices) and not listed and devices[0].finding != "framework-cpu-build"


def _run_once(task: Task, job: Job, heard: OnStep) -> Run:
    label = re.sub(r"[^a-z0-9]", "-", job.device.label.lower())
    name = "-".join(filter(None, (job.subject.name, label, job.part)))
    log = f"{task.folder}/{name}.log"
    argv, environment = _make_argv(task, job), _environment(task, job)
    watched = run_with_limits(
        argv, environment, log, task.limits, lambda line: _notify(job, line, heard)
    )
    return _gather(task, job, watched, log)


def _gather(task: Task, job: Job, watched: LimitedRun, log: str) -> Run:
    spoken, text = parse_events(watched.report), _read(log)
    placements, judged = _read_placements(job, text, spoken.results)
    results = (*spoken.results, *judged)
    last = describe_ending(watched, spoken, text, task.limits)
    results = with_findings((*results, *((last,) if last else ())), job, text, task.explain)
    return Run(
        job,
        worst(results),
        results,
        spoken.measures,
        spoken.listings,
        (*placements, *_result_placements(spoken)),
        {key: value for key, value in spoken.framework.items() if key != "event"},
        watched.seconds,
        watched.peak_memory,
        log,
    )


def _read_placements(
    job: Job, log: str, results: tuple[Result, ...]
) -> tuple[tuple[Placement, ...], tuple[Result, ...]]:
    """Read where a framework's own log says that it computed, and judge the results by it."""
    if job.subject.framework is None or not job.subject.framework.smoke.logs_placement:
        return (), ()
    placements = parse_placements(log)
    return placements, tuple(judge_placements(placements, results))


def _result_placements(spoken: ScriptEvents) -> tuple[Placement, ...]:
    """Return where the tensors lie, by the results' own word; most frameworks log no more."""
    placed = [result for result in spoken.results if result.ran_on]
    return tuple(
        Placement(item.check, item.device, "result", item.check, item.ran_on, "result")
        for item in placed
    )


def _make_argv(task: Task, job: Job) -> tuple[str, ...]:
    part = ("--part", job.part) if job.part else ()
    paths = [word for path in task.paths for word in ("--path", path)]
    device = job.device
    gpu = device.visible if device.kind == "gpu" else device.kind
    members = [
        f"GPU:{at} is {item.identity}"
        for at, item in enumerate(device.members or (device,))
        if item.count
    ]
    named = [word for text in members for word in ("--about", text)]
    limit = ("--limit", str(task.limits.seconds))
    about = ("--gpu", gpu, "--count", str(device.count), "--level", task.level, *limit, *named)
    return (
        task.python,
        "-I",
        "-B",
        f"{_CHILDREN}start.py",
        "--script",
        script_of(job.subject),
        *part,
        *about,
        *paths,
    )


def script_of(subject: Subject) -> str:
    """Name the script that tests a subject at every level."""
    if subject.framework:
        return subject.framework.smoke_script(subject.version)
    return f"check_{subject.name}"


def _environment(task: Task, job: Job) -> dict[str, str]:
    made = {**task.environment, "CUDA_VISIBLE_DEVICES": job.device.visible}
    made.update(
        dict.fromkeys(("TMPDIR", "TEMP", "TMP"), _ensure_folder(f"{task.folder}/{TEMPORARY}"))
    )
    if not job.device.in_cuda_order:
        # numbers as nvidia-smi and this program count them
        made["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    if job.subject.framework:
        made.update(job.subject.framework.smoke_variables(made, on_cpu=job.device.kind == CPU))
    return made


def _ensure_folder(folder: str) -> str:
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - as in _argv
    return folder


def _notify(job: Job, line: str, heard: OnStep) -> None:
    event = parse_object(line)
    if event.get("event") == "step":
        heard(job, str(event.get("check", "")), str(event.get("device", "")))


def _read(path: str) -> str:
    log = read_as_fact(path, lambda: read_file(path, _LOG_LIMIT))
    return log.value.decode("utf-8", "replace") if log.value is not None else ""

"""Say in words how a process ended that did not end well."""

from __future__ import annotations

from envcheck.host.watched import EXITED, MEMORY, NOT_STARTED, TIME, Limits, Watched
from envcheck.smoke.protocol import CRASHED, ERROR, HUNG, OUT_OF_MEMORY, STEP_MARK, Result, Spoken

_GIB = 1 << 30
# Signal, or Windows' status -> (what it means, the finding it points to).
_ENDINGS = {
    -4: ("an instruction this processor does not have (SIGILL)", "cpu-missing-avx"),
    -6: ("the framework gave up (SIGABRT)", ""),
    -7: ("a bad memory page (SIGBUS); a full /dev/shm does that", "os-limit"),
    -8: ("an arithmetic fault (SIGFPE)", ""),
    -11: ("a segmentation fault (SIGSEGV)", ""),
    0xC000001D: ("an instruction this processor does not have", "cpu-missing-avx"),
    0xC0000005: ("an access violation", ""),
    0xC0000135: ("a library that is not there", ""),
    0xC0000374: ("a damaged heap", ""),
    0xC0000409: ("the framework gave up (a fast fail)", ""),
}
_KILLED = -9
_LARGEST = 0xFFFF  # exit status that a program chooses
# What TensorFlow's allocator says while it waits for memory that never comes.
_STARVED = ("ran out of memory trying to allocate", "OOM when allocating", "out of memory")

# What it says on a GPU that its build does not know: the driver then translates all kernels, for minutes or longer.
_TRANSLATING = "will be jit-compiled from PTX"


def ending(watched: Watched, spoken: Spoken, log: str, limits: Limits) -> Result | None:
    """Return the result that a process could not tell itself: how it hung or died; None where it came to its end."""
    if watched.ended == NOT_STARTED:
        return Result("start", "", ERROR, watched.detail)
    if watched.ended == EXITED and spoken.done:
        return None
    check, device = spoken.pending or ("start", "")
    if watched.ended == TIME:
        return _hung(check, device, log, limits)
    if watched.ended == MEMORY:
        allowed = limits.memory or 0
        amount = f"{allowed / _GIB:.1f} GiB" if allowed >= _GIB else f"{allowed >> 20} MiB"
        message = f"used more than the {amount} of memory it may and was ended; envcheck smoke --memory allows more"
        return Result(check, device, OUT_OF_MEMORY, message, finding="os-limit")
    return _crashed(check, device, watched.code, log)


def _hung(check: str, device: str, log: str, limits: Limits) -> Result:
    message = f"gave no answer within {limits.seconds:.0f} s and was ended"
    if any(words in log for words in _STARVED):
        return Result(check, device, HUNG, f"{message}; it waited for memory", finding="gpu-memory-exhausted")
    if _TRANSLATING in log:
        why = "the driver was translating the build's kernels for a newer GPU: minutes, once, that --timeout allows"
        return Result(check, device, HUNG, f"{message}; {why}", finding="gpu-arch-too-new")
    return Result(check, device, HUNG, message, error=last_words(log))


def _crashed(check: str, device: str, code: int, log: str) -> Result:
    if code == _KILLED:
        message = "was killed (SIGKILL): the system does that when memory runs out"
        return Result(check, device, OUT_OF_MEMORY, message, finding="os-limit")
    what, finding = _ENDINGS.get(code, ("", ""))
    if not what:
        status = f"{code:#x}" if code > _LARGEST else code  # as Windows writes its own
        what = f"signal {-code}" if code < 0 else f"exit status {status}"
    return Result(check, device, CRASHED, f"the process died: {what}", error=last_words(log), finding=finding)


def last_words(log: str, count: int = 5) -> str:
    """Return the last lines of a log, without the marks that divide it and the placements that fill it."""
    lines = [line for line in log.splitlines() if line.strip() and STEP_MARK not in line and "/job:" not in line]
    return "\n".join(lines[-count:])[-2000:]

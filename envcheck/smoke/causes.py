"""Point from a bad result to the finding it is about."""

from __future__ import annotations

from collections.abc import Callable

from envcheck.model.records import replaced
from envcheck.smoke.devices import ALL, GPU
from envcheck.smoke.protocol import BAD_OUTCOMES, CRASHED, ERROR, FAILED, HUNG, OUT_OF_MEMORY, Result
from envcheck.smoke.runs import Job

Explain = Callable[[str], tuple[str, ...]]  # text of a log -> the ids of the findings it points to, likeliest first

UNEXPLAINED = "smoke-failed"


_IN_WORDS = (ERROR, CRASHED, FAILED)  # outcomes whose cause a framework says
_BETWEEN = ("peer-copy", "copy from", "all-reduce", "gradients")  # checks that take several GPUs


def with_findings(results: tuple[Result, ...], job: Job, log: str, explain: Explain | None) -> tuple[Result, ...]:
    """Give every bad result its finding: its own, of its kind, what the log explains, else the general one."""
    return tuple(
        _explained(result, job, log, explain) if result.outcome in BAD_OUTCOMES else result for result in results
    )


def _explained(result: Result, job: Job, log: str, explain: Explain | None) -> Result:
    finding = result.finding or _of_its_kind(result, job)
    if not finding and explain is not None and result.outcome in _IN_WORDS:
        finding = _explained_by(explain, result.error or result.message, log)
    if not finding and _is_between_gpus(result, job):
        finding = "multi-gpu-p2p-nccl"
    if finding == "gpu-memory-exhausted" and job.device.held:
        changes = {"finding": "gpu-memory-held", "message": f"{result.message}; {job.device.held}"}
    else:
        changes = {"finding": finding or UNEXPLAINED}
    changed: Result = replaced(result, **changes)
    return changed


def _explained_by(explain: Explain, words: str, log: str) -> str:
    """Take what the framework's own words point to, else what its log does.

    Memory is not taken from the log: where it was short, the words of what failed say so, while TensorFlow 2.21 warns
    of a cuDNN status that otherwise means it whenever cuDNN cannot be opened.
    """
    found = explain(words) or tuple(finding for finding in explain(log) if finding != "gpu-memory-exhausted")
    return found[0] if found else ""


def _of_its_kind(result: Result, job: Job) -> str:
    on_gpu = job.device.kind in {GPU, ALL} and not result.device.startswith(("CPU", "XLA_CPU"))
    if on_gpu and result.outcome == OUT_OF_MEMORY:
        return "gpu-memory-exhausted"
    if on_gpu and result.outcome == HUNG and job.device.held:
        return "gpu-memory-exhausted"
    if result.outcome == FAILED and _is_between_gpus(result, job):
        return "multi-gpu-p2p-nccl"  # each was right by itself: what passes between them is not
    if on_gpu and result.outcome == FAILED and result.ran_on:
        return "gpu-hardware-fault"  # it computed, where it should, and the numbers are wrong
    return ""


def _is_between_gpus(result: Result, job: Job) -> bool:
    return job.device.kind == ALL and result.check.startswith(_BETWEEN)

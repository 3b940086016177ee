"""Judge a smoke test: a verdict, a sentence, and findings for the report."""

from __future__ import annotations

from collections.abc import Callable

from envcheck.model import (
    COMPATIBLE,
    ERROR,
    INCOMPATIBLE,
    UNDETERMINED,
    Evidence,
    Finding,
    Problem,
    Source,
    replace,
)
from envcheck.smoke import protocol
from envcheck.smoke.devices import ALL, CPU, GPU, Job, Run, Session
from envcheck.smoke.protocol import BAD_OUTCOMES, CRASHED, FAILED, HUNG, OUT_OF_MEMORY, PASSED, Result

Explain = Callable[[str], tuple[str, ...]]  # text of a log -> the ids of the findings it points to, likeliest first

UNEXPLAINED = "smoke-failed"


_IN_WORDS = (protocol.RAISED, CRASHED, FAILED)  # outcomes whose cause a framework says
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
    changed: Result = replace(result, **changes)
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


_CASES = {"gpu-hardware-fault": ("computes-wrong",), "gpu-memory-held": ("held-by-others",)}


def proven_gpus(session: Session) -> tuple[str, ...]:
    """Name the GPUs on which something was computed and found right."""
    passed = [run for run in session.runs if run.job.device.kind == GPU and run.outcome == PASSED]
    return tuple(dict.fromkeys(run.job.device.label for run in passed))


def verdict_of(session: Session) -> str:
    """Judge: incompatible where a test failed or an expected GPU is missing, undetermined where nothing was tested."""
    if any(run.outcome in BAD_OUTCOMES for run in session.runs):
        return INCOMPATIBLE
    if session.expect == GPU and not proven_gpus(session):
        return UNDETERMINED if session.gpus_unread else INCOMPATIBLE
    passed = any(run.outcome == PASSED for run in session.runs)
    no_gpu_was_tried = all(run.job.device.kind == CPU for run in session.runs)
    untried = session.gpus_unread or (session.left_out and no_gpu_was_tried)  # there may be, or is, one that was not
    return UNDETERMINED if not passed or (untried and session.expect != CPU) else COMPATIBLE


def headline_of(session: Session) -> str:
    """Say in a sentence or two what was tested and what came of it; always whether a GPU was."""
    if not session.runs:
        return f"Nothing was tested: {_why_nothing(session)}"
    bad = [run for run in session.runs if run.outcome in BAD_OUTCOMES]
    if bad:
        failed = f"{len(bad)} of {len(session.runs)} runs failed: {', '.join(run.job.title for run in bad)}."
        return f"{failed} {_about_gpus(session)}"
    passed = f"Everything that was tested passed. {_about_gpus(session)}"
    return f"A GPU was expected. {passed}" if session.expect == GPU and not proven_gpus(session) else passed


def _why_nothing(session: Session) -> str:
    left_out = "; ".join(f"{item.label}: {item.why}" for item in session.left_out)
    no_gpu = session.gpus_unread or left_out or "this machine has no GPU that can be seen"
    if session.frameworks:
        return f"the test of the {' and the '.join(session.frameworks)} needs a GPU, and {no_gpu}."
    return f"the environment holds no framework to test, and {no_gpu}."


def _about_gpus(session: Session) -> str:
    tested = proven_gpus(session)
    if tested:
        left_out = f" Not tested: {', '.join(item.label for item in session.left_out)}." if session.left_out else ""
        return f"Computed right on {', '.join(tested)}.{left_out}"
    if any(run.job.device.kind != CPU for run in session.runs):
        return "No GPU computed right."
    if session.expect == CPU:
        return "No GPU was tested: only the CPU was asked for."
    if session.left_out:
        return f"No GPU was tested: {'; '.join(f'{item.label}: {item.why}' for item in session.left_out)}."
    return f"No GPU was tested: {session.gpus_unread or 'there is none here'}."


def findings_of(session: Session) -> list[Finding]:
    """Make a finding of every bad result, those of one cause on one device together."""
    grouped: dict[tuple[str, str], list[tuple[Run, Result]]] = {}
    for run in session.runs:
        for result in run.bad:
            grouped.setdefault((result.finding, run.job.title), []).append((run, result))
    return [_finding(finding, title, found) for (finding, title), found in grouped.items()]


def _finding(finding: str, title: str, found: list[tuple[Run, Result]]) -> Finding:
    run, first = found[0]
    message = f"Smoke test, {title}: {first.check} {first.outcome}: {first.message}."
    evidence = tuple(
        Evidence(f"smoke {run.job.subject.name} {result.check}", _shown(result), Source("command", run.log))
        for _, result in found
    )
    problem = Problem(_CASES.get(finding, ()), run.job.subject.name)
    return Finding(finding, INCOMPATIBLE, ERROR, message, evidence, problem=problem)


def _shown(result: Result) -> str:
    said = f"{result.outcome}: {result.message}"
    return f"{said} [{result.error.splitlines()[-1]}]" if result.error else said

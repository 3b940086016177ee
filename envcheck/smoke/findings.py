"""Judge a smoke test: its verdict, its findings and what explains each failure."""

from __future__ import annotations

from collections.abc import Callable

from envcheck.model import (
    COMPATIBLE,
    ERROR,
    INCOMPATIBLE,
    UNDETERMINED,
    About,
    Evidence,
    Finding,
    Fix,
    FollowRow,
    Source,
    replace,
)
from envcheck.model.fixes import (
    InstallCudaBuild,
    InstallMissingDriver,
    StopUsingGpu,
    UseOtherProcessor,
    WaitForMemory,
)
from envcheck.smoke.devices import ALL, CPU, GPU
from envcheck.smoke.events import (
    BAD_OUTCOMES,
    CRASHED,
    FAILED,
    HUNG,
    OUT_OF_MEMORY,
    PASSED,
    RAISED,
    SKIPPED,
    Result,
)
from envcheck.smoke.session import DRIVER, Job, Run, Session

# (the framework's words, the log, whether it was on a GPU) -> what explains the failure
Explain = Callable[[str, str, bool], "Finding | None"]

UNEXPLAINED = "smoke-failed"


_IN_WORDS = (RAISED, CRASHED, FAILED)  # outcomes whose cause a framework reports
_BETWEEN = ("peer-copy", "copy from", "all-reduce", "gradients")  # checks that take several GPUs


def with_findings(
    results: tuple[Result, ...], job: Job, log: str, explain: Explain | None
) -> tuple[Result, ...]:
    """Give every bad result its finding.

    Its own, of its kind, what the log explains, else the general one.
    """
    return tuple(
        _with_finding(result, job, log, explain) if result.outcome in BAD_OUTCOMES else result
        for result in results
    )


def _with_finding(result: Result, job: Job, log: str, explain: Explain | None) -> Result:
    finding, cause = result.finding or _finding_by_kind(result, job), None
    if not finding and explain is not None and result.outcome in _IN_WORDS:
        cause = explain(result.error or result.message, log, _is_on_gpu(result, job))
        finding = cause.id if cause else ""
    if not finding and _is_between_gpus(result, job):
        finding = "multi-gpu-p2p-nccl"
    if finding == "gpu-memory-exhausted" and job.device.held:
        return replace(
            result, finding="gpu-memory-held", message=f"{result.message}; {job.device.held}"
        )
    return replace(result, finding=finding or UNEXPLAINED, cause=cause)


def _is_on_gpu(result: Result, job: Job) -> bool:
    return job.device.kind in {GPU, ALL} and not result.device.startswith(("CPU", "XLA_CPU"))


def _finding_by_kind(result: Result, job: Job) -> str:
    on_gpu = _is_on_gpu(result, job)
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


_SPEEDS = ("speed of ", "copy-on-device")  # checks that measure
_ROWS_OF_LIMITS = {OUT_OF_MEMORY: "sigkill", CRASHED: "bus-error"}


def proven_gpus(session: Session) -> tuple[str, ...]:
    """Name the GPUs on which a framework computed something right, and nothing wrong."""
    passed = [run for run in session.runs if run.job.device.kind == GPU and _computed_right(run)]
    return tuple(dict.fromkeys(run.job.device.label for run in passed))


def _computed_right(run: Run) -> bool:
    """Return whether a product came out right on the GPU.

    XLA without libdevice, say, takes nothing from that.
    """
    outcomes = {item.outcome for item in run.results if item.ran_on.startswith("GPU")}
    return run.outcome == PASSED or (
        PASSED in outcomes and all(item.outcome != FAILED for item in run.results)
    )


def verdict_of(session: Session) -> str:
    """Judge: incompatible for a failure or missing GPU, undetermined for no test."""
    if any(run.outcome in BAD_OUTCOMES for run in session.runs):
        return INCOMPATIBLE
    if session.expect == GPU and not proven_gpus(session):
        return UNDETERMINED if session.gpus_unread else INCOMPATIBLE
    passed = any(run.outcome == PASSED for run in session.runs)
    no_gpu_was_tried = all(run.job.device.kind == CPU for run in session.runs)
    # there may be, or is, one that was not
    untried = session.gpus_unread or (session.left_out and no_gpu_was_tried)
    if not passed or (untried and session.expect != CPU):
        return UNDETERMINED
    return COMPATIBLE


def headline_of(session: Session) -> str:
    """Summarize what was tested, the result, and whether a GPU was tested."""
    if not session.runs:
        return f"Nothing was tested: {_explain_nothing_tested(session)}"
    bad = [run for run in session.runs if run.outcome in BAD_OUTCOMES]
    if bad:
        failed = (
            f"{len(bad)} of {len(session.runs)} runs failed:"
            f" {', '.join(run.job.title for run in bad)}."
        )
        return f"{failed} {_describe_gpus(session)}"
    if session.frameworks and all(run.outcome == SKIPPED for run in session.runs):
        return f"Nothing was computed: {_explain_nothing_tested(session)}"
    passed = f"Everything that was tested passed. {_describe_gpus(session)}"
    if session.expect == GPU and not proven_gpus(session):
        return f"A GPU was expected. {passed}"
    return passed


def _explain_nothing_tested(session: Session) -> str:
    left_out = "; ".join(f"{item.label}: {item.why}" for item in session.left_out)
    no_gpu = session.gpus_unread or left_out or "this machine has no GPU that can be seen"
    if session.frameworks:
        return f"the test of {' and '.join(session.frameworks)} needs a GPU, and {no_gpu}."
    return session.untestable or f"the environment holds no framework to test, and {no_gpu}."


def _describe_gpus(session: Session) -> str:
    tested = proven_gpus(session)
    if tested:
        left_out = ""
        if session.left_out:
            left_out = f" Not tested: {', '.join(item.label for item in session.left_out)}."
        return f"Computed correctly on {', '.join(tested)}.{left_out}"
    if any(run.job.device.kind != CPU for run in session.runs):
        return "No GPU computed correctly."
    if session.expect == CPU:
        return "No GPU was tested: only the CPU was asked for."
    if session.left_out:
        return (
            "No GPU was tested:"
            f" {'; '.join(f'{item.label}: {item.why}' for item in session.left_out)}."
        )
    return f"No GPU was tested: {session.gpus_unread or 'this machine has none'}."


def findings_of(session: Session) -> list[Finding]:
    """Make a finding of every bad result, those of one cause on one device together."""
    grouped: dict[tuple[str, str], list[tuple[Run, Result]]] = {}
    for run in session.runs:
        for result in run.bad:
            grouped.setdefault((result.finding, run.job.title), []).append((run, result))
    return [_make_finding(finding, found) for (finding, _), found in grouped.items()]


def _make_finding(finding: str, found: list[tuple[Run, Result]]) -> Finding:
    run, first = found[0]
    said = run.job.device.rename_gpus(f"{first.check} {first.outcome}: {first.message}")
    message = f"Smoke test, {run.job.identity}: {said}."
    evidence = tuple(_make_evidence(run, result) for _, result in found)
    cause = next((result.cause for _, result in found if result.cause), None)
    if cause is None:
        about = About(run.job.subject.name)
        return Finding(
            finding,
            INCOMPATIBLE,
            ERROR,
            message,
            evidence,
            cure=_choose_cure(finding, run, first),
            about=about,
        )
    # the log's own lines are those of the result
    known = (item for item in cause.evidence if item.fact != "log")
    message, evidence = f"{message} {cause.message}", (*evidence, *known)
    return Finding(finding, INCOMPATIBLE, ERROR, message, evidence, cause.fix, cure=cause.cure)


def _choose_cure(finding: str, run: Run, result: Result) -> Fix:
    """Return what must change for a result that nothing else explains."""
    name, device = run.job.subject.name, run.job.device
    gpu = device.member(result.device) or (device if device.kind == GPU else None)
    if finding == "framework-cpu-build":
        return InstallCudaBuild(name)
    if finding == "gpu-hardware-fault":
        return StopUsingGpu(gpu.identity if gpu else "")
    if finding == "gpu-memory-held":
        return WaitForMemory()
    if finding == "driver-missing":
        return InstallMissingDriver()
    if finding == "cpu-missing-avx":
        return UseOtherProcessor(name, is_stated=False)
    is_slow = result.outcome == FAILED and result.check.startswith(_SPEEDS)
    rows = {
        "device-placement": "computed-elsewhere",
        "os-limit": _ROWS_OF_LIMITS.get(result.outcome, ""),
        UNEXPLAINED: "slow" if is_slow else result.outcome,
    }
    return FollowRow(
        rows.get(finding, ""), (("smoked", "" if name == DRIVER else name), ("log", run.log))
    )


def _make_evidence(run: Run, result: Result) -> Evidence:
    rename = run.job.device.rename_gpus
    # no frames of a stack
    words = [line for line in result.error.splitlines() if not line.startswith("  File ")]
    last = words[-1] if words else ""
    said = rename(f"{result.outcome}: {result.message}") + (
        "" if last in result.message else f" [{last}]"
    )
    return Evidence(
        f"smoke {run.job.subject.name} {rename(result.check)}", said, Source("command", run.log)
    )

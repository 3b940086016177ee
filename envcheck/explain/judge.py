"""Conclude from what a log said, and from the machine's facts where they are given, to one root cause."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from envcheck.explain.events import Event
from envcheck.explain.fixes import fix_for, joined_fix
from envcheck.explain.log import Claim, Log
from envcheck.explain.machine import Machine, Mend, machine_findings
from envcheck.explain.reason_architecture import architecture_claims
from envcheck.explain.reason_driver import driver_claims, harmless_without_gpu
from envcheck.explain.reason_libraries import library_claims
from envcheck.explain.reason_memory import memory_claims
from envcheck.explain.reason_pip import pip_claims
from envcheck.explain.reason_python import python_claims
from envcheck.explain.reason_versions import version_claims
from envcheck.explain.signatures import signatures_by_name
from envcheck.explain.told import Told
from envcheck.explain.weigh import evidence, finding_of, rival_findings, root_of, second_reading, strongest
from envcheck.matrix.query import Matrix
from envcheck.model.findings import COMPATIBLE, INCOMPATIBLE, NOTE, UNDETERMINED, Finding, Report
from envcheck.model.machine import Facts
from envcheck.model.records import replaced
from envcheck.rules.catalogue import catalogue
from envcheck.rules.fixes_shell import fitted
from envcheck.rules.ranking import rank_findings

if TYPE_CHECKING:
    from envcheck.rules.context import Target

NOISE = "benign-noise"
_REASONS = (
    library_claims, version_claims, architecture_claims, pip_claims, memory_claims, driver_claims, python_claims,
)  # fmt: skip
_EXCUSABLE = 75  # a heavier claim rests on a message that is no passing remark
_CRASHES = ("segfault", "aborted", "tf-native-failed", "ninja-failed", "dnn-library-not-found", "python-traceback")
# What a machine without a GPU, or one whose GPU works, may say about drivers and CUDA without anything being wrong.
_EXCUSED = (
    "driver-missing", "libcuda-not-on-path", "toolkit-missing", "cudnn-missing", "driver-not-in-container",
    "visible-devices-hidden", "framework-cuda-extra-missing", "driver-device-nodes", "toolkit-wrong-version",
)  # fmt: skip


def judge_log(
    events: Sequence[Event],
    matrix: Matrix,
    facts: Facts | None,
    mend: Mend | None = None,
    target: Target | None = None,
) -> Report:
    """Name the root cause of what `events` report, with the lines that show it; `target` is what was to be done."""
    log = Log(events, matrix, facts)
    machine = machine_findings(log, mend, target)
    claims = [*_direct(log), *(claim for reason in _REASONS for claim in reason(log))]
    excused: list[Claim] = []
    standing: list[Claim] = []
    for claim in claims:
        (excused if _is_excused(log, claim) else standing).append(claim)
    noise = tuple(dict.fromkeys((*_noise(log), *(event for claim in excused for event in claim.events))))
    ordered = strongest((*standing, *machine.claims(claims)))
    root = root_of(ordered)
    notes = [*(_noise_note(noise) or _healthy_note(log)), *_remedies(log)]
    if root is None:
        return fitted(_without_cause(log, ordered, notes, has_noise=bool(noise)), log.os)
    found = [_finding(log, machine, claim, root) for claim in ordered if not second_reading(claim, root)]
    known = {finding.id for finding in found}
    ranked = rank_findings([*found, *rival_findings(root, known), *notes])
    report = Report(INCOMPATIBLE, "gpu", catalogue()[root.id].headline, ranked, machine.checked)
    return fitted(report, Told(log, root).system)


def _finding(log: Log, machine: Machine, claim: Claim, root: Claim) -> Finding:
    """Make the finding of a claim, joined with what the doctor's rules say of the same cause."""
    own = finding_of(claim, root, fix_for(log, claim))
    ruled = machine.finding(claim.id)
    if ruled is None:
        return own
    fix = joined_fix(ruled.fix, own.fix)
    joined: Finding = replaced(own, evidence=(*own.evidence, *ruled.evidence), fix=fix)
    return joined


def _without_cause(log: Log, claims: tuple[Claim, ...], notes: list[Finding], *, has_noise: bool) -> Report:
    symptoms = [Finding("probe-failed", UNDETERMINED, "error", claim.message, evidence(claim)) for claim in claims]
    asked = _unexplained(log)
    if symptoms or asked:
        return Report(
            UNDETERMINED, "gpu", "The log shows that something fails, not why.", (*symptoms, *asked, *notes), ()
        )
    if has_noise or log.is_healthy:
        return Report(COMPATIBLE, "gpu", "All that envcheck knows of this log is harmless.", tuple(notes), ())
    calm = log.of("smi-gpu-row", "smi-gpu-row-mode", "python-user-warning")
    if calm:
        claim = Claim(NOISE, 0, "Nothing in this log says that anything fails.", calm)
        note = Finding(NOISE, COMPATIBLE, NOTE, claim.message, evidence(claim))
        return Report(COMPATIBLE, "gpu", claim.message, (note, *notes), ())
    return Report(UNDETERMINED, "gpu", "This log holds no message that envcheck knows.", tuple(notes), ())


def _unexplained(log: Log) -> tuple[Finding, ...]:
    known = signatures_by_name()
    shown = [
        item for item in log.events if known[item.signature].role == "symptom" and not known[item.signature].finding
    ]
    if log.is_healthy:  # a GPU that is used does not explain a crash
        shown = [item for item in shown if item.signature in _CRASHES]
    if not shown:
        return ()
    message = " ".join(dict.fromkeys(known[item.signature].means for item in shown))
    claim = Claim("probe-failed", 0, message, tuple(shown))
    return (Finding("probe-failed", UNDETERMINED, "error", f"{message} The log does not say why.", evidence(claim)),)


def _direct(log: Log) -> Iterator[Claim]:
    """Make a claim of each message that points to one cause by itself."""
    known = signatures_by_name()
    for event in log.events:
        signature = known[event.signature]
        if signature.finding and signature.role in ("cause", "symptom"):
            message = _filled(signature.means, event) or event.text
            yield Claim(signature.finding, signature.weight, message, (event,), signature.severity)


def _filled(means: str, event: Event) -> str:
    for name, value in event.captures:
        means = means.replace("{" + name + "}", value)
    return means if "{" not in means else means.split("{", 1)[0].rstrip(" (:;,")


def _is_excused(log: Log, claim: Claim) -> bool:
    if claim.id == "ptxas-problem" and log.has("ptxas-not-on-windows"):
        return claim.weight < _EXCUSABLE
    if log.is_healthy and not log.has_no_gpu and any(map(_is_exception, claim.events)):
        return False  # one program uses the GPU, this one ended over what it says
    return harmless_without_gpu(log) and claim.id in _EXCUSED and claim.weight < _EXCUSABLE


def _is_exception(event: Event) -> bool:
    return re.match(r"\W*[\w.]*(?:Error|Exception): ", event.text) is not None


def _noise(log: Log) -> tuple[Event, ...]:
    known = signatures_by_name()
    return (*(event for event in log.events if known[event.signature].role == "noise"), *log.silenced)


def _noise_note(events: tuple[Event, ...]) -> list[Finding]:
    if not events:
        return []
    known = signatures_by_name()
    said = dict.fromkeys(known[event.signature].means for event in events if known[event.signature].role == "noise")
    message = "These lines are normal and mean no harm. " + " ".join(said)
    claim = Claim(NOISE, 0, message, events)
    return [Finding(NOISE, COMPATIBLE, NOTE, message.strip(), evidence(claim))]


def _healthy_note(log: Log) -> list[Finding]:
    known = signatures_by_name()
    shown = tuple(event for event in log.events if known[event.signature].role == "healthy")
    if not shown:
        return []
    claim = Claim(NOISE, 0, "The log shows a framework that uses a GPU.", shown)
    return [Finding(NOISE, COMPATIBLE, NOTE, claim.message, evidence(claim))]


def _remedies(log: Log) -> list[Finding]:
    known = signatures_by_name()
    shown = [event for event in log.events if known[event.signature].role == "remedy"]
    if not shown:
        return []
    said = " ".join(dict.fromkeys(known[event.signature].means for event in shown))
    claim = Claim("toolkit-path-conflict", 0, f"Do not follow a remedy that the log shows. {said}", tuple(shown))
    return [Finding(claim.id, COMPATIBLE, NOTE, claim.message, evidence(claim))]

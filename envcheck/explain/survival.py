"""Which claims stand by the way a log ends: what was survived, what was meant, what failed last."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from envcheck.explain.log import Claim, Log, Strength
from envcheck.explain.signatures import Event, signatures_by_name
from envcheck.explain.statements import PEER_GONE
from envcheck.model import replace
from envcheck.rules.catalogue import catalogue

if TYPE_CHECKING:
    from envcheck.explain.ending import Ending
    from envcheck.rules.context import Target


# Captures that show that a GPU exists, or that somebody looks for what a GPU needs.
_GPU_SOUGHT = (
    "driver", "driver_cuda", "gpu", "other_gpu", "mig", "nvcc", "nvcc_path",
    "cudnn_listed", "cudnn_file",
)  # fmt: skip
_INVENTORY = ("collect-env-cuda-runtime",)  # lists a toolkit that nobody looked for
TRACEBACK_LINES = 60
_GPU = r"\b(?:GPUs?|CUDA|cuda)\b"  # of an exception that the program's own code raises
_ASKED = r" -> |is_available\(\) ?== ?False"  # what was typed, with its answer


def expects_gpu_use(
    log: Log, claims: Sequence[Claim], target: Target | None, ending: Ending
) -> bool:
    """Return whether a GPU is meant.

    It was asked for, there is one, the log asks for it, or fails without it.
    """
    if target is not None and target.expect != "auto":
        return target.expect == "gpu"
    if log.facts.gpus.value is not None or "cuda" in log.library_path.lower():
        return True
    sought = [event for event, _ in log.find_captures(*_GPU_SOUGHT)]
    unused = [claim for claim in claims if is_unused_gpu(claim) or claim.id == "device-placement"]
    is_sought = any(event.signature not in _INVENTORY for event in sought)
    raised = ending.raised
    is_demanded = raised and raised.owners[-1:] == ("",) and re.search(_GPU, raised.message)
    if is_sought or is_demanded or not all(map(is_remark, unused)):
        return True
    known = signatures_by_name()
    for event in log.events:
        if known[event.signature].role == "symptom" and re.search(_ASKED, event.text):
            return True
        is_remark_alone = _kind_without_gpu(event) in ("remark", "caught")
        if is_remark_alone and not ending.goes_on_after(event.last_line):
            return True
    return False


def is_unused_gpu(claim: Claim) -> bool:
    """Return whether a claim says no more than that no GPU is used."""
    return catalogue()[claim.id].leaves_gpu_unused


# A line that says itself that its program goes on, or that what it names was meant to happen.
_GOES_ON = (
    r"(?i)(?<!NCCL )\bwarn(?:ing)?\b|\bretry|\btrying again\b|\bfalling back\b|\breducing\b"
    r"|\bskip(?:ped|ping)?\b|\bignor(?:ed|ing)\b|\bcompiled using NumPy 1"
)
_AVOIDED = (
    r"(?i)\bskipp(?:ed|ing)\b|\b(?:falling back to|using|running on|retrying on) (?:the )?cpu\b"
)


def is_survived(claim: Claim, ending: Ending, *, expects_gpu: bool, uses_gpu: bool = False) -> bool:
    """Return whether the program continued after the messages of a claim."""
    if not expects_gpu and is_remark(claim):
        return True
    if not claim.events or is_unused_gpu(claim):
        return False
    if _went_on_quietly(claim, ending, uses_gpu=uses_gpu):
        return True
    if any("which is incompatible" in event.text for event in claim.events):
        return False  # pip tells of what stays installed
    has_raised = any(
        ends_program(event) and "No module named" not in event.text for event in claim.events
    )
    is_caught = not has_raised and (
        catalogue()[claim.id].is_retried or claim.strength < Strength.FAILED_CALL
    )
    is_announced = all(re.search(_GOES_ON, event.text) for event in claim.events)
    return (is_caught or is_announced) and all(
        ending.succeeds_after(event.last_line) for event in claim.events
    )


def _went_on_quietly(claim: Claim, ending: Ending, *, uses_gpu: bool) -> bool:
    """Return whether nothing failed behind a message, and the program went on or finished.

    A driver with which a program uses the GPU to its end is none that leaves it unused.
    """
    entry, has_raised = catalogue()[claim.id], any(map(ends_program, claim.events))
    stands = entry.stands and not (uses_gpu and entry.layer == "driver")
    if stands or (has_raised and not entry.is_outlived):
        return False
    return all(
        ending.succeeds_after(event.last_line)
        or (not has_raised and ending.is_quiet_after(event.last_line))
        for event in claim.events
    )


def is_remark(claim: Claim) -> bool:
    """Return whether a claim rests on messages of programs that continue without a GPU."""
    kinds = [(_kind_without_gpu(event), event) for event in claim.events]
    return bool(kinds) and all(
        kind == "caught" or (kind and not ends_program(event)) for kind, event in kinds
    )


def _kind_without_gpu(event: Event) -> str:
    """Name what a message means where no GPU is meant.

    A line that says what is done instead was caught.
    """
    if re.search(_AVOIDED, event.text):
        return "caught"
    return signatures_by_name()[event.signature].without_gpu


_WARNS = r"[Ww]arning\b|\bWARN|\b(?:may|might) not\b"


def weigh_what_failed_last(claims: Sequence[Claim], ending: Ending) -> Iterator[Claim]:
    """Weaken what is installed only, or was survived, where something else failed."""
    past = [
        claim
        for claim in claims
        if (
            claim.id != "gpu-hardware-fault"  # the kernel's record, not the program's
            and all(ending.succeeds_after(event.last_line) for event in claim.events)
        )
        or {_kind_without_gpu(event) for event in claim.events} == {"fact"}
    ]
    failed = [claim for claim in claims if claim not in past and not is_remark(claim)]
    failed_ids = {claim.id for claim in failed if claim.strength >= Strength.FAILED_CALL}
    raised = ending.raised
    is_root = raised is not None and not re.search(PEER_GONE, raised.message)
    decided = {claim.id for claim in claims if _decides_end(claim, ending)}
    for claim in claims:
        weighed = claim
        if decided and claim.id not in decided and _only_warns(claim, decided):
            weighed = replace(claim, strength=min(claim.strength, Strength.UNUSED_GPU))
        if is_root and all(re.search(PEER_GONE, event.text) for event in claim.events):
            weighed = replace(claim, strength=min(claim.strength, Strength.AFTERMATH))
        if claim in past and not failed_ids <= {*catalogue()[claim.id].explains, claim.id}:
            weighed = replace(claim, strength=min(claim.strength, Strength.UNUSED_GPU))
        yield weighed


def _decides_end(claim: Claim, ending: Ending) -> bool:
    """Return whether a claim says by itself why the program ended, in the exception's own line."""
    if ending.raised is None or claim.id == "program-error" or claim.strength < Strength.DECIDED:
        return False
    return any(event.line == ending.raised.number for event in claim.events)


def _only_warns(claim: Claim, decided: set[str]) -> bool:
    """Return whether messages warn of what might go wrong, and explain nothing of what did."""
    warns = [re.search(_WARNS, event.text) for event in claim.events]
    return bool(warns) and all(warns) and decided.isdisjoint(catalogue()[claim.id].explains)


def ends_program(event: Event) -> bool:
    """Return whether a program ended by a line: an exception, or an error of a tool or loader."""
    pattern = (
        r"\W*(?:\w[\w.]*)?(?:Error|Exception): |error: |.{0,99}error while loading shared libraries"
    )
    return re.match(pattern, event.text) is not None

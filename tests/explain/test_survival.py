"""Which claims stand: a GPU that is meant, what was survived, and what failed last."""

from __future__ import annotations

import pytest

from envcheck.explain.ending import Ending
from envcheck.explain.log import Claim, Log, Strength
from envcheck.explain.signatures import Event
from envcheck.explain.survival import (
    ends_program,
    expects_gpu_use,
    is_remark,
    is_survived,
    weigh_what_failed_last,
)
from envcheck.rules.context import Target
from tests.cases.case_facts import matrix

WORKED = Ending(lines=9, last_work=9)


def event(text: str, signature: str = "error-unknown", line: int = 1) -> Event:
    """Make a message of a line."""
    return Event(signature, (), text, "log", line, line)


def claim(finding: str, strength: Strength, *events: Event) -> Claim:
    """Make the claim of some messages."""
    return Claim(finding, strength, "It failed.", events)


def log_of(*events: Event) -> Log:
    """Make a log of some messages."""
    return Log(events, matrix(), None)


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("RuntimeError: CUDA error", True),
        ("torch.cuda.OutOfMemoryError: CUDA out of memory", True),
        ("python: error while loading shared libraries: libcudart.so.12", True),
        ("CUDA error: out of memory", False),
    ],
)
def test_an_exception_or_a_loader_ends_a_program(text: str, *, ends: bool) -> None:
    assert ends_program(event(text)) is ends


def test_what_is_asked_for_decides_before_the_log() -> None:
    log = log_of()
    assert expects_gpu_use(log, (), Target("gpu"), Ending())
    assert not expects_gpu_use(log, (), Target("cpu"), Ending())
    assert not expects_gpu_use(log, (), None, Ending())


def test_a_gpu_that_a_log_names_is_meant() -> None:
    named = Event("smi-gpu-row", (("gpu", "NVIDIA A100"),), "| 0 NVIDIA A100 |", "log", 1, 1)
    assert expects_gpu_use(log_of(named), (), None, Ending())


def test_a_memory_shortage_that_was_caught_is_survived() -> None:
    caught = claim("gpu-memory-exhausted", Strength.NAMED_CAUSE, event("CUDA out of memory"))
    assert is_survived(caught, WORKED, expects_gpu=True)
    assert not is_survived(caught, Ending(lines=9), expects_gpu=True)


def test_a_hardware_fault_stands_whatever_follows() -> None:
    fault = claim("gpu-hardware-fault", Strength.NAMED_CAUSE, event("NVRM: Xid 79"))
    assert not is_survived(fault, WORKED, expects_gpu=True)


def test_a_build_without_cuda_is_a_remark_where_no_gpu_is_meant() -> None:
    remark = claim(
        "framework-cpu-build",
        Strength.DERIVED,
        event("torch 2.2.2+cpu; using CPU", "torch-cpu-label"),
    )
    assert is_remark(remark)
    assert is_survived(remark, Ending(), expects_gpu=False)
    assert not is_survived(remark, Ending(), expects_gpu=True)


def test_what_was_survived_is_weaker_than_what_failed_then() -> None:
    first = claim("dependency-conflict", Strength.NAMED_CAUSE, event("pip: conflict", line=1))
    last = claim("numpy-abi", Strength.NAMED_PART, event("ImportError: numpy", line=5))
    weighed = list(weigh_what_failed_last([first, last], Ending(lines=5, last_work=3)))
    assert [item.strength for item in weighed] == [Strength.UNUSED_GPU, Strength.NAMED_PART]
    assert next(weigh_what_failed_last([first], Ending(lines=5, last_work=3))) == first

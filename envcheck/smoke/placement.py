"""Read from TensorFlow's log where each operation was placed, and hold it against where it was asked to run."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.model import dataclass
from envcheck.smoke.protocol import FAILED, PASSED, SKIPPED, STEP_MARK, Result

PLACER = "placer"  # where the placer put an operation of a graph
EXECUTED = "executed"  # where an operation really ran, op by op
_JUDGED = ("matmul", "function")
SAID = "said"  # the same as the placer's, on standard output

# The date (old) or absl's I0000 (new), the source file with its line, and the message.
_LOGGED = r"^(?:\d{4}-\d\d-\d\d [\d:.]+: )?[IWE](?:\d{4} [\d:.]+\s+\d+)?\s+(?P<file>\S+\.cc):\d+\] (?P<said>.*)$"
_PLACED = r"^(?P<node>[^\s:]+): \((?P<op>\w+)\):? ?(?P<device>/job:\S+)$"
_EXECUTED = r"^Executing op (?P<op>\S+) in device (?P<device>/job:\S+)$"
# What computes; the rest (arguments, constants, the call of a function) may lie elsewhere without harm.
_COMPUTES = r"^(?:_Mkl|_Fused|_OneDnn)?(?:Batch)?(?:MatMul|Conv2D)(?:V\d)?(?:Backprop\w*)?$"


@dataclass(frozen=True)
class Placement:
    """One operation and the device TensorFlow's log names for it."""

    check: str  # the step it belongs to, and the device that step asked for; empty before the first
    asked: str
    node: str
    op: str
    device: str  # CPU:0, GPU:0, XLA_GPU:0
    by: str  # PLACER, EXECUTED, SAID

    @property
    def computes(self) -> bool:
        """Say whether this operation does the work that was asked for, under any of its names."""
        return re.match(_COMPUTES, self.op) is not None


def parse_placements(text: str) -> tuple[Placement, ...]:
    """Read placements from a log of TensorFlow 1.0 or newer, divided by step marks.

    Samples:
    '2026-11-20 23:01:40.946688: I tensorflow/core/common_runtime/placer.cc:54] mm: (MatMul): /job:localhost/replica:0/task:0/device:CPU:0'
    '2017-03-01 10:00:00.000000: I tensorflow/core/common_runtime/placer.cc:841] mm: (MatMul)/job:localhost/replica:0/task:0/gpu:0'
    'I0000 00:00:1795215654.705859   24254 placer.cc:162] _MklMatMul: (_MklMatMul): /job:localhost/replica:0/task:0/device:CPU:0'
    'I0000 00:00:1795215654.706339   24254 execute.cc:1775] Executing op _MklMatMul in device /job:localhost/replica:0/task:0/device:CPU:0'
    'mm_1: (MatMul): /job:localhost/replica:0/task:0/device:CPU:1'
    """  # noqa: E501 - the lines are as long as TensorFlow makes them
    return tuple(_placements(text))


def _placements(text: str) -> Iterator[Placement]:
    check = asked = ""
    for line in text.splitlines():
        if line.startswith(STEP_MARK):
            check, _, asked = line[len(STEP_MARK) :].strip().partition(" ")
            continue
        if "/job:" not in line:
            continue
        logged = re.match(_LOGGED, line)
        placed = re.match(_PLACED, logged["said"] if logged else line)
        executed = re.match(_EXECUTED, logged["said"]) if logged else None
        if placed:
            device = short_device(placed["device"])
            yield Placement(check, asked, placed["node"], placed["op"], device, PLACER if logged else SAID)
        elif executed:
            yield Placement(check, asked, executed["op"], executed["op"], short_device(executed["device"]), EXECUTED)


def short_device(name: str) -> str:
    """Shorten TensorFlow's full device name: its last part, and the /gpu:0 of 2017 as GPU:0.

    Samples: '/job:localhost/replica:0/task:0/device:GPU:1', '/job:localhost/replica:0/task:0/gpu:0'
    """
    return name.rsplit("/", 1)[-1].removeprefix("device:").upper()


def judge_placements(placements: tuple[Placement, ...], results: tuple[Result, ...]) -> list[Result]:
    """Say for each multiplication that gave a result whether all that computes ran where it was asked to."""
    # Standard output holds the placer's lines once more, in a buffer of its own and so at the wrong place.
    logged = [item for item in placements if item.by != SAID and item.computes]
    steps = [item for item in results if item.check in _JUDGED and item.device and item.outcome in {PASSED, FAILED}]
    return [_judged(step, [i for i in logged if (i.check, i.asked) == (step.check, step.device)]) for step in steps]


def _judged(step: Result, working: list[Placement]) -> Result:
    asked, name = step.device, f"{step.check} placement"
    astray = sorted({f"{item.op} on {item.device}" for item in working if item.device != asked})
    if astray:
        message = f"asked for {asked}, but TensorFlow's own log says {', '.join(astray)}"
        return Result(name, asked, FAILED, message, ran_on=astray[0].rsplit(" ", 1)[-1], finding="device-placement")
    if not working:
        return Result(name, asked, SKIPPED, "TensorFlow's log names no operation that computes")
    names = ", ".join(sorted({item.op for item in working}))
    return Result(name, asked, PASSED, f"TensorFlow's log: {names} on {asked}", ran_on=asked)

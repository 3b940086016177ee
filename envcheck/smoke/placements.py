"""Read from a log where operations ran, and compare that with what was asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.model import dataclass
from envcheck.smoke.events import FAILED, PASSED, SKIPPED, STEP_MARK, Result

PLACER = "placer"  # where the placer put an operation of a graph
EXECUTED = "executed"  # where an operation really ran, op by op
_JUDGED = ("matmul", "function")  # checks whose operations TensorFlow always logs

# The date (old) or absl's I0000 (new), the source file with its line, and the message.
_LOGGED = (
    r"^(?:\d{4}-\d\d-\d\d [\d:.]+: )?[IWE](?:\d{4} [\d:.]+\s+\d+)?\s+(?P<file>\S+\.cc):\d+\]"
    r" (?P<said>.*)$"
)
_PLACED = r"^(?P<node>[^\s:]+): \((?P<op>\w+)\):? ?(?P<device>/job:\S+)$"
_EXECUTED = r"^Executing op (?P<op>\S+) in device (?P<device>/job:\S+)$"
# What computes; the rest (arguments, constants, the call of a function) may lie elsewhere without
# harm.
_COMPUTES = r"^(?:_Mkl|_Fused|_OneDnn)?(?:Batch)?(?:MatMul|Conv2D)(?:V\d)?(?:Backprop\w*)?$"


@dataclass
class Placement:
    """One operation and the device TensorFlow's log names for it."""

    check: str  # the step it belongs to, and the device that step asked for; empty before the first
    asked: str
    node: str
    op: str
    device: str  # CPU:0, GPU:0, XLA_GPU:0
    by: str  # PLACER, EXECUTED; "result": where the result lies

    @property
    def computes(self) -> bool:
        """Say whether this operation does the work that was asked for, under any of its names."""
        return re.match(_COMPUTES, self.op) is not None


def parse_placements(text: str) -> tuple[Placement, ...]:
    """Read placements from a log of TensorFlow 1.0 or newer, divided by step marks.

    Samples:
    '2026-11-20 23:01:40.946688: I tensorflow/core/common_runtime/placer.cc:54] mm: (MatMul):
    /job:localhost/replica:0/task:0/device:CPU:0' '2017-03-01 10:00:00.000000: I
    tensorflow/core/common_runtime/placer.cc:841] mm: (MatMul)/job:localhost/replica:0/task:0/gpu:0'
    'I0000 00:00:1795215654.705859   24254 placer.cc:162] _MklMatMul: (_MklMatMul):
    /job:localhost/replica:0/task:0/device:CPU:0' 'I0000 00:00:1795215654.706339   24254
    execute.cc:1775] Executing op _MklMatMul in device /job:localhost/replica:0/task:0/device:CPU:0'
    Standard output holds the placer's lines once more, without the file: in a buffer of its own,
    and so anywhere.
    """
    return tuple(_find_placements(text))


def _find_placements(text: str) -> Iterator[Placement]:
    check = asked = ""
    for line in text.splitlines():
        if line.startswith(STEP_MARK):
            check, _, asked = line[len(STEP_MARK) :].strip(" ").partition("\t")
            continue
        logged = re.match(_LOGGED, line) if "/job:" in line else None
        if logged is None:
            continue
        for pattern, by in ((_PLACED, PLACER), (_EXECUTED, EXECUTED)):
            found = re.match(pattern, logged["said"])
            if found:
                node, op = found.groupdict().get("node", found["op"]), found["op"]
                yield Placement(
                    check,
                    asked,
                    node,
                    op,
                    found["device"].rsplit("/", 1)[-1].removeprefix("device:").upper(),
                    by,
                )


def judge_placements(
    placements: tuple[Placement, ...], results: tuple[Result, ...]
) -> list[Result]:
    """Say for each check that gave a result whether all that computes ran where it was asked to."""
    working = [item for item in placements if item.computes]
    steps = [
        item
        for item in results
        if item.outcome in {PASSED, FAILED} and list_asked(item.check, item.device)
    ]
    judged = [
        (step, [i for i in working if (i.check, i.asked) == (step.check, step.device)])
        for step in steps
    ]
    return [
        _judge_step(step, found)
        for step, found in judged
        if found or (step.check in _JUDGED and step.device)
    ]


def list_asked(check: str, device: str) -> tuple[str, ...]:
    """List the devices that a check asks for.

    Those it runs on or over (all-reduce over GPU:0, GPU:1), else its own.
    """
    named = re.search(r" (?:on|over) (.*)", check)
    several = re.findall(r"[A-Z_]+:\d+", named[1]) if named else []
    return tuple(dict.fromkeys(several)) or ((device,) if device else ())


def _judge_step(step: Result, working: list[Placement]) -> Result:
    asked, name = list_asked(step.check, step.device), f"{step.check} placement"
    wanted = ", ".join(asked)
    astray = sorted({f"{item.op} on {item.device}" for item in working if item.device not in asked})
    if astray:
        message = f"asked for {wanted}, but TensorFlow's own log says {', '.join(astray)}"
        place = astray[0].rsplit(" ", 1)[-1]
        return Result(name, step.device, FAILED, message, ran_on=place, finding="device-placement")
    if not working:
        return Result(
            name, step.device, SKIPPED, "TensorFlow's log names no operation that computes"
        )
    names = ", ".join(sorted({item.op for item in working}))
    return Result(
        name, step.device, PASSED, f"TensorFlow's log: {names} on {wanted}", ran_on=wanted
    )

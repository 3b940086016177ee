"""The protocol between a smoke script and the runner, and what TensorFlow's log says about placement.

A script is a module of `envcheck/smoke/children/`, one for each framework and one for the driver: `check_torch`. It
needs Python 3.6, the standard library and its framework; what scripts share is `smoke_*`. In a process and session of
its own, one for each device, it is started as

    <python> -I -B .../children/start.py --script NAME [--part share] --fd N --gpu WHAT --count N --level LEVEL
        [--path FOLDER]...

`run(report)` is the quick level and returns what `full(report, opened)` or `bench(report, opened)` continues with; None
ends it. `share(report)` runs in a process of its own, if the framework takes its memory at the start.
`WHAT` is `cpu` (no GPU is visible: CUDA_VISIBLE_DEVICES=-1), `all` (every GPU chosen is visible), or the UUID or
index of the one GPU that CUDA_VISIBLE_DEVICES shows: the script's own index of it is 0. `--count` is how many GPUs are
visible, LEVEL one of LEVELS. `--fd` is an open file descriptor (Windows: `--file PATH` instead); one JSON object a line
is written to it and flushed. `--path` names a folder to import from that -I hides (user site, PYTHONPATH). Standard
output and error are a log file.

    {"event": "framework", "name": "tensorflow", "version": "2.15.1", "cuda_build": true, "seconds": 2.1}
    {"event": "devices", "way": "list_physical_devices", "devices": ["CPU:0", "GPU:0"]}
    {"event": "step", "check": "matmul", "device": "GPU:0"}
    {"event": "result", "check": "matmul", "device": "GPU:0", "outcome": "passed", "message": "[[22, 28], [49, 64]]",
     "seconds": 0.2, "ran_on": "GPU:0"}
    {"event": "measure", "check": "copy", "device": "GPU:0", "name": "host to device", "value": 11.9, "unit": "GB/s"}
    {"event": "done"}

A `step` names what begins: if the process then hangs or dies, that step did it. A `result` ends it; outcome is one of
SCRIPT_OUTCOMES. `message` is one sentence for a person; `error` holds the framework's own words, `finding` an id of
the catalogue if the script knows it. The exit status means nothing; a script that ends without `done` has crashed.
Each `step` is also written to standard error as a line `##### envcheck step CHECK DEVICE`, which divides the log.
`start.py` does all of this: a script says `with report.step("matmul", "GPU:0") as step: ...; step.passed("right")`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from envcheck.model import dataclass

PASSED = "passed"
FAILED = "failed"  # wrong numbers, or not where it was asked to run
RAISED = "error"  # the framework refused
OUT_OF_MEMORY = "out-of-memory"
SKIPPED = "skipped"
HUNG = "hung"
CRASHED = "crashed"

SCRIPT_OUTCOMES = (PASSED, FAILED, RAISED, OUT_OF_MEMORY, SKIPPED)
OUTCOMES = (*SCRIPT_OUTCOMES, HUNG, CRASHED)  # the last two only the runner can tell
BAD_OUTCOMES = (FAILED, RAISED, OUT_OF_MEMORY, HUNG, CRASHED)

LEVELS = ("quick", "full", "bench")
STEP_MARK = "##### envcheck step"


@dataclass(frozen=True)
class Result:
    """The outcome of one check on one device."""

    check: str  # import, devices, matmul, placement, convolution ...
    device: str  # as the process names it: CPU:0, GPU:0
    outcome: str
    message: str = ""
    seconds: float = 0.0
    ran_on: str = ""  # the device the result lies on, by the framework's own word
    error: str = ""  # the framework's own words
    finding: str = ""  # an id of the catalogue, empty where none is known


@dataclass(frozen=True)
class Measure:
    """One number a benchmark found."""

    check: str
    device: str
    name: str
    value: float
    unit: str
    note: str = ""  # the sentence a beginner needs


@dataclass(frozen=True)
class Listing:
    """The devices a framework lists in one of its ways."""

    way: str
    devices: tuple[str, ...]


@dataclass(frozen=True)
class ScriptEvents:
    """All a script has said."""

    framework: dict[str, Any]
    listings: tuple[Listing, ...]
    results: tuple[Result, ...]
    measures: tuple[Measure, ...]
    pending: tuple[str, str] | None  # (check, device) of a step without its result
    done: bool
    garbage: int  # lines that were no event


def parse_events(text: str) -> ScriptEvents:
    r"""Read what a script wrote to its descriptor; what is no event is counted and left out.

    Sample: '{"event": "step", "check": "matmul", "device": "CPU:0"}\n{"event": "result", "check": "matmul", '
    '"device": "CPU:0", "outcome": "passed", "message": "right", "seconds": 0.1}\n{"event": "done"}\n'
    """
    events = [_event(line) for line in text.splitlines() if line.strip()]
    said = [event for event in events if event is not None]
    results = tuple(_result(event) for event in said if event["event"] == "result")
    answered = {(result.check, result.device) for result in results}
    steps = [(str(event.get("check")), str(event.get("device"))) for event in said if event["event"] == "step"]
    return ScriptEvents(
        framework=next((event for event in said if event["event"] == "framework"), {}),
        listings=tuple(_listing(event) for event in said if event["event"] == "devices"),
        results=results,
        measures=tuple(_measure(event) for event in said if event["event"] == "measure"),
        pending=steps[-1] if steps and steps[-1] not in answered else None,
        done=any(event["event"] == "done" for event in said),
        garbage=events.count(None),
    )


def _event(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("event"), str) else None


def _result(event: dict[str, Any]) -> Result:
    outcome = event.get("outcome")
    names = ("message", "ran_on", "error", "finding")
    return Result(
        check=str(event.get("check", "")),
        device=str(event.get("device", "")),
        outcome=outcome if outcome in SCRIPT_OUTCOMES else RAISED,
        seconds=_number(event.get("seconds")),
        **{name: str(event.get(name) or "") for name in names},
    )


def _measure(event: dict[str, Any]) -> Measure:
    check, device, name, unit, note = (str(event.get(key, "")) for key in ("check", "device", "name", "unit", "note"))
    return Measure(check, device, name, _number(event.get("value")), unit, note)


def _listing(event: dict[str, Any]) -> Listing:
    devices = event.get("devices")
    return Listing(str(event.get("way", "")), tuple(map(str, devices)) if isinstance(devices, list) else ())


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


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
    return [_judge_step(step, [i for i in logged if (i.check, i.asked) == (step.check, step.device)]) for step in steps]


def _judge_step(step: Result, working: list[Placement]) -> Result:
    asked, name = step.device, f"{step.check} placement"
    astray = sorted({f"{item.op} on {item.device}" for item in working if item.device != asked})
    if astray:
        message = f"asked for {asked}, but TensorFlow's own log says {', '.join(astray)}"
        return Result(name, asked, FAILED, message, ran_on=astray[0].rsplit(" ", 1)[-1], finding="device-placement")
    if not working:
        return Result(name, asked, SKIPPED, "TensorFlow's log names no operation that computes")
    names = ", ".join(sorted({item.op for item in working}))
    return Result(name, asked, PASSED, f"TensorFlow's log: {names} on {asked}", ran_on=asked)

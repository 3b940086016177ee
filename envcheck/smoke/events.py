"""What the scripts of the smoke test report, and how they and the runner speak.

A script is a module of `envcheck/smoke/children/`, one for each framework and one for the driver:
`check_torch`. It needs Python 3.6, the standard library and its framework; what scripts share is
`smoke_*`. In a process and session of its own, one for each device, it is started as

    <python> -I -B .../children/start.py --script NAME [--part share] --gpu WHAT --count N
        --level LEVEL --report PATH [--limit SECONDS] [--path FOLDER]... [--about TEXT]...

An `Engine` of the script, or of the driver the script itself, has `run(report)`: the quick level,
which returns what `full(report, opened)` or `bench(report, opened)` continues with; None ends it.
`share(report)` of a script runs in a process of its own, if the framework takes its memory at the
start. `WHAT` is `cpu` (no GPU is visible: CUDA_VISIBLE_DEVICES=-1), `all` (every GPU chosen is
visible), or the UUID or index of the one GPU that CUDA_VISIBLE_DEVICES shows: the script's own
index of it is 0. `--count` is how many GPUs are visible, LEVEL one of LEVELS. One JSON object a
line is written to the file of `--report` and flushed. `--path` names a folder to import from that
-I hides (user site, PYTHONPATH). Standard output and error are a log file.

    {"event": "framework", "name": "tensorflow", "version": "2.15.1", "cuda_build": true,
     "seconds": 2.1}
    {"event": "devices", "way": "list_physical_devices", "devices": ["CPU:0", "GPU:0"]}
    {"event": "step", "check": "matmul", "device": "GPU:0"}
    {"event": "result", "check": "matmul", "device": "GPU:0", "outcome": "passed",
     "message": "[[22, 28], [49, 64]]", "seconds": 0.2, "ran_on": "GPU:0"}
    {"event": "measure", "check": "copy-to-device", "device": "GPU:0", "name": "host to device",
     "value": 11.9, "unit": "GB/s"}
    {"event": "done"}

A `step` names what begins: if the process then hangs or dies, that step did it. A `result` ends it;
outcome is one of SCRIPT_OUTCOMES. `message` is one sentence for a person; `error` holds the
framework's own words, `finding` an id of the catalogue if the script knows it. The exit status
means nothing; a script that ends without `done` has crashed. Each `step` is also written to
standard error as a line `##### envcheck step CHECK<tab>DEVICE`, which divides the log; `--about
TEXT` is written there first: which GPU of the machine the process calls GPU:0. `start.py` does all
of this: a script says `with report.step("matmul", "GPU:0") as step: ...; step.passed("right")`.
"""

from __future__ import annotations

from typing import Any

from envcheck.host.documents import list_in, parse_object
from envcheck.model import Finding, dataclass

PASSED = "passed"
FAILED = "failed"  # wrong numbers, or not where it was asked to run
RAISED = "error"  # the framework refused
OUT_OF_MEMORY = "out-of-memory"
SKIPPED = "skipped"
HUNG = "hung"
CRASHED = "crashed"

SCRIPT_OUTCOMES = (PASSED, FAILED, RAISED, OUT_OF_MEMORY, SKIPPED)
BAD_OUTCOMES = (FAILED, RAISED, OUT_OF_MEMORY, HUNG, CRASHED)

LEVELS = ("quick", "full", "bench")
MARK = "##### envcheck"  # begins our own lines in a log
STEP_MARK = f"{MARK} step"


@dataclass
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
    # what explains it, with its remedy, where more than the id is known
    cause: Finding | None = None


@dataclass
class Measure:
    """One number a benchmark found."""

    check: str
    device: str
    name: str
    value: float
    unit: str
    note: str = ""  # the sentence a beginner needs


@dataclass
class Listing:
    """The devices a framework lists in one of its ways."""

    way: str
    devices: tuple[str, ...]


@dataclass
class ScriptEvents:
    """All a script has said."""

    framework: dict[str, Any]
    listings: tuple[Listing, ...]
    results: tuple[Result, ...]
    measures: tuple[Measure, ...]
    pending: tuple[str, str] | None  # (check, device) of a step without its result
    done: bool


def parse_events(text: str) -> ScriptEvents:
    r"""Read what a script wrote to its descriptor; what is no event is left out.

    Sample: '{"event": "step", "check": "matmul", "device": "CPU:0"}\n{"event": "result", "check":
    "matmul", ' '"device": "CPU:0", "outcome": "passed", "message": "right", "seconds":
    0.1}\n{"event": "done"}\n'
    """
    framework: dict[str, Any] = {}
    listings, results, measures = list[Listing](), list[Result](), list[Measure]()
    pending, done = None, False
    for event in map(parse_object, text.splitlines()):
        match event.get("event"):
            case "framework":
                framework = framework or event
            case "devices":
                names = tuple(map(str, list_in(event, "devices")))
                listings.append(Listing(str(event.get("way", "")), names))
            case "step":
                pending = str(event.get("check")), str(event.get("device"))
            case "result":
                results.append(_read_result(event))
                pending = None
            case "measure":
                value = _read_number(event.get("value"))
                measures.append(Measure(value=value, **_read_texts(event, _OF_MEASURE)))
            case "done":
                done = True
    return ScriptEvents(framework, tuple(listings), tuple(results), tuple(measures), pending, done)


_TEXTS = ("check", "device", "message", "ran_on", "error", "finding")  # of a result
_OF_MEASURE = ("check", "device", "name", "unit", "note")


def _read_texts(event: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: str(event.get(name) or "") for name in names}


def _read_result(event: dict[str, Any]) -> Result:
    outcome = event.get("outcome")
    return Result(
        outcome=outcome if outcome in SCRIPT_OUTCOMES else RAISED,
        seconds=_read_number(event.get("seconds")),
        **_read_texts(event, _TEXTS),
    )


def _read_number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0

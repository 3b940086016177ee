"""A smoke test as it runs.

Its devices, subjects and results, and the lines by which its scripts report.

A script is a module of `envcheck/smoke/children/`, one for each framework and one for the driver:
`check_torch`. It needs Python 3.6, the standard library and its framework; what scripts share is
`smoke_*`. In a process and session of its own, one for each device, it is started as

    <python> -I -B .../children/start.py --script NAME [--part share] --fd N --gpu WHAT --count N --level LEVEL
        [--limit SECONDS] [--path FOLDER]... [--about TEXT]...

An `Engine` of the script, or of the driver the script itself, has `run(report)`: the quick level,
which returns what `full(report, opened)` or `bench(report, opened)` continues with; None ends it.
`share(report)` of a script runs in a process of its own, if the framework takes its memory at the
start. `WHAT` is `cpu` (no GPU is visible: CUDA_VISIBLE_DEVICES=-1), `all` (every GPU chosen is
visible), or the UUID or index of the one GPU that CUDA_VISIBLE_DEVICES shows: the script's own
index of it is 0. `--count` is how many GPUs are visible, LEVEL one of LEVELS. `--fd` is an open
file descriptor (Windows: `--file PATH` instead); one JSON object a line is written to it and
flushed. `--path` names a folder to import from that -I hides (user site, PYTHONPATH). Standard
output and error are a log file.

    {"event": "framework", "name": "tensorflow", "version": "2.15.1", "cuda_build": true, "seconds": 2.1}
    {"event": "devices", "way": "list_physical_devices", "devices": ["CPU:0", "GPU:0"]}
    {"event": "step", "check": "matmul", "device": "GPU:0"}
    {"event": "result", "check": "matmul", "device": "GPU:0", "outcome": "passed", "message": "[[22, 28], [49, 64]]",
     "seconds": 0.2, "ran_on": "GPU:0"}
    {"event": "measure", "check": "copy", "device": "GPU:0", "name": "host to device", "value": 11.9, "unit": "GB/s"}
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

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from envcheck.frameworks import Framework, framework, framework_names, framework_of
from envcheck.model import (
    COMPATIBLE,
    ERROR,
    INCOMPATIBLE,
    UNDETERMINED,
    About,
    Distribution,
    Evidence,
    Finding,
    Fix,
    FollowRow,
    Gpu,
    Source,
    dataclass,
    replace,
)
from envcheck.model.fixes.driver import InstallMissingDriver
from envcheck.model.fixes.frameworks import InstallCudaBuild
from envcheck.model.fixes.hardware import StopUsingGpu, UseOtherProcessor, WaitForMemory
from envcheck.rules.gpus import select_devices

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
    garbage: int  # lines that were no event


def parse_events(text: str) -> ScriptEvents:
    r"""Read what a script wrote to its descriptor; what is no event is counted and left out.

    Sample: '{"event": "step", "check": "matmul", "device": "CPU:0"}\n{"event": "result", "check":
    "matmul", ' '"device": "CPU:0", "outcome": "passed", "message": "right", "seconds":
    0.1}\n{"event": "done"}\n'
    """
    events = [_event(line) for line in text.splitlines() if line.strip()]
    said = [event for event in events if event is not None]
    results = tuple(_result(event) for event in said if event["event"] == "result")
    answered = {(result.check, result.device) for result in results}
    steps = [
        (str(event.get("check")), str(event.get("device")))
        for event in said
        if event["event"] == "step"
    ]
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
    if isinstance(found, dict) and isinstance(found.get("event"), str):
        return found
    return None


def _result(event: dict[str, Any]) -> Result:
    outcome = event.get("outcome")
    return Result(
        check=str(event.get("check", "")),
        device=str(event.get("device", "")),
        outcome=outcome if outcome in SCRIPT_OUTCOMES else RAISED,
        seconds=_number(event.get("seconds")),
        message=str(event.get("message") or ""),
        ran_on=str(event.get("ran_on") or ""),
        error=str(event.get("error") or ""),
        finding=str(event.get("finding") or ""),
    )


def _measure(event: dict[str, Any]) -> Measure:
    check, device, name, unit, note = (
        str(event.get(key, "")) for key in ("check", "device", "name", "unit", "note")
    )
    return Measure(check, device, name, _number(event.get("value")), unit, note)


def _listing(event: dict[str, Any]) -> Listing:
    devices = event.get("devices")
    return Listing(
        str(event.get("way", "")), tuple(map(str, devices)) if isinstance(devices, list) else ()
    )


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


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
    return tuple(_placements(text))


def _placements(text: str) -> Iterator[Placement]:
    check = asked = ""
    for line in text.splitlines():
        if line.startswith(STEP_MARK):
            check, _, asked = line[len(STEP_MARK) :].strip(" ").partition("\t")
            continue
        if "/job:" not in line:
            continue
        logged = re.match(_LOGGED, line)
        placed = re.match(_PLACED, logged["said"]) if logged else None
        executed = re.match(_EXECUTED, logged["said"]) if logged else None
        if placed:
            yield Placement(
                check, asked, placed["node"], placed["op"], short_device(placed["device"]), PLACER
            )
        elif executed:
            yield Placement(
                check,
                asked,
                executed["op"],
                executed["op"],
                short_device(executed["device"]),
                EXECUTED,
            )


def short_device(name: str) -> str:
    """Shorten TensorFlow's full device name: its last part, and the /gpu:0 of 2017 as GPU:0.

    Samples: '/job:localhost/replica:0/task:0/device:GPU:1', '/job:localhost/replica:0/task:0/gpu:0'
    """
    return name.rsplit("/", 1)[-1].removeprefix("device:").upper()


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


CPU, GPU, ALL = "cpu", "gpu", "all"
_GIB = 1 << 30


class DeviceError(ValueError):
    """A GPU was asked for that is not there."""


@dataclass
class Device:
    """One thing a process is given: `visible` is what CUDA_VISIBLE_DEVICES shows it."""

    kind: str  # CPU, GPU, ALL
    label: str  # "GPU 0", "CPU"
    visible: str = "-1"
    count: int = 0
    name: str = ""  # NVIDIA A100-SXM4-40GB
    uuid: str = ""
    in_cuda_order: bool = False  # `visible` counts as CUDA does, not as nvidia-smi does
    held: str = ""  # how full other processes hold it, in words; empty where there is room
    pci: str = ""  # 0000:41:00.0
    numbers: str = ""  # `visible` by number, for a driver that takes no UUIDs (WSL, virtual GPUs)
    members: tuple[Device, ...] = ()  # of ALL

    @property
    def title(self) -> str:
        """Name it for people."""
        return f"{self.label} ({self.name})" if self.name else self.label

    @property
    def identity(self) -> str:
        """Name it so that its card can be found: number, product, PCI address and UUID."""
        about = ", ".join(filter(None, (self.name, self.pci, self.uuid)))
        return f"{self.label} ({about})" if about else self.label

    def member(self, name: str) -> Device | None:
        """Return the GPU that a process on this device calls GPU:0, GPU:1 ....

        Return None for what is no GPU of it.
        """
        members = self.members or ((self,) if self.kind == GPU else ())
        kind, _, number = name.partition(":")
        if kind == "GPU" and number.isdigit() and int(number) < len(members):
            return members[int(number)]
        return None

    def rename_gpus(self, text: str) -> str:
        """Write GPU:0, as a process counts what it sees, as the machine's GPU 3."""

        def rename(match: re.Match[str]) -> str:
            found = self.member(match[0])
            return found.label if found else match[0]

        return re.sub(r"\bGPU:\d+", rename, text)


@dataclass
class LeftOut:
    """A GPU that is not tested, and why."""

    label: str
    why: str
    finding: str = ""


@dataclass
class DeviceChoice:
    """The GPUs to test and those left out."""

    devices: tuple[Device, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


CPU_DEVICE = Device(CPU, "CPU")


def choose_devices(
    gpus: tuple[Gpu, ...], visible: str | None, wanted: tuple[str, ...], order: str = ""
) -> DeviceChoice:
    """Choose among `gpus`: those CUDA_VISIBLE_DEVICES (`visible`) shows and --gpu (`wanted`) names.

    `order` is CUDA_DEVICE_ORDER. Raises DeviceError for a GPU that is not there.
    """
    shown, left_out = _visible_gpus(gpus, visible)
    if shown is None:
        return DeviceChoice(
            (Device(GPU, f"CUDA_VISIBLE_DEVICES={visible}", str(visible), 1, in_cuda_order=True),)
        )
    if visible is not None and _is_ambiguous(gpus, visible, order) and not wanted:
        entries = [entry.strip() for entry in visible.split(",")][: len(shown)]
        return DeviceChoice(tuple(_in_cuda_order(entry) for entry in entries), tuple(left_out))
    devices: list[Device] = []
    for position in shown:
        instances, reason = _devices_of(position, gpus[position], visible)
        devices += instances
        if reason:
            left_out += [LeftOut(f"GPU {_number_session(position, gpus[position])}", *reason)]
    if wanted:
        devices = list(
            dict.fromkeys(found for name in wanted for found in _named(name, devices, left_out))
        )
        left_out = []
    return DeviceChoice(tuple(devices), tuple(left_out))


def all_together(devices: tuple[Device, ...]) -> Device | None:
    """Return the device that is all GPUs at once; None where there are not two.

    CUDA shows one MIG instance only.
    """
    whole = [device for device in devices if not device.visible.startswith("MIG-")]
    if len(whole) < 2:
        return None
    visible = ",".join(device.visible for device in whole)
    in_cuda_order = any(device.in_cuda_order for device in whole)
    label = f"all {len(whole)} GPUs"
    numbers = ""
    if all(device.numbers for device in whole):
        numbers = ",".join(device.numbers for device in whole)
    return Device(
        ALL,
        label,
        visible,
        len(whole),
        in_cuda_order=in_cuda_order,
        members=tuple(whole),
        numbers=numbers,
    )


def _visible_gpus(
    gpus: tuple[Gpu, ...], visible: str | None
) -> tuple[tuple[int, ...] | None, list[LeftOut]]:
    if visible is None or not gpus:
        return tuple(range(len(gpus))), []
    uuids = tuple(gpu.uuid.value or "" for gpu in gpus)
    instances = tuple(tuple(item.uuid for item in gpu.mig_devices.value or ()) for gpu in gpus)
    selection = select_devices(visible, uuids, instances)
    if not selection.decided:
        return None, []
    hidden = [position for position in range(len(gpus)) if position not in selection.visible]
    why = f"CUDA_VISIBLE_DEVICES={visible} hides it"
    left_out = [
        LeftOut(f"GPU {_number_session(at, gpus[at])}", why, "visible-devices-hidden")
        for at in hidden
    ]
    return selection.visible, left_out


def _is_ambiguous(gpus: tuple[Gpu, ...], visible: str, order: str) -> bool:
    """Say whether a list's numbers may mean other GPUs to CUDA.

    CUDA puts the fastest kind first.
    """
    kinds = {gpu.name.value for gpu in gpus}
    return (
        len(kinds) > 1
        and order != "PCI_BUS_ID"
        and not any(mark in visible for mark in ("GPU-", "MIG-"))
    )


def _in_cuda_order(entry: str) -> Device:
    return Device(GPU, f"GPU {entry} as CUDA numbers them", entry, 1, in_cuda_order=True)


def _devices_of(
    position: int, gpu: Gpu, visible: str | None
) -> tuple[list[Device], tuple[str, str] | None]:
    number = _number_session(position, gpu)
    name = gpu.name.value or ""
    pci = gpu.pci_address.value or ""
    if gpu.mig_enabled.value:
        instances = gpu.mig_devices.value or ()
        if not instances:
            return [], ("MIG is enabled and it has no instance", "mig-config")
        # of several instances CUDA uses the first one listed
        first = (visible or "").split(",")[0].strip()
        chosen = [item for item in instances if not first.startswith("MIG-") or item.uuid == first]
        label = f"GPU {number} instance"
        return [
            Device(GPU, f"{label} {at}", item.uuid, 1, item.name or name, item.uuid, pci=pci)
            for at, item in enumerate(chosen)
        ], None
    uuid = gpu.uuid.value or ""
    visible_as, numbers = (uuid, str(number)) if uuid else (str(number), "")
    device = Device(
        GPU, f"GPU {number}", visible_as, 1, name, uuid, held=_held(gpu), pci=pci, numbers=numbers
    )
    return [device], None


def _number_session(position: int, gpu: Gpu) -> int:
    return position if gpu.nvml_index.value is None else gpu.nvml_index.value


def _held(gpu: Gpu) -> str:
    total, used = gpu.memory_bytes.value, gpu.memory_used_bytes.value
    if not total or not used or used < 0.8 * total:
        return ""
    return f"{used / _GIB:.1f} of its {total / _GIB:.1f} GiB were in use before the test"


def _named(name: str, devices: list[Device], left_out: list[LeftOut]) -> list[Device]:
    """Return the GPU of a number or UUID, every instance of one that MIG divides."""
    is_uuid = name.startswith(("GPU-", "MIG-"))
    label = f"GPU {name}"
    found = [item for item in devices if is_uuid and item.uuid.startswith(name)][:1]
    found = found or [
        item
        for item in devices
        if item.label == label or item.label.startswith(f"{label} instance ")
    ]
    if found:
        return found
    hidden = next((item for item in left_out if item.label == label), None)
    there = ", ".join(device.label for device in devices) or "none"
    raise DeviceError(
        f"--gpu {name}: {hidden.why if hidden else f'no such GPU here (there are: {there})'}."
    )


_WORST_FIRST = (CRASHED, HUNG, OUT_OF_MEMORY, FAILED, RAISED, PASSED, SKIPPED)
DRIVER = "driver"  # tested without a framework


@dataclass
class Subject:
    """What is tested: an installed framework, or the driver without any."""

    name: str  # tensorflow, torch, jax, DRIVER
    version: str = ""

    @property
    def framework(self) -> Framework | None:
        """Return what is known of the framework; None for the driver."""
        return None if self.name == DRIVER else framework(self.name)

    @property
    def title(self) -> str:
        """Name it for people."""
        title = self.framework.title if self.framework else "CUDA driver"
        return f"{title} {self.version}".rstrip()


@dataclass
class Job:
    """One process: a framework on a device."""

    subject: Subject
    device: Device
    part: str = ""  # "share": what needs its own start, with only a share of the card's memory

    @property
    def title(self) -> str:
        """Name it for people."""
        return f"{self.subject.title} on {self.device.title}" + (
            ", with a quarter of its memory" if self.part else ""
        )

    @property
    def identity(self) -> str:
        """Name it with what tells its card from others."""
        return f"{self.subject.title} on {self.device.identity}"


@dataclass
class Run:
    """What came of a job."""

    job: Job
    outcome: str
    results: tuple[Result, ...]
    measures: tuple[Measure, ...] = ()
    listings: tuple[Listing, ...] = ()
    placements: tuple[Placement, ...] = ()
    told: dict[str, Any] | None = None  # what the framework reported about itself
    seconds: float = 0.0
    peak_memory: int | None = None  # resident bytes
    log: str = ""

    @property
    def bad(self) -> tuple[Result, ...]:
        """Return the results that are not as they should be."""
        return tuple(result for result in self.results if result.outcome in BAD_OUTCOMES)


@dataclass
class Session:
    """All runs of one smoke test, and what was left out."""

    level: str
    runs: tuple[Run, ...]
    left_out: tuple[LeftOut, ...] = ()
    gpus_unread: str = ""  # why the GPUs of this machine could not be listed
    untestable: str = ""  # why no framework could be tested, in a sentence
    expect: str = "auto"
    frameworks: tuple[str, ...] = ()  # what was to be tested, in words
    system: str = ""  # on which it ran, and what is to be typed is typed: linux, windows, darwin
    findings: tuple[Finding, ...] = ()  # what failed, with its remedies


def worst(results: tuple[Result, ...]) -> str:
    """Return the outcome of a run from its results: the worst; skipped where nothing was done."""
    found = {result.outcome for result in results}
    return next((outcome for outcome in _WORST_FIRST if outcome in found), SKIPPED)


def installed_frameworks(distributions: Sequence[Distribution]) -> tuple[Subject, ...]:
    """List the frameworks of an environment.

    Of two copies of one, the first in the order of import.

    A distribution that brings no module is an empty shell, and one that is a part of its framework
    does not count.
    """
    found: dict[str, Subject] = {}
    for item in distributions:
        name = framework_of(item.name)
        known = framework(name) if name else None
        if known and known.smoke.has_test and known.is_whole(item.name, item.modules):
            found.setdefault(name, Subject(name, item.version))
    return tuple(found[name] for name in framework_names() if name in found)


def hidden_folders(distributions: Sequence[Distribution]) -> tuple[str, ...]:
    """List the folders that an isolated start (-I) leaves out.

    The user's site-packages and PYTHONPATH.
    """
    return tuple(
        dict.fromkeys(item.location for item in distributions if item.scope in {"user", "path"})
    )


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
    return [_finding(finding, found) for (finding, _), found in grouped.items()]


def _finding(finding: str, found: list[tuple[Run, Result]]) -> Finding:
    run, first = found[0]
    said = run.job.device.rename_gpus(f"{first.check} {first.outcome}: {first.message}")
    message = f"Smoke test, {run.job.identity}: {said}."
    evidence = tuple(_evidence(run, result) for _, result in found)
    cause = next((result.cause for _, result in found if result.cause), None)
    if cause is None:
        about = About(run.job.subject.name)
        return Finding(
            finding,
            INCOMPATIBLE,
            ERROR,
            message,
            evidence,
            cure=_cure(finding, run, first),
            about=about,
        )
    # the log's own lines are those of the result
    known = (item for item in cause.evidence if item.fact != "log")
    message, evidence = f"{message} {cause.message}", (*evidence, *known)
    return Finding(finding, INCOMPATIBLE, ERROR, message, evidence, cause.fix, cure=cause.cure)


def _cure(finding: str, run: Run, result: Result) -> Fix:
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


def _evidence(run: Run, result: Result) -> Evidence:
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

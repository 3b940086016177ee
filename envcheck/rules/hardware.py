"""Rules about the GPUs and the CPU: whether they are there, work, and are free."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.model import (
    COMPATIBLE,
    ERROR,
    NOT_STATED,
    NOTE,
    UNDETERMINED,
    WARNING,
    About,
    Absent,
    Evidence,
    Fact,
    Finding,
    Fix,
    FollowRow,
    Gpu,
    Unknown,
)
from envcheck.model.fixes.hardware import (
    AssignMigInstance,
    CreateMigInstance,
    EnlargeSharedMemory,
    FindHiddenProcess,
    PowerCycleGpu,
    SetDefaultComputeMode,
    StopProcess,
    UseMachineWithGpu,
    UseOtherProcessor,
)
from envcheck.rules.builds import Build, build_of
from envcheck.rules.context import Context, UndecidedError, cite, incompatible, rule
from envcheck.rules.gpus import cuda_starts, gpu_name, numbered_gpus, other_gpu_name, other_vendors
from envcheck.rules.targets import is_for_gpu_alone, judged_builds, wanted_releases

# NVML and nvidia-smi share their codes; cuInit has its own.
_NVML_FAULTS = {
    8: "external power is not connected",
    15: "the GPU is lost (it fell off the bus)",
    16: "the GPU needs a reset",
}
_CUDA_FAULTS = {214: "an uncorrectable memory (ECC) error", 220: "an uncorrectable NVLink error"}
_X86 = ("x86_64", "amd64", "AMD64", "i686", "i386")


@rule("gpu-absent", needs=("gpus",), goal="any")
def gpu_absent(context: Context, gpus: tuple[Gpu, ...] | None) -> Iterator[Finding]:
    """Report that there is no NVIDIA GPU: an error only where one is expected."""
    idle = _list_idle(context) if context.goal == "cpu" else []
    if idle:
        yield _report_idle(
            context, idle, "work on the CPU is asked for" if gpus else "this machine has none"
        )
        return
    if gpus is not None or context.asks_other_vendor:
        return
    others = context.facts.other_gpus
    unread = isinstance(others, Unknown) and others != NOT_STATED
    evidence = (context.seen("gpus"), *((context.seen("other_gpus"),) if unread else ()))
    if context.expect == "gpu":
        yield incompatible(
            f"This machine has no NVIDIA GPU, but one is expected{_describe_others(context)}.",
            evidence,
            cure=UseMachineWithGpu(or_cpu=True),
        )
    elif not context.other_gpus:
        yield Finding(
            "gpu-absent",
            COMPATIBLE,
            NOTE,
            "This machine has no NVIDIA GPU; frameworks use the CPU.",
            evidence,
        )


def _list_idle(context: Context) -> list[Build]:
    """List what computes on GPUs only: builds, and the packages on top that are asked for."""
    asked = (item.package for item in wanted_releases(context) if item.package)
    packages = (row for row in asked if is_for_gpu_alone(context.matrix, row.distribution))
    builds = judged_builds(context)
    idle = [item for item in builds if item.traits.cuda.needs_gpu and not item.accelerator]
    return [*idle, *map(build_of, packages)]


def _report_idle(context: Context, builds: list[Build], reason: str) -> Finding:
    """Report builds that need a GPU: an error if one was requested, or if there is nothing else."""
    is_asked = not all(item.installed for item in builds)
    is_error = is_asked or len(builds) == len(judged_builds(context))
    return incompatible(
        f"{' and '.join(item.label for item in builds)}"
        f" can compute on NVIDIA GPUs only, and {reason}.",
        (context.seen("gpus"),),
        severity=ERROR if is_error else WARNING,
        cure=UseMachineWithGpu(),
    )


def _describe_others(context: Context) -> str:
    if context.other_gpus:
        return f": its GPU is {', '.join(map(other_gpu_name, context.other_gpus))}"
    return ""


@rule("gpu-not-nvidia", goal="any")
def gpu_not_nvidia(context: Context) -> Iterator[Finding]:
    """Name the GPUs of other vendors; whether work on them succeeds is not judged, and said so."""
    if not isinstance(context.facts.gpus, Absent):
        return
    builds = [item for item in judged_builds(context) if item.accelerator]
    if context.asks_other_vendor and not builds and judged_builds(context):
        yield incompatible(
            f"{judged_builds(context)[0].label} is a CPU-only build: it does not use this machine's"
            f" {other_gpu_name(context.other_gpus[0])}.",
            _other_evidence(context),
            cure=FollowRow("cpu-build"),
            about=About(judged_builds(context)[0].framework),
        )
    elif context.asks_other_vendor:
        yield _not_judged(context, builds[0] if builds else None)
    elif context.other_gpus:
        names = ", ".join(map(other_gpu_name, context.other_gpus))
        yield Finding(
            "gpu-not-nvidia",
            COMPATIBLE,
            NOTE,
            f"The GPU of this machine is {names}. envcheck judges NVIDIA GPUs and CPUs only.",
            _other_evidence(context),
        )


def _not_judged(context: Context, build: Build | None) -> Finding:
    """Say that work is meant for another vendor's GPU, and that this is undetermined."""
    vendors = other_vendors()
    meant = {
        name for name, item in vendors.items() if build and build.accelerator in item.accelerators
    }
    gpus = [gpu for gpu in context.other_gpus if gpu.vendor in meant or not meant]
    vendor = gpus[0].vendor if gpus else next(iter(meant), "")
    owner = vendors[vendor].title if vendor else "other"
    built = ""
    if build and vendor:
        built = f"{build.label} is a build for {owner} GPUs ({vendors[vendor].platform}). "
    if gpus:
        where = f"on {other_gpu_name(gpus[0])}"
    else:
        where = f"on a GPU by {owner}: none was found here"
    return Finding(
        "gpu-not-nvidia",
        UNDETERMINED,
        ERROR,
        f"{built}Only NVIDIA GPUs and CPUs are judged, so envcheck cannot tell whether GPU work"
        f" succeeds {where}.",
        _other_evidence(context),
        cure=FollowRow(vendor),
        about=About(build.framework if build else ""),
    )


def _other_evidence(context: Context) -> tuple[Evidence, ...]:
    names = ", ".join(map(other_gpu_name, context.other_gpus))
    drivers = [
        gpu.kernel_driver.value for gpu in context.other_gpus if gpu.kernel_driver.value is not None
    ]
    shown = names
    if drivers:
        shown = f"{names} (driver {', '.join(dict.fromkeys(drivers))})"
    return (context.seen("gpus"), context.seen("other_gpus", shown=shown or "none found"))


@rule("gpu-hardware-fault", needs=("gpus",))
def gpu_hardware_fault(context: Context, gpus: tuple[Gpu, ...] | None) -> Iterator[Finding]:
    """Report GPUs that the driver has lost or that fail."""
    fault = _driver_fault(context)
    failed = [gpu for gpu in gpus or () if _nvml_fault(gpu) is not None]
    if fault is None and not failed:
        return
    evidence, subject = fault or _gpu_fault(failed[0])
    severity = ERROR
    if cuda_starts(context) and len(failed) < len(gpus or ()):
        severity = WARNING
    yield incompatible(
        f"{_name_failed(failed)} fails: {subject}.",
        (evidence,),
        severity=severity,
        cure=PowerCycleGpu(),
    )


def _name_failed(failed: list[Gpu]) -> str:
    if not failed:
        return "A GPU"
    index = failed[0].nvml_index
    if index.value is not None:
        return f"GPU {index.value}"
    return gpu_name(failed[0])


def _driver_fault(context: Context) -> tuple[Evidence, str] | None:
    codes = (
        ("driver.nvml_result", _NVML_FAULTS),
        ("driver.smi_exit_code", _NVML_FAULTS),
        ("driver.cuda_init_result", _CUDA_FAULTS),
    )
    for name, faults in codes:
        fact = context.fact(name)
        if fact.value in faults:
            return context.seen(name), faults[fact.value]
    return None


def _nvml_fault(gpu: Gpu) -> int | None:
    """Return the NVML code with which a GPU could not be opened.

    "NVML (…), GPU 1: GPU is lost (15)".
    """
    fact: Fact[str] = gpu.uuid
    match = None
    if isinstance(fact, Unknown):
        match = re.search(r"\((\d+)\)$", fact.detail)
    return int(match[1]) if match and int(match[1]) in _NVML_FAULTS else None


def _gpu_fault(gpu: Gpu) -> tuple[Evidence, str]:
    code = _nvml_fault(gpu)
    detail = gpu.uuid.detail if isinstance(gpu.uuid, Unknown) else ""
    return Evidence("gpus.uuid", detail), _NVML_FAULTS[code or 15]


@rule("cpu-missing-avx", goal="any")
def cpu_missing_avx(context: Context) -> Iterator[Finding]:
    """Report builds that need processor instructions this CPU does not have."""
    architecture = context.host.architecture
    if architecture.value is None or architecture.value not in _X86:
        return
    for build in judged_builds(context):
        features = build.release.cpu_features if build.release else ()
        # conda compiles its own packages; the row describes the wheel.
        installer = ""
        if build.distribution in context.distributions:
            installer = context.distributions[build.distribution].installer
        if not features or installer == "conda":
            continue
        flags = context.need(context.host.cpu_flags, "host.cpu_flags")
        # every x86 processor has some: an older snapshot of a machine without /proc
        if flags is None:
            raise UndecidedError(
                "host.cpu_flags", Unknown("failed", "nothing lists the processor's instructions")
            )
        missing = [flag for flag in features if flag not in flags]
        if missing:
            yield incompatible(
                f"{build.label} is compiled with {', '.join(missing).upper()} instructions, which"
                " this CPU lacks: importing it fails with 'Illegal instruction'.",
                (
                    context.seen(
                        "host.cpu_flags", shown=f"no {', '.join(missing)} among {len(flags)} flags"
                    ),
                    cite(f"matrix {build.label}", f"needs {', '.join(features)}", build),
                ),
                cure=UseOtherProcessor(build.framework, tuple(missing)),
            )


_FULL = 0.9  # of a GPU's memory
# bytes; NCCL and data loaders of one process per GPU want more than docker's 64 MB
_SMALL_SHM = 1 << 30
_GIB = 1 << 30


@rule("gpu-memory-held", severity=WARNING)
def gpu_memory_held(context: Context) -> Iterator[Finding]:
    """Report GPUs whose memory others fill, and GPUs that another process has for itself."""
    busy = [gpu for gpu in context.gpus if _is_full(gpu)]
    closed = [gpu for gpu in context.gpus if _is_closed(gpu)]
    for gpu in busy:
        used, total = _read_bytes(gpu)
        message = (
            f"{used / _GIB:.1f} of {total / _GIB:.1f} GiB of the memory of {_describe_gpu(gpu)} are"
            f" in use by {_name_holders(gpu)}."
        )
        yield incompatible(
            message, (_gpu_evidence(context, gpu, "memory_used_bytes"),), cure=_free_memory(gpu)
        )
    for gpu in closed:
        mode = gpu.compute_mode.value or ""
        prohibited = mode == "prohibited"
        if prohibited:
            cause = "is set to compute mode 'prohibited': no CUDA program may use it"
        else:
            cause = f"is set to compute mode '{mode}' and taken by {_name_holders(gpu)}"
        severity = WARNING
        if len(closed) == len(context.gpus) and prohibited:
            severity = ERROR
        index = "0"
        if gpu.nvml_index.value is not None:
            index = str(gpu.nvml_index.value)
        yield incompatible(
            f"{_describe_gpu(gpu)} {cause}.",
            (_gpu_evidence(context, gpu, "compute_mode"),),
            severity=severity,
            cure=SetDefaultComputeMode(index),
        )


def _is_full(gpu: Gpu) -> bool:
    used, total = _read_bytes(gpu)
    return total > 0 and used > _FULL * total


def _read_bytes(gpu: Gpu) -> tuple[int, int]:
    used, total = gpu.memory_used_bytes, gpu.memory_bytes
    if used.value is not None and total.value is not None:
        return (used.value, total.value)
    return (0, 0)


def _is_closed(gpu: Gpu) -> bool:
    mode = gpu.compute_mode
    if mode.value is None:
        return False
    has_processes = bool(gpu.processes.value)
    return mode.value == "prohibited" or (mode.value.startswith("exclusive") and has_processes)


def _describe_gpu(gpu: Gpu) -> str:
    index = gpu.nvml_index
    if index.value is not None:
        return f"GPU {index.value} ({gpu_name(gpu)})"
    return gpu_name(gpu)


def _name_holders(gpu: Gpu) -> str:
    processes = gpu.processes.value or ()
    if not processes:
        return "no process that the driver lists (one in another container, or one that died)"
    text = "process " + ", ".join(f"{item.pid} {item.name}".strip() for item in processes[:3])
    if _most_is_hidden(gpu):
        return f"{text}, and most of it is held by one that the driver does not list"
    return text


def _most_is_hidden(gpu: Gpu) -> bool:
    """Return whether the processes listed hold less than half of what is in use."""
    processes = gpu.processes.value or ()
    shares = [item.memory_bytes.value for item in processes if item.memory_bytes.value is not None]
    return len(shares) == len(processes) and sum(shares) < _read_bytes(gpu)[0] / 2


def _free_memory(gpu: Gpu) -> Fix:
    processes = gpu.processes.value or ()
    if processes and not _most_is_hidden(gpu):
        return StopProcess(str(processes[0].pid))
    return FindHiddenProcess()


def _gpu_evidence(context: Context, gpu: Gpu, name: str) -> Evidence:
    return context.seen(f"gpus.{name}", getattr(gpu, name))


@rule("mig-config", severity=WARNING)
def mig_config(context: Context) -> Iterator[Finding]:
    """Report GPUs split by MIG without an instance, or of which CUDA uses one only."""
    split = [gpu for gpu in context.gpus if gpu.mig_enabled.value]
    if not split:
        return
    counts = {id(gpu): _count_instances(context, gpu) for gpu in split}
    empty = [gpu for gpu in split if not counts[id(gpu)]]
    if empty:
        yield _without_instance(context, empty[0], only=len(empty) == len(numbered_gpus(context)))
    total = sum(counts.values())
    if total > 1 and "CUDA_VISIBLE_DEVICES" not in context.environment:
        yield _one_of_many(context, split, total)


def _count_instances(context: Context, gpu: Gpu) -> int:
    devices = context.need(gpu.mig_devices, "gpus.mig_devices")
    return len(devices) if devices else 0


def _without_instance(context: Context, gpu: Gpu, *, only: bool) -> Finding:
    index = "0"
    if gpu.nvml_index.value is not None:
        index = str(gpu.nvml_index.value)
    message = (
        f"{_describe_gpu(gpu)} is in MIG mode (split into instances) and has no instance: CUDA sees"
        " no device on it."
    )
    evidence = (
        _gpu_evidence(context, gpu, "mig_enabled"),
        context.seen("gpus.mig_devices", gpu.mig_devices),
    )
    severity = ERROR if only else WARNING
    return incompatible(message, evidence, severity=severity, cure=CreateMigInstance(index))


def _one_of_many(context: Context, split: list[Gpu], total: int) -> Finding:
    mig_device = next(
        device
        for gpu in split
        if gpu.mig_devices.value is not None
        for device in gpu.mig_devices.value
    )
    message = (
        f"There are {total} MIG instances and CUDA_VISIBLE_DEVICES is not set. A CUDA program uses"
        " one instance only; programs that expect more GPUs fail."
    )
    evidence = (
        _gpu_evidence(context, split[0], "mig_enabled"),
        context.seen("gpus.mig_devices", split[0].mig_devices),
    )
    return incompatible(message, evidence, cure=AssignMigInstance(mig_device.uuid))


@rule("os-limit", severity=WARNING)
def small_shared_memory(context: Context) -> Iterator[Finding]:
    """Report a container whose /dev/shm is too small for several GPUs."""
    shm, container = context.host.shm_bytes, context.host.container
    if len(context.gpus) < 2 or not container.value or not judged_builds(context):
        return
    if shm.value is not None and shm.value < _SMALL_SHM:
        message = (
            f"The shared memory of this container (/dev/shm) holds {shm.value >> 20} MiB: NCCL"
            f" between {len(context.gpus)} GPUs and data loaders"
            " share memory there and fail when it is full."
        )
        yield incompatible(message, (context.seen("host.shm_bytes"),), cure=EnlargeSharedMemory())

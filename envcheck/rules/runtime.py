"""What is busy, split or limited on GPUs that work: memory, compute mode, MIG, /dev/shm."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.model import ERROR, INCOMPATIBLE, WARNING, Evidence, Finding, Gpu, Known, Problem
from envcheck.rules.context import Context
from envcheck.rules.gpu_choice import numbered_gpus
from envcheck.rules.gpu_facts import gpu_name
from envcheck.rules.registry import rule
from envcheck.rules.targets import judged_builds

_FULL = 0.9  # of a GPU's memory
_SMALL_SHM = 1 << 30  # bytes; NCCL and data loaders of one process per GPU want more than docker's 64 MB
_GIB = 1 << 30


@rule("gpu-memory-held")
def gpu_memory_held(context: Context) -> Iterator[Finding]:
    """Report GPUs whose memory others fill, and GPUs that another process has for itself."""
    busy = [gpu for gpu in context.gpus if _is_full(gpu)]
    closed = [gpu for gpu in context.gpus if _is_closed(gpu)]
    for gpu in busy:
        used, total = _bytes(gpu)
        message = (
            f"{used / _GIB:.1f} of {total / _GIB:.1f} GiB of the memory of {_numbered(gpu)} are in use by "
            f"{_holders(gpu)}."
        )
        yield Finding(
            "gpu-memory-held",
            INCOMPATIBLE,
            WARNING,
            message,
            (_seen(context, gpu, "memory_used_bytes"),),
            problem=_holding(gpu),
        )
    for gpu in closed:
        mode = gpu.compute_mode.value if isinstance(gpu.compute_mode, Known) else ""
        prohibited = mode == "prohibited"
        what = (
            "is set to compute mode 'prohibited': no CUDA program may use it"
            if prohibited
            else f"is set to compute mode '{mode}' and taken by {_holders(gpu)}"
        )
        severity = ERROR if len(closed) == len(context.gpus) and prohibited else WARNING
        index = str(gpu.nvml_index.value) if isinstance(gpu.nvml_index, Known) else "0"
        yield Finding(
            "gpu-memory-held",
            INCOMPATIBLE,
            severity,
            f"{_numbered(gpu)} {what}.",
            (_seen(context, gpu, "compute_mode"),),
            problem=Problem(("compute-mode",), values=(("index", index),)),
        )


def _is_full(gpu: Gpu) -> bool:
    used, total = _bytes(gpu)
    return total > 0 and used > _FULL * total


def _bytes(gpu: Gpu) -> tuple[int, int]:
    used, total = gpu.memory_used_bytes, gpu.memory_bytes
    return (used.value, total.value) if isinstance(used, Known) and isinstance(total, Known) else (0, 0)


def _is_closed(gpu: Gpu) -> bool:
    mode = gpu.compute_mode
    if not isinstance(mode, Known):
        return False
    taken = isinstance(gpu.processes, Known) and bool(gpu.processes.value)
    return mode.value == "prohibited" or (mode.value.startswith("exclusive") and taken)


def _numbered(gpu: Gpu) -> str:
    index = gpu.nvml_index
    return f"GPU {index.value} ({gpu_name(gpu)})" if isinstance(index, Known) else gpu_name(gpu)


def _holders(gpu: Gpu) -> str:
    listed = gpu.processes.value if isinstance(gpu.processes, Known) else ()
    if not listed:
        return "no process that the driver lists (one in another container, or one that died)"
    named = "process " + ", ".join(f"{item.pid} {item.name}".strip() for item in listed[:3])
    return f"{named}, and most of it by none that the driver lists" if _most_is_hidden(gpu) else named


def _most_is_hidden(gpu: Gpu) -> bool:
    """Tell whether the processes listed hold less than half of what is in use."""
    listed = gpu.processes.value if isinstance(gpu.processes, Known) else ()
    shares = [item.memory_bytes.value for item in listed if isinstance(item.memory_bytes, Known)]
    return len(shares) == len(listed) and sum(shares) < _bytes(gpu)[0] / 2


def _holding(gpu: Gpu) -> Problem:
    listed = gpu.processes.value if isinstance(gpu.processes, Known) else ()
    if listed and not _most_is_hidden(gpu):
        return Problem(("listed",), names=(str(listed[0].pid),))
    return Problem(("hidden",))


def _seen(context: Context, gpu: Gpu, name: str) -> Evidence:
    return context.seen(f"gpus.{name}", getattr(gpu, name))


@rule("mig-config")
def mig_config(context: Context) -> Iterator[Finding]:
    """Report GPUs split by MIG with no instance to use, and those of which CUDA will use one instance only."""
    split = [gpu for gpu in context.gpus if isinstance(gpu.mig_enabled, Known) and gpu.mig_enabled.value]
    if not split:
        return
    counts = {id(gpu): _instances(context, gpu) for gpu in split}
    empty = [gpu for gpu in split if not counts[id(gpu)]]
    if empty:
        yield _without_instance(context, empty[0], only=len(empty) == len(numbered_gpus(context)))
    total = sum(counts.values())
    if total > 1 and "CUDA_VISIBLE_DEVICES" not in context.environment:
        yield _one_of_many(context, split, total)


def _instances(context: Context, gpu: Gpu) -> int:
    devices = context.need(gpu.mig_devices, "gpus.mig_devices")
    return len(devices) if devices else 0


def _without_instance(context: Context, gpu: Gpu, *, only: bool) -> Finding:
    index = str(gpu.nvml_index.value) if isinstance(gpu.nvml_index, Known) else "0"
    message = f"{_numbered(gpu)} is in MIG mode (split into instances) and has no instance: CUDA sees no device on it."
    evidence = (_seen(context, gpu, "mig_enabled"), context.seen("gpus.mig_devices", gpu.mig_devices))
    problem = Problem(("without-instance",), values=(("index", index),))
    return Finding("mig-config", INCOMPATIBLE, ERROR if only else WARNING, message, evidence, problem=problem)


def _one_of_many(context: Context, split: list[Gpu], total: int) -> Finding:
    first = next(device for gpu in split if isinstance(gpu.mig_devices, Known) for device in gpu.mig_devices.value)
    message = (
        f"There are {total} MIG instances and CUDA_VISIBLE_DEVICES is not set: a CUDA program uses one instance "
        "only, and programs that count more GPUs than that fail."
    )
    evidence = (_seen(context, split[0], "mig_enabled"), context.seen("gpus.mig_devices", split[0].mig_devices))
    return Finding(
        "mig-config",
        INCOMPATIBLE,
        WARNING,
        message,
        evidence,
        problem=Problem(("one-of-many",), names=(first.uuid,)),
    )


@rule("os-limit")
def small_shared_memory(context: Context) -> Iterator[Finding]:
    """Report a container whose /dev/shm is too small for several GPUs."""
    shm, container = context.facts.host.shm_bytes, context.facts.host.container
    if len(context.gpus) < 2 or not isinstance(container, Known) or not judged_builds(context):
        return
    if isinstance(shm, Known) and shm.value < _SMALL_SHM:
        message = (
            f"The shared memory of this container (/dev/shm) holds {shm.value >> 20} MiB: NCCL between "
            f"{len(context.gpus)} GPUs and data loaders share memory there and fail when it is full."
        )
        yield Finding(
            "os-limit",
            INCOMPATIBLE,
            WARNING,
            message,
            (context.seen("host.shm_bytes"),),
            problem=Problem(("small-shm",)),
        )

"""Conclude from messages about the driver, containers and GPU memory."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.explain.log import (
    Claim,
    Log,
    Strength,
    conclude,
    find_framework_of_message,
    parse_number,
)
from envcheck.explain.signatures import Event, load_driver_errors
from envcheck.model import FrameworkRelease
from envcheck.model.versions import public_version

_NO_DEVICE = (
    "cuda-no-device",
    "torch-no-gpus",
    "devicequery-100",
    "nccl-process-group-no-gpu",
    "yolo-invalid-device",
)


def driver_claims(log: Log) -> Iterator[Claim]:
    """Say why no GPU is seen."""
    for event in log.select(*_NO_DEVICE):
        yield conclude(_read_missing_device(log), event, visible=repr(_find_visible(log)))
    for event in log.select("driver-init-failure", "cuda-failure-number"):
        code = event.values["code"]
        message = f"The start of the driver ended with error {code}."
        finding = load_driver_errors().get(code, "driver-missing")
        yield Claim(finding, Strength.NOT_FOUND, message, (event,))
    yield from _judge_visible_devices(log)
    yield from _judge_tensorflow(log)


_NOT_AVAILABLE = (
    "torch-unavailable", "tf-cpu-only-list", "torch-no-gpus", "cuda-no-device",
    "answered-no-count", "answered-no-gpu-list",
)  # fmt: skip


def _find_visible(log: Log) -> str | None:
    """Return CUDA_VISIBLE_DEVICES as the facts or the log tell it; None where they do not."""
    stated = next((value for _, value in log.find_captures("visible")), None)
    return log.environment.get("CUDA_VISIBLE_DEVICES", stated)


def _read_missing_device(log: Log) -> str:
    visible = _find_visible(log)
    if visible is not None and visible not in ("0", "all"):
        if visible.startswith("MIG"):
            return "absent-mig-instance"
        # several numbers may be right, and the driver at fault
        return "gpus-listed" if "," in visible else "gpus-hidden"
    if log.has("tf-kernel-driver-not-running"):
        return "no-kernel-driver"
    return "no-gpu-in-container" if log.in_container else "no-gpu"


def _judge_visible_devices(log: Log) -> Iterator[Claim]:
    """Read what CUDA_VISIBLE_DEVICES is said to hold, where no GPU is seen."""
    failures = log.select(*_NOT_AVAILABLE)
    if not failures or log.is_healthy:
        return
    for event, visible in log.find_captures("visible"):
        is_answer = event.signature == "answered-visible-devices"
        name = "variable-printed"
        if visible in ("", "-1", "NoDevFiles") or (visible.isdecimal() and int(visible) > 0):
            name = "variable-hides"
        if is_answer or visible in ("", "-1"):
            yield conclude(name, event, *failures, visible=repr(visible))


def _judge_tensorflow(log: Log) -> Iterator[Claim]:
    """Judge what newer TensorFlow says without naming a library, by the release that says it."""
    for event in log.select("tf-no-cuda-drivers"):
        if log.has_no_gpu or log.has("cuinit-unknown-303"):
            break  # without the driver's libcuda, the toolkit's libraries would not help
        # its sources moved there with the CUDA extra
        is_moved = "local_tsl" in event.text or "local_xla" in event.text
        name = "tf-without-toolkit"
        if is_moved or _uses_cuda_wheels(log, event):
            name = "tf-without-wheels"
        yield conclude(name, event)
    for event in log.select("tf-cannot-dlopen-gpu"):
        name = _read_unnamed_library(log, event)
        if name:
            yield conclude(name, event, cuda=", ".join(log.cudas))


# TensorFlow 2.17 and newer name files without folders
_LOOKS_FOR_WHEELS = r"(?:^|\s)gpu_device\.cc:"


def _read_unnamed_library(log: Log, event: Event) -> str:
    """Name which library TensorFlow could not open: of the toolkit, cuDNN, or the CUDA wheels."""
    uses_wheels = _uses_cuda_wheels(log, event)
    if "cuda" in log.library_path.lower():
        return "tf-path-conflict"
    if any(re.fullmatch(r"nvidia-[a-z-]+-cu\d+", name) for name in log.packages):
        return "tf-wheel-not-found"
    if log.has("pip-list-nvidia-asked") and uses_wheels:
        return "tf-wheels-not-listed"
    if not log.cudas and (uses_wheels or re.search(_LOOKS_FOR_WHEELS, event.text)):
        if log.has("tf-installed-plain"):
            return "tf-installed-plain"
        return "tf-cudnn-in-container" if log.in_container else "tf-wheel-not-loaded"
    row = _find_nearest_release(log, event)
    is_loaded = row is not None and row.cuda in log.cudas
    return "tf-toolkit-without-cudnn" if is_loaded and log.facts.cudnn.value is None else ""


def _uses_cuda_wheels(log: Log, event: Event) -> bool:
    """Return whether the speaking framework has CUDA libraries as wheels, by its release."""
    row = _find_nearest_release(log, event)
    return row is not None and row.gpu_extra is not None


def _find_nearest_release(log: Log, event: Event) -> FrameworkRelease | None:
    """Return the matrix' row of the framework that speaks: its release, or the last before it."""
    framework = find_framework_of_message(event.signature)
    if framework is None:
        return None
    version = public_version(log.release_of(framework))
    for item in log.matrix.versions(framework.name) if version else ():
        if parse_number(item) <= parse_number(version):
            return log.matrix.release(framework.name, item, "linux_x86_64")
    return None


_TABLE = 40  # lines: a log that is no more than nvidia-smi's table
_UNITS = {"bytes": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_OUT_OF_MEMORY = ("torch-oom", "torch-oom-new", "cuda-oom", "tf-failed-allocate", "vllm-memory")
_ENDED_BY_MEMORY = (
    *_OUT_OF_MEMORY, "cudnn-handle", "cublas-not-initialized", "cudnn-not-initialized",
    "tf-resource-exhausted", "xla-oom",
)  # fmt: skip
_COMPUTES = "python|jupyter|tritonserver|ollama|vllm|java|julia"  # the programs that use a GPU


def memory_claims(log: Log) -> Iterator[Claim]:
    """Tell a card that others hold from a program that asks for more than there is."""
    yield from _judge_full_gpu(log)
    own = [_parse_size(item.values, "own_allocated") for item in log.select("torch-oom-allocated")]
    # in a container a process is named as if it were another
    most = max(_UNITS["G"], *(size * 3 // 2 for size in own), 0)
    for event in log.select("torch-oom-other-process"):
        if _parse_size(event.values, "other") > most:
            yield conclude("memory-of-other-process", event)
    for event in log.select(*_OUT_OF_MEMORY):
        yield conclude(_read_out_of_memory(event), event)
    holders = [
        item
        for item in log.select("fuser-holder", "lsof-holder")
        if re.search(_COMPUTES, item.values.get("process", ""))
    ]
    names = [f"{item.values['process']} ({item.values['pid']})" for item in holders[:4]]
    if holders:
        yield conclude("gpu-opened", *holders, names=", ".join(names))


def _read_out_of_memory(event: Event) -> str:
    total, free, allocated = (
        _parse_size(event.values, name) for name in ("total", "free", "allocated")
    )
    if min(free, allocated) >= 0 and allocated + free < total / 2:
        return "memory-held-by-others"
    if event.signature == "vllm-memory" and 0 <= free < total / 2:
        return "memory-held-before"
    return "oom"


def _judge_full_gpu(log: Log) -> Iterator[Claim]:
    """Look for a card that was full before the program took anything."""
    for event, other in zip(log.select("tf-memory-total"), log.select("tf-memory-free")):
        if 0 <= _parse_size(other.values, "free") < _parse_size(event.values, "total") / 10:
            yield conclude("gpu-full-at-start", event, other)
    is_table = 0 < log.ending.lines < _TABLE and not log.has("smi-process")
    is_table = is_table and all(event.signature.startswith("smi-") for event in log.events)
    is_ended = log.has(*_ENDED_BY_MEMORY)
    for event in log.select("smi-memory") if is_table or is_ended else ():
        share = 0.8
        if is_table:
            share = 0.5
        if int(event.values["used"]) > int(event.values["total"]) * share > 0:
            yield conclude("gpu-full-in-table", event)


def _parse_size(row: dict[str, str], name: str) -> int:
    """Read a size in bytes; -1 for none, and for what is no number, such as 1.2.3."""
    size = row.get(name, "").strip(".")
    if not re.fullmatch(r"\d+(?:\.\d+)?", size):
        return -1
    unit = row.get(f"{name}_unit", row.get("unit", "MiB"))
    return int(float(size) * (_UNITS.get(unit) or _UNITS.get(unit[:1], 1)))

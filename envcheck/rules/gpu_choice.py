"""Which of the machine's GPUs a CUDA program would use."""

from __future__ import annotations

from itertools import pairwise

from envcheck.model import Gpu, Known, numbers
from envcheck.rules.context import Context
from envcheck.rules.visible_devices_list import Selection, select_devices


def numbered_gpus(context: Context) -> tuple[Gpu, ...]:
    """List the GPUs that CUDA can number: those NVML lists, or all where it did not say."""
    listed = tuple(gpu for gpu in context.gpus if isinstance(gpu.nvml_index, Known))
    return listed or context.gpus


def visible_selection(value: str, gpus: tuple[Gpu, ...]) -> Selection:
    """Apply a value of CUDA_VISIBLE_DEVICES to these GPUs."""
    uuids = tuple(gpu.uuid.value if isinstance(gpu.uuid, Known) else "" for gpu in gpus)
    instances = tuple(
        tuple(device.uuid for device in gpu.mig_devices.value) if isinstance(gpu.mig_devices, Known) else ()
        for gpu in gpus
    )
    return select_devices(value, uuids, instances)


def usable_gpus(context: Context) -> tuple[Gpu, ...]:
    """List the GPUs CUDA work can land on: not those of another driver, of another container or hidden.

    Where that leaves none, all of them: why there is none is another rule's finding.
    """
    numbered = numbered_gpus(context)
    driven = tuple(gpu for gpu in numbered if not _is_elsewhere(gpu)) or numbered
    value = context.environment.get("CUDA_VISIBLE_DEVICES")
    if value is None or driven != numbered or not (_by_name(value) or _is_order_sure(context, numbered)):
        return driven
    chosen = visible_selection(value, numbered)
    return tuple(numbered[position] for position in chosen.visible) or numbered


def _is_elsewhere(gpu: Gpu) -> bool:
    return isinstance(gpu.kernel_driver, Known) and gpu.kernel_driver.value != "nvidia"


def _by_name(value: str) -> bool:
    return value.strip().startswith(("GPU-", "MIG-"))


def _is_order_sure(context: Context, gpus: tuple[Gpu, ...]) -> bool:
    """Say whether CUDA numbers these GPUs as NVML does: it puts the fastest first unless told otherwise."""
    if context.environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        return True
    return all(_same_or_slower(one, other) for one, other in pairwise(gpus))


def _same_or_slower(one: Gpu, other: Gpu) -> bool:
    if isinstance(one.name, Known) and isinstance(other.name, Known) and one.name.value == other.name.value:
        return True
    ours, theirs = _capability(one), _capability(other)
    return bool(theirs) and ours > theirs


def _capability(gpu: Gpu) -> tuple[int, ...]:
    fact = gpu.compute_capability
    return numbers(fact.value) if isinstance(fact, Known) else ()

"""What rules ask of a GPU: its name, its compute capability, its architecture."""

from __future__ import annotations

from typing import NamedTuple

from envcheck.matrix.gpus import find_gpu_by_name, find_gpu_by_pci_id
from envcheck.model import Gpu, Known, Unknown
from envcheck.model.gpu_products import GpuProduct
from envcheck.model.releases import Architecture
from envcheck.rules.context import Context
from envcheck.rules.gpu_choice import usable_gpus


class Judged(NamedTuple):
    """A GPU with its compute capability and its architecture's row (None: not in the matrix)."""

    gpu: Gpu
    capability: str
    architecture: Architecture | None


def gpu_name(gpu: Gpu) -> str:
    """Name a GPU for a message."""
    return gpu.name.value if isinstance(gpu.name, Known) else "the GPU"


def product_of(gpu: Gpu) -> GpuProduct | None:
    """Look the product up by PCI id, then by name; reports often leave the brand out ("RTX 3090")."""
    if isinstance(gpu.pci_id, Known):
        found = find_gpu_by_pci_id(gpu.pci_id.value)
        if found is not None:
            return found
    if not isinstance(gpu.name, Known):
        return None
    return find_gpu_by_name(gpu.name.value) or find_gpu_by_name(f"GeForce {gpu.name.value}")


def capability_of(context: Context, gpu: Gpu) -> str | None:
    """Return a GPU's compute capability; when it was not read, its product's, if that has just one."""
    if isinstance(gpu.compute_capability, Unknown):
        product = product_of(gpu)
        if product is not None and len(product.compute_capabilities) == 1:
            return product.compute_capabilities[0]
    return context.need(gpu.compute_capability, "gpus.compute_capability")


def judged_gpus(context: Context) -> tuple[Judged, ...]:
    """List the usable GPUs whose compute capability is known; one that could not be read ends the rule."""
    context.need(context.facts.gpus, "gpus")
    found = []
    for gpu in usable_gpus(context):
        capability = capability_of(context, gpu)
        if capability is not None:
            found.append(Judged(gpu, capability, context.matrix.architecture(capability)))
    return tuple(found)


def is_data_center(gpu: Gpu) -> bool | None:
    """Say whether forward compatibility is offered on a GPU; None when neither id nor name tells."""
    product = product_of(gpu)
    return product.data_center if product else None


def cuda_starts(context: Context) -> bool:
    """Say whether CUDA was seen to start: then the driver side works, whatever its files look like."""
    result = context.facts.driver.cuda_init_result
    return isinstance(result, Known) and result.value == 0

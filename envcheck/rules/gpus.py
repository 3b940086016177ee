"""The GPUs: names, architectures, which CUDA sees, and the code that builds have for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from envcheck.frameworks import framework_names, identity
from envcheck.host.data_files import load_data
from envcheck.matrix.gpus import find_gpu_by_name, find_gpu_by_pci_id
from envcheck.model import (
    Absent,
    Architecture,
    Gpu,
    GpuProduct,
    OtherGpu,
    OtherGpuVendors,
    OtherVendor,
    Unknown,
    dataclass,
    numbers,
    replace,
)
from envcheck.rules.context import Context

UNDECIDED = "the form is not described anywhere"


@dataclass
class Selection:
    """The GPUs that stay visible, by position; `decided` is false where the form proves nothing."""

    visible: tuple[int, ...]
    why: str = ""  # why entries are left out, in words; empty when every entry counts
    decided: bool = True


def select_devices(
    value: str, uuids: tuple[str, ...], mig_uuids: tuple[tuple[str, ...], ...]
) -> Selection:
    """Return the GPUs that a value leaves visible.

    `uuids` and `mig_uuids` are per GPU, an empty uuid is unknown.
    """
    entries = [entry.strip() for entry in value.split(",")]
    if not value.strip():
        return Selection((), "an empty list hides every GPU")
    forms = {_form_of(entry) for entry in entries}
    if "odd" in forms or len(forms - {"invalid"}) > 1:
        return Selection((), UNDECIDED, decided=False)
    if "uuid" in forms and not all(uuids):
        return Selection((), "the UUIDs of the GPUs are not known", decided=False)
    if "uuid" in forms:
        return _take_entries(entries, lambda entry: _find_uuid(entry, uuids))
    if "mig" in forms:
        return _by_mig(entries[0], mig_uuids)
    return _take_entries(entries, lambda entry: _find_index(entry, len(uuids)))


def _form_of(entry: str) -> str:
    if re.fullmatch(r"\+?\d+", entry):
        return "index"
    if re.match(r"GPU-", entry):
        return "uuid"
    if re.match(r"MIG-", entry):
        return "mig"
    if re.match(r"[+-]?\d", entry) and not re.fullmatch(r"-\d+", entry):
        return "odd"
    return "odd" if re.match(r"(?i)(gpu|mig)-", entry) else "invalid"


def _take_entries(entries: list[str], find: Callable[[str], int | str]) -> Selection:
    """Take the GPUs of entries, up to one for which `find` gives a reason in place of a GPU."""
    found: list[int] = []
    for entry in entries:
        position = find(entry)
        if isinstance(position, str):
            why = f"{position}, and the list ends at the first invalid entry"
            return Selection(tuple(found), why)
        if position in found:
            return Selection((), f"{entry} is listed twice, which empties the list")
        found.append(position)
    return Selection(tuple(found))


def _find_index(entry: str, count: int) -> int | str:
    if not re.fullmatch(r"\+?\d+", entry):
        return f"{entry!r} is no GPU" if entry else "an entry is empty"
    if int(entry) < count:
        return int(entry)
    there = "there is only GPU 0" if count == 1 else f"the GPUs are 0 to {count - 1}"
    return f"{entry} is out of range ({there})"


def _find_uuid(entry: str, uuids: tuple[str, ...]) -> int | str:
    matches = [position for position, uuid in enumerate(uuids) if uuid.startswith(entry)]
    if len(matches) == 1:
        return matches[0]
    return f"{entry} {'fits several GPUs' if matches else 'is no GPU here'}"


def _by_mig(entry: str, mig_uuids: tuple[tuple[str, ...], ...]) -> Selection:
    # the older form: MIG-<GPU UUID>/<GPU instance>/<compute instance>
    if re.match(r"MIG-GPU-", entry):
        return Selection((), "the older form of MIG names is not resolved", decided=False)
    matches = [position for position, uuids in enumerate(mig_uuids) if entry in uuids]
    if matches:
        return Selection((matches[0],))
    is_known = any(mig_uuids)
    return Selection(
        (),
        f"{entry} is no MIG instance here" if is_known else "no MIG instance is listed",
        decided=is_known,
    )


def numbered_gpus(context: Context) -> tuple[Gpu, ...]:
    """List the GPUs that CUDA can number.

    Those that NVML does not leave out, or all where it lists none.
    """
    numbered = tuple(gpu for gpu in context.gpus if not isinstance(gpu.nvml_index, Absent))
    return numbered or context.gpus


def hides_any_gpu(value: str) -> bool:
    """Return whether a value of CUDA_VISIBLE_DEVICES hides whatever GPUs there are.

    It begins with no GPU.
    """
    return _form_of(value.split(",", maxsplit=1)[0].strip()) == "invalid"


def visible_selection(value: str, gpus: tuple[Gpu, ...]) -> Selection:
    """Apply a value of CUDA_VISIBLE_DEVICES to these GPUs."""
    uuids = tuple(gpu.uuid.value or "" for gpu in gpus)
    instances = tuple(tuple(device.uuid for device in gpu.mig_devices.value or ()) for gpu in gpus)
    return select_devices(value, uuids, instances)


def usable_gpus(context: Context) -> tuple[Gpu, ...]:
    """List the GPUs CUDA work can land on.

    Not those of another driver, of another container or hidden.

    Where that leaves none, all of them: why there is none is another rule's finding.
    """
    numbered = numbered_gpus(context)
    local = tuple(gpu for gpu in numbered if gpu.kernel_driver.value in (None, "nvidia"))
    local = local or numbered
    value = context.environment.get("CUDA_VISIBLE_DEVICES")
    if (
        value is None
        or local != numbered
        or not (value.strip().startswith(("GPU-", "MIG-")) or _is_order_sure(context, numbered))
    ):
        return local
    selection = visible_selection(value, numbered)
    return tuple(numbered[position] for position in selection.visible) or numbered


def _is_order_sure(context: Context, gpus: tuple[Gpu, ...]) -> bool:
    """Return whether CUDA numbers these GPUs as NVML does: it puts the fastest first by default."""
    if context.environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        return True
    return all(_same_or_slower(first, second) for first, second in pairwise(gpus))


def _same_or_slower(first: Gpu, second: Gpu) -> bool:
    if first.name.value and first.name.value == second.name.value:
        return True
    slower = numbers(second.compute_capability.value)
    return bool(slower) and numbers(first.compute_capability.value) > slower


class JudgedGpu(NamedTuple):
    """A GPU with its compute capability and its architecture's row (None: not in the matrix)."""

    gpu: Gpu
    capability: str
    architecture: Architecture | None

    @property
    def name(self) -> str:
        """Name it for a message."""
        return gpu_name(self.gpu)

    @property
    def label(self) -> str:
        """Name it with its compute capability."""
        return f"{self.name} (compute capability {self.capability})"

    @property
    def first_toolkit(self) -> str:
        """Return the first CUDA that supports it; "" unknown, or all known ones do."""
        return (self.architecture and self.architecture.first_toolkit) or ""

    @property
    def last_toolkit(self) -> str:
        """Return the last CUDA that supports it; "" unknown, or the newest does."""
        return (self.architecture and self.architecture.last_toolkit) or ""


def gpu_name(gpu: Gpu) -> str:
    """Name a GPU for a message."""
    return gpu.name.value or "the GPU"


def product_of(gpu: Gpu) -> GpuProduct | None:
    """Look the product up by PCI id, then by name.

    Reports often leave the brand out ("RTX 3090").
    """
    if gpu.pci_id.value:
        product = find_gpu_by_pci_id(gpu.pci_id.value)
        if product is not None:
            return product
    if not gpu.name.value:
        return None
    return find_gpu_by_name(gpu.name.value) or find_gpu_by_name(f"GeForce {gpu.name.value}")


def capability_of(context: Context, gpu: Gpu) -> str | None:
    """Return a GPU's compute capability.

    When it was not read, its product's, if that has just one.
    """
    if isinstance(gpu.compute_capability, Unknown):
        product = product_of(gpu)
        if product is not None and len(product.compute_capabilities) == 1:
            return product.compute_capabilities[0]
    return context.need(gpu.compute_capability, "gpus.compute_capability")


def judged_gpus(context: Context) -> tuple[JudgedGpu, ...]:
    """List the usable GPUs whose compute capability is known.

    One that could not be read ends the rule.
    """
    context.need(context.facts.gpus, "gpus")
    result = []
    for gpu in usable_gpus(context):
        capability = capability_of(context, gpu)
        if capability is not None:
            result.append(JudgedGpu(gpu, capability, context.matrix.architecture(capability)))
    return tuple(result)


def is_data_center(gpu: Gpu) -> bool | None:
    """Return whether a GPU supports forward compatibility.

    Return None when neither its id nor its name is known.
    """
    product = product_of(gpu)
    return product.data_center if product else None


def cuda_starts(context: Context) -> bool:
    """Return whether CUDA starts: then the driver works, whatever its files look like."""
    return context.driver.cuda_init_result.value == 0


_DRIVER_RESULTS = (0, 802, 803, 804)  # results of cuInit that need an open device


def is_plain_linux(context: Context) -> bool:
    """Return whether this machine has its own kernel driver.

    Linux, no container, no WSL, no Jetson.
    """
    host = context.host
    facts = (host.container, host.wsl_version, host.jetson_release)
    return context.os in ("linux", "") and not any(fact.value is not None for fact in facts)


def was_given_gpus(context: Context) -> bool:
    """Return whether this container reaches GPUs, by nodes, NVML or a driver's answer."""
    has_nvml_gpu = context.driver.nvml_result.value == 0 and any(
        gpu.nvml_index.value is not None for gpu in context.gpus
    )
    reaches_driver = context.driver.cuda_init_result.value in _DRIVER_RESULTS
    return bool(context.gpu_nodes) or has_nvml_gpu or reaches_driver


def other_vendors() -> Mapping[str, OtherVendor]:
    """Return the vendors of GPUs that are named and not judged."""
    return load_data("program/other_gpus", OtherGpuVendors).vendors


def vendor_of_build(*names: str) -> OtherVendor | None:
    """Return the vendor for whose GPUs a build is made, by the words that state it.

    Rocm, xpu; None for none.
    """
    for vendor in other_vendors().values():
        if set(names) & set(vendor.accelerators):
            return vendor
    return None


def other_gpu_name(gpu: OtherGpu) -> str:
    """Name a GPU as its vendor does: "AMD Instinct MI300X"."""
    title = other_vendors()[gpu.vendor].title
    name = gpu.name.value or f"GPU {gpu.pci_id.value or 'of unknown model'}"
    return name if name.startswith(title) else f"{title} {name}"


# The code that a build holds: its targets, and how they serve a compute capability.


NATIVE = "native"  # machine code that runs as it is
JIT = "jit"  # only PTX, which the driver compiles at the first start
NONE = "none"  # nothing that the GPU runs


@dataclass
class ArchitectureTarget:
    """One target of a build: machine code ("sm") or PTX ("compute")."""

    kind: str
    major: int
    minor: int
    suffix: str  # "a": that capability only; "f": its family only; "" for all later ones

    @property
    def capability(self) -> str:
        """Return the compute capability it was made for: "8.6"."""
        return f"{self.major}.{self.minor}"

    def reaches(self, capability: tuple[int, ...]) -> bool:
        """Return whether code for this target runs on a compute capability.

        Embedded parts do not count.
        """
        target = (self.major, self.minor)
        if self.suffix == "a":
            return target == capability
        if self.kind == "sm" or self.suffix == "f":
            return self.major == capability[0] and self.minor <= capability[1]
        return target <= capability


@lru_cache(maxsize=256)
def parse_target(text: str) -> ArchitectureTarget | None:
    """Read a target: "sm_86", "sm_90a", "compute_120", "sm_100f"; None for anything else."""
    match = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", text)
    if match:
        return ArchitectureTarget(match[1], int(match[2]), int(match[3]), match[4])
    return None


@lru_cache(maxsize=256)
def build_targets(framework: str, texts: tuple[str, ...]) -> tuple[ArchitectureTarget, ...]:
    """Read the targets that a build names; leave out what is no target.

    In some frameworks "compute_80" stands for machine code and PTX of 8.0 alike: TensorFlow's
    configure script says so, and the code in its wheels shows it.
    """
    targets = tuple(target for target in map(parse_target, texts) if target)
    if framework not in framework_names() or not identity(framework).cuda.ptx_means_code:
        return targets
    return targets + tuple(
        replace(target, kind="sm") for target in targets if target.kind == "compute"
    )


def coverage(
    targets: Iterable[ArchitectureTarget], capability: str, is_tegra: Callable[[str], bool]
) -> str:
    """Return how a build serves a GPU: NATIVE, JIT or NONE.

    Machine code of embedded parts and of cards never serves the other kind, PTX does.
    """
    needed = numbers(capability)
    usable = [target for target in targets if target.reaches(needed)]
    for target in usable:
        same_kind = target.capability == capability or is_tegra(target.capability) == is_tegra(
            capability
        )
        if target.kind == "sm" and same_kind:
            return NATIVE
    return JIT if any(target.kind == "compute" for target in usable) else NONE

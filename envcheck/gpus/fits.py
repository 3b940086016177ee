"""Whether a job fits in a GPU's free memory, by a formula that is shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

from envcheck.gpus.holders import GpuView
from envcheck.host.data_files import load_data
from envcheck.model import Absent, Fact, Known, dataclass

_LARGEST = 10**18  # numbers; what is larger is a slip
_FACTORS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "G": 10**9, "T": 10**12}


@dataclass(frozen=True)
class Job:
    """What is to be trained or run."""

    parameters: int
    dtype: str = "fp32"
    optimizer: str = "adam"
    batch: int = 1
    activations: int = 0  # numbers that one sample leaves behind for the backward pass


@dataclass(frozen=True)
class Need:
    """The bytes a job takes, by what takes them."""

    weights: int
    gradients: int
    states: int
    sample: int  # activations of one sample
    batch: int

    @property
    def fixed(self) -> int:
        """Return what is needed whatever the batch."""
        return self.weights + self.gradients + self.states

    @property
    def total(self) -> int:
        """Return what the whole batch needs."""
        return self.fixed + self.sample * self.batch


@dataclass(frozen=True)
class Fit:
    """Whether a job fits one GPU or MIG instance."""

    place: str  # "GPU 0 (NVIDIA L4)", "MIG 1g.5gb MIG-..."
    free_bytes: Fact[int]
    fits: bool | None  # None: the free memory could not be told
    largest_batch: int | None  # None: unknown, or any (no activations given)


@dataclass(frozen=True)
class NumberSizes:
    """The bytes of one number of a dtype."""

    values: int  # weights and gradients
    states: int  # what the optimizer keeps
    activations: int
    what: str
    trains: bool = True  # False: for inference alone


@dataclass(frozen=True)
class OptimizerStates:
    """The numbers that an optimizer keeps for each weight."""

    gradients: int
    states: int
    what: str
    bytes: int | None = None  # of one number that it keeps; None: as the dtype says


@dataclass(frozen=True)
class TrainingMemory:
    """The content of data/training_memory.json, by name."""

    dtypes: Mapping[str, NumberSizes]
    optimizers: Mapping[str, OptimizerStates]


def training_memory() -> TrainingMemory:
    """Return what training takes, by dtype and optimizer."""
    return load_data("training_memory", TrainingMemory)


def parse_count(text: str) -> int:
    """Read a number as people write it: "340M", "1.3B", "7e9", "12_000"; ValueError where it is none."""
    match = re.fullmatch(r"(\d[\d_]*(?:\.\d+)?(?:e\d{1,2})?)\s*([KMBGT]?)", text.strip(), re.IGNORECASE)
    if match is None:
        raise ValueError(f"{text!r} is no number like 340M, 1.3B or 125000000")
    count = round(Fraction(match.group(1).replace("_", "")) * _FACTORS[match.group(2).upper()])
    if count > _LARGEST:
        raise ValueError(f"{text!r} is more than any model has")
    return count


def trains(dtype: str) -> bool:
    """Tell whether weights of this kind are trained, not only used."""
    return training_memory().dtypes[dtype].trains


def _sizes(job: Job) -> tuple[NumberSizes, OptimizerStates, int]:
    """Return the rows of a job's dtype and optimizer, and the bytes of one number that the optimizer keeps."""
    sizes, kept = training_memory().dtypes[job.dtype], training_memory().optimizers[job.optimizer]
    return sizes, kept, sizes.states if kept.bytes is None else kept.bytes


def need_of(job: Job) -> Need:
    """Count the bytes a job takes."""
    sizes, kept, state = _sizes(job)
    return Need(
        weights=job.parameters * sizes.values,
        gradients=job.parameters * sizes.values * kept.gradients,
        states=job.parameters * state * kept.states,
        sample=job.activations * sizes.activations,
        batch=job.batch,
    )


def formula(job: Job) -> str:
    """Show how the bytes are counted, with the job's own numbers."""
    sizes, kept, state = _sizes(job)
    count = f"{job.parameters:,}"
    terms = [f"weights {count} x {sizes.values}"]
    if kept.gradients:
        terms.append(f"gradients {count} x {sizes.values}")
    if kept.states:
        terms.append(f"{job.optimizer} {count} x {kept.states} x {state}")
    if job.activations:
        terms.append(f"activations {job.activations:,} x {sizes.activations} x batch {job.batch}")
    return " + ".join(terms) + " bytes"


def fits(job: Job, gpus: tuple[GpuView, ...], machine: Fact[int]) -> tuple[Fit, ...]:
    """Hold a job against each GPU, and against the instances of those split by MIG.

    `machine`: the bytes that the machine has to give; a GPU without memory of its own takes them from there.
    """
    need = need_of(job)
    return tuple(_fit(name, free, need) for view in gpus for name, free in _places(view, machine))


def _places(view: GpuView, machine: Fact[int]) -> list[tuple[str, Fact[int]]]:
    gpu, instances = view.activity.gpu, view.activity.instances
    if isinstance(gpu.mig_enabled, Known) and gpu.mig_enabled.value and isinstance(instances, Known):
        return [
            (f"{one.name} {one.uuid}", _free(one.memory_bytes, one.memory_used_bytes, one.memory_reserved_bytes))
            for one in instances.value
        ]
    if isinstance(gpu.memory_bytes, Absent):
        return [(f"{title(view)}, which shares the machine's memory", machine)]
    return [(title(view), _free(gpu.memory_bytes, gpu.memory_used_bytes, view.activity.memory_reserved_bytes))]


def title(view: GpuView) -> str:
    """Name a GPU by index and product."""
    gpu = view.activity.gpu
    index = str(gpu.nvml_index.value) if isinstance(gpu.nvml_index, Known) else "?"
    return f"GPU {index} ({gpu.name.value})" if isinstance(gpu.name, Known) else f"GPU {index}"


def _free(total: Fact[int], used: Fact[int], reserved: Fact[int]) -> Fact[int]:
    if not isinstance(total, Known) or not isinstance(used, Known):
        return used if isinstance(total, Known) else total
    kept = reserved.value if isinstance(reserved, Known) else 0  # else counted as used
    return Known(max(0, total.value - used.value - kept), used.source)


def _fit(place: str, free: Fact[int], need: Need) -> Fit:
    if not isinstance(free, Known):
        return Fit(place, free, None, None)
    largest = max(0, (free.value - need.fixed) // need.sample) if need.sample else None
    return Fit(place, free, need.total <= free.value, largest)

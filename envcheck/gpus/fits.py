"""Estimate a job's memory with a formula that the report shows, and compare it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction

from envcheck.gpus.holders import GpuView
from envcheck.host.data_files import load_data
from envcheck.model import Absent, Fact, Known, dataclass

_LARGEST = 10**18  # a larger count is a typing error
_FACTORS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "G": 10**9, "T": 10**12}


@dataclass
class Job:
    """A model to train or run."""

    parameters: int
    dtype: str = "fp32"
    optimizer: str = "adam"
    batch: int = 1
    activations: int = 0  # numbers that one sample keeps for the backward pass
    # of the activations while training: 2 with their gradients, as textbooks count; 1 without
    copies: int = 2
    # layers of a model that computes activations again; 0: it keeps them all
    checkpointed_layers: int = 0
    reserve: int = 0  # bytes of the CUDA context, the libraries' workspaces and fragmentation


@dataclass
class Need:
    """The bytes that a job needs, by purpose."""

    weights: int
    gradients: int
    states: int
    sample: int  # activations of one sample
    batch: int
    reserve: int = 0

    @property
    def fixed(self) -> int:
        """Return the bytes that do not depend on the batch."""
        return self.weights + self.gradients + self.states + self.reserve

    @property
    def total(self) -> int:
        """Return the bytes for the whole batch."""
        return self.fixed + self.sample * self.batch


@dataclass
class Fit:
    """Whether a job fits one GPU or MIG instance."""

    place: str  # "GPU 0 (NVIDIA L4)", "MIG 1g.5gb MIG-..."
    free_bytes: Fact[int]
    fits: bool | None  # None: the free memory is unknown
    largest_batch: int | None  # None: unknown, or any (no activations given)


@dataclass
class NumberSizes:
    """The bytes of one number of a dtype."""

    values: int  # weights and gradients
    states: int  # what the optimizer keeps
    activations: int
    what: str
    trains: bool = True  # False: for inference alone


@dataclass
class OptimizerStates:
    """The numbers that an optimizer keeps for each weight."""

    gradients: int
    states: int
    what: str
    bytes: int | None = None  # of one number that it keeps; None: as the dtype says


@dataclass
class TrainingMemory:
    """The content of data/program/training_memory.json, by name."""

    dtypes: Mapping[str, NumberSizes]
    optimizers: Mapping[str, OptimizerStates]


def load_training_memory() -> TrainingMemory:
    """Load what training takes, by dtype and optimizer."""
    return load_data("program/training_memory", TrainingMemory)


def parse_count(text: str) -> int:
    """Parse a count such as "340M", "1.3B", "7e9" or "12_000"; raises ValueError."""
    match = re.fullmatch(
        r"(\d[\d_]*(?:\.\d+)?(?:e\d{1,2})?)\s*([KMBGT]?)", text.strip(), re.IGNORECASE
    )
    if match is None:
        raise ValueError(f"{text!r} is not a number such as 340M, 1.3B or 125000000")
    count = round(Fraction(match.group(1).replace("_", "")) * _FACTORS[match.group(2).upper()])
    if count > _LARGEST:
        raise ValueError(f"{text!r} is more than any model has")
    return count


def is_trainable(dtype: str) -> bool:
    """Return whether weights of a dtype can be trained."""
    return load_training_memory().dtypes[dtype].trains


def _find_sizes(job: Job) -> tuple[NumberSizes, OptimizerStates, int]:
    """Return the rows of a job's dtype and optimizer, and the bytes per number of the optimizer."""
    table = load_training_memory()
    sizes, kept = table.dtypes[job.dtype], table.optimizers[job.optimizer]
    return sizes, kept, sizes.states if kept.bytes is None else kept.bytes


def estimate_need(job: Job) -> Need:
    """Estimate the bytes that a job needs."""
    sizes, kept, state = _find_sizes(job)
    kept_layers, layers = _count_layers(job)
    return Need(
        weights=job.parameters * sizes.values,
        gradients=job.parameters * sizes.values * kept.gradients,
        states=job.parameters * state * kept.states,
        sample=-(
            -job.activations * _count_copies(job, kept) * sizes.activations * kept_layers // layers
        ),
        batch=job.batch,
        reserve=job.reserve,
    )


def _count_copies(job: Job, kept: OptimizerStates) -> int:
    return job.copies if kept.gradients else 1  # inference has no gradients


def _count_layers(job: Job) -> tuple[int, int]:
    """Return how many of how many layers keep their activations.

    Checkpointing keeps one layer in every square root of their number, and computes the layers
    between again, those of one segment at a time (Chen et al. 2016,
    https://arxiv.org/abs/1604.06174).
    """
    layers = job.checkpointed_layers or 1
    return min(layers, 2 * math.ceil(math.sqrt(layers))), layers


def format_formula(job: Job) -> str:
    """Format the formula of the estimate with the numbers of the job."""
    sizes, kept, state = _find_sizes(job)
    count = f"{job.parameters:,}"
    terms = [f"weights {count} x {sizes.values}"]
    if kept.gradients:
        terms.append(f"gradients {count} x {sizes.values}")
    if kept.states:
        terms.append(f"{job.optimizer} {count} x {kept.states} x {state}")
    if job.activations:
        copies, (kept_layers, layers) = _count_copies(job, kept), _count_layers(job)
        shares = [f"{copies} x "] if copies > 1 else []
        if kept_layers < layers:
            shares += [f"{kept_layers}/{layers} layers x "]
        terms.append(
            f"activations {job.activations:,} x"
            f" {''.join(shares)}{sizes.activations} x batch {job.batch}"
        )
    if job.reserve:
        terms.append(f"reserve {job.reserve:,}")
    return " + ".join(terms) + " bytes"


def name_formula(job: Job) -> str:
    """Name the formula of the estimate, and what it counts."""
    if not load_training_memory().optimizers[job.optimizer].gradients:
        return "inference: weights and what one batch computes"
    counted = f"activations {'with' if job.copies > 1 else 'without'} their gradients"
    checkpointing = f", with gradient checkpointing over {job.checkpointed_layers} layers"
    return f"training, {counted}{checkpointing if job.checkpointed_layers else ''}"


def judge_fits(job: Job, gpus: tuple[GpuView, ...], machine: Fact[int]) -> tuple[Fit, ...]:
    """Compare a job with the free memory of each GPU, or of the instances of a GPU with MIG.

    `machine`: the available bytes of the machine, which a GPU without its own memory uses.
    """
    need = estimate_need(job)
    return tuple(
        _judge_fit(name, free, need) for view in gpus for name, free in _list_places(view, machine)
    )


def _list_places(view: GpuView, machine: Fact[int]) -> list[tuple[str, Fact[int]]]:
    activity, gpu = view.activity, view.activity.gpu
    if gpu.mig_enabled.value and activity.instances.value is not None:
        return [
            (
                f"{mig.name} {mig.uuid}",
                _count_free(mig.memory_bytes, mig.memory_used_bytes, mig.memory_reserved_bytes),
            )
            for mig in activity.instances.value
        ]
    if isinstance(gpu.memory_bytes, Absent):
        return [(f"{name_gpu(view)}, which shares the machine's memory", machine)]
    return [
        (
            name_gpu(view),
            _count_free(gpu.memory_bytes, gpu.memory_used_bytes, activity.memory_reserved_bytes),
        )
    ]


def name_gpu(view: GpuView) -> str:
    """Return index and product name of a GPU."""
    gpu = view.activity.gpu
    index = "?"
    if gpu.nvml_index.value is not None:
        index = str(gpu.nvml_index.value)
    if gpu.name.value is not None:
        return f"GPU {index} ({gpu.name.value})"
    return f"GPU {index}"


def _count_free(total: Fact[int], used: Fact[int], reserved: Fact[int]) -> Fact[int]:
    if not isinstance(total, Known) or not isinstance(used, Known):
        return used if isinstance(total, Known) else total
    # Where the reserved memory is unknown, the driver counts it as used.
    return Known(max(0, total.value - used.value - (reserved.value or 0)), used.source)


def _judge_fit(place: str, free: Fact[int], need: Need) -> Fit:
    if not isinstance(free, Known):
        return Fit(place, free, None, None)
    largest = None
    if need.sample:
        largest = max(0, (free.value - need.fixed) // need.sample)
    return Fit(place, free, need.total <= free.value, largest)

"""Whether a job fits: the formula by hand, the largest batch, MIG instances, memory that could not be read."""

from __future__ import annotations

import math
import re

import pytest

from envcheck.gpus.fits import Job, fits, formula, need_of, parse_count, tables, trains
from envcheck.gpus.holders import views
from envcheck.model import Absent, get_value
from envcheck.model.activity import GpuActivity
from tests.gpus.made import GIB, GONE, gpu, known, lost, reading

MACHINE = known(100 * GIB)


def fit(job: Job, *gpus: GpuActivity) -> list[tuple[str, bool | None, int | None]]:
    return [(one.place, one.fits, one.largest_batch) for one in fits(job, views(gpus, reading(), "linux"), MACHINE)]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("340M", 340_000_000),
        ("1.3B", 1_300_000_000),
        ("7e9", 7 * 10**9),
        ("12_000", 12_000),
        ("0", 0),
        ("2k", 2000),
        ("12345678901234567", 12345678901234567),  # a float would round it
        ("1.5e3M", 1_500_000_000),
        ("1e18", 10**18),
    ],
)
def test_counts_as_people_write_them(text: str, count: int) -> None:
    assert parse_count(text) == count


@pytest.mark.parametrize("text", ["", "M", "-3M", "3 apples", "1e999", "nan", "inf", "3MB", "340X", "1,5M", "0x10"])
def test_what_is_no_count(text: str) -> None:
    with pytest.raises(ValueError, match="no number like"):
        parse_count(text)


def test_the_formula_counts_weights_gradients_states_and_activations() -> None:
    job = Job(340_000_000, "fp32", "adam", 32, 12_000_000)
    need = need_of(job)
    assert (need.weights, need.gradients, need.states) == (1_360_000_000, 1_360_000_000, 2_720_000_000)
    assert need.sample == 48_000_000
    assert need.total == 5_440_000_000 + 32 * 48_000_000
    assert formula(job) == (
        "weights 340,000,000 x 4 + gradients 340,000,000 x 4 + adam 340,000,000 x 2 x 4 + "
        "activations 12,000,000 x 4 x batch 32 bytes"
    )


def test_inference_keeps_weights_only_and_autocast_halves_activations() -> None:
    assert need_of(Job(10, "fp16", "none")).total == 20
    assert formula(Job(10, "fp16", "none")) == "weights 10 x 2 bytes"
    assert need_of(Job(10, "mixed", "sgd", 2, 3)).total == 40 + 40 + 2 * 3 * 2


# By hand, in bytes for each weight: weights + gradients + states.
@pytest.mark.parametrize(
    ("dtype", "optimizer", "each"),
    [
        ("fp32", "adamw", 4 + 4 + 2 * 4),
        ("fp32", "momentum", 4 + 4 + 4),
        ("fp32", "sgd", 4 + 4),
        ("fp32", "adafactor", 4 + 4),
        ("fp32", "adam8bit", 4 + 4 + 2 * 1),
        ("bf16", "adam", 2 + 2 + 2 * 2),
        ("bf16", "adam8bit", 2 + 2 + 2 * 1),
        ("mixed", "adam", 4 + 4 + 2 * 4),
        ("fp64", "adam", 8 + 8 + 2 * 8),
        ("int8", "none", 1),
    ],
)
def test_the_bytes_of_each_weight(dtype: str, optimizer: str, each: int) -> None:
    job = Job(7_000_000_000, dtype, optimizer, 4, 1_000_000)
    activation = {"fp32": 4, "fp64": 8}.get(dtype, 2)
    assert need_of(job).total == 7_000_000_000 * each + 4 * 1_000_000 * activation
    counted = [[int(word.replace(",", "")) for word in re.findall(r"[\d,]{1,20}(?= |$)", term)] for term in terms(job)]
    assert sum(math.prod(numbers) for numbers in counted) == need_of(job).total  # what is shown adds up


def terms(job: Job) -> list[str]:
    return [term.removeprefix(job.optimizer) for term in formula(job).removesuffix(" bytes").split(" + ")]


def test_only_what_can_be_trained_is() -> None:
    assert [name for name in tables()["dtypes"] if not trains(name)] == ["int8"]


def test_a_gpu_without_memory_of_its_own_takes_the_machines() -> None:
    shared = gpu(memory_bytes=Absent(("NVML: Not Supported (3)",)), memory_used_bytes=Absent(("NVML",)))
    assert fit(Job(1_000_000_000, "fp32", "none"), shared) == [
        ("GPU 0 (Composed L4), which shares the machine's memory", True, None)
    ]


def test_what_the_driver_reserves_is_not_free() -> None:
    (found,) = fits(
        Job(1), views((gpu(used=4 * GIB, total=24 * GIB, reserved=known(GIB)),), reading(), "linux"), MACHINE
    )
    assert get_value(found.free_bytes) == 19 * GIB
    (found,) = fits(Job(1), views((gpu(used=4 * GIB, total=24 * GIB, reserved=GONE),), reading(), "linux"), MACHINE)
    assert get_value(found.free_bytes) == 20 * GIB  # an older driver counts it as used


def test_the_largest_batch_just_fits() -> None:
    job = Job(1_000_000, "fp32", "adam", 1, 1 << 20)
    ((_, does, largest),) = fit(job, gpu(used=14 * GIB, total=24 * GIB))
    assert does
    assert largest is not None
    assert need_of(Job(1_000_000, "fp32", "adam", largest, 1 << 20)).total <= 10 * GIB
    assert need_of(Job(1_000_000, "fp32", "adam", largest + 1, 1 << 20)).total > 10 * GIB


def test_each_gpu_and_each_instance_is_judged_by_itself() -> None:
    small = gpu(1, instances=((6 * GIB, GIB), (6 * GIB, 0)))
    job = Job(1_400_000_000, "fp32", "none")  # 5.2 GiB
    assert fit(job, gpu(), small, lost(2)) == [
        ("GPU 0 (Composed L4)", True, None),
        ("1g.6gb MIG-0", False, None),
        ("1g.6gb MIG-1", True, None),
        ("GPU 2", None, None),
    ]


def test_a_job_that_is_too_large_has_no_batch() -> None:
    ((_, does, largest),) = fit(Job(10**12, activations=5), gpu())
    assert (does, largest) == (False, 0)


def test_the_free_memory_is_what_is_left() -> None:
    (found,) = fits(Job(1), views((gpu(used=4 * GIB, total=24 * GIB),), reading(), "linux"), MACHINE)
    assert get_value(found.free_bytes) == 20 * GIB


def test_every_choice_of_the_tables_can_be_counted() -> None:
    for dtype in tables()["dtypes"]:
        for optimizer in tables()["optimizers"]:
            assert need_of(Job(5, dtype, optimizer, 2, 3)).total > 0

"""Whether a job fits: the formula, the largest batch, MIG instances, unknown memory."""

from __future__ import annotations

import math
import re

import pytest

from envcheck.gpus.fits import (
    Job,
    estimate_need,
    format_formula,
    is_trainable,
    judge_fits,
    load_training_memory,
    name_formula,
    parse_count,
)
from envcheck.gpus.holders import build_views
from envcheck.model import Absent, GpuActivity, replace
from tests.gpus.made import GIB, GONE, gpu, known, lost, scan

MACHINE = known(100 * GIB)


def fit(job: Job, *gpus: GpuActivity) -> list[tuple[str, bool | None, int | None]]:
    return [
        (one.place, one.fits, one.largest_batch)
        for one in judge_fits(job, build_views(gpus, scan(), "linux"), MACHINE)
    ]


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
def test_counts_with_suffixes(text: str, count: int) -> None:
    assert parse_count(text) == count


@pytest.mark.parametrize(
    "text", ["", "M", "-3M", "3 apples", "1e999", "nan", "inf", "3MB", "340X", "1,5M", "0x10"]
)
def test_invalid_counts(text: str) -> None:
    with pytest.raises(ValueError, match="is not a number such as"):
        parse_count(text)


def test_the_formula_counts_weights_gradients_states_and_activations() -> None:
    job = Job(340_000_000, "fp32", "adam", 32, 12_000_000)
    need = estimate_need(job)
    assert (need.weights, need.gradients, need.states) == (
        1_360_000_000,
        1_360_000_000,
        2_720_000_000,
    )
    assert need.sample == 2 * 48_000_000  # with their gradients
    assert need.total == 5_440_000_000 + 32 * 2 * 48_000_000
    assert f"{need.total / GIB:.1f}" == "7.9"
    assert format_formula(job) == (
        "weights 340,000,000 x 4 + gradients 340,000,000 x 4 + adam 340,000,000 x 2 x 4 + "
        "activations 12,000,000 x 2 x 4 x batch 32 bytes"
    )


def test_activations_count_once_or_a_checkpointed_share_on_request() -> None:
    once = Job(10**6, "fp32", "sgd", 8, 1_000_000, copies=1)
    assert estimate_need(once).sample == 4_000_000
    assert name_formula(once) == "training, activations without their gradients"
    # 48 layers: 7 checkpoints, and the layers of one of 7 segments at a time.
    segmented = replace(once, copies=2, checkpointed_layers=48)
    assert estimate_need(segmented).sample == math.ceil(8_000_000 * 14 / 48)
    assert "activations 1,000,000 x 2 x 14/48 layers x 4 x batch 8" in format_formula(segmented)
    assert name_formula(segmented).endswith("with gradient checkpointing over 48 layers")
    # never more than all
    assert estimate_need(replace(once, checkpointed_layers=2)).sample == 4_000_000


def test_a_reserve_is_needed_as_well() -> None:
    job = Job(1_000_000_000, "fp32", "none", reserve=2 * GIB)  # 3.7 GiB and the reserve
    assert estimate_need(job).total == 4_000_000_000 + 2 * GIB
    assert format_formula(job) == "weights 1,000,000,000 x 4 + reserve 2,147,483,648 bytes"
    assert fit(job, gpu(used=20 * GIB), gpu(1, used=18 * GIB)) == [
        ("GPU 0 (Fake L4)", False, None),  # 4 GiB are free
        ("GPU 1 (Fake L4)", True, None),
    ]


def test_inference_keeps_weights_only_and_autocast_halves_activations() -> None:
    assert estimate_need(Job(10, "fp16", "none")).total == 20
    assert format_formula(Job(10, "fp16", "none")) == "weights 10 x 2 bytes"
    assert estimate_need(Job(10, "mixed", "sgd", 2, 3)).total == 40 + 40 + 2 * 3 * 2 * 2
    # no gradients of activations
    assert estimate_need(Job(10, "fp16", "none", 2, 3)).total == 20 + 2 * 3 * 2


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
    copies = 1 if optimizer == "none" else 2
    assert estimate_need(job).total == 7_000_000_000 * each + 4 * 1_000_000 * activation * copies
    counted = [
        [int(word.replace(",", "")) for word in re.findall(r"[\d,]{1,20}(?= |$)", term)]
        for term in terms(job)
    ]
    # what is shown adds up
    assert sum(math.prod(numbers) for numbers in counted) == estimate_need(job).total


def terms(job: Job) -> list[str]:
    return [
        term.removeprefix(job.optimizer)
        for term in format_formula(job).removesuffix(" bytes").split(" + ")
    ]


def test_only_trainable_weights_are_trained() -> None:
    assert [name for name in load_training_memory().dtypes if not is_trainable(name)] == ["int8"]


def test_a_gpu_without_its_own_memory_uses_the_machine_s() -> None:
    shared = gpu(
        memory_bytes=Absent(("NVML: Not Supported (3)",)), memory_used_bytes=Absent(("NVML",))
    )
    assert fit(Job(1_000_000_000, "fp32", "none"), shared) == [
        ("GPU 0 (Fake L4), which shares the machine's memory", True, None)
    ]


def test_reserved_memory_is_not_free() -> None:
    (found,) = judge_fits(
        Job(1),
        build_views((gpu(used=4 * GIB, total=24 * GIB, reserved=known(GIB)),), scan(), "linux"),
        MACHINE,
    )
    assert found.free_bytes.value == 19 * GIB
    (found,) = judge_fits(
        Job(1),
        build_views((gpu(used=4 * GIB, total=24 * GIB, reserved=GONE),), scan(), "linux"),
        MACHINE,
    )
    assert found.free_bytes.value == 20 * GIB  # an older driver counts it as used


def test_the_largest_batch_just_fits() -> None:
    job = Job(1_000_000, "fp32", "adam", 1, 1 << 20)
    ((_, does, largest),) = fit(job, gpu(used=14 * GIB, total=24 * GIB))
    assert does
    assert largest is not None
    assert estimate_need(Job(1_000_000, "fp32", "adam", largest, 1 << 20)).total <= 10 * GIB
    assert estimate_need(Job(1_000_000, "fp32", "adam", largest + 1, 1 << 20)).total > 10 * GIB


def test_each_gpu_and_each_instance_is_judged_separately() -> None:
    small = gpu(1, instances=((6 * GIB, GIB), (6 * GIB, 0)))
    job = Job(1_400_000_000, "fp32", "none")  # 5.2 GiB
    assert fit(job, gpu(), small, lost(2)) == [
        ("GPU 0 (Fake L4)", True, None),
        ("1g.6gb MIG-0", False, None),
        ("1g.6gb MIG-1", True, None),
        ("GPU 2", None, None),
    ]


def test_a_job_that_is_too_large_has_no_batch() -> None:
    ((_, does, largest),) = fit(Job(10**12, activations=5), gpu())
    assert (does, largest) == (False, 0)


def test_free_memory_is_total_minus_used() -> None:
    (found,) = judge_fits(
        Job(1), build_views((gpu(used=4 * GIB, total=24 * GIB),), scan(), "linux"), MACHINE
    )
    assert found.free_bytes.value == 20 * GIB


def test_every_choice_of_the_tables_has_an_estimate() -> None:
    table = load_training_memory()
    for dtype in table.dtypes:
        for optimizer in table.optimizers:
            assert estimate_need(Job(5, dtype, optimizer, 2, 3)).total > 0

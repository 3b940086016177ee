"""What a plan says that it rests on although nobody stated it."""

from __future__ import annotations

import pytest

from envcheck.rules.described_machine import planned_facts
from tests.plan.machines import A100, LAPTOP, chosen, machine, matrix, planned
from tests.plan.shown import render_plan_text


@pytest.mark.parametrize(
    ("texts", "floor"),
    [
        (("torch==2.7.1",), "525.60.13"),
        (("jax[cuda13]==0.10.2",), "580.65.06"),
        (("torch==2.13.0", "tensorflow==2.20.*"), "580.65.06"),
    ],
)
def test_a_driver_nobody_described_is_told_by_what_it_has_to_be(
    texts: tuple[str, ...], floor: str
) -> None:
    told = f"No driver is described; this plan needs NVIDIA driver {floor} or newer."
    assert told in planned(*texts, on=machine(gpu="8.9")).notes


def test_a_gpu_nobody_described_is_asked_for() -> None:
    (note,) = planned("torch<2.16", on=machine()).notes
    assert note.startswith("No GPU is described, so this plan is for the CPU. Add one with --gpu")


def test_what_was_said_is_not_asked_for() -> None:
    assert planned("torch<2.16", on=machine(gpu="none")).notes == ()
    assert planned("torch<2.16", on=machine(), expect="cpu").notes == ()
    assert planned("torch<2.16", on=A100).notes == ()
    assert not any("described" in note for note in planned("torch<2.16", on=LAPTOP).notes)


def test_who_has_builds_for_a_jetson_is_said_where_the_matrix_has_none() -> None:
    plan = planned("torch==2.13.*", on=machine("3.10", "540.4.0", "8.7", "linux_aarch64"))
    (note,) = plan.notes
    assert note.startswith("NVIDIA publishes PyTorch and TensorFlow for Jetson")
    assert f"note: {note}" in render_plan_text(plan)
    assert (
        planned("torch==2.6.*", on=machine("3.10", "540.4.0", "9.0", "linux_aarch64")).notes == ()
    )


@pytest.mark.parametrize(
    ("platform", "stated", "release"),
    [
        ("linux_x86_64", "580", "580.95.05"),
        ("linux_x86_64", "590", "590.44.01"),  # no release of it was read: what a toolkit came with
        ("linux_x86_64", "580.65.06", "580.65.06"),
        ("linux_x86_64", "999", "999"),
        ("win_amd64", "576", "576.02"),
    ],
)
def test_a_driver_branch_stands_for_its_newest_known_release(
    platform: str, stated: str, release: str
) -> None:
    facts = planned_facts(
        None, machine(driver=stated, gpu="8.9", platform=platform), matrix(), expects_gpu=True
    )
    assert facts.driver.release.value is not None
    assert facts.driver.release.value == release


def test_the_plan_says_what_a_branch_stands_for() -> None:
    plan = planned("torch==2.13.*", on=machine(driver="580", gpu="8.9"))
    assert chosen(plan).requirement == "torch==2.13.0"
    assert any(note.startswith("--driver 580 stands for 580.95.05") for note in plan.notes)

"""Local versions: a build that is known is planned, any other is refused with the builds that are known."""

from __future__ import annotations

import pytest

from tests.plan.machines import A100, chosen, machine, planned

RTX_3090 = machine("3.8", "535.104.05", "8.6")


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("torch==2.13.0+xpu", "+cu132"),
        ("torch==2.13.0+rocm7.0", "+cu132"),
        ("torch==2.13.0+foo", "+cu132"),
        ("torch==2.13.0+cu118", "+cu132"),
        ("torch==2.13.0+cu134", "+cu132"),
        ("jax==0.6.0+rocm", "jax 0.6.0 itself"),
        ("tensorflow==2.20.0+cu12", "tensorflow 2.20.0 itself"),
    ],
)
def test_a_build_that_is_not_known_is_refused_with_those_that_are(text: str, known: str) -> None:
    plan = planned(text, on=A100)
    assert plan.releases == ()
    (rejected,) = plan.rejected
    assert rejected.finding == "release-unknown"
    assert known in rejected.why


def test_a_build_for_another_vendors_gpus_is_called_that() -> None:
    (rejected,) = planned("torch==2.13.0+rocm7.0", on=A100).rejected
    assert "+rocm7.0 is for AMD GPUs (ROCm)" in rejected.why


def test_a_known_build_is_planned() -> None:
    assert chosen(planned("torch==2.13.0+cu126", on=A100)).requirement == "torch==2.13.0+cu126"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("torch==1.12.1", "torch==1.12.1+cu116"),
        ("torch==1.10.*", "torch==1.10.2+cu113"),
        ("torch==1.8.*", "torch==1.8.1+cu111"),
        ("torch", "torch==2.4.1"),
    ],
)
def test_a_pinned_old_release_takes_the_build_of_its_index_that_serves_the_gpu(
    text: str, expected: str
) -> None:
    assert chosen(planned(text, on=RTX_3090)).requirement == expected


@pytest.mark.parametrize("text", ["torch", "torch<1.13", "torch==1.12.*"])
def test_what_a_pin_plans_is_planned_without_it(text: str) -> None:
    """Driver 450 on Windows runs no CUDA 11: the newest build that it runs is one of 1.12 on PyTorch's index."""
    old = machine("3.9", "450.12", "7.5", "win_amd64")
    assert chosen(planned(text, on=old)).requirement == "torch==1.12.1+cu102"

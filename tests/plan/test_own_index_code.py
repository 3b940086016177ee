"""Which build of a release is planned: by the code each holds for the GPUs, as its own table or build scripts say."""

from __future__ import annotations

import pytest

from envcheck.rules.described_machine import Description
from tests.plan.machines import V100, chosen, machine, planned

PASCAL = machine(gpu="6.1", driver="580.65.06")
WINDOWS_PASCAL = machine(gpu="6.1", driver="580.88", platform="win_amd64")


@pytest.mark.parametrize(
    ("text", "on", "expected"),
    [
        ("torch==2.13.*", V100, "torch==2.13.0+cu126"),  # its table: CUDA 12.9 begins with 7.5
        # 12.8 left 7.0 behind, whatever the table in the wheel says
        ("torch==2.11.*", V100, "torch==2.11.0+cu126"),
        ("torch==2.10.*", V100, "torch==2.10.0"),  # CUDA 12.8 still had it
        ("torch==2.8.*", PASCAL, "torch==2.8.0+cu126"),
        ("torch==2.7.*", machine(gpu="12.0", driver="580.65.06"), "torch==2.7.1+cu128"),
        ("torch==2.3.*", machine(gpu="3.7", driver="470.256.02"), "torch==2.3.1+cu118"),
        ("torch==2.8.*", WINDOWS_PASCAL, "torch==2.8.0+cu126"),
        (
            "torch==2.10.*",
            machine(gpu="9.0", driver="550.54.14", platform="linux_aarch64"),
            "torch==2.10.0+cu128",
        ),
        (
            "torch==2.9.*",
            machine(gpu="9.0", driver="550.54.14", platform="linux_aarch64"),
            "torch==2.9.1+cu128",
        ),
    ],
)
def test_the_build_with_code_for_the_gpu_is_planned(
    text: str, on: Description, expected: str
) -> None:
    release = chosen(planned(text, on=on))
    assert release.requirement == expected
    assert release.warnings == ()


def test_a_build_without_code_is_rejected_with_what_it_has() -> None:
    reasons = {
        item.requirement: item for item in chosen(planned("torch==2.13.*", on=V100)).rejected
    }
    assert reasons["torch==2.13.0+cu132"].finding == "gpu-arch-too-old"
    assert (
        "(it has code for sm_75, sm_80, sm_86, sm_90, sm_100, sm_120)"
        in reasons["torch==2.13.0+cu132"].why
    )


def test_where_no_build_of_a_release_has_code_another_release_is_offered() -> None:
    plan = planned("torch==2.6.*", on=machine(gpu="12.0", driver="580.65.06"))
    assert plan.releases == ()
    assert {item.finding for item in plan.rejected} == {"gpu-arch-too-new"}
    assert [change.what for change in plan.changes] == [
        "a different release from the one requested",
        "work on the CPU",
    ]


def test_an_old_gpu_gets_the_last_release_with_code_for_it_and_no_later_one() -> None:
    """PyTorch's builds had code for a K40 up to 1.3.0; 1.3.1 begins with that of a K80."""
    plan = planned("torch", on=machine("3.7", "470.256.02", "3.5"))
    assert chosen(plan).requirement == "torch==1.3.0"
    assert (
        planned("torch", on=machine("3.8", "470.256.02", "3.5")).changes[0].requirement
        == "torch==1.3.0"
    )


def test_a_build_that_leaves_no_gpu_out_goes_before_a_newer_cuda_that_does() -> None:
    both = Description("3.12", "580.65.06", ("12.0", "6.1"), "2.35", "linux_x86_64")
    release = chosen(planned("jax==0.12.0.1", on=both))
    assert release.requirement == "jax[cuda12]==0.12.0.1"
    assert [(item.requirement, item.finding) for item in release.rejected] == [
        ("jax[cuda13]==0.12.0.1", "gpu-arch-too-old")
    ]
    newest = chosen(planned("torch==2.15.0", on=both))
    assert (newest.requirement, [item.id for item in newest.warnings]) == (
        "torch==2.15.0",
        ["gpu-arch-too-old"],
    )


def test_no_bound_is_set_that_leaves_no_cudnn() -> None:
    """JAX for CUDA 13 asks for cuDNN 9.12, whose first wheel for it had left Pascal behind."""
    both = Description("3.12", "580.65.06", ("12.0", "6.1"), "2.35", "linux_x86_64")
    assert chosen(planned("jax[cuda13]==0.12.0.1", on=both)).constraints == ()


def test_a_build_for_an_older_cuda_than_the_gpus_first_is_passed_over_for_that() -> None:
    """Nothing tells of the code in the build of 2.9.0 for CUDA 12.8 and Windows: its CUDA does."""
    plan = planned("torch==2.9.0+cu128", on=machine("3.12", "581.15", "8.8", "win_amd64"))
    (rejected,) = plan.rejected
    assert rejected.why.endswith("(built with CUDA 12.8). CUDA 13.0 is the first that supports it.")


def test_another_build_is_planned_in_place_of_one_whose_code_is_not_stated() -> None:
    release = chosen(planned("torch==2.9.*", on=machine("3.12", "581.15", "9.0", "win_amd64")))
    assert release.requirement == "torch==2.9.1+cu130"
    older = chosen(planned("torch==2.9.*", on=machine("3.12", "572.61", "9.0", "win_amd64")))
    assert older.requirement == "torch==2.9.1+cu126"
    assert {item.requirement: item.finding for item in older.rejected}[
        "torch==2.9.1+cu128"
    ] == "release-unknown"


def test_the_newest_release_with_a_build_for_an_old_driver_is_planned() -> None:
    blackwell = machine("3.12", "572.61", "12.0", "win_amd64")
    release = chosen(planned("torch<2.16", on=blackwell))
    assert release.requirement == "torch==2.11.0+cu128"
    assert not any("Could not read" in item.why for item in release.rejected)


@pytest.mark.parametrize(
    ("minor", "builds"), [("2.13", "132 130 126"), ("2.14", "132 130 126"), ("2.15", "132 130")]
)
def test_only_builds_that_the_release_is_known_to_have_are_planned(minor: str, builds: str) -> None:
    """The table in the wheel also names 12.6 of 2.15, 13.4 of 2.14 and 12.9 of 2.13, which were not published."""
    (refused,) = planned(f"torch=={minor}.0+cu129", on=V100).rejected
    known = ", ".join(f"+cu{build}" for build in builds.split())
    assert f"{known}, +cpu" in refused.why

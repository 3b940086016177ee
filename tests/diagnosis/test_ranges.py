"""A range asks whether a release works: `doctor --for` answers with the release that `plan` takes."""

from __future__ import annotations

from functools import cache

import pytest

from envcheck import api
from envcheck.diagnosis import diagnose
from envcheck.model import (
    COMPATIBLE,
    INCOMPATIBLE,
    NOTE,
    Absent,
    Facts,
    Known,
    Report,
    Source,
    replace,
)
from envcheck.rules import Context, Target
from tests.hosts.test_hosts import matrix, snapshot_of


@cache
def with_driver_535() -> Facts:
    """Return an A100 with driver 535 and an environment without a framework."""
    facts, source = (
        snapshot_of("a100-driver-525-runs-cuda-12.6").facts,
        Source("command", "nvidia-smi"),
    )
    release, cuda = Known("535.104.05", source), Known("12.2", source)
    driver = replace(
        facts.driver, release=release, cuda_driver_version=cuda, kernel_module_version=release
    )
    driver = replace(driver, libcuda_version=release, libnvidia_ml_version=release)
    python = replace(
        facts.python, frameworks=Absent(("the environment",)), distributions=Known((), source)
    )
    return replace(facts, driver=driver, python=python)


def doctor(*requirements: str) -> Report:
    return diagnose(Context(with_driver_535(), matrix(), Target(requirements=requirements)))


@pytest.mark.parametrize("requirement", ["torch>=2.6", "torch", "torch==2.14.*", "vllm>=0.5"])
def test_a_range_is_judged_by_the_release_that_is_planned(requirement: str) -> None:
    report = doctor(requirement)
    assert report.verdict == COMPATIBLE
    plan = api.plan(
        requirement, driver="535.104.05", gpu="A100", python="3.11", platform="linux_x86_64"
    )
    (planned,) = [item for item in plan.plan.releases if item.framework == "torch"]
    assert report.asked[0].split(" (")[0] == planned.requirement.replace("==", " ")


def test_what_is_wrong_with_the_newest_release_stays_as_a_note() -> None:
    (note,) = [item for item in doctor("torch>=2.6").findings if item.id == "driver-too-old"]
    assert (note.severity, note.primary, note.fix) == (NOTE, False, None)
    assert "torch 2.15.0 was built with CUDA 13.2" in note.message


@pytest.mark.parametrize("requirement", ["torch==2.15.0", "torch>=2.15"])
def test_a_pin_and_a_range_without_a_release_that_works_stay_incompatible(requirement: str) -> None:
    report = doctor(requirement)
    assert report.verdict == INCOMPATIBLE
    assert report.findings[0].id == "driver-too-old"

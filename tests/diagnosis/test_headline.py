"""What the first sentence of a report claims, and what JSON says was judged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envcheck.diagnosis import diagnose
from envcheck.diagnosis.overview import summarize_machine
from envcheck.model import (
    NO_ENVIRONMENT,
    Absent,
    Facts,
    Known,
    PythonFacts,
    Report,
    Source,
    Unknown,
)
from envcheck.render.json_contracts import render_json
from envcheck.rules import Target
from tests.scenarios.machine import Machine, context_of, torch

NEWEST = Machine(driver="580.65.06", cuda=13000)
HERE = Source("file", "/v")
NOTHING = Absent(("distributions",))


def report_on(
    *builds: Any, target: Target | None = None, machine: Machine = NEWEST, **python: Any
) -> Report:
    stated = {"pip_version": Known("26.0", HERE), **python}
    return diagnose(context_of(machine, *builds, target=target or Target(), python=stated))


def judged(report: Report) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(render_json(report, None))["judged"]
    return document


def test_an_installed_framework_works_here() -> None:
    report = report_on(torch(), chosen_by=".venv", prefix=Known("/v", HERE))
    assert report.headline == "torch 2.7.1 works on NVIDIA A100-SXM4-40GB, driver 580.65.06."
    assert judged(report) == {
        "machine": True,
        "environment": {"prefix": "/v", "chosen_by": ".venv"},
        "others": [],
        "releases": [],
        "install": None,
    }


def test_without_a_framework_the_headline_does_not_claim_that_one_works() -> None:
    assert (
        report_on().headline
        == "Ready for deep learning on NVIDIA A100-SXM4-40GB, driver 580.65.06; no framework is"
        " installed."
    )


def test_a_release_that_is_judged_without_being_installed_is_named_with_the_command_that_installs_it() -> (
    None
):
    report = report_on(target=Target(requirements=("torch==2.9.*",)))
    assert report.headline == (
        "torch 2.9.1 will work on NVIDIA A100-SXM4-40GB, driver 580.65.06, once installed."
    )
    assert judged(report)["releases"] == ["torch 2.9.1 (CUDA 12.8)"]
    assert judged(report)["install"] == ["envcheck", "install", "torch==2.9.1"]


def test_a_release_that_does_not_work_is_named_without_a_command() -> None:
    report = report_on(
        target=Target(requirements=("torch==2.9.*",)),
        machine=Machine(driver="450.80.02", cuda=11000),
    )
    assert report.headline.startswith("torch 2.9.1 was built with CUDA 12.8 and needs driver")
    assert judged(report)["install"] is None


@pytest.mark.parametrize(
    "python",
    [
        {"chosen_by": NO_ENVIRONMENT},
        {"chosen_by": "PATH", "kind": Known("system", HERE), "frameworks": NOTHING},
    ],
    ids=["none", "the system's, taken for want of another"],
)
@pytest.mark.parametrize("expect", ["auto", "gpu"])
def test_without_an_environment_the_machine_alone_is_judged(
    python: dict[str, Any], expect: str
) -> None:
    report = report_on(target=Target(expect), prefix=Known("/usr", HERE), **python)
    assert report.verdict == "compatible"
    assert (
        report.headline
        == "Ready for deep learning on NVIDIA A100-SXM4-40GB, driver 580.65.06; no Python"
        " environment was judged."
    )
    assert judged(report)["environment"] is None


@pytest.mark.parametrize(
    "python",
    [
        {"chosen_by": "PATH", "kind": Known("venv", HERE), "frameworks": NOTHING},
        {"chosen_by": "own", "kind": Known("system", HERE), "frameworks": NOTHING},
        {"chosen_by": "", "frameworks": NOTHING},
    ],
    ids=["an environment on PATH", "the Python that runs envcheck", "an older snapshot"],
)
def test_an_empty_environment_that_is_meant_is_judged(python: dict[str, Any]) -> None:
    report = report_on(prefix=Known("/v", HERE), **python)
    assert report.headline.endswith("no framework is installed.")
    assert judged(report)["environment"]["prefix"] == "/v"


def test_the_python_line_names_an_environment_whose_python_is_gone() -> None:
    python = PythonFacts(
        executable=Known("/usr/bin/python3", HERE), chosen_by="PATH", broken_environment="/p/.venv"
    )
    line = dict(summarize_machine(Facts(python=python)))["Python"]
    assert line.endswith(
        "/p/.venv is not judged: its Python is gone. Recreate the environment (python -m venv --clear)"
    )


def test_the_gpu_line_says_why_gpus_of_other_vendors_are_unknown() -> None:
    others = Unknown("failed", "WSL shows the GPUs of Windows as /dev/dxg alone")
    line = dict(summarize_machine(Facts(gpus=NOTHING, other_gpus=others)))["GPU"]
    assert (
        line == "none by NVIDIA; others unknown (WSL shows the GPUs of Windows as /dev/dxg alone)"
    )
    assert dict(summarize_machine(Facts(gpus=NOTHING)))["GPU"] == "none"

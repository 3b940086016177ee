"""Extras that are asked for: kept, read by the names of today, or refused in a sentence."""

from __future__ import annotations

import pytest

from envcheck.cli.group import run
from envcheck.model import RequestError
from envcheck.plan.requests import read_requests
from envcheck.rules.described_machine import Description
from tests.plan.machines import A100, LAPTOP, chosen, machine, matrix, planned

DESK = machine(python="3.12")


@pytest.mark.parametrize(
    ("text", "on", "requirement"),
    [
        # for a machine that has a GPU
        ("tensorflow[and-cuda]==2.21.*", DESK, "tensorflow[and-cuda]==2.21.0"),
        ("tensorflow==2.21.*", DESK, "tensorflow-cpu==2.21.0"),
        ("jax[cuda12_pip]<0.12.1", A100, "jax[cuda12]==0.12.0.1"),
        ("jax[cuda12]<0.5", A100, "jax[cuda12]==0.4.38"),
        ("jax[k8s]<0.12.1", A100, "jax[cuda13,k8s]==0.12.0.1"),
        ("jax[cuda13]<0.12.1", DESK, "jax[cuda13]==0.12.0.1"),
        ("jax[cuda]<0.12.1", A100, "jax[cuda]==0.12.0.1"),  # brings jax-cuda12-plugin
        ("tensorflow[gcs-filesystem]==2.21.*", DESK, "tensorflow-cpu[gcs-filesystem]==2.21.0"),
    ],
)
def test_what_an_extra_comes_to(text: str, on: Description, requirement: str) -> None:
    assert chosen(planned(text, on=on)).requirement == requirement


def test_a_release_without_the_extra_is_no_plan(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned("jax[cuda13]<0.6", on=A100)
    (why,) = [item.why for item in plan.rejected]
    assert why.startswith(
        "No known release that jax[cuda13]<0.6 allows has the extra cuda13; jax 0.5.3 has ci, cpu,"
    )
    change = plan.changes[0]
    assert (change.argv[2], change.requirement[:12]) == ("jax[cuda13]", "jax[cuda13]=")
    assert run(list(change.argv[1:])) == 0
    assert change.requirement in capsys.readouterr().out


@pytest.mark.parametrize("text", ["tensorflow[x]", "jax[foo]", "torch[cuda]"])
@pytest.mark.parametrize("on", [A100, DESK])
def test_an_extra_that_nothing_has_is_refused(text: str, on: Description) -> None:
    plan = planned(text, on=on)
    assert plan.releases == ()
    assert [item.finding for item in plan.rejected] == ["dependency-conflict"]


@pytest.mark.parametrize("text", ["tensorflow[and-cuda]", "jax[cuda12]", "jax[cuda]"])
def test_an_extra_whose_wheels_are_for_other_systems_is_refused(text: str) -> None:
    plan = planned(text, on=LAPTOP)
    assert plan.releases == ()
    assert plan.rejected[0].finding == "platform-no-gpu-wheel"


def test_an_extra_that_nothing_has_may_be_left_out() -> None:
    (change, *_) = planned("jax[cuda11_pip]", on=A100).changes
    assert (change.argv[2], change.requirement[:5]) == ("jax", "jax[c")


def test_cuda_from_the_system_is_not_planned_for_jax() -> None:
    with pytest.raises(
        RequestError, match=r"jax\[cuda13-local\] takes CUDA and cuDNN from the system"
    ):
        read_requests(("jax[cuda13-local]",), matrix())

"""What a plan says of what was passed over and of why there is none."""

from __future__ import annotations

import pytest

from envcheck.model import Clash, Plan, Rejected, replace
from envcheck.plan.build import build_plan
from envcheck.plan.requests import read_requests
from envcheck.rules.described_machine import Description, planned_facts
from tests.hosts.test_hosts import snapshot_of
from tests.plan.machines import machine, matrix, planned
from tests.plan.shown import render_plan_text

NEWER = tuple(
    Rejected(f"torch==2.{minor}.0", "python-unsupported", f"has no wheel {minor % 2}.")
    for minor in range(15, 5, -1)
)


def rejected_in(*rejected: Rejected, verbose: bool = False) -> list[str]:
    plan = Plan("gpu", (), (), requirements=("torch",), rejected=rejected)
    text = render_plan_text(plan, verbose=verbose)
    return [line for line in text.splitlines() if line.startswith("  not ")]


def test_releases_that_are_rejected_alike_share_a_line() -> None:
    old_driver = Rejected("torch==2.5.1", "driver-too-old", "needs a newer driver.")
    assert rejected_in(*NEWER, old_driver) == [
        "  not torch==2.15.0 (nor 2.13.0, 2.11.0, 2.9.0, 2.7.0): has no wheel 1.",
        "  not torch==2.14.0 (nor 2.12.0, 2.10.0, 2.8.0, 2.6.0): has no wheel 0.",
        "  not torch==2.5.1: needs a newer driver.",
    ]
    alike = [Rejected(f"torch==2.{minor}.0", "x", f"torch 2.{minor}.0: no") for minor in range(9)]
    assert rejected_in(*alike) == [
        "  not torch==2.0.0 (nor 2.1.0, 2.2.0, 2.3.0, 2.4.0, 4 more): no"
    ]
    assert "2.8.0" in rejected_in(*alike, verbose=True)[0]


def test_each_finding_is_shown_once_before_the_rest_is_counted() -> None:
    old_driver = Rejected("torch==2.5.1", "driver-too-old", "needs a newer driver.")
    newer = [replace(item, why=f"has no wheel for {item.requirement[9:11]}") for item in NEWER]
    plan = Plan("gpu", (), (), requirements=("torch",), rejected=(*newer, old_driver))
    text = render_plan_text(plan)
    shown = [line.split()[1].rstrip(":") for line in text.splitlines() if line.startswith("  not ")]
    assert shown == [*(item.requirement for item in NEWER[:5]), "torch==2.5.1"]
    assert "  and 5 more releases: -v shows why not" in text


@pytest.mark.parametrize(
    ("texts", "python", "heading"),
    [
        (
            ("tensorflow<2.22",),
            "3.15",
            "No known release of tensorflow<2.22 works here on the CPU.",
        ),
        (("torch>=99",), "3.12", "No release of torch>=99 is known to work here."),
        (
            ("tensorflow", "torch"),
            "3.15",
            "tensorflow and torch on the CPU: not each has a release that works here.",
        ),
    ],
)
def test_the_heading_says_what_there_is_none_of(
    texts: tuple[str, ...], python: str, heading: str
) -> None:
    assert render_plan_text(planned(*texts, on=machine(python))).startswith(f"NO PLAN  {heading}\n")


def test_a_machine_in_the_way_is_not_blamed_upon_the_releases() -> None:
    facts = planned_facts(
        snapshot_of("gpu-lost-from-bus").facts, Description(), matrix(), expects_gpu=False
    )
    text = render_plan_text(build_plan(facts, matrix(), read_requests(("torch<2.16",), matrix())))
    assert text.startswith("NO PLAN  torch<2.16 on the GPU: the machine itself is in the way.\n")


def test_wheels_of_two_names_that_clash_are_explained() -> None:
    apart = Clash("a==1: nvidia-cudnn-cu12==8.9.4.25", "b==1: nvidia-cudnn-cu13==9.26.0.51")
    alike = Clash("a==1: numpy<2", "b==1: numpy>=2")
    text = render_plan_text(
        Plan("gpu", (), (), requirements=("a",), clashes=(apart, alike)), verbose=True
    )
    assert "nvidia-cudnn-cu13==9.26.0.51, which lie in one folder." in text
    assert "numpy>=2." in text


def test_what_a_fix_says_of_a_command_is_a_sentence_as_the_title_of_a_step() -> None:
    facts = planned_facts(
        snapshot_of("no-driver").facts, Description(), matrix(), expects_gpu=False
    )
    text = render_plan_text(build_plan(facts, matrix(), read_requests(("torch<2.16",), matrix())))
    titles = [line for line in text.splitlines() if line.startswith("# ") and line[2].isdigit()]
    assert (
        titles[0]
        == "# 1. Read the package lists. [system: as an administrator] (resolves driver-missing)"
    )
    assert all(title.split(". ", 1)[1][0].isupper() for title in titles)

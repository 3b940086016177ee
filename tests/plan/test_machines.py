"""The machine a plan is for: read, saved, or described by hand."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest

from envcheck.cli.group import run
from envcheck.model import (
    ERROR,
    INCOMPATIBLE,
    UNDETERMINED,
    WARNING,
    Finding,
    Known,
    UserError,
)
from envcheck.plan.build import build_plan
from envcheck.plan.requests import read_requests
from envcheck.plan.steps import blockers
from envcheck.render.json_contracts import render_snapshot
from envcheck.rules import Context
from envcheck.rules.described_machine import Description, planned_facts
from tests.hosts.test_hosts import NAMES, snapshot_of
from tests.plan.machines import A100, chosen, machine, matrix, planned
from tests.typed import argv, lasting, undo, unverified, verify

FRAMEWORKS = ("tensorflow", "torch", "jax")


@pytest.mark.parametrize("name", NAMES[::3])  # a third of them: each is judged many times over
def test_a_recorded_machine_gets_a_plan_or_a_reason(name: str) -> None:
    facts = snapshot_of(name).facts
    python = "" if facts.python.version.value is not None else "3.12"
    described = planned_facts(facts, Description(python=python), matrix(), expects_gpu=False)
    plan = build_plan(described, matrix(), read_requests(("tensorflow",), matrix()))
    assert plan.releases or plan.blocked_by or plan.rejected
    assert bool(plan.steps) == bool(plan.releases)
    for step in plan.steps:
        assert step.scope in ("environment", "user", "system")
        assert step.purpose
        assert argv(step) or step.scope == "system"
        assert verify(step) or unverified(step), step
        assert undo(step) or lasting(step), step
    for release in plan.releases:
        assert not release.index or "--extra-index-url" not in str(plan.steps)


@pytest.mark.parametrize(
    ("name", "steps", "blocked"),
    [
        ("no-driver", {f"driver-missing-{number}" for number in range(1, 5)}, set()),
        ("nouveau-owns-the-gpu", {f"driver-nouveau-{number}" for number in range(1, 6)}, set()),
        ("gpu-lost-from-bus", set(), {"gpu-hardware-fault"}),
        ("reported-32bit-python", set(), {"python-32bit"}),
        ("wsl-healthy", set(), set()),
    ],
)
def test_what_is_wrong_with_the_machine_is_a_step_or_in_the_way(
    name: str, steps: set[str], blocked: set[str]
) -> None:
    facts = planned_facts(snapshot_of(name).facts, Description(), matrix(), expects_gpu=False)
    plan = build_plan(facts, matrix(), read_requests(("tensorflow",), matrix()))
    assert {step.id for step in plan.steps if step.scope == "system"} == steps
    assert {item.id for item in plan.blocked_by} == blocked
    assert set(plan.resolves) == {item.rpartition("-")[0] for item in steps}


def test_what_is_said_by_hand_overrides_what_was_read() -> None:
    read = snapshot_of("no-driver").facts
    said = Description("3.13", "580.65.06", ("RTX 4090",), "2.31")
    facts = planned_facts(read, said, matrix(), expects_gpu=False)
    for fact, option in (
        (facts.python.version, "--python"),
        (facts.driver.release, "--driver"),
        (facts.gpus, "--gpu"),
        (facts.host.libc_version, "--glibc"),
    ):
        assert isinstance(fact, Known)
        assert (fact.source.kind, fact.source.where) == ("override", option)
    assert facts.host.distribution_id == read.host.distribution_id


def test_an_override_is_shown_as_such_in_the_evidence() -> None:
    plan = planned("torch<2.14", on=machine(gpu="8.9", driver="470.57"))
    facts = planned_facts(None, machine(gpu="8.9", driver="470.57"), matrix(), expects_gpu=False)
    assert isinstance(facts.driver.release, Known)
    assert facts.driver.release.source.excerpt == "470.57"
    assert plan.releases or plan.rejected


def test_no_gpu_can_be_said_too() -> None:
    facts = planned_facts(
        snapshot_of("no-driver").facts, Description(gpus=("none",)), matrix(), expects_gpu=False
    )
    plan = build_plan(facts, matrix(), read_requests(("torch<2.16",), matrix()))
    assert (plan.goal, plan.releases[0].build) == ("cpu", "cpu")


def test_two_gpus_are_both_served() -> None:
    plan = planned(
        "tensorflow<2.22",
        on=Description("3.11", "580.65.06", ("8.9", "6.1"), "2.35", "linux_x86_64"),
    )
    assert "nvidia-cudnn-cu12<9.11" in chosen(plan).constraints


def test_a_saved_machine_is_planned_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "machine.json"
    saved.write_text(render_snapshot(snapshot_of("wsl-healthy")), encoding="utf-8")
    assert run(["plan", "tensorflow", "--snapshot", str(saved), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["goal"] == "gpu"
    assert document["releases"][0]["framework"] == "tensorflow"


def test_this_machine_is_planned_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)  # where there is no .venv
    assert run(["plan", "tensorflow", "--gpu", "none", "--python", "3.11", "-v"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("PLAN  tensorflow on the CPU: tensorflow")
    assert "undo: rm -rf -- .venv" in out


def test_without_a_plan_the_exit_code_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["plan", "tensorflow==2.15.*", "--platform", "linux_x86_64", "--python", "3.13"]
    assert run([*asked, "--format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["verdict"], document["steps"]) == ("incompatible", [])
    assert run([*asked, "--format", "script"]) == 1
    assert capsys.readouterr().out.startswith("# NO PLAN")


@pytest.mark.parametrize(
    "arguments",
    [
        ["torch", "--platform", "linux_x86_64"],
        ["torch", "--platform", "linux_x86_64", "--python", "three"],
        ["torch", "--platform", "linux_x86_64", "--python", "3.12", "--env", "-x"],
        ["torch", "--platform", "win_amd64", "--python", "3.12", "--format", "dockerfile"],
        ["torch", "--snapshot", "/nowhere.json"],
    ],
)
def test_what_cannot_be_planned_is_the_users_error(arguments: list[str]) -> None:
    with pytest.raises(UserError):
        run(["plan", *arguments])


def test_doubt_is_told_by_the_exit_code() -> None:
    asked = [
        "plan",
        "tensorflow<2.22",
        "--platform",
        "linux_x86_64",
        "--python",
        "3.11",
        "--driver",
        "999.1",
    ]
    assert run([*asked, "--gpu", "8.9"]) in (0, 3)


@pytest.mark.parametrize("command", [["plan", "tensorflow==2.20.*", "--expect", "gpu"], ["doctor"]])
@pytest.mark.parametrize("hostile", ["python", "others"])
def test_what_a_saved_machine_holds_in_place_of_versions_ends_no_command(
    tmp_path: Path, command: list[str], hostile: str
) -> None:
    document = json.loads(render_snapshot(snapshot_of("no-driver")))
    facts = document["facts"]
    others = [facts["gpus"]["known"][0]["compute_capability"], facts["host"]["libc_version"]]
    for place in [facts["python"]["version"]] if hostile == "python" else others:
        place["known"] = "-rf $(id)"
    saved = tmp_path / "machine.json"
    saved.write_text(json.dumps(document), encoding="utf-8")
    with suppress(UserError):  # which Python to plan for is not known
        assert run([*command, "--snapshot", str(saved)]) in (0, 1, 3)


@pytest.mark.parametrize(
    ("severity", "verdict", "blocks"),
    [
        (ERROR, INCOMPATIBLE, True),
        (ERROR, UNDETERMINED, False),
        (WARNING, INCOMPATIBLE, False),
    ],
)
def test_only_a_known_error_that_nothing_mends_blocks_a_plan(
    severity: str, verdict: str, *, blocks: bool
) -> None:
    finding = Finding("driver-missing", verdict, severity, "composed")
    context = Context(planned_facts(None, A100, matrix(), expects_gpu=True), matrix())
    assert bool(blockers([finding], context)) is blocks

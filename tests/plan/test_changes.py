"""Where nothing fits: what is in the way, and the smallest change that would do, found by judging again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envcheck.cli.group import run
from envcheck.model import Absent, Change, replace
from envcheck.plan.build import build_plan
from envcheck.plan.requests import PlanOptions, read_requests
from envcheck.render.json_contracts import render_snapshot
from envcheck.rules.described_machine import Description, planned_facts
from tests.hosts.test_hosts import snapshot_of
from tests.plan.machines import chosen, machine, matrix, planned


def test_another_python_is_the_least_effort() -> None:
    plan = planned("tensorflow==2.15.*", on=machine(python="3.13"))
    assert not plan.releases
    assert not plan.steps
    assert {item.finding for item in plan.rejected} == {"python-unsupported"}
    first, second = plan.changes
    assert (first.what, first.requirement) == ("Python 3.11", "tensorflow-cpu==2.15.1")
    assert second.what == "a different release from the one requested"
    assert first.effort < second.effort


@pytest.mark.parametrize(
    ("gpu", "stated", "proposed"),
    [
        ("8.0", "470.256.02", "NVIDIA driver 620.70.06"),  # the newest branch
        ("7.0", "470.256.02", "NVIDIA driver 580.95.05"),  # the last that drives a V100
    ],
)
def test_the_newest_driver_that_drives_the_gpu_is_proposed(
    gpu: str, stated: str, proposed: str
) -> None:
    plan = planned("jax==0.10.*", on=machine(gpu=gpu, driver=stated))
    assert [item.what for item in plan.changes if "driver" in item.what] == [proposed]


def test_a_newer_driver_is_more_effort_than_work_on_the_cpu() -> None:
    plan = planned("jax==0.10.*", on=machine(gpu="8.0", driver="470.256.02"))
    (driver,) = [item for item in plan.changes if "driver" in item.what]
    assert "work on the CPU" in [item.what for item in plan.changes if item.effort < driver.effort]


def test_each_change_is_a_command_that_leads_to_its_release(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for on, text in (
        (machine(python="3.13"), "tensorflow==2.15.*"),
        (machine(gpu="8.0", driver="470.256.02"), "jax==0.10.*"),
        (machine(glibc="2.17"), "tensorflow==2.21.*"),
        (machine(platform="win_amd64", gpu="8.6", driver="551.61", python="3.12"), "tensorflow"),
    ):
        changes: tuple[Change, ...] = planned(text, on=on).changes
        assert changes
        for change in changes:
            assert run(list(change.argv[1:])) == 0, change
            assert change.requirement in capsys.readouterr().out


def test_an_older_libc_needs_another_system() -> None:
    plan = planned("tensorflow==2.21.*", on=machine(glibc="2.17"))
    assert "a system with glibc 2.27 or newer" in [item.what for item in plan.changes]


def test_two_changes_where_one_is_not_enough() -> None:
    plan = planned("jax>=0.12", on=machine(gpu="8.0", driver="470.256.02", python="3.10"))
    assert [(change.what, change.requirement, change.effort) for change in plan.changes] == [
        ("Python 3.12 and work on the CPU", "jax==0.12.0.1", 4),
        ("a different release from the one requested and work on the CPU", "jax==0.6.2", 5),
        ("Python 3.12 and NVIDIA driver 620.70.06", "jax[cuda13]==0.12.0.1", 6),
    ]
    assert [change.argv.count("--driver") for change in plan.changes] == [1, 1, 1]


def test_pairs_are_tried_wherever_nothing_single_does() -> None:
    """TensorFlow has no CUDA build for Arm servers, and none of 2.10 for Python 3.11 at all."""
    server = machine("3.11", "580.65.06", "8.0", "linux_aarch64")
    assert [item.what for item in planned("tensorflow==2.10.*", on=server).changes] == [
        "Python 3.10 and work on the CPU",
        "a different release from the one requested and work on the CPU",
    ]


def test_another_release_is_of_the_same_line_where_that_will_do() -> None:
    plan = planned("tensorflow==2.15.0", on=machine(gpu="8.0", driver="580.65.06"))
    (change,) = [item for item in plan.changes if item.what.startswith("a different release")]
    assert change.requirement == "tensorflow[and-cuda]==2.15.1"
    assert change.argv[:3] == ("envcheck", "plan", "tensorflow==2.15.*")


def test_a_driver_that_left_the_gpu_behind_is_to_be_an_older_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan = planned("torch==2.14.*", on=machine(gpu="7.0", driver="590.48.01"))
    assert [item.id for item in plan.blocked_by] == ["gpu-arch-too-old"]
    change = plan.changes[-1]
    assert change.what == "NVIDIA driver 580.95.05, of the last branch that supports the GPU"
    assert (change.requirement, change.effort) == (
        "torch==2.14.1+cu126",
        plan.changes[0].effort + 2,
    )
    assert run(list(change.argv[1:])) == 0
    assert change.requirement in capsys.readouterr().out


@pytest.mark.parametrize("text", ["torch>2.15", "tensorflow==2.16.0rc0", "tf-nightly"])
def test_where_the_matrix_holds_nothing_of_the_kind_that_is_said(text: str) -> None:
    (reason,) = planned(text, on=machine()).rejected
    assert (reason.requirement, reason.finding) == (text, "release-unknown")
    assert f"does not list {text} for linux_x86_64" in reason.why


def test_what_is_missing_on_the_machine_becomes_steps() -> None:
    plan = planned("tensorflow", on=machine(gpu="8.9"), expect="gpu")
    assert chosen(plan).build == "gpu"


def test_a_gpu_that_is_expected_and_not_there_blocks() -> None:
    facts = replace(
        planned_facts(None, machine(), matrix(), expects_gpu=False), gpus=Absent(("nothing",))
    )
    plan = build_plan(facts, matrix(), read_requests(("torch",), matrix()), PlanOptions("gpu"))
    assert [item.id for item in plan.blocked_by] == ["gpu-absent"]
    assert [item.what for item in plan.changes] == ["work on the CPU"]


def test_windows_leads_to_wsl_where_the_linux_wheels_run() -> None:
    for framework in ("tensorflow<2.22", "jax<0.12.1"):
        plan = planned(framework, on=machine("3.12", "551.61", "8.9", "win_amd64"))
        (change,) = [item for item in plan.changes if item.what.startswith("WSL 2")]
        assert change.argv[-8:] == (
            "--python", "3.12", "--driver", "551.61", "--platform", "linux_x86_64", "--gpu", "8.9",
        )  # fmt: skip


def test_wsl_keeps_the_gpus_that_were_read() -> None:
    read = planned_facts(
        None, machine("3.12", "551.61", "8.9", "win_amd64"), matrix(), expects_gpu=True
    )
    plan = build_plan(read, matrix(), read_requests(("jax<0.12.1",), matrix()), PlanOptions("gpu"))
    (change,) = [item for item in plan.changes if item.what.startswith("WSL 2")]
    assert change.argv[-4:] == ("--gpu", "8.9", "--expect", "gpu")


def test_the_command_of_a_change_is_for_the_same_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "machine.json"
    saved.write_text(render_snapshot(snapshot_of("alpine-for-torch")), encoding="utf-8")
    assert (
        run(["plan", "torch", "--snapshot", str(saved), "--installer", "uv", "--format", "json"])
        == 1
    )
    (change,) = json.loads(capsys.readouterr().out)["changes"]
    assert change["argv"][-4:] == ["--snapshot", str(saved), "--installer", "uv"]
    assert run(change["argv"][1:]) == 0


def test_what_nobody_knows_is_undetermined(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "tensorflow>=2.22", "--platform", "linux_x86_64", "--python", "3.12"]) == 3
    assert capsys.readouterr().out.startswith("NO PLAN")


@pytest.mark.parametrize(
    ("asked", "on", "instead"),
    [
        ("jax[cuda13]<0.12.1", machine("3.12", "550.54.14", "8.9"), "jax<0.12.1"),
        ("torch==2.7.1+cu118", machine("3.12", "580.65.06", "12.0"), "torch==2.7.1"),
        ("tensorflow-gpu==2.8.*", machine("3.9", "440.33", "8.6"), "tensorflow==2.8.*"),
    ],
)
def test_a_build_for_the_cpu_brings_no_cuda(asked: str, on: Description, instead: str) -> None:
    (change,) = [item for item in planned(asked, on=on).changes if item.what == "work on the CPU"]
    assert change.argv[2] == instead
    assert change.argv[-1] == "cpu"


def test_a_name_that_ended_leads_to_the_one_that_goes_on() -> None:
    plan = planned("tensorflow-gpu>=2.11", on=machine("3.12", "580.65.06", "8.6"))
    (other,) = [item for item in plan.changes if item.what.startswith("a different release")]
    assert other.requirement.startswith("tensorflow[and-cuda]==")
    assert other.argv[2] == "tensorflow"


@pytest.mark.parametrize(
    ("name", "python", "what"),
    [
        ("reported-32bit-python", "", "a 64-bit Python 3.7"),
        ("intel-python-on-apple-silicon", "", "Python 3.11 built for arm64"),
        ("no-gpu-auto", "3.13t", "the usual build of Python 3.13"),
    ],
)
def test_another_python_is_told_from_the_one_that_is_there(
    name: str, python: str, what: str
) -> None:
    facts = planned_facts(snapshot_of(name).facts, Description(python), matrix(), expects_gpu=False)
    plan = build_plan(facts, matrix(), read_requests(("tensorflow>=2.1,<2.22",), matrix()))
    assert plan.changes[0].what == what


def test_a_package_on_top_of_several_frameworks_is_planned_beside_another_one() -> None:
    plan = planned("keras-hub", on=machine("3.14", "570.195.03", "9.0"))
    changed = {item.what: item.argv for item in plan.changes}
    assert changed["jax in place of tensorflow"][:4] == ("envcheck", "plan", "jax", "keras-hub")
    assert "torch in place of tensorflow" in changed
    both = planned("keras-hub", "numba-cuda", on=machine("3.14", "570.195.03", "9.0"))
    assert not [item for item in both.changes if " in place of " in item.what]

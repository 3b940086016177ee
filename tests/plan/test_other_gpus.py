"""Plans beside a GPU that NVIDIA did not make."""

from __future__ import annotations

from envcheck.plan.build import build_plan
from envcheck.plan.requests import read_requests
from tests.hosts.test_hosts import snapshot_of
from tests.plan.machines import matrix


def notes(machine: str) -> str:
    plan = build_plan(snapshot_of(machine).facts, matrix(), read_requests(("torch",), matrix()))
    return " ".join(plan.notes)


def test_a_plan_says_that_it_plans_no_build_for_a_radeon() -> None:
    assert "The GPU of this machine is AMD Radeon RX 7900 XT/7900 XTX." in notes("radeon-beside-torch-cpu")


def test_a_machine_with_an_nvidia_gpu_or_none_has_no_such_note() -> None:
    assert "GPU of this machine" not in notes("torch-cpu-beside-gpu") + notes("no-gpu-auto")

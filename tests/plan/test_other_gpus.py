"""Plans beside a GPU that NVIDIA did not make."""

from __future__ import annotations

import pytest

from envcheck.model import UNDETERMINED, Plan
from envcheck.plan.build import verdict_on
from envcheck.plan.planner import plan_requirements
from envcheck.plan.requests import PlanOptions
from envcheck.rules.described_machine import Description
from tests.hosts.test_hosts import snapshot_of
from tests.plan.machines import matrix


def planned(machine: str, options: PlanOptions) -> Plan:
    return plan_requirements(("torch",), options, matrix(), snapshot_of(machine).facts).plan


@pytest.mark.parametrize("expect", ["auto", "gpu"])
def test_a_radeon_that_is_found_is_refused_as_one_that_is_described(expect: str) -> None:
    described = PlanOptions(expect, description=Description(gpus=("Radeon RX 7900 XT/7900 XTX",)))
    found = planned("radeon-beside-torch-cpu", PlanOptions(expect))
    assert found == planned("no-gpu-auto", described)
    assert verdict_on(found) == UNDETERMINED
    assert "the GPU is AMD Radeon RX 7900 XT/7900 XTX" in found.rejected[0].why
    assert "PyTorch for ROCm is on https://download.pytorch.org/whl/" in " ".join(found.notes)


@pytest.mark.parametrize(
    "options", [PlanOptions("cpu"), PlanOptions(description=Description(gpus=("none",)))]
)
def test_a_plan_for_the_cpu_is_made_beside_a_radeon(options: PlanOptions) -> None:
    assert planned("radeon-beside-torch-cpu", options).releases


@pytest.mark.parametrize(
    "machine", ["torch-cpu-beside-gpu", "no-gpu-auto", "apple-silicon-tensorflow"]
)
def test_other_machines_are_planned_for(machine: str) -> None:
    assert planned(machine, PlanOptions()).releases

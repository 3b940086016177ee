"""What the host of a container needs, by its system."""

from __future__ import annotations

import pytest

from envcheck.model.snapshot import Facts
from envcheck.plan.container_host import container_toolkit_steps
from envcheck.plan.described import planned_facts
from envcheck.rules import Context
from tests.hosts.test_hosts import snapshot_of
from tests.plan.machines import WINDOWS, machine, matrix


def steps(facts: Facts) -> list[tuple[str, bool]]:
    found = container_toolkit_steps(Context(facts, matrix()))
    assert all(step.scope == "system" for step in found)
    return [(step.id, bool(step.argv)) for step in found]


def test_a_known_distribution_gets_commands() -> None:
    wanted = [("container-toolkit", True), ("container-runtime", True), ("container-restart", True)]
    assert steps(snapshot_of("no-driver").facts) == wanted


@pytest.mark.parametrize("on", [machine(), WINDOWS])
def test_elsewhere_it_is_for_a_person_to_do(on: object) -> None:
    facts = planned_facts(None, on, matrix(), expects_gpu=True)  # type: ignore[arg-type]
    assert steps(facts) == [("container-toolkit", False)]

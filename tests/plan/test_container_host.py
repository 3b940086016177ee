"""What the host of a container needs, by its system."""

from __future__ import annotations

import pytest

from envcheck.model import Facts, Known, Source, replace
from envcheck.plan.steps import container_toolkit_steps
from envcheck.rules import Context
from envcheck.rules.described_machine import planned_facts
from tests.hosts.test_hosts import snapshot_of
from tests.plan.machines import WINDOWS, machine, matrix
from tests.typed import argv, verify

SEEN = Source("file", "composed")


def steps(facts: Facts) -> list[tuple[str, bool]]:
    found = container_toolkit_steps(Context(facts, matrix()))
    assert all(step.scope == "system" for step in found)
    return [(step.id, bool(argv(step))) for step in found]


def test_a_known_distribution_gets_commands() -> None:
    wanted = [
        *((f"container-repository-{number}", True) for number in (1, 2, 3, 4)),
        *(("container-toolkit", True), ("container-runtime", True), ("container-restart", True)),
    ]
    assert steps(snapshot_of("no-driver").facts) == wanted


@pytest.mark.parametrize("on", [machine(), WINDOWS])
def test_elsewhere_it_is_for_a_person_to_do(on: object) -> None:
    facts = planned_facts(None, on, matrix(), expects_gpu=True)  # type: ignore[arg-type]
    assert steps(facts) == [("container-toolkit", False)]


def on(distribution: str, like: str = "", root: bool = False) -> list[tuple[str, ...]]:
    facts = snapshot_of("no-driver").facts
    host = replace(
        facts.host,
        distribution_id=Known(distribution, SEEN),
        distribution_like=Known(like, SEEN),
        is_root=Known(root, SEEN),
    )
    return [
        argv(step) for step in container_toolkit_steps(Context(replace(facts, host=host), matrix()))
    ]


@pytest.mark.parametrize(
    ("distribution", "like", "install"),
    [
        ("debian", "", ("apt-get", "install", "-y")),
        ("ubuntu", "debian", ("apt-get", "install", "-y")),
        ("fedora", "", ("dnf", "install", "-y")),
        ("rocky", "rhel centos fedora", ("dnf", "install", "-y")),
        ("opensuse-leap", "suse opensuse", ("zypper", "install", "-y")),
        ("arch", "", ("pacman", "-S", "--needed")),
    ],
)
def test_each_family_installs_it_by_its_own_program(
    distribution: str, like: str, install: tuple[str, ...]
) -> None:
    *repository, first, second, third = on(distribution, like)
    assert any("libnvidia-container" in " ".join(line) for line in repository) == bool(repository)
    assert bool(repository) == (distribution != "arch")
    assert first == ("sudo", *install, "nvidia-container-toolkit")
    assert second == ("sudo", "nvidia-ctk", "runtime", "configure", "--runtime=docker")
    assert third == ("sudo", "systemctl", "restart", "docker")
    assert on(distribution, like, root=True)[-3] == (*install, "nvidia-container-toolkit")


def test_windows_is_told_of_docker_desktop() -> None:
    facts = planned_facts(None, WINDOWS, matrix(), expects_gpu=True)
    (step,) = container_toolkit_steps(Context(facts, matrix()))
    assert "Docker Desktop" in step.purpose
    assert argv(step) == ()


def test_an_unknown_system_is_told_what_to_see() -> None:
    facts = planned_facts(None, machine(), matrix(), expects_gpu=True)
    (step,) = container_toolkit_steps(Context(facts, matrix()))
    assert verify(step) == ("nvidia-ctk", "--version")

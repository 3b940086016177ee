"""What every fix and every plan must hold to, over all recorded and composed machines and every remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from envcheck.explain.remedies import document
from envcheck.model import Command, Fix, Report, Way
from envcheck.model.plans import SYSTEM, Step
from envcheck.plan.container_host import container_toolkit_steps
from envcheck.plan.proofs import Proof, proof_of
from envcheck.plan.repair import repair_plan
from envcheck.rules.compiler_fixes import compiler_anywhere, install_compiler, other_visual_studio
from envcheck.rules.fixes_driver import other_module, reload_driver, reload_uvm, sign_module, start_fabric_manager
from envcheck.rules.fixes_system import install_driver
from tests.hosts.test_hosts import NAMES, judged
from tests.rules.factory_machine import NONE, context, known

# How a command says that it is not the next one but another way to the same end.
ANOTHER_WAY = re.compile(
    r"^(or|otherwise|instead|elsewhere|outside of|alternatively|in place of|where conda|in a conda)\b"
    r"|\b(instead|the way (with|without))\b|\bor (this|leave|turn|restart|a build|what fits)\b"
    r"|; (elsewhere|Fedora|conda)",
    re.IGNORECASE,
)
FAMILIES = ("debian", "ubuntu", "fedora", "rocky", "opensuse-leap", "arch", "nixos")


def is_told(step: Step) -> bool:
    return bool(step.verify or step.unverified) and bool(step.undo or step.lasting)


def only_shows(argv: tuple[str, ...]) -> bool:
    return proof_of(argv).lasting == "it changes nothing"


def test_every_step_of_a_machine_is_seen_and_taken_back_or_says_why_not() -> None:
    steps = [(name, step) for name in NAMES for step in repair_plan(judged(name)).steps]
    assert steps
    assert [found for found in steps if not is_told(found[1])] == []


def test_no_step_of_a_machine_is_another_way() -> None:
    fixes = [(name, finding.fix) for name in NAMES for finding in judged(name).findings if finding.fix]
    assert fixes
    for name, fix in fixes:
        wrong = [
            item.purpose for item in fix.commands if ANOTHER_WAY.search(item.purpose) and not only_shows(item.argv)
        ]
        assert wrong == [], name
        for command in (*fix.commands, *(item for way in fix.alternatives for item in way.commands)):
            assert proof_of(command.argv) != Proof(), (name, command)  # so that a shell's words are the table's


def of_families() -> Iterator[Fix]:
    for name in FAMILIES:
        here = context(host={"distribution_id": known(name), "distribution_like": NONE})
        yield from (install_driver(here, None), install_driver(here, "470", exact=True), reload_driver(here))
        yield from (reload_uvm(here), sign_module(here), start_fabric_manager(here, "550.90.07"))
        yield from (other_module(here, "open"), other_module(here, "proprietary"))
        yield from (install_compiler(here, 6, 12), compiler_anywhere(here, 12))
    yield other_visual_studio("19.39")


def test_what_changes_the_system_is_told_for_every_family() -> None:
    fixes = list(of_families())
    ways: list[Fix | Way] = [*fixes, *(way for fix in fixes for way in fix.alternatives)]
    commands = [item for way in ways for item in way.commands]
    assert len(commands) > 100
    for command in commands:
        found = proof_of(command.argv)
        assert found.verify or found.unverified, command
        assert found.undo or found.lasting, command
        assert command.argv[:1] != ("sudo",) or found.undo[:1] in ((), ("sudo",)), command
    assert [item.purpose for fix in fixes for item in fix.commands if ANOTHER_WAY.search(item.purpose)] == []


@pytest.mark.parametrize("name", FAMILIES)
def test_the_host_of_containers_is_told_for_every_family(name: str) -> None:
    here = context(host={"distribution_id": known(name), "distribution_like": NONE})
    for step in container_toolkit_steps(here):
        assert step.scope == SYSTEM
        assert is_told(step), step


def test_no_remedy_takes_another_way_for_a_step() -> None:
    for row in document()["remedies"]:
        for item in row.get("commands", ()):
            assert "install" in item or not _is_another(item), row["summary"]
        for item in (
            *row.get("commands", ()),
            *(item for way in row.get("alternatives", ()) for item in way.get("commands", ())),
        ):
            assert "install" in item or proof_of(tuple(item["argv"])) != Proof(), item


def _is_another(item: dict[str, Any]) -> bool:
    return bool(ANOTHER_WAY.search(item.get("purpose", ""))) and not only_shows(tuple(item["argv"]))


def test_a_restart_comes_last_of_what_it_is_for() -> None:
    finding = judged("driver-470-for-cuda-12").findings[0]
    assert finding.fix is not None
    report = Report("incompatible", "gpu", "No.", (finding,), ())
    steps = repair_plan(report).steps
    assert [step.argv[-1] for step in steps][-1] == "reboot"
    assert steps[-1].verify == ("envcheck", "doctor", "--only", finding.id)
    assert steps[-1].lasting == "a restart is not taken back"
    assert all(step.verify[:2] != ("envcheck", "doctor") for step in steps[:-1])
    assert isinstance(finding.fix.commands[0], Command)

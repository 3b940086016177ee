"""What every fix and every plan must hold to, over all recorded and composed machines and every remedy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import pytest

from envcheck.actions import Action
from envcheck.diagnosis import with_steps
from envcheck.model import CHANGES_NOTHING, SYSTEM, Alternative, Remedy, Report, Step
from envcheck.model.fixes import (
    InstallKernelModule,
    InstallVisualStudio,
    MatchDriverParts,
    ReloadMemoryModule,
    SignModule,
    StartFabricManager,
    TrustRepository,
)
from envcheck.plan.steps import container_toolkit_steps
from envcheck.remedies import write_fix
from envcheck.remedies.driver_install import bring_driver
from envcheck.remedies.rows import AlternativeRow, RemedyRow, make_action
from envcheck.remedies.situation import Situation
from envcheck.remedies.system import install_compiler
from envcheck.remedies.toolkit import install_visual_studio
from tests.hosts.test_hosts import NAMES, context_of, diagnosed
from tests.remedies.rows import list_rows_by_finding
from tests.rules.factory_machine import NONE, UNREAD, context, known
from tests.typed import argv, judged, lasting, undo, unverified, verify

# How a command says that it is not the next one but another way to the same end.
ANOTHER_WAY = re.compile(
    r"^(or|otherwise|instead|elsewhere|outside of|alternatively|in place of|where conda|in a conda)\b"
    r"|\b(instead|the way (with|without))\b|\bor (this|leave|turn|restart|a build|what fits)\b"
    r"|; (elsewhere|Fedora|conda)",
    re.IGNORECASE,
)
FAMILIES = ("debian", "ubuntu", "fedora", "rocky", "opensuse-leap", "arch", "nixos")


def has_check_and_undo(item: Action | Step, system: str = "linux") -> bool:
    checked = verify(item, system) or unverified(item, system)
    return bool(checked) and bool(undo(item, system) or lasting(item, system))


def only_shows(action: Action) -> bool:
    return lasting(action) == CHANGES_NOTHING


def other_ways_among(actions: Iterable[Action]) -> list[str]:
    """List the purposes of the steps that are another way to the same end."""
    return [
        item.purpose
        for item in actions
        if ANOTHER_WAY.search(item.purpose) and not only_shows(item)
    ]


def reports(name: str) -> tuple[Report, ...]:
    """Return a machine's report by the remedies alone, and with the plan of what replaces a framework."""
    return with_steps(judged(context_of(name))), diagnosed(name)


@pytest.mark.parametrize("name", NAMES)
def test_every_step_of_a_machine_is_seen_and_taken_back_or_says_why_not(name: str) -> None:
    for report in reports(name):
        assert report.steps or not any(finding.fix for finding in report.findings)
        for step in report.steps:
            assert has_check_and_undo(step, report.system), step


@pytest.mark.parametrize("name", NAMES)
def test_no_step_of_a_machine_is_another_way(name: str) -> None:
    for report in reports(name):
        for fix in (finding.fix for finding in report.findings if finding.fix):
            assert other_ways_among(fix.actions) == []
            for action in (
                *fix.actions,
                *(item for way in fix.alternatives for item in way.actions),
            ):
                assert has_check_and_undo(action, report.system), action


def situation(name: str = "") -> Situation:
    """Return the situation on one Linux distribution; "" one that is not known."""
    called = known(name) if name else UNREAD
    return Situation(context(host={"distribution_id": called, "distribution_like": NONE}))


def remedies_of_the_system(here: Situation) -> Iterator[Remedy]:
    yield from (bring_driver(here), bring_driver(here, "470", exact=True))
    yield install_compiler(here, 6, 12)
    for fix in (
        MatchDriverParts(),
        ReloadMemoryModule(),
        SignModule(),
        StartFabricManager("550.90.07"),
        TrustRepository("debian12", "x86_64"),
        InstallKernelModule("open"),
        InstallKernelModule("proprietary"),
    ):
        found = write_fix(fix, here)
        assert found is not None, fix
        yield found


def test_what_changes_the_system_is_told_for_every_family() -> None:
    fixes = [fix for name in (*FAMILIES, "") for fix in remedies_of_the_system(situation(name))]
    fixes.append(install_visual_studio(situation("debian"), InstallVisualStudio("19.39")))
    ways: list[Remedy | Alternative] = [*fixes, *(way for fix in fixes for way in fix.alternatives)]
    actions = [item for way in ways for item in way.actions]
    assert len(actions) > 100
    for action in actions:
        assert has_check_and_undo(action), action
        assert argv(action)[:1] != ("sudo",) or undo(action)[:1] in ((), ("sudo",)), action
    assert [
        item.purpose for fix in fixes for item in fix.actions if ANOTHER_WAY.search(item.purpose)
    ] == []


@pytest.mark.parametrize("name", FAMILIES)
def test_the_host_of_containers_is_told_for_every_family(name: str) -> None:
    for step in container_toolkit_steps(situation(name).context):
        assert step.scope == SYSTEM
        assert has_check_and_undo(step), step


def test_no_remedy_takes_another_way_for_a_step() -> None:
    for row in (row for rows in list_rows_by_finding().values() for row in rows):
        own = actions_of(row)
        assert other_ways_among(own) == [], row.summary
        for action in (*own, *(item for way in row.alternatives for item in actions_of(way))):
            assert has_check_and_undo(action), action


def actions_of(row: RemedyRow | AlternativeRow) -> list[Action]:
    """List the actions of a row, with the names of its values in place of them; packages of the system left out."""
    made = map(make_action, row.actions)
    return [action for action in made if isinstance(action, Action)]


def test_a_restart_comes_last_of_what_it_is_for() -> None:
    finding = judged(context_of("driver-470-for-cuda-12")).findings[0]
    assert finding.fix is not None
    steps = with_steps(Report("incompatible", "gpu", "No.", (finding,), ())).steps
    assert argv(steps[-1])[-1] == "reboot"
    assert verify(steps[-1]) == ("envcheck", "doctor", "--only", finding.id)
    assert lasting(steps[-1]) == "a restart is not taken back"
    assert all(verify(step)[:2] != ("envcheck", "doctor") for step in steps[:-1])

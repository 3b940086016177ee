"""A plan on a terminal: its sentences fit the width, its commands stay whole; and what an installation shows of it."""

from __future__ import annotations

import os
import re
import struct

import pytest

from envcheck.actions import EVERY_SHELL
from envcheck.api import PlanResult
from envcheck.cli.common import Printing
from envcheck.cli.plan import show
from envcheck.model import Plan, replace
from envcheck.plan.steps import activation_steps
from envcheck.render.plan import describe_plan
from envcheck.render.text import lay_out, list_lines
from tests.plan.goldens import PLANS
from tests.plan.machines import machine, planned
from tests.plan.shown import render_plan_text
from tests.terminals import read_until

LONG = {**PLANS, "no-plan": planned("tensorflow==2.99.*", on=machine("3.12"))}


def laid_out(plan: Plan, width: int, *, verbose: bool = False) -> list[str]:
    """Return the rows of a terminal, without colour."""
    return [
        row
        for row, _ in lay_out(
            list_lines(describe_plan(plan, verbose=verbose)), width, color=False, is_ascii=True
        )
    ]


@pytest.mark.parametrize("width", [30, 60, 80, 200])
@pytest.mark.parametrize("name", LONG)
def test_sentences_fit_and_commands_stay_whole(name: str, width: int) -> None:
    whole, rows = (
        render_plan_text(LONG[name], verbose=True),
        laid_out(LONG[name], width, verbose=True),
    )
    unmarked = [re.sub(r"^[-+!x] (?=[A-Za-z]+)", "", row) for row in rows]
    assert "".join("".join(unmarked).split()) == "".join(whole.split())
    commands = [row for row in rows if re.match(r" *\$ |#    (undo|check): ", row)]
    assert set(commands) == set(
        re.findall(r"^ *\$ (?:.*\\\n)*.*$|^#    (?:undo|check): .*$", whole, re.MULTILINE)
    )
    assert [row for row in rows if len(row) > width and row not in commands] == []


def test_what_is_typed_by_nobody_is_named() -> None:
    plan = PLANS["old-cuda-wheels"]
    steps = (*plan.steps, *activation_steps(plan.environments[0], EVERY_SHELL))
    text = render_plan_text(replace(plan, steps=steps), run_for_you=True)
    assert "  writes 11 lines: .venv/bin/envcheck-cuda\n" in text
    assert "  adds 10 lines: .venv/bin/activate.fish\n" in text
    assert "printf" not in text
    verbose = render_plan_text(replace(plan, steps=steps), run_for_you=True, verbose=True)
    assert verbose.count("$ printf") == 2


@pytest.mark.needs("linux")
@pytest.mark.parametrize(
    ("columns", "stated", "wide"), [(60, "", 60), (60, "100", 100), (0, "", 80)]
)
def test_text_fits_the_terminal(
    columns: int, stated: str, wide: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl
    import termios

    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    monkeypatch.setenv("COLUMNS", stated)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    with os.fdopen(slave, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr("sys.stdout", terminal)
        show(PlanResult(LONG["no-plan"], "incompatible"), Printing())
        terminal.write("the end")
        terminal.flush()
        shown = (
            read_until(master, b"the end").decode().replace("\r\n", "\n").removesuffix("the end")
        )
    os.close(master)
    assert shown.splitlines() == [
        row.replace("x NO", "\u2717 NO") for row in laid_out(LONG["no-plan"], wide)
    ]
    assert shown.splitlines() != laid_out(LONG["no-plan"], 40)

"""A plan on a terminal: its sentences fit the width, its commands stay whole; and what an installation shows of it."""

from __future__ import annotations

import os
import re
import struct

import pytest

from envcheck.actions import EVERY_SHELL
from envcheck.api import PlanResult
from envcheck.cli.plan import show
from envcheck.model import replace
from envcheck.plan.steps import activation_steps
from envcheck.render.plan import fitted, render_plan_text
from tests.plan.goldens import PLANS
from tests.plan.machines import machine, planned
from tests.terminals import read_until

LONG = {**PLANS, "no-plan": planned("tensorflow==2.99.*", on=machine("3.12"))}


def commands(text: str) -> list[str]:
    return re.findall(r"^ *\$ (?:.*\\\n)*.*$", text, re.MULTILINE)


@pytest.mark.parametrize("width", [10, 60, 80, 200])
@pytest.mark.parametrize("name", LONG)
def test_sentences_fit_and_commands_stay_whole(name: str, width: int) -> None:
    whole = render_plan_text(LONG[name], verbose=True)
    narrow = fitted(whole, width)
    assert commands(narrow) == commands(whole)
    assert [word for word in narrow.split() if word != "#"] == [word for word in whole.split() if word != "#"]
    for command in commands(narrow):
        narrow = narrow.replace(command, "")
    long = [
        line
        for line in narrow.splitlines()
        if len(line) > max(width, 24) and not re.match(r"#    (undo|check): ", line)
    ]
    assert all(len(line.split()) == 1 + line.startswith("#") for line in long), long  # no word is broken


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
@pytest.mark.parametrize(("columns", "stated", "wide"), [(60, "", 60), (60, "100", 100), (0, "", 80)])
def test_text_fits_the_terminal(columns: int, stated: str, wide: int, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl
    import termios

    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    monkeypatch.setenv("COLUMNS", stated)
    with os.fdopen(slave, "w") as terminal:
        monkeypatch.setattr("sys.stdout", terminal)
        show(PlanResult(LONG["no-plan"], "incompatible"), "text", verbose=False)
        terminal.write("the end")
        terminal.flush()
        shown = read_until(master, b"the end").decode().replace("\r\n", "\n").removesuffix("the end")
    os.close(master)
    assert shown == fitted(render_plan_text(LONG["no-plan"]), wide) != fitted(render_plan_text(LONG["no-plan"]), 40)

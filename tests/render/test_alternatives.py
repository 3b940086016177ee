"""Other ways to mend a finding are shown in every format, and are a next step in none."""

from __future__ import annotations

import json

import pytest

from envcheck.actions import InstallPackages, InstallSystemPackages, LoadModule, Reboot
from envcheck.diagnosis import with_steps
from envcheck.model import Alternative, Finding, Remedy, Report
from envcheck.remedies import fit_to_system
from envcheck.render.formats import FORMATS, STATES
from envcheck.render.json_contracts import render_json
from tests.model.test_schemas import check, snapshot
from tests.render.shown import write
from tests.typed import argv

OTHER = Alternative("Restart the machine.", (Reboot(purpose="start anew"),))
FIX = Remedy("Load it.", (LoadModule("nvidia", purpose="load it"),), (OTHER,))
FINDING = Finding("driver-missing", "incompatible", "error", "Gone.", fix=FIX)
COMPLETE = tuple(form for form in FORMATS if form not in STATES)
REPORT = with_steps(Report("incompatible", "gpu", "No.", (FINDING,), ()))


def as_text() -> str:
    return write(REPORT, "text")


@pytest.mark.parametrize(
    "shown",
    [*(write(REPORT, form, snapshot()) for form in COMPLETE), render_json(REPORT, None)],
    ids=[*COMPLETE, "json"],
)
def test_every_format_shows_both_ways(shown: str) -> None:
    for word in ("Load it.", "modprobe", "Restart the machine.", "reboot"):
        assert word in shown


def test_only_the_first_way_is_planned() -> None:
    assert [argv(step) for step in REPORT.steps] == [("sudo", "modprobe", "nvidia")]
    document = json.loads(render_json(REPORT, None))
    check("report", document)
    (finding,) = document["findings"]
    assert [way["summary"] for way in finding["fix"]["alternatives"]] == ["Restart the machine."]
    assert len(document["plan"]["steps"]) == 1
    assert as_text().index("  or: Restart") > as_text().index("modprobe")


def test_where_the_first_way_is_none_another_takes_its_place() -> None:
    wheel = Alternative("Or the wheel.", (InstallPackages(("x",), "python3"),))
    fix = Remedy("Install it.", (InstallSystemPackages("apt-get", ("x",)),), (OTHER, wheel))
    found = fit_to_system(fix, "windows")
    assert [argv(action, "windows") for action in found.actions] == [
        ("python", "-m", "pip", "install", "x")
    ]
    assert found.summary == "Install it. Or the wheel."
    assert found.alternatives == ()
    assert fit_to_system(fix, "linux") == fix

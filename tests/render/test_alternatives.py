"""Other ways to mend a finding are shown in every format, and are a next step in none."""

from __future__ import annotations

import json

import pytest

from envcheck.model import Command, Finding, Fix, Report, Way
from envcheck.plan.repair import repair_plan
from envcheck.render.html import render_html
from envcheck.render.json_report import render_json
from envcheck.render.junit import render_report
from envcheck.render.markdown import render_github, render_markdown
from envcheck.render.report_text import finding_lines
from envcheck.render.sarif import render_sarif
from envcheck.rules.fixes_shell import fitted
from tests.model.test_schemas import check, snapshot

OTHER = Way("Restart the machine.", (Command(("sudo", "reboot"), "system", "start anew"),))
FIX = Fix("Load it.", (Command(("sudo", "modprobe", "nvidia"), "system", "load it"),), (OTHER,))
REPORT = Report(
    "incompatible", "gpu", "No.", (Finding("driver-missing", "incompatible", "error", "Gone.", fix=FIX),), ()
)


def as_text() -> str:
    steps = repair_plan(REPORT).steps
    return "\n".join(
        label + said for label, said, _ in finding_lines(REPORT.findings[0], "", verbose=False, steps=steps)
    )


@pytest.mark.parametrize(
    "shown",
    [
        as_text(),
        render_markdown(REPORT, None),
        render_html(REPORT, snapshot()),
        render_github(REPORT),
        render_report(REPORT),
        render_sarif(REPORT),
        render_json(REPORT, None),
    ],
    ids=["text", "markdown", "html", "github", "junit", "sarif", "json"],
)
def test_every_format_shows_both_ways(shown: str) -> None:
    for word in ("Load it.", "modprobe", "Restart the machine.", "reboot"):
        assert word in shown


def test_only_the_first_way_is_planned() -> None:
    assert [step.argv for step in repair_plan(REPORT).steps] == [("sudo", "modprobe", "nvidia")]
    document = json.loads(render_json(REPORT, None))
    check("report", document)
    (finding,) = document["findings"]
    assert [way["summary"] for way in finding["fix"]["alternatives"]] == ["Restart the machine."]
    assert len(document["plan"]["steps"]) == 1
    assert as_text().index("  or: Restart") > as_text().index("modprobe")


def test_where_the_first_way_is_none_another_takes_its_place() -> None:
    wheel = Way("Or the wheel.", (Command(("python", "-m", "pip", "install", "x")),))
    fix = Fix("Install it.", (Command(("sudo", "apt-get", "install", "-y", "x"), "system"),), (OTHER, wheel))
    report = Report("incompatible", "gpu", "No.", (Finding("a", "incompatible", "error", "b", fix=fix),), ())
    found = fitted(report, "windows").findings[0].fix
    assert found is not None
    assert [command.argv for command in found.commands] == [("python", "-m", "pip", "install", "x")]
    assert found.summary == "Install it. Or the wheel."
    assert found.alternatives == ()
    kept = fitted(report, "linux").findings[0].fix
    assert kept == fix

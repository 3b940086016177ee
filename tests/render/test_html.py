"""The page: self-contained, inert, readable on a phone, in the dark and on paper."""

from __future__ import annotations

import html
import re
import subprocess
from pathlib import Path

import pytest

from envcheck.actions import RunCommand, shell_line
from envcheck.diagnosis import with_steps
from envcheck.model import (
    SCHEMA_VERSION,
    SYSTEM,
    Absent,
    DriverFacts,
    Evidence,
    Facts,
    Finding,
    HostFacts,
    Known,
    Remedy,
    Report,
    Snapshot,
    Source,
    Unknown,
)
from envcheck.render.report import describe_machine
from envcheck.rules import Target, evaluate
from tests.hosts.test_hosts import context_of as host_context
from tests.hosts.test_hosts import snapshot_of
from tests.needs import find_chromium
from tests.render.shown import write
from tests.scenarios.machine import Machine, context_of, torch
from tests.typed import argv, judged

BROKEN = "driver-470-for-cuda-12"  # a composed machine, see tests/hosts
HOSTILE = (
    "</style><script>alert(1)</script>\x1b[31m\x00 {{ 7*7 }} '\"><img src=x onerror=alert(1)> \u202e"
    + "W" * 300
)


def report_on(name: str) -> Report:
    """Return a machine's report, with steps that change the system."""
    return with_steps(judged(host_context(name)))


def page(name: str = BROKEN) -> str:
    return write(report_on(name), "html", snapshot_of(name))


def hostile_page() -> str:
    source = Source("file", HOSTILE, HOSTILE)
    fix = Remedy(HOSTILE, (RunCommand(("echo", HOSTILE), HOSTILE, SYSTEM),))
    finding = Finding(
        "driver-too-old",
        "incompatible",
        "error",
        HOSTILE,
        (Evidence(HOSTILE, HOSTILE, source),),
        fix,
        primary=True,
    )
    report = with_steps(Report("incompatible", "gpu", HOSTILE, (finding,), ()))
    facts = Facts(
        host=HostFacts(os=Known(HOSTILE, source)),
        driver=DriverFacts(release=Known(HOSTILE, source)),
    )
    return write(report, "html", Snapshot(SCHEMA_VERSION, "0", HOSTILE, HOSTILE, facts))


def test_the_page_tells_cause_evidence_and_commands() -> None:
    text = html.unescape(page())
    assert "<title>envcheck: incompatible</title>" in text
    assert "needs driver >= 525.60.13; this machine runs 470.256.02." in text
    assert "<pre>sudo ubuntu-drivers install</pre>" in text
    assert "/sys/module/nvidia/version" in text


@pytest.mark.parametrize("text", [page(), hostile_page()], ids=["broken", "hostile"])
def test_the_page_loads_nothing_and_runs_nothing(text: str) -> None:
    assert "default-src 'none'" in text
    assert "<script" not in text.lower()
    assert (
        re.findall(r"(?:src|href|action)\s*=", re.sub(r"&\S+?;", "", text).replace("img src=x", ""))
        == []
    )
    assert "url(" not in text
    assert "@import" not in text


def test_text_of_a_machine_is_inert() -> None:
    text = hostile_page()
    assert "<img" not in text
    assert "49" not in re.sub(r"&#\d+;", "", text).replace("{{ 7*7 }}", "")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e]", text)
    assert text.count("</style>") == 1


def test_each_layer_has_the_state_of_its_findings() -> None:
    states = {
        layer.name: layer.state
        for layer in describe_machine(report_on(BROKEN), snapshot_of(BROKEN).facts)
    }
    assert states == {
        "Machine": "ok",
        "Compiler": "not there",
        "Frameworks": "asked for",
        "Python": "error",
        "cuDNN": "not there",
        "CUDA": "not there",
        "Driver": "error",
        "GPU": "ok",
    }


def test_the_boxes_stand_on_each_other_and_say_what_meets_what() -> None:
    context = context_of(Machine(), torch(), target=Target("gpu"))
    drawn = describe_machine(evaluate(context), context.facts)
    assert [layer.name for layer in drawn] == [
        "Machine", "GPU", "Driver", "CUDA", "cuDNN", "Compiler", "Python", "Frameworks",
    ]  # fmt: skip
    assert {layer.name: layer.meets for layer in drawn if layer.meets} == {
        "Frameworks": ("torch was built for CUDA 12.6",),
        "CUDA": ("the driver runs CUDA up to 12.4",),
        "Driver": ("torch holds code for compute capability 5.0, 6.0, 7.0, 7.5, 8.0, 8.6, 9.0",),
    }
    assert {layer.state for layer in drawn if layer.name != "Compiler"} == {"ok", "not needed"}


def test_a_release_that_is_only_asked_for_stands_in_the_picture() -> None:
    for there, text in (
        (Absent(("/venv",)), "not installed; asked for: tensorflow 2.15.1 (CUDA 12.2)"),
        (None, "torch 2.7.1+cu126 (CUDA 12.6); asked for: tensorflow 2.15.1 (CUDA 12.2)"),
    ):
        python = {"frameworks": there} if there else {}
        context = context_of(
            Machine(), torch(), target=Target("gpu", ("tensorflow==2.15.*",)), python=python
        )
        (framework,) = (
            item
            for item in describe_machine(evaluate(context), context.facts)
            if item.name == "Frameworks"
        )
        assert framework.text == text
        assert framework.state != "not there"


def test_a_layer_that_could_not_be_read_is_never_shown_as_sound() -> None:
    unread = {"frameworks": Unknown("timeout", "composed")}
    context = context_of(Machine(), torch(), target=Target("gpu"), python=unread)
    states = {
        layer.name: layer.state for layer in describe_machine(evaluate(context), context.facts)
    }
    assert (states["Frameworks"], states["GPU"]) == ("undetermined", "ok")


def test_the_plan_is_numbered_and_says_what_each_step_is_for() -> None:
    text = html.unescape(page())
    assert text.count('<ol class="plan">') == 1
    steps = report_on(BROKEN).steps
    assert len(steps) > 1
    assert all(f"<pre>{shell_line(argv(step))}</pre>" in text for step in steps)
    assert "for driver-too-old; changes the whole system" in text


@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
def test_every_tone_can_be_read_on_both_grounds(scheme: str) -> None:
    blocks = re.findall(r":root \{(.*?)\}", page(), re.DOTALL)
    colors = dict(re.findall(r"--(\w+): (#\w+)", blocks[("light", "dark", "print").index(scheme)]))

    def spelled(color: str) -> str:
        wide = color[1:] if len(color) == 7 else "".join(part * 2 for part in color[1:])
        return f"rgb({int(wide[:2], 16)}, {int(wide[2:4], 16)}, {int(wide[4:], 16)})"

    for tone in ("ink", "dim", "ok", "warning", "error", "undetermined"):
        for ground in ("ground", "card"):
            assert contrast(spelled(colors[tone]), spelled(colors[ground])) >= 4.5, (tone, ground)


def test_an_unread_layer_is_said_as_undetermined() -> None:
    finding = Finding("driver-missing", "undetermined", "error", "unread")
    report = Report(
        "undetermined", "gpu", "", (finding, Finding("gpu-absent", "compatible", "note", "")), ()
    )
    states = {layer.name: layer.state for layer in describe_machine(report, Facts(gpus=Absent()))}
    assert states["Driver"] == "undetermined"
    assert states["GPU"] == "not there"


# --- drawn by a real browser ---

MEASURE = """<iframe id="f" style="width:360px;height:900px" srcdoc="{page}"></iframe>
<script>
f.onload = () => {{
  const d = f.contentDocument, s = getComputedStyle(d.body);
  document.title = JSON.stringify([d.documentElement.scrollWidth, s.backgroundColor, s.color]);
}};
</script>"""


def chromium(*arguments: str) -> str:
    argv = [
        find_chromium() or "",
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        *arguments,
    ]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout


def measured(text: str, folder: Path, scheme: int) -> tuple[int, str, str]:
    frame = folder / "frame.html"
    frame.write_text(MEASURE.format(page=html.escape(text)), encoding="utf-8")
    settings = f"--blink-settings=preferredColorScheme={scheme}"
    dom = chromium(settings, "--virtual-time-budget=3000", "--dump-dom", frame.as_uri())
    found = re.search(r"<title>\[(\d+),\"(.+?)\",\"(.+?)\"\]</title>", html.unescape(dom))
    assert found, dom[-500:]
    return int(found[1]), found[2], found[3]


def contrast(one: str, other: str) -> float:
    """Return the WCAG contrast ratio of two colours as browsers spell them: rgb(1, 2, 3)."""

    def luminance(color: str) -> float:
        parts = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
        linear = [
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.needs("chromium")
def test_a_browser_shows_it_on_a_phone_in_the_light_and_in_the_dark(tmp_path: Path) -> None:
    light = measured(page(), tmp_path, 1)
    dark = measured(hostile_page(), tmp_path, 0)
    assert light[0] <= 360, "the page is wider than a phone"
    assert dark[0] <= 360, "a long word makes the page wider than a phone"
    assert light[1] != dark[1]
    assert contrast(*light[1:]) >= 7
    assert contrast(*dark[1:]) >= 7


@pytest.mark.needs("chromium")
def test_a_browser_prints_it(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page(), encoding="utf-8")
    chromium(f"--print-to-pdf={tmp_path / 'page.pdf'}", file.as_uri())
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF-")

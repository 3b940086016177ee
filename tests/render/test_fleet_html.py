"""The fleet's page in a real browser: inert, and usable with ten thousand hosts."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

from envcheck.fleet.report import HostRow
from envcheck.render.fleet import render_fleet_html
from tests.render.test_html import chromium

HOSTILE = "</script><script>owned=1</script><img src=x onerror=owned=1>\x1b[31m\u202e' \" {{ 7*7 }} ${owned=1} <!-- "
CAUSES = (("incompatible", "driver-too-old"), ("undetermined", "unreachable"), ("compatible", ""))
# Appended after the page's own script: what a person would do, and what they would see.
ACT = """
const seen = {owned: typeof owned !== "undefined", images: document.images.length, frames: frames.length};
const shown = () => byId("lines").rows.length;
const first = () => byId("lines").rows[0].cells[0].textContent;
const cells = (row) => [row.cells[0].textContent, row.cells[1].textContent];
const put = (id, value) => { byId(id).value = value; byId(id).oninput(); };
const sort = () => byId("heads").querySelectorAll("button")[0].click();
seen.rows = shown(); seen.count = byId("count").textContent; seen.first = first();
put("words", "host00007 550"); seen.filtered = [shown(), first(), byId("count").textContent];
put("words", "");
put("verdict", "=undetermined"); seen.chosen = byId("count").textContent; put("verdict", "");
put("cause", "="); seen.working = byId("count").textContent; put("cause", "");
sort(); seen.sorted = first();
sort(); seen.fell = first();
put("group", "2"); seen.groups = [...byId("lines").rows].map(cells);
put("group", ""); byId("more").onclick(); seen.more = shown();
document.title = JSON.stringify(seen);
"""


def rows(count: int, message: str = "it works") -> list[HostRow]:
    made = []
    for number in range(count):
        verdict, cause = CAUSES[number % 3]
        machine = (
            ("Driver", f"550.{number % 100}.01"),
            ("GPU", "8 x NVIDIA A100-SXM4-80GB (compute capability 8.0)"),
        )
        made.append(
            HostRow(
                f"host{number:05}",
                verdict,
                cause,
                message,
                machine,
                (f"Driver: 550.{number % 100}.01",),
            )
        )
    return made


# What a reader does with the columns, the causes and the address.
ARRANGE = """
const seen = {}, copied = [];
document.execCommand = () => { copied.push(document.activeElement.value); return true; };
const names = () => [...byId("heads").cells].map((head) => head.textContent);
const box = (name) => [...byId("columns").children].find((label) => label.textContent === name).firstChild;
const lines = () => [...byId("lines").rows];
seen.names = names(); seen.wide = document.documentElement.scrollWidth;
seen.heights = [...new Set(lines().map((row) => Math.round(row.getBoundingClientRect().height)))];
const toggle = (name) => { box(name).checked = !box(name).checked; box(name).onchange(); };
toggle("Driver"); toggle("Message"); seen.chosen = names(); seen.address = decodeURIComponent(location.hash);
lines()[0].onclick(); seen.details = lines()[1].textContent; lines()[0].onclick(); seen.closed = lines()[1].className;
const link = document.querySelectorAll("a[href^='#verdict']")[0];
link.click();
seen.link = [link.textContent, byId("count").textContent, byId("cause").value, names()[3]];
document.querySelector("button[data-cause]").onclick();
byId("words").value = "host00001"; find(); byId("copy").onclick();
seen.copied = copied;
location.hash = "#words=host0&group=2&sort=-Host&columns=Host,GPU&cause=%3Dnone-such"; recall();
seen.recalled = [names(), byId("group").value, byId("words").value, byId("cause").value, found[0][0]];
document.title = JSON.stringify(seen);
"""


def acted_on(listed: list[HostRow], folder: Path, act: str = ACT) -> dict[str, Any]:
    """Open the page in Chromium, act on it, and return what was seen there."""
    file = folder / "page.html"
    page = render_fleet_html(listed, "golden")
    # The page's policy runs its own script alone: this test's goes where that one is, with its
    # hash.
    policy, count = re.subn(r"script-src '[^']+'", "script-src 'unsafe-inline'", page)
    assert count == 1
    file.write_text(
        policy.replace("</body>", f"<script>{{{act}}}</script></body>"), encoding="utf-8"
    )
    dom = chromium("--window-size=1280,900", "--dump-dom", file.as_uri())
    found = re.search(r"<title>(\{.*?\})</title>", dom)
    assert found, dom[:500]
    seen: dict[str, Any] = json.loads(html.unescape(found[1]))
    return seen


@pytest.mark.needs("chromium")
def test_ten_thousand_hosts_are_filtered_sorted_and_grouped(tmp_path: Path) -> None:
    seen = acted_on(rows(10_000), tmp_path)
    assert (seen["rows"], seen["count"], seen["more"]) == (200, "10000 of 10000 hosts", 400)
    assert seen["filtered"] == [1, "host00007", "1 of 10000 hosts"]
    assert seen["chosen"] == "3333 of 10000 hosts"
    assert seen["working"] == "3333 of 10000 hosts"
    assert (seen["sorted"], seen["fell"]) == ("host00000", "host09999")
    assert sorted(seen["groups"]) == [
        ["3333", "unreachable"],
        ["3333", "works"],
        ["3334", "driver-too-old"],
    ]


@pytest.mark.needs("chromium")
def test_text_of_a_host_is_inert_in_the_browser(tmp_path: Path) -> None:
    listed = [
        HostRow(HOSTILE, "incompatible", HOSTILE, HOSTILE, (("GPU", HOSTILE),), (HOSTILE,)),
        *rows(8),
    ]
    seen = acted_on(listed, tmp_path)
    assert (seen["owned"], seen["images"], seen["frames"]) == (False, 0, 0)
    assert seen["count"] == "9 of 9 hosts"
    assert "<img src=x onerror=owned=1>" in seen["first"]


@pytest.mark.needs("chromium")
def test_a_host_is_one_line_and_the_reader_arranges_the_page(tmp_path: Path) -> None:
    seen = acted_on(rows(60, "a message of many words " * 40), tmp_path, ARRANGE)
    assert seen["names"] == ["Host", "Verdict", "Cause", "GPU", "Driver", "Frameworks"]
    assert len(seen["heights"]) == 1
    assert seen["heights"][0] < 40
    assert seen["wide"] <= 1280
    assert seen["chosen"] == ["Host", "Verdict", "Cause", "Message", "GPU", "Frameworks"]
    assert seen["address"] == "#columns=Host,Verdict,Cause,Message,GPU,Frameworks"
    assert "a message of many words" in seen["details"]
    assert "NVIDIA A100-SXM4-80GB (compute capability 8.0)" in seen["details"]
    assert seen["closed"] != "details"
    assert seen["link"] == ["20 hosts", "20 of 60 hosts", "=driver-too-old", "Message"]
    everyone, one = seen["copied"]
    assert everyone.split(",") == [f"host{number:05}" for number in range(0, 60, 3)]
    assert one == "", "no host of this cause is called so"
    assert seen["recalled"] == [["Host ↓", "GPU"], "2", "host0", "", "host00059"]


def test_the_page_runs_its_own_script_alone_and_loads_nothing() -> None:
    page = render_fleet_html(
        [HostRow(HOSTILE, "incompatible", HOSTILE, HOSTILE, (("GPU", HOSTILE),))], HOSTILE
    )
    assert "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-" in page
    assert page.count("<script") == 2
    assert page.count("</script>") == 2
    assert "<img" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page


@pytest.mark.needs("chromium")
def test_the_policy_lets_the_page_work(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(render_fleet_html(rows(5), ""), encoding="utf-8")
    dom = chromium("--dump-dom", file.as_uri())
    assert "5 of 5 hosts" in dom
    assert dom.count("host0000") >= 5

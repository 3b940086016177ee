"""Every format writes every kind of block, whoever built it, and nothing of a machine acts in any of them."""

from __future__ import annotations

import io
import json
import re
from xml.etree import ElementTree as ET

import pytest

from envcheck.model import Evidence, Source
from envcheck.render.document import (
    Check,
    Command,
    Document,
    Layer,
    Line,
    Machine,
    Rule,
    Section,
    Shown,
    Step,
    Table,
    Way,
)
from envcheck.render.formats import FORMATS, STATES, render
from envcheck.render.text import lay_out, list_lines, print_document

HOSTILE = "h\x1b[2J\u202e<script>alert(1)</script>\r\n::error::x %0A @team |`$x$"
SEEN = (Evidence(HOSTILE, HOSTILE, Source("file", HOSTILE)),)
WAYS = (Way("fix", f"fix {HOSTILE}", (Command("true --typed"),)), Way("or", f"or {HOSTILE}"))
BLOCKS = (
    Line(f"line {HOSTILE}", HOSTILE),
    Command("true --block", f"purpose {HOSTILE}"),
    Table(("name", "cell"), (("row", f"cell {HOSTILE}"),)),
    Table(("name", "cell"), (("marked", HOSTILE),), ("error",)),
    Machine(
        (
            Layer("Layer", f"layer {HOSTILE}", "error", ("numpy-abi",), (f"meets {HOSTILE}",)),
            Layer("Bare", "x"),
        )
    ),
    Way("to tell", f"way {HOSTILE}", (Command("true --way"),)),
    Step(
        f"step {HOSTILE}",
        Command("true --step"),
        f" about {HOSTILE}",
        (Line(f"trace {HOSTILE}", "#  "),),
    ),
    Shown("numpy-abi", "incompatible", "error", f"inner {HOSTILE}", SEEN, WAYS),
)
WHOLE = Document(
    "envcheck made",
    "incompatible",
    f"headline {HOSTILE}",
    "MADE  ",
    below=(Command("true --below"),),
    counts=f"counts {HOSTILE}",
    about=(Section(BLOCKS, Line(f"title {HOSTILE}")),),
    findings=(
        Shown(
            "driver-missing",
            "incompatible",
            "error",
            f"found {HOSTILE}",
            SEEN,
            WAYS,
            is_primary=True,
        ),
        Shown(
            "keras-mismatch",
            "compatible",
            "note",
            f"brief {HOSTILE}",
            (),
            WAYS,
            here=(),
            is_brief=True,
        ),
    ),
    sections=(Section((Line(f"last {HOSTILE}"),)),),
    closing=Section((Command("true --closing"),), Line("Type this:")),
    steps=(Step(f"planned {HOSTILE}", Command("true --planned")),),
    checks=(Check(HOSTILE, HOSTILE, f"check {HOSTILE}", "failure", HOSTILE, (HOSTILE,)),),
    rules=tuple(
        Rule(name, "python", "h", "m") for name in ("driver-missing", "keras-mismatch", "numpy-abi")
    ),
    file="Dockerfile",
)


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_of_a_machine_acts(form: str) -> None:
    written = render(WHOLE, form)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", written)
    assert not re.search("^ *::error::x", written, re.MULTILINE)
    if form in {"html", "markdown", "junit"}:
        assert "<script>alert" not in written


SAID = {
    "text": "line cell layer way step about trace inner title headline counts found brief last",
    "html": "line cell layer meets way step about trace inner title headline counts found brief last planned",
    "markdown": "line cell layer way step about trace inner title headline found brief last",
    "junit": "inner found brief check",
    "sarif": "inner found brief headline",
    "github": "inner found brief headline",
    "jsonl": "inner found brief headline",
    "prometheus": "",
    "npd": "found",
    "nhc": "found",
}


@pytest.mark.parametrize("form", FORMATS)
def test_every_block_is_written(form: str) -> None:
    written = re.sub(r"\\u[0-9a-f]{4}", "", render(WHOLE, form))
    assert [word for word in SAID[form].split() if f"{word} h" not in written] == []
    typed = {
        "text": "block way step below typed closing",
        "markdown": "block way step below typed closing",
    }
    typed["html"] = "block way step below planned"  # the plan holds the commands of the findings
    names = typed.get(form, "typed").split() if form not in STATES else []
    assert [name for name in names if f"true --{name}" not in written] == []


def test_what_programs_read_is_well_formed() -> None:
    names = [case.get("name") for case in ET.fromstring(render(WHOLE, "junit")).iter("testcase")]
    assert names[:3] == ["driver-missing", "keras-mismatch", "numpy-abi"]
    results = json.loads(render(WHOLE, "sarif"))["runs"][0]["results"]
    assert [item["ruleId"] for item in results] == names[:3]
    lines = render(WHOLE, "github").splitlines()
    assert [line.split(" ")[0] for line in lines[:-1]] == ["::error", "::notice", "::error"]


def test_a_verdict_that_no_case_says_is_a_case() -> None:
    said = {
        verdict: render(Document("envcheck made", verdict, "So."), "junit")
        for verdict in ("compatible", "incompatible")
    }
    assert '<failure message="So.">So.</failure>' in said["incompatible"]
    assert "<failure" not in said["compatible"]
    passed = Document("envcheck made", "incompatible", "So.", checks=(Check("s", "s", "fine"),))
    assert [
        case.get("name") for case in ET.fromstring(render(passed, "junit")).iter("testcase")
    ] == ["fine", "verdict"]


def test_the_verdict_begins_the_text_and_that_of_a_listing_ends_it() -> None:
    about = (Section((Line("a row"),)),)
    for verdict, is_listing, first in (
        ("compatible", False, "So."),
        ("incompatible", True, "a row"),
        ("incompatible", False, "So."),
    ):
        text = render(
            Document("envcheck made", verdict, "So.", about=about, is_listing=is_listing), "text"
        )
        assert text.splitlines() == [first, "", "a row" if first == "So." else "So."]


@pytest.mark.parametrize("width", [30, 60, 80])
def test_a_table_that_is_too_wide_is_a_list(width: int) -> None:
    head = ("GPU", *(f"column {number}" for number in range(9)))
    table = Table(head, (("0", *(f"value {number}" for number in range(8)), "-"),))
    document = Document("envcheck made", "compatible", "", about=(Section((table,)),))
    rows = [row for row, _ in lay_out(list_lines(document), width, color=False, is_ascii=True)]
    assert max(map(len, rows)) <= width
    assert rows[:2] == ["GPU 0", "  column 0 value 0"]
    assert len(rows) == 9  # what is absent has no line


def test_a_command_is_typed_whole_on_the_narrowest_terminal() -> None:
    stream = io.StringIO()
    print_document(WHOLE, color=True, stream=stream)
    assert "  $ true --closing" in stream.getvalue()

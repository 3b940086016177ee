"""Snapshots made to harm who reads them: refused in a sentence, or shown inert in every format; all composed."""

from __future__ import annotations

import json
import re
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pytest

from envcheck.api import DoctorResult, load_snapshot
from envcheck.cli.common import Printing
from envcheck.cli.report import (
    FORMATS,
    FORMATS_WITHOUT_FINDINGS,
    print_answer,
    print_report,
)
from envcheck.diff.compare import compare
from envcheck.model import UserError
from envcheck.render.diff import describe_comparison, render_diff_json
from envcheck.render.json_contracts import render_snapshot
from envcheck.rules import Context, Target, evaluate
from tests.hosts.test_hosts import snapshot_of
from tests.rules.factory_machine import matrix

TEXT = "../../etc/passwd\x1b]0;own\x07\x1b[2J\u202e<script>alert(1)</script>\r\n::error::x %0A @team |`$x$"
KEPT = {"schema", "kind", "why", "unknown", "schema_version"}  # words of the format itself


@lru_cache(maxsize=1)
def plain() -> str:
    return render_snapshot(snapshot_of("cudnn-too-old"))


def with_hostile_text(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: with_hostile_text(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [with_hostile_text(inner, key) for inner in value]
    return TEXT if isinstance(value, str) and key not in KEPT else value


def numbers(instead: str) -> str:
    return re.sub(r'(?<="known": )-?\d+(?=[,\s])', instead, plain())


def versions(instead: str) -> str:
    return re.sub(r'(?<="known": )"\d+(?:\.\d+)+"', f'"{instead}"', plain())


SHOWN = {
    "text": json.dumps(with_hostile_text(json.loads(plain()))),
    "huge numbers": numbers("9" * 4290),
    "negative numbers": numbers("-1"),
    "huge versions": versions(f"{'9' * 4300}.{'9' * 4300}"),
    "long versions": versions("1." * 30_000 + "1"),
    "odd digits": versions("12\u0663.\u0664.x"),
    "half characters": plain().replace('"host": "', '"host": "\\ud800'),
}
REFUSED = {
    "endless number": (numbers("1e400"), "expected int, found float"),
    "no number": (numbers("NaN"), "expected int, found float"),
    "more digits than a number has": (numbers("9" * 5000), "is not JSON"),
    "deep lists": ('{"a":' + "[" * 200_000, "is not JSON"),
    "deep objects": ('{"a":' * 100_000 + "1" + "}" * 100_000, "is not JSON"),
    "half a file": (plain()[: len(plain()) // 2], "is not JSON"),
    "nothing but zeros": ("\0" * 1000, "is not JSON"),
    "a list": ("[]", "holds no JSON object"),
    "another version": (
        plain().replace("envcheck/snapshot/1", "envcheck/snapshot/99"),
        "no snapshot this version",
    ),
    "an unknown key": (plain().replace('"host"', '"ghost"', 1), "ghost"),
}


def check_inert(form: str, shown: str) -> None:
    """Check that nothing of a format acts on a terminal, a page or a CI."""
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", shown), form
    if form == "markdown":  # in a fence nothing acts
        shown = re.sub(r"^(`{3,})\w*\n.*?^\1$", "", shown, flags=re.MULTILINE | re.DOTALL)
    assert "<script>alert" not in shown or form not in {"html", "markdown", "junit"}, form
    assert not re.search(r"^::error::x", shown, re.MULTILINE), form


@pytest.mark.parametrize("name", SHOWN)
def test_a_hostile_snapshot_is_shown_inert(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.json"
    file.write_text(SHOWN[name], encoding="utf-8")
    snapshot = load_snapshot(str(file))
    report = evaluate(Context(snapshot.facts, matrix(), Target()))
    for form in FORMATS:
        found = DoctorResult(report, snapshot)
        print_report(found, Printing(form, "never", verbose=True), no_snapshot=False)
        check_inert(form, capsys.readouterr().out)
    compared = compare(snapshot, load_snapshot(str(file)), matrix(), Target())
    for form in FORMATS_WITHOUT_FINDINGS:
        names = ("a", "b")
        printing = Printing(form, "never", verbose=True)
        print_answer(
            printing,
            partial(describe_comparison, compared, names),
            partial(render_diff_json, compared, names),
        )
        check_inert(form, capsys.readouterr().out)


@pytest.mark.parametrize("name", REFUSED)
def test_a_broken_snapshot_is_refused_in_a_sentence(name: str, tmp_path: Path) -> None:
    text, said = REFUSED[name]
    file = tmp_path / "a.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=said):
        load_snapshot(str(file))


def test_a_hundred_megabytes_are_not_read(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    with file.open("wb") as stream:
        stream.truncate(100 << 20)
    with pytest.raises(UserError, match="is larger than"):
        load_snapshot(str(file))

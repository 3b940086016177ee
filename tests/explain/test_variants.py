"""A signature is found in its own line in other spellings too, and no harmless line is taken for a failure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache

import pytest

from envcheck.explain.log import Log
from envcheck.explain.signatures import Signature, SignatureTable, signatures_by_name
from envcheck.host.data_files import load_data
from tests.cases.case_facts import matrix
from tests.cases.judged import FOLDER, judge_text, read_cases, scan_text

SIGNATURES = signatures_by_name()
OVERLAPS = load_data("advice/signatures", SignatureTable).overlaps
COLUMNS = 80
PREFIXES = (
    "2026-11-20 23:01:40,123 - train - ERROR - ",
    "[rank0]: ",
    "Nov 22 23:00:00 gpu01 train[4711]: ",
    "(EngineCore_0 pid=4711) ERROR 11-20 23:01:40 [core.py:12] ",
    "worker-1  | ",
    "2026-11-20T23:01:40.123456789Z ",
)
CASELESS = {name for name, item in SIGNATURES.items() if not item.exact_case}
# Whose line is a prompt: nothing stands before it.
PROMPTS = {"container-id"}


@cache
def own_lines() -> dict[str, str]:
    """Map the signatures to the first line of a case in which each is found by itself."""
    found: dict[str, str] = {}
    for name in ("reported", "composed", "unseen"):
        for case in read_cases(FOLDER / f"{name}.jsonl"):
            lines = case["log"].split("\n")
            for event in scan_text(case["log"]).events:
                if event.signature not in found and event.line <= len(lines):
                    line = lines[event.line - 1]
                    if event.signature in signatures_in(line):
                        found[event.signature] = line
    return found


def signatures_in(text: str) -> set[str]:
    return {event.signature for event in scan_text(text).events}


def is_known(signature: str, text: str) -> bool:
    """Tell whether a text is known by a signature, or by another one of the same cause."""
    finding, found = SIGNATURES[signature].finding, signatures_in(text)
    return signature in found or any(
        finding and SIGNATURES[name].finding == finding for name in found
    )


def holds_fragment(item: Signature, text: str) -> bool:
    return any(fragment.lower() in text.lower() for fragment in item.fragments)


def missed(vary: Callable[[str], str], names: set[str] = CASELESS) -> list[str]:
    """List the signatures of which a fragment stands in a varied line that is not known for them."""
    rows = ((name, vary(line)) for name, line in own_lines().items() if name in names)
    return [
        name
        for name, text in rows
        if holds_fragment(SIGNATURES[name], text) and not is_known(name, text)
    ]


def test_nearly_every_signature_has_a_line_of_its_own() -> None:
    assert len(own_lines()) > 0.98 * len(SIGNATURES)


@pytest.mark.parametrize("vary", [str.lower, str.upper, str.capitalize])
def test_capitals_do_not_count(vary: Callable[[str], str]) -> None:
    assert missed(vary) == []


@pytest.mark.parametrize("prefix", PREFIXES)
def test_the_prefix_of_a_logger_does_not_count(prefix: str) -> None:
    assert missed(lambda line: prefix + line, {*SIGNATURES} - PROMPTS) == []


def test_colours_do_not_count() -> None:
    assert missed(lambda line: f"\x1b[1;31m{line}\x1b[0m", {*SIGNATURES}) == []


def cut(line: str) -> str:
    return line[:COLUMNS]


def without_parentheses(line: str) -> str:
    return re.sub(r" ?\([^()]*\)", "", line)


def broken(line: str) -> str:
    return f"{line[:COLUMNS]}\n{line[COLUMNS:]}" if len(line) > COLUMNS else line


@pytest.mark.parametrize("vary", [cut, without_parentheses, broken])
def test_what_is_lost_at_the_edge_or_in_parentheses_identifies_few_messages(
    vary: Callable[[str], str],
) -> None:
    lost = missed(vary, {*SIGNATURES})
    assert len(lost) <= 0.025 * len(SIGNATURES), lost


def others_that_claim(name: str, line: str) -> set[str]:
    """List the signatures of other causes that claim the line of one, but for overlaps that are right."""
    found = {
        item
        for item in signatures_in(line)
        if SIGNATURES[item].role == "cause" and SIGNATURES[item].finding
    }
    others = {item for item in found if SIGNATURES[item].finding != SIGNATURES[name].finding}
    return set() if name in OVERLAPS else others - set(OVERLAPS)


def test_no_signature_claims_the_line_of_another_cause() -> None:
    lines = {name: line for name, line in own_lines().items() if SIGNATURES[name].finding}
    failures = {
        name: line for name, line in lines.items() if SIGNATURES[name].role in ("cause", "symptom")
    }
    claimed = {name: others_that_claim(name, line) for name, line in failures.items()}
    assert {name: others for name, others in claimed.items() if others} == {}


def test_an_overlap_that_is_listed_is_there() -> None:
    assert set(OVERLAPS) <= set(SIGNATURES)
    overlapping = {item for name, line in own_lines().items() for item in (name, *signatures_in(line))
                   if len({SIGNATURES[other].finding for other in signatures_in(line)} - {""}) > 1}  # fmt: skip
    assert set(OVERLAPS) <= overlapping


def harmless_lines() -> Iterator[tuple[str, str]]:
    for name, line in own_lines().items():
        if SIGNATURES[name].role in ("noise", "healthy") and name != "program-on-gpu":
            yield name, line


def test_no_harmless_line_passes_for_a_failure() -> None:
    found = {name: alarms(line) for name, line in harmless_lines()}
    assert {name: events for name, events in found.items() if events} == {}


def alarms(line: str) -> list[str]:
    kept = Log(scan_text(line).events, matrix(), None).events
    return [
        item.signature for item in kept if SIGNATURES[item.signature].role in ("cause", "symptom")
    ]


@pytest.mark.parametrize("vary", [str, cut, without_parentheses])
def test_no_name_of_a_value_reaches_a_reader(vary: Callable[[str], str]) -> None:
    """A value that a line lost is left out with what is said about it: "compiled with CUDA ; it asks" says nothing."""
    raw = {}
    for name, line in own_lines().items():
        for finding in judge_text(vary(line)).report.findings:
            if re.search(
                r"\{\w+\}|(?:CUDA|cuDNN|release|capability|version) [;:,.)]|[:;,] *\.$",
                finding.message,
            ):
                raw[name] = finding.message
    assert raw == {}

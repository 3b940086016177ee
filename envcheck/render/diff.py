"""Render the comparison of two machines as text and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from envcheck.diff.compare import Comparison, Machine
from envcheck.diff.facts import Difference, LinkedFinding
from envcheck.model import COMPATIBLE, INCOMPATIBLE, NOTE, encode, inert
from envcheck.render.documents import Line, document_text, join_lines, print_lines, schema_keys

_LONGEST = 90  # characters of a value
_MORE = 12  # further differences that are shown without -v
_UNTOLD = ("other", "details")
_MEANS = {
    COMPATIBLE: "Nothing that matters to the frameworks installed differs.",
    INCOMPATIBLE: "Something that matters to the frameworks installed differs.",
    "undetermined": "Whether something that matters differs is unknown.",
}


def conclusion(found: Comparison) -> str:
    """Summarize the comparison in one sentence."""
    return _MEANS[found.verdict] if found.differences else "The two machines do not differ in anything that was read."


def print_comparison(found: Comparison, names: tuple[str, str], *, color: bool, verbose: bool, quiet: bool) -> None:
    """Print a comparison to stdout; `names` are the files the machines came from."""
    body = _numbered(found.mattering[:1], found, set()) if quiet else _body(found, verbose=verbose)
    print_lines([*_heads(found, names), *body], color=color)


def render_comparison(found: Comparison, names: tuple[str, str]) -> str:
    """Render a comparison as the text that a pipe gets."""
    return join_lines([*_heads(found, names), *_body(found, verbose=False)])


def _heads(found: Comparison, names: tuple[str, str]) -> Iterator[Line]:
    yield ("", conclusion(found), found.verdict)
    for letter, name, machine in zip("AB", names, (found.a, found.b), strict=True):
        verdict = machine.report.verdict
        said = f"{inert(name)}: {verdict.upper()}  {inert(machine.report.headline)}"
        yield (f"{letter}  ", said, verdict)


def _body(found: Comparison, *, verbose: bool) -> Iterator[Line]:
    told: set[str] = set()
    if found.mattering:
        yield from (*_heading("Most likely cause first:"), *_numbered(found.mattering, found, told))
    for led in found.unexplained:
        yield ("    ", f"{_led(led, found, told)} No compared fact shows why.", "")
    rest = [item for item in found.differences if not item.matters]
    shown = rest if verbose else [item for item in rest if item.area not in _UNTOLD and not item.unread][:_MORE]
    if shown:
        yield from (*_heading("What also differs:"), *_numbered(shown, found, told))
    yield from _untold([item for item in rest if item not in shown])


def _heading(text: str) -> tuple[Line, Line]:
    return (("", "", ""), ("", text, ""))


def _numbered(items: tuple[Difference, ...] | list[Difference], found: Comparison, told: set[str]) -> Iterator[Line]:
    for number, item in enumerate(items, 1):
        yield (f"{number:>2}. ", f"{inert(item.label)}: A {_short(item.a)}, B {_short(item.b)}", "")
        leading = (led for led in item.findings if led.on != "both" and led.severity != NOTE)
        yield from (("    ", _led(led, found, told), "") for led in leading)


def _short(text: str) -> str:
    shown = inert(text)
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 3] + "..."


def _led(led: LinkedFinding, found: Comparison, told: set[str]) -> str:
    """Name a finding and the machine it is on, with its message the first time."""
    name = f"-> {led.id} on {led.on.upper()}"
    key = f"{led.id} {led.on} {led.severity}"
    if key in told:
        return name
    told.add(key)
    return f"{name}: {inert(_message(found.a if led.on == 'a' else found.b, led))}"


def _message(machine: Machine, led: LinkedFinding) -> str:
    return next(item.message for item in machine.report.findings if (item.id, item.severity) == (led.id, led.severity))


def _untold(items: list[Difference]) -> Iterator[Line]:
    if not items:
        return
    counts = Counter("not read on one of them" if item.unread else item.area for item in items)
    told = ", ".join(f"{number} {_AREAS.get(name, name)}" for name, number in counts.most_common())
    yield ("", f"Not shown: {told}. -v shows them.", "")


_AREAS = {
    "other": "distributions that no framework needs",
    "details": "details",
    "needed": "distributions that a framework needs",
    "gpus": "of GPUs",
    "python": "of Python",
    "driver": "of the driver",
    "host": "of the host",
}


def render_diff_json(found: Comparison, names: tuple[str, str]) -> str:
    """Render a comparison, schema envcheck/diff/1; `names` are the files the machines came from."""
    document = {
        **schema_keys("envcheck/diff/1"),
        "verdict": found.verdict,
        "message": conclusion(found),
        "a": _machine(found.a, names[0]),
        "b": _machine(found.b, names[1]),
        "differences": [_difference(item) for item in found.differences],
        "unexplained": encode(found.unexplained),
    }
    return document_text(document)


def _machine(machine: Machine, name: str) -> dict[str, Any]:
    report = machine.report
    return {
        "file": name,
        "host": machine.snapshot.host,
        "taken_at": machine.snapshot.taken_at,
        "verdict": report.verdict,
        "goal": report.goal,
        "headline": report.headline,
        "findings": [
            {
                "id": item.id,
                "verdict": item.verdict,
                "severity": item.severity,
                "primary": item.primary,
                "message": item.message,
            }
            for item in report.findings
        ],
    }


def _difference(item: Difference) -> dict[str, Any]:
    return {
        "fact": item.fact,
        "key": item.key,
        "label": item.label,
        "area": item.area,
        "a": item.a,
        "b": item.b,
        "unread": item.unread,
        "matters": item.matters,
        "findings": encode(item.findings),
    }

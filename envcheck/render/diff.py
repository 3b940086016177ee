"""Describe the comparison of two machines, and encode it as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from envcheck.diff.compare import Comparison, Machine
from envcheck.diff.facts import Difference, LinkedFinding
from envcheck.model import COMPATIBLE, INCOMPATIBLE, NOTE, encode
from envcheck.render.document import Document, Line, Section
from envcheck.render.json_contracts import Json, document_text, pick_fields, schema_keys

_LONGEST = 90  # characters of a value
_MORE = 12  # further differences that are shown without -v
_UNTOLD = ("other", "details")
_MEANS = {
    COMPATIBLE: "Nothing that matters to the frameworks installed differs.",
    INCOMPATIBLE: "Something that matters to the frameworks installed differs.",
    "undetermined": "Whether something that matters differs is unknown.",
}


def conclude(found: Comparison) -> str:
    """Summarize the comparison in one sentence."""
    if found.differences:
        return _MEANS[found.verdict]
    return "The two machines do not differ in anything that was read."


def describe_comparison(
    found: Comparison, names: tuple[str, str], *, verbose: bool = False, quiet: bool = False
) -> Document:
    """Describe a comparison; `names` are the files the machines came from.

    `quiet` leaves the most likely cause, `verbose` lists every difference.
    """
    machines = zip("AB", names, (found.a, found.b), strict=True)
    sections = [Section(tuple(_describe_side(*each) for each in machines), is_apart=False)]
    if quiet:
        sections += _describe_cause(found)
    else:
        sections += _describe_differences(found, set(), verbose=verbose)
    return Document("envcheck diff", found.verdict, conclude(found), sections=tuple(sections))


def _describe_side(letter: str, name: str, machine: Machine) -> Line:
    verdict = machine.report.verdict
    return Line(f"{name}: {verdict.upper()}  {machine.report.headline}", f"{letter}  ", verdict)


def _describe_cause(found: Comparison) -> Iterator[Section]:
    if found.mattering:
        yield Section(tuple(_number_items(found.mattering[:1], found, set())), is_apart=False)


def _describe_differences(found: Comparison, told: set[str], *, verbose: bool) -> Iterator[Section]:
    if found.mattering:
        yield Section(
            tuple(_number_items(found.mattering, found, told)), Line("Most likely cause first:")
        )
    unexplained = tuple(
        Line(f"{_name_finding(led, found, told)} No compared fact shows why.", "    ")
        for led in found.unexplained
    )
    yield Section(unexplained, is_apart=False)
    rest = [item for item in found.differences if not item.matters]
    if verbose:
        shown = rest
    else:
        shown = [item for item in rest if item.area not in _UNTOLD and not item.unread][:_MORE]
    if shown:
        yield Section(tuple(_number_items(shown, found, told)), Line("What also differs:"))
    counts = Counter(
        "not read on one of them" if item.unread else item.area
        for item in rest
        if item not in shown
    )
    if counts:
        said = ", ".join(
            f"{number} {_AREAS.get(name, name)}" for name, number in counts.most_common()
        )
        yield Section((Line(f"Not shown: {said}. -v shows them."),), is_apart=False)


def _number_items(items: Sequence[Difference], found: Comparison, told: set[str]) -> Iterator[Line]:
    width = len(str(len(items)))
    for number, item in enumerate(items, 1):
        yield Line(
            f"{item.label}: A {_shorten(item.a)}, B {_shorten(item.b)}", f"{number:>{width}}. "
        )
        leading = (led for led in item.findings if led.on != "both" and led.severity != NOTE)
        for led in leading:
            yield Line(_name_finding(led, found, told), " " * (width + 2))


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _name_finding(led: LinkedFinding, found: Comparison, told: set[str]) -> str:
    """Name a finding and the machine it is on, with its message the first time."""
    name = f"-> {led.id} on {led.on.upper()}"
    key = f"{led.id} {led.on} {led.severity}"
    if key in told:
        return name
    told.add(key)
    return f"{name}: {_find_message(found.a if led.on == 'a' else found.b, led)}"


def _find_message(machine: Machine, led: LinkedFinding) -> str:
    return next(
        item.message
        for item in machine.report.findings
        if (item.id, item.severity) == (led.id, led.severity)
    )


_AREAS = {
    "other": "distributions that no framework needs",
    "details": "details",
    "needed": "distributions that a framework needs",
    "gpus": "of GPUs",
    "python": "of Python",
    "driver": "of the driver",
    "host": "of the host",
}


_OF_FINDING = ("id", "verdict", "severity", "primary", "message")
_OF_DIFFERENCE = (
    "fact", "key", "label", "area", "a", "b", "unread", "matters", "findings",
)  # fmt: skip


def render_diff_json(found: Comparison, names: tuple[str, str]) -> str:
    """Render a comparison, schema envcheck/diff/1; `names` are the files the machines came from."""
    document = {
        **schema_keys("envcheck/diff/1"),
        "verdict": found.verdict,
        "message": conclude(found),
        "a": _encode_machine(found.a, names[0]),
        "b": _encode_machine(found.b, names[1]),
        "differences": [pick_fields(item, *_OF_DIFFERENCE) for item in found.differences],
        "unexplained": encode(found.unexplained),
    }
    return document_text(document)


def _encode_machine(machine: Machine, name: str) -> Json:
    report = machine.report
    return {
        "file": name,
        **pick_fields(machine.snapshot, "host", "taken_at"),
        **pick_fields(report, "verdict", "goal", "headline"),
        "findings": [pick_fields(item, *_OF_FINDING) for item in report.findings],
    }

"""The comparison of two machines as text: the differences that matter first, each with what it leads to."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator

from envcheck.diff.compare import Comparison, Machine
from envcheck.diff.difference import Difference, Led
from envcheck.model.findings import COMPATIBLE, INCOMPATIBLE, NOTE
from envcheck.render.inert import inert

_LONGEST = 90  # characters of a value
_MORE = 12  # further differences that are told without -v
_UNTOLD = ("other", "details")
_COLORS = {"compatible": "32", "incompatible": "31", "undetermined": "33"}
_MEANS = {
    COMPATIBLE: "Nothing that matters to the frameworks installed differs.",
    INCOMPATIBLE: "Something that matters to the frameworks installed differs.",
    "undetermined": "Whether something that matters differs could not be told.",
}


def conclusion(found: Comparison) -> str:
    """Say in one sentence what came of the comparison."""
    return _MEANS[found.verdict] if found.differences else "The two machines do not differ in anything that was read."


def print_comparison(found: Comparison, names: tuple[str, str], *, color: bool, verbose: bool, quiet: bool) -> None:
    """Print a comparison to stdout; `names` are the files the machines came from."""
    lines = [*_heads(found, names, color=color), conclusion(found)]
    if quiet:
        lines += _numbered(found.mattering[:1], found, set())
    else:
        lines += _body(found, verbose=verbose)
    encoding = sys.stdout.encoding or "ascii"
    text = "".join(line + "\n" for line in lines)
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))


def _heads(found: Comparison, names: tuple[str, str], *, color: bool) -> Iterator[str]:
    for letter, name, machine in zip("AB", names, (found.a, found.b), strict=True):
        verdict = machine.report.verdict
        shown = f"\x1b[1;{_COLORS[verdict]}m{verdict.upper()}\x1b[0m" if color else verdict.upper()
        yield f"{letter}  {inert(name)}: {shown}  {inert(machine.report.headline)}"


def _body(found: Comparison, *, verbose: bool) -> Iterator[str]:
    told: set[str] = set()
    if found.mattering:
        yield from ("", "Most likely cause first:", *_numbered(found.mattering, found, told))
    for led in found.unexplained:
        yield f"    {_led(led, found, told)} Nothing that is compared shows why."
    rest = [item for item in found.differences if not item.matters]
    shown = rest if verbose else [item for item in rest if item.area not in _UNTOLD and not item.unread][:_MORE]
    if shown:
        yield from ("", "What also differs:", *_numbered(shown, found, told))
    yield from _untold([item for item in rest if item not in shown])


def _numbered(items: tuple[Difference, ...] | list[Difference], found: Comparison, told: set[str]) -> Iterator[str]:
    for number, item in enumerate(items, 1):
        yield f"{number:>2}. {inert(item.label)}: A {_short(item.a)}, B {_short(item.b)}"
        yield from (
            f"    {_led(led, found, told)}" for led in item.findings if led.on != "both" and led.severity != NOTE
        )


def _short(text: str) -> str:
    shown = inert(text)
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 3] + "..."


def _led(led: Led, found: Comparison, told: set[str]) -> str:
    """Name a finding and the machine it is on, with its message the first time."""
    name = f"-> {led.id} on {led.on.upper()}"
    key = f"{led.id} {led.on} {led.severity}"
    if key in told:
        return name
    told.add(key)
    return f"{name}: {inert(_message(found.a if led.on == 'a' else found.b, led))}"


def _message(machine: Machine, led: Led) -> str:
    return next(item.message for item in machine.report.findings if (item.id, item.severity) == (led.id, led.severity))


def _untold(items: list[Difference]) -> Iterator[str]:
    if not items:
        return
    counts = Counter("not read on one of them" if item.unread else item.area for item in items)
    told = ", ".join(f"{number} {_AREAS.get(name, name)}" for name, number in counts.most_common())
    yield f"Not shown: {told}. -v shows them."


_AREAS = {
    "other": "distributions that no framework needs",
    "details": "details",
    "needed": "distributions that a framework needs",
    "gpus": "of GPUs",
    "python": "of Python",
    "driver": "of the driver",
    "host": "of the host",
}

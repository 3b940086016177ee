"""What each fix is written as in each place: `python -m tests.remedies.written` renews the kept file.

A commit says why a line of it changed.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from envcheck.model import Alternative, Fix, Remedy
from envcheck.remedies import fit_to_place, write_fix
from envcheck.remedies.situation import Situation
from tests.remedies.fixes import kinds_of_fixes, variants
from tests.remedies.places import places
from tests.typed import words

FILE = Path(__file__).with_name("written.txt")


def section(kind: type[Fix], machines: dict[str, Situation]) -> list[str]:
    """List the steps of each record of a kind, once for all places that share them."""
    return [line for fix in variants(kind) for line in _describe(fix, machines)]


def _describe(fix: Fix, machines: dict[str, Situation]) -> Iterator[str]:
    names: dict[tuple[str, ...], list[str]] = {}
    for name, situation in machines.items():
        found = write_fix(fix, situation)
        fitted = fit_to_place(found, situation) if found else None
        names.setdefault(tuple(_steps(fitted, situation)), []).append(name)
    yield f"{fix!r}"
    for steps, sharing in names.items():
        yield f" {', '.join(sharing)}:"
        yield from steps


def _steps(remedy: Remedy | None, situation: Situation) -> Iterator[str]:
    if remedy is None:
        yield "  -"
        return
    ways: tuple[Remedy | Alternative, ...] = (remedy, *remedy.alternatives)
    for way in ways:
        yield f"  {way.summary}"
        for action in way.actions:
            system = situation.os or "linux"
            purpose = action.purpose_on(system)
            yield f"    $ {shlex.join(words(action, system))}" + (
                f"  # {purpose}" if purpose else ""
            )


if __name__ == "__main__":
    everywhere = places()
    lines = [line for kind in kinds_of_fixes() for line in section(kind, everywhere)]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")

"""Each fix is written, for each installer and system, as it is kept: whole steps, and every other way."""

from __future__ import annotations

import difflib
import functools

import pytest

from envcheck.model import Fix
from envcheck.remedies.situation import Situation
from tests.remedies.fixes import kinds_of_fixes
from tests.remedies.places import places
from tests.remedies.written import FILE, section

_places = functools.cache(places)


@functools.cache
def _kept() -> dict[str, list[str]]:
    """Map the name of each record to the lines that are kept of it."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if not line.startswith(" "):
            name = line.partition("(")[0]
        found.setdefault(name, []).append(line)
    return found


@pytest.mark.parametrize("kind", kinds_of_fixes(), ids=lambda kind: kind.__name__)
def test_each_fix_is_written_as_it_is_kept(kind: type[Fix]) -> None:
    machines: dict[str, Situation] = _places()
    difference = difflib.unified_diff(
        _kept()[kind.__name__], section(kind, machines), "kept", "written", lineterm="", n=2
    )
    shown = "\n".join(list(difference)[:60])
    assert not shown, f"python -m tests.remedies.written keeps them anew:\n{shown}"


def test_no_other_fix_is_kept() -> None:
    assert set(_kept()) == {kind.__name__ for kind in kinds_of_fixes()}

"""Fill a section of the snapshot with one reason when its probe could not run."""

from __future__ import annotations

import sys
from typing import Any

from envcheck.model.facts import Unknown
from envcheck.model.records import field_names


def unknown_section(owner: Any, name: str, reason: Unknown) -> Any:
    """Return the value of field `name` of `owner` with every fact unknown for `reason`."""
    annotation = str(owner.__annotations__[name])
    if annotation.startswith("Fact["):
        return reason
    section = getattr(sys.modules[owner.__module__], annotation)
    facts = [fact for fact in field_names(section) if str(section.__annotations__[fact]).startswith("Fact[")]
    return section(**dict.fromkeys(facts, reason))

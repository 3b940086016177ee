"""Fill a section of the snapshot with one reason when its probe could not run."""

from __future__ import annotations

import sys
from dataclasses import fields
from typing import Any

from envcheck.model.facts import Unknown


def unknown_section(owner: Any, name: str, reason: Unknown) -> Any:
    """Return the value of field `name` of `owner` with every fact unknown for `reason`."""
    annotation = next(str(field.type) for field in fields(owner) if field.name == name)
    if annotation.startswith("Fact["):
        return reason
    section = getattr(sys.modules[owner.__module__], annotation)
    facts = [field.name for field in fields(section) if str(field.type).startswith("Fact[")]
    return section(**dict.fromkeys(facts, reason))

"""Write the pages of the reference that state what the program itself states."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


def pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each generated page."""
    yield "reference/findings.md", findings()


FINDINGS = """# Findings

A finding id is a public contract: it is stable. One id is one root cause with one kind of remedy.

The severity of a finding is about the goal (`--expect gpu`, `cpu` or `auto`):

- **error**: the goal cannot be met.
- **warning**: the goal is met, but the machine is degraded or fragile.
- **note**: worth knowing.

At most one finding is **primary**: the root cause. What follows from it names it in `caused_by`. A check that could
not be decided is a finding with verdict `undetermined`, and says what could not be read.

The table is in the order of causes. When two findings of one severity explain nothing about each other, the upper one
is primary. Only a log shows the ids without a rule.

A `fix` is a sentence with `commands`, one after the other, and `alternatives`. An alternative replaces the first way:
it has a sentence and commands of its own. Only the first way becomes steps of a plan.

| layer | id | it means | has a rule | explains |
|---|---|---|---|---|
"""


def findings() -> str:
    """Return the page of the finding ids."""
    from envcheck.rules import RULES

    ruled = {name for item in RULES for name in item.ids}
    rows: list[dict[str, Any]] = json.loads((ROOT / "data/findings.json").read_text(encoding="utf-8"))["findings"]

    def line(row: dict[str, Any]) -> str:
        explains = ", ".join(f"[`{name}`](#{name})" for name in row["explains"])
        name = f'<a id="{row["id"]}"></a>`{row["id"]}`'
        return f"| {row['layer']} | {name} | {row['means']} | {'yes' if row['id'] in ruled else ''} | {explains} |\n"

    return FINDINGS + "".join(map(line, rows))

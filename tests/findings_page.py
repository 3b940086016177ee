"""Write docs/findings.md from the catalogue: `python -m tests.findings_page`."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "findings.md"
HEAD = """# Findings

A finding id is a public contract: it is stable, and one id is one root cause with one kind of remedy. Severity is
about the goal (`--expect gpu`, `cpu` or `auto`): **error** = the goal cannot be met; **warning** = met, but degraded
or fragile; **note** = worth knowing. At most one finding is **primary**: the root cause; what follows from it names
it in `caused_by`. A check that could not be decided is a finding with verdict `undetermined` that says what could not
be read.

The order is the order of causes: when two findings of one severity explain nothing about each other, the upper one is
primary. Ids without a rule are kept for what only a log shows.

A `fix` is a sentence with `commands`, one after the other, and `alternatives`: other ways to the same end, each with a
sentence and its own commands, to take in place of the first. Only the first way becomes steps of a plan.

| layer | id | it means | has a rule | explains |
|---|---|---|---|---|
"""


def page() -> str:
    """Return the page's text."""
    from envcheck.rules import RULES

    rows = json.loads((ROOT / "data" / "findings.json").read_text(encoding="utf-8"))["findings"]
    ruled = {name for item in RULES for name in item.ids}
    return HEAD + "".join(_line(row, row["id"] in ruled) for row in rows)


def _line(row: dict[str, object], has_rule: bool) -> str:
    explains = row["explains"]
    assert isinstance(explains, list)
    named = ", ".join(f"`{name}`" for name in explains)
    return f"| {row['layer']} | `{row['id']}` | {row['means']} | {'yes' if has_rule else ''} | {named} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

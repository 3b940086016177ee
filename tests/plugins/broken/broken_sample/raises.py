"""Rules that raise, and that find what no report can hold."""

from collections.abc import Iterator
from typing import Any

from envcheck.model import Finding
from envcheck.rules.catalogue import Entry
from envcheck.rules.context import Context, rule

FINDINGS = (Entry("broken-raises", "runtime", "It raises.", "raises"),)


@rule("broken-raises", goal="any")
def raises(_: Context) -> Iterator[Finding]:
    """Raise after a finding."""
    yield Finding("broken-raises", "incompatible", "error", "Never printed.")
    raise KeyError("no such thing")


@rule("broken-raises", goal="any")
def finds_nonsense(_: Context) -> Iterator[Finding]:
    """Find something of an id that nobody declared."""
    message: Any = None
    yield Finding("nobody-declared-it", "incompatible", "error", message)

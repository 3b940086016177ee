"""A rule that decides an id of envcheck."""

from collections.abc import Iterator

from envcheck.model import Finding
from envcheck.rules.context import Context, rule

FINDINGS = ()


@rule("driver-too-old", goal="any")
def foreign(_: Context) -> Iterator[Finding]:
    """Decide what is not its own."""
    yield Finding("driver-too-old", "incompatible", "error", "Never printed.")

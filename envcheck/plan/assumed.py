"""What a plan for a described machine rests on although nobody stated it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from packaging.version import Version

from envcheck.model.facts import Known
from envcheck.model.plans import PlannedRelease
from envcheck.plan.wish import Wish
from envcheck.rules.context import Context
from envcheck.rules.driver_release import driver_floor, toolkit_of


def assumptions(context: Context, releases: Iterable[PlannedRelease], wish: Wish) -> Iterator[str]:
    """Say that no GPU, or which driver, a description would have had to name."""
    if not wish.described.platform or context.os == "darwin":
        return
    if context.goal == "cpu" and wish.expect == "auto" and not wish.described.gpus:
        yield "No GPU was described, so this is for the CPU: name one with --gpu, such as --gpu 'RTX 4090'."
    if context.goal == "gpu" and not isinstance(context.facts.driver.release, Known):
        rows = [toolkit_of(context, item.cuda) for item in releases if item.cuda]
        floors = [floor for floor in (driver_floor(context, row) for row in rows if row) if floor]
        if floors:
            yield f"No driver was described: this needs NVIDIA driver {max(floors, key=Version)} or newer."

"""What a plan rests on although nobody stated it, and what it cannot hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from packaging.version import Version

from envcheck.model.facts import Known
from envcheck.model.plans import PlannedRelease
from envcheck.plan.what_if import capabilities
from envcheck.plan.wish import Wish
from envcheck.rules.context import Context
from envcheck.rules.driver_release import driver_floor, toolkit_of

_FOR_JETSON = (
    "NVIDIA itself publishes PyTorch and TensorFlow for Jetson modules, as wheels and containers for each JetPack "
    "release: none of them is in the matrix."
)


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


def elsewhere(context: Context) -> tuple[str, ...]:
    """Say where builds come from that no index holds which a plan is made from."""
    rows = (context.matrix.architecture(capability) for capability in capabilities(context.facts))
    return (_FOR_JETSON,) if context.goal == "gpu" and any(row and row.tegra for row in rows) else ()

"""The distribution that brings CUDA to a release which has none itself: jax-cuda12-plugin."""

from __future__ import annotations

from envcheck.matrix.specifiers import within
from envcheck.model.releases import FrameworkRelease
from envcheck.rules.context import Context
from envcheck.rules.requirements import canonical_name, read_requirement


def plugin_of(context: Context, row: FrameworkRelease, extra: str) -> FrameworkRelease | None:
    """Return the plugin that an extra of a release brings: its own, or as jax 0.5.2 has none the newest it takes."""
    name = f"{row.framework}-{extra}-plugin"
    own = context.matrix.release(row.framework, row.version, context.platform, name)
    asked = (item for item in map(read_requirement, row.cuda_wheels) if canonical_name(item.name) == name)
    bounds = "" if own is not None else next((item.specifier for item in asked), "")
    if not bounds:
        return own
    rows = context.matrix.releases(row.framework, context.platform, admits=lambda version: within(version, bounds))
    return next((item for item in rows if item.distribution == name), None)

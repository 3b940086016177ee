"""What every command that judges a machine does about what it finds: the planner's commands, in the same words."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from envcheck.model.findings import INCOMPATIBLE, Fix, Report

if TYPE_CHECKING:
    from envcheck.rules.context import Context


def mended(report: Report, context: Context, *, strictly: bool = False) -> Report:
    """Give what another build or release takes away the commands of the plan that brings it.

    `strictly`: with no release that the requirements asked for do not admit.
    """
    if not any(item.verdict == INCOMPATIBLE for item in report.findings):
        return report
    from envcheck.plan.remedy import remedied  # a machine that is well needs no plan

    return remedied(report, context, strictly=strictly)


def told_of_folders(report: Report) -> Report:
    """Say on this machine where a fix makes an environment in a folder that is there."""
    if not any(item.fix is not None and item.fix.commands for item in report.findings):
        return report
    from envcheck.plan.taken import told_of_what_is_there

    return told_of_what_is_there(report, os.path.lexists)


def brought(context: Context, requirements: tuple[str, ...], against: tuple[str, ...]) -> Fix | None:
    """Plan for requirements that an environment does not meet, whatever speaks against pip's own choice."""
    from envcheck.plan import remedy

    return remedy.brought(context, requirements, against)

"""The one way from facts to a finished report.

Verdict, remedies, and the steps that mend what was found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from envcheck.model import COMPATIBLE, INCOMPATIBLE, Report, replace

if TYPE_CHECKING:
    from envcheck.remedies.situation import Situation
    from envcheck.rules.context import Context


def diagnose(
    context: Context,
    only: frozenset[str] = frozenset(),
    *,
    inspected: tuple[str, ...] = (),
    exists: Callable[[str], bool] | None = None,
) -> Report:
    """Judge a machine and say what to do; `only` limits the checks to some finding ids.

    `inspected` are the options that say what was looked at. `exists` tells which folders are there,
    on the machine that is judged. Raises RequestError for a requirement that cannot be judged.
    """
    from envcheck.rules.engine import judge_release  # explaining a log needs no rules

    report = judge_release(context, only).report
    if report.asked and report.verdict == INCOMPATIBLE:
        # plans, where the newest release does not work
        from envcheck.diagnosis.planned import judge_what_works

        context, report = judge_what_works(context, only, report)
    report = replace(report, inspected=inspected)
    is_obtained = report.asked and report.verdict == COMPATIBLE
    if not is_obtained and all(item.cure is None for item in report.findings):
        return report
    from envcheck.remedies.situation import Situation

    if is_obtained:
        from envcheck.remedies.frameworks import install_judged_releases  # few ask about a release

        report = replace(report, obtained_by=install_judged_releases(Situation(context)))
    return with_steps(with_remedies(report, Situation(context)), exists=exists)


def with_remedies(report: Report, situation: Situation, *, strictly: bool = False) -> Report:
    """Give every finding its remedy: a plan where another build or release takes it away.

    None is given that the judge would refuse on this machine.
    `strictly`: no plan takes a release that the requirements asked for do not admit.
    """
    from envcheck.remedies import with_remedy  # a machine that is well needs no remedy

    findings = tuple(with_remedy(item, situation) for item in report.findings)
    changed: Report = replace(report, findings=findings)
    if not any(item.verdict == INCOMPATIBLE for item in findings):
        return changed
    from envcheck.diagnosis.acceptance import with_accepted_remedies
    from envcheck.diagnosis.planned import with_planned_remedies

    planned = with_planned_remedies(changed, situation, strictly=strictly)
    return with_accepted_remedies(planned, situation)


def with_steps(report: Report, *, exists: Callable[[str], bool] | None = None) -> Report:
    """Finish a report with its steps, and the environments of its remedies that exist."""
    if all(item.fix is None for item in report.findings):
        return report
    from envcheck.diagnosis import repair

    return repair.with_steps(repair.mark_existing_folders(report, exists) if exists else report)

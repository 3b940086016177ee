"""`envcheck doctor`: probe, judge, explain."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from envcheck.cli import inspect, options
from envcheck.cli.exits import OF_VERDICT, STEP_FAILED, UserError
from envcheck.cli.report import FORMATS, Style, print_report
from envcheck.cli.smoke import SmokeOptions, run_session, with_findings
from envcheck.diagnosis import diagnose, with_steps
from envcheck.model import ERROR, INCOMPATIBLE, UNDETERMINED, Finding, Report, Snapshot
from envcheck.rules.ranking import rank_findings
from envcheck.smoke.devices import Session
from envcheck.smoke.verdict import UNEXPLAINED, headline_of, verdict_of

if TYPE_CHECKING:
    from envcheck.rules.context import Context


def with_smoke(report: Report, wanted: SmokeOptions, context: Context) -> tuple[Report, Session, bool]:
    """Run a quick smoke test; return the report with what it found, the test, and whether it failed."""
    session = with_findings(run_session(wanted), context)
    return _judged(report, session), session, verdict_of(session) == INCOMPATIBLE


def _judged(report: Report, session: Session) -> Report:
    verdict = verdict_of(session)
    found = list(session.findings)
    if verdict != UNDETERMINED and not found and verdict != INCOMPATIBLE:
        headline = f"{report.headline} Smoke test: {headline_of(session)}"
        return replace(report, headline=headline, checked=(*report.checked, UNEXPLAINED))
    if not found:
        message = f"Smoke test: {headline_of(session)}"
        found = [Finding(UNEXPLAINED, verdict, ERROR, message)]
    return _merged(report, found, verdict, headline_of(session))


def _merged(report: Report, found: list[Finding], verdict: str, headline: str) -> Report:
    roots = [item.id for item in report.findings if item.primary and item.severity == ERROR]
    before = [replace(item, primary=False) for item in report.findings]
    ranked = rank_findings([*before, *(_caused(item, roots) for item in found)])
    worst = INCOMPATIBLE if INCOMPATIBLE in {report.verdict, verdict} else UNDETERMINED
    said = f"{report.headline} Smoke test: {headline}"
    merged = replace(report, verdict=worst, headline=said, findings=ranked, checked=(*report.checked, UNEXPLAINED))
    return with_steps(merged)


def _caused(finding: Finding, roots: list[str]) -> Finding:
    """Let what the rules found explain a failure that nothing else explains."""
    unexplained = finding.id == UNEXPLAINED and finding.verdict == INCOMPATIBLE
    return replace(finding, caused_by=roots[0]) if unexplained and roots else finding


EXAMPLE = "Example: envcheck doctor --env .venv --for 'tensorflow>=2.15' --expect gpu"


@click.command(epilog=EXAMPLE)
@options.inspected_python
@click.option("--for", "requirements", multiple=True, metavar="REQ", help="Judge this release too, installed or not.")
@click.option(
    "--expect",
    type=click.Choice(["auto", "gpu", "cpu"]),
    default="auto",
    help="What must work; auto: a GPU where there is one.",
)
@click.option("--snapshot", "snapshot_file", metavar="FILE", help="Judge a saved machine instead of this one.")
@click.option("--smoke", is_flag=True, help="Compute something small on each device as well, like `envcheck smoke`.")
@click.option("--only", metavar="IDS", default="", help="Limit the checks to these finding ids, comma-separated.")
@click.option("--no-snapshot", is_flag=True, help="Leave the snapshot out of the JSON report.")
@options.matrix("Judge by this compatibility matrix.")
@options.printing(*FORMATS)
def doctor(
    python: str,
    env: str,
    requirements: tuple[str, ...],
    expect: str,
    snapshot_file: str | None,
    smoke: bool,
    only: str,
    no_snapshot: bool,
    matrix_file: str | None,
    printing: options.Printing,
) -> int:
    """Say whether GPU deep learning works on this machine; if not, what is wrong, why, and what to type.

    Reads only: nothing is changed, and the inspected environment is not imported (but by --smoke).
    """
    if smoke and snapshot_file:
        raise UserError("--smoke computes on this machine, --snapshot judges another one: choose one of them.")
    snapshot = inspect.saved_snapshot(snapshot_file) if snapshot_file else inspect.live_snapshot(python, env)
    context, wanted = _question(snapshot, expect, requirements, only, matrix_file)
    report = _diagnosis(context, wanted, inspect.looked_at(python, env), here=not snapshot_file)
    session, failed = None, False
    if smoke:
        asked = SmokeOptions(python, env, expect=expect, quiet=printing.quiet)
        report, session, failed = with_smoke(report, asked, context)
    print_report(report, snapshot, Style(printing, no_snapshot), session)
    return STEP_FAILED if failed else OF_VERDICT[report.verdict]


def _question(
    snapshot: Snapshot, expect: str, requirements: tuple[str, ...], only: str, matrix_file: str | None
) -> tuple[Context, frozenset[str]]:
    """Return what is asked of a machine, and the finding ids the checks are limited to."""
    from envcheck.matrix.load import MatrixError, load_matrix
    from envcheck.rules import Context, Target, catalogue

    wanted = frozenset(name.strip() for name in only.split(",") if name.strip())
    unknown = wanted - set(catalogue())
    if unknown:
        raise UserError(f"--only: no finding has the id {', '.join(sorted(unknown))}; the README lists them.")
    try:
        matrix = load_matrix(matrix_file)
    except MatrixError as error:
        raise UserError(str(error)) from None
    return Context(snapshot.facts, matrix, Target(expect, requirements)), wanted


def _diagnosis(context: Context, wanted: frozenset[str], inspected: tuple[str, ...], *, here: bool) -> Report:
    from envcheck.rules import TargetError

    try:
        return diagnose(context, wanted, inspected=inspected, exists=os.path.lexists if here else None)
    except TargetError as error:
        raise UserError(str(error)) from None

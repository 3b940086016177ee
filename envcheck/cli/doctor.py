"""`envcheck doctor`: probe, judge, explain."""

from __future__ import annotations

import os

import click

from envcheck.cli import common
from envcheck.cli.common import OF_VERDICT, STEP_FAILED, UserError
from envcheck.cli.report import FORMATS, ReportSubject, offer_fix, print_report
from envcheck.diagnosis import diagnose
from envcheck.model import INCOMPATIBLE, Report
from envcheck.rules import Context, Target, TargetError, catalogue

EXAMPLE = "Example: envcheck doctor --env .venv --for 'tensorflow>=2.15' --expect gpu"


@click.command(epilog=EXAMPLE)
@common.inspected_python
@click.option("--for", "requirements", multiple=True, metavar="REQ", help="Judge this release too, installed or not.")
@common.expectation()
@click.option("--snapshot", "snapshot_file", metavar="FILE", help="Judge a saved machine instead of this one.")
@click.option("--smoke", is_flag=True, help="Also compute something small on each device, like `envcheck smoke`.")
@click.option("--only", metavar="IDS", default="", help="Run only the checks for these finding ids, comma-separated.")
@click.option("--no-snapshot", is_flag=True, help="Leave the snapshot out of the JSON report.")
@common.matrix("Judge by this compatibility matrix.")
@common.printing(*FORMATS)
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
    printing: common.Printing,
) -> int:
    """Check whether GPU deep learning works on this machine; if not, report what is wrong, why, and what to type.

    Changes nothing, and imports nothing from the inspected environment unless --smoke is given.
    """
    if smoke and snapshot_file:
        raise UserError("--smoke computes on this machine, --snapshot judges another one: choose one of them.")
    ids = _parse_ids(only)
    snapshot = common.saved_snapshot(snapshot_file) if snapshot_file else common.live_snapshot(python, env)
    context = Context(snapshot.facts, common.load_matrix(matrix_file), Target(expect, requirements))
    report = judge(context, ids, common.inspected_options(*map(_fold_home, (python, env))), here=not snapshot_file)
    if not snapshot_file:
        report = offer_fix(report, snapshot.facts)
    tested, failed = None, False
    if smoke:
        from envcheck.cli.smoke import SmokeOptions, run_session  # with what it needs 20 ms, and few ask for it
        from envcheck.cli.smoke_causes import merge_session
        from envcheck.render.smoke import smoke_document
        from envcheck.smoke.session import verdict_of

        wanted = SmokeOptions(python, env, expect=expect, quiet=printing.quiet)
        session = run_session(wanted, context=context)
        report, failed = merge_session(report, session), verdict_of(session) == INCOMPATIBLE
        tested = smoke_document(session)
    print_report(report, snapshot, printing, ReportSubject(no_snapshot, smoke=tested))
    return STEP_FAILED if failed else OF_VERDICT[report.verdict]


def _parse_ids(only: str) -> frozenset[str]:
    """Parse the finding ids of --only; raises UserError for an unknown one."""
    ids = frozenset(name.strip() for name in only.split(",") if name.strip())
    unknown = ids - set(catalogue())
    if unknown:
        raise UserError(f"--only: no finding has the id {', '.join(sorted(unknown))}: see the page Findings.")
    return ids


def _fold_home(path: str) -> str:
    """Write ~ for this user's home folder: a report is sent to others."""
    home = os.path.expanduser("~").rstrip(os.sep)  # noqa: PTH111 - pathlib is slow to import
    return f"~{path[len(home) :]}" if len(home) > 1 and path.startswith(home + os.sep) else path


def judge(context: Context, ids: frozenset[str], inspected: tuple[str, ...], *, here: bool) -> Report:
    """Diagnose a machine, `here` or saved; raises UserError for a requirement that cannot be judged."""
    try:
        return diagnose(context, ids, inspected=inspected, exists=os.path.lexists if here else None)
    except TargetError as error:
        raise UserError(str(error)) from None

"""`envcheck doctor`: probe, judge, explain."""

from __future__ import annotations

import click

from envcheck.cli import inspect, options
from envcheck.cli.exits import OF_VERDICT, STEP_FAILED, UserError
from envcheck.cli.formats import FORMATS, Style, print_report
from envcheck.cli.mending import mended, told_of_folders
from envcheck.model.findings import Report
from envcheck.model.machine import Snapshot

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
    report = _judge(snapshot, expect, requirements, only, matrix_file)
    report = inspect.looked_at(report if snapshot_file else told_of_folders(report), python, env)
    session, failed = None, False
    if smoke:
        from envcheck.cli.doctor_smoke import with_smoke
        from envcheck.cli.smoke_options import SmokeOptions

        report, session, failed = with_smoke(report, SmokeOptions(python, env, expect=expect, quiet=printing.quiet))
    print_report(report, snapshot, Style(printing, no_snapshot), session)
    return STEP_FAILED if failed else OF_VERDICT[report.verdict]


def _judge(
    snapshot: Snapshot, expect: str, requirements: tuple[str, ...], only: str, matrix_file: str | None
) -> Report:
    from envcheck.matrix.load import MatrixError, load_matrix
    from envcheck.rules import Context, Target, TargetError, catalogue, evaluate

    wanted = frozenset(name.strip() for name in only.split(",") if name.strip())
    unknown = wanted - set(catalogue())
    if unknown:
        raise UserError(f"--only: no finding has the id {', '.join(sorted(unknown))}; the README lists them.")
    try:
        matrix = load_matrix(matrix_file)
        context = Context(snapshot.facts, matrix, Target(expect, requirements))
        report = evaluate(context, wanted)
    except (MatrixError, TargetError) as error:
        raise UserError(str(error)) from None
    return mended(report, context)

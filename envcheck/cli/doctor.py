"""`envcheck doctor`: probe, judge, explain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from envcheck import api
from envcheck.cli import common
from envcheck.cli.common import OF_VERDICT, STEP_FAILED, UserError, option
from envcheck.cli.report import REPORT_FORMATS, print_report
from envcheck.model import INCOMPATIBLE, Report, replace
from envcheck.rules import Context, Target

if TYPE_CHECKING:
    from envcheck.proof.smoke import SmokeRequest
    from envcheck.smoke.session import Session

EXAMPLE = "Example: envcheck doctor --env .venv --for 'tensorflow>=2.15' --expect gpu"


@click.command(epilog=EXAMPLE)
@common.inspected_python
@common.releases()
@common.expectation()
@common.snapshot("Judge a saved machine instead of this one.")
@option("--smoke", "Also compute something small on each device, like `envcheck smoke`.")
@option("--only IDS", "Run only the checks for these finding ids, comma-separated.")
@option("--baseline FILE", "Count only what this baseline does not hold.")
@option(
    "--write-baseline FILE",
    "Write what is found today to this file, and exit with 0.",
    "new_baseline",
)
@option("--no-snapshot", "Leave the snapshot out of the JSON report.")
@common.matrix("Judge by this compatibility matrix.")
@common.proving
@common.printing(*REPORT_FORMATS)
def doctor(
    printing: common.Printing,
    proof: common.Proof,
    only: str,
    *,
    smoke: bool,
    new_baseline: str,
    no_snapshot: bool,
    **asked: Any,
) -> int:
    """Check whether GPU deep learning works on this machine.

    If not, report what is wrong, why, and what to type.

    Changes nothing. After the verdict that rests on files it imports the frameworks of an
    environment that is active or named; formats for programs wait for --import.
    """
    if smoke and asked["snapshot"]:
        raise UserError(
            "--smoke computes on this machine, --snapshot judges another one: choose one of them."
        )
    if new_baseline and asked["baseline"]:
        raise UserError("--write-baseline writes all that is found: leave out --baseline.")
    prove = None if smoke else proof.wanted(printing.form)
    with common.slow_programs() as end, common.import_progress(printing, end) as hear:
        asked |= {"prove": prove, "import_timeout": proof.seconds, "on_import": hear}
        ids = tuple(filter(None, map(str.strip, only.split(","))))
        found = api.doctor(only=ids, **asked)
    tested = None
    if smoke:
        # with what it needs 20 ms, and few ask for it
        from envcheck.proof.smoke import SmokeRequest
        from envcheck.render.smoke import smoke_document

        wanted = SmokeRequest(asked["python"], asked["env"], expect=asked["expect"])
        named = asked["requirements"], asked["matrix"]
        found, session = compute(found, wanted, *named, quiet=printing.quiet)
        tested = smoke_document(session)
    print_report(found, printing, no_snapshot=no_snapshot, smoke=tested)
    if new_baseline:
        _write_baseline(found.report, new_baseline)
        return 0
    if tested and tested["verdict"] == INCOMPATIBLE:
        return STEP_FAILED
    return OF_VERDICT[found.verdict]


def compute(
    found: api.DoctorResult,
    wanted: SmokeRequest,
    requirements: tuple[str, ...],
    matrix: str | None,
    *,
    quiet: bool,
) -> tuple[api.DoctorResult, Session]:
    """Compute on each device of a machine that was judged; return what both say, and the test."""
    from envcheck.cli.smoke import SmokeProgress, run_here
    from envcheck.proof.causes import merge_session

    target = Target(wanted.expect, requirements)
    context = Context(found.snapshot.facts, api.load_matrix(matrix), target)
    session = run_here(wanted, SmokeProgress(quiet=quiet), context)
    return replace(found, report=merge_session(found.report, session)), session


def _write_baseline(report: Report, path: str) -> None:
    from envcheck.check.baseline import list_baseline, write_baseline

    common.write_file(path, write_baseline(report))
    held, counting = list_baseline(report)
    for item in counting:
        click.echo(f"envcheck: {item.id} is not in {path}: it stops an import.", err=True)
    click.echo(f"envcheck: {path} holds {len(held)} of the findings.", err=True)

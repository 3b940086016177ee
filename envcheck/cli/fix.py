"""`envcheck fix`: show the steps of the doctor's report, ask, and run them.

They run as one transaction.
"""

from __future__ import annotations

import click

from envcheck import api
from envcheck.cli import common
from envcheck.cli.check import warn_of_expired
from envcheck.cli.common import option
from envcheck.cli.installation import (
    InstallProgress,
    OutputOptions,
    carry_out,
    expand_home,
    output_options,
)
from envcheck.diagnosis.doctor import Doctor
from envcheck.diagnosis.repair import remaining_steps
from envcheck.install.fix import Fix, FixRequest, fix_environment
from envcheck.install.transaction import Transaction
from envcheck.model import (
    COMPATIBLE,
    NOT_STATED,
    PASSED,
    PLANNED,
    RESTORED,
    UNCHANGED,
    UNSETTLED,
    Outcome,
    Unknown,
    inert,
)
from envcheck.render.plan import describe_fix
from envcheck.render.report import describe_report
from envcheck.render.text import print_document


def run_fix(doctor: Doctor, asked: FixRequest, output: OutputOptions) -> int:
    """Fix an environment cause by cause, and print the doctor's verdict on the result."""

    def take(fix: Fix, transaction: Transaction) -> Outcome:
        remaining = remaining_steps(fix.diagnosis.report)
        document = describe_fix(transaction.plan, remaining, verbose=output.verbose)
        output.show_before_asking(document)
        return carry_out(transaction, f"Fix {transaction.place.folder}?", output, "fixed")

    fix, outcome = fix_environment(doctor, asked, InstallProgress(0, quiet=output.quiet), take)
    report, snapshot = fix.diagnosis.report, fix.diagnosis.snapshot
    if not output.is_text:
        click.echo(api.make_fix_result(fix, outcome).to_json())
    elif outcome.outcome == PLANNED:
        click.echo("Nothing was changed: --dry-run.")
    else:
        if outcome.outcome == UNCHANGED:
            click.echo(_describe_unchanged(fix))
        print_document(
            describe_report(report, snapshot, verbose=output.verbose, quiet=output.quiet),
            color=output.printing.color,
        )
    if outcome.outcome in (RESTORED, UNSETTLED):
        return common.STEP_FAILED
    return 0 if outcome.outcome == PLANNED else common.OF_VERDICT[report.verdict]


def _describe_unchanged(fix: Fix) -> str:
    if fix.diagnosis.report.verdict != COMPATIBLE:
        return f"No step changes {inert(fix.folder)}: what is left is for you to do."
    tests = fix.diagnosis.context.python.imports
    if isinstance(tests, Unknown) and tests != NOT_STATED:
        return (
            f"There is nothing to fix in {inert(fix.folder)},"
            f" as far as its files tell: {tests.detail}."
        )
    names = " and ".join(each.module for each in tests.value or () if each.outcome == PASSED)
    return (
        "There is nothing to fix in"
        f" {inert(fix.folder)}{f': {names} can be imported' if names else ''}."
    )


EXAMPLE = "Example: envcheck fix --env .venv --dry-run"


@click.command(epilog=EXAMPLE)
@common.inspected_python
@common.releases("This release must work too.")
@common.expectation()
@option(
    "--config FILE",
    "Fix what `envcheck check` finds with this [tool.envcheck] table.",
    default=None,
)
@output_options("Print the steps that would run, and change nothing.")
@common.matrix("Judge by this compatibility matrix.")
@common.torch_index
def fix(
    python: str,
    env: str,
    requirements: tuple[str, ...],
    expect: str,
    config: str | None,
    output: OutputOptions,
    matrix: str | None,
    torch_index: str,
) -> int:
    """Fix what `envcheck doctor` finds in an environment, and verify it.

    If that fails, restore the old environment.

    The steps run in a copy. Steps on the system are printed for you to run.
    """
    gate = api.read_gate(config, matrix, required=True) if config else None
    if gate is not None:
        warn_of_expired(gate.expired(), gate.path)
    doctor = api.make_doctor(expect, requirements, matrix, gate)
    return run_fix(
        doctor, FixRequest(python, expand_home(env), torch_index, output.dry_run), output
    )

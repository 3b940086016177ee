"""`envcheck install driver`: show the driver's plan, ask, and run it up to the restart."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from envcheck import api
from envcheck.actions import type_here
from envcheck.cli.common import OF_VERDICT, STEP_FAILED, UserError
from envcheck.cli.installation import InstallProgress, OutputOptions, carry_out, confirm
from envcheck.install.driver import DriverTransaction, driver_place, find_interrupted
from envcheck.model import (
    BLOCKED,
    INSTALLED,
    PLANNED,
    RESTORED,
    UNCHANGED,
    UNDETERMINED,
    UNSETTLED,
    WAITING_FOR_RESTART,
    Outcome,
    Plan,
    Snapshot,
    Step,
    dataclass,
    replace,
)
from envcheck.render.plan import describe_plan, plan_document, render_install_json

_RESUME = ("envcheck", "install", "driver", "--system", "--resume")


@dataclass
class DriverOptions:
    """What the command line says of a driver."""

    driver: str = ""
    requirements: tuple[str, ...] = ()
    containers: str = ""
    system: bool = False
    resumes: bool = False
    consents: frozenset[str] = frozenset()
    matrix: str | None = None


class DriverProgress(InstallProgress):
    """Says how far the driver is, and what is next."""

    def settled(self, outcome: Outcome, *, existed: bool) -> None:  # noqa: ARG002 - as for an environment
        """Report what the transaction came to."""
        self.close()
        if outcome.outcome == INSTALLED:
            self._print("The driver works.")
        elif outcome.outcome == WAITING_FOR_RESTART:
            self._print(f"Restart the machine, then go on: sudo {type_here(*_RESUME)}")
        else:
            self._print(f"Not installed: {outcome.why}. The output of the steps: {outcome.log}")
            self._report_changes(outcome.machine)


def install_driver(asked: DriverOptions, output: OutputOptions) -> int:
    """Install the driver, or go on after its restart; return the exit code."""
    if not asked.system:
        raise UserError(
            "the driver is of the machine: add --system to have its steps run, or see them with"
            " `envcheck plan driver`."
        )
    asked = _recall(asked) if asked.resumes else asked
    machine = api.read_machine("", "")
    made = plan_driver(asked, machine)
    outcome = change_driver(asked, made, machine, output)
    if not output.is_text:
        click.echo(render_install_json(outcome, plan_document(made.plan, made.verdict)))
    elif outcome.outcome == PLANNED:
        click.echo("Nothing was changed: --dry-run.")
    return code_of(outcome, made.verdict)


def change_driver(
    asked: DriverOptions, made: api.PlanResult, machine: Snapshot, output: OutputOptions
) -> Outcome:
    """Show the driver's plan, have it agreed to, and run it up to the restart."""
    plan = made.plan
    document = describe_plan(plan, made.verdict, verbose=output.verbose, run_for_you=True)
    output.show_before_asking(document)
    folder = str(driver_place().folder)
    if not plan.is_feasible:
        return Outcome(BLOCKED, folder, why=plan.rejected[0].why)
    if not plan.steps and not asked.resumes:
        return Outcome(UNCHANGED, folder, why=plan.driver)
    transaction = DriverTransaction(
        driver_place(), replace(plan, steps=tuple(map(_without_questions, plan.steps))),
        lambda: judge_driver(plan_driver(asked, api.read_machine("", "")).plan),
        before=machine.facts, asked=_remember(asked), consents=asked.consents,
        agrees=partial(_agrees, output=output),
    )  # fmt: skip
    return carry_out(transaction, "Change this machine?", output, progress_type=DriverProgress)


def plan_driver(asked: DriverOptions, machine: api.Saved) -> api.PlanResult:
    """Plan the driver of a machine as the command line asks for it."""
    return api.plan_driver(
        requirements=asked.requirements, driver=asked.driver, containers=asked.containers,
        snapshot=machine, matrix=asked.matrix,
    )  # fmt: skip


def _without_questions(step: Step) -> Step:
    return replace(step, action=step.action.unattended().without_sudo())


def judge_driver(plan: Plan) -> str:
    """Return why the driver does not work yet; "" where only containers are left to set up."""
    if not plan.is_feasible:
        return plan.rejected[0].why.rstrip(".")
    left = [step for step in plan.steps if step.id.startswith("driver-")]
    return plan.driver.rstrip(".") if left else ""


def _remember(asked: DriverOptions) -> dict[str, Any]:
    return {
        "driver": asked.driver,
        "requirements": list(asked.requirements),
        "containers": asked.containers,
    }


def _recall(asked: DriverOptions) -> DriverOptions:
    """Return what was asked for before the restart."""
    found = find_interrupted()
    if found is None:
        raise UserError("there is nothing to resume: no driver was begun and left.")
    if found.waits_here:
        command = type_here(*_RESUME)
        raise UserError(f"nothing was changed: restart the machine first, then: sudo {command}")
    before = found.asked
    return replace(
        asked,
        driver=str(before.get("driver", "")),
        requirements=tuple(map(str, before.get("requirements", ()))),
        containers=str(before.get("containers", "")),
    )


def _agrees(question: str, *, output: OutputOptions) -> bool:
    """Ask once more, or take --yes with the option for it."""
    try:
        confirm(question, output)
    except UserError as error:
        click.echo(f"envcheck: {error}", err=True)
        return False
    return True


def code_of(outcome: Outcome, verdict: str) -> int:
    """Return the exit code of what came of a plan with this verdict."""
    if outcome.outcome in (RESTORED, UNSETTLED):
        return STEP_FAILED
    if outcome.outcome == WAITING_FOR_RESTART:
        return OF_VERDICT[UNDETERMINED]
    return OF_VERDICT[verdict]

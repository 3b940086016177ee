"""`envcheck fleet`: read every machine of an inventory, and report on all of them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envcheck import api
from envcheck.actions import type_here
from envcheck.cli import common
from envcheck.cli.common import OF_VERDICT, UserError, option
from envcheck.cli.report import print_answer
from envcheck.fleet.kubernetes import make_manifest
from envcheck.fleet.report import HostRow, choose_verdict, judge_folder
from envcheck.fleet.results import (
    HISTORY,
    EngineError,
    Failure,
    FleetListener,
    FleetRequest,
    HostResult,
    list_timeouts,
)
from envcheck.fleet.run import ENGINES, run_fleet
from envcheck.host.plugins import list_failures
from envcheck.model.text import counted
from envcheck.render.fleet import (
    describe_fleet,
    render_drain,
    render_fleet_csv,
    render_fleet_html,
    render_fleet_json,
    render_run_json,
)
from envcheck.rules import Target
from envcheck.rules.targets import check_requirements

if TYPE_CHECKING:
    from envcheck.fleet.history import Changes

EXAMPLE = (
    "Example: envcheck fleet run -i inventory.ini -o machines && envcheck fleet report machines"
    " --html fleet.html"
)


@click.command(cls=click.Group, invoke_without_command=True, epilog=EXAMPLE)
@click.pass_context
def fleet(context: click.Context) -> None:
    """Read every machine of an inventory and judge them here: one table, one page."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@fleet.command(epilog="Example: envcheck fleet run -i inventory.ini --limit gpu -o machines")
@option("-i --inventory FILE", "Ansible's inventory: INI, YAML, a script or a folder.")
@option("-o --output DIR", "Keep one file for each host here.", default="envcheck-fleet")
@option("--engine", "How to reach the hosts.", type=click.Choice(list(ENGINES)), default="ansible")
@option("--partition NAME", "Slurm's partition.")
@option("--namespace NAME", "Kubernetes' namespace of the Jobs.")
@option("--image IMAGE", "Their image: a shell, Python >= 3.8.")
@option("--runtime-class NAME", "Their runtime class: nvidia.")
@option("--gpus", "GPUs that each pod asks for.", default=0, type=click.IntRange(0, 64))
@option("--print-manifest", "Print the rights and the Job of Kubernetes, and ask nothing.")
@option(
    "--limit PATTERN",
    "Only these hosts, as Ansible names them, or by labels of Kubernetes.",
    "pattern",
    default="all",
)
@option("--forks", "Hosts to ask at a time.", default=50, type=click.IntRange(1, 1000))
@option(
    "--timeout", "Seconds for one host.", "host_seconds", default=60, type=click.IntRange(5, 3600)
)
@option(
    "--connect-timeout",
    "Seconds to reach it.",
    "connect_seconds",
    default=10,
    type=click.IntRange(1, 600),
)
@option("--become", "Read as root, through Ansible's become.")
@option("--python PATH", "Inspect this interpreter on each host.")
@option("--again", "Also ask the hosts that have answered in full.")
@common.output_format("text", "json")
@option("-q --quiet", "Do not print each host's answer.")
def run(
    output: str,
    *,
    engine: str,
    again: bool,
    print_manifest: bool,
    form: str,
    quiet: bool,
    **question: Any,
) -> int:
    """Take a snapshot of every host; run it again to ask those that have not answered."""
    asked = _check_question(engine, question)
    if print_manifest:
        if engine != "kubernetes":
            raise UserError("--print-manifest is of --engine kubernetes")
        click.echo(json.dumps(make_manifest(asked), indent=2))
        return 0
    for plugin, reason in list_failures():
        click.echo(f"envcheck: the plugin {plugin} is left out: {reason}", err=True)
    progress = _Progress(quiet=quiet)
    before = _run(progress, output, engine, asked, again=again)
    kept = f", {before} had answered before" if before else ""
    read = len(progress.answers) - progress.failed
    click.echo(
        f"{counted(read, 'host')} read, {progress.failed} without an answer{kept}.", err=True
    )
    if progress.timeouts:
        click.echo(
            f"{counted(len(progress.timeouts), 'host')} read in part:"
            " run it again, or with a longer --timeout.",
            err=True,
        )
    if form == "json":
        click.echo(render_run_json(output, progress.answers, progress.timeouts, before))
    else:
        click.echo(type_here("envcheck", "fleet", "report", output))
    if progress.failed or progress.timeouts or not (progress.answers or before):
        return 3
    return 0


class _Progress:
    """Counts the answers and reports them on stderr."""

    def __init__(self, *, quiet: bool) -> None:
        self._asked, self._heard = 0, 0  # hosts of this round
        self.answers: dict[str, Failure | None] = {}
        self.timeouts: dict[str, tuple[str, ...]] = {}  # hosts whose snapshot has some
        self._quiet, self._line = quiet, common.ProgressLine(quiet=quiet)

    @property
    def failed(self) -> int:
        """Count the hosts that gave no snapshot."""
        return sum(answer is not None for answer in self.answers.values())

    def start(self, hosts: list[str]) -> None:
        self._asked, self._heard = len(hosts), 0
        again = " again: they took too long" if self.answers else ""
        self._print(f"{counted(self._asked, 'host')} to ask{again}")
        self._show()

    def warn(self, words: str) -> None:
        if words.strip():
            self._line.print(words)

    def add(self, result: HostResult) -> None:
        self._heard += 1
        host, answer, words = result.host, result.answer, "read"
        if isinstance(answer, Failure):
            words = f"{answer.kind}: {answer.reason[:200]}"
            if host not in self.timeouts:  # else what it answered before counts
                self.answers[host] = answer
        else:
            self.answers[host] = None
            self.timeouts.pop(host, None)
            if late := list_timeouts(answer):
                self.timeouts[host] = late
                rest = " ..." if late[3:] else ""
                words = f"read in part; these took too long: {', '.join(late[:3])}{rest}"
        self._print(f"[{self._heard}/{self._asked}] {host}: {words}")
        self._show()

    def close(self) -> None:
        """Remove what shows how many hosts have answered."""
        self._line.close()

    def _show(self) -> None:
        self._line.show(f"answered, {self.failed} without a snapshot", self._heard, self._asked)

    def _print(self, text: str) -> None:
        if not self._quiet:
            self._line.print(text)


def _run(progress: _Progress, output: str, engine: str, asked: FleetRequest, *, again: bool) -> int:
    listener = FleetListener(progress.start, progress.add, progress.warn)
    try:
        return run_fleet(engine, asked, Path(output), listener, again=again)
    except EngineError as error:
        raise UserError(str(error)) from None
    except OSError as error:
        raise UserError(f"cannot write to {error.filename or output}: {error.strerror}") from None
    finally:
        progress.close()


def _check_question(engine: str, question: Mapping[str, Any]) -> FleetRequest:
    inventory = question["inventory"]
    if engine == "ansible" and not inventory:
        raise UserError("name the inventory: envcheck fleet run -i inventory.ini")
    if engine == "kubernetes" and not (question["namespace"] and question["image"]):
        raise UserError("name where the Jobs run, and their image: --namespace NAME --image IMAGE")
    if inventory and not Path(inventory.split(",")[0]).exists() and "," not in inventory:
        raise UserError(f"there is no inventory {inventory}")
    return FleetRequest(**question, environment=dict(os.environ))


@fleet.command(epilog="Example: envcheck fleet report machines --golden gpu001 --html fleet.html")
@click.argument("folder", metavar="DIR")
@option("--golden HOST", "Report where each host differs from this one.")
@option("--html FILE", "Also write one page that filters, sorts and groups.", "html_file")
@option(
    "--since WHEN", "Report what is new and what cleared: yesterday, 2026-11-26, 12h, 3d or 2w."
)
@option("--history FILE", f"Keep what each report finds here [{HISTORY} in DIR].")
@common.expectation()
@common.releases()
@common.matrix("Judge by this compatibility matrix.")
@common.printing("text", "json", "csv", "drain", "junit", "github", "markdown")
def report(
    folder: str,
    golden: str,
    html_file: str,
    since: str,
    history: str,
    expect: str,
    requirements: tuple[str, ...],
    matrix: str | None,
    printing: common.Printing,
) -> int:
    """Judge the hosts of a folder, grouped by verdict and primary cause.

    The worst verdict gives the exit code.
    """
    target = Target(expect, requirements)
    rows = _judge(folder, golden, matrix, target)
    if not rows:
        take = type_here("envcheck", "fleet", "run", "-i", "inventory.ini", "-o", folder)
        raise UserError(f"{folder} holds no host's file. Take them: {take}")
    rows, changes = _store(rows, Path(history or Path(folder, HISTORY)), target, since, history)
    if html_file:
        common.write_file(html_file, render_fleet_html(rows, golden, changes))
        click.echo(f"The page: {html_file}", err=True)
    _print(rows, golden, changes, printing)
    return OF_VERDICT[choose_verdict(rows)]


def _judge(folder: str, golden: str, file: str | None, target: Target) -> list[HostRow]:
    if not Path(folder).is_dir():
        raise UserError(f"there is no folder {folder}")
    matrix = api.load_matrix(file)
    try:
        check_requirements(target.requirements, matrix)
        return judge_folder(Path(folder), matrix, target, golden)
    except LookupError:
        raise UserError(f"--golden {golden}: {folder} holds no snapshot of that host") from None


def _store(
    rows: list[HostRow], file: Path, target: Target, since: str, named: str
) -> tuple[list[HostRow], Changes | None]:
    """Store what was found; a history that fails stops only a report that asks for it."""
    try:
        from envcheck.fleet.history import parse_since, store_report

        now = datetime.now().astimezone()
        upto = parse_since(since, now) if since else None
        question = " ".join((target.expect, *target.requirements))
        rows, changes = store_report(file, rows, question, int(now.timestamp()), upto)
    except (ImportError, UserError) as error:
        if since or named:
            raise UserError(str(error)) from None
        click.echo(f"envcheck: {error}", err=True)
        return rows, None
    if since and changes is None:
        click.echo(f"No earlier report is stored in {file}: this is the first.", err=True)
    return rows, changes


def _print(
    rows: list[HostRow], golden: str, changes: Changes | None, printing: common.Printing
) -> None:
    if printing.form == "drain":
        click.echo(render_drain(rows), nl=False)
    elif printing.form == "csv":
        encoding = sys.stdout.encoding or "ascii"
        sys.stdout.write(render_fleet_csv(rows).encode(encoding, "replace").decode(encoding))
    else:
        print_answer(
            printing,
            partial(describe_fleet, rows, golden, changes),
            partial(render_fleet_json, rows, golden, changes),
        )

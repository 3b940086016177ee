"""`envcheck fleet`: read every machine of an inventory, and report on all of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envcheck.cli import options
from envcheck.cli.exits import OF_VERDICT, UserError

if TYPE_CHECKING:
    from envcheck.fleet.report import HostRow
    from envcheck.fleet.results import Failure, HostResult


_REPORT = ("envcheck", "fleet", "report")


class _Watcher:
    """Count what comes, and tell it on stderr."""

    def __init__(self, *, quiet: bool) -> None:
        self.hosts: list[str] = []
        self.answers: dict[str, Failure | None] = {}
        self._quiet = quiet

    @property
    def failed(self) -> int:
        """Count the hosts that gave no snapshot."""
        return sum(answer is not None for answer in self.answers.values())

    def heard_of(self, hosts: list[str]) -> None:
        self.hosts = hosts
        self._say(f"{_hosts(len(hosts))} to ask")

    def warned(self, words: str) -> None:
        from envcheck.model.text import inert

        if words.strip():
            click.echo(inert(words), err=True)

    def told(self, result: HostResult) -> None:
        from envcheck.fleet.results import Failure
        from envcheck.model.text import inert

        answer = result.answer if isinstance(result.answer, Failure) else None
        self.answers[result.host] = answer
        words = f"{answer.kind}: {answer.reason[:200]}" if answer else "read"
        self._say(inert(f"[{len(self.answers)}/{len(self.hosts)}] {result.host}: {words}"))

    def _say(self, text: str) -> None:
        if not self._quiet:
            click.echo(text, err=True)


def ask(output: str, asked: Mapping[str, Any], *, again: bool, form: str, quiet: bool) -> int:
    """Run an engine into a folder; 0 when every host answered, 3 when one did not."""
    from envcheck.actions.shells import shell_line
    from envcheck.render.fleet import render_run_json

    watcher = _Watcher(quiet=quiet)
    before = _run(watcher, output, asked, again=again)
    kept = f", {before} had answered before" if before else ""
    read = len(watcher.answers) - watcher.failed
    click.echo(f"{_hosts(read)} read, {watcher.failed} without an answer{kept}.", err=True)
    json_form = form == "json"
    click.echo(render_run_json(output, watcher.answers, before) if json_form else shell_line((*_REPORT, output)))
    return 3 if watcher.failed or not (watcher.answers or before) else 0


def _run(watcher: _Watcher, output: str, asked: Mapping[str, Any], *, again: bool) -> int:
    from envcheck.fleet.results import EngineError, FleetListener
    from envcheck.fleet.run import run_fleet

    listener = FleetListener(watcher.heard_of, watcher.told, watcher.warned)
    try:
        return run_fleet(str(asked["engine"]), _asked(asked), Path(output), listener, again=again)
    except EngineError as error:
        raise UserError(str(error)) from None
    except OSError as error:
        raise UserError(f"cannot write to {error.filename or output}: {error.strerror}") from None


def _hosts(count: int) -> str:
    return "1 host" if count == 1 else f"{count} hosts"


def _asked(options_given: Mapping[str, Any]) -> Any:
    from envcheck.fleet.results import FleetRequest

    given = {name: value for name, value in options_given.items() if name != "engine"}
    if options_given["engine"] == "ansible" and not given["inventory"]:
        raise UserError("name the inventory: envcheck fleet run -i inventory.ini")
    if given["inventory"] and not Path(given["inventory"].split(",")[0]).exists() and "," not in given["inventory"]:
        raise UserError(f"there is no inventory {given['inventory']}")
    return FleetRequest(**given, environment=dict(os.environ))


def tell(folder: str, asked: Mapping[str, Any]) -> int:
    """Judge a folder and print the report."""
    rows = _rows(folder, asked)
    if not rows:
        raise UserError(f"{folder} holds no host's file. Take them: envcheck fleet run -i inventory.ini -o {folder}")
    from envcheck.fleet.report import choose_verdict

    if asked["html_file"]:
        _write_page(asked["html_file"], rows, asked["golden"])
    _print(rows, asked)
    return OF_VERDICT[choose_verdict(rows)]


def _rows(folder: str, asked: Mapping[str, Any]) -> list[HostRow]:
    from envcheck.fleet.report import judge_folder
    from envcheck.matrix.load import MatrixError, load_matrix
    from envcheck.rules import Target, TargetError
    from envcheck.rules.targets import check_requirements

    if not Path(folder).is_dir():
        raise UserError(f"there is no folder {folder}")
    try:
        matrix = load_matrix(asked["matrix_file"])
        check_requirements(asked["requirements"], matrix)
        target = Target(asked["expect"], asked["requirements"])
        return judge_folder(Path(folder), matrix, target, asked["golden"])
    except (MatrixError, TargetError) as error:
        raise UserError(str(error)) from None
    except LookupError:
        raise UserError(f"--golden {asked['golden']}: no snapshot of that host lies in {folder}") from None


def _write_page(path: str, rows: list[HostRow], golden: str) -> None:
    from envcheck.cli.options import write_file
    from envcheck.render.fleet import render_fleet_html

    try:
        page = render_fleet_html(rows, golden)
    except ModuleNotFoundError as error:
        raise UserError(f"--html needs the package {error.name}: pip install 'envcheck-gpu[html]'") from None
    write_file(path, page)
    click.echo(f"The page: {path}", err=True)


def _print(rows: list[HostRow], asked: Mapping[str, Any]) -> None:
    if asked["form"] == "text":
        from envcheck.render.fleet import print_fleet

        color = options.wants_color(asked["color_mode"])
        print_fleet(rows, color=color, verbose=asked["verbose"], quiet=asked["quiet"])
        return
    from envcheck.render.fleet import render_fleet_csv, render_fleet_json

    text = render_fleet_csv(rows) if asked["form"] == "csv" else render_fleet_json(rows, asked["golden"]) + "\n"
    encoding = sys.stdout.encoding or "ascii"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))


EXAMPLE = "Example: envcheck fleet run -i inventory.ini -o machines && envcheck fleet report machines --html fleet.html"


@click.command(cls=click.Group, invoke_without_command=True, epilog=EXAMPLE)
@click.pass_context
def fleet(context: click.Context) -> None:
    """Read every machine of an inventory and judge them here: one table, one page."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@fleet.command(epilog="Example: envcheck fleet run -i inventory.ini --limit gpu -o machines")
@click.option(
    "-i", "--inventory", default="", metavar="FILE", help="Ansible's inventory: INI, YAML, a script or a folder."
)
@click.option("-o", "--output", default="envcheck-fleet", metavar="DIR", help="Keep one file for each host here.")
@click.option(
    "--engine", type=click.Choice(["ansible", "slurm", "local"]), default="ansible", help="Who reaches the hosts."
)
@click.option("--partition", default="", metavar="NAME", help="Slurm's partition.")
@click.option("--limit", "pattern", default="all", metavar="PATTERN", help="Only these hosts, as Ansible names them.")
@click.option("--forks", default=50, type=click.IntRange(1, 1000), help="Hosts at a time.")
@click.option("--timeout", "host_seconds", default=60, type=click.IntRange(5, 3600), help="Seconds for one host.")
@click.option(
    "--connect-timeout", "connect_seconds", default=10, type=click.IntRange(1, 600), help="Seconds to reach it."
)
@click.option("--become", is_flag=True, help="Read as root, by Ansible's become.")
@click.option("--python", default="", metavar="PATH", help="Inspect this interpreter on each host.")
@click.option("--again", is_flag=True, help="Ask the hosts too that have answered before.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="How to print.")
@click.option("-q", "--quiet", is_flag=True, help="Do not tell each host's answer.")
def run(output: str, *, again: bool, form: str, quiet: bool, **asked: object) -> int:
    """Take a snapshot of every host; run again, it asks those that have not answered."""
    return ask(output, asked, again=again, form=form, quiet=quiet)


@fleet.command(epilog="Example: envcheck fleet report machines --golden gpu001 --html fleet.html")
@click.argument("folder", metavar="DIR")
@click.option("--golden", default="", metavar="HOST", help="Tell where each host differs from this one.")
@click.option("--html", "html_file", default="", metavar="FILE", help="Write one page that filters, sorts and groups.")
@click.option("--expect", type=click.Choice(["auto", "gpu", "cpu"]), default="auto", help="What must work.")
@click.option("--for", "requirements", multiple=True, metavar="REQ", help="Judge this release too, installed or not.")
@click.option("--format", "form", type=click.Choice(["text", "json", "csv"]), default="text", help="How to print.")
@options.matrix("Judge by this compatibility matrix.")
@options.color
@options.verbosity
def report(folder: str, **asked: object) -> int:
    """Judge the hosts of a folder: grouped by verdict and primary cause; exit code by the worst."""
    return tell(folder, asked)

"""`envcheck check`: gate a project on its [tool.envcheck] requirements."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import date, datetime, timezone

import click

from envcheck import __version__
from envcheck.check.config import Config, ConfigError, parse_config
from envcheck.check.judge import expired_ignores, judge_project
from envcheck.cli import common
from envcheck.cli.common import OF_VERDICT, UserError
from envcheck.cli.report import FORMATS, ReportSubject, offer_fix, print_report
from envcheck.matrix import Matrix
from envcheck.model import SCHEMA_VERSION, Report, Snapshot, dataclass, replace
from envcheck.rules import Context, Target, TargetError
from envcheck.rules.builds import check_requirements

_LIMIT = 1 << 20  # bytes of a pyproject.toml or a Dockerfile
_CONFIG = "pyproject.toml"

EXAMPLE = "Example: envcheck check --dockerfile Dockerfile --format github"


@click.command(epilog=EXAMPLE)
@common.inspected_python
@click.option("--config", metavar="FILE", help=f"The file with the [tool.envcheck] table [{_CONFIG}].")
@click.option(
    "--dockerfile",
    "file",
    metavar="FILE",
    help="Judge what this Dockerfile, compose file, environment.yml or requirements file will build.",
)
@click.option("--expect", type=click.Choice(["auto", "gpu", "cpu"]), help="Override the table's `expect`.")
@click.option("--snapshot", "snapshot_file", metavar="FILE", help="Judge a saved machine instead of this one.")
@click.option("--no-snapshot", is_flag=True, help="Leave the snapshot out of the JSON report.")
@common.matrix("Judge by this compatibility matrix.")
@common.printing(*FORMATS)
def check(
    python: str,
    env: str,
    config: str | None,
    file: str | None,
    expect: str | None,
    snapshot_file: str | None,
    no_snapshot: bool,
    matrix_file: str | None,
    printing: common.Printing,
) -> int:
    """Check whether this machine, or what a file will build, meets the project's requirements."""
    gate = load_gate(config, matrix_file, required=file is None)
    if expect:
        gate = replace(gate, config=replace(gate.config, expect=expect))
    if file is not None:
        report, snapshot = _judge_file(gate, _relative(file))
    else:
        snapshot = common.saved_snapshot(snapshot_file) if snapshot_file else common.live_snapshot(python, env)
        context = Context(snapshot.facts, gate.matrix, Target(gate.config.expect, gate.config.requires))
        inspected, exists = common.inspected_options(python, env), None if snapshot_file else os.path.lexists
        report = gate.judge(context, inspected, exists)
        if not snapshot_file:
            report = offer_fix(report, snapshot.facts, gate.path)
    subject = ReportSubject(
        no_snapshot, gate.path if file is None else _relative(file), gate.ignored(), gate.ignored(ended=True)
    )
    print_report(report, snapshot, printing, subject)
    return OF_VERDICT[report.verdict]


@dataclass(frozen=True)
class Gate:
    """What a project requires today, and the matrix that judges it."""

    config: Config
    matrix: Matrix
    path: str
    today: date

    def judge(
        self, context: Context, inspected: tuple[str, ...], exists: Callable[[str], bool] | None = None
    ) -> Report:
        """Judge a machine for the project; `exists` tells which folders are there, on the machine that is judged."""
        return judge_project(context, self.config, self.path, self.today, inspected=inspected, exists=exists)

    def ignored(self, *, ended: bool = False) -> tuple[str, ...]:
        """List the finding ids that are ignored, or those whose date has passed."""
        return tuple(item.id for item in self.config.ignored if (item.until < self.today) == ended)


def load_gate(path: str | None, matrix_file: str | None, *, required: bool) -> Gate:
    """Read the configuration before the machine, so that a mistake in it is reported at once.

    Unless `required`, a project without a [tool.envcheck] table is fine: a file can be judged without one.
    """
    matrix = common.load_matrix(matrix_file)
    has_table = os.path.isfile(_CONFIG) and "[tool.envcheck" in _read_text(_CONFIG)  # noqa: PTH113 - pathlib is slow to import
    config = _load_config(path or _CONFIG, matrix) if required or path or has_table else Config()
    gate = Gate(config, matrix, path or _CONFIG, datetime.now(timezone.utc).date())
    for item in expired_ignores(config, gate.today):
        click.echo(f"envcheck: {gate.path}: the ignore of {item.id} ended on {item.until}; it counts again.", err=True)
    return gate


def _load_config(path: str, matrix: Matrix) -> Config:
    try:
        config = parse_config(_read_text(path))
        check_requirements(config.requires, matrix)
    except (ConfigError, TargetError) as error:
        raise UserError(f"{path}: {error}") from None
    return config


def _judge_file(gate: Gate, file: str) -> tuple[Report, Snapshot]:
    from envcheck.check.blueprint import FileError  # only --dockerfile reads build files: 8 ms
    from envcheck.check.build_files import read_blueprints
    from envcheck.check.judge_file import describe_facts, judge_blueprints

    try:
        blueprints = read_blueprints(_read_text(file), file, lambda name: _read_beside(file, name))
        report = judge_blueprints(blueprints, gate.matrix, gate.config, gate.path, gate.today)
    except FileError as error:
        raise UserError(str(error)) from None
    facts = describe_facts(blueprints[0], gate.matrix)
    return report, Snapshot(SCHEMA_VERSION, __version__, "not built yet", "", facts)


def _relative(file: str) -> str:
    """Name a file below this folder relative to it, as code scanning and annotations need it."""
    try:
        below = os.path.relpath(file)
    except ValueError:  # another drive
        return file
    return file if below.startswith("..") else below.replace(os.sep, "/")


def _read_beside(file: str, name: str) -> str | None:
    """Read a file that the judged one names, in or below its folder or this one; None if it is not there."""
    folders = {os.path.realpath(os.path.dirname(file) or "."), os.path.realpath(".")}  # noqa: PTH120 - pathlib is slow to import
    path = os.path.realpath(name)
    within = any(path.startswith(folder.rstrip(os.sep) + os.sep) for folder in folders)
    return _read_text(path) if within and os.path.isfile(path) else None  # noqa: PTH113


def _read_text(path: str) -> str:
    advice = ". Name the project's file with --config." if path == _CONFIG else "."
    try:
        return common.read_bytes(path, _LIMIT, advice).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text.") from None

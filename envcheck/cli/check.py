"""`envcheck check`: gate a project on its [tool.envcheck] requirements."""

from __future__ import annotations

from collections.abc import Callable

import click

from envcheck.cli import inspect, options
from envcheck.cli.exits import OF_VERDICT, UserError
from envcheck.cli.formats import FORMATS, Style, print_report
from envcheck.model.findings import Report
from envcheck.model.snapshot import Snapshot

_LIMIT = 1 << 20  # bytes of a pyproject.toml

EXAMPLE = "Example: envcheck check --config pyproject.toml --format github"


@click.command(epilog=EXAMPLE)
@options.inspected_python
@click.option("--config", default="pyproject.toml", metavar="FILE", help="The file with the [tool.envcheck] table.")
@click.option("--snapshot", "snapshot_file", metavar="FILE", help="Judge a saved machine instead of this one.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", help="How to print the report.")
@click.option("--no-snapshot", is_flag=True, help="Leave the snapshot out of the JSON report.")
@options.matrix("Judge by this compatibility matrix.")
@options.color
@options.verbosity
def check(
    python: str,
    env: str,
    config: str,
    snapshot_file: str | None,
    form: str,
    no_snapshot: bool,
    matrix_file: str | None,
    color_mode: str,
    verbose: bool,
    quiet: bool,
) -> int:
    """Say whether what the project requires holds on this machine; for CI, by the exit code."""
    judge = _judge(config, matrix_file)
    snapshot = inspect.saved_snapshot(snapshot_file) if snapshot_file else inspect.live_snapshot(python, env)
    report = judge(snapshot)
    print_report(report, snapshot, Style(form, color_mode, verbose, quiet, no_snapshot, config))
    return OF_VERDICT[report.verdict]


def _judge(path: str, matrix_file: str | None) -> Callable[[Snapshot], Report]:
    """Read the configuration before the machine: a mistake in it is told at once."""
    from datetime import datetime, timezone

    from envcheck.check.config import ConfigError, parse_config
    from envcheck.check.judge import expired, judge_project
    from envcheck.matrix.load import MatrixError, load_matrix
    from envcheck.rules import Context, Target, TargetError
    from envcheck.rules.targets import check_requirements

    today = datetime.now(timezone.utc).date()
    try:
        config = parse_config(_text(path))
        matrix = load_matrix(matrix_file)
        check_requirements(config.requires, matrix)
    except (ConfigError, TargetError) as error:
        raise UserError(f"{path}: {error}") from None
    except MatrixError as error:
        raise UserError(str(error)) from None
    for item in expired(config, today):
        click.echo(f"envcheck: {path}: the ignore of {item.id} ended on {item.until}; it counts again.", err=True)
    target = Target(config.expect, config.requires)
    return lambda snapshot: judge_project(Context(snapshot.facts, matrix, target), config, path, today)


def _text(path: str) -> str:
    try:
        with open(path, "rb") as stream:  # noqa: PTH123 - pathlib costs a third of a bare start
            return stream.read(_LIMIT).decode("utf-8")
    except OSError as error:
        advice = "Name the project's file with --config." if path == "pyproject.toml" else ""
        raise UserError(f"cannot read {path}: {error.strerror}. {advice}".rstrip()) from None
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8, which TOML must be.") from None

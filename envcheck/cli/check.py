"""`envcheck check`: gate a project on its [tool.envcheck] requirements."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from envcheck.cli import inspect, options
from envcheck.cli.exits import OF_VERDICT, UserError
from envcheck.cli.formats import FORMATS, Style, print_report
from envcheck.model.findings import Report
from envcheck.model.snapshot import Snapshot

if TYPE_CHECKING:
    from envcheck.check.config import Config
    from envcheck.matrix.query import Matrix

_LIMIT = 1 << 20  # bytes of a pyproject.toml or a Dockerfile
_CONFIG = "pyproject.toml"

EXAMPLE = "Example: envcheck check --dockerfile Dockerfile --format github"


@click.command(epilog=EXAMPLE)
@options.inspected_python
@click.option("--config", metavar="FILE", help=f"The file with the [tool.envcheck] table; {_CONFIG} when left out.")
@click.option(
    "--dockerfile",
    "file",
    metavar="FILE",
    help="Judge what this Dockerfile, compose file, environment.yml or requirements file will build.",
)
@click.option("--snapshot", "snapshot_file", metavar="FILE", help="Judge a saved machine instead of this one.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", help="How to print the report.")
@click.option("--no-snapshot", is_flag=True, help="Leave the snapshot out of the JSON report.")
@options.matrix("Judge by this compatibility matrix.")
@options.color
@options.verbosity
def check(
    python: str,
    env: str,
    config: str | None,
    file: str | None,
    snapshot_file: str | None,
    form: str,
    no_snapshot: bool,
    matrix_file: str | None,
    color_mode: str,
    verbose: bool,
    quiet: bool,
) -> int:
    """Say whether what the project requires holds on this machine, or in what a file will build; by the exit code."""
    if file is not None:
        file = _from_here(file)
        report, snapshot = _judge_file(file, config, matrix_file)
    else:
        judge = _judge(config or _CONFIG, matrix_file)
        snapshot = inspect.saved_snapshot(snapshot_file) if snapshot_file else inspect.live_snapshot(python, env)
        report = judge(snapshot)
    print_report(report, snapshot, Style(form, color_mode, verbose, quiet, no_snapshot, file or config or _CONFIG))
    return OF_VERDICT[report.verdict]


def _judge(path: str, matrix_file: str | None) -> Callable[[Snapshot], Report]:
    """Read the configuration before the machine: a mistake in it is told at once."""
    from datetime import datetime, timezone

    from envcheck.check.judge import expired, judge_project
    from envcheck.rules import Context, Target

    today = datetime.now(timezone.utc).date()
    config, matrix = _config(path, matrix_file)
    for item in expired(config, today):
        click.echo(f"envcheck: {path}: the ignore of {item.id} ended on {item.until}; it counts again.", err=True)
    target = Target(config.expect, config.requires)
    return lambda snapshot: judge_project(Context(snapshot.facts, matrix, target), config, path, today)


def _config(path: str, matrix_file: str | None) -> tuple[Config, Matrix]:
    from envcheck.check.config import ConfigError, parse_config
    from envcheck.matrix.load import MatrixError, load_matrix
    from envcheck.rules.targets import TargetError, check_requirements

    try:
        config = parse_config(_text(path))
        matrix = load_matrix(matrix_file)
        check_requirements(config.requires, matrix)
    except (ConfigError, TargetError) as error:
        raise UserError(f"{path}: {error}") from None
    except MatrixError as error:
        raise UserError(str(error)) from None
    return config, matrix


def _judge_file(file: str, path: str | None, matrix_file: str | None) -> tuple[Report, Snapshot]:
    from envcheck import __version__
    from envcheck.check.blueprint import FileError
    from envcheck.check.judge_file import judge_blueprints
    from envcheck.check.planned import planned_facts
    from envcheck.check.read_file import read_blueprints
    from envcheck.model.snapshot import SCHEMA_VERSION

    config, matrix = _config_beside(path, matrix_file)
    try:
        blueprints = read_blueprints(_text(file), file, lambda name: _beside(file, name))
        report = judge_blueprints(blueprints, matrix, config, path or _CONFIG)
    except FileError as error:
        raise UserError(str(error)) from None
    facts = planned_facts(blueprints[0])
    return report, Snapshot(SCHEMA_VERSION, __version__, "not built yet", "", facts)


def _config_beside(path: str | None, matrix_file: str | None) -> tuple[Config, Matrix]:
    """Take the project's demands where it has a table; a file can be judged without."""
    import os

    from envcheck.check.config import Config

    has_table = os.path.isfile(_CONFIG) and "[tool.envcheck" in _text(_CONFIG)  # noqa: PTH113 - as above
    if path or has_table:
        return _config(path or _CONFIG, matrix_file)
    from envcheck.matrix.load import MatrixError, load_matrix

    try:
        return Config(), load_matrix(matrix_file)
    except MatrixError as error:
        raise UserError(str(error)) from None


def _from_here(file: str) -> str:
    """Name a file below this folder from here, as code scanning and annotations need it."""
    import os

    try:
        below = os.path.relpath(file)
    except ValueError:  # another drive
        return file
    return file if below.startswith("..") else below.replace(os.sep, "/")


def _beside(file: str, name: str) -> str | None:
    """Read a file that the judged one names, in its folder, the one it is judged from, or below; None: not there."""
    import os

    folders = {os.path.realpath(os.path.dirname(file) or "."), os.path.realpath(".")}  # noqa: PTH120 - pathlib costs a third of a bare start
    path = os.path.realpath(name)
    within = any(path.startswith(folder.rstrip(os.sep) + os.sep) for folder in folders)
    return _text(path) if within and os.path.isfile(path) else None  # noqa: PTH113


def _text(path: str) -> str:
    try:
        with open(path, "rb") as stream:  # noqa: PTH123 - pathlib costs a third of a bare start
            data = stream.read(_LIMIT + 1)
    except OSError as error:
        advice = "Name the project's file with --config." if path == _CONFIG else ""
        raise UserError(f"cannot read {path}: {error.strerror}. {advice}".rstrip()) from None
    except ValueError:  # a NUL in the name
        raise UserError(f"cannot read {path!r}: no file has such a name.") from None
    if len(data) > _LIMIT:
        raise UserError(f"{path} is larger than {_LIMIT >> 20} MiB: no such file is.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text.") from None

"""`envcheck check`: gate a project on its [tool.envcheck] requirements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from envcheck.cli import inspect, options
from envcheck.cli.exits import OF_VERDICT, UserError
from envcheck.cli.report import FORMATS, Style, print_report
from envcheck.model import Report, Snapshot, dataclass

if TYPE_CHECKING:
    from datetime import date

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
@click.option("--no-snapshot", is_flag=True, help="Leave the snapshot out of the JSON report.")
@options.matrix("Judge by this compatibility matrix.")
@options.printing(*FORMATS)
def check(
    python: str,
    env: str,
    config: str | None,
    file: str | None,
    snapshot_file: str | None,
    no_snapshot: bool,
    matrix_file: str | None,
    printing: options.Printing,
) -> int:
    """Say whether what the project requires holds on this machine, or in what a file will build; by the exit code."""
    gate = _gate(config, matrix_file, needed=file is None)
    if file is not None:
        report, snapshot = _judge_file(gate, _from_here(file))
    else:
        snapshot = inspect.saved_snapshot(snapshot_file) if snapshot_file else inspect.live_snapshot(python, env)
        report = _judge(gate, snapshot, inspect.looked_at(python, env))
    judged = _from_here(file) if file is not None else gate.path
    style = Style(printing, no_snapshot, judged, gate.ignored(), gate.ignored(ended=True))
    print_report(report, snapshot, style)
    return OF_VERDICT[report.verdict]


@dataclass(frozen=True)
class _Gate:
    """What a project demands today, and by which matrix it is judged."""

    config: Config
    matrix: Matrix
    path: str
    today: date

    def ignored(self, *, ended: bool = False) -> tuple[str, ...]:
        """List the ids that are ignored, or those whose date has passed."""
        return tuple(item.id for item in self.config.ignored if (item.until < self.today) == ended)


def _gate(path: str | None, matrix_file: str | None, *, needed: bool) -> _Gate:
    """Read the configuration before the machine: a mistake in it is told at once."""
    from datetime import datetime, timezone

    from envcheck.check.judge import expired

    config, matrix = _config(path or _CONFIG, matrix_file) if needed else _config_beside(path, matrix_file)
    gate = _Gate(config, matrix, path or _CONFIG, datetime.now(timezone.utc).date())
    for item in expired(config, gate.today):
        click.echo(f"envcheck: {gate.path}: the ignore of {item.id} ended on {item.until}; it counts again.", err=True)
    return gate


def _judge(gate: _Gate, snapshot: Snapshot, inspected: tuple[str, ...]) -> Report:
    from envcheck.check.judge import judge_project
    from envcheck.rules import Context, Target

    context = Context(snapshot.facts, gate.matrix, Target(gate.config.expect, gate.config.requires))
    return judge_project(context, gate.config, gate.path, gate.today, inspected)


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


def _judge_file(gate: _Gate, file: str) -> tuple[Report, Snapshot]:
    from envcheck import __version__
    from envcheck.check.blueprint import FileError
    from envcheck.check.build_files import read_blueprints
    from envcheck.check.judge_file import judge_blueprints, planned_facts
    from envcheck.model import SCHEMA_VERSION

    try:
        blueprints = read_blueprints(_text(file), file, lambda name: _beside(file, name))
        report = judge_blueprints(blueprints, gate.matrix, gate.config, gate.path, gate.today)
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

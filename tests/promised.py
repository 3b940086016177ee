"""List the names that docs/reference/stability.md promises to keep.

python -m tests.promised    adds to tests/promised.json what is new; it takes nothing out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from docs.reference_pages import SCHEMAS, VARIABLES
from envcheck.cli import exits
from envcheck.cli.group import group

KEPT = Path(__file__).parent / "promised.json"


def read_promised() -> dict[str, list[str]]:
    """Read what was promised, by kind."""
    promised: dict[str, list[str]] = json.loads(KEPT.read_text(encoding="utf-8"))
    return promised


def list_present() -> dict[str, list[str]]:
    """List what the program has, by kind."""
    codes = {
        **exits.OF_VERDICT,
        **{name: code for name, code in vars(exits).items() if name.isupper()},
    }
    return {
        "findings": sorted(row["id"] for row in _findings()),
        "exit codes": sorted(
            f"{name} {code}" for name, code in codes.items() if isinstance(code, int)
        ),
        "documents": sorted(_members()),
        "options": sorted(_options(group, click.Context(group, info_name="envcheck"))),
        "variables": sorted(VARIABLES),
    }


def _findings() -> list[dict[str, Any]]:
    path = KEPT.parent.parent / "data" / "advice" / "findings.json"
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["findings"]
    return rows


def _members() -> Iterator[str]:
    """Yield the kind of each document with each member that is always there."""
    for path in SCHEMAS:
        schema = json.loads(path.read_text(encoding="utf-8"))
        kind = schema["properties"].get("schema", {}).get("const", path.name)
        yield from (f"{kind} {member}" for member in schema.get("required", ()))


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield a command, its options, and those of its subcommands."""
    yield context.command_path
    for parameter in command.get_params(context):
        if isinstance(parameter, click.Option) and not parameter.hidden:
            names = (*parameter.opts, *parameter.secondary_opts)
            yield from (f"{context.command_path} {name}" for name in names)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            sub = command.get_command(context, name)
            if sub is not None and not sub.hidden:
                yield from _options(sub, click.Context(sub, context, info_name=name))


def main() -> None:
    """Add what is new."""
    promised = read_promised() if KEPT.exists() else {}
    every = {
        kind: sorted({*names, *promised.get(kind, ())}) for kind, names in list_present().items()
    }
    KEPT.write_text(json.dumps(every, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

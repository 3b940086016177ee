"""The rows of data/remedies.json: what to do about a cause, filled with what the log tells."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any

from envcheck.explain.fix_context import context_of
from envcheck.explain.told import Told
from envcheck.host.data_files import read_data
from envcheck.model import Command, Fix, Way
from envcheck.rules.fixes_python import python_program

_NAMED = re.compile(r"\{([a-z_][a-z_0-9]*)\}")


def special_remedy(told: Told) -> Fix | None:
    """Return the fix that is for these very messages; None where the cause has one for all."""
    special = [row for row in _rows(told) if "signatures" in row or "where" in row]
    return _first(told, sorted(special, key=lambda row: _place(told, row)))


def usual_remedy(told: Told) -> Fix | None:
    """Return the fix of the cause for a machine of which nothing more is known."""
    return _first(told, (row for row in _rows(told) if "signatures" not in row and "where" not in row))


def findings_with_remedies() -> set[str]:
    """Name the findings that have a remedy for any log."""
    return {row["finding"] for row in document()["remedies"] if not {"signatures", "where", "when"} & set(row)}


@lru_cache(maxsize=1)
def document() -> dict[str, Any]:
    """Read data/remedies.json."""
    loaded: dict[str, Any] = json.loads(read_data("remedies.json"))
    return loaded


def _rows(told: Told) -> tuple[dict[str, Any], ...]:
    return rows_of(told.claim.id)


@cache
def rows_of(finding: str) -> tuple[dict[str, Any], ...]:
    """Read the rows of one finding only: each stands on a line of its own and begins with the finding."""
    begins = f'  {{"finding": {json.dumps(finding)},'
    lines = read_data("remedies.json").decode("utf-8").splitlines()
    return tuple(json.loads(line.rstrip(",")) for line in lines if line.startswith(begins))


def _first(told: Told, rows: Iterable[dict[str, Any]]) -> Fix | None:
    return next((fix for row in rows if _fits(told, row) if (fix := _filled(told, row)) is not None), None)


def _place(told: Told, row: dict[str, Any]) -> int:
    """Tell which of the messages a row is for: the heaviest stands first."""
    named = row.get("signatures", told.signatures)
    return next((place for place, name in enumerate(told.signatures) if name in named), len(told.signatures))


def _fits(told: Told, row: dict[str, Any]) -> bool:
    if not set(row.get("when", ())) <= told.tags:
        return False
    if "signatures" in row and not set(row["signatures"]) & set(told.signatures):
        return False
    return all(re.search(pattern, told.value(name)) for name, pattern in row.get("where", {}).items())


def _filled(told: Told, row: dict[str, Any]) -> Fix | None:
    """Fill a row; a command of which a name is not told is left out, and the row where no command is left."""
    summary = _text(told, row["summary"])
    commands, elsewhere = _commands(told, row)
    if summary is None or (row.get("commands") and not commands):
        return None
    ways = [
        Way(said, _commands(told, item)[0])
        for item in row.get("alternatives", ())
        if (said := _text(told, item["summary"]))
    ]
    return Fix(summary, commands, (*elsewhere, *ways))


def _commands(told: Told, row: dict[str, Any]) -> tuple[tuple[Command, ...], tuple[Way, ...]]:
    """Fill a way's commands; what a package manager installs comes with how the other distributions have it."""
    commands: list[Command] = []
    ways: list[Way] = []
    for item in row.get("commands", ()):
        if "install" in item:
            from envcheck.rules.packages import install_somewhere

            values = {"major": item["major"]} if "major" in item else {}
            found, others = install_somewhere(context_of(told), item["install"], item["purpose"], **values)
            commands += found
            ways += others
        elif (command := _command(told, item)) is not None:
            commands.append(command)
    return tuple(commands), tuple(ways)


def _command(told: Told, row: dict[str, Any]) -> Command | None:
    words: list[str] = []
    for word in row["argv"]:
        filled = _text(told, word)
        if filled is None:
            return None
        words += filled.split() if word == "{pids}" else [filled]
    purpose = _text(told, row.get("purpose", ""))
    program = python_program(context_of(told)) if words[0] == "python" else words[0]
    return Command((program, *words[1:]), row.get("scope", "environment"), purpose or "")


def _text(told: Told, text: str) -> str | None:
    """Put the values of the log into a text; None where it does not tell one of them."""
    values = {name: told.value(name) for name in _NAMED.findall(text)}
    if not all(values.values()):
        return None
    return _NAMED.sub(lambda found: values[found[1]], text)

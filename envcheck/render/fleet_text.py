"""A fleet for people: the hosts grouped by verdict and primary cause."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from envcheck.fleet.report import Row, groups_of, verdict_of
from envcheck.model.findings import COMPATIBLE, INCOMPATIBLE, UNDETERMINED
from envcheck.render.inert import inert

_COLORS = {COMPATIBLE: "\x1b[1;32m", INCOMPATIBLE: "\x1b[1;31m", UNDETERMINED: "\x1b[1;35m"}
_NAMED = 6  # hosts of a group that are named without -v


def print_fleet(rows: list[Row], *, color: bool, verbose: bool, quiet: bool) -> None:
    """Print the groups to stdout; `verbose` names every host with its message, `quiet` leaves the verdict."""
    encoding = sys.stdout.encoding or "ascii"
    lines = list(_lines(rows, color=color, verbose=verbose, quiet=quiet))
    sys.stdout.write("".join(line + "\n" for line in lines).encode(encoding, "replace").decode(encoding))


def _lines(rows: list[Row], *, color: bool, verbose: bool, quiet: bool) -> Iterator[str]:
    for group in groups_of(rows) if not quiet else ():
        count = f"{len(group.hosts)} host{'' if len(group.hosts) == 1 else 's'}"
        yield f"{_word(group.verdict, color=color)}  {inert(group.cause) or 'works'}: {count}"
        members = [row for row in rows if (row.verdict, row.cause) == (group.verdict, group.cause)] if verbose else []
        if verbose:
            yield from (inert(f"  {row.host}: {row.message}") for row in members)
        else:
            yield inert(f"  {group.message}")
            yield inert(f"  {_shortened(group.hosts)}")
        yield ""
    drifting = [row for row in rows if row.drift]
    yield from _drift(drifting, verbose=verbose) if not quiet else ()
    counted = [f"{sum(row.verdict == verdict for row in rows)} {verdict}" for verdict in _COLORS]
    yield f"{_word(verdict_of(rows), color=color)}  {len(rows)} hosts: {', '.join(counted)}."


def _drift(rows: list[Row], *, verbose: bool) -> Iterator[str]:
    if not rows:
        return
    yield f"{'1 host differs' if len(rows) == 1 else f'{len(rows)} hosts differ'} from the golden host:"
    for row in rows if verbose else rows[:_NAMED]:
        yield from (inert(f"  {row.host}: {item}") for item in row.drift)
    if len(rows) > _NAMED and not verbose:
        yield f"  and {len(rows) - _NAMED} more: -v shows them"
    yield ""


def _word(verdict: str, *, color: bool) -> str:
    return f"{_COLORS[verdict]}{verdict.upper()}\x1b[0m" if color else verdict.upper()


def _shortened(hosts: tuple[str, ...]) -> str:
    more = f" and {len(hosts) - _NAMED} more" if len(hosts) > _NAMED else ""
    return ", ".join(hosts[:_NAMED]) + more

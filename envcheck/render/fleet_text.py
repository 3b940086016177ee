"""A fleet for people: the hosts grouped by verdict and primary cause."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from envcheck.fleet.report import Group, Row, groups_of, verdict_of
from envcheck.render.inert import inert
from envcheck.render.text import VERDICT_STYLES, Line, fix_lines, print_lines

_NAMED = 6  # hosts of a group that are named without -v


def print_fleet(rows: list[Row], *, color: bool, verbose: bool, quiet: bool) -> None:
    """Print the groups to stdout; `verbose` names every host with its message, `quiet` leaves the verdict."""
    print_lines([*([] if quiet else _body(rows, verbose=verbose)), _last(rows)], color=color)


def _last(rows: list[Row]) -> Line:
    counted = [f"{sum(row.verdict == verdict for row in rows)} {verdict}" for verdict in VERDICT_STYLES]
    verdict = verdict_of(rows)
    hosts = "1 host" if len(rows) == 1 else f"{len(rows)} hosts"
    return (f"{verdict.upper()}  ", f"{hosts}: {', '.join(counted)}.", VERDICT_STYLES[verdict])


def _body(rows: list[Row], *, verbose: bool) -> Iterator[Line]:
    for group in groups_of(rows):
        count = f"{len(group.hosts)} host{'' if len(group.hosts) == 1 else 's'}"
        said = f"{inert(group.cause) or 'works'}: {count}"
        yield (f"{group.verdict.upper()}  ", said, VERDICT_STYLES[group.verdict])
        if verbose:
            members = (row for row in rows if (row.verdict, row.cause) == (group.verdict, group.cause))
            yield from _each(members)
        else:
            yield ("  ", inert(group.message), "")
            yield ("  ", inert(_shortened(group.hosts)), "")
            yield from _fix(group)
        yield ("", "", "")
    yield from _drift([row for row in rows if row.drift], verbose=verbose)


def _each(rows: Iterable[Row]) -> Iterator[Line]:
    """Say each host's message; what mends it stands once for all that follow and have the same."""
    said = None
    for row in rows:
        yield ("  ", f"{inert(row.host)}: {inert(row.message)}", "")
        if row.fix is not None and row.fix != said:
            yield from fix_lines(row.fix, row.system)
        said = row.fix


def _fix(group: Group) -> Iterator[Line]:
    if group.fixes:
        yield from fix_lines(*group.fixes[0])
    if len(group.fixes) > 1:
        yield ("  ", "Not all of them are mended so: -v shows each host's own fix.", "dim")


def _drift(rows: list[Row], *, verbose: bool) -> Iterator[Line]:
    if not rows:
        return
    count = "1 host differs" if len(rows) == 1 else f"{len(rows)} hosts differ"
    yield ("", f"{count} from the golden host:", "")
    for row in rows if verbose else rows[:_NAMED]:
        yield from (("  ", f"{inert(row.host)}: {inert(item)}", "") for item in row.drift)
    if len(rows) > _NAMED and not verbose:
        yield ("  ", f"and {len(rows) - _NAMED} more: -v shows them", "")
    yield ("", "", "")


def _shortened(hosts: tuple[str, ...]) -> str:
    more = f" and {len(hosts) - _NAMED} more" if len(hosts) > _NAMED else ""
    return ", ".join(hosts[:_NAMED]) + more

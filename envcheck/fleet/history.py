"""Keep what each report found in one SQLite file: which host has which trouble, and since when.

A row is a spell: the reports, one after another, in which a host had one finding. A report that
changes nothing adds one row, so a month of 10,000 hosts stays small.
"""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import date, datetime, time, timedelta
from pathlib import Path

from envcheck.fleet.report import HostRow
from envcheck.model import UNDETERMINED, UserError, dataclass, replace

_APPLICATION, _VERSION = 0x656E7663, 1  # "envc": another program's file is never written to
_DAYS = 400  # for which it is kept
_PAGES = 1 << 18  # of 4 KiB
_SECONDS = 30.0  # to wait for another report
# `question` is what was judged: --expect and --for. The finding "" is the host itself, with its
# verdict. `last` is empty while the latest report has it.
_TABLES = f"""
CREATE TABLE reports (question TEXT, at INTEGER, PRIMARY KEY (question, at)) WITHOUT ROWID;
CREATE TABLE spells (question TEXT, host TEXT, finding TEXT, verdict TEXT, first INTEGER,
    last INTEGER);
CREATE INDEX spells_by_end ON spells (question, last);
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_VERSION};
"""

Key = tuple[str, str, str]  # host, finding, verdict


class HistoryError(UserError):
    """The file cannot be used; the message says why."""


@dataclass
class Changes:
    """What differs from an earlier report, as findings with their hosts."""

    since: int  # when the earlier report was stored, in seconds
    is_oldest: bool  # no report is as old as was asked for
    new: dict[str, tuple[str, ...]]
    cleared: dict[str, tuple[str, ...]]
    passed: dict[str, tuple[str, ...]]  # a report between the two has it, neither of them
    gone: tuple[str, ...]  # hosts that are not in the folder any more


def parse_since(text: str, now: datetime) -> int:
    """Return the second up to which a report counts as earlier: a day means its end.

    Accepts "yesterday", 2026-11-26, 2026-11-26T06:00, 12h, 3d and 2w.
    """
    span = re.fullmatch(r"(\d{1,4})([hdw])", "1d" if text == "yesterday" else text)
    try:
        if span and span[2] == "h":
            return int((now - timedelta(hours=int(span[1]))).timestamp())
        if span:
            day = now - timedelta(days=int(span[1]) * (7 if span[2] == "w" else 1))
        elif "T" in text:
            return int(datetime.fromisoformat(text).timestamp())
        else:
            day = datetime.combine(date.fromisoformat(text), time())
        return int(day.replace(hour=23, minute=59, second=59).timestamp())
    except (ValueError, OverflowError, OSError):
        raise UserError(
            f"--since {text}: write yesterday, a date (2026-11-26) or a duration (12h, 3d, 2w)"
        ) from None


def list_undetermined(path: Path) -> set[str]:
    """Name the hosts that the latest report could not judge; none where there is no history."""
    if not path.exists():
        return set()
    with _opened(path, "BEGIN") as base:
        latest = "SELECT question FROM reports ORDER BY at DESC LIMIT 1"
        select = "SELECT host FROM spells WHERE last IS NULL AND finding = '' AND verdict = ?"
        found = base.execute(f"{select} AND question = ({latest})", (UNDETERMINED,))
        return {host for (host,) in found}


def store_report(
    path: Path, rows: list[HostRow], question: str, now: int, upto: int | None = None
) -> tuple[list[HostRow], Changes | None]:
    """Store a report; return its rows with their `since`, and what differs from that of `upto`."""
    with _opened(path, "BEGIN IMMEDIATE") as base:
        now = max(now, (_find_report(base, "max", question, 1 << 62) or 0) + 1)  # clocks go back
        current = _update_spells(base, rows, question, now)
        changes = None
        if upto is not None:
            changes = _compare(base, set(current), question, min(upto, now - 1))
        base.execute("INSERT INTO reports VALUES (?, ?)", (question, now))
        base.execute("DELETE FROM reports WHERE at < ?", (now - _DAYS * 86400,))
        base.execute("DELETE FROM spells WHERE last < ?", (now - _DAYS * 86400,))
        base.execute("DELETE FROM spells WHERE question NOT IN (SELECT question FROM reports)")
        begun = [current[_plain(row.host), row.cause, row.verdict] for row in rows]
        dated = [replace(row, since=at if at < now else 0) for row, at in zip(rows, begun)]
    return dated, changes


@contextmanager
def _opened(path: Path, begin: str) -> Iterator[sqlite3.Connection]:
    """Open the file for one transaction, which is undone where the block fails."""
    try:
        with closing(sqlite3.connect(path, _SECONDS, isolation_level=None)) as base:
            base.execute(f"PRAGMA max_page_count = {_PAGES}")
            base.execute(begin)
            made_by = [base.execute(f"PRAGMA {name}").fetchone()[0] for name in _STAMPS]
            if made_by == [0, 0] and not base.execute("SELECT * FROM sqlite_master").fetchone():
                for statement in _TABLES.split(";"):
                    base.execute(statement)
            elif made_by != [_APPLICATION, _VERSION]:
                raise sqlite3.DatabaseError("it is not a history that this envcheck reads")
            yield base
            base.execute("COMMIT")
    except (sqlite3.Error, TypeError, ValueError) as error:  # values of a damaged page are anything
        raise HistoryError(f"{path} cannot be used as the history: {error}") from error


_STAMPS = ("application_id", "user_version")


def _find_report(base: sqlite3.Connection, which: str, question: str, upto: int) -> int | None:
    select = f"SELECT {which}(at) FROM reports WHERE question = ? AND at <= ?"  # noqa: S608 - our own words
    found: int | None = base.execute(select, (question, upto)).fetchone()[0]
    return found


def _update_spells(
    base: sqlite3.Connection, rows: list[HostRow], question: str, now: int
) -> dict[Key, int]:
    """End the spells that this report does not have, begin the others; return when each began.

    A host that could not be judged keeps what it had: nobody saw that it is gone.
    """
    found = dict.fromkeys(key for row in rows for key in _list_keys(row))
    unseen = {_plain(row.host) for row in rows if row.verdict == UNDETERMINED}
    current, ended = dict[Key, int](), list[tuple[int, int]]()
    select = "SELECT rowid, first, host, finding, verdict FROM spells"
    for number, first, *key in base.execute(
        f"{select} WHERE question = ? AND last IS NULL", (question,)
    ):
        host, finding, verdict = key
        is_kept = host in unseen and finding and verdict != UNDETERMINED
        if is_kept or (host, finding, verdict) in found:
            current[host, finding, verdict] = first
        else:
            ended.append((now - 1, number))
    base.executemany("UPDATE spells SET last = ? WHERE rowid = ?", ended)
    begun = [key for key in found if key not in current]
    base.executemany(
        "INSERT INTO spells VALUES (?, ?, ?, ?, ?, NULL)",
        [(question, *key, now) for key in begun],
    )
    return {**current, **dict.fromkeys(begun, now)}


def _list_keys(row: HostRow) -> Iterator[Key]:
    host = _plain(row.host)
    yield host, "", row.verdict
    yield host, row.cause, row.verdict
    for finding, verdict in row.also:
        yield host, finding, verdict


def _plain(host: str) -> str:
    """Return the name of a host as SQLite can keep it: in UTF-8."""
    return host.encode("utf-8", "backslashreplace").decode("utf-8")


def _compare(
    base: sqlite3.Connection, current: set[Key], question: str, upto: int
) -> Changes | None:
    earlier = _find_report(base, "max", question, upto)
    since = earlier or _find_report(base, "min", question, 1 << 62)
    if since is None:
        return None
    select = "SELECT host, finding, verdict FROM spells WHERE question = ?"
    before = base.execute(
        f"{select} AND first <= ? AND (last IS NULL OR last >= ?)", (question, since, since)
    ).fetchall()
    between = base.execute(f"{select} AND first > ? AND last IS NOT NULL", (question, since))
    now, then, passed = _list_troubles(current), _list_troubles(before), _list_troubles(between)
    hosts = {host for host, _, _ in current}
    gone = {host for host, _, _ in before} - hosts
    return Changes(
        since,
        earlier is None,
        _by_finding(now - then),
        _by_finding(pair for pair in then - now if pair[1] in hosts),
        _by_finding(passed - then - now),
        tuple(sorted(gone)),
    )


def _list_troubles(keys: Iterable[Key]) -> set[tuple[str, str]]:
    return {(finding, host) for host, finding, _ in keys if finding}


def _by_finding(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    hosts = defaultdict[str, list[str]](list)
    for finding, host in sorted(pairs):
        hosts[finding].append(host)
    return {finding: tuple(names) for finding, names in hosts.items()}

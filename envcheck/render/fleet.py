"""Describe a fleet, encode it as JSON and CSV, and fill the page that filters and sorts."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from envcheck.actions import AskPerson
from envcheck.actions.extras import needs_extra
from envcheck.fleet.report import (
    Group,
    HostRow,
    choose_verdict,
    count_parts,
    group_rows,
    list_splits,
)
from envcheck.fleet.results import Failure
from envcheck.host.data_files import read_packaged
from envcheck.model import COMPATIBLE, ENVIRONMENT, INCOMPATIBLE, UNDETERMINED, inert
from envcheck.model.text import counted, shorten
from envcheck.render.document import Block, Check, Document, Line, Section, type_command
from envcheck.render.html import fill
from envcheck.render.json_contracts import (
    Json,
    document_text,
    pick_fields,
    remedy_document,
    schema_keys,
)
from envcheck.render.report import show_fix

if TYPE_CHECKING:
    from envcheck.fleet.history import Changes  # with it comes sqlite3, which some Pythons lack

# What a spreadsheet takes for a formula (https://owasp.org/www-community/attacks/CSV_Injection).
# and their full-width forms
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
LABELS = ("Machine", "GPU", "Driver", "CUDA", "cuDNN", "Compiler", "Python", "Frameworks")


def render_fleet_json(rows: list[HostRow], golden: str, changes: Changes | None = None) -> str:
    """Render the rows, schema envcheck/fleet-report/1."""
    document: Json = {
        **schema_keys("envcheck/fleet-report/1"),
        "verdict": choose_verdict(rows),
        "golden": golden or None,
        "groups": [_group_data(group) for group in group_rows(rows)],
        "hosts": [host_data(row) for row in rows],
        "differences": [
            {
                "label": split.label,
                "values": [{"value": value, "hosts": hosts} for value, hosts in split.groups],
            }
            for split in list_splits(rows)
        ],
        **count_parts(rows),
    }
    if changes:
        sets = pick_fields(changes, "new", "cleared", "passed", "gone")
        document["changes"] = {"since": _stamp(changes.since), **sets}
    return document_text(document)


def _stamp(seconds: int) -> str | None:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat() if seconds else None


def _moment(seconds: int) -> str:
    """Return a time as the reader's clock shows it."""
    return f"{datetime.fromtimestamp(seconds).astimezone():%Y-%m-%d %H:%M}" if seconds else ""


def _group_data(group: Group) -> Json:
    return {
        **pick_fields(group, "verdict", "cause", "message", "hosts"),
        "messages": [{"message": text, "hosts": list(hosts)} for text, hosts in group.messages],
        "fixes": [remedy_document(fix, system) for fix, system in group.fixes],
    }


def render_run_json(
    folder: str,
    answers: Mapping[str, Failure | None],
    timeouts: Mapping[str, tuple[str, ...]],
    before: int,
) -> str:
    """Render the answers, schema envcheck/fleet-run/1.

    None is a host whose snapshot lies in the folder.
    """
    hosts = [
        {
            "host": host,
            "answer": failure.kind if failure else "read",
            "reason": failure.reason if failure else "",
            "timeouts": list(timeouts.get(host, ())),
        }
        for host, failure in sorted(answers.items())
    ]
    return document_text(
        {**schema_keys("envcheck/fleet-run/1"), "folder": folder, "before": before, "hosts": hosts}
    )


def host_data(row: HostRow) -> Json:
    """Return one host's row as plain data."""
    return {
        **pick_fields(row, "host", "verdict", "cause", "message"),
        "fix": remedy_document(row.fix, row.system) if row.fix else None,
        "machine": dict(row.machine),
        "drift": list(row.drift),
        "since": _stamp(row.since),
        "also": [finding for finding, _ in row.also],
    }


def _list_cells(row: HostRow) -> list[str]:
    machine = dict(row.machine)
    layers = [machine.get(label, "") for label in LABELS]
    fix = row.fix.summary if row.fix else ""
    return [
        inert(cell)
        for cell in (
            row.host,
            row.verdict,
            row.cause,
            row.message,
            *layers,
            "; ".join(row.drift),
            fix,
            _moment(row.since),
        )
    ]


_HEAD = ("Host", "Verdict", "Cause", "Message", *LABELS, "Drift", "Fix", "Since")


def render_fleet_csv(rows: list[HostRow]) -> str:
    """Render the rows as CSV; a cell that a spreadsheet would execute begins with an apostrophe."""
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)  # so that a semicolon is no separator either
    writer.writerow(map(str.lower, _HEAD))
    writer.writerows(map(_disarm, _list_cells(row)) for row in rows)
    return text.getvalue()


def _disarm(text: str) -> str:
    if text.lstrip("\ufffd \xa0\u3000").startswith(_FORMULA):
        return f"'{text}"
    return text


_NODE = re.compile(r"(?!(?i:all)$)[A-Za-z0-9][\w.-]*", re.ASCII)  # scontrol expands other names
_REASON = 100  # characters


def render_drain(rows: list[HostRow]) -> str:
    """Render a command of Slurm for each host that is broken itself.

    A host that is undetermined stays, and so does one where an environment alone is at fault.
    """
    lines = []
    for row in rows:
        scopes = {action.scope for action in row.fix.actions} if row.fix else set()
        if row.verdict != INCOMPATIBLE or scopes == {ENVIRONMENT}:
            continue
        reason = " ".join(inert(f"envcheck: {row.cause}: {row.message}").split())[:_REASON]
        if _NODE.fullmatch(row.host):
            words = f"NodeName={row.host} State=DRAIN Reason={shlex.quote(reason)}"
            lines.append(f"scontrol update {words}\n")
        else:
            lines.append(f"# no name of a node: {row.host!a}\n")
    return "".join(lines)


_TONES = {"compatible": "ok", "incompatible": "error", "undetermined": "undetermined"}


def render_fleet_html(rows: list[HostRow], golden: str, changes: Changes | None = None) -> str:
    """Render the page; its one script is named by its hash in the page's own policy."""
    with needs_extra("html", "An HTML page"):
        import markupsafe

    script = read_packaged("render", "templates", "fleet.js").decode("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return fill(
        "fleet.html",
        rows=rows,
        groups=group_rows(rows),
        show_fix=show_fix,
        verdict=choose_verdict(rows),
        golden=golden,
        about=[
            *([_describe_changes(changes)] if changes else []),
            *_list_also(rows),
            *_list_splits(rows, "", verbose=True),
            *_list_parts(rows),
        ],
        data={"columns": _HEAD, "tones": _TONES, "rows": [_list_cells(row) for row in rows]},
        script=markupsafe.Markup(script),  # noqa: S704 - our own file, no text of a host
        script_hash=f"sha256-{digest}",
    )


_NAMED = 6  # hosts of a group that are named without -v


def describe_fleet(
    rows: list[HostRow],
    golden: str = "",
    changes: Changes | None = None,
    *,
    verbose: bool = False,
    quiet: bool = False,
) -> Document:
    """Describe the troubles; `verbose` names every host, `quiet` leaves the verdict."""
    found = [row.verdict for row in rows]
    verdicts = ", ".join(
        f"{found.count(each)} {each}" for each in (COMPATIBLE, INCOMPATIBLE, UNDETERMINED)
    )
    verdict, groups = choose_verdict(rows), group_rows(rows)
    body = [
        *([_describe_changes(changes)] if changes else []),
        *(
            _describe_group(group, rows if verbose else [])
            for group in groups
            if verbose or group.cause
        ),
        *_list_also(rows),
        *_list_splits(rows, golden, verbose=verbose),
        *(_list_parts(rows) if verbose else ()),
    ]
    return Document(
        "envcheck fleet",
        verdict,
        f"{counted(len(rows), 'host')}: {verdicts}.",
        f"{verdict.upper()}  ",
        about=() if quiet else tuple(body),
        closing=None if quiet or verdict == COMPATIBLE else _close(groups[0]),
        checks=tuple(map(_check, rows)),
    )


def _check(row: HostRow) -> Check:
    outcome = {COMPATIBLE: "passed", INCOMPATIBLE: "failure", UNDETERMINED: "error"}[row.verdict]
    fix = (f"fix: {row.fix.summary}",) if row.fix else ()
    return Check(
        "envcheck fleet", row.cause or "works", row.host, outcome, row.message, (row.message, *fix)
    )


def _close(group: Group) -> Section | None:
    """End with the command for the hosts of the first group, where one fixes them all."""
    actions = group.fixes[0][0].actions if len(group.fixes) == 1 else ()
    if not actions or isinstance(actions[0], AskPerson):
        return None
    lead = Line(f"Type this first, on {_shorten(group.hosts)}:")
    return Section((type_command(actions[0], group.fixes[0][1], is_told=False),), lead)


def _describe_group(group: Group, rows: list[HostRow]) -> Section:
    """Describe a group by its messages, or by its hosts' where rows are given."""
    count = counted(len(group.hosts), "host")
    if group.since:
        whose = ", since" if len(group.hosts) == 1 else ", the first since"
        count = f"{count}{whose} {_moment(group.since)}"
    title = Line(f"{group.cause or 'works'}: {count}", f"{group.verdict.upper()}  ", group.verdict)
    members = [row for row in rows if (row.verdict, row.cause) == (group.verdict, group.cause)]
    return Section(tuple(_list_hosts(members) if rows else _list_messages(group)), title)


def _list_messages(group: Group) -> Iterator[Block]:
    """Show what hosts say, each message with its own hosts, and the fix that most of them need."""
    for message, hosts in group.messages[:_NAMED]:
        yield from (Line(message), Line(_shorten(hosts)))
    if len(group.messages) > _NAMED:
        yield Line(
            f"and {len(group.messages) - _NAMED} more messages: -v shows that of each host",
            kind="dim",
        )
    if group.fixes:
        yield from show_fix(*group.fixes[0])
    if len(group.fixes) > 1:
        yield Line("This does not fix all of them: -v shows the fix of each host.", kind="dim")
    if group.verdict == UNDETERMINED:
        yield Line("The next `envcheck fleet run` asks again.", kind="dim")


def _list_hosts(rows: Iterable[HostRow]) -> Iterator[Block]:
    """Show each host's message; a fix that several hosts in a row share is shown once."""
    said = None
    for row in rows:
        since = f" (since {_moment(row.since)})" if row.since else ""
        yield Line(f"{row.host}: {row.message}{since}")
        if row.fix != said:
            yield from show_fix(row.fix, row.system)
        said = row.fix


def _list_also(rows: list[HostRow]) -> Iterator[Section]:
    """List what hosts have beside their cause."""
    hosts = defaultdict[str, list[str]](list)
    for row in rows:
        for finding, _ in row.also:
            hosts[finding].append(row.host)
    if hosts:
        yield Section(tuple(_name_hosts("", hosts)), Line("Also found:"))


def _describe_changes(changes: Changes) -> Section:
    lines = [
        *_name_hosts("new: ", changes.new),
        *_name_hosts("cleared: ", changes.cleared),
        *_name_hosts("came and went: ", changes.passed),
        *([Line(f"not listed any more: {_shorten(changes.gone)}")] if changes.gone else []),
    ]
    oldest = "oldest " if changes.is_oldest else ""
    title = f"Since the {oldest}report of {_moment(changes.since)}:"
    return Section(tuple(lines or [Line("nothing changed")]), Line(title))


def _name_hosts(lead: str, hosts: Mapping[str, Sequence[str]]) -> Iterator[Line]:
    for finding, names in hosts.items():
        yield Line(f"{lead}{finding} on {_shorten(names)}")


def _list_parts(rows: list[HostRow]) -> Iterator[Section]:
    for name, counts in count_parts(rows).items():
        lines = tuple(Line(f"{count} x {part}") for part, count in counts.items())
        yield Section(lines, Line(f"{name.capitalize()}:"))


def _list_splits(rows: list[HostRow], golden: str, *, verbose: bool) -> Iterator[Section]:
    """List what hosts of one kind do not have in common, the usual value first.

    What an incompatible host has is its cause's matter, unless `verbose` or a golden host is named.
    """
    is_all = verbose or bool(golden)
    known = {row.host for row in rows if row.verdict == INCOMPATIBLE and not is_all}
    for split in list_splits(rows, golden):
        (usual, _), *others = split.groups
        groups = [(value, [host for host in hosts if host not in known]) for value, hosts in others]
        lines = [Line(f"{_shorten(hosts)}: {value}") for value, hosts in groups if hosts]
        if lines:
            first = Line(f"{split.usual}: {usual}")
            yield Section((first, *lines), Line(f"{split.label} differs:"))


def _shorten(hosts: Sequence[str]) -> str:
    return shorten(hosts, _NAMED)

"""Describe a fleet, encode it as JSON and CSV, and fill the page that filters and sorts."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from envcheck.actions import AskPerson
from envcheck.actions.extras import needs_extra
from envcheck.fleet.report import Group, HostRow, choose_verdict, group_rows
from envcheck.fleet.results import Failure
from envcheck.host.data_files import read_packaged
from envcheck.model import COMPATIBLE, INCOMPATIBLE, UNDETERMINED, inert
from envcheck.model.text import counted, shorten
from envcheck.render.document import Block, Check, Document, Line, Section, type_command
from envcheck.render.html import fill
from envcheck.render.json_contracts import document_text, pick_fields, remedy_document, schema_keys
from envcheck.render.report import show_fix

# What a spreadsheet takes for a formula (https://owasp.org/www-community/attacks/CSV_Injection).
# and their full-width forms
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
LABELS = ("Machine", "GPU", "Driver", "CUDA", "cuDNN", "Compiler", "Python", "Frameworks")


def render_fleet_json(rows: list[HostRow], golden: str) -> str:
    """Render the rows, schema envcheck/fleet-report/1."""
    document: dict[str, Any] = {
        **schema_keys("envcheck/fleet-report/1"),
        "verdict": choose_verdict(rows),
        "golden": golden or None,
        "groups": [_group_data(group) for group in group_rows(rows)],
        "hosts": [host_data(row) for row in rows],
    }
    return document_text(document)


def _group_data(group: Group) -> dict[str, Any]:
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


def host_data(row: HostRow) -> dict[str, Any]:
    """Return one host's row as plain data."""
    return {
        **pick_fields(row, "host", "verdict", "cause", "message"),
        "fix": remedy_document(row.fix, row.system) if row.fix else None,
        "machine": dict(row.machine),
        "drift": list(row.drift),
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
        )
    ]


_HEAD = ("Host", "Verdict", "Cause", "Message", *LABELS, "Drift", "Fix")


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


_TONES = {"compatible": "ok", "incompatible": "error", "undetermined": "undetermined"}


def render_fleet_html(rows: list[HostRow], golden: str) -> str:
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
        data={"columns": _HEAD, "tones": _TONES, "rows": [_list_cells(row) for row in rows]},
        script=markupsafe.Markup(script),  # noqa: S704 - our own file, no text of a host
        script_hash=f"sha256-{digest}",
    )


_NAMED = 6  # hosts of a group that are named without -v


def describe_fleet(
    rows: list[HostRow], golden: str = "", *, verbose: bool = False, quiet: bool = False
) -> Document:
    """Describe the groups; `verbose` names every host, `quiet` leaves the verdict."""
    found = [row.verdict for row in rows]
    verdicts = ", ".join(
        f"{found.count(each)} {each}" for each in (COMPATIBLE, INCOMPATIBLE, UNDETERMINED)
    )
    verdict, groups = choose_verdict(rows), group_rows(rows)
    body = [
        *(_describe_group(group, rows if verbose else []) for group in groups),
        *_list_drift(rows, golden, verbose=verbose),
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


def _list_hosts(rows: Iterable[HostRow]) -> Iterator[Block]:
    """Show each host's message; a fix that several hosts in a row share is shown once."""
    said = None
    for row in rows:
        yield Line(f"{row.host}: {row.message}")
        if row.fix != said:
            yield from show_fix(row.fix, row.system)
        said = row.fix


def _list_drift(rows: list[HostRow], golden: str, *, verbose: bool) -> Iterator[Section]:
    drifting = [row for row in rows if row.drift]
    if not drifting:
        return
    shown = drifting if verbose else drifting[:_NAMED]
    lines = [Line(f"{row.host}: {item}") for row in shown for item in row.drift]
    if len(shown) < len(drifting):
        lines.append(Line(f"and {len(drifting) - len(shown)} more: -v shows them"))
    count = "1 host differs" if len(drifting) == 1 else f"{len(drifting)} hosts differ"
    yield Section(
        tuple(lines),
        Line(f"{count} from {'the golden host' if golden else 'most hosts of the same kind'}:"),
    )


def _shorten(hosts: tuple[str, ...]) -> str:
    return shorten(hosts, _NAMED)

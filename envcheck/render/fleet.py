"""Render a fleet as text, JSON, CSV and one HTML page."""

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
from envcheck.render.documents import Line, document_text, print_lines, remedy_document, schema_keys
from envcheck.render.html import page
from envcheck.render.text import command_line, fix_lines

# What a spreadsheet takes for a formula (https://owasp.org/www-community/attacks/CSV_Injection).
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # and their full-width forms
LABELS = ("Machine", "GPU", "Driver", "CUDA", "cuDNN", "Compiler", "Python", "Frameworks")


def render_fleet_json(rows: list[HostRow], golden: str) -> str:
    """Render the rows, schema envcheck/fleet-report/1."""
    document: dict[str, Any] = {
        **schema_keys("envcheck/fleet-report/1"),
        "verdict": choose_verdict(rows),
        "golden": golden or None,
        "groups": [
            {"verdict": group.verdict, "cause": group.cause, "message": group.message, "hosts": list(group.hosts)}
            | {"messages": [{"message": text, "hosts": list(hosts)} for text, hosts in group.messages]}
            | {"fixes": [remedy_document(fix, system) for fix, system in group.fixes]}
            for group in group_rows(rows)
        ],
        "hosts": [host_data(row) for row in rows],
    }
    return document_text(document)


def render_run_json(
    folder: str, answers: Mapping[str, Failure | None], timeouts: Mapping[str, tuple[str, ...]], before: int
) -> str:
    """Render the answers, schema envcheck/fleet-run/1; None is a host whose snapshot lies in the folder."""
    hosts = [
        {"host": host, "answer": failure.kind if failure else "read", "reason": failure.reason if failure else ""}
        | {"timeouts": list(timeouts.get(host, ()))}
        for host, failure in sorted(answers.items())
    ]
    return document_text({**schema_keys("envcheck/fleet-run/1"), "folder": folder, "before": before, "hosts": hosts})


def host_data(row: HostRow) -> dict[str, Any]:
    """Return one host's row as plain data."""
    return {
        "host": row.host,
        "verdict": row.verdict,
        "cause": row.cause,
        "message": row.message,
        "fix": remedy_document(row.fix, row.system) if row.fix else None,
        "machine": dict(row.machine),
        "drift": list(row.drift),
    }


def fix_of(row: HostRow) -> str:
    """Say in words what to do about a host."""
    return row.fix.summary if row.fix else ""


def render_fleet_csv(rows: list[HostRow]) -> str:
    """Render the rows as CSV; a cell that a spreadsheet would execute begins with an apostrophe."""
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)  # so that a semicolon is no separator either
    writer.writerow(["host", "verdict", "cause", "message", *(label.lower() for label in LABELS), "drift", "fix"])
    for row in rows:
        machine = dict(row.machine)
        cells = [row.host, row.verdict, row.cause, row.message, *(machine.get(label, "") for label in LABELS)]
        writer.writerow([_cell(cell) for cell in (*cells, "; ".join(row.drift), fix_of(row))])
    return text.getvalue()


def _cell(text: str) -> str:
    shown = inert(text)
    return f"'{shown}" if shown.lstrip("\ufffd \xa0\u3000").startswith(_FORMULA) else shown


_TONES = {"compatible": "ok", "incompatible": "error", "undetermined": "undetermined"}


def render_fleet_html(rows: list[HostRow], golden: str) -> str:
    """Render the page; its one script is named by its hash in the page's own policy."""
    with needs_extra("html", "An HTML page"):
        import markupsafe

    script = read_packaged("render", "templates", "fleet.js").decode("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return page(
        "fleet.html",
        rows=rows,
        groups=group_rows(rows),
        verdict=choose_verdict(rows),
        golden=golden,
        data=_data(rows),
        script=markupsafe.Markup(script),  # noqa: S704 - our own file, no text of a host
        script_hash=f"sha256-{digest}",
    )


def _data(rows: list[HostRow]) -> dict[str, Any]:
    return {
        "columns": ["Host", "Verdict", "Cause", "Message", *LABELS, "Drift", "Fix"],
        "tones": _TONES,
        "rows": [_cells(row) for row in rows],
    }


def _cells(row: HostRow) -> list[str]:
    machine = dict(row.machine)
    cells = [row.host, row.verdict, row.cause, row.message, *(machine.get(label, "") for label in LABELS)]
    return [inert(cell) for cell in (*cells, "; ".join(row.drift), fix_of(row))]


_NAMED = 6  # hosts of a group that are named without -v


def print_fleet(rows: list[HostRow], golden: str = "", *, color: bool, verbose: bool, quiet: bool) -> None:
    """Print the groups to stdout; `verbose` names every host with its message, `quiet` leaves the verdict."""
    body = [] if quiet else list(_body(rows, golden, verbose=verbose))
    verdict = _verdict_line(rows)
    is_good = verdict[2] == COMPATIBLE
    lines = [*body, verdict] if is_good else [verdict, *([("", "", ""), *body[:-1], *_closing(rows)] if body else [])]
    print_lines(lines, color=color)


def _closing(rows: list[HostRow]) -> Iterator[Line]:
    """End with the command for the hosts of the first group, where one fixes them all."""
    group = group_rows(rows)[0]
    actions = group.fixes[0][0].actions if len(group.fixes) == 1 else ()
    if actions and not isinstance(actions[0], AskPerson):
        yield from (("", "", ""), ("", f"Type this first, on {inert(_shortened(group.hosts))}:", ""))
        yield command_line(actions[0], group.fixes[0][1])


def _verdict_line(rows: list[HostRow]) -> Line:
    counted = [
        f"{sum(row.verdict == verdict for row in rows)} {verdict}"
        for verdict in (COMPATIBLE, INCOMPATIBLE, UNDETERMINED)
    ]
    verdict = choose_verdict(rows)
    hosts = "1 host" if len(rows) == 1 else f"{len(rows)} hosts"
    return (f"{verdict.upper()}  ", f"{hosts}: {', '.join(counted)}.", verdict)


def _body(rows: list[HostRow], golden: str, *, verbose: bool) -> Iterator[Line]:
    for group in group_rows(rows):
        count = f"{len(group.hosts)} host{'' if len(group.hosts) == 1 else 's'}"
        said = f"{inert(group.cause) or 'works'}: {count}"
        yield (f"{group.verdict.upper()}  ", said, group.verdict)
        if verbose:
            members = (row for row in rows if (row.verdict, row.cause) == (group.verdict, group.cause))
            yield from _each(members)
        else:
            yield from _messages(group)
            yield from _fix(group)
        yield ("", "", "")
    yield from _drift([row for row in rows if row.drift], golden, verbose=verbose)


def _messages(group: Group) -> Iterator[Line]:
    """Show what hosts say, each message with its own hosts."""
    for message, hosts in group.messages[:_NAMED]:
        yield ("  ", inert(message), "")
        yield ("  ", inert(_shortened(hosts)), "")
    if len(group.messages) > _NAMED:
        yield ("  ", f"and {len(group.messages) - _NAMED} more messages: -v shows that of each host", "dim")


def _each(rows: Iterable[HostRow]) -> Iterator[Line]:
    """Show each host's message; a fix that several hosts in a row share is shown once."""
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
        yield ("  ", "This does not fix all of them: -v shows the fix of each host.", "dim")


def _drift(rows: list[HostRow], golden: str, *, verbose: bool) -> Iterator[Line]:
    if not rows:
        return
    count = "1 host differs" if len(rows) == 1 else f"{len(rows)} hosts differ"
    yield ("", f"{count} from {'the golden host' if golden else 'most hosts of the same kind'}:", "")
    for row in rows if verbose else rows[:_NAMED]:
        yield from (("  ", f"{inert(row.host)}: {inert(item)}", "") for item in row.drift)
    if len(rows) > _NAMED and not verbose:
        yield ("  ", f"and {len(rows) - _NAMED} more: -v shows them", "")
    yield ("", "", "")


def _shortened(hosts: tuple[str, ...]) -> str:
    more = f" and {len(hosts) - _NAMED} more" if len(hosts) > _NAMED else ""
    return ", ".join(hosts[:_NAMED]) + more

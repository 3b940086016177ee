"""Render the explanation of a log as text and JSON."""

from __future__ import annotations

import sys
from typing import Any

from envcheck.explain.judge import (
    NOISE,
    Reading,
    find_decisive_event,
    find_main_finding,
    format_place,
    list_harmless_events,
)
from envcheck.explain.signatures import Event
from envcheck.model import NOTE, UNDETERMINED, Finding, inert, replace
from envcheck.render.documents import Line, document_text, encode_findings, join_lines, print_lines, schema_keys
from envcheck.render.text import command_line, finding_lines, numbered_steps, verdict_line, with_closing

_HARMLESS_SHOWN = 3
_SHOWN_OF_A_LINE = 110


def print_explanation(reading: Reading, *, color: bool, verbose: bool, quiet: bool) -> None:
    """Print the explanation to stdout; `quiet` leaves the verdict and its cause, `verbose` lists every known line."""
    print_lines(_explain(reading, verbose=verbose, quiet=quiet), color=color)


def render_explanation_text(reading: Reading) -> str:
    """Render the explanation as the text that a pipe gets."""
    return join_lines(_explain(reading, verbose=False, quiet=False))


def _explain(reading: Reading, *, verbose: bool, quiet: bool) -> list[Line]:
    matter = _matter(reading)
    lines = [verdict_line(reading.report), *([("", "", ""), *matter[:-1]] if matter else [])]
    lines += _findings(reading, verbose=verbose, quiet=quiet)
    if not quiet:
        lines += [*_harmless(reading, verbose=verbose), *_footer(reading)]
    return with_closing(lines, reading.report)


def print_cause(reading: Reading, *, color: bool) -> None:
    """Print the cause alone to stdout: the line, why, what to type."""
    print_lines([*_matter(reading), *_findings(reading, verbose=False, quiet=True)[1:], ("", "", "")], color=color)


def print_failure(reading: Reading, status: int, *, color: bool, verbose: bool, quiet: bool) -> None:
    """Print to stderr why a command failed; in one line if nothing in its output is known."""
    ended = f"the command ended with {status if status >= 0 else hex(status & 0xFFFFFFFF)}"
    if find_main_finding(reading.report) is None:
        advice = "" if quiet else " `envcheck doctor` judges this machine."
        lines: list[Line] = [("envcheck: ", f"{ended}; {_describe_output(reading)}.{advice}", "")]
    else:
        lines = [
            ("", "", ""),
            ("envcheck: ", f"{ended}.", "bold"),
            *_matter(reading),
            *_findings(reading, verbose=verbose, quiet=quiet)[1:],
            *([] if quiet else _harmless(reading, verbose=verbose)),
        ]
    print_lines(lines, color=color, stream=sys.stderr)


def _describe_output(reading: Reading) -> str:
    """Say what the output of a failed command holds, of which no cause is known."""
    if reading.scan.exception:
        return f"the program failed with this exception: {inert(reading.scan.exception)}; no cause is known"
    if not reading.scan.events:
        return "its output holds nothing known"
    if reading.report.verdict == UNDETERMINED:
        return "its output shows a failure; no cause is known"
    return "its output holds only harmless messages"


def _matter(reading: Reading) -> list[Line]:
    event = find_decisive_event(reading)
    if event is None:
        return []
    return [
        ("", f"The line that matters: {_place(event)}", "bold"),
        ("  > ", inert(event.text), ""),
        ("", "", ""),
    ]


def _place(event: Event) -> str:
    said = format_place(event) if event.file != "-" else f"line {event.line}"
    if event.worker:
        said += f", from {event.worker}"
    if event.count > 1:
        said += f", {event.count} times until line {event.last_line}"
    return inert(said)


def _findings(reading: Reading, *, verbose: bool, quiet: bool) -> list[Line]:
    main, matters = find_main_finding(reading.report), find_decisive_event(reading)
    shown = [item for item in reading.report.findings if item.id != NOISE and (verbose or item.caused_by is None)]
    rivals = [item for item in shown if main is not None and _is_rival(item)]
    if quiet:
        shown = [item for item in shown if item is main]
    lines: list[Line] = []
    fixable = [item for item in shown if item.fix and item not in rivals]
    steps = numbered_steps(reading.report) if len(fixable) > 1 else ()  # one fix needs no numbers
    for finding in shown:
        if finding not in rivals:
            short = finding is main and not verbose
            said = _without(finding, matters) if short else finding
            lines += finding_lines(said, reading.report.system, verbose=verbose, steps=steps)
        if finding is main:
            lines += _rivals(rivals, reading.report.system)
    return lines


def _is_rival(finding: Finding) -> bool:
    """Say whether a finding is another cause that fits the lines of the main one; not one about an unread fact."""
    return finding.verdict == UNDETERMINED and finding.id != "probe-failed"


def _rivals(findings: list[Finding], system: str) -> list[Line]:
    """Name the other causes in a line each, then once each command that distinguishes them."""
    lines: list[Line] = [("  or: ", inert(f"{item.id}: {item.message}"), "") for item in findings]
    told = list(dict.fromkeys(item.fix for item in findings if item.fix is not None))
    for fix in told:
        lines.append(("  to tell: ", inert(fix.summary), ""))
        lines += [command_line(action, system) for action in fix.actions]
    return lines


def _without(finding: Finding, event: Event | None) -> Finding:
    """Leave out the evidence that was shown already."""
    if event is None:
        return finding
    place = format_place(event)
    kept = tuple(item for item in finding.evidence if item.source is None or item.source.where != place)
    return replace(finding, evidence=kept)


def _harmless(reading: Reading, *, verbose: bool) -> list[Line]:
    kinds = list_harmless_events(reading)
    if not kinds:
        return []
    shown = kinds if verbose else kinds[:_HARMLESS_SHOWN]
    lines: list[Line] = [("", "", ""), ("", f"Harmless: {_counted(sum(item.count for item in kinds), 'line')}", "")]
    for event in shown:
        text = event.text if verbose else _cut(event.text)
        times = f"{event.count} x " if event.count > 1 else ""
        lines.append(("  ", inert(f"{times}{text}" + (f" ({_place(event)})" if verbose else "")), "dim"))
    if len(shown) < len(kinds):
        lines.append(("  ", f"and {_counted(len(kinds) - len(shown), 'further kind')}: -v lists them", "dim"))
    return lines


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_OF_A_LINE else text[: _SHOWN_OF_A_LINE - 4] + " ..."


def _footer(reading: Reading) -> list[Line]:
    scan = reading.scan
    judged = "judged with the machine's facts" if reading.with_machine else "judged by the log alone"
    read = f"Read {_counted(scan.lines, 'line')}, {_size(scan.bytes)}"
    read += f" of {_counted(len(reading.files), 'file')}" if len(reading.files) > 1 else ""
    lines: list[Line] = [("", "", ""), ("", f"{read}; {judged}.", "dim")]
    if not reading.with_machine:
        lines.append(("", "If this machine wrote it, --here adds the machine's facts.", "dim"))
    return lines + [("note: ", inert(note) + ".", NOTE) for note in reading.notes]


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size:,} bytes"


def render_explanation(reading: Reading) -> str:
    """Render the verdict on logs with the lines it rests on."""
    report, scan = reading.report, reading.scan
    matters = find_decisive_event(reading)
    return document_text(
        {
            **schema_keys("envcheck/explain/1"),
            "verdict": report.verdict,
            "headline": report.headline,
            "judged": "log and machine" if reading.with_machine else "log",
            "matters": None if matters is None else _message(matters),
            **encode_findings(report),
            "harmless": [_message(event) for event in list_harmless_events(reading)],
            "messages": [_message(event) for event in scan.events],
            "read": {
                "files": list(reading.files),
                "lines": scan.lines,
                "bytes": scan.bytes,
                "known": sum(event.count for event in scan.events),
                "unkept": scan.dropped_lines,
                "notes": list(reading.notes),
            },
        }
    )


def _message(event: Event) -> dict[str, Any]:
    return {
        "signature": event.signature,
        "file": event.file,
        "line": event.line,
        "last_line": event.last_line,
        "count": event.count,
        "worker": event.worker,
        "text": event.text,
        "captures": event.values,
    }

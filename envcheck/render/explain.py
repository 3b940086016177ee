"""Describe the explanation of a log, and encode it as JSON."""

from __future__ import annotations

from envcheck.explain.judge import (
    Reading,
)
from envcheck.explain.placements import PLACED, list_placements, list_reasons
from envcheck.explain.signatures import Event, signatures_by_name
from envcheck.model import NOTE, OTHER_CAUSE, UNDETERMINED, Finding, replace
from envcheck.render.document import Document, Line, Section, Shown, Way
from envcheck.render.json_contracts import (
    Json,
    document_text,
    encode_findings,
    pick_fields,
    schema_keys,
)
from envcheck.render.report import JointPlan, describe_steps, list_judged, list_rules, show_fix
from envcheck.rules.catalogue import UNREAD_FACTS, catalogue

_HARMLESS_SHOWN = 3
_SHOWN_OF_A_LINE = 110
_KINDS_SHOWN = 6
_STAY_ON_CPU = (
    "An operation stays on the CPU where the code asks for it (tf.device), or where it has no GPU"
    " code for its type: integers, strings, input and printing mostly have none."
)


def describe_explanation(
    reading: Reading, *, verbose: bool = False, quiet: bool = False
) -> Document:
    """Describe an explanation.

    `quiet` leaves the verdict and its cause, `verbose` lists every known line.
    """
    report, event = reading.report, reading.line
    matter = None
    if event:
        matter = Line(f"The line that matters: {_format_place(event)}", kind="bold")
    others = []
    if not quiet:
        others = [
            *_list_placements(reading),
            *_list_harmless(reading, verbose=verbose),
            _say_what_was_read(reading),
        ]
    return Document(
        "envcheck explain",
        report.verdict,
        report.headline,
        "" if report.verdict == OTHER_CAUSE else f"{report.verdict.upper()}  ",
        about=(Section((Line(event.text, "> "),), matter),) if event else (),
        findings=_show_findings(reading, verbose=verbose, quiet=quiet),
        sections=tuple(others),
        closing=JointPlan(report).closing,
        steps=describe_steps(report),
        rules=list_rules(list_judged(report)),
        goal=report.goal,
        is_verbose=verbose,
    )


def describe_cause(reading: Reading) -> Document:
    """Describe the cause alone: the line, why, what to type."""
    return replace(describe_explanation(reading, quiet=True), headline="", closing=None)


def describe_failure(
    reading: Reading, status: int, *, verbose: bool = False, quiet: bool = False
) -> Document:
    """Describe why a command failed; in one line if nothing in its output is known."""
    ended = f"the command ended with {status if status >= 0 else hex(status & 0xFFFFFFFF)}"
    found = describe_explanation(reading, verbose=verbose, quiet=quiet)
    if reading.cause is None:
        advice = "" if quiet else " `envcheck doctor` judges this machine."
        said = f"{ended}; {_describe_output(reading)}.{advice}"
        return Document(found.title, found.verdict, said, "envcheck: ", kind="bold")
    harmless = found.sections[:-1]  # what was read is no news: it was printed
    return replace(
        found,
        headline=f"{ended}.",
        label="envcheck: ",
        kind="bold",
        sections=harmless,
        closing=None,
    )


def _describe_output(reading: Reading) -> str:
    """Say what the output of a failed command holds, of which no cause is known."""
    ending = reading.scan.ending
    last = ending.raised.text if ending.raised else ending.failed
    if last:
        return f"the last error is: {last[:300]}; no cause is known"
    if not reading.scan.events:
        return "its output holds nothing known"
    if reading.report.verdict == UNDETERMINED:
        return "its output shows a failure; no cause is known"
    return "its output holds only harmless messages"


def _format_place(event: Event) -> str:
    said = event.place if event.file != "-" else f"line {event.line}"
    if event.worker:
        said += f", from {event.worker}"
    if event.count > 1:
        said += f", {event.count} times until line {event.last_line}"
    return said


def _show_findings(reading: Reading, *, verbose: bool, quiet: bool) -> tuple[Shown, ...]:
    report, main = reading.report, reading.cause
    found = [
        item
        for item in report.findings
        if catalogue()[item.id].layer != "none" and (verbose or item.caused_by is None)
    ]
    rivals = [item for item in found if main is not None and _is_rival(item)]
    if quiet:
        found = [item for item in found if item is main]
    fixable = [item for item in found if item.fix and item not in rivals]
    plan = JointPlan(report, is_numbered=len(fixable) > 1)  # one fix needs no numbers
    shown = []
    for item in found:
        one = replace(
            plan.show(item, is_brief=item.severity == NOTE and not verbose), is_said=item in rivals
        )
        if item is main:
            one = replace(
                one,
                here=(
                    *(one.fix if one.here is None else one.here),
                    *_describe_rivals(rivals, report.system),
                ),
            )
            if not (verbose):
                one = _without_decisive(one, reading.line)
        shown.append(one)
    return tuple(shown)


def _is_rival(finding: Finding) -> bool:
    """Say whether a finding is another cause that fits the lines of the main one.

    Not one about an unread fact.
    """
    return finding.verdict == UNDETERMINED and UNREAD_FACTS not in catalogue()[finding.id].parts


def _describe_rivals(findings: list[Finding], system: str) -> list[Way]:
    """Name the other causes in a line each, then once each command that distinguishes them."""
    ways = [Way("or", f"{item.id}: {item.message}") for item in findings]
    for fix in dict.fromkeys(item.fix for item in findings):
        if fix:
            commands = show_fix(fix, system)[0].commands
            untold = tuple(replace(command, purpose="") for command in commands)
            ways.append(Way("to tell", fix.summary, untold))
    return ways


def _without_decisive(finding: Shown, event: Event | None) -> Shown:
    """Leave out the evidence that was shown already."""
    place = event.place if event else None
    kept = [item for item in finding.evidence if item.source is None or item.source.where != place]
    return replace(finding, evidence=tuple(kept))


def _list_placements(reading: Reading) -> tuple[Section, ...]:
    """Show which device got which operations, and why some stay on the processor."""
    rows = list_placements(reading.scan.events)
    width = max((len(row.device) for row in rows), default=0)
    lines = []
    for row in rows:
        kinds = ", ".join(row.kinds[:_KINDS_SHOWN])
        more = len(row.kinds) - _KINDS_SHOWN
        others = f" and {_count(more, 'other kind')}" if more > 0 else ""
        lines.append(Line(f"{row.device:<{width}}  {row.count:>6,}  {kinds}{others}"))
    on_cpu = [row for row in rows if row.is_cpu]
    reasons = list_reasons(reading.scan.events)
    if on_cpu and reasons:
        lines += [Line(text, kind="dim") for text in reasons[:_KINDS_SHOWN]]
    elif on_cpu and len(on_cpu) < len(rows):
        lines.append(Line(_STAY_ON_CPU, kind="dim"))
    elif on_cpu:
        lines.append(Line("None ran on a GPU.", kind="dim"))
    return (Section(tuple(lines), Line("Operations by device:")),) if rows else ()


def _list_harmless(reading: Reading, *, verbose: bool) -> tuple[Section, ...]:
    kinds = [item for item in reading.harmless if item.signature != PLACED]
    lines = []
    for event in kinds if verbose else kinds[:_HARMLESS_SHOWN]:
        text = f"{event.text} ({_format_place(event)})" if verbose else _cut(event.text)
        lines.append(Line(f"{event.count} x {text}" if event.count > 1 else text, kind="dim"))
        if reading.cause is None:
            meaning = signatures_by_name()[event.signature].meaning
            if meaning and "{" not in meaning:
                lines.append(Line(f"  {meaning}", kind="dim"))
    if len(lines) < len(kinds):
        lines.append(
            Line(
                f"and {_count(len(kinds) - len(lines), 'further kind')}: -v lists them",
                kind="dim",
            )
        )
    title = Line(f"Harmless: {_count(sum(item.count for item in kinds), 'line')}")
    return (Section(tuple(lines), title),) if kinds else ()


def _cut(text: str) -> str:
    if len(text) <= _SHOWN_OF_A_LINE:
        return text
    return text[: _SHOWN_OF_A_LINE - 4] + " ..."


def _say_what_was_read(reading: Reading) -> Section:
    scan = reading.scan
    read = f"Read {_count(scan.lines, 'line')}, {_format_size(scan.bytes)}"
    if len(reading.files) > 1:
        read += f" of {_count(len(reading.files), 'file')}"
    judged = "judged by the log alone"
    if reading.with_machine:
        judged = "judged with the machine's facts"
    lines = [Line(f"{read}; {judged}.", kind="dim")]
    if not reading.with_machine:
        lines.append(Line("If this machine wrote it, --here adds the machine's facts.", kind="dim"))
    return Section((*lines, *(Line(f"{note}.", "note: ", NOTE) for note in reading.notes)))


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _format_size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size:,} bytes"


def render_explanation(reading: Reading) -> str:
    """Render the verdict on logs with the lines it rests on."""
    report, scan = reading.report, reading.scan
    matters = reading.line
    return document_text(
        {
            **schema_keys("envcheck/explain/1"),
            **pick_fields(report, "verdict", "headline"),
            "judged": "log and machine" if reading.with_machine else "log",
            "matters": None if matters is None else _encode_event(matters),
            **encode_findings(report),
            "harmless": [_encode_event(event) for event in reading.harmless],
            "messages": [_encode_event(event) for event in scan.events],
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


def _encode_event(event: Event) -> Json:
    return {
        **pick_fields(event, "signature", "file", "line", "last_line", "count", "worker", "text"),
        "captures": event.values,
    }

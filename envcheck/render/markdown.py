"""Render a report as Markdown and as GitHub annotations."""

from __future__ import annotations

import re

from envcheck.actions import action_line
from envcheck.diagnosis.overview import summarize_machine
from envcheck.model import ERROR, UNDETERMINED, WARNING, Action, Alternative, Finding, Remedy, Report, Snapshot, inert

_MARKS = re.compile(r"([\\`*_{}\[\]<>#|~!&@$])")  # & begins an entity, $ a formula
_PERSON = re.compile(r"@(?=\w)")  # calls for a person, escaped or not: a mark without width keeps it from that


def render_markdown(report: Report, snapshot: Snapshot | None) -> str:
    """Render a report; text from the machine is escaped, commands stand in fenced blocks."""
    lines = [f"## envcheck: {report.verdict}", "", escaped(report.headline), ""]
    if report.findings:
        lines += ["| | finding | what it means here |", "| --- | --- | --- |"]
        lines += [f"| {_kind(item)} | `{item.id}` | {escaped(item.message)} |" for item in report.findings]
        lines.append("")
    for finding in report.findings:
        if finding.caused_by is None:
            lines += _details(finding, report.system)
    if snapshot is not None:
        lines += ["<details><summary>This machine</summary>", "", "| | |", "| --- | --- |"]
        lines += [f"| {label} | {escaped(text)} |" for label, text in summarize_machine(snapshot.facts)]
        lines += ["", "</details>", ""]
    return "\n".join(lines)


def escaped(text: str) -> str:
    """Escape what Markdown or HTML would act on."""
    return _PERSON.sub("@\u200b", _MARKS.sub(r"\\\1", inert(text)))


def _kind(finding: Finding) -> str:
    kind = UNDETERMINED if finding.verdict == UNDETERMINED else finding.severity
    return f"**{kind}** (the cause)" if finding.is_the_cause else kind


def _details(finding: Finding, system: str) -> list[str]:
    if not finding.evidence and finding.fix is None:
        return []
    lines = [f"### {finding.id}", ""]
    for item in finding.evidence:
        where = f" ({item.source.where})" if item.source is not None and item.source.where else ""
        where += f" [{item.citation.url_or_artifact}]" if item.citation is not None else ""
        lines.append(f"- {escaped(f'{item.fact}: {item.shown}{where}')}")
    if finding.fix is not None:
        lines += ["", *_way(f"Fix: {finding.fix.summary}", finding.fix.actions, system)]
        for way in finding.fix.alternatives:
            lines += ["", *_way(f"Or: {way.summary}", way.actions, system)]
    return [*lines, ""]


def _way(said: str, actions: tuple[Action, ...], system: str) -> list[str]:
    typed = [action_line(action, system, folded=True) for action in actions]
    return [escaped(said), *(["", *fenced(typed, "sh")] if typed else [])]


def fenced(lines: list[str], language: str = "") -> list[str]:
    """Put lines into a fence longer than any run of backticks in them."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [fence + language, *lines, fence]


def render_github(report: Report, judged: str = "") -> str:
    """Render one annotation for each finding, then the verdict; `judged` is a file the findings are about."""
    lines = [_annotation(finding, judged, report.system) for finding in report.findings]
    return "\n".join([*lines, f"envcheck: {report.verdict}: {inert(report.headline)}"]) + "\n"


def _annotation(finding: Finding, judged: str, system: str) -> str:
    level = {ERROR: "error", WARNING: "warning"}.get(finding.severity, "notice")
    title = f"envcheck {finding.id}" + (" (the cause)" if finding.is_the_cause else "")
    title += " (undetermined)" if finding.verdict == UNDETERMINED else ""
    text = inert(finding.message)
    if finding.fix is not None:
        text += _annotated_way("Fix", finding.fix, system) + "".join(
            _annotated_way("Or", way, system) for way in finding.fix.alternatives
        )
    place = _place(finding, judged)
    return f"::{level} {place}title={_property(title)}::{_data(text)}"


def _annotated_way(word: str, way: Remedy | Alternative, system: str) -> str:
    typed = "".join(f"\n$ {action_line(action, system)}" for action in way.actions)
    return f"\n{word}: {inert(way.summary)}{typed}"


def _place(finding: Finding, judged: str) -> str:
    """Point at the line of the judged file, or of one it names, that the evidence was read in."""
    sources = [item.source.where for item in finding.evidence if item.source is not None and item.source.kind == "file"]
    for where in sources if judged else ():
        path, _, line = where.rpartition(":")
        if line.isdigit() and path and not path.startswith("/"):
            return f"file={_property(path)},line={line},"
    return f"file={_property(judged)}," if judged else ""


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")

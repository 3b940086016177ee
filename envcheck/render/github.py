"""Annotations of a GitHub Actions job: workflow commands on stdout."""

from __future__ import annotations

from envcheck.model.findings import ERROR, UNDETERMINED, WARNING, Finding, Fix, Report, Way
from envcheck.render.inert import inert, shell_line


def render_github(report: Report, judged: str = "") -> str:
    """Render one annotation for each finding, then the verdict; `judged` is a file the findings are about."""
    lines = [_annotation(finding, judged, report.system) for finding in report.findings]
    return "\n".join([*lines, f"envcheck: {report.verdict}: {inert(report.headline)}"]) + "\n"


def _annotation(finding: Finding, judged: str, system: str) -> str:
    level = {ERROR: "error", WARNING: "warning"}.get(finding.severity, "notice")
    title = f"envcheck {finding.id}" + (" (the cause)" if finding.primary else "")
    title += " (undetermined)" if finding.verdict == UNDETERMINED else ""
    text = inert(finding.message)
    if finding.fix is not None:
        text += _way("Fix", finding.fix, system) + "".join(_way("Or", way, system) for way in finding.fix.alternatives)
    place = _place(finding, judged)
    return f"::{level} {place}title={_property(title)}::{_data(text)}"


def _way(word: str, way: Fix | Way, system: str) -> str:
    typed = "".join(f"\n$ {shell_line(command.argv, system)}" for command in way.commands)
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

"""Render reports and smoke tests as JUnit XML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from xml.etree import ElementTree as ET  # only writes: nothing foreign is parsed

from envcheck.actions import action_line
from envcheck.model import ERROR, UNDETERMINED, Alternative, Finding, Remedy, Report, dataclass, inert, replace
from envcheck.rules.catalogue import catalogue
from envcheck.smoke.session import CRASHED, HUNG, PASSED, RAISED, SKIPPED, Result, Run, Session, headline_of

# Characters XML 1.0 cannot hold at all, escaped or not (https://www.w3.org/TR/xml/#charsets).
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Case:
    """One test case; `outcome` is passed, failure (it is wrong), error (undetermined) or skipped."""

    classname: str
    name: str
    outcome: str = "passed"
    message: str = ""
    details: str = ""
    seconds: float = 0.0


def render_report(report: Report) -> str:
    """Render a report: a case for each check that was decided or that found something."""
    layers = {entry.id: entry.layer for entry in catalogue().values()}
    found = {finding.id for finding in report.findings}
    quiet = [Case(f"envcheck.{layers.get(name, 'tool')}", name) for name in report.checked if name not in found]
    told = [_case(finding, layers.get(finding.id, "tool"), report.system) for finding in report.findings]
    return render_cases("envcheck", [*_named_apart(told), *quiet])


def _named_apart(cases: list[Case]) -> Iterator[Case]:
    """Give namesakes a number: readers take two of the same name for one test run twice."""
    seen: dict[str, int] = {}
    for case in cases:
        seen[case.name] = number = seen.get(case.name, 0) + 1
        yield case if number == 1 else replace(case, name=f"{case.name} ({number})")


def render_cases(suite: str, cases: Iterable[Case]) -> str:
    """Render one test suite as a JUnit document."""
    from xml.etree import ElementTree as ET

    listed = list(cases)
    attributes = {"name": suite, "tests": str(len(listed)), **_totals(listed)}
    root = ET.Element("testsuites", attributes)
    parent = ET.SubElement(root, "testsuite", attributes)
    for case in listed:
        place = {"classname": _clean(case.classname), "name": _clean(case.name), "time": f"{case.seconds:.3f}"}
        element = ET.SubElement(parent, "testcase", place)
        if case.outcome == "passed" and case.details:
            ET.SubElement(element, "system-out").text = _clean(case.details)
        elif case.outcome != "passed":
            outcome = ET.SubElement(element, case.outcome, {"message": _clean(case.message)})
            outcome.text = _clean(case.details)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode") + "\n"


def _totals(cases: list[Case]) -> dict[str, str]:
    counted = {kind: sum(case.outcome == kind for case in cases) for kind in ("failure", "error", "skipped")}
    seconds = sum(case.seconds for case in cases)
    return {
        "failures": str(counted["failure"]),
        "errors": str(counted["error"]),
        "skipped": str(counted["skipped"]),
        "time": f"{seconds:.3f}",
    }


def _case(finding: Finding, layer: str, system: str) -> Case:
    outcome = "passed"  # a warning or a note breaks nothing: it stands in the output of a passed case
    if finding.severity == ERROR:
        outcome = "error" if finding.verdict == UNDETERMINED else "failure"
    return Case(f"envcheck.{layer}", finding.id, outcome, finding.message, _details(finding, system))


def _details(finding: Finding, system: str) -> str:
    lines = [f"{finding.severity}: {finding.message}"]
    lines += [f"follows from {finding.caused_by}"] if finding.caused_by else []
    for item in finding.evidence:
        where = f" ({item.source.where})" if item.source is not None and item.source.where else ""
        lines.append(f"seen: {item.fact}: {item.shown}{where}")
    if finding.fix is not None:
        lines += _way("fix", finding.fix, system)
        lines += [line for way in finding.fix.alternatives for line in _way("or", way, system)]
    return "\n".join(inert(line) for line in lines)  # a line of its own could command the CI that prints it


def _way(word: str, way: Remedy | Alternative, system: str) -> list[str]:
    return [f"{word}: {way.summary}", *(f"  $ {action_line(action, system)}" for action in way.actions)]


def _clean(text: str) -> str:
    return "\n".join(inert(line) for line in _NOT_XML.sub("\ufffd", text).split("\n"))


def render_smoke_junit(session: Session) -> str:
    """Render a session; what was left out is a skipped case, and so is the whole test where nothing was run."""
    root = ET.Element("testsuites", name="envcheck smoke")
    for run in session.runs:
        _suite(root, run)
    skipped = [(item.label, item.why) for item in session.left_out]
    if not session.runs:
        skipped.append(("smoke", headline_of(session)))
    if skipped:
        suite = ET.SubElement(root, "testsuite", name="not tested", tests=str(len(skipped)), skipped=str(len(skipped)))
        for label, why in skipped:
            case = ET.SubElement(suite, "testcase", classname="not tested", name=inert(label))
            ET.SubElement(case, "skipped", message=inert(why))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode")


def _suite(root: ET.Element, run: Run) -> None:
    kinds = [_kind(result) for result in run.results]
    counts = {"failures": str(kinds.count("failure")), "errors": str(kinds.count("error"))}
    about = {"tests": str(len(kinds)), **counts, "skipped": str(kinds.count("skipped")), "time": f"{run.seconds:.3f}"}
    title, rename = inert(run.job.identity), run.job.device.rename_gpus
    suite = ET.SubElement(root, "testsuite", {"name": title, **about})
    for result, kind in zip(run.results, kinds, strict=True):
        name = inert(rename(f"{result.check} {result.device}".rstrip()))
        case = ET.SubElement(suite, "testcase", classname=title, name=name, time=f"{result.seconds:.3f}")
        if kind:
            said = inert(
                rename(f"{result.outcome}: {result.message}") + (f" [{result.finding}]" if result.finding else "")
            )
            ET.SubElement(case, kind, message=said).text = inert(result.error) or None


def _kind(result: Result) -> str:
    if result.outcome == PASSED:
        return ""
    if result.outcome == SKIPPED:
        return "skipped"
    return "error" if result.outcome in {RAISED, HUNG, CRASHED} else "failure"

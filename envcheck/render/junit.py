"""Write a document as JUnit XML: a case for each check that was decided or that found something."""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.etree import ElementTree as ET  # only writes: nothing foreign is parsed

from envcheck.model import (
    COMPATIBLE,
    ERROR,
    INCOMPATIBLE,
    OTHER_CAUSE,
    UNDETERMINED,
    inert,
    replace,
)
from envcheck.render.document import Check, Document, Shown, format_evidence

# Characters XML 1.0 cannot hold at all, escaped or not (https://www.w3.org/TR/xml/#charsets).
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_OUTCOMES = {
    COMPATIBLE: "passed",
    INCOMPATIBLE: "failure",
    OTHER_CAUSE: "failure",
    UNDETERMINED: "error",
}


def render_junit(document: Document) -> str:
    """Write a suite for each that the checks name; the verdict is a case where no other says it."""
    found = {finding.id for finding in document.all_findings}
    quiet = [
        Check("envcheck", f"envcheck.{rule.layer}", rule.id)
        for rule in document.rules
        if rule.id not in found
    ]
    checks = [*map(_check, document.all_findings), *document.checks, *quiet]
    is_said = document.verdict != INCOMPATIBLE or any(
        item.outcome in {"failure", "error"} for item in checks
    )
    if not checks or not is_said:
        outcome, headline = _OUTCOMES[document.verdict], document.headline
        checks.append(Check("envcheck", document.title, "verdict", outcome, headline, (headline,)))
    suites: dict[str, list[Check]] = {}
    for check in checks:
        suites.setdefault(check.suite, []).append(check)
    root = ET.Element("testsuites", {"name": document.title, **_count(checks)})
    for name, members in suites.items():
        suite = ET.SubElement(root, "testsuite", {"name": _clean(name), **_count(members)})
        for check in _name_apart(members):
            _add_case(suite, check)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _add_case(suite: ET.Element, check: Check) -> None:
    about = {
        "classname": _clean(check.classname),
        "name": _clean(check.name),
        "time": f"{check.seconds:.3f}",
    }
    case = ET.SubElement(suite, "testcase", about)
    # A line of its own could command the CI that prints it: each is made inert.
    details = "\n".join(map(_clean, check.details))
    if check.outcome != "passed":
        ET.SubElement(case, check.outcome, {"message": _clean(check.message)}).text = (
            details or None
        )
    elif details:
        ET.SubElement(case, "system-out").text = details


def _name_apart(checks: Iterable[Check]) -> Iterable[Check]:
    """Give namesakes a number: readers take two of the same name for one test run twice."""
    seen: dict[str, int] = {}
    for check in checks:
        seen[check.name] = number = seen.get(check.name, 0) + 1
        yield check if number == 1 else replace(check, name=f"{check.name} ({number})")


def _count(checks: list[Check]) -> dict[str, str]:
    outcomes = [check.outcome for check in checks]
    return {
        "tests": str(len(checks)),
        "failures": str(outcomes.count("failure")),
        "errors": str(outcomes.count("error")),
        "skipped": str(outcomes.count("skipped")),
        "time": f"{sum(check.seconds for check in checks):.3f}",
    }


def _check(finding: Shown) -> Check:
    # a warning or a note breaks nothing: it stands in the output of a passed case
    outcome = "passed"
    if finding.severity == ERROR:
        outcome = "error" if finding.verdict == UNDETERMINED else "failure"
    details = (f"{finding.severity}: {finding.message}", *_describe(finding))
    return Check(
        "envcheck", f"envcheck.{finding.layer}", finding.id, outcome, finding.message, details
    )


def _describe(finding: Shown) -> Iterable[str]:
    """Say what a finding follows from, what was seen and what to do."""
    if finding.follows:
        yield f"follows from {finding.follows}"
    for item in finding.evidence:
        yield f"seen: {format_evidence(item)}"
    for way in finding.fix:
        yield f"{way.label}: {way.summary}"
        for command in way.commands:
            yield f"  $ {command.line}"


def _clean(text: str) -> str:
    return inert(_NOT_XML.sub("\ufffd", text))

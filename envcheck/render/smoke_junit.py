"""A smoke test as JUnit XML: a suite for each run, a case for each check."""

from __future__ import annotations

from xml.etree import ElementTree as ET  # only writes: nothing foreign is parsed

from envcheck.render.inert import inert
from envcheck.smoke.devices import Run, Session
from envcheck.smoke.protocol import CRASHED, ERROR, HUNG, PASSED, SKIPPED, Result
from envcheck.smoke.verdict import headline_of


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
    suite = ET.SubElement(root, "testsuite", {"name": inert(run.job.title), **about})
    for result, kind in zip(run.results, kinds, strict=True):
        name = inert(f"{result.check} {result.device}".rstrip())
        case = ET.SubElement(suite, "testcase", classname=inert(run.job.title), name=name, time=f"{result.seconds:.3f}")
        if kind:
            said = inert(f"{result.outcome}: {result.message}" + (f" [{result.finding}]" if result.finding else ""))
            ET.SubElement(case, kind, message=said).text = inert(result.error) or None


def _kind(result: Result) -> str:
    if result.outcome == PASSED:
        return ""
    if result.outcome == SKIPPED:
        return "skipped"
    return "error" if result.outcome in {ERROR, HUNG, CRASHED} else "failure"

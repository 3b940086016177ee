"""SARIF 2.1.0 (https://docs.oasis-open.org/sarif/sarif/v2.1.0/), what code-scanning pages read."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any
from urllib.parse import quote

from envcheck import __version__
from envcheck.actions import action_line
from envcheck.model import UNDETERMINED, Action, Evidence, Finding, Report, inert
from envcheck.rules.catalogue import catalogue

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_NUMBERED = re.compile(r"[^\s,]+:\d+")  # a line of a file that was judged
_LEVELS = {"error": "error", "warning": "warning", "note": "note"}


def render_sarif(report: Report, judged: str = "") -> str:
    """Render a report as one run; `judged` is the file a finding is about where no evidence names one."""
    ids = list(dict.fromkeys([*(finding.id for finding in report.findings), *report.checked]))
    driver = {
        "name": "envcheck",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [_rule(name) for name in ids],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True}],
        "results": [_result(finding, ids.index(finding.id), judged, report.system) for finding in report.findings],
        "properties": {"verdict": report.verdict, "goal": report.goal, "headline": report.headline},
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1)


def _rule(finding_id: str) -> dict[str, Any]:
    entry = catalogue()[finding_id]
    return {
        "id": finding_id,
        "shortDescription": {"text": entry.headline},
        "fullDescription": {"text": entry.means[0].upper() + entry.means[1:]},
        "properties": {"layer": entry.layer},
    }


def _typed(actions: tuple[Action, ...], system: str) -> list[str]:
    return [action_line(action, system) for action in actions]


def _result(finding: Finding, index: int, judged: str, system: str) -> dict[str, Any]:
    text = inert(finding.message) + (f" Remedy: {inert(finding.fix.summary)}" if finding.fix else "")
    properties: dict[str, Any] = {"primary": finding.primary, "verdict": finding.verdict, "severity": finding.severity}
    if finding.caused_by:
        properties["causedBy"] = finding.caused_by
    if finding.fix and finding.fix.actions:
        properties["commands"] = _typed(finding.fix.actions, system)
    if finding.fix and finding.fix.alternatives:
        properties["alternatives"] = [
            {"text": inert(way.summary), "commands": _typed(way.actions, system)} for way in finding.fix.alternatives
        ]
    # A result that is not a failure must have the level "none" (section 3.27.10).
    kind = "open" if finding.verdict == UNDETERMINED else "fail"
    own = "\n".join([finding.id, *(item.shown for item in finding.evidence[:1])])
    result = {
        "ruleId": finding.id,
        "ruleIndex": index,
        "kind": kind,
        "level": _LEVELS[finding.severity] if kind == "fail" else "none",
        "message": {"text": text},
        "partialFingerprints": {"finding/v1": hashlib.sha256(own.encode(errors="replace")).hexdigest()[:32]},
        "properties": properties,
        **_places(finding, judged),
    }
    ignored = next((item.shown for item in finding.evidence if item.fact == "tool.envcheck.ignore"), "")
    return {**result, "suppressions": [{"kind": "external", "justification": inert(ignored)}]} if ignored else result


def _places(finding: Finding, judged: str) -> dict[str, Any]:
    """Put a result where a repository has it: a line of the judged file first; what a machine showed is related."""
    located = [_location(item) for item in finding.evidence if item.source is not None][:10]
    own = [item for item in located if "uriBaseId" in item.get("physicalLocation", {}).get("artifactLocation", {})]
    if not judged:
        return {"locations": located}
    related = [{"id": number, **item} for number, item in enumerate((one for one in located if one not in own[:1]), 1)]
    return {"locations": own[:1] or [{"physicalLocation": _file(judged)}], "relatedLocations": related}


def _location(item: Evidence) -> dict[str, Any]:
    location: dict[str, Any] = {
        "logicalLocations": [{"fullyQualifiedName": item.fact, "kind": "member"}],
        "message": {"text": inert(item.shown)},
    }
    where = item.source.where if item.source is not None and item.source.kind == "file" else ""
    if (where.startswith("/") and ", " not in where) or _NUMBERED.fullmatch(where):
        location["physicalLocation"] = _file(where)
    return location


def _file(path: str) -> dict[str, Any]:
    name, _, line = path.rpartition(":")
    numbered = name and line.isdigit() and int(line) > 0
    uri = quote(name if numbered else path, safe="/~")
    artifact = {"uri": f"file://{uri}"} if uri.startswith("/") else {"uri": uri, "uriBaseId": "%SRCROOT%"}
    place: dict[str, Any] = {"artifactLocation": artifact}
    if numbered:
        place["region"] = {"startLine": int(line)}
    return place

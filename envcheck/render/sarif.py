"""Write a document as SARIF 2.1.0, which code-scanning pages read.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/ defines it.
"""

from __future__ import annotations

import hashlib
import json
import re
from urllib.parse import quote

from envcheck import __version__
from envcheck.model import UNDETERMINED, Evidence, inert
from envcheck.render.document import Document, Rule, Shown, Way
from envcheck.render.json_contracts import Json

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_NUMBERED = re.compile(r"[^\s,]+:\d+")  # a line of a file that was judged


def render_sarif(document: Document) -> str:
    """Write a document as one run."""
    findings = document.all_findings
    rules = {rule.id: rule for rule in document.rules}
    ids = [*dict.fromkeys([*(finding.id for finding in findings), *rules])]
    driver = {
        "name": "envcheck",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [_encode_rule(rules[name]) for name in ids],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True}],
        "results": [
            _encode_result(finding, ids.index(finding.id), document.file) for finding in findings
        ],
        "properties": {
            "verdict": document.verdict,
            "goal": document.goal,
            "headline": document.headline,
        },
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1)


def _encode_rule(rule: Rule) -> Json:
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.headline},
        "fullDescription": {"text": rule.means[0].upper() + rule.means[1:]},
        "properties": {"layer": rule.layer},
    }


def _encode_result(finding: Shown, index: int, judged: str) -> Json:
    properties: Json = {
        "primary": finding.is_primary,
        "verdict": finding.verdict,
        "severity": finding.severity,
    }
    if finding.follows:
        properties["causedBy"] = finding.follows
    text = inert(finding.message)
    if finding.fix:
        fix, *others = finding.fix
        text += f" Remedy: {inert(fix.summary)}"
        properties |= {"commands": _list_commands(fix)} if fix.commands else {}
        ways = [{"text": inert(way.summary), "commands": _list_commands(way)} for way in others]
        properties |= {"alternatives": ways} if ways else {}
    # A result that is not a failure must have the level "none" (section 3.27.10).
    kind = "open" if finding.verdict == UNDETERMINED else "fail"
    own = "\n".join([finding.id, *(item.shown for item in finding.evidence[:1])])
    result = {
        "ruleId": finding.id,
        "ruleIndex": index,
        "kind": kind,
        "level": finding.severity if kind == "fail" else "none",
        "message": {"text": text},
        "partialFingerprints": {
            "finding/v1": hashlib.sha256(own.encode(errors="replace")).hexdigest()[:32]
        },
        "properties": properties,
        **_place_result(finding, judged),
    }
    if finding.excuse:
        result["suppressions"] = [{"kind": "external", "justification": inert(finding.excuse)}]
    return result


def _list_commands(way: Way) -> list[str]:
    return [command.line for command in way.commands]


def _place_result(finding: Shown, judged: str) -> Json:
    """Put a result where a repository has it.

    A line of the judged file first; what a machine showed is related.
    """
    located = [_encode_location(item) for item in finding.evidence if item.source is not None][:10]
    own = [
        item
        for item in located
        if "uriBaseId" in item.get("physicalLocation", {}).get("artifactLocation", {})
    ]
    if not judged:
        return {"locations": located}
    related = [
        {"id": number, **item}
        for number, item in enumerate((one for one in located if one not in own[:1]), 1)
    ]
    return {
        "locations": own[:1] or [{"physicalLocation": _encode_file(judged)}],
        "relatedLocations": related,
    }


def _encode_location(item: Evidence) -> Json:
    location: Json = {
        "logicalLocations": [{"fullyQualifiedName": item.fact, "kind": "member"}],
        "message": {"text": inert(item.shown)},
    }
    where = ""
    if item.source is not None and item.source.kind == "file":
        where = item.source.where
    if (where.startswith("/") and ", " not in where) or _NUMBERED.fullmatch(where):
        location["physicalLocation"] = _encode_file(where)
    return location


def _encode_file(path: str) -> Json:
    name, _, line = path.rpartition(":")
    numbered = name and line.isdigit() and int(line) > 0
    uri = quote(name if numbered else path, safe="/~")
    if uri.startswith("/"):
        artifact = {"uri": f"file://{uri}"}
    else:
        artifact = {"uri": uri, "uriBaseId": "%SRCROOT%"}
    place: Json = {"artifactLocation": artifact}
    if numbered:
        place["region"] = {"startLine": int(line)}
    return place

"""Write a document for what watches nodes: Prometheus, node-problem-detector, NHC, log collectors.

A watcher takes the state and one sentence. JSON lines alone hold the fixes.
"""

from __future__ import annotations

import calendar
import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from envcheck.model import COMPATIBLE, INCOMPATIBLE, UNDETERMINED, inert
from envcheck.render.document import BROKEN, UNREAD, Document, Shown

_DATE = "%Y-%m-%dT%H:%M:%SZ"
# max_output_length of a custom plugin of node-problem-detector, unless its configuration raises it
_NPD_BYTES = 80
# NHC hands the message to `eval`, Slurm's recipes to a shell: nothing in it may act there.
_OF_SHELLS = re.compile(r"""['"`$<>;&|\\]""")

Sample = tuple[dict[str, str], float]


def render_prometheus(document: Document) -> str:
    """Write gauges in the text format of Prometheus that is valid OpenMetrics too."""
    verdicts = dict.fromkeys((COMPATIBLE, INCOMPATIBLE, UNDETERMINED, document.verdict))
    found = Counter(
        (item.id, item.kind, str(item.is_primary).lower()) for item in document.all_findings
    )
    names = ("id", "kind", "primary")
    metrics: dict[str, tuple[str, list[Sample]]] = {
        "verdict": (
            "1 for the verdict, 0 for the others.",
            [({"verdict": name}, name == document.verdict) for name in verdicts],
        ),
        "findings": (
            "What was found, by id and kind: error, warning, note or undetermined.",
            [(dict(zip(names, key, strict=True)), count) for key, count in found.items()],
        ),
        "checks": ("Checks that were made.", [({}, len(document.rules))]),
        "read_timestamp_seconds": ("When the machine was read.", _date(document)),
    }
    lines = []
    for name, (about, samples) in metrics.items():
        if samples:
            lines += [f"# HELP envcheck_{name} {about}", f"# TYPE envcheck_{name} gauge"]
            lines += [f"envcheck_{name}{_label(labels)} {int(value)}" for labels, value in samples]
    return "\n".join([*lines, "# EOF"]) + "\n"


def _date(document: Document) -> list[Sample]:
    try:
        return [({}, calendar.timegm(time.strptime(document.date, _DATE)))]
    except ValueError:  # nothing was read, or a snapshot states no date
        return []


def _label(labels: dict[str, str]) -> str:
    pairs = ",".join(f"{name}={json.dumps(value)}" for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def render_npd(document: Document) -> str:
    """Write the line of a custom plugin of node-problem-detector, which cuts it at 80 bytes."""
    return _sentence(document).encode()[:_NPD_BYTES].decode("utf-8", "ignore") + "\n"


def render_nhc(document: Document) -> str:
    """Write the message that a check of LBNL NHC hands to `die`."""
    return _OF_SHELLS.sub("", _sentence(document)) + "\n"


def _sentence(document: Document) -> str:
    """Say what is wrong first: the cause, else the first error, else the verdict."""
    ranked: list[Shown] = sorted(
        document.all_findings,
        key=lambda item: (not item.is_primary, item.kind not in {BROKEN, UNREAD}),
    )
    if document.verdict == COMPATIBLE or not ranked:
        return inert(document.headline)
    return inert(f"{ranked[0].id}: {ranked[0].message}")


def render_jsonl(document: Document) -> str:
    """Write a JSON object on a line for the verdict, and one for each finding."""
    same = {"time": document.date, "source": document.title, "verdict": document.verdict}
    lines = [{**same, "event": "verdict", "message": document.headline}]
    lines += [{**same, **_event(item)} for item in document.all_findings]
    return "".join(json.dumps(line) + "\n" for line in lines)


def _event(item: Shown) -> dict[str, Any]:
    return {
        "event": "finding",
        "id": item.id,
        "kind": item.kind,
        "message": item.message,
        "primary": item.is_primary,
        "follows": item.follows,
        "fix": list(_ways(item)),
    }


def _ways(item: Shown) -> Iterator[dict[str, Any]]:
    for way in item.fix:
        commands = [command.line for command in way.commands if command.line]
        yield {"label": way.label, "summary": way.summary, "commands": commands}

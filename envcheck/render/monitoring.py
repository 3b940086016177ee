"""Write a document for what watches nodes: Prometheus, node-problem-detector, NHC, log collectors.

A watcher takes the state and one sentence. JSON lines alone hold the fixes.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from envcheck.model import COMPATIBLE, INCOMPATIBLE, UNDETERMINED, inert
from envcheck.render.document import BROKEN, UNREAD, Document, Shown

# max_output_length of a custom plugin of node-problem-detector, unless its configuration raises it
_NPD_BYTES = 80
# NHC hands the message to `eval`, Slurm's recipes to a shell: nothing in it may act there.
_OF_SHELLS = re.compile(r"""['"`$<>;&|\\]""")

_VERDICT = """# HELP envcheck_verdict 1 for the verdict, 0 for the others.
# TYPE envcheck_verdict gauge
"""
_FINDINGS = """# HELP envcheck_findings What was found: error, warning, note or undetermined.
# TYPE envcheck_findings gauge
"""


def render_prometheus(document: Document) -> str:
    """Write gauges in the text format of Prometheus that is valid OpenMetrics too."""
    text = _VERDICT
    for verdict in dict.fromkeys((COMPATIBLE, INCOMPATIBLE, UNDETERMINED, document.verdict)):
        text += f'envcheck_verdict{{verdict="{verdict}"}} {int(verdict == document.verdict)}\n'
    found = Counter((item.id, item.kind) for item in document.all_findings)
    text += _FINDINGS if found else ""
    for (name, kind), count in found.items():
        text += f'envcheck_findings{{id="{name}",kind="{kind}"}} {count}\n'
    return text + "# EOF\n"


def render_npd(document: Document) -> str:
    """Write the line of a custom plugin of node-problem-detector, which cuts it at 80 bytes."""
    return _sentence(document).encode()[:_NPD_BYTES].decode("utf-8", "ignore") + "\n"


def render_nhc(document: Document) -> str:
    """Write the message that a check of LBNL NHC hands to `die`."""
    return _OF_SHELLS.sub("", _sentence(document).replace(";", ",")) + "\n"


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

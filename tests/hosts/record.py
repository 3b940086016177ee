"""Record this machine as a test case: python -m tests.hosts.record OUT_DIR NAME --from TEXT [--python PATH] …

Runs every probe, keeps what they were answered, takes names of users, machines and private hosts out, checks that
the recording replays to the same verdict, and writes OUT_DIR/NAME/host.json with the findings as "expected": look
them over before you keep them. Run it with a small environment (env -i PATH=… HOME=…).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from envcheck.host.local import LocalHost
from envcheck.matrix.load import load_matrix
from envcheck.model import Facts, Report
from envcheck.probes.collection import collect
from envcheck.probes.environment_choice import PythonSelection
from envcheck.rules import Context, Target, evaluate
from tests.hosts.recorded_host import RecordedHost, collect_recording
from tests.hosts.recording_host import RecordingHost
from tests.hosts.scrub import Scrubber

LIMIT = 300_000  # bytes of a recording


def main(arguments: Sequence[str] | None = None) -> None:
    """Record this machine into a file."""
    options = _parse(arguments)
    document = record(options)
    folder = Path(options.out, options.name)
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    if len(text) > LIMIT:
        sys.exit(f"{len(text)} bytes are too many for a recording (at most {LIMIT})")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "host.json").write_text(text, encoding="utf-8")
    print(f"{folder / 'host.json'}: {len(text)} bytes, {document['expected']}")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.hosts.record", description=__doc__)
    parser.add_argument("out", help="folder of recordings, tests/hosts")
    parser.add_argument("name", help="name of this recording")
    parser.add_argument(
        "--from", dest="source", required=True, help="what machine this is, in words"
    )
    parser.add_argument("--origin", choices=["recorded", "composed"], default="recorded")
    parser.add_argument("--python", default=sys.executable, help="interpreter to inspect")
    parser.add_argument("--expect", choices=["auto", "gpu", "cpu"], default="auto")
    parser.add_argument(
        "--for", dest="requirements", action="append", default=[], help="requirement to judge"
    )
    parser.add_argument(
        "--replace",
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="text to replace throughout",
    )
    return parser.parse_args(arguments)


def record(options: argparse.Namespace) -> dict[str, Any]:
    """Return the document of this machine's recording."""
    host = RecordingHost(LocalHost())
    live = collect(host, PythonSelection(python=options.python)).facts
    scrub = Scrubber.of(host.environment(), host.system_facts(), options.replace)
    recording = scrub.value(host.recording())
    selection = {"python": scrub.text(options.python)}
    replayed = collect_recording(
        RecordedHost(recording), PythonSelection(python=selection["python"])
    ).facts
    report = _judge(replayed, options)
    if _ids(report) != _ids(_judge(live, options)):
        sys.exit("the recording does not replay to the findings of the machine")
    return {
        "origin": options.origin,
        "from": options.source,
        "target": {"expect": options.expect, "for": options.requirements},
        "selection": selection,
        "expected": _expected(report),
        "host": recording,
    }


def _judge(facts: Facts, options: argparse.Namespace) -> Report:
    return evaluate(
        Context(facts, load_matrix(), Target(options.expect, tuple(options.requirements)))
    )


def _ids(report: Report) -> list[tuple[str, str]]:
    return [(finding.id, finding.verdict) for finding in report.findings]


def _expected(report: Report) -> dict[str, Any]:
    primary = next((finding.id for finding in report.findings if finding.primary), None)
    return {
        "verdict": report.verdict,
        "primary": primary,
        "findings": [finding.id for finding in report.findings],
    }


if __name__ == "__main__":
    main()

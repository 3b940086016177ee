"""Write what is printed: `python -m tests.printed.write` renews the kept files; the commit says why a line changed."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from envcheck.cli.group import run
from envcheck.render.json_contracts import render_snapshot
from tests.cases.judged import FOLDER as CASES
from tests.cases.judged import read_cases
from tests.hosts.test_hosts import NAMES, recording, snapshot_of

FOLDER = Path(__file__).parent


def told(*arguments: str) -> dict[str, Any]:
    """Run a command in this process and return the document that it prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        run([*arguments, "--format", "json"])
    document: dict[str, Any] = json.loads(printed.getvalue())
    return document


def command_lines(commands: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the command lines of a fix or an alternative, with what they are for."""
    for command in commands:
        purpose = f"  # {command['purpose']}" if command["purpose"] else ""
        yield f"    $ {shlex.join(command['argv'])}{purpose}"


def fix_lines(finding: dict[str, Any]) -> Iterator[str]:
    """Yield a finding's id, its fix and the other ways."""
    fix = finding.get("fix")
    yield f"  {finding['id']}: {fix['summary'] if fix else '-'}"
    if fix:
        yield from command_lines(fix["commands"])
        for way in fix["alternatives"]:
            yield f"   or: {way['summary']}"
            yield from command_lines(way["commands"])


def step_lines(plan: dict[str, Any] | None) -> Iterator[str]:
    """Yield the steps of a report's plan with their checks and undos."""
    for step in (plan or {}).get("steps", ()):
        yield f"  step: {step['purpose']}"
        for name, sign in (("argv", "$"), ("verify", "?"), ("undo", "-")):
            if step.get(name):
                yield f"    {sign} {shlex.join(step[name])}"


def doctor_lines() -> Iterator[str]:
    """Yield what the doctor prints for each recorded machine."""
    with tempfile.TemporaryDirectory() as folder:
        for name in NAMES:
            file, target = Path(folder, "snapshot.json"), recording(name).get("target", {})
            file.write_text(render_snapshot(snapshot_of(name)), encoding="utf-8")
            wanted = [word for text in target.get("for", ()) for word in ("--for", text)]
            options = ["--no-snapshot", "--expect", target.get("expect", "auto"), *wanted]
            document = told("doctor", "--snapshot", str(file), *options)
            yield f"{name}: {document['verdict']}"
            for finding in document["findings"]:
                yield from fix_lines(finding)
            yield from step_lines(document.get("plan"))


def explain_lines() -> Iterator[str]:
    """Yield what explain prints for each reported log."""
    with tempfile.TemporaryDirectory() as folder:
        for case in read_cases(CASES / "reported.jsonl"):
            file = Path(folder, "case.log")
            file.write_text(case["log"], encoding="utf-8")
            document = told("explain", str(file))
            yield f"{case['id']}: {document['verdict']}"
            for finding in document["findings"]:
                yield from fix_lines(finding)


FILES = {"doctor.txt": doctor_lines, "explain.txt": explain_lines}


if __name__ == "__main__":
    for file_name, lines in FILES.items():
        (FOLDER / file_name).write_text("\n".join(lines()) + "\n", encoding="utf-8")

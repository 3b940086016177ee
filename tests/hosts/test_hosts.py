"""Replay every machine recording: the doctor must name its cause, and a saved snapshot must say the same."""

from __future__ import annotations

import json
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import pytest

from envcheck.matrix.load import load_matrix
from envcheck.matrix.query import Matrix
from envcheck.model import SCHEMA_VERSION, Facts, Report, Snapshot
from envcheck.model.codec import decode, encode
from envcheck.probes.python import PythonSelection
from envcheck.rules import RULES, Context, Target, evaluate
from tests.hosts.recorded_host import RecordedHost, collect_recording

FOLDER = Path(__file__).parent
NAMES = sorted(path.parent.name for path in FOLDER.glob("*/host.json"))
ORIGINS = ("recorded", "reported", "composed")


@cache
def recording(name: str) -> dict[str, Any]:
    loaded = json.loads((FOLDER / name / "host.json").read_text(encoding="utf-8"))
    assert isinstance(loaded, dict)
    return loaded


@lru_cache(maxsize=1)
def matrix() -> Matrix:
    return load_matrix()


def snapshot_of(name: str) -> Snapshot:
    data = recording(name)
    if "facts" in data:
        return Snapshot(SCHEMA_VERSION, "0", name, "2026-01-01T00:00:00Z", decode(Facts, data["facts"]))
    host = RecordedHost(data["host"])
    return collect_recording(host, PythonSelection(**data.get("selection", {})))


@cache
def judged(name: str) -> Report:
    target = recording(name).get("target", {})
    return evaluate(
        Context(snapshot_of(name).facts, matrix(), Target(target.get("expect", "auto"), tuple(target.get("for", ()))))
    )


@pytest.mark.parametrize("name", NAMES)
def test_recording_says_where_it_comes_from(name: str) -> None:
    data = recording(name)
    assert data["origin"] in ORIGINS
    assert data["from"], "name the artifacts, samples or report it was made from"
    assert ("facts" in data) != ("host" in data)


@pytest.mark.parametrize("name", NAMES)
def test_doctor_names_the_cause(name: str) -> None:
    expected, report = recording(name)["expected"], judged(name)
    found = [finding.id for finding in report.findings]
    primary = [finding.id for finding in report.findings if finding.primary]
    told = "\n".join(f"{item.id} {item.verdict} {item.severity}: {item.message}" for item in report.findings)
    assert primary == ([expected["primary"]] if expected.get("primary") else []), told
    assert report.verdict == expected["verdict"], told
    assert set(expected.get("findings", ())) <= set(found), told
    assert not set(expected.get("not", ())) & set(found), told


@pytest.mark.parametrize("name", NAMES)
def test_saved_snapshot_gives_the_same_findings(name: str) -> None:
    snapshot = snapshot_of(name)
    again = decode(Snapshot, json.loads(json.dumps(encode(snapshot))))
    target = recording(name).get("target", {})
    context = Context(again.facts, matrix(), Target(target.get("expect", "auto"), tuple(target.get("for", ()))))
    assert evaluate(context) == judged(name)


def test_there_are_enough_recordings_of_each_origin() -> None:
    counts = {origin: sum(recording(name)["origin"] == origin for name in NAMES) for origin in ORIGINS}
    assert sum(counts.values()) >= 40, counts
    assert all(counts.values()), counts


@pytest.mark.parametrize("finding_id", sorted({item.id for item in RULES}))
def test_every_rule_is_triggered_by_a_recording(finding_id: str) -> None:
    triggered = {finding.id for name in NAMES for finding in judged(name).findings}
    assert finding_id in triggered, f"no recording triggers {finding_id}"

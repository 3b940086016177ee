"""Replay every machine recording: the doctor must name its cause, and a saved snapshot must say the same."""

from __future__ import annotations

import json
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import pytest

from envcheck.diagnosis import diagnose
from envcheck.matrix.load import load_matrix
from envcheck.matrix.query import Matrix
from envcheck.model import SCHEMA_VERSION, Facts, Report, Snapshot, decode, encode
from envcheck.probes.environment_choice import PythonSelection
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


@cache
def snapshot_of(name: str) -> Snapshot:
    data = recording(name)
    if "facts" in data:
        return Snapshot(
            SCHEMA_VERSION, "0", name, "2026-01-01T00:00:00Z", decode(Facts, data["facts"])
        )
    host = RecordedHost(data["host"])
    return collect_recording(host, PythonSelection(**data.get("selection", {})))


def context_of(name: str, facts: Facts | None = None) -> Context:
    """Return what a machine is judged by; with other facts where some are given."""
    target = recording(name).get("target", {})
    wanted = Target(target.get("expect", "auto"), tuple(target.get("for", ())))
    return Context(facts or snapshot_of(name).facts, matrix(), wanted)


@cache
def judged(name: str) -> Report:
    return evaluate(context_of(name))


@cache
def diagnosed(name: str) -> Report:
    return diagnose(context_of(name))


def test_every_recording_says_where_it_comes_from() -> None:
    recordings = {name: recording(name) for name in NAMES}
    assert [name for name, data in recordings.items() if data["origin"] not in ORIGINS] == []
    unnamed = [name for name, data in recordings.items() if not data["from"]]
    assert unnamed == [], "name the artifacts, samples or report it was made from"
    assert [
        name for name, data in recordings.items() if ("facts" in data) == ("host" in data)
    ] == []


@pytest.mark.parametrize("name", NAMES)
def test_doctor_names_the_cause(name: str) -> None:
    expected, report = recording(name)["expected"], judged(name)
    found = [finding.id for finding in report.findings]
    primary = [finding.id for finding in report.findings if finding.primary]
    told = "\n".join(
        f"{item.id} {item.verdict} {item.severity}: {item.message}" for item in report.findings
    )
    assert primary == ([expected["primary"]] if expected.get("primary") else []), told
    assert report.verdict == expected["verdict"], told
    assert set(expected.get("findings", ())) <= set(found), told
    assert not set(expected.get("not", ())) & set(found), told


def judged_again(name: str) -> Report:
    """Judge a recording after it was saved and read back."""
    again = decode(Snapshot, json.loads(json.dumps(encode(snapshot_of(name)))))
    return evaluate(context_of(name, again.facts))


def test_saved_snapshots_give_the_same_findings() -> None:
    assert [name for name in NAMES if judged_again(name) != judged(name)] == []


def test_there_are_enough_recordings_of_each_origin() -> None:
    counts = {
        origin: sum(recording(name)["origin"] == origin for name in NAMES) for origin in ORIGINS
    }
    assert sum(counts.values()) >= 40, counts
    assert all(counts.values()), counts


def test_every_rule_is_triggered_by_a_recording() -> None:
    triggered = {finding.id for name in NAMES for finding in judged(name).findings}
    # tests/test_require.py triggers what only a program demands
    triggered.add("gpu-memory-exhausted")
    assert {name for item in RULES for name in item.ids} - triggered == set(), (
        "no recording triggers these"
    )

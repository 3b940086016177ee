"""Damaged or hostile snapshot files: rejected with a sentence, printed harmlessly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.faults.doctor import doctor, envcheck

pytestmark = pytest.mark.needs("linux")


@pytest.fixture(scope="module")
def snapshot() -> dict[str, Any]:
    snapshot: dict[str, Any] = doctor().report["snapshot"]
    return snapshot


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"[]",
        b"\xff\xfe\xfd",
        b"[" * 100_000,
        b'{"schema": ' + b'{"a":' * 100_000,
        b'{"schema": "envcheck/snapshot/1", "schema_version": ' + b"9" * 5000 + b"}",
        b'{"schema": "envcheck/snapshot/999"}',
        b'{"schema": "envcheck/snapshot/1"}',
        b'{"schema": "\\ud800"}',
        b'{"schema": "envcheck/report/1", "snapshot": 3}',
    ],
    ids=[
        "empty",
        "null",
        "list",
        "binary",
        "deep",
        "deep-object",
        "huge",
        "newer",
        "bare",
        "surrogate",
        "no-snapshot",
    ],
)
@pytest.mark.parametrize("form", ["text", "json"])
def test_invalid_snapshots_are_rejected(tmp_path: Path, content: bytes, form: str) -> None:
    (tmp_path / "m.json").write_bytes(content)
    run = envcheck("doctor", "--format", form, "--snapshot", str(tmp_path / "m.json"))
    assert run.code == 2
    if form == "json":
        assert run.report["exit_code"] == 2
    else:
        assert (run.stdout, run.stderr.startswith("envcheck: ")) == ("", True)


@pytest.mark.parametrize("path", ["/nowhere/m.json", "/", "/dev/zero"])
def test_paths_without_a_snapshot_are_rejected(path: str) -> None:
    assert envcheck("doctor", "--snapshot", path).code == 2


def test_a_truncated_snapshot_is_rejected(tmp_path: Path, snapshot: dict[str, Any]) -> None:
    text = json.dumps(snapshot)
    for end in range(1, len(text), len(text) // 8):
        (tmp_path / "m.json").write_text(text[:end], encoding="utf-8")
        assert envcheck("doctor", "--snapshot", str(tmp_path / "m.json")).code == 2


def hostile(value: Any, name: str = "") -> Any:
    """Append control characters, a bidirectional mark and half a character to every text of a fact."""
    if isinstance(value, dict):
        return {key: hostile(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [hostile(item, name) for item in value]
    return (
        value + "\x1b]0;owned\x07\x9b31m\u202e\ud800"
        if isinstance(value, str) and name not in KEPT
        else value
    )


KEPT = ("unknown", "kind")


@pytest.mark.parametrize("form", ["text", "json"])
def test_control_characters_do_not_reach_the_terminal(
    tmp_path: Path, snapshot: dict[str, Any], form: str
) -> None:
    document = {**snapshot, "facts": hostile(snapshot["facts"])}
    (tmp_path / "m.json").write_text(json.dumps(document), encoding="utf-8")
    run = envcheck("doctor", "-v", "--format", form, "--snapshot", str(tmp_path / "m.json"))
    assert not set(run.stdout) & set("\x1b\x07\x9b\u202e") or form == "json"
    assert "\x1b" not in run.stdout
    if form == "json":
        assert run.report["verdict"]

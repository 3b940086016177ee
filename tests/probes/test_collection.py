"""Threads that share the probes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from envcheck.probes import collection
from envcheck.probes.environment_choice import PythonSelection
from tests.hosts.recorded_host import RecordedHost


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Start threads without waiting and switch between them often; return their errors."""
    errors: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", errors.append)
    monkeypatch.setattr(collection, "_PATIENCE", 0.0)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield errors
    sys.setswitchinterval(before)


def test_threads_share_the_probes_without_errors(impatient: list[Any]) -> None:
    def counts(*_: object) -> int:
        return sum(range(200))  # long enough to switch threads

    probes = {f"a{number}": counts for number in range(40)}
    for _ in range(200):
        assert set(collection._run_probes(probes, None, PythonSelection()).values()) == {19900}  # type: ignore[arg-type]
    assert impatient == []


def test_a_snapshot_does_not_name_its_host() -> None:
    host = RecordedHost({"files": {}, "system_facts": {"node": "annas-laptop.corp.example"}})
    assert "annas-laptop" not in repr(collection.collect(host))

"""Threads that share the probes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from envcheck.probes import collection
from envcheck.probes.python import PythonSelection


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Start a thread more as soon as one could wait, and let them take turns often; list the errors they end in."""
    failed: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    monkeypatch.setattr(collection, "_PATIENCE", 0.0)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield failed
    sys.setswitchinterval(before)


def test_a_probe_that_another_thread_took_ends_no_thread_in_an_error(impatient: list[Any]) -> None:
    def counts(*_: object) -> int:
        return sum(range(200))  # long enough for a turn of another

    probes = {f"a{number}": counts for number in range(40)}
    for _ in range(200):
        assert set(collection._run_probes(probes, None, PythonSelection()).values()) == {19900}  # type: ignore[arg-type]
    assert impatient == []

"""Threads that share the probes."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from envcheck import api
from envcheck.model import Facts, Snapshot, Unknown
from envcheck.probes import collection
from envcheck.probes.environment_choice import PythonSelection
from tests.hosts.recorded_host import RecordedHost
from tests.patience import FOREVER


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


def test_a_probe_that_still_works_is_waited_for_and_one_that_hangs_is_not() -> None:
    end = threading.Event()

    def works(*_: object) -> str:
        begun = time.monotonic()
        while time.monotonic() - begun < 2 * collection._SLICE:
            sum(range(1000))
        return "read"

    probes = {"python": works, "gpus": lambda *_: str(end.wait(FOREVER))}
    found = collection._run_probes(probes, None, PythonSelection(), collection._SLICE)  # type: ignore[arg-type]
    end.set()
    assert found["python"] == "read"
    assert found["gpus"].why == "timeout"


def test_a_named_python_that_took_too_long_is_not_called_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late = collection.make_unknown_section(
        "python", Unknown("timeout", "the python probe did not finish")
    )
    monkeypatch.setattr(
        collection, "collect_here", lambda *_, **__: Snapshot(1, "", "", "", Facts(python=late))
    )
    assert api.read_machine("/srv/env/bin/python", "").facts.python is late

"""The guard where no lock is handed down to it, as on Windows; run there for real under Wine."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from envcheck.host.file_changes import lock_file
from envcheck.install import guard
from envcheck.install.journal import Journal
from envcheck.install.places import place_of
from envcheck.install.replacement import begin, put_in_place, settle

pytestmark = pytest.mark.needs("posix")
IDENTITY = "20260101T000000-1"


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Journal:
    """Begin an installation of a new environment, and let it be killed."""
    place = place_of(tmp_path / "env")
    place.state.mkdir()
    begun = Journal(place, IDENTITY)
    begin(begun, ("demo",))
    put_in_place(begun)
    monkeypatch.setattr(guard, "os", SimpleNamespace(name="nt", path=os.path))
    monkeypatch.setattr(sys, "argv", ["-c", "module", str(place.folder), IDENTITY])
    monkeypatch.setattr(sys, "stdin", io.StringIO("idle\n"))
    return begun


def test_it_takes_the_lock_and_puts_back(journal: Journal) -> None:
    guard.main()
    assert journal.lines()[-1]["event"] == "restored"
    assert not journal.place.folder.exists()


def test_it_leaves_to_another_what_that_one_holds(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "_PATIENCE", 0.1)
    with lock_file(str(journal.place.lock), 1.0):
        guard.main()
    assert not journal.is_settled


def test_it_needs_no_lock_for_what_its_own_process_left(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("idle\nleft\n"))
    with lock_file(str(journal.place.lock), 1.0):
        guard.main()
    assert journal.is_settled


def test_it_waits_for_what_still_holds_a_file(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = [PermissionError(13, "in use"), PermissionError(13, "in use")]
    monkeypatch.setattr(guard, "_PAUSE", 0.0)

    def refused(*told: Any) -> str:
        if refusals:
            raise refusals.pop()
        return settle(*told)

    monkeypatch.setattr(guard, "settle", refused)
    guard.main()
    assert journal.is_settled
    assert not refusals

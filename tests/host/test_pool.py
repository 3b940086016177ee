"""Work on very many things: in order, on every core, and errors arrive."""

from __future__ import annotations

import os

import pytest

from envcheck.host.processor import in_processes


def test_few_things_are_done_here() -> None:
    assert set(in_processes(lambda _item: os.getpid(), range(20))) == {os.getpid()}


def test_many_things_are_done_in_order() -> None:
    assert list(in_processes(lambda item: item * 2, range(1000))) == list(range(0, 2000, 2))


@pytest.mark.needs("linux")
def test_many_things_are_done_in_other_processes_where_there_are_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    assert os.getpid() not in set(in_processes(lambda _item: os.getpid(), range(400)))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0})
    assert set(in_processes(lambda _item: os.getpid(), range(400))) == {os.getpid()}


@pytest.mark.needs("linux")
def test_an_error_there_is_an_error_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    with pytest.raises(ZeroDivisionError):
        list(in_processes(lambda item: 1 // (item - 350), range(400)))

"""Map many items: in order, on every core, with errors raised."""

from __future__ import annotations

import os

import pytest

from envcheck.host.process import map_in_processes


def test_few_items_are_processed_here() -> None:
    assert set(map_in_processes(lambda _item: os.getpid(), range(20))) == {os.getpid()}


def test_many_items_keep_their_order() -> None:
    assert list(map_in_processes(lambda item: item * 2, range(1000))) == list(range(0, 2000, 2))


@pytest.mark.needs("linux")
def test_many_items_are_processed_on_several_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    assert os.getpid() not in set(map_in_processes(lambda _item: os.getpid(), range(400)))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0})
    assert set(map_in_processes(lambda _item: os.getpid(), range(400))) == {os.getpid()}


@pytest.mark.needs("linux")
def test_a_worker_s_error_is_raised_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    with pytest.raises(ZeroDivisionError):
        list(map_in_processes(lambda item: 1 // (item - 350), range(400)))

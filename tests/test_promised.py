"""What docs/reference/stability.md promises is there: nothing that users rely on goes away by accident."""

from __future__ import annotations

import pytest

from tests.promised import list_present, read_promised

PRESENT, PROMISED = list_present(), read_promised()


@pytest.mark.parametrize("kind", sorted(PROMISED))
def test_nothing_that_was_promised_is_gone(kind: str) -> None:
    assert sorted(set(PROMISED[kind]) - set(PRESENT[kind])) == []


@pytest.mark.parametrize("kind", sorted(PRESENT))
def test_what_is_new_is_promised(kind: str) -> None:
    new = sorted(set(PRESENT[kind]) - set(PROMISED.get(kind, ())))
    assert new == [], "`python -m tests.promised` adds it"

"""Unwrap facts in tests."""

from __future__ import annotations

from typing import TypeVar

from envcheck.model import Fact, Known, Source, Unknown

T = TypeVar("T")


def known(fact: Fact[T]) -> T:
    """Return the value of a fact that must be known."""
    assert isinstance(fact, Known), fact
    return fact.value


def where(fact: Fact[T]) -> Source:
    """Return where a fact that must be known was read."""
    assert isinstance(fact, Known), fact
    return fact.source


def unknown(fact: Fact[T]) -> Unknown:
    """Return a fact that must be unknown."""
    assert isinstance(fact, Unknown), fact
    return fact

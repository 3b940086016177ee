"""Versions are compared by the numbers that are stated, and by no more."""

from __future__ import annotations

import pytest

from envcheck.model import (
    at_least,
    at_least_minor,
    is_older,
    major,
    major_minor,
    numbers,
    same_release,
)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("515.48.07", (515, 48, 7)),
        ("12.4.1-1+x", (12, 4, 1)),
        (" 390.x", (390,)),
        ("3.14t", (3, 14)),
        ("2.15.0rc1", (2, 15, 0)),
        ("v12", ()),
        ("", ()),
    ],
)
def test_leading_numbers(text: str, read: tuple[int, ...]) -> None:
    assert numbers(text) == read


def test_a_number_longer_than_any_is_cut_and_not_computed() -> None:
    assert numbers("9" * 100_000)[0] < 10**18


@pytest.mark.parametrize(
    ("version", "first", "line"),
    [("12.6.77", "12", "12.6"), ("12", "12", "12"), ("", "", ""), ("550.54", "550", "550.54")],
)
def test_first_parts(version: str, first: str, line: str) -> None:
    assert (major(version), major_minor(version)) == (first, line)


@pytest.mark.parametrize(
    ("version", "floor", "reached"),
    [
        ("525.60.13", "525.60.13", True),
        ("525.60.11", "525.60.13", False),
        ("535.54.03", "525.60.13", True),
        ("418.113", "418.39", True),
        ("410.48", "418.39", False),
        ("440.33", "440.33", True),
        ("525", "525.60.13", None),
        ("525.60", "525.60.13", None),
        ("390.x", "390.46", None),
        ("530", "525.60.13", True),
        ("470.x", "525.60.13", False),
        ("570.26.01", "570.26", True),
        ("unknown", "525.60.13", None),
    ],
)
def test_a_floor_is_reached_missed_or_undecided(
    version: str, floor: str, reached: bool | None
) -> None:
    assert at_least(version, floor) is reached


def test_major_and_minor_alone() -> None:
    assert at_least_minor("12", "12.0")
    assert at_least_minor("12.4.1", "12.4.99")
    assert not at_least_minor("12.0", "12.1")
    assert is_older("11.7", "11.8.0")
    assert not is_older("11", "11.8")
    assert not is_older("11.8.1", "11.8.9")
    assert not is_older("", "11.8")
    assert not is_older("11.8", "")


def test_spellings_of_one_release() -> None:
    assert same_release("515.48.7", "515.48.07")
    assert same_release("515", "515.48.07")
    assert not same_release("535.216.01", "535.261.03")

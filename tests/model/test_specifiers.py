"""Specifiers: the fast comparison agrees with packaging."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from envcheck.model.versions import can_be_met, clauses, within

ENDINGS = ("", "", "", "", ".post1", ".post0", "+cu118", "+cpu", "rc1", ".dev2", "a1")
OPERATORS = ("==", "!=", "<=", ">=", "<", ">", "~=", "===")


def composed_version(choose: random.Random) -> str:
    return ".".join(str(choose.choice((0, 0, 1, 2, 3, 10))) for _ in range(choose.randint(1, 4)))


def test_agrees_with_packaging_for_any_version_and_specifier() -> None:
    choose, admitted, compared = random.Random(6), 0, 0
    for _ in range(6000):
        ends = [
            choose.choice((".*", "+cu118", "", "", "", "", ".post1", "rc1"))
            for _ in range(choose.randint(0, 3))
        ]
        specifier = ", ".join(
            choose.choice(OPERATORS) + composed_version(choose) + end for end in ends
        )
        version, early = composed_version(choose) + choose.choice(ENDINGS), choose.random() < 0.5
        try:
            wanted = SpecifierSet(specifier).contains(Version(version), prereleases=early)
        except InvalidSpecifier:
            continue
        assert within(version, specifier, prereleases=early) is wanted, (version, specifier, early)
        compared, admitted = compared + 1, admitted + wanted
    assert compared > 3000
    assert admitted > 500


@pytest.mark.parametrize("specifier", [">=2.*", "~=2", "<2.0+cu118", "2.15", "=>2"])
def test_a_malformed_specifier_raises(specifier: str) -> None:
    with pytest.raises(InvalidSpecifier):
        within("2.15.0", specifier)


def test_a_malformed_version_raises() -> None:
    with pytest.raises(InvalidVersion):
        within("two", ">=1")


def test_clauses_come_apart() -> None:
    assert [*clauses(">=2.15, <3")] == [(">=", "2.15"), ("<", "3")]
    assert [*clauses("==2.7.1+cu118")] == [("==", "2.7.1+cu118")]
    assert [*clauses("")] == []


def test_plain_clauses_do_not_load_packagings_specifiers() -> None:
    code = (
        "import sys; from envcheck.model.versions import within; "
        "assert within('2.15.0.post1', '>=2.15,<3,!=2.16.*'); assert not within('2.16.0rc0', '', prereleases=False); "
        "assert 'packaging' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("specifier", "can"),
    [
        ("", True),
        (">=99", True),
        (">2.4,<2.5", True),
        ("~=2.4.0,!=2.4.1", True),
        (">=2.5,<=2.5", True),
        (">=2.5,!=2.5.0", True),
        ("==2.7.1+cu118,>2", True),
        (">=2.5,<2.4", False),
        ("==2.4,==2.5", False),
        ("==2.7.*,!=2.7.*", False),
        ("<0", False),
    ],
)
def test_clauses_that_no_version_can_meet(specifier: str, can: bool) -> None:
    assert can_be_met(specifier) is can

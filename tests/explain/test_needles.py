"""However the literals are looked for, the same hits come out."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envcheck.explain import scan as needles
from envcheck.explain.scan import Find, Hit, scan
from envcheck.explain.signatures import load_signatures
from tests.explain.messages import ALL, LINE, scanned

LITERALS = [b"abc", b"abcd", b"bc", b"x+", b"abc", b"so.11.0", b"so.11", b"7bc"]
BLOCK = b"--abcd\nx+\rabc lib.so.11.0\nlib.so.12.0\n\n7bc 8bc\nlib.so.12.0"


def plainly(literals: list[bytes], block: bytes) -> list[Hit]:
    """Look for every literal by itself: what all other ways must agree with."""
    hits = []
    for number, one in enumerate(literals):
        at = block.find(one)
        while at >= 0:
            hits.append((number, at))
            at = block.find(one, at + 1)
    return sorted(hits, key=lambda hit: (hit[1], hit[0]))


def hyperscan(literals: list[bytes]) -> Find:
    found = needles._build_hyperscan_finder(literals)
    assert found is not None, "the tests run with the extra `logs`"
    return found


def automaton(literals: list[bytes]) -> Find:
    found = needles._build_automaton_finder(literals)
    assert found is not None, "the tests run with the extra `test`"
    return found


WAYS: list[Callable[[list[bytes]], Find]] = [
    hyperscan, automaton, needles._build_line_cache_finder, needles.build_head_finder, needles.build_finder,
]  # fmt: skip
NAMES = ["hyperscan", "automaton", "kinds", "heads", "finder"]


@pytest.mark.parametrize("way", WAYS, ids=NAMES)
def test_every_way_finds_the_same(way: Callable[[list[bytes]], Find]) -> None:
    find = way(LITERALS)
    for _ in range(3):  # the second time the kinds of lines are known
        assert find(BLOCK) == plainly(LITERALS, BLOCK)
        assert find(b"nothing") == find(b"") == []


PARTS = st.lists(
    st.sampled_from([b"a", b"ab", b"bab", b"b\xff", b"\n", b"\r", b"1", b"2", b"b1", b" "]),
    max_size=60,
)


@pytest.mark.parametrize("way", WAYS, ids=NAMES)
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(PARTS, min_size=1, max_size=3))
def test_every_way_finds_the_same_in_any_bytes(
    way: Callable[[list[bytes]], Find], blocks: list[list[bytes]]
) -> None:
    literals = [b"ab", b"bab", b"b", b"b\xffa", b"b1", b"1ab", b"12", b"b" * 12]
    find = way(literals)
    for block in map(b"".join, blocks):
        assert find(block) == plainly(literals, block)


def test_a_log_of_real_fragments_is_read_alike_by_every_way() -> None:
    rng = random.Random(20261121)
    literals = sorted({part.encode() for item in load_signatures() for part in item.fragments})
    lines = [b"step %d loss 0.%d" % (number % 7, number) for number in range(300)]
    lines += [
        rng.choice(literals) + b" %d " % number + rng.choice(literals)[:-1] for number in range(300)
    ]
    rng.shuffle(lines)
    block = b"\n".join(lines)
    expected = plainly(literals, block)
    assert len(expected) > 300
    assert (
        hyperscan(literals)(block)
        == automaton(literals)(block)
        == needles._build_line_cache_finder(literals)(block)
        == needles.build_head_finder(literals)(block)
        == expected
    )


@pytest.mark.parametrize(
    "missing", [("hyperscan",), ("hyperscan", "ahocorasick")], ids=["automaton", "heads"]
)
def test_a_log_is_judged_alike_without_hyperscan(
    monkeypatch: pytest.MonkeyPatch, missing: tuple[str, ...]
) -> None:
    raw = (
        b"x" * 20_000
        + b"\n"
        + b"\n".join([LINE, b"[rank1]: Killed", LINE.replace(b"10.1", b"11.0"), LINE])
    )
    by_hyperscan = scanned(raw)
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    assert scan([("train.log", [raw])], ALL) == by_hyperscan
    assert len(by_hyperscan.events) == 3


def test_nothing_is_built_for_a_few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> Find:
        raise AssertionError("built")

    monkeypatch.setattr(needles, "_build_hyperscan_finder", fail)
    find = needles.build_finder(LITERALS)
    assert find(BLOCK) == plainly(LITERALS, BLOCK)
    with pytest.raises(AssertionError, match="built"):
        find(b"x" * needles._SIMPLE_SEARCH_BYTES)


def test_an_old_processor_is_spared_hyperscan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needles, "has_sse42", lambda: False)
    assert needles._build_hyperscan_finder(LITERALS) is None
    find = needles.build_finder(LITERALS)
    find(b"x" * needles._SIMPLE_SEARCH_BYTES)
    assert find(BLOCK) == plainly(LITERALS, BLOCK)


def test_the_kinds_of_lines_that_are_remembered_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(needles, "_CACHE_BYTES", 200)
    monkeypatch.setattr(needles, "_LONGEST_CACHED_LINE", 50)
    find = needles._build_line_cache_finder(LITERALS)
    block = b"\n".join(bytes([65 + number % 50]) * (number % 70) + b" abc" for number in range(400))
    assert find(block) == plainly(LITERALS, block)

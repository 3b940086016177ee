"""No line, however it is filled, makes a signature or a prefix take long."""

from __future__ import annotations

import re
import time

import pytest

from envcheck.explain.signatures import load_signatures
from envcheck.explain.text import clean_line, plain
from tests.explain.pathological import lines_for

LENGTH = 1000
LIMIT = 0.25  # seconds of processor time; what grows with the cube of the length takes several


def taken(work: object) -> float:
    start = time.process_time()
    work()  # type: ignore[operator]
    return time.process_time() - start


SIGNATURES = load_signatures()
PARTS = 8  # so that the work is shared by several processes


@pytest.mark.parametrize("part", range(PARTS))
def test_no_signature_takes_long_on_a_line_made_against_it(part: int) -> None:
    slow: dict[str, str] = {}
    for signature in SIGNATURES[part::PARTS]:
        pattern = re.compile(signature.pattern)
        for text in lines_for(signature.pattern, LENGTH):
            if taken(lambda pattern=pattern, text=text: list(pattern.finditer(text))) > LIMIT:
                slow[signature.name] = text[:80]
    assert slow == {}


@pytest.mark.parametrize(
    ("pattern", "length"),
    [
        (r"^\s*(?:x\S*)?\s*(?P<user>\S+)?\s+(?P<pid>\d+)\s+F", 500),
        (r"(?i)(?:msvcp140|vcruntime140)\w*(?:\.dll)?.*(?:missing|not found)", LENGTH),
    ],
)
def test_a_signature_that_takes_long_would_be_seen(pattern: str, length: int) -> None:
    lines = lines_for(pattern, length)
    assert any(taken(lambda text=text: list(re.finditer(pattern, text))) > LIMIT for text in lines)


def test_what_is_made_for_an_expression_matches_it() -> None:
    missed = [
        item.name for item in SIGNATURES if not any(re.search(item.pattern, x) for x in lines_for(item.pattern, 400))
    ]
    assert len(missed) <= len(SIGNATURES) // 100, missed


@pytest.mark.parametrize(
    "filling", [b" ", b"a", b"1", b"1.", b"[", b"(", b"> ", b"\x1b[", b"\x1b]0;", b"\x08", b"{", b"-", b"@", b":"]
)
def test_no_prefix_or_escape_takes_long(filling: bytes) -> None:
    for begin in (b"", b"a", b"[", b"(", b"user@host", b"2026-11-20 ", b"trainer-", b"E0000 ", b"\x1b]0;", b"Nov 20 "):
        raw = begin + (filling * 4096)[:4096]
        assert taken(lambda raw=raw: clean_line(plain(raw))) < LIMIT

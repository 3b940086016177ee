"""No line, however it is filled, makes a signature or a prefix take long."""

from __future__ import annotations

import re
import time

import pytest

from envcheck.explain.events import Signature
from envcheck.explain.lines import clean_line
from envcheck.explain.signatures import load_signatures
from envcheck.explain.terminal import plain

LENGTH = 700
LIMIT = 0.25  # seconds of processor time; what grows with the cube of the length takes several


def taken(work: object) -> float:
    start = time.process_time()
    work()  # type: ignore[operator]
    return time.process_time() - start


@pytest.mark.parametrize("filling", [" ", "a", "1.", "/"])
def test_no_signature_searches_a_filled_line_for_long(filling: str) -> None:
    slow: list[str] = []
    for signature in load_signatures():
        pattern = re.compile(signature.pattern)
        text = (filling * LENGTH)[: LENGTH // 2] + signature.fragments[0] + (filling * LENGTH)[: LENGTH // 2]
        if taken(lambda pattern=pattern, text=text: pattern.search(text)) > LIMIT:
            slow.append(signature.name)
    assert slow == []


def test_the_search_would_be_seen_to_take_long() -> None:
    hostile = Signature("hostile", ("F",), r"^\s*(?:x\S*)?\s*(?P<user>\S+)?\s+(?P<pid>\d+)\s+F", "", "error")
    assert taken(lambda: re.compile(hostile.pattern).search(" " * 900 + "F")) > LIMIT


@pytest.mark.parametrize(
    "filling", [b" ", b"a", b"1", b"1.", b"[", b"(", b"> ", b"\x1b[", b"\x1b]0;", b"\x08", b"{", b"-", b"@", b":"]
)
def test_no_prefix_or_escape_takes_long(filling: bytes) -> None:
    for begin in (b"", b"a", b"[", b"(", b"user@host", b"2026-11-20 ", b"trainer-", b"E0000 ", b"\x1b]0;", b"Nov 20 "):
        raw = begin + (filling * 4096)[:4096]
        assert taken(lambda raw=raw: clean_line(plain(raw))) < LIMIT

"""Colours, titles, progress bars and corrections do not hide a message."""

from __future__ import annotations

import pytest

from envcheck.explain.text import strip_markup
from tests.explain.messages import LINE, names, scanned

WANTED = "libcudart.so.10.1: cannot open shared object file"


@pytest.mark.parametrize(
    "raw",
    [
        b"\x1b[31mlibcudart.so.10.1\x1b[0m: cannot \x1b[1mopen\x1b[22m shared object file",
        b"\x1b[01m\x1b[Klibcudart.so.10.1:\x1b[m\x1b[K cannot open shared object file",  # gcc
        b"\x1b[38;5;196mlibcudart.so.10.1: cannot open shared\x1b[39m object file",
        b"\x1b[38:2::255:0:0mlibcudart.so.10.1: cannot open shared object file",
        b"\x1b]0;title\x07libcudart.so.10.1: cannot open\x1b[1C\x1b[0mshared object file",
        b"\x1b]8;;file:///x\x1b\\libcudart.so.10.1: cannot open shared object file\x1b]8;;\x1b\\",
        b"\x1b(Blibcudart.so.10.1: \x1b=cannot open shared object file\x1b",
        b"^[[31mlibcudart.so.10.1: cannot ^[[0mopen shared object file",
        rb"\u001b[31mlibcudart.so.10.1: cannot \u001b[39mopen shared object file",
        rb"\x1b[31mlibcudart.so.10.1: cannot \x1b[0mopen shared object file",
        rb"\033[1;31mlibcudart.so.10.1: cannot \033[0mopen shared object file",
        b"[1;31mlibcudart.so.10.1: cannot [0mopen shared object file",
        b"l\x08li\x08ib\x08bcudart.so.10.1: cannot open shared object file",
        b"_\x08libcudart.so.10.1: cannot open shared object file",
        b"libcudart.so.10.1:\xc2\xa0cannot open shared\xc2\xa0object file",
    ],
)
def test_what_a_terminal_would_do_is_undone(raw: bytes) -> None:
    assert WANTED.encode() in strip_markup(raw)
    assert names(scanned(raw).events) == ["cannot-open"]


def test_typographic_quotes_become_plain_ones() -> None:
    scan = scanned("version \u2018GLIBC_2.29\u2019 not found".encode())
    assert scan.events[0].values == {"version": "GLIBC_2.29"}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (
            b"'a' &gt;= &quot;b&quot; &amp;&amp; &#39;c&#39;&nbsp;&lt;d&gt;",
            b"'a' >= \"b\" && 'c' <d>",
        ),
        (b"&amp;gt; &amp;amp;quot; &#x27; &#034; &apos;", b"> \" ' \" '"),
        (b"a && b & c; &unknown; &#9999; d&", b"a && b & c; &unknown; &#9999; d&"),
    ],
)
def test_the_entities_of_a_web_page_become_what_they_mean(written: bytes, meant: bytes) -> None:
    assert strip_markup(written) == meant


def test_a_title_that_never_ends_hides_nothing() -> None:
    assert WANTED.encode() in strip_markup(b"\x1b]" + WANTED.encode())


def test_a_message_after_a_progress_bar_is_found_on_its_line() -> None:
    bar = b"\r".join(b"%3d%%|%s| 12/100" % (number, b"\xe2\x96\x88" * 10) for number in range(100))
    scan = scanned(b"start\n" + bar + b"\r" + LINE + b"\rafter it\nend\n")
    assert [(event.line, event.text) for event in scan.events] == [(2, LINE.decode())]
    assert scan.lines == 3


def test_a_message_after_backspaces_is_found_alone() -> None:
    scan = scanned(b" 12/100 [==>...]" + b"\x08" * 16 + LINE + b"\n")
    assert scan.events[0].text == LINE.decode()


def test_a_console_that_moves_the_cursor_to_each_line() -> None:
    scan = scanned(b"\x1b[1;1Hfirst\x1b[2;1H" + LINE + b"\x1b[3;1Hlast\x1b[K")
    assert scan.events[0].text == LINE.decode()


def test_text_in_brackets_stays() -> None:
    for text in (b"[model] [5m] list[0] [main]", b"took [10min]", b"x[0m]"):
        assert strip_markup(text) == text.replace(b"[0m", b"")

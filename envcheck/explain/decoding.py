"""Bring the bytes of a log to one encoding: UTF-8, or whatever 8-bit text stands in it, without zeros."""

from __future__ import annotations

import codecs
import contextlib
import re
from collections.abc import Iterator

_MARKS = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"), (b"\xef\xbb\xbf", "utf-8"))
_SAMPLE = 4096
# What Windows and its consoles write: Western, Eastern, Turkish, Cyrillic, Chinese, Japanese, Korean.
_LOCAL = ("cp1252", "cp850", "cp1250", "cp1254", "cp1251", "cp866", "gbk", "big5", "cp932", "cp949")
# Plain text inside UTF-16: a second program appended to what PowerShell had begun. In UTF-16 a run this long would
# be twenty rare characters in a row.
_EIGHT_BIT = rb"([\t\n\r\x20-\x7e]{40,})(?!\0)"


class Recoder:
    """Turn blocks of UTF-8, UTF-16 (with or without its mark), 8-bit text or a mixture into 8-bit text.

    Zeros, which a crash leaves in a log and UTF-16 puts between letters, are dropped.
    """

    def __init__(self) -> None:
        self._wide: codecs.IncrementalDecoder | None = None
        self._head: bytes | None = b""

    def feed(self, block: bytes) -> bytes:
        """Recode a block; what cannot be recoded yet is kept for the next one."""
        if self._head is not None:
            block = self._head + block
            if len(block) < 4:
                self._head = block
                return b""
            block = self._start(block)
        if self._wide is not None:
            return b"".join(_recoded(self._wide, block))
        return block.replace(b"\0", b"") if b"\0" in block else block

    def finish(self) -> bytes:
        """Return what was kept."""
        rest, self._head = self._head or b"", None
        return rest.replace(b"\0", b"")

    def _start(self, block: bytes) -> bytes:
        self._head = None
        for mark, name in _MARKS:
            if block.startswith(mark):
                self._wide = codecs.getincrementaldecoder(name)("replace") if name != "utf-8" else None
                return block[len(mark) :]
        name = _guess(block[:_SAMPLE])
        if name:
            self._wide = codecs.getincrementaldecoder(name)("replace")
        return block


def spellings(text: str) -> dict[bytes, str]:
    """Map the ways in which a text may stand in a log to their encodings; "" is the usual one, UTF-8."""
    found = {text.encode(): ""}
    if text.isascii():
        return found  # it is written alike in all of them
    for encoding in _LOCAL:
        with contextlib.suppress(UnicodeEncodeError):
            found.setdefault(text.encode(encoding), encoding)
    return found


def decoded(raw: bytes, encoding: str) -> str:
    """Decode a line of UTF-8, or of the encoding that something known was found in; 8-bit text else."""
    if encoding:
        return raw.decode(encoding, "replace")
    text = raw.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    if broken and broken >= sum(character > "\x7f" for character in text) - broken:
        return raw.decode("cp1252", "replace")  # an 8-bit encoding, not UTF-8 that was cut somewhere
    return text


def _recoded(wide: codecs.IncrementalDecoder, block: bytes) -> Iterator[bytes]:
    for number, part in enumerate(re.split(_EIGHT_BIT, block)):
        if number % 2:
            wide.reset()
            yield part
        else:
            yield wide.decode(part).encode("utf-8", "replace").replace(b"\0", b"")


def _guess(sample: bytes) -> str:
    """Name the UTF-16 that text of Western letters without a mark would be; "" for text that begins with 8 bits."""
    pairs = len(sample) // 2
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    if odd > pairs * 0.4 and even < pairs * 0.05 and not sample[1]:
        return "utf-16-le"
    return "utf-16-be" if even > pairs * 0.4 and odd < pairs * 0.05 and not sample[0] else ""

"""UTF-16 from PowerShell, appended files, zeros: one encoding comes out."""

from __future__ import annotations

import codecs

import pytest

from envcheck.explain.signatures import load_signatures
from envcheck.explain.text import Recoder
from tests.explain.messages import LINE, names, scanned

TEXT = "Fortschritt 50 % \u2013 \u2018größer\u2019\r\n" + LINE.decode() + "\r\nEnde\r\n"


def recoded(*blocks: bytes) -> bytes:
    recoder = Recoder()
    return b"".join(map(recoder.feed, blocks)) + recoder.finish()


@pytest.mark.parametrize(
    "raw",
    [
        codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le"),
        codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
        TEXT.encode("utf-16-le"),
        TEXT.encode("utf-16-be"),
        codecs.BOM_UTF8 + TEXT.encode(),
        TEXT.encode(),
    ],
    ids=["le-marked", "be-marked", "le", "be", "utf-8-marked", "utf-8"],
)
def test_one_encoding_comes_out_however_the_blocks_are_cut(raw: bytes) -> None:
    assert recoded(raw).decode() == TEXT
    for size in (4, 5, 7, 64):
        assert recoded(*(raw[at : at + size] for at in range(0, len(raw), size))).decode() == TEXT


def test_plain_text_appended_to_what_powershell_began() -> None:
    raw = (
        codecs.BOM_UTF16_LE
        + "begin\r\n".encode("utf-16-le")
        + LINE
        + b"\n"
        + "end\r\n".encode("utf-16-le")
    )
    assert recoded(raw) == b"begin\r\n" + LINE + b"\nend\r\n"


def test_utf16_appended_to_plain_text() -> None:
    raw = (
        b"begin\n"
        + codecs.BOM_UTF16_LE
        + LINE.decode().encode("utf-16-le")
        + "\r\n".encode("utf-16-le")
    )
    scan = scanned(raw)
    assert names(scan.events) == ["cannot-open"]
    assert scan.events[0].line == 2


def test_zeros_of_a_crash_do_not_hide_a_message() -> None:
    scan = scanned(b"a\n" + b"\0" * 5000 + LINE + b"\n" + b"\0" * 5000)
    assert names(scan.events) == ["cannot-open"]


def test_utf16_is_scanned_with_its_line_numbers() -> None:
    raw = codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le")
    scan = scanned(*(raw[at : at + 33] for at in range(0, len(raw), 33)))
    assert [(event.line, event.values["library"]) for event in scan.events] == [
        (2, "libcudart.so.10.1")
    ]
    assert scan.lines == 3


def test_nothing_and_a_single_byte() -> None:
    assert recoded() == b""
    assert recoded(b"x") == b"x"
    assert recoded(b"\0") == b""


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("libcudart.so.11.0: 无法打开共享对象文件: 没有那个文件或目录", "gbk"),
        ("libcudart.so.11.0: 无法打开共享对象文件: 没有那个文件或目录", "utf-16"),
        ("libcudart.so.11.0: 無法開啟共用目的檔", "big5"),
        ("libcudart.so.11.0: 共有オブジェクトファイルを開けません", "cp932"),
        ("libcudart.so.11.0: 공유 목적 파일을 열 수 없습니다", "cp949"),
        ("libcudart.so.11.0: невозможно открыть разделяемый объектный файл", "cp1251"),
        ("libcudart.so.11.0: невозможно открыть разделяемый объектный файл", "cp866"),
        ("libcudart.so.11.0: Ne peut ouvrir le fichier d'objet partagé", "latin-1"),
        ("libcudart.so.11.0: Ne peut ouvrir le fichier d'objet partagé", "cp850"),
        ("libcudart.so.11.0: sdílený objektový soubor", "cp1250"),
        ("libcudart.so.11.0: paylaşımlı nesne dosyası açılamıyor", "cp1254"),  # noqa: RUF001 - Turkish
        ("Größe: libcudart.so.11.0: cannot open shared object file", "cp1252"),
    ],
)
def test_a_message_in_another_language_and_its_encoding(text: str, encoding: str) -> None:
    scan = scanned(f"1\r\n{text}\r\n3".encode(encoding), signatures=load_signatures())
    found = [event for event in scan.events if event.signature.startswith("cannot-open")]
    assert [(event.text, event.line, event.values["library"]) for event in found] == [
        (text, 2, "libcudart.so.11.0")
    ]

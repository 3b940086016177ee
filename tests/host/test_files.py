"""Irregular files: nothing blocks, and every failure has a reason."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from envcheck.host.local import LocalHost
from envcheck.model import Absent, Fact, Known, Unknown
from tests.host.ordinary_user import as_ordinary_user
from tests.known import known, unknown

pytestmark = pytest.mark.needs("linux")
HOST = LocalHost()


def outcome(fact: Fact[Any]) -> str:
    return fact.why if isinstance(fact, Unknown) else type(fact).__name__


def test_text_is_read_with_its_first_line_as_excerpt(tmp_path: Path) -> None:
    path = tmp_path / "version"
    path.write_bytes(b"550.163.01\nmore \xff")
    fact = HOST.read_text(str(path))
    assert isinstance(fact, Known)
    assert (fact.value, fact.source.excerpt) == ("550.163.01\nmore \ufffd", "550.163.01")
    limited = HOST.read_bytes(str(path), limit=3)
    assert known(limited) == b"550"


def test_a_binary_file_has_no_excerpt(tmp_path: Path) -> None:
    (tmp_path / "lib.so").write_bytes(b"\x7fELF\x02\0\0")
    fact = HOST.read_bytes(str(tmp_path / "lib.so"))
    assert isinstance(fact, Known)
    assert fact.source.excerpt == ""


def test_empty_and_proc_files(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    empty, proc = HOST.read_text(str(tmp_path / "empty")), HOST.read_text("/proc/self/status")
    assert known(empty) == ""
    assert "Pid:" in known(proc)  # its size is zero by stat


def test_irregular_files_are_rejected_without_blocking(tmp_path: Path) -> None:
    os.mkfifo(str(tmp_path / "fifo"))
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "to_fifo").symlink_to("fifo")
    (tmp_path / "file").write_text("x", encoding="utf-8")
    names = (
        "fifo",
        "to_fifo",
        "loop",
        "dangling",
        "gone",
        "file/below",
        "a" * 300,
        "nul\0inside",
        ".",
    )
    outcomes = {name: outcome(HOST.read_text(f"{tmp_path}/{name}")) for name in names}
    assert outcomes == {
        "fifo": "failed",
        "to_fifo": "failed",
        "loop": "failed",
        "dangling": "Absent",
        "gone": "Absent",
        "file/below": "Absent",
        "a" * 300: "failed",
        "nul\0inside": "failed",
        ".": "failed",
    }
    assert outcome(HOST.read_text("/dev/zero")) == "failed"
    loop = HOST.read_text(f"{tmp_path}/loop")
    assert "symbolic links" in unknown(loop).detail


def test_a_file_with_a_read_error_is_unknown() -> None:
    fact = HOST.read_text("/proc/self/mem")  # opens, but its first page cannot be read
    assert outcome(fact) == "failed"


def test_unreadable_is_denied_not_absent(tmp_path: Path) -> None:
    secret, locked = tmp_path / "secret", tmp_path / "locked"
    secret.write_text("x", encoding="utf-8")
    (locked / "inner").mkdir(parents=True)
    secret.chmod(0)
    locked.chmod(0o600)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        if folder.stat().st_uid == os.getuid():
            folder.chmod(0o755)

    def ask() -> list[str]:
        host = LocalHost()
        inner = str(locked / "inner")
        return [
            outcome(host.read_text(str(secret))),
            outcome(host.read_text(inner + "/file")),
            outcome(host.list_folder(inner)),
            outcome(host.real_path(inner)),
            outcome(host.status(inner)),
        ]

    outcomes = as_ordinary_user(ask)
    locked.chmod(0o700)
    assert outcomes == ["denied"] * 5


def test_folders_links_and_status(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("x", encoding="utf-8")
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "loop").symlink_to("loop")
    assert known(HOST.list_folder(str(tmp_path))) == ("a", "b", "loop")
    assert outcome(HOST.list_folder(str(tmp_path / "b"))) == "Absent"
    real = HOST.real_path(str(tmp_path / "a"))
    assert isinstance(real, Known)
    assert (real.value, real.source.excerpt) == (str(tmp_path / "b"), f"-> {tmp_path / 'b'}")
    assert outcome(HOST.real_path(str(tmp_path / "loop"))) == "failed"
    assert outcome(HOST.real_path(str(tmp_path / "gone"))) == "Absent"


@pytest.mark.parametrize(
    ("path", "kind"), [("/dev/null", "char"), ("/", "folder"), ("/proc/self/status", "file")]
)
def test_status_names_the_kind(path: str, kind: str) -> None:
    fact = HOST.status(path)
    assert fact.value is not None
    assert (fact.value.kind, fact.value.readable) == (kind, True)


def test_status_of_a_fifo_and_a_socket(tmp_path: Path) -> None:
    import socket

    os.mkfifo(str(tmp_path / "fifo"))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "sock"))
        facts = [HOST.status(str(tmp_path / name)) for name in ("fifo", "sock")]
    assert [fact.value.kind for fact in facts if fact.value is not None] == ["fifo", "socket"]


def test_an_absent_file_names_its_path() -> None:
    assert HOST.read_text("/nowhere/x") == Absent(("/nowhere/x",))

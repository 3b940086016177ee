"""Files are written whole; an output that is a link, a device or a pipe stays what it is."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from envcheck.host.file_changes import write_atomically, write_output
from tests.patience import PATIENCE


def test_an_atomic_write_replaces_a_link_and_keeps_its_target(tmp_path: Path) -> None:
    kept, link = tmp_path / "kept", tmp_path / "host.json"
    kept.write_text("mine", encoding="utf-8")
    link.symlink_to(kept)
    write_atomically(link, "new\n")
    assert (kept.read_text(encoding="utf-8"), link.read_bytes(), link.is_symlink()) == (
        "mine",
        b"new\n",
        False,
    )


def test_an_output_link_stays_and_its_target_is_written(tmp_path: Path) -> None:
    named, link = tmp_path / "named", tmp_path / "latest"
    link.symlink_to(named)
    for text in ("one", "two"):
        write_output(link, text)
        assert (named.read_text(encoding="utf-8"), link.is_symlink()) == (text, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest", "named"]


@pytest.mark.needs("posix")
def test_a_pipe_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(
        [sys.executable, "-c", f"print(open({str(pipe)!r}).read())"], stdout=subprocess.PIPE
    ) as read:
        write_output(pipe, "through")
        assert read.communicate(timeout=PATIENCE)[0] == b"through\n"
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.needs("root")
def test_a_device_stays_a_device_for_root_too(tmp_path: Path) -> None:
    device = tmp_path / "null"
    os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    write_output(device, "discarded")
    assert stat.S_ISCHR(device.stat().st_mode)


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "inside").mkdir(parents=True)
    with pytest.raises(OSError, match="irectory"):
        write_output(folder, "text")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(tmp_path / "file", "\udc80")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_leftovers_of_a_killed_process_are_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threading.get_ident", lambda: 7)
    (tmp_path / f".file.{os.getpid()}.7").write_text("half", encoding="utf-8")
    write_atomically(tmp_path / "file", "whole")
    assert [(path.name, path.read_text(encoding="utf-8")) for path in tmp_path.iterdir()] == [
        ("file", "whole")
    ]

"""The file tree of a recorded machine behaves like a real one."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.hosts.recorded_host import FileTree

ENTRIES: dict[str, Any] = {
    "/usr/local/cuda": {"link": "cuda-12.4"},
    "/usr/local/cuda-12.4/version.json": '{"cuda": {}}',
    "/usr/lib/libcuda.so.1": {"link": "/usr/lib/libcuda.so.550.54.15"},
    "/usr/lib/libcuda.so.550.54.15": {"base64": base64.b64encode(b"\x7fELF").decode()},
    "/usr/lib/note": {"kind": "file", "text": "hello", "mode": "-rw-r--r--"},
    "/loop/a": {"link": "b"},
    "/loop/b": {"link": "a"},
    "/root": {"error": "denied"},
    "/mnt/broken": {"error": "Input/output error"},
    "/dev/nvidia0": {"kind": "char", "mode": "crw-rw----", "readable": False},
}
TREE = FileTree(ENTRIES, {"/etc": ["hosts", "os-release"], "/empty": []})


@pytest.mark.parametrize(
    ("path", "real"),
    [
        ("/usr/local/cuda/version.json", "/usr/local/cuda-12.4/version.json"),
        ("/usr/lib/libcuda.so.1", "/usr/lib/libcuda.so.550.54.15"),
        ("/usr/local/cuda/../../lib/./note", "/usr/lib/note"),
        ("//usr//lib/", "/usr/lib"),
        ("/..", "/"),
        ("/etc/hosts", None),  # listed as a name, its content is not recorded
    ],
)
def test_paths_resolve(path: str, real: str | None) -> None:
    if real is None:
        with pytest.raises(FileNotFoundError):
            TREE.resolve(path)
    else:
        assert TREE.resolve(path) == real


def test_a_loop_of_links_is_an_error() -> None:
    with pytest.raises(OSError, match="Too many levels"):
        TREE.resolve("/loop/a")


def test_contents() -> None:
    assert TREE.content("/usr/local/cuda/version.json") == b'{"cuda": {}}'
    assert TREE.content("/usr/lib/libcuda.so.1") == b"\x7fELF"
    assert TREE.content("/usr/lib/note") == b"hello"
    with pytest.raises(OSError, match="is a char, not a regular file"):
        TREE.content("/dev/nvidia0")
    with pytest.raises(OSError, match="is a folder"):
        TREE.content("/usr")


def test_denied_and_broken_paths_raise_as_do_paths_below() -> None:
    for path in ("/root", "/root/.config/pip/pip.conf"):
        with pytest.raises(PermissionError):
            TREE.entry(path)
    with pytest.raises(OSError, match="Input/output error"):
        TREE.content("/mnt/broken")


def test_folders_list_their_recorded_names() -> None:
    assert TREE.names("/") == ["dev", "empty", "etc", "loop", "mnt", "root", "usr"]
    assert TREE.names("/etc") == ["hosts", "os-release"]
    assert TREE.names("/empty") == []
    assert TREE.names("/usr/local/cuda") == ["version.json"]
    with pytest.raises(NotADirectoryError):
        TREE.names("/usr/lib/note")


def test_a_relative_entry_is_harmless() -> None:
    assert FileTree({"relative": "x"}, {}).names("/") == []

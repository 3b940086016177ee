"""Read ELF files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from envcheck.host.elf import expand_runpath, read_elf
from envcheck.host.local import LocalHost
from envcheck.model import Absent
from tests.known import known, unknown

SOURCE = "extern int other(void); int it(void) { return other(); }"


def build(folder: Path, name: str, *flags: str) -> Path:
    """Compile a small shared library."""
    (folder / "source.c").write_text(SOURCE, encoding="utf-8")
    output = folder / name
    command = ["gcc", "-shared", "-fPIC", "-o", str(output), str(folder / "source.c"), *flags]
    subprocess.run(command, check=True, capture_output=True)
    return output


@pytest.mark.needs("linux", "c-compiler")
@pytest.mark.parametrize(
    ("tags", "is_rpath"), [("--enable-new-dtags", False), ("--disable-new-dtags", True)]
)
def test_needed_names_and_runpath_of_a_real_library(
    tmp_path: Path, tags: str, is_rpath: bool
) -> None:
    (tmp_path / "lib").mkdir()
    other = build(tmp_path / "lib", "libother.so.1", "-Wl,-soname,libother.so.1")
    flags = (f"-Wl,--no-as-needed,{tags}", "-Wl,-rpath,$ORIGIN/../nvidia/lib:${ORIGIN}:/opt/x")
    path = build(tmp_path / "lib", "it.so", *flags, str(other))
    (tmp_path / "link.so").symlink_to(path)
    facts = known(read_elf(str(tmp_path / "link.so")))
    assert "libother.so.1" in facts.needed
    assert facts.runpath == (f"{tmp_path}/nvidia/lib", f"{tmp_path}/lib", "/opt/x")
    assert facts.is_rpath == is_rpath
    assert known(read_elf(str(other))).soname == "libother.so.1"
    assert facts.machine == os.uname().machine


@pytest.mark.needs("linux")
def test_version_symbols_of_the_c_library() -> None:
    loaded = Path("/proc/self/maps").read_text(encoding="utf-8").split()
    libc = next(path for path in loaded if "/libc.so.6" in path)
    facts = known(read_elf(libc))
    assert facts.soname == "libc.so.6"
    assert "GLIBC_2.17" in facts.versions_defined
    assert known(read_elf(os.path.realpath(sys.executable))).versions_needed != ()


@pytest.mark.needs("linux", "c-compiler")
def test_truncated_and_corrupt_files_are_unparsable(tmp_path: Path) -> None:
    whole = build(tmp_path, "whole.so").read_bytes()
    path = tmp_path / "bad.so"
    for content in (
        b"",
        b"\x7fELF",
        whole[:40],
        whole[:500],
        whole[: len(whole) // 2],
        b"text file\n" * 10,
    ):
        path.write_bytes(content)
        result = read_elf(str(path))
        assert unknown(result).why == "unparsable", content[:20]
    for start in range(0, 4096, 64):
        path.write_bytes(whole[:start] + b"\xff" * 64 + whole[start + 64 :])
        read_elf(str(path))  # known or unknown, but never an exception


@pytest.mark.needs("linux")
def test_irregular_files_are_rejected_and_missing_ones_absent(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert unknown(read_elf(str(tmp_path / "fifo"))).why == "failed"
    assert unknown(read_elf(str(tmp_path))).why == "failed"
    assert LocalHost().elf(str(tmp_path / "gone")) == Absent((str(tmp_path / "gone"),))


def test_duplicate_runpath_folders_are_removed() -> None:
    assert expand_runpath("/a:/b/../a::$LIB", "/x/y.so") == ("/a", "$LIB")

"""Facts of binaries: of a library built with gcc and nvcc (built/make.sh), and of broken and hostile ones."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest

from envcheck.matrix.refresh.binaries import (
    DLL,
    SHARED,
    find_library_names,
    find_newest_versions,
    read_binary,
)
from envcheck.matrix.refresh.gpu_code import BinaryError, parse_fatbins
from tests.matrix.deep.portable import portable

BUILT = Path(__file__).with_name("built")
SAMPLE = (BUILT / "sample.so").read_bytes()
FATBIN = (BUILT / "kernel.fatbin").read_bytes()
TARGETS = ["sm_75", "sm_86", "sm_90a", "sm_100f", "compute_86", "compute_90a", "lto_90"]


def read(tmp_path: Path, data: bytes) -> dict[str, object]:
    file = tmp_path / "member"
    file.write_bytes(data)
    return read_binary(file).to_json()


def refused(tmp_path: Path, data: bytes) -> str:
    with pytest.raises(BinaryError) as caught:
        read(tmp_path, data)
    return str(caught.value)


def test_a_library_of_gcc_and_nvcc(tmp_path: Path) -> None:
    assert read(tmp_path, SAMPLE) == {
        "format": "elf",
        "machine": "x86_64",
        "needed": ["libm.so.6", "libc.so.6"],
        "opens": ["libcuda.so.1", "libnvrtc.so.12.4.127"],
        "runpath": ["$ORIGIN/../nvidia/cudnn/lib", "$ORIGIN"],
        "gpu_code": {" ".join(TARGETS): 1},
        "symbols": {"GLIBC": "2.2.5"},
        "compilers": ["GCC: (Debian 12.2.0-14+deb12u1) 12.2.0"],
    }


@pytest.mark.needs("c-compiler", "linux")
def test_a_library_of_this_machines_gcc(tmp_path: Path) -> None:
    source, built = tmp_path / "own.c", tmp_path / "own.so"
    source.write_text(
        "#include <math.h>\ndouble own(double x) { return cos(x); }\n", encoding="utf-8"
    )
    command = [
        "gcc",
        "-shared",
        "-fPIC",
        "-o",
        str(built),
        str(source),
        "-lm",
        "-Wl,--disable-new-dtags,-rpath,/opt/x",
    ]
    subprocess.run(command, check=True)
    found = read_binary(built)
    assert "libm.so.6" in found.needed or found.needed == ("libc.so.6",)
    assert found.runpath == ("/opt/x",)
    assert any(name.startswith("GCC: ") for name in found.compilers)
    assert found.gpu_code == {}


# -- GPU code --


def test_machine_code_and_ptx_are_told_apart() -> None:
    assert parse_fatbins(FATBIN, 0, len(FATBIN)) == {" ".join(TARGETS): 1}


def test_containers_follow_each_other_with_zeros_between() -> None:
    data = FATBIN + bytes(24) + FATBIN + bytes(7)
    assert parse_fatbins(b"\xff" * 16 + data, 16, 16 + len(data)) == {" ".join(TARGETS): 2}
    assert parse_fatbins(b"", 0, 0) == {}


def test_an_unknown_kind_of_code_is_named() -> None:
    data = bytearray(FATBIN)
    struct.pack_into("<H", data, 16, 64)
    assert parse_fatbins(bytes(data), 0, len(data)) == {
        " ".join([*TARGETS[1:-1], "kind64_75", "lto_90"]): 1
    }


@pytest.mark.parametrize(
    ("offset", "form", "value", "said"),
    [
        (0, "<I", 7, "other data"),
        (6, "<H", 8, "more bytes than its section"),
        (8, "<Q", 1 << 60, "more bytes than its section"),
        (8, "<Q", 40, "is incomplete"),
        (20, "<I", 8, "more bytes than its container"),
        (24, "<Q", 1 << 62, "more bytes than its container"),
    ],
)
def test_a_broken_fat_binary(offset: int, form: str, value: int, said: str) -> None:
    data = bytearray(FATBIN)
    struct.pack_into(form, data, offset, value)
    with pytest.raises(BinaryError, match=said):
        parse_fatbins(bytes(data), 0, len(data))


def test_a_fat_binary_that_is_cut_off() -> None:
    for size in (5, 15):
        with pytest.raises(BinaryError, match="is incomplete"):
            parse_fatbins(FATBIN, 0, size)
    with pytest.raises(BinaryError, match="more bytes"):
        parse_fatbins(FATBIN, 0, len(FATBIN) - 8)


# -- ELF --


def changed(offset: int, form: str, value: int) -> bytes:
    data = bytearray(SAMPLE)
    struct.pack_into(form, data, offset, value)
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"#!/bin/sh\n", "neither an ELF nor a PE"),
        (b"", "neither an ELF nor a PE"),
        (SAMPLE[:40], "not a 64-bit little-endian ELF"),
        (changed(4, "<B", 1), "not a 64-bit little-endian ELF"),
        (changed(40, "<Q", 0), "no section table"),
        (changed(60, "<H", 0), "no section table"),
        (changed(60, "<H", 0xFEFF), "its section table (65279 sections)"),
        (changed(58, "<H", 8), "its section table"),
        (changed(62, "<H", 0xFFFF), "its section table"),
        (changed(40, "<Q", 1 << 62), "its section table"),
        (SAMPLE[:-100], "its section table"),
    ],
)
def test_hostile_headers(tmp_path: Path, data: bytes, said: str) -> None:
    assert said in refused(tmp_path, data)


def section(number: int) -> int:
    """Return where the header of a section starts in the sample."""
    return int(struct.unpack_from("<Q", SAMPLE, 40)[0]) + 64 * number


def numbered(name: bytes) -> int:
    """Return the number of the sample's section of this name."""
    count, names = struct.unpack_from("<HH", SAMPLE, 60)
    start = struct.unpack_from("<Q", SAMPLE, section(names) + 24)[0]
    for number in range(count):
        at = start + struct.unpack_from("<I", SAMPLE, section(number))[0]
        if SAMPLE[at : SAMPLE.index(b"\0", at)] == name:
            return number
    raise AssertionError(name)


@pytest.mark.parametrize("name", [b".nv_fatbin", b".rodata", b".comment"])
def test_a_section_beyond_the_end(tmp_path: Path, name: bytes) -> None:
    assert "beyond its end" in refused(
        tmp_path, changed(section(numbered(name)) + 32, "<Q", 1 << 50)
    )


def test_a_section_without_bytes_in_the_file(tmp_path: Path) -> None:
    # SHT_NOBITS, as in files of debug symbols
    data = changed(section(numbered(b".nv_fatbin")) + 4, "<I", 8)
    assert "gpu_code" not in read(tmp_path, data)


def test_more_than_any_real_library_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from envcheck.host import elf
    from envcheck.matrix.refresh import binaries

    for module, name, said in (
        (elf, "_TAGS", "dynamic section"),
        (elf, "_VERSIONS", "symbol versions"),
        (binaries, "_COMMENT", ".comment"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, 1 if name != "_VERSIONS" else 0)
            assert said in refused(tmp_path, SAMPLE)


def test_garbled_files_raise_no_other_error(tmp_path: Path) -> None:
    """Overwrite the file eight bytes at a time: each outcome is facts or a BinaryError."""
    places = [*range(0, 64, 4), *range(section(0), len(SAMPLE) - 8, 24), *range(64, 1500, 40)]
    garbled = (SAMPLE[:place] + b"\xff" * 8 + SAMPLE[place + 8 :] for place in places)
    assert {outcome(tmp_path, data) for data in garbled} == {"read", "refused"}


def outcome(tmp_path: Path, data: bytes) -> str:
    try:
        read(tmp_path, data)
    except BinaryError:
        return "refused"
    return "read"


def test_newest_versions_of_symbols() -> None:
    names = [
        "GLIBC_2.2.5",
        "GLIBC_2.17",
        "GLIBC_PRIVATE",
        "GLIBCXX_3.4.9",
        "GLIBCXX_3.4.21",
        "CXXABI_TM_1",
        "LLVM_17",
    ]
    assert find_newest_versions(names) == {"GLIBC": "2.17", "GLIBCXX": "3.4.21"}


def test_names_among_strings() -> None:
    data = b"libcuda.so.1\0libcudart.so.11.0\0not/libx.so\0libx.so \0libnccl.so\0liby.so"
    assert list(find_library_names(data, 0, len(data), SHARED)) == [
        "libcuda.so.1",
        "libcudart.so.11.0",
        "libnccl.so",
    ]
    assert list(find_library_names(b"\0cudart64_110.dll\0x.dll", 0, 24, DLL)) == [
        "cudart64_110.dll"
    ]


# -- PE --


def test_a_windows_library(tmp_path: Path) -> None:
    assert read(
        tmp_path, portable({b".nv_fatb": FATBIN, b".rdata": b"nvcuda.dll\0KERNEL32.dll\0"})
    ) == {
        "format": "pe",
        "machine": "x86_64",
        "needed": ["KERNEL32.dll"],
        "opens": ["nvcuda.dll"],
        "gpu_code": {" ".join(TARGETS): 1},
        "compilers": ["linker 14.29"],
    }


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"MZ", "a corrupt PE file"),
        (b"MZ" + bytes(200), "a corrupt PE file"),
        (portable({b".nv_fatb": FATBIN[:100]}), "claims more bytes than its section"),
        (portable({b".nv_fatb": FATBIN})[:-500], "reaches beyond its end"),
        (portable({b".nv_fatb": b"other data"}), "other data"),
    ],
)
def test_a_broken_windows_library(tmp_path: Path, data: bytes, said: str) -> None:
    assert said in refused(tmp_path, data)

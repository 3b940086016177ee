"""The loader cache, compared with ldconfig's output, and damaged."""

from __future__ import annotations

import platform
import re
import struct
import subprocess
from pathlib import Path

import pytest

from envcheck.host.local import LocalHost, parse_loader_cache
from tests.needs import find_ldconfig

CACHE = Path("/etc/ld.so.cache")


def composed_cache(entries: list[tuple[str, str, int]], prefix: bytes = b"") -> bytes:
    """Build a cache in the format of glibc 2.32 and later: (soname, path, flags)."""
    strings = b"".join(f"{soname}\0{path}\0".encode() for soname, path, _ in entries)
    offset = 48 + 24 * len(entries)
    rows = b""
    for soname, path, flags in entries:
        rows += struct.pack("=iIIIQ", flags, offset, offset + len(soname) + 1, 0, 0)
        offset += len(soname) + len(path) + 2
    header = b"glibc-ld.so.cache1.1" + struct.pack("=II", len(entries), len(strings)) + b"\0" * 20
    return prefix + header + rows + strings


CUDA = ("libcuda.so.1", "/usr/lib/x86_64-linux-gnu/libcuda.so.1", 0x0303)
CUDA_32 = ("libcuda.so.1", "/usr/lib/i386-linux-gnu/libcuda.so.1", 0x0003)
COMPAT = ("libcuda.so.1", "/usr/local/cuda/compat/libcuda.so.1", 0x0303)


def test_libraries_of_this_machine_keep_the_loader_s_order() -> None:
    data = composed_cache([COMPAT, CUDA_32, CUDA])
    assert parse_loader_cache(data, "x86_64") == {"libcuda.so.1": (COMPAT[1], CUDA[1])}
    assert parse_loader_cache(data, "i686") == {"libcuda.so.1": (CUDA_32[1],)}


def test_an_unknown_machine_keeps_all_libraries() -> None:
    assert parse_loader_cache(composed_cache([CUDA_32, CUDA]), "riscv64") == {
        "libcuda.so.1": (CUDA_32[1], CUDA[1])
    }


def test_an_old_cache_may_precede_the_new_one() -> None:
    old = (
        b"ld.so-1.7.0\0"
        + struct.pack("=I", 1)
        + struct.pack("=iII", 3, 0, 13)
        + b"libold.so.1\0/lib/libold.so.1\0"
    )
    assert parse_loader_cache(composed_cache([CUDA], prefix=old), "x86_64") == {
        "libcuda.so.1": (CUDA[1],)
    }


def test_an_empty_cache_has_no_libraries() -> None:
    assert parse_loader_cache(composed_cache([]), "x86_64") == {}


def test_invalid_offsets_are_rejected() -> None:
    data = bytearray(composed_cache([CUDA]))
    struct.pack_into("=I", data, 48 + 8, 1 << 31)
    with pytest.raises(ValueError, match="truncated strings"):
        parse_loader_cache(bytes(data), "x86_64")


def test_a_truncated_cache_is_rejected() -> None:
    data = composed_cache([COMPAT, CUDA, CUDA])
    for cut in range(len(data)):
        with pytest.raises(ValueError, match=r"truncated|header"):
            parse_loader_cache(data[:cut], "x86_64")


@pytest.mark.needs("loader-cache")
def test_this_machine_s_cache_matches_ldconfig() -> None:
    """Compare with lines such as `libm.so.6 (libc6,x86-64, OS ABI: Linux 3.2.0) => /lib/x86_64-linux-gnu/libm.so.6`."""
    printed = subprocess.run(
        [str(find_ldconfig()), "-p"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    kinds = {"x86_64": "x86-64", "aarch64": "AArch64"}
    expected: dict[str, list[str]] = {}
    for soname, kind, path in re.findall(r"^\t(\S+) \(([^)]*)\) => (.+)$", printed, re.MULTILINE):
        if kinds.get(platform.machine(), "") in kind and "libc6" in kind:
            expected.setdefault(soname, []).append(path)
    fact = LocalHost().loader_cache()
    assert fact.value is not None
    assert {soname: list(paths) for soname, paths in fact.value.items()} == expected
    assert "libc.so.6" in expected


@pytest.mark.needs("loader-cache")
def test_this_machine_s_cache_truncated_is_rejected_or_whole() -> None:
    data = CACHE.read_bytes()
    whole = parse_loader_cache(data, platform.machine())
    for end in range(0, len(data), 997):
        assert outcome(data[:end]) in ("refused", whole)


def outcome(data: bytes) -> object:
    try:
        return parse_loader_cache(data, platform.machine())
    except ValueError:
        return "refused"

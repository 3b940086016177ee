"""A Windows library composed for tests: headers, an import of KERNEL32.dll, and the sections that a test needs."""

from __future__ import annotations

import struct

ALIGNMENT = 512
_HEADERS = 1024  # bytes of the file before the first section


def portable(sections: dict[bytes, bytes]) -> bytes:
    """Compose a 64-bit PE file; names of sections have at most eight bytes."""
    contents = {b".idata": b"", **sections}
    addresses, place = {}, 0x1000
    for name, data in contents.items():
        addresses[name] = place
        place += 0x1000 + (len(data) & ~0xFFF)
    contents[b".idata"] = _imports(addresses[b".idata"])
    head = bytearray(_HEADERS)
    head[:2] = b"MZ"
    struct.pack_into("<I", head, 60, 64)
    head[64:68] = b"PE\0\0"
    struct.pack_into("<HHIIIHH", head, 68, 0x8664, len(contents), 0, 0, 0, 240, 0x2022)
    struct.pack_into("<HBB", head, 88, 0x20B, 14, 29)
    struct.pack_into("<QII", head, 88 + 24, 0x180000000, 0x1000, ALIGNMENT)
    struct.pack_into("<II", head, 88 + 56, place, _HEADERS)
    struct.pack_into("<I", head, 88 + 108, 16)
    struct.pack_into("<II", head, 88 + 112 + 8, addresses[b".idata"], 40)
    body = b""
    for number, (name, data) in enumerate(contents.items()):
        padded = data + bytes(-len(data) % ALIGNMENT)
        entry = (name, len(data), addresses[name], len(padded), _HEADERS + len(body))
        struct.pack_into("<8sIIII", head, 88 + 240 + 40 * number, *entry)
        body += padded
    return bytes(head) + body


def _imports(base: int) -> bytes:
    """Import Sleep from KERNEL32.dll: descriptor, its end, two thunk tables, names."""
    table, names = base + 40, base + 80
    descriptor = struct.pack("<IIIII", table, 0, 0, names + 16, table + 16)
    thunks = struct.pack("<QQ", names, 0)
    return (
        descriptor
        + bytes(20)
        + thunks
        + thunks
        + bytes(8)
        + b"\0\0Sleep\0".ljust(16, b"\0")
        + b"KERNEL32.dll\0"
    )

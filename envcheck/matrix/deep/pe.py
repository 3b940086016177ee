"""Read a PE library of a Windows wheel: what it imports, its GPU code, the linker that made it."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from envcheck.matrix.deep.binary import Binary
from envcheck.matrix.deep.errors import BinaryError
from envcheck.matrix.deep.fatbin import parse_fatbins
from envcheck.matrix.deep.names import DLL, names_among

_MACHINES = {0x8664: "x86_64", 0xAA64: "aarch64"}
_GPU_SECTIONS = (b".nv_fatb", b"__nv_rel")  # section names are cut to eight bytes
_TEXTS = (b".rdata", b".data")


def read_pe(path: Path) -> Binary:
    """Read a 64-bit PE file; raises BinaryError."""
    try:
        import pefile
    except ImportError as error:
        raise BinaryError("reading it needs pefile, which pip install 'envcheck-gpu[matrix]' brings") from error
    kinds = [pefile.DIRECTORY_ENTRY[f"IMAGE_DIRECTORY_ENTRY_{name}"] for name in ("IMPORT", "DELAY_IMPORT")]
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            image = pefile.PE(str(path), fast_load=True)
            try:
                image.parse_data_directories(kinds)
                return _facts(image, data)
            finally:
                image.close()
        except (pefile.PEFormatError, struct.error, ValueError, AttributeError, TypeError, IndexError) as error:
            # pefile meets corrupt files with any of these.
            raise BinaryError(f"it is a corrupt PE file ({error or type(error).__name__})") from error


def _facts(image: Any, data: mmap.mmap) -> Binary:
    imported = sorted(set(_imports(image)), key=str.lower)
    texts = (_span(section, data) for section in image.sections if section.Name.rstrip(b"\0") in _TEXTS)
    opened = {name for text in texts for name in names_among(data, *text, DLL)}
    known = {name.lower() for name in imported}
    gpu = (section for section in image.sections if section.Name.startswith(_GPU_SECTIONS))
    linker = image.OPTIONAL_HEADER
    return Binary(
        format="pe",
        machine=_MACHINES.get(image.FILE_HEADER.Machine, hex(image.FILE_HEADER.Machine)),
        needed=tuple(imported),
        opens=tuple(sorted(name for name in opened if name.lower() not in known)),
        targets=frozenset().union(*(parse_fatbins(data, *_span(section, data)) for section in gpu)),
        compilers=(f"linker {linker.MajorLinkerVersion}.{linker.MinorLinkerVersion:02}",),
    )


def _imports(image: Any) -> Iterator[str]:
    """Yield the libraries it imports at once or on first use."""
    for table in ("DIRECTORY_ENTRY_IMPORT", "DIRECTORY_ENTRY_DELAY_IMPORT"):
        for entry in getattr(image, table, ()):
            yield entry.dll.decode("ascii", "replace")


def _span(section: Any, data: mmap.mmap) -> tuple[int, int]:
    start, size = section.PointerToRawData, section.SizeOfRawData
    if start + size > len(data):
        raise BinaryError("a section reaches beyond its end")
    used = min(size, section.Misc_VirtualSize) if section.Misc_VirtualSize else size
    return start, start + used

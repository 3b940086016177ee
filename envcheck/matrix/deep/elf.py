"""Read an ELF library of a wheel: what it needs, where its loader looks, its GPU code, how it was compiled."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from envcheck.matrix.deep.binary import Binary, newest_versions
from envcheck.matrix.deep.errors import BinaryError
from envcheck.matrix.deep.fatbin import parse_fatbins
from envcheck.matrix.deep.names import SHARED, names_among

_MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}
_GPU_SECTIONS = (".nv_fatbin", "__nv_relfatbin")
_TEXTS = (".rodata", ".lrodata")
_SECTIONS = 4096  # real libraries have some forty
_TAGS = 4096  # entries of a dynamic section; real ones have some sixty
_VERSIONS = 4096
_COMMENT = 1 << 20  # bytes


def read_elf(path: Path) -> Binary:
    """Read a 64-bit little-endian ELF file; raises BinaryError."""
    from elftools.common.exceptions import ELFError
    from elftools.construct import ConstructError
    from elftools.elf.elffile import ELFFile

    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        _check_header(data)
        try:
            return _facts(ELFFile(stream), data)
        except (ELFError, ConstructError, ValueError, AttributeError, AssertionError, TypeError, IndexError) as error:
            # pyelftools meets corrupt files with any of these.
            raise BinaryError(f"it is a corrupt ELF file ({error or type(error).__name__})") from error


def _check_header(data: mmap.mmap) -> None:
    """Refuse what no framework ships, and a section table that does not fit in the file or would keep us busy."""
    if len(data) < 64 or data[4:6] != b"\2\1":
        raise BinaryError("it is no 64-bit little-endian ELF file")
    (start,) = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    if not start or not count:
        raise BinaryError("it has no section table, or one larger than any real library's")
    if count > _SECTIONS or size < 64 or start + size * count > len(data) or names >= count:
        raise BinaryError(f"its section table ({count} sections) is larger than any real library's, or cut off")


def _facts(elf: Any, data: mmap.mmap) -> Binary:
    sections = {section.name: section for section in elf.iter_sections()}
    tags = _dynamic(elf)
    needed = [name for name in dict.fromkeys(tags.get("DT_NEEDED", [])) if name]
    runpath = (tags.get("DT_RUNPATH") or tags.get("DT_RPATH") or [""])[0]
    texts = (_span(sections[name], data) for name in _TEXTS if name in sections)
    opened = {name for text in texts for name in names_among(data, *text, SHARED)}
    return Binary(
        format="elf",
        machine=_MACHINES.get(elf["e_machine"], str(elf["e_machine"])),
        needed=tuple(needed),
        opens=tuple(sorted(opened - {*needed, *tags.get("DT_SONAME", [])})),
        runpath=tuple(dict.fromkeys(part for part in runpath.split(":") if part)),  # a repetition finds nothing new
        targets=frozenset().union(
            *(parse_fatbins(data, *_span(sections[name], data)) for name in _GPU_SECTIONS if name in sections)
        ),
        symbols=newest_versions(_versions(sections.get(".gnu.version_r"))),
        compilers=_compilers(data, *_span(sections[".comment"], data)) if ".comment" in sections else (),
    )


def _span(section: Any, data: mmap.mmap) -> tuple[int, int]:
    """Return where a section starts and ends in the file; one without bytes there is empty."""
    start, size = section["sh_offset"], section["sh_size"]
    if section["sh_type"] == "SHT_NOBITS":
        size = 0
    if start + size > len(data):
        raise BinaryError(f"its section {section.name} reaches beyond its end")
    return start, start + size


def _dynamic(elf: Any) -> dict[str, list[str]]:
    """Collect the names in the dynamic section by tag."""
    names = {"DT_NEEDED": "needed", "DT_SONAME": "soname", "DT_RUNPATH": "runpath", "DT_RPATH": "rpath"}
    found: dict[str, list[str]] = {}
    for segment in islice(elf.iter_segments("PT_DYNAMIC"), 1):
        for number, tag in enumerate(segment.iter_tags()):
            if number >= _TAGS:
                raise BinaryError("its dynamic section is larger than any real library's")
            if tag.entry.d_tag in names:
                found.setdefault(tag.entry.d_tag, []).append(str(getattr(tag, names[tag.entry.d_tag])))
    return found


def _versions(section: Any) -> Iterator[str]:
    """Yield the symbol versions it asks for: GLIBC_2.17."""
    count = 0
    for _, auxiliaries in section.iter_versions() if section is not None else ():
        for auxiliary in auxiliaries:
            count += 1
            if count > _VERSIONS:
                raise BinaryError("it asks for more symbol versions than any real library")
            yield str(auxiliary.name)


def _compilers(data: mmap.mmap, start: int, end: int) -> tuple[str, ...]:
    """Split the comments that compilers leave, each ended by a zero: GCC: (GNU) 9.3.1 20200408 (Red Hat 9.3.1-2)."""
    if end - start > _COMMENT:
        raise BinaryError("its .comment is larger than any real library's")
    parts = data[start:end].split(b"\0")
    return tuple(sorted({part.decode("utf-8", "replace").strip() for part in parts} - {""}))

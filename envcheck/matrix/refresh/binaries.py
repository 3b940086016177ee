"""Read ELF and PE libraries: the GPU code, libraries, instructions and compilers in them."""

from __future__ import annotations

import mmap
import re
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from envcheck.host.elf import CORRUPT, ElfImage
from envcheck.matrix.refresh.gpu_code import BinaryError, parse_fatbins
from envcheck.model import dataclass, encode, field, numbers

SHARED = rb"(lib[A-Za-z0-9_+.-]{1,60}\.so(?:\.\d{1,4}){0,4})(?=\0)"
DLL = rb"([A-Za-z0-9_+.-]{1,60}\.dll)(?=\0)"


def find_library_names(data: bytes | mmap.mmap, start: int, end: int, kind: bytes) -> Iterator[str]:
    """Yield the zero-terminated strings of a section that name a library: libcuda.so.1."""
    first = re.compile(kind).match(data, start, end)
    if first:
        yield first[1].decode("ascii")
    for found in re.compile(rb"\0" + kind).finditer(data, start, end):
        yield found[1].decode("ascii")


@dataclass
class Binary:
    """Facts of an ELF or PE file; empty for what a format cannot state."""

    format: str  # elf, pe
    machine: str  # x86_64, aarch64
    needed: tuple[str, ...]  # libraries that the loader must find, in order
    # names of libraries among its strings, which it may open at run time
    opens: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()  # folders that the loader searches, as written
    # targets -> the fat binaries that hold just these
    gpu_code: Mapping[str, int] = field(default_factory=dict)
    # GLIBC -> 2.17: the newest version that it needs
    symbols: dict[str, str] = field(default_factory=dict)
    compilers: tuple[str, ...] = ()  # as they name themselves

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form without empty facts, except the libraries needed."""
        most_first = sorted(self.gpu_code.items(), key=lambda item: (-item[1], item[0]))
        found = {**encode(self), "gpu_code": dict(most_first)}
        return {name: value for name, value in found.items() if value or name == "needed"}


def read_binary(path: Path) -> Binary:
    """Read an ELF or PE file, by its first bytes; raises BinaryError and OSError."""
    with path.open("rb") as stream:
        start = stream.read(4)
    if start == b"\x7fELF":
        return read_elf(path)
    if start[:2] == b"MZ":
        return read_pe(path)
    raise BinaryError("it is neither an ELF nor a PE file")


def find_newest_versions(names: Iterable[str]) -> dict[str, str]:
    """Return the newest version of each family.

    GLIBC_2.2.5, GLIBC_2.17, CXXABI_1.3 -> {CXXABI: 1.3, GLIBC: 2.17}.
    """
    found: dict[str, tuple[int, ...]] = {}
    for name in names:
        parsed = re.fullmatch(r"(GLIBC|GLIBCXX|CXXABI|GCC)_(\d+(?:\.\d+)*)", name)
        if parsed:
            found[parsed[1]] = max(numbers(parsed[2]), found.get(parsed[1], ()))
    return {family: ".".join(map(str, found[family])) for family in sorted(found)}


_GPU_SECTIONS = (".nv_fatbin", "__nv_relfatbin")
_TEXTS = (".rodata", ".lrodata")
_SECTIONS = 4096  # real libraries have some forty
_SECTION = struct.Struct("<II16xQQ")  # place of the name, type, place and size in the file
_NO_BYTES = 8  # type of a section without bytes in the file
_COMMENT = 1 << 20  # bytes
Span = tuple[int, int]  # start and end in the file


def read_elf(path: Path) -> Binary:
    """Read a 64-bit little-endian ELF file; raises BinaryError."""
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        start, size, count, names = _check_header(data)
        try:
            headers = [_SECTION.unpack_from(data, start + size * at) for at in range(count)]
            titles = headers[names][2]
            sections = {_read_name(data, titles + header[0]): header[1:] for header in headers}
            return _read_elf_facts(ElfImage(data), sections, data)
        except CORRUPT as error:
            raise BinaryError(
                f"it is a corrupt ELF file ({error or type(error).__name__})"
            ) from error


def _check_header(data: mmap.mmap) -> tuple[int, int, int, int]:
    """Return the place of the section table, its sizes, and the number of the one with the names.

    Raise BinaryError for other ELF files, and for an impossible section table.
    """
    if len(data) < 64 or data[4:6] != b"\2\1":
        raise BinaryError("it is not a 64-bit little-endian ELF file")
    (start,) = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    if not start or not count:
        raise BinaryError("it has no section table, or one larger than any real library's")
    if count > _SECTIONS or size < 64 or start + size * count > len(data) or names >= count:
        raise BinaryError(
            f"its section table ({count} sections) is larger than any real library's, or cut off"
        )
    return start, size, count, names


def _read_name(data: mmap.mmap, place: int) -> str:
    return data[place : data.find(b"\0", place)].decode("latin-1")


def _read_elf_facts(
    image: ElfImage, sections: Mapping[str, tuple[int, int, int]], data: mmap.mmap
) -> Binary:
    spans = {}
    for name in {*_TEXTS, *_GPU_SECTIONS, ".comment"}.intersection(sections):
        spans[name] = _get_span(name, sections[name], data)
    opened = {
        name
        for text in _TEXTS
        if text in spans
        for name in find_library_names(data, *spans[text], SHARED)
    }
    gpu_code = Counter[str]()
    for name in _GPU_SECTIONS:
        if name in spans:
            gpu_code += parse_fatbins(data, *spans[name])
    needed = tuple(dict.fromkeys(filter(None, image.needed)))
    return Binary(
        format="elf",
        machine=image.machine,
        needed=needed,
        opens=tuple(sorted(opened - {*needed, *image.sonames})),
        # without repetitions
        runpath=tuple(dict.fromkeys(filter(None, image.runpath.split(":")))),
        gpu_code=gpu_code,
        symbols=find_newest_versions(version for _, version, _, _ in image.versions_needed()),
        compilers=_read_compilers(data, *spans.get(".comment", (0, 0))),
    )


def _get_span(name: str, header: tuple[int, int, int], data: mmap.mmap) -> Span:
    """Return the start and end of a section in the file; equal for a section without bytes."""
    kind, start, size = header
    if kind == _NO_BYTES:
        size = 0
    if start + size > len(data):
        raise BinaryError(f"its section {name} reaches beyond its end")
    return start, start + size


def _read_compilers(data: mmap.mmap, start: int, end: int) -> tuple[str, ...]:
    """Split the zero-terminated comments of compilers.

    GCC: (GNU) 9.3.1 20200408 (Red Hat 9.3.1-2).
    """
    if end - start > _COMMENT:
        raise BinaryError("its .comment is larger than any real library's")
    parts = data[start:end].split(b"\0")
    return tuple(sorted({part.decode("utf-8", "replace").strip() for part in parts} - {""}))


_PE_MACHINES = {0x8664: "x86_64", 0xAA64: "aarch64"}
_PE_GPU_SECTIONS = (b".nv_fatb", b"__nv_rel")  # section names are cut to eight bytes
_PE_TEXTS = (b".rdata", b".data")


def read_pe(path: Path) -> Binary:
    """Read a 64-bit PE file; raises BinaryError."""
    import pefile

    kinds = [
        pefile.DIRECTORY_ENTRY[f"IMAGE_DIRECTORY_ENTRY_{name}"]
        for name in ("IMPORT", "DELAY_IMPORT")
    ]
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            image = pefile.PE(str(path), fast_load=True)
            try:
                image.parse_data_directories(kinds)
                return _read_pe_facts(image, data)
            finally:
                image.close()
        except (
            pefile.PEFormatError,
            struct.error,
            ValueError,
            AttributeError,
            TypeError,
            IndexError,
        ) as error:
            # pefile raises any of these for corrupt files.
            raise BinaryError(
                f"it is a corrupt PE file ({error or type(error).__name__})"
            ) from error


def _read_pe_facts(image: Any, data: mmap.mmap) -> Binary:
    tables = ("DIRECTORY_ENTRY_IMPORT", "DIRECTORY_ENTRY_DELAY_IMPORT")  # at start, on first use
    entries = (entry for table in tables for entry in getattr(image, table, ()))
    imported = sorted({entry.dll.decode("ascii", "replace") for entry in entries}, key=str.lower)
    texts = (
        _get_pe_span(section, data)
        for section in image.sections
        if section.Name.rstrip(b"\0") in _PE_TEXTS
    )
    opened = {name for text in texts for name in find_library_names(data, *text, DLL)}
    known = {name.lower() for name in imported}
    gpu = (section for section in image.sections if section.Name.startswith(_PE_GPU_SECTIONS))
    linker = image.OPTIONAL_HEADER
    return Binary(
        format="pe",
        machine=_PE_MACHINES.get(image.FILE_HEADER.Machine, hex(image.FILE_HEADER.Machine)),
        needed=tuple(imported),
        opens=tuple(sorted(name for name in opened if name.lower() not in known)),
        gpu_code=sum(
            (parse_fatbins(data, *_get_pe_span(section, data)) for section in gpu), Counter[str]()
        ),
        compilers=(f"linker {linker.MajorLinkerVersion}.{linker.MinorLinkerVersion:02}",),
    )


def _get_pe_span(section: Any, data: mmap.mmap) -> tuple[int, int]:
    start, size = section.PointerToRawData, section.SizeOfRawData
    if start + size > len(data):
        raise BinaryError("a section reaches beyond its end")
    used = size
    if section.Misc_VirtualSize:
        used = min(size, section.Misc_VirtualSize)
    return start, start + used

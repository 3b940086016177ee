"""Read ELF files with `mmap` and `struct`.

The dynamic section, symbol versions, and single symbols by their hash.

A library of 1 GB costs as little as a small one: only the pages that answer a question are read.
The layout is that of the System V ABI and its GNU extensions
(https://refspecs.linuxfoundation.org/LSB_5.0.0/LSB-Core-generic/).
"""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
import struct
from typing import Any, Callable, Dict, Iterator, List, Sequence, Set, Tuple, TypeVar

from envcheck.host.protocol import ElfFacts, SymbolNeed
from envcheck.model import Fact, Unknown, from_file

T = TypeVar("T")

_MACHINES = {62: "x86_64", 183: "aarch64", 3: "i386", 40: "arm", 21: "ppc64"}
_PT_LOAD, _PT_DYNAMIC = 1, 2
_NEEDED, _HASH, _STRTAB, _SYMTAB, _SONAME, _RPATH, _RUNPATH = 1, 4, 5, 6, 14, 15, 29
_GNU_HASH, _VERSYM, _VERDEF, _VERDEFNUM, _VERNEED, _VERNEEDNUM = (
    0x6FFFFEF5, 0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF,
)  # fmt: skip
_GLOBAL, _GNU_UNIQUE, _WEAK = 1, 10, 2  # binding of a symbol
_WEAK_VERSION = 2  # VER_FLG_WEAK: the loader warns where it is missing
_LONGEST = 1 << 16  # of a name
_TAGS = 4096  # entries of a dynamic section; real ones have some sixty
_VERSIONS = 4096  # of symbols that one file asks for
_LIMIT = 1 << 20  # entries of one table: more are taken for a corrupt file


CORRUPT = (ValueError, IndexError, KeyError, OverflowError, struct.error)


_MAGIC = b"\x7fELF"


class ElfHeader:
    """The header of an ELF file, of which `data` may hold the first bytes alone.

    Its methods raise one of CORRUPT for a corrupt one.
    """

    def __init__(self, data: Any) -> None:
        self._data = data
        if data[:4] != _MAGIC:
            raise ValueError("Magic number does not match")
        self.is_64 = {1: False, 2: True}[data[4]]
        order = {1: "<", 2: ">"}[data[5]]
        word = "Q" if self.is_64 else "I"
        self._order = order
        self._word = struct.Struct(order + word)
        header = struct.unpack_from(f"{order}HHI{word * 3}IHHHHH", data, 16)
        self.machine = _MACHINES.get(header[1], str(header[1]))
        self._segment_places = range(header[4], header[4] + header[8] * header[9], header[8] or 1)
        self.tables_end = header[4] + header[8] * header[9]  # of what the loader reads
        self.end = header[5] + header[10] * header[11]  # of the headers of sections, which lie last

    def read_segments(self) -> Iterator[Tuple[int, int, int, int]]:
        """Yield kind, place, address and length of each segment."""
        for place in self._segment_places:
            if self.is_64:
                kind, _, start, address, _, length = self._unpack("IIQQQQ", place)
            else:
                kind, start, address, _, length = self._unpack("IIIII", place)
            yield kind, start, address, length

    def _unpack(self, layout: str, place: int) -> Tuple[Any, ...]:
        return struct.unpack_from(self._order + layout, self._data, place)


def find_damage(head: bytes, size: int) -> str:
    """Judge a library by its first bytes and its size.

    Truncated, shortened, not-elf, or "" where nothing is wrong.
    """
    if head[:4] != _MAGIC:
        return "not-elf"
    try:
        header = ElfHeader(head)
    except CORRUPT:
        return "truncated"
    ends = [header.tables_end]
    with contextlib.suppress(struct.error):  # the table goes on after the first bytes
        for _, start, _, length in header.read_segments():
            ends.append(start + length)
    if max(ends) > size:
        return "truncated"
    return "shortened" if header.end > size else ""


class ElfImage(ElfHeader):
    """One mapped ELF file."""

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        self._symbol = struct.Struct(self._order + ("IBBHQQ" if self.is_64 else "IIIBBH"))
        self._segments = list(self.read_segments())
        self._check_size()
        self.entries = self._read_dynamic_section()
        self._strings = self._offset(_STRTAB) if _STRTAB in self.entries else 0

    def _check_size(self) -> None:
        end = max(
            (start + length for kind, start, _, length in self._segments if kind == _PT_LOAD),
            default=0,
        )
        if end > len(self._data):
            raise ValueError(f"it is truncated: {len(self._data)} of at least {end} bytes")

    def _read_dynamic_section(self) -> Dict[int, List[int]]:
        entries: Dict[int, List[int]] = {}
        pair = struct.Struct(self._order + ("qQ" if self.is_64 else "iI"))
        count = 0
        for kind, start, _, length in self._segments:
            if kind == _PT_DYNAMIC:
                for tag, value in pair.iter_unpack(
                    self._data[start : start + length - length % pair.size]
                ):
                    if tag == 0:
                        break
                    count += 1
                    if count > _TAGS:
                        raise ValueError(f"more than {_TAGS} entries in its dynamic section")
                    entries.setdefault(tag, []).append(value)
        return entries

    def _offset(self, tag: int) -> int:
        """Return the place in the file of a table that a dynamic entry names, or ValueError."""
        address = self.entries.get(tag, [-1])[0]
        for kind, start, begin, length in self._segments:
            if kind == _PT_LOAD and begin <= address < begin + length:
                return start + address - begin
        raise ValueError(f"no segment holds the table of tag {tag:#x}")

    def _string(self, offset: int) -> bytes:
        place = self._strings + offset
        end = self._data.find(b"\0", place, place + _LONGEST)
        if end < 0:
            raise ValueError("a name does not end")
        name: bytes = self._data[place:end]
        return name

    def text(self, offset: int) -> str:
        """Return a name of the string table; UnicodeDecodeError is a ValueError."""
        return self._string(offset).decode("utf-8")

    def _texts(self, tag: int) -> Tuple[str, ...]:
        return tuple(map(self.text, self.entries.get(tag, ())))

    @property
    def needed(self) -> Tuple[str, ...]:
        """List the libraries that the loader must find."""
        return self._texts(_NEEDED)

    @property
    def sonames(self) -> Tuple[str, ...]:
        """List the names that it gives itself: one, or none."""
        return self._texts(_SONAME)

    @property
    def runpath(self) -> str:
        """Return the folders that the loader searches, as written; "" without any."""
        return (*self._texts(_RUNPATH), *self._texts(_RPATH), "")[0]

    def versions_needed(self) -> Iterator[Tuple[str, str, int, bool]]:
        """Yield soname, version, index and weakness of each version asked of another file."""
        place = self._offset(_VERNEED) if _VERNEED in self.entries else 0
        total = 0  # each of many entries may claim many, all at one place
        for _ in range(self._count(_VERNEEDNUM) if place else 0):
            _, count, file, first, following = self._unpack("HHIII", place)
            item = place + first
            total += count
            if total > _VERSIONS:
                raise ValueError(f"more than {_VERSIONS} symbol versions")
            for _ in range(count):
                _, flags, index, name, after = self._unpack("IHHII", item)
                yield self.text(file), self.text(name), index, bool(flags & _WEAK_VERSION)
                item += after
            place += following

    def versions_defined(self) -> Iterator[Tuple[str, int]]:
        """Yield name and index of each version that this file defines."""
        place = self._offset(_VERDEF) if _VERDEF in self.entries else 0
        for _ in range(self._count(_VERDEFNUM) if place else 0):
            _, _, index, _, _, first, following = self._unpack("HHHHIII", place)
            (name,) = self._unpack("I", place + first)
            yield self.text(name), index
            place += following

    def _count(self, tag: int) -> int:
        count = self.entries.get(tag, [0])[0]
        if count > _LIMIT:
            raise ValueError(f"{count} versions")
        return count

    def undefined_symbols(self) -> Iterator[Tuple[bytes, int]]:
        """Yield name and version index of each symbol that another file must define.

        Weak ones need no definition.
        """
        symbols, strings = self._offset(_SYMTAB), self._strings
        count = self._count_undefined()
        table = self._data[symbols : symbols + count * self._symbol.size]
        versions = self._read_version_indexes(count)
        find, data = self._data.find, self._data
        for number, fields in enumerate(self._symbol.iter_unpack(table)):
            if self.is_64:
                name, info, section = fields[0], fields[1], fields[3]
            else:
                name, info, section = fields[0], fields[3], fields[5]
            if section == 0 and name and info >> 4 == _GLOBAL:
                place = strings + name
                yield data[place : find(b"\0", place)], versions[number]

    def _count_undefined(self) -> int:
        """Return how many symbols to read to see all undefined ones.

        Those in the GNU hash table follow them.
        """
        table = self._offset(_GNU_HASH if _GNU_HASH in self.entries else _HASH)
        (count,) = self._unpack("I", table + 4)
        if count > _LIMIT:
            raise ValueError(f"{count} symbols")
        return int(count)

    def _read_version_indexes(self, count: int) -> Sequence[int]:
        if _VERSYM not in self.entries:
            return (0,) * count
        return struct.unpack_from(f"{self._order}{count}H", self._data, self._offset(_VERSYM))

    def defines(self, name: bytes, version: str) -> bool:
        """Look a symbol up as the loader does."""
        if _GNU_HASH in self.entries:
            found = self._list_gnu(name)
        else:
            found = self._list_sysv(name)
        return any(self._is_definition(index, name, version) for index in found)

    def _list_gnu(self, name: bytes) -> Iterator[int]:
        """Yield the symbols whose hash is that of a name.

        By the Bloom filter, a bucket and its chain.
        """
        table = self._offset(_GNU_HASH)
        buckets, first, blooms, shift = self._unpack("4I", table)
        bits, value = self._word.size * 8, hash_gnu(name)
        if not buckets or not blooms:
            raise ValueError("an empty hash table")
        (bloom,) = self._word.unpack_from(
            self._data, table + 16 + value // bits % blooms * self._word.size
        )
        chains = table + 16 + blooms * self._word.size
        (number,) = self._unpack("I", chains + value % buckets * 4)
        if not bloom >> value % bits & bloom >> (value >> shift) % bits & 1 or number < first:
            return
        chain = chains + buckets * 4 - first * 4
        for index in range(number, number + _LIMIT):
            (found,) = self._unpack("I", chain + index * 4)
            if found | 1 == value | 1:
                yield index
            if found & 1:
                return

    def _list_sysv(self, name: bytes) -> Iterator[int]:
        """Yield the symbols in the bucket of a name, of a file with the older table alone."""
        table = self._offset(_HASH)
        buckets, count = self._unpack("2I", table)
        if not buckets:
            raise ValueError("an empty hash table")
        (index,) = self._unpack("I", table + 8 + hash_sysv(name) % buckets * 4)
        for _ in range(count):
            if not index:
                return
            yield index
            (index,) = self._unpack("I", table + 8 + buckets * 4 + index * 4)

    def _is_definition(self, index: int, name: bytes, version: str) -> bool:
        fields = self._symbol.unpack_from(
            self._data, self._offset(_SYMTAB) + index * self._symbol.size
        )
        info, section = (fields[1], fields[3]) if self.is_64 else (fields[3], fields[5])
        if (
            section == 0
            or info >> 4 not in (_GLOBAL, _WEAK, _GNU_UNIQUE)
            or self._string(fields[0]) != name
        ):
            return False
        if not version or _VERSYM not in self.entries:
            return True
        (mark,) = self._unpack("H", self._offset(_VERSYM) + index * 2)
        if mark in (0, 1):  # defined without a version: it serves any
            return True
        return any(
            text == version and number == mark & 0x7FFF for text, number in self.versions_defined()
        )


def hash_gnu(name: bytes) -> int:
    """Hash a name for the GNU table."""
    value = 5381
    for letter in name:
        value = value * 33 + letter & 0xFFFFFFFF
    return value


def hash_sysv(name: bytes) -> int:
    """Hash a name for the System V table."""
    value = 0
    for letter in name:
        value = (value << 4) + letter
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high & 0xFFFFFFFF
    return value


def read_elf(path: str) -> Fact[ElfFacts]:
    """Read the dynamic section and symbol versions of an ELF file.

    Raises the errors of the file system.
    """
    return _read_image(path, lambda image: _make_facts(image, path))


def read_symbol_needs(
    path: str, prefixes: Sequence[str], libraries: Sequence[str]
) -> Fact[Tuple[SymbolNeed, ...]]:
    """List the undefined symbols that begin with `prefixes` or belong to `libraries`.

    `libraries` are beginnings of sonames; weak symbols are left out. Raises the errors of the file
    system.
    """
    return _read_image(path, lambda image: tuple(_list_needs(image, prefixes, tuple(libraries))))


def find_lacking_symbols(path: str, needs: Sequence[SymbolNeed]) -> Fact[Tuple[SymbolNeed, ...]]:
    """Pick the symbols that a library does not define; raises the errors of the file system."""
    return _read_image(
        path,
        lambda image: tuple(
            need for need in needs if not image.defines(need.name.encode("utf-8"), need.version)
        ),
    )


def _read_image(path: str, read: Callable[[ElfImage], T]) -> Fact[T]:
    if not stat.S_ISREG(os.stat(path).st_mode):
        return Unknown("failed", f"{path} is not a regular file", (path,))
    try:
        with open(path, "rb") as stream:
            data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)  # ValueError: empty
            with contextlib.closing(data):
                return from_file(read(ElfImage(data)), path)
    except CORRUPT as error:
        return Unknown("unparsable", f"{path}: {error or type(error).__name__}", (path,))


def _make_facts(image: ElfImage, path: str) -> ElfFacts:
    versions = tuple(image.versions_needed())
    return ElfFacts(
        machine=image.machine,
        soname=(*image.sonames, "")[0],
        needed=image.needed,
        runpath=expand_runpath(image.runpath, path),
        is_rpath=_RUNPATH not in image.entries,
        versions_needed=tuple(dict.fromkeys(version for _, version, _, _ in versions)),
        versions_defined=tuple(version for version, _ in image.versions_defined()),
        versions_by_library=tuple(
            (soname, version) for soname, version, _, is_weak in versions if not is_weak
        ),
    )


def _list_needs(
    image: ElfImage, prefixes: Sequence[str], libraries: Tuple[str, ...]
) -> Iterator[SymbolNeed]:
    versions = {
        index: (version, file)
        for file, version, index, _ in image.versions_needed()
        if file.startswith(libraries)
    }
    beginnings = tuple(prefix.encode("utf-8") for prefix in prefixes)
    seen: Set[bytes] = set()
    for name, index in image.undefined_symbols():
        if (index in versions or name.startswith(beginnings)) and name not in seen:
            seen.add(name)
            version, file = versions.get(index, ("", ""))
            yield SymbolNeed(name.decode("utf-8"), version, file)


def expand_runpath(text: str, path: str) -> Tuple[str, ...]:
    """Split a RUNPATH and replace $ORIGIN by the real folder of the file, as the loader does.

    Sample: '$ORIGIN/../nvidia/cudnn/lib:$ORIGIN' in /v/torch/lib/x.so -> /v/torch/nvidia/cudnn/lib,
    /v/torch/lib
    """
    origin = os.path.dirname(os.path.realpath(path))
    parts = (
        part.replace("${ORIGIN}", origin).replace("$ORIGIN", origin) for part in text.split(":")
    )
    return tuple(dict.fromkeys(os.path.normpath(part) for part in parts if part))

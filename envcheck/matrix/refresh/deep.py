"""Read the binaries of wheels.

For which GPUs they hold code, which libraries and instructions they need.
"""

from __future__ import annotations

import base64
import hashlib
import json
import mmap
import re
import struct
import tempfile
import time
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envcheck.host.file_changes import write_atomically
from envcheck.host.pip_settings import IndexSettings
from envcheck.matrix.companions import binary_names, published_framework
from envcheck.matrix.load import iterate_rows, load_document
from envcheck.matrix.refresh.gpu_code import list_supported, sort_targets
from envcheck.matrix.refresh.index import ArtifactError, OddWheelError, Wheel
from envcheck.matrix.refresh.rows import Row, sentences
from envcheck.matrix.refresh.wheel_contents import (
    LOCAL_HEADER,
    Fetcher,
    choose_members,
    open_range,
    parse_record,
    read_member,
)
from envcheck.model import numbers

if TYPE_CHECKING:
    import requests


class BinaryError(Exception):
    """A binary that is broken, hostile or of an unsupported kind.

    The message says why in a few words.
    """


SHARED = rb"(lib[A-Za-z0-9_+.-]{1,60}\.so(?:\.\d{1,4}){0,4})(?=\0)"
DLL = rb"([A-Za-z0-9_+.-]{1,60}\.dll)(?=\0)"


def find_library_names(data: bytes | mmap.mmap, start: int, end: int, kind: bytes) -> Iterator[str]:
    """Yield the zero-terminated strings of a section that name a library: libcuda.so.1."""
    first = re.compile(kind).match(data, start, end)
    if first:
        yield first[1].decode("ascii")
    for found in re.compile(rb"\0" + kind).finditer(data, start, end):
        yield found[1].decode("ascii")


_MAGIC = 0xBA55ED50
_CONTAINER = struct.Struct("<IHHQ")  # magic, version, header size, bytes that follow
# kind, version, header size, payload size, minor, major, architecture, flags
_ENTRY = struct.Struct("<HHIQ8xHHI8xQ")
_ENTRY_SIZE = 64  # bytes a header has at least
_PTX, _CUBIN, _NVVM = 1, 2, 8
_KINDS = {_PTX: "compute", _CUBIN: "sm", _NVVM: "lto"}
_ARCHITECTURE_ONLY, _FAMILY_ONLY = 1 << 20, 1 << 21  # flags of sm_90a and sm_100f

Buffer = bytes | mmap.mmap


def parse_fatbins(data: Buffer, offset: int, stop: int) -> Counter[str]:
    """Count the fat binaries in data[offset:stop] by their targets.

    sm_90a machine code, compute_90 PTX, lto_90 NVVM.

    nvcc writes one for each source file: {"sm_80 compute_80": 105, "sm_52 compute_52": 1}.

    A container (16 bytes) and the head of its first entry, machine code for sm_75 packed to 824
    bytes:

    50ed55ba 0100 1000 601a000000000000
    0200 0101 40000000 3803000000000000 36030000 00000000 0800 0100 4b000000 ... 1180000000000000 ...
    """
    code: Counter[str] = Counter()
    while (offset := _skip_padding(data, offset, stop)) < stop:
        if offset + _CONTAINER.size > stop:
            raise BinaryError("its fat binary is incomplete")
        _, _, header, size = _CONTAINER.unpack_from(data, offset)
        start, end = offset + header, offset + header + size
        if header < _CONTAINER.size or end > stop:
            raise BinaryError("its fat binary claims more bytes than its section has")
        targets = set(_iterate_targets(data, start, end))
        if targets:
            code[" ".join(sort_targets(targets))] += 1
        offset = end
    return code


def _skip_padding(data: Buffer, offset: int, stop: int) -> int:
    """Skip the zeros between containers; raises BinaryError for anything else."""
    while offset + 4 <= stop:
        word = int.from_bytes(data[offset : offset + 4], "little")
        if word == _MAGIC:
            return offset
        if word:
            raise BinaryError("its fat binary section contains other data")
        offset += 4
    return stop


def _iterate_targets(data: Buffer, offset: int, end: int) -> Iterator[str]:
    """Yield the target of each entry of a container."""
    while offset < end:
        if offset + _ENTRY_SIZE > end:
            raise BinaryError("an entry of its fat binary is incomplete")
        kind, _, header, size, _, _, number, flags = _ENTRY.unpack_from(data, offset)
        if header < _ENTRY_SIZE or offset + header + size > end:
            raise BinaryError("an entry of its fat binary claims more bytes than its container has")
        suffix = "f" if flags & _FAMILY_ONLY else ""
        if flags & _ARCHITECTURE_ONLY:
            suffix = "a"
        yield f"{_KINDS.get(kind, f'kind{kind}')}_{number}{suffix}"
        offset += header + size


@dataclass(frozen=True)
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
        found = {
            "format": self.format,
            "machine": self.machine,
            "needed": list(self.needed),
            "opens": list(self.opens),
            "runpath": list(self.runpath),
            "gpu_code": dict(sorted(self.gpu_code.items(), key=lambda item: (-item[1], item[0]))),
            "symbols": self.symbols,
            "compilers": list(self.compilers),
        }
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
            return _read_elf_facts(ELFFile(stream), data)
        except (
            ELFError,
            ConstructError,
            ValueError,
            AttributeError,
            AssertionError,
            TypeError,
            IndexError,
        ) as error:
            # pyelftools raises any of these for corrupt files.
            raise BinaryError(
                f"it is a corrupt ELF file ({error or type(error).__name__})"
            ) from error


def _check_header(data: mmap.mmap) -> None:
    """Raise BinaryError for other ELF files, and for an impossible section table."""
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


def _read_elf_facts(elf: Any, data: mmap.mmap) -> Binary:
    sections = {section.name: section for section in elf.iter_sections()}
    tags = _read_dynamic(elf)
    needed = [name for name in dict.fromkeys(tags.get("DT_NEEDED", [])) if name]
    runpath = (tags.get("DT_RUNPATH") or tags.get("DT_RPATH") or [""])[0]
    texts = (_get_span(sections[name], data) for name in _TEXTS if name in sections)
    opened = {name for text in texts for name in find_library_names(data, *text, SHARED)}
    return Binary(
        format="elf",
        machine=_MACHINES.get(elf["e_machine"], str(elf["e_machine"])),
        needed=tuple(needed),
        opens=tuple(sorted(opened - {*needed, *tags.get("DT_SONAME", [])})),
        # without repetitions
        runpath=tuple(dict.fromkeys(part for part in runpath.split(":") if part)),
        gpu_code=sum(
            (
                parse_fatbins(data, *_get_span(sections[name], data))
                for name in _GPU_SECTIONS
                if name in sections
            ),
            Counter[str](),
        ),
        symbols=find_newest_versions(_iterate_versions(sections.get(".gnu.version_r"))),
        compilers=(
            _read_compilers(data, *_get_span(sections[".comment"], data))
            if ".comment" in sections
            else ()
        ),
    )


def _get_span(section: Any, data: mmap.mmap) -> tuple[int, int]:
    """Return the start and end of a section in the file; equal for a section without bytes."""
    start, size = section["sh_offset"], section["sh_size"]
    if section["sh_type"] == "SHT_NOBITS":
        size = 0
    if start + size > len(data):
        raise BinaryError(f"its section {section.name} reaches beyond its end")
    return start, start + size


def _read_dynamic(elf: Any) -> dict[str, list[str]]:
    """Return the names in the dynamic section by tag."""
    names = {
        "DT_NEEDED": "needed",
        "DT_SONAME": "soname",
        "DT_RUNPATH": "runpath",
        "DT_RPATH": "rpath",
    }
    found: dict[str, list[str]] = {}
    for segment in islice(elf.iter_segments("PT_DYNAMIC"), 1):
        for number, tag in enumerate(segment.iter_tags()):
            if number >= _TAGS:
                raise BinaryError("its dynamic section is larger than any real library's")
            if tag.entry.d_tag in names:
                found.setdefault(tag.entry.d_tag, []).append(
                    str(getattr(tag, names[tag.entry.d_tag]))
                )
    return found


def _iterate_versions(section: Any) -> Iterator[str]:
    """Yield the symbol versions that a file needs: GLIBC_2.17."""
    count = 0
    for _, auxiliaries in section.iter_versions() if section is not None else ():
        for auxiliary in auxiliaries:
            count += 1
            if count > _VERSIONS:
                raise BinaryError("it needs more symbol versions than any real library")
            yield str(auxiliary.name)


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
    imported = sorted(set(_iterate_imports(image)), key=str.lower)
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


def _iterate_imports(image: Any) -> Iterator[str]:
    """Yield the libraries that it imports at start or on first use."""
    for table in ("DIRECTORY_ENTRY_IMPORT", "DIRECTORY_ENTRY_DELAY_IMPORT"):
        for entry in getattr(image, table, ()):
            yield entry.dll.decode("ascii", "replace")


def _get_pe_span(section: Any, data: mmap.mmap) -> tuple[int, int]:
    start, size = section.PointerToRawData, section.SizeOfRawData
    if start + size > len(data):
        raise BinaryError("a section reaches beyond its end")
    used = min(size, section.Misc_VirtualSize) if section.Misc_VirtualSize else size
    return start, start + used


_BINARY = r".*\.(so(\.\d+)*|pyd|dll)"


def choose_binaries(
    members: Iterable[zipfile.ZipInfo], framework: str
) -> tuple[list[zipfile.ZipInfo], int]:
    """Return the members to read, sorted by name, and the number of binaries in the wheel.

    A library with several names, libx.so and libx.so.1, is read once, under the longest. Nothing is
    claimed about the other binaries of a wheel.
    """
    binaries = [item for item in members if re.fullmatch(_BINARY, item.filename)]
    chosen: dict[tuple[str, int, int], zipfile.ZipInfo] = {}
    wanted = binary_names(framework)
    for item in sorted(binaries, key=lambda item: item.filename):
        if re.fullmatch(wanted, item.filename):
            chosen[item.filename.partition(".so")[0], item.CRC, item.file_size] = item
    return sorted(chosen.values(), key=lambda item: item.filename), len(binaries)


_LIMIT = 8 << 30  # bytes of one member unpacked; the largest real one has two
_CHUNK = 1 << 18
_SLOWEST = 50_000  # bytes per second over a whole member: slower servers time out


class Download:
    """One member of a wheel, as the directory of the wheel describes it."""

    def __init__(
        self,
        session: requests.Session,
        settings: IndexSettings,
        url: str,
        member: zipfile.ZipInfo,
        progress: Callable[[int], None] | None = None,  # gets the bytes of each chunk
    ) -> None:
        """Send nothing yet; raises ArtifactError for a member that no real wheel has."""
        if member.file_size > _LIMIT or member.compress_size > _LIMIT:
            raise OddWheelError(
                f"{member.filename} claims {member.file_size >> 20} MiB, more than any real library"
            )
        if (
            member.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
            or member.flag_bits & 1
        ):
            raise OddWheelError(f"{member.filename} has an unsupported compression")
        self.received = 0  # bytes of this run
        self._progress = progress
        self._session, self._settings, self._url, self._member = session, settings, url, member

    def fetch(self, part: Path) -> None:
        """Append the compressed bytes to an earlier run's `part`; retries a few times."""
        size = self._member.compress_size
        start = self._start()
        for attempt in range(self._settings.retries + 1):
            done = part.stat().st_size if part.exists() else 0
            if done == size:
                return
            if done > size:
                part.unlink()
                done = 0
            try:
                self._append(part, start + done, start + size - 1)
            except ArtifactError:
                if attempt == self._settings.retries:
                    raise

    def _start(self) -> int:
        """Return the offset of the compressed bytes, after the header of the member."""
        offset = self._member.header_offset
        fetcher = Fetcher(self._url, self._session, self._settings)
        data = fetcher.fetch((offset, offset + LOCAL_HEADER.size - 1)).read(LOCAL_HEADER.size)
        self.received += fetcher.received
        if len(data) != LOCAL_HEADER.size:
            raise ArtifactError("the response is incomplete")
        signature, name, extra = LOCAL_HEADER.unpack(data)
        if signature != b"PK\3\4":
            raise ArtifactError(
                f"{self._member.filename} is not where the directory of the wheel states"
            )
        return offset + LOCAL_HEADER.size + int(name) + int(extra)

    def _append(self, part: Path, first: int, last: int) -> None:
        """Append the bytes first..last of the wheel to a file.

        Bytes received before an error stay.
        """
        size = last - first + 1
        with open_range(
            self._session, self._settings, self._url, f"bytes={first}-{last}"
        ) as opened:
            if opened is None:
                raise ArtifactError("the server does not serve byte ranges")
            response, *served = opened
            if served != [first, size]:
                raise ArtifactError("the server sends other bytes than requested")
            self._write(part, response.iter_content(_CHUNK), size)

    def _write(self, part: Path, chunks: Iterator[bytes], size: int) -> None:
        end = time.monotonic() + self._settings.whole_timeout + size / _SLOWEST
        with part.open("ab") as stream:
            for chunk in chunks:
                stream.write(chunk[:size])
                self.received += len(chunk)
                if self._progress:
                    self._progress(len(chunk))
                size -= min(size, len(chunk))
                if time.monotonic() > end:
                    raise ArtifactError(f"{self._member.filename} timed out")
        if size:
            raise ArtifactError("the response is incomplete")

    def unpack(self, part: Path, target: Path, digest: str) -> None:
        """Unpack into `target`, bounded by the stated size; check size, CRC-32 and hash.

        `digest`: as RECORD states it, "" for none. Bytes that fail a check are deleted.
        """
        try:
            self._unpack(part, target, digest)
        except (OddWheelError, zlib.error) as error:
            with suppress(OSError):
                part.unlink()
            if isinstance(error, zlib.error):
                raise OddWheelError(
                    f"{self._member.filename} cannot be unpacked ({error})"
                ) from error
            raise

    def _unpack(self, part: Path, target: Path, digest: str) -> None:
        member, size, checksum, hashed = self._member, 0, 0, hashlib.sha256()
        with part.open("rb") as source, target.open("wb") as unpacked:
            packed = iter(lambda: source.read(_CHUNK), b"")
            for chunk in packed if member.compress_type == zipfile.ZIP_STORED else _inflate(packed):
                size += len(chunk)
                if size > member.file_size:
                    raise OddWheelError(
                        f"{member.filename} unpacks to more than the {member.file_size} bytes"
                        " stated"
                    )
                checksum = zlib.crc32(chunk, checksum)
                hashed.update(chunk)
                unpacked.write(chunk)
        if size != member.file_size:
            raise OddWheelError(
                f"{member.filename} unpacks to {size} bytes instead of {member.file_size}"
            )
        if checksum != member.CRC:
            raise OddWheelError(
                f"{member.filename} does not have the checksum that the directory states"
            )
        found = "sha256=" + base64.urlsafe_b64encode(hashed.digest()).rstrip(b"=").decode("ascii")
        if digest not in {"", found}:
            raise OddWheelError(f"{member.filename} does not have the hash that its RECORD states")


def _inflate(packed: Iterator[bytes]) -> Iterator[bytes]:
    """Unpack a raw deflate stream in chunks of at most _CHUNK bytes."""
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    for piece in packed:
        rest = piece
        while rest and not inflater.eof:
            yield inflater.decompress(rest, _CHUNK)
            rest = inflater.unconsumed_tail
    while not inflater.eof:
        chunk = inflater.decompress(inflater.unconsumed_tail, _CHUNK)
        if not chunk:
            raise zlib.error("it ends too early")
        yield chunk


def name_cached(framework: str, wheel: Wheel) -> str:
    """Name what is cached of a wheel.

    A companion's row of data may name other binaries to read than before.
    """
    if published_framework(framework):
        wanted = ""
    else:
        wanted = f"-{zlib.crc32(binary_names(framework).encode()):08x}"
    return f"{wheel.sha256}{wanted}"


Binaries = dict[str, Any]  # the cell `binaries` of the matrix
EDITION = "2"  # part of the folder's name: another edition reads other facts
_TAIL = 64 << 10


@dataclass
class DeepReader:
    """Reads the binaries of wheel after wheel over one connection, and counts bytes."""

    session: requests.Session
    settings: IndexSettings
    cache: Path | None  # folder of results and incomplete downloads; None: no cache
    received: int = 0  # bytes
    wheels_read: int = 0
    progress: Callable[[int], None] | None = None  # gets the bytes of each chunk

    def read(self, framework: str, wheel: Wheel) -> Binaries:
        """Return the facts of the sampled binaries of a wheel; raises ArtifactError."""
        from remotezip import RemoteZipError

        cached = self._read_cache(framework, wheel)
        if cached is not None:
            return cached
        try:
            with self._folder() as folder:
                found = self._read(framework, wheel, folder)
        except ArtifactError as error:
            raise type(error)(
                f"{wheel.filename} cannot be used: {str(error).rstrip('.')}."
            ) from error
        except (
            zipfile.BadZipFile,
            zlib.error,
            RemoteZipError,
            ValueError,
            EOFError,
            RuntimeError,
        ) as error:
            raise OddWheelError(
                f"{wheel.filename} is not a readable wheel: {error or 'it ends too early'}."
            ) from error
        except OSError as error:
            raise ArtifactError(
                f"{wheel.filename} cannot be saved while it is read: {error.strerror}."
            ) from error
        self.wheels_read += 1
        return found

    def _read(self, framework: str, wheel: Wheel, folder: Path) -> Binaries:
        members, record = self._directory(framework, wheel)
        sampled, count = choose_binaries(members, framework)
        parts = [
            folder / f"{wheel.sha256}-{sha256(item.filename.encode()).hexdigest()[:16]}.part"
            for item in sampled
        ]
        read = {}
        for member, part in zip(sampled, parts, strict=True):
            read[member.filename] = self._member(
                wheel, member, part, record.get(member.filename, "")
            )
        found = {"wheel": wheel.filename, "sha256": wheel.sha256, "binaries": count, "read": read}
        if self.cache:
            write_atomically(
                folder / f"{name_cached(framework, wheel)}.json",
                json.dumps(found, ensure_ascii=False),
            )
        for part in parts:
            part.unlink(missing_ok=True)
        return found

    def _directory(
        self, framework: str, wheel: Wheel
    ) -> tuple[list[zipfile.ZipInfo], dict[str, str]]:
        """Return the members of a wheel and the hashes that its RECORD states."""
        from remotezip import RemoteZip

        fetcher = Fetcher(wheel.url, self.session, self.settings)
        with RemoteZip(
            wheel.url, initial_buffer_size=_TAIL, fetcher=lambda *_, **__: fetcher
        ) as archive:
            record = choose_members(archive.namelist(), framework)["RECORD"]
            digests = parse_record(read_member(archive, record).decode("utf-8"))
            members = archive.infolist()
        self.received += fetcher.received
        return members, digests

    def _member(
        self, wheel: Wheel, member: zipfile.ZipInfo, part: Path, digest: str
    ) -> dict[str, Any]:
        download = Download(self.session, self.settings, wheel.url, member, self.progress)
        try:
            download.fetch(part)
        finally:
            self.received += download.received
        with tempfile.TemporaryDirectory(dir=part.parent) as folder:
            unpacked = Path(folder) / "member"
            download.unpack(part, unpacked, digest)
            try:
                return read_binary(unpacked).to_json()
            except BinaryError as error:
                raise OddWheelError(f"{member.filename}: {error}") from error

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        """Open the folder to work in: the cache, or a temporary one."""
        if self.cache is None:
            with tempfile.TemporaryDirectory() as folder:
                yield Path(folder)
            return
        self.cache.mkdir(parents=True, exist_ok=True)
        yield self.cache

    def _read_cache(self, framework: str, wheel: Wheel) -> Binaries | None:
        """Return what the cache has of a wheel; None for nothing or a broken file."""
        found: Any = None
        with suppress(OSError, ValueError):
            if self.cache:
                found = json.loads(
                    (self.cache / f"{name_cached(framework, wheel)}.json").read_text(
                        encoding="utf-8"
                    )
                )
        if (
            not isinstance(found, dict)
            or found.get("sha256") != wheel.sha256
            or not isinstance(found.get("read"), dict)
        ):
            return None
        return found


def lacks_counts(binaries: Binaries) -> bool:
    """Return whether an earlier edition read the binaries and kept no counts."""
    return any("architectures" in facts for facts in binaries.get("read", {}).values())


READ = r"\d+ of \d+ binaries"  # in the locator of a citation
_REMARK_OF = {  # the remark on a cell until binaries fill it
    "compiler": "The compiler was not read.",
    "compute_capabilities": "Compute capabilities were not read.",
    "glibc": "glibc was not read; the tag is not trusted.",
    "cuda": "CUDA was not read.",
    "cudnn": "cuDNN was not read.",
    "tensorrt": "TensorRT was not read.",
}


def derive_cells(framework: str, binaries: Binaries) -> Row:
    """Derive cells from the sampled binaries.

    GPU code, glibc, the compiler that all name, what the framework adds.
    """
    read = list(binaries["read"].values())
    floors = [item["symbols"]["GLIBC"] for item in read if "GLIBC" in item.get("symbols", {})]
    cells: Row = {
        "compiler": _find_compiler([set(item.get("compilers", ())) for item in read]),
        "compute_capabilities": list_supported(read),
        "glibc": max(floors, key=numbers, default=None),
        **(
            known.binary_cells(binaries["read"])
            if (known := published_framework(framework))
            else {}
        ),
    }
    return {cell: value for cell, value in cells.items() if value}


def _find_compiler(named: list[set[str]]) -> str | None:
    """Return the one compiler that every binary names, as the matrix writes it.

    Return None for none or several.

    {"GCC: (GNU) 11.2.1 20220127 (Red Hat 11.2.1-9)", "GCC: (GNU) 7.5.0"} -> GCC 11.2.1, if no other
    binary names 7.5.0 {"clang version 18.1.8", "GCC: (GNU) 9.3.1", "Linker: LLD 18.1.8"} -> clang
    18.1.8; GCC built the C runtime
    """
    shared = sorted(set.intersection(*named)) if named else []
    for name, pattern in (
        ("clang", r"(?:Ubuntu )?clang version (\d+(?:\.\d+)*)"),
        ("GCC", r"GCC: \(.*?\) (\d+(?:\.\d+)*)"),
    ):
        versions = {found[1] for found in (re.match(pattern, text) for text in shared) if found}
        if versions:
            return f"{name} {versions.pop()}" if len(versions) == 1 else None
    return None


def apply_binaries(
    framework: str, row: Row, binaries: Binaries, citations: dict[str, Any], today: str = ""
) -> None:
    """Put the facts of binaries into the row of their wheel.

    Cells of tier 1 and curated cells stay.

    `today`: the new date of the citation if the wheel was read just now.
    """
    before = derive_cells(framework, row["binaries"]) if "binaries" in row else {}
    cells = derive_cells(framework, binaries)
    for cell in [name for name in cells if name in row]:
        ours = row["proof"].get(cell) == "tier2" and row[cell] == before.get(cell)
        if not ours and row[cell] not in (None, []):
            del cells[cell]
    row.update(cells, binaries=binaries)
    row["proof"] = {**row["proof"], **dict.fromkeys(["binaries", *cells], "tier2")}
    answered = {_REMARK_OF[cell] for cell in cells if cell in _REMARK_OF}
    note = " ".join(item for item in sentences(row.pop("note", "")) if item not in answered)
    if note:
        row["note"] = note
    _update_citations(row, binaries, citations, today)


def _update_citations(row: Row, binaries: Binaries, citations: dict[str, Any], today: str) -> None:
    """Note in the wheel's citation that its binaries were read; remove older notes."""
    for name in [name for name in row["citations"] if "sha256" in citations[name]]:
        parts = [
            part for part in citations[name]["locator"].split(", ") if not re.fullmatch(READ, part)
        ]
        if citations[name]["sha256"] == binaries["sha256"]:
            parts.append(f"{len(binaries['read'])} of {binaries['binaries']} binaries")
            citations[name] = {**citations[name], **({"checked": today} if today else {})}
        if parts:
            citations[name] = {**citations[name], "locator": ", ".join(parts)}
        else:
            row["citations"].remove(name)


@lru_cache(maxsize=1)
def load_known_binaries() -> Mapping[str, Binaries]:
    """Map the hash of each wheel whose binaries the built-in matrix holds to their facts."""
    rows = iterate_rows({"releases": load_document()["releases"]})
    return {row["binaries"]["sha256"]: row["binaries"] for row in rows if "binaries" in row}

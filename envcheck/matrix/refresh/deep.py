"""Download the binaries of wheels, and keep what was read in them."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from envcheck.host.documents import parse_object
from envcheck.host.file_changes import write_atomically
from envcheck.matrix.companions import binary_names, published_framework
from envcheck.matrix.refresh.binaries import read_binary
from envcheck.matrix.refresh.binary_cells import Binaries
from envcheck.matrix.refresh.gpu_code import BinaryError
from envcheck.matrix.refresh.index import ArtifactError, Connection, OddWheelError, Wheel
from envcheck.matrix.refresh.wheel_contents import (
    LOCAL_HEADER,
    Fetcher,
    choose_members,
    open_range,
    open_wheel,
    parse_record,
    read_member,
    refuse_unreadable,
    write_digest,
)

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
        connection: Connection,
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
        self._progress = progress
        self._connection, self._url, self._member = connection, url, member

    def fetch(self, part: Path) -> None:
        """Append the compressed bytes to an earlier run's `part`; retries a few times."""
        size = self._member.compress_size
        start = self._start()
        retries = self._connection.settings.retries
        for attempt in range(retries + 1):
            done = part.stat().st_size if part.exists() else 0
            if done == size:
                return
            if done > size:
                part.unlink()
                done = 0
            try:
                self._append(part, start + done, start + size - 1)
            except ArtifactError:
                if attempt == retries:
                    raise

    def _start(self) -> int:
        """Return the offset of the compressed bytes, after the header of the member."""
        offset = self._member.header_offset
        fetcher = Fetcher(self._url, self._connection)
        data = fetcher.fetch((offset, offset + LOCAL_HEADER.size - 1)).read(LOCAL_HEADER.size)
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
        with open_range(self._connection, self._url, f"bytes={first}-{last}") as opened:
            if opened is None:
                raise ArtifactError("the server does not serve byte ranges")
            response, *served = opened
            if served != [first, size]:
                raise ArtifactError("the server sends other bytes than requested")
            self._write(part, response.iter_content(_CHUNK), size)

    def _write(self, part: Path, chunks: Iterator[bytes], size: int) -> None:
        end = time.monotonic() + self._connection.settings.whole_timeout + size / _SLOWEST
        with part.open("ab") as stream:
            for chunk in chunks:
                stream.write(chunk[:size])
                if self._progress:
                    self._progress(len(chunk))
                size -= min(size, len(chunk))
                if time.monotonic() > end:
                    raise ArtifactError(f"{self._member.filename} timed out")
        if size:
            raise ArtifactError("the response is incomplete")

    def unpack(self, part: Path, target: Path, digest: str) -> None:
        """Unpack into `target`, bounded by the stated size; check CRC-32 and hash.

        `digest`: as RECORD states it, "" for none. Bytes that fail a check are deleted.
        """
        hashed = hashlib.sha256()
        try:
            with (
                part.open("rb") as source,
                zipfile.ZipExtFile(source, "r", self._member) as packed,
                target.open("wb") as unpacked,
            ):
                while chunk := packed.read(_CHUNK):
                    hashed.update(chunk)
                    unpacked.write(chunk)
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            part.unlink()
            name = self._member.filename
            raise OddWheelError(f"{name} cannot be unpacked ({error})") from error
        if digest not in {"", write_digest(hashed)}:
            part.unlink()
            name = self._member.filename
            raise OddWheelError(f"{name} does not have the hash that its RECORD states")


def name_cached(framework: str, wheel: Wheel) -> str:
    """Name what is cached of a wheel.

    A companion's row of data may name other binaries to read than before.
    """
    if published_framework(framework):
        wanted = ""
    else:
        wanted = f"-{zlib.crc32(binary_names(framework).encode()):08x}"
    return f"{wheel.sha256}{wanted}"


@dataclass
class DeepReader:
    """Reads the binaries of wheel after wheel over one connection."""

    connection: Connection
    cache: Path | None  # folder of results and incomplete downloads; None: no cache
    progress: Callable[[int], None] | None = None  # gets the bytes of each chunk

    def read(self, framework: str, wheel: Wheel) -> Binaries:
        """Return the facts of the sampled binaries of a wheel; raises ArtifactError."""
        cached = self._read_cache(framework, wheel)
        if cached is not None:
            return cached
        try:
            with refuse_unreadable(wheel), self._folder() as folder:
                return self._read(framework, wheel, folder)
        except OSError as error:
            raise ArtifactError(
                f"{wheel.filename} cannot be saved while it is read: {error.strerror}."
            ) from error

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
        fetcher = Fetcher(wheel.url, self.connection)
        with open_wheel(wheel, fetcher) as archive:
            record = choose_members(archive.namelist(), framework)["RECORD"]
            digests = parse_record(read_member(archive, record).decode("utf-8"))
            members = archive.infolist()
        return members, digests

    def _member(
        self, wheel: Wheel, member: zipfile.ZipInfo, part: Path, digest: str
    ) -> dict[str, Any]:
        download = Download(self.connection, wheel.url, member, self.progress)
        download.fetch(part)
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
        found: Binaries = {}
        with suppress(OSError):
            if self.cache:
                path = self.cache / f"{name_cached(framework, wheel)}.json"
                found = parse_object(path.read_bytes())
        is_whole = isinstance(found.get("read"), dict)
        return found if is_whole and found.get("sha256") == wheel.sha256 else None

"""Stream one packed member of a wheel to disk, going on where an earlier run broke off, and unpack it in a stream."""

from __future__ import annotations

import base64
import hashlib
import struct
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from envcheck.matrix.renew.errors import ArtifactError
from envcheck.matrix.renew.session import plain_url, reason_of, refuse_downgrade, request_options
from envcheck.matrix.renew.settings import IndexSettings
from envcheck.matrix.renew.zip_members import Fetcher, parse_content_range

if TYPE_CHECKING:
    import requests

_LIMIT = 8 << 30  # bytes of one member unpacked; the largest real one has two
_CHUNK = 1 << 18
_SLOWEST = 50_000  # bytes a second, over a whole member: a server that drips more slowly is given up
_LOCAL_HEADER = struct.Struct("<4s22xHH")  # signature, length of the name, length of the extra field


class Download:
    """One member of one wheel, as the wheel's directory describes it."""

    def __init__(
        self,
        session: requests.Session,
        settings: IndexSettings,
        url: str,
        member: zipfile.ZipInfo,
        told: Callable[[int], None] | None = None,  # hears of the bytes of each piece
    ) -> None:
        """Prepare; nothing is sent yet. Raises ArtifactError for a member that no real wheel has."""
        if member.file_size > _LIMIT or member.compress_size > _LIMIT:
            raise ArtifactError(
                f"{member.filename} claims {member.file_size >> 20} MiB, more than any real library has"
            )
        if member.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED} or member.flag_bits & 1:
            raise ArtifactError(f"{member.filename} is packed in a way that is not read here")
        self.received = 0  # bytes of this run
        self._told = told
        self._session, self._settings, self._url, self._member = session, settings, url, member

    def fetch(self, part: Path) -> None:
        """Bring the packed bytes to `part`, appending to what an earlier run left there; tries again a few times."""
        size = self._member.compress_size
        start = self._start()
        for attempt in range(self._settings.retries + 1):
            have = part.stat().st_size if part.exists() else 0
            if have == size:
                return
            if have > size:
                part.unlink()
                have = 0
            try:
                self._append(part, start + have, start + size - 1)
            except ArtifactError:
                if attempt == self._settings.retries:
                    raise

    def _start(self) -> int:
        """Return where the packed bytes start, behind the member's own header."""
        offset = self._member.header_offset
        fetcher = Fetcher(self._url, self._session, self._settings)
        data = fetcher.fetch((offset, offset + _LOCAL_HEADER.size - 1)).read(_LOCAL_HEADER.size)
        self.received += fetcher.received
        if len(data) != _LOCAL_HEADER.size:
            raise ArtifactError("the answer broke off")
        signature, name, extra = _LOCAL_HEADER.unpack(data)
        if signature != b"PK\3\4":
            raise ArtifactError(f"{self._member.filename} is not where the directory says")
        return offset + _LOCAL_HEADER.size + int(name) + int(extra)

    def _append(self, part: Path, first: int, last: int) -> None:
        """Append the bytes first..last of the wheel to a file; what came before a break stays."""
        import requests

        headers = {"Range": f"bytes={first}-{last}", "Accept-Encoding": "identity"}
        options = request_options(self._settings, self._url)
        try:
            with self._session.get(self._url, headers=headers, stream=True, **options) as response:
                refuse_downgrade(response)
                response.raise_for_status()
                if response.status_code != requests.codes.partial_content:
                    raise ArtifactError("the server does not serve byte ranges")
                if parse_content_range(response.headers.get("Content-Range", "")) != (first, last - first + 1):
                    raise ArtifactError("the server sends other bytes than it was asked for")
                self._write(part, response.iter_content(_CHUNK), last - first + 1)
        except requests.RequestException as error:
            raise ArtifactError(f"{plain_url(self._url)}: {reason_of(error)}") from error

    def _write(self, part: Path, chunks: Iterator[bytes], size: int) -> None:
        end = time.monotonic() + self._settings.whole_timeout + size / _SLOWEST
        with part.open("ab") as stream:
            for chunk in chunks:
                stream.write(chunk[:size])
                self.received += len(chunk)
                if self._told:
                    self._told(len(chunk))
                size -= min(size, len(chunk))
                if time.monotonic() > end:
                    raise ArtifactError(f"{self._member.filename} did not come in time")
        if size:
            raise ArtifactError("the answer broke off")

    def unpack(self, part: Path, target: Path, digest: str) -> None:
        """Unpack into `target`, never more than the directory declares, and check size, CRC-32 and RECORD's hash.

        `digest`: as RECORD writes it, "" where it has none. Bytes that fail are not kept.
        """
        try:
            self._unpack(part, target, digest)
        except (ArtifactError, zlib.error) as error:
            with suppress(OSError):
                part.unlink()
            if isinstance(error, zlib.error):
                raise ArtifactError(f"{self._member.filename} cannot be unpacked ({error})") from error
            raise

    def _unpack(self, part: Path, target: Path, digest: str) -> None:
        member, size, checksum, hashed = self._member, 0, 0, hashlib.sha256()
        with part.open("rb") as source, target.open("wb") as unpacked:
            packed = iter(lambda: source.read(_CHUNK), b"")
            for chunk in packed if member.compress_type == zipfile.ZIP_STORED else _inflated(packed):
                size += len(chunk)
                if size > member.file_size:
                    raise ArtifactError(f"{member.filename} unpacks to more than the {member.file_size} bytes declared")
                checksum = zlib.crc32(chunk, checksum)
                hashed.update(chunk)
                unpacked.write(chunk)
        if size != member.file_size:
            raise ArtifactError(f"{member.filename} unpacks to {size} bytes instead of {member.file_size}")
        if checksum != member.CRC:
            raise ArtifactError(f"{member.filename} does not have the checksum that the directory gives")
        found = "sha256=" + base64.urlsafe_b64encode(hashed.digest()).rstrip(b"=").decode("ascii")
        if digest not in {"", found}:
            raise ArtifactError(f"{member.filename} does not have the hash that its RECORD gives")


def _inflated(packed: Iterator[bytes]) -> Iterator[bytes]:
    """Unpack a raw deflate stream in pieces of at most _CHUNK bytes, however much one piece would become."""
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    for piece in packed:
        waiting = piece
        while waiting and not inflater.eof:
            yield inflater.decompress(waiting, _CHUNK)
            waiting = inflater.unconsumed_tail
    while not inflater.eof:
        rest = inflater.decompress(inflater.unconsumed_tail, _CHUNK)
        if not rest:
            raise zlib.error("it ends too early")
        yield rest

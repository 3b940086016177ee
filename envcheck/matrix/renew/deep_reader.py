"""Read the sampled binaries of a wheel, from the index or from what an earlier run kept."""

from __future__ import annotations

import json
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envcheck.host.file_changes import write_atomically
from envcheck.matrix.deep.binary import read_binary
from envcheck.matrix.deep.errors import BinaryError
from envcheck.matrix.renew.contents import parse_record, wanted_members
from envcheck.matrix.renew.deep_sample import sampled_members
from envcheck.matrix.renew.deep_stream import Download
from envcheck.matrix.renew.errors import ArtifactError
from envcheck.matrix.renew.settings import IndexSettings
from envcheck.matrix.renew.wheels import Wheel
from envcheck.matrix.renew.zip_members import Fetcher, read_member

if TYPE_CHECKING:
    import requests

Binaries = dict[str, Any]  # the cell `binaries` of the matrix
EDITION = "1"  # part of the folder's name: another edition reads other facts
_TAIL = 64 << 10


@dataclass
class DeepReader:
    """Reads binaries one wheel after the other, over one connection; counts what it transfers."""

    session: requests.Session
    settings: IndexSettings
    cache: Path | None  # where readings and broken-off downloads are kept; None: nowhere
    received: int = 0  # bytes
    wheels_read: int = 0
    told: Callable[[int], None] | None = None  # hears of each piece's bytes while they come

    def read(self, framework: str, wheel: Wheel) -> Binaries:
        """Return what the sampled binaries of a wheel say; raises ArtifactError."""
        from remotezip import RemoteZipError

        kept = self._kept(wheel)
        if kept is not None:
            return kept
        try:
            with self._folder() as folder:
                found = self._read(framework, wheel, folder)
        except ArtifactError as error:
            raise ArtifactError(f"{wheel.filename} cannot be used: {str(error).rstrip('.')}.") from error
        except (zipfile.BadZipFile, zlib.error, RemoteZipError, ValueError, EOFError, RuntimeError) as error:
            raise ArtifactError(f"{wheel.filename} is no readable wheel: {error or 'it ends too early'}.") from error
        except OSError as error:
            raise ArtifactError(f"{wheel.filename} cannot be kept while it is read: {error.strerror}.") from error
        self.wheels_read += 1
        return found

    def _read(self, framework: str, wheel: Wheel, folder: Path) -> Binaries:
        members, record = self._directory(framework, wheel)
        sampled, count = sampled_members(members, framework)
        parts = [folder / f"{wheel.sha256}-{sha256(item.filename.encode()).hexdigest()[:16]}.part" for item in sampled]
        read = {}
        for member, part in zip(sampled, parts, strict=True):
            read[member.filename] = self._member(wheel, member, part, record.get(member.filename, ""))
        found = {"wheel": wheel.filename, "sha256": wheel.sha256, "binaries": count, "read": read}
        if self.cache:
            write_atomically(folder / f"{wheel.sha256}.json", json.dumps(found, ensure_ascii=False))
        for part in parts:
            part.unlink(missing_ok=True)
        return found

    def _directory(self, framework: str, wheel: Wheel) -> tuple[list[zipfile.ZipInfo], dict[str, str]]:
        """Return the members of a wheel and the hashes that its RECORD gives them."""
        from remotezip import RemoteZip

        fetcher = Fetcher(wheel.url, self.session, self.settings)
        with RemoteZip(wheel.url, initial_buffer_size=_TAIL, fetcher=lambda *_, **__: fetcher) as archive:
            record = wanted_members(archive.namelist(), framework)["RECORD"]
            digests = parse_record(read_member(archive, record).decode("utf-8"))
            members = archive.infolist()
        self.received += fetcher.received
        return members, digests

    def _member(self, wheel: Wheel, member: zipfile.ZipInfo, part: Path, digest: str) -> dict[str, Any]:
        download = Download(self.session, self.settings, wheel.url, member, self.told)
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
                raise ArtifactError(f"{member.filename}: {error}") from error

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        """Open the folder to work in: the cache, or one that is gone afterwards."""
        if self.cache is None:
            with tempfile.TemporaryDirectory() as folder:
                yield Path(folder)
            return
        self.cache.mkdir(parents=True, exist_ok=True)
        yield self.cache

    def _kept(self, wheel: Wheel) -> Binaries | None:
        """Return what the cache has of a wheel; what is broken there is as good as nothing."""
        found: Any = None
        with suppress(OSError, ValueError):
            if self.cache:
                found = json.loads((self.cache / f"{wheel.sha256}.json").read_text(encoding="utf-8"))
        if (
            not isinstance(found, dict)
            or found.get("sha256") != wheel.sha256
            or not isinstance(found.get("read"), dict)
        ):
            return None
        return found

"""Read a few members of a wheel over HTTP byte ranges, with bounds on everything a server or archive could inflate."""

from __future__ import annotations

import io
import zipfile
import zlib
from typing import TYPE_CHECKING, Any

from envcheck.matrix.renew.contents import Contents, checked_contents, wanted_members
from envcheck.matrix.renew.errors import ArtifactError
from envcheck.matrix.renew.session import plain_url, read_bounded, reason_of, refuse_downgrade, request_options
from envcheck.matrix.renew.settings import IndexSettings
from envcheck.matrix.renew.wheels import Wheel

if TYPE_CHECKING:
    import requests
    from remotezip import PartialBuffer

_TAIL = 64 << 10  # bytes fetched first: the end record and, in small wheels, the whole directory
_RANGE_LIMIT = 32 << 20  # bytes of one range: directories of real wheels stay below four megabytes
_MEMBER_LIMIT = 16 << 20  # bytes of one member unpacked: RECORD is the largest, below four megabytes


class Fetcher:
    """Fetch ranges of one file; `received` counts the bytes of all answers."""

    def __init__(self, url: str, session: requests.Session, settings: IndexSettings, **_: Any) -> None:
        """Prepare to fetch from `url`; nothing is sent yet."""
        self.received = 0
        self._url = url
        self._session = session
        self._settings = settings

    def fetch(self, data_range: tuple[int, int | None], stream: bool = False) -> PartialBuffer:  # noqa: ARG002, FBT001, FBT002 - what RemoteZip calls
        """Fetch first..last, or the last bytes for (-size, None), into a buffer RemoteZip reads from."""
        import requests
        from remotezip import PartialBuffer

        first, last = data_range
        if last is not None and last - first >= _RANGE_LIMIT:
            raise ArtifactError(f"its directory claims {last - first + 1} bytes, more than any real wheel has")
        asked = f"bytes={first}" if last is None else f"bytes={first}-{last}"
        try:
            answer = self._get(asked)
            if answer is None and last is None:  # a server that knows no ranges from the end
                size = self._size()
                answer = self._get(f"bytes={max(0, size + first)}-{size - 1}")
        except requests.RequestException as error:  # not let through: zipfile takes it for the end of the file
            raise ArtifactError(f"{plain_url(self._url)}: {reason_of(error)}") from error
        if answer is None:
            raise ArtifactError("the server does not serve byte ranges")
        start, data = answer
        self.received += len(data)
        return PartialBuffer(io.BytesIO(data), start, len(data), stream=False)

    def _get(self, asked: str) -> tuple[int, bytes] | None:
        """Return (offset, bytes) of a range; None where the server answers without ranges."""
        headers = {"Range": asked, "Accept-Encoding": "identity"}
        options = request_options(self._settings, self._url)
        with self._session.get(self._url, headers=headers, stream=True, **options) as response:
            refuse_downgrade(response)
            if response.status_code in {200, 416, 501}:
                return None
            response.raise_for_status()
            start, size = parse_content_range(response.headers.get("Content-Range", ""))
            if size > _RANGE_LIMIT:
                raise ArtifactError("the server answers with more than was asked for")
            data = read_bounded(response, _RANGE_LIMIT, self._settings.whole_timeout)
        if len(data) != size:
            raise ArtifactError("the answer broke off")
        return start, data

    def _size(self) -> int:
        options = request_options(self._settings, self._url)
        response = self._session.head(self._url, allow_redirects=True, **options)
        response.raise_for_status()
        return int(response.headers.get("Content-Length", "0"))


def parse_content_range(header: str) -> tuple[int, int]:
    """Read the offset and length of a range: "bytes 100-199/5000" -> (100, 100)."""
    kind, _, span = header.partition(" ")
    first, _, last = span.partition("/")[0].partition("-")
    if kind != "bytes" or not first.isdigit() or not last.isdigit() or int(last) < int(first):
        raise ArtifactError("the server does not say which bytes it sends")
    return int(first), int(last) - int(first) + 1


def read_wheel(
    session: requests.Session, settings: IndexSettings, wheel: Wheel, framework: str
) -> tuple[Contents, int]:
    """Read what matters of a wheel; return it with the number of bytes it took. Raises ArtifactError."""
    from remotezip import RemoteZipError

    fetcher = Fetcher(wheel.url, session, settings)
    try:
        return _read(fetcher, wheel, framework), fetcher.received
    except ArtifactError as error:
        raise type(error)(f"{wheel.filename} cannot be used: {str(error).rstrip('.')}.") from error
    except (zipfile.BadZipFile, zlib.error, RemoteZipError, ValueError, EOFError, OSError, RuntimeError) as error:
        raise ArtifactError(f"{wheel.filename} is no readable wheel: {error or 'it ends too early'}.") from error


def _read(fetcher: Fetcher, wheel: Wheel, framework: str) -> Contents:
    from remotezip import RemoteZip

    with RemoteZip(wheel.url, initial_buffer_size=_TAIL, fetcher=lambda *_, **__: fetcher) as archive:
        names = archive.namelist()
        chosen = wanted_members(names, framework)
        members = {key: read_member(archive, name) for key, name in chosen.items()}
        return checked_contents(wheel, chosen, members, len(names))


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Unpack one member, never more than the limit whatever its header says."""
    with archive.open(name) as stream:
        data = stream.read(_MEMBER_LIMIT + 1)
    if len(data) > _MEMBER_LIMIT:
        raise ArtifactError(f"{name} unpacks to more than {_MEMBER_LIMIT >> 20} MiB")
    return data

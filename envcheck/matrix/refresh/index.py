"""Read index pages, and the names of the wheels on them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from envcheck import __version__
from envcheck.actions.extras import require_extra
from envcheck.host.pip_settings import IndexSettings, SettingsError, read_connection_settings
from envcheck.model import UserError
from envcheck.model.text import remove_url_secrets

if TYPE_CHECKING:
    import requests


class ArtifactError(UserError):
    """An index page or wheel that could not be read.

    The message is one sentence that says which and why.
    """


class OddWheelError(ArtifactError):
    """A wheel that contradicts the index or its RECORD, or that nobody understands."""


class UnusableWheelError(OddWheelError):
    """A wheel that no installer takes under its name.

    It has no metadata, or that of another release.
    """


@dataclass(frozen=True)
class WheelName:
    """The parts of a wheel's file name."""

    distribution: str  # normalised
    version: str
    interpreters: tuple[str, ...]  # cp311, py3
    abis: tuple[str, ...]  # cp311, cp313t, none
    tags: tuple[str, ...]  # manylinux_2_17_x86_64

    @property
    def platforms(self) -> tuple[str, ...]:
        """List the platforms of the wheel, as the matrix names them."""
        return tuple(sorted({name for name in map(parse_platform, self.tags) if name}))

    @property
    def newest_python(self) -> tuple[int, int]:
        """Return the newest Python that the wheel is for: (3, 11)."""
        return max(map(_parse_python, self.interpreters))

    @property
    def oldest_pythons(self) -> tuple[tuple[int, int], ...]:
        """Return the oldest Pythons of tags that admit newer ones.

        (3, 0) of py3, (3, 9) of cp39-abi3.
        """
        tags = (tag for tag in self.interpreters if tag.startswith("py") or "abi3" in self.abis)
        return tuple(map(_parse_python, tags))


@dataclass(frozen=True)
class Wheel:
    """One wheel of an index page."""

    filename: str
    url: str
    sha256: str
    metadata_sha256: str  # "" if the index does not state it
    size: int | None  # bytes; None if the index does not state it
    yanked: bool
    name: WheelName
    yanked_reason: str = ""


_REASON = 150  # characters of a reason for yanking


@dataclass(frozen=True)
class Group:
    """All wheels of one release of a distribution on one platform."""

    distribution: str
    version: str
    platform: str
    wheels: tuple[Wheel, ...]  # oldest Python first
    left_out: tuple[Wheel, ...] = ()  # no installer takes them

    @property
    def representative(self) -> Wheel:
        """Return the wheel that is read for the group: that of the newest Python."""
        return self.wheels[-1]

    @property
    def tags(self) -> list[str]:
        """List the platform tags of all wheels."""
        return sorted({tag for wheel in self.wheels for tag in wheel.name.tags})

    @property
    def yanked(self) -> int:
        """Count the yanked wheels."""
        return sum(wheel.yanked for wheel in self.wheels)

    @property
    def yank_remark(self) -> str:
        """Say how many wheels are yanked, and why.

        "Yanked wheels: 2 of 9 (broken METADATA)."; "" for none.
        """
        reasons = {
            " ".join(wheel.yanked_reason[:_REASON].split()).rstrip(".") for wheel in self.wheels
        } - {""}
        why = ""
        if reasons:
            why = f" ({'; '.join(sorted(reasons))})".replace(". ", "; ")
        if self.yanked:
            return f"Yanked wheels: {self.yanked} of {len(self.wheels)}{why}."
        return ""

    def pythons(self, *, free_threaded: bool = False) -> list[str]:
        """List the Python minors in wheel names, except wheels for newer ones: py3, abi3."""
        found = set()
        for name in (wheel.name for wheel in self.wheels):
            is_free_threaded = any(abi.endswith("t") for abi in name.abis)
            if is_free_threaded != free_threaded or name.oldest_pythons:
                continue
            for tag in name.interpreters:
                if re.fullmatch(r"cp\d\d+", tag):
                    found.add(_parse_python(tag))
        return [f"{major}.{minor}" for major, minor in sorted(found)]

    def admits(self, python: str) -> bool:
        """Return whether a wheel whose name states only the oldest Python admits this minor."""
        major, minor = map(int, python.split("."))
        oldest = (item for wheel in self.wheels for item in wheel.name.oldest_pythons)
        return any(item[0] == major and item[1] <= minor for item in oldest)


def parse_wheel(filename: str) -> WheelName | None:
    """Parse the name of a wheel; None if it is not a wheel of a final, public release.

    tensorflow-2.15.0-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl
    """
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    try:
        name, version, _, tags = parse_wheel_filename(filename)
    except InvalidWheelFilename:
        return None
    if version.is_prerelease or version.is_devrelease or version.local:
        return None
    return WheelName(
        distribution=str(name),
        version=str(version),
        interpreters=tuple(sorted({tag.interpreter for tag in tags})),
        abis=tuple(sorted({tag.abi for tag in tags})),
        tags=tuple(sorted({tag.platform for tag in tags})),
    )


def group_wheels(wheels: Iterable[Wheel]) -> list[Group]:
    """Group wheels by distribution, version and platform.

    Platforms that the matrix does not know are skipped.
    """
    found: dict[tuple[str, str, str], list[Wheel]] = {}
    for wheel in wheels:
        for platform in wheel.name.platforms:
            found.setdefault((wheel.name.distribution, wheel.name.version, platform), []).append(
                wheel
            )
    return [
        Group(
            *key, tuple(sorted(members, key=lambda item: (item.name.newest_python, item.filename)))
        )
        for key, members in sorted(found.items())
    ]


def parse_platform(tag: str) -> str:
    """Return the platform of a tag.

    manylinux2014_x86_64 is linux_x86_64; "" if the matrix does not know it.
    """
    if tag in {"any", "win_amd64"}:
        return tag
    if "linux" in tag:
        for machine in ("x86_64", "aarch64"):
            if tag.endswith(machine):
                return f"linux_{machine}"
        return ""
    if tag.startswith("macosx"):
        if tag.endswith(("arm64", "universal2")):
            return "macosx_arm64"
        return "macosx_x86_64"
    return ""


def is_version(text: str) -> bool:
    """Return whether a text is a version."""
    from packaging.version import InvalidVersion, Version

    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def glibc_of(tags: Iterable[str]) -> str | None:
    """Return the lowest glibc that manylinux tags imply; None if no tag can be trusted.

    Wheels tagged manylinux1 were often built on newer systems, so that tag is ignored.
    """
    legacy = {"manylinux2010": (2, 12), "manylinux2014": (2, 17)}
    found = [legacy[name] for name in (tag.partition("_")[0] for tag in tags) if name in legacy]
    for tag in tags:
        named = re.match(r"manylinux_(\d+)_(\d+)_", tag)
        if named:
            found.append((int(named[1]), int(named[2])))
    trusted = [number for number in found if number > (2, 5)]
    return "{}.{}".format(*min(trusted)) if trusted else None


def _parse_python(tag: str) -> tuple[int, int]:
    """Parse an interpreter tag: cp311 -> (3, 11), py3 -> (3, 0)."""
    named = re.match(r"[a-z]+(\d)(\d*)", tag)
    return (int(named[1]), int(named[2] or 0)) if named else (0, 0)


CONNECTIONS = 8
_RETRY_STATUS = (429, 500, 502, 503, 504)  # answers worth trying again
_TIMED_OUT = "the request timed out"


def open_session(settings: IndexSettings) -> requests.Session:
    """Open a session with pip's settings."""
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3.util import Retry

    for name in (settings.ca_file, settings.client_certificate):
        if name and not Path(name).exists():
            raise SettingsError(
                f"pip is configured with the certificate {name}, which does not exist."
            )
    session = requests.Session()
    session.headers["User-Agent"] = f"envcheck/{__version__}"
    session.max_redirects = 10
    retry = Retry(
        settings.retries, backoff_factor=0.5, status_forcelist=_RETRY_STATUS, raise_on_status=False
    )
    adapter = HTTPAdapter(
        pool_connections=4, pool_maxsize=CONNECTIONS, pool_block=True, max_retries=retry
    )
    for scheme in ("https://", "http://"):
        session.mount(scheme, adapter)
    if settings.proxy:
        session.proxies.update({"http": settings.proxy, "https": settings.proxy})
    if settings.client_certificate:
        session.cert = settings.client_certificate
    return session


def build_request_options(settings: IndexSettings, url: str) -> dict[str, Any]:
    """Return the options of every request: timeouts, and how to check the server's certificate."""
    options: dict[str, Any] = {"timeout": (settings.connect_timeout, settings.read_timeout)}
    if settings.trusts(url):
        options["verify"] = False
    elif settings.ca_file:
        options["verify"] = settings.ca_file
    return options


def read_limited(response: requests.Response, limit: int, seconds: float) -> bytes:
    """Read a streamed response of at most `limit` bytes within `seconds`.

    Raises ArtifactError.
    """
    end, chunks, size = time.monotonic() + seconds, [], 0
    for chunk in response.iter_content(1 << 16):
        chunks.append(chunk)
        size += len(chunk)
        if size > limit:
            raise ArtifactError(
                f"{remove_url_secrets(response.url)} is larger than {limit >> 20} MiB; refused."
            )
        if time.monotonic() > end:
            raise ArtifactError(f"{remove_url_secrets(response.url)} timed out.")
    return b"".join(chunks)


def reject_downgrade(response: requests.Response) -> None:
    """Raise ArtifactError for a redirect from https to http."""
    schemes = [urlsplit(item.url).scheme for item in (*response.history, response)]
    if "https" in schemes and schemes[-1] == "http":
        raise ArtifactError(
            f"{remove_url_secrets(response.history[0].url)} redirects from https to http; refused."
        )


def describe_error(error: Exception) -> str:
    """Say in a few words why a request failed, without its URL."""
    import requests
    from requests import exceptions

    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"the server answered with status {error.response.status_code}"
    if "timed out" in str(error):  # the last of several timeouts has no class of its own
        return _TIMED_OUT
    known = {
        requests.Timeout: _TIMED_OUT,
        requests.TooManyRedirects: "too many redirects",
        exceptions.SSLError: "the certificate could not be verified",
        exceptions.ProxyError: "the proxy could not be used",
        requests.ConnectionError: "no connection",
    }
    found = (words for kind, words in known.items() if isinstance(error, kind))
    return next(found, "the response is incomplete or malformed")


_PAGE_LIMIT = 64 << 20  # bytes; the largest real pages are below two megabytes


class Connection:
    """A session with pip's settings, for one index and the wheels on it."""

    def __init__(self, settings: IndexSettings) -> None:
        """Open the session; raises SettingsError for a certificate that does not exist."""
        self.settings, self.session = settings, open_session(settings)

    @contextmanager
    def open(
        self,
        url: str,
        headers: Mapping[str, str],
        failure: str = "{url}: {why}",
        *,
        method: str = "GET",
    ) -> Iterator[requests.Response]:
        """Open a response whose content is not read yet; ArtifactError says `failure`."""
        import requests

        options = build_request_options(self.settings, url)
        try:
            with self.session.request(
                method, url, headers=headers, stream=True, **options
            ) as response:
                reject_downgrade(response)
                yield response
        except requests.RequestException as error:
            # not left to zipfile, which takes it for the end of the file
            words = failure.format(url=remove_url_secrets(url), why=describe_error(error))
            raise ArtifactError(words) from error

    def read(self, url: str, limit: int) -> bytes:
        """Read what an address holds, at most `limit` bytes; raises ArtifactError."""
        with self.open(url, {}, _UNREAD) as response:
            response.raise_for_status()
            return read_limited(response, limit, self.settings.whole_timeout)


_UNREAD = "{url} cannot be read: {why}."


def read_page(connection: Connection, distribution: str) -> list[Wheel] | None:
    """List the wheels of final releases on a distribution's page.

    Return None if the index has no such page.
    """
    import pypi_simple

    settings = connection.settings
    client = pypi_simple.PyPISimple(
        settings.url or pypi_simple.PYPI_SIMPLE_ENDPOINT, session=connection.session
    )
    address = client.get_project_url(distribution)
    headers = {"Accept": pypi_simple.ACCEPT_JSON_PREFERRED}
    with connection.open(address, headers, f"The index page {_UNREAD}") as response:
        if response.status_code == HTTPStatus.NOT_FOUND:
            return None
        response.raise_for_status()
        content = read_limited(response, _PAGE_LIMIT, settings.whole_timeout)
    packages = _parse_page(content, response, distribution)
    if not packages:
        raise ArtifactError(f"The index page {remove_url_secrets(address)} lists no file.")
    found = (_make_wheel(package, response.url, distribution) for package in packages)
    return [wheel for wheel in found if wheel is not None]


def read_release_files(connection: Connection, name: str, version: str) -> set[str] | None:
    """List the files of a release by its own document, beside the index pages.

    Return None if the index has none.

    https://host/simple/ has https://host/pypi/torch/2.11.0/json
    """
    import pypi_simple

    url = connection.settings.url or pypi_simple.PYPI_SIMPLE_ENDPOINT
    base = re.sub(r"/(simple/?)?$", "", url)
    try:
        document = json.loads(connection.read(f"{base}/pypi/{name}/{version}/json", _PAGE_LIMIT))
        return {str(file["filename"]) for file in document["urls"]}
    except (ArtifactError, ValueError, KeyError, TypeError):
        return None


def _parse_page(content: bytes, response: requests.Response, distribution: str) -> Sequence[Any]:
    """Parse a page by its content type."""
    from pypi_simple import ProjectPage, UnsupportedRepoVersionError

    kind = response.headers.get("content-type", "text/html").partition(";")[0].strip().lower()
    try:
        if kind == "application/vnd.pypi.simple.v1+json":
            return ProjectPage.from_json_data(json.loads(content), response.url).packages
        if kind in {"application/vnd.pypi.simple.v1+html", "text/html"}:
            if b"<html" in content.lower() and b"</html" not in content.lower():
                raise ArtifactError(
                    f"The index page {remove_url_secrets(response.url)} is incomplete:"
                    " it has no </html>."
                )
            return ProjectPage.from_html(distribution, content, response.url).packages
    except (ValueError, KeyError, TypeError, RecursionError, UnsupportedRepoVersionError) as error:
        raise ArtifactError(
            f"The index page {remove_url_secrets(response.url)} is not valid {kind}."
        ) from error
    raise ArtifactError(
        f"The index page {remove_url_secrets(response.url)} has the"
        f" content type {kind or 'none'}, which is no index page."
    )


def _make_wheel(package: Any, page: str, distribution: str) -> Wheel | None:
    """Build the wheel of a page entry.

    Return None for source archives, pre-releases and local versions.
    """
    parsed = parse_wheel(package.filename)
    if parsed is None or parsed.distribution != distribution:
        return None
    digest = package.digests.get("sha256", "")
    if len(digest) != 64:
        raise ArtifactError(
            f"The index gives no SHA-256 for {package.filename}, so the matrix cannot cite it."
        )
    if page.startswith("https:") and not package.url.lower().startswith("https:"):
        raise ArtifactError(f"The https index links to http for {package.filename}; refused.")
    return Wheel(
        filename=package.filename,
        url=package.url,
        sha256=digest.lower(),
        metadata_sha256=(package.metadata_digests or {}).get("sha256", "").lower(),
        size=package.size,
        yanked=package.is_yanked,
        name=parsed,
        yanked_reason=package.yanked_reason or "",
    )


_FETCH_SECONDS = 60.0  # for the whole response


def fetch_pinned(url: str, limit: int) -> bytes:
    """Fetch a URL such as https://host/matrix.json#sha256=<64 hex digits>, at most `limit` bytes.

    Raises ArtifactError for a URL without a hash, a failed transfer and another hash,
    MissingExtraError without the extra.
    """
    pin = parse_pin(url)
    address = url.partition("#")[0]
    content = fetch(address, limit)
    found = hashlib.sha256(content).hexdigest()
    if found != pin:
        raise ArtifactError(
            f"{remove_url_secrets(address)} has the SHA-256 {found}, not {pin}; refused."
        )
    return content


def fetch(address: str, limit: int) -> bytes:
    """Fetch at most `limit` bytes.

    Raises ArtifactError for a failed transfer, MissingExtraError without the extra.
    """
    require_extra("matrix", "A matrix from a URL")
    settings = replace(read_connection_settings(os.environ), whole_timeout=_FETCH_SECONDS)
    connection = Connection(settings)
    with connection.session:
        try:
            return connection.read(address, limit)
        except OSError as error:  # the certificate file does not exist
            words = _UNREAD.format(url=remove_url_secrets(address), why=describe_error(error))
            raise ArtifactError(words) from error


def parse_pin(url: str) -> str:
    """Return the SHA-256 at the end of a URL: https://host/matrix.json#sha256=<64 hex digits>."""
    address, _, fragment = url.partition("#")
    pin = re.fullmatch(r"sha256[=:]([0-9a-fA-F]{64})", fragment)
    if pin is None:
        reason = "its hash is not a SHA-256" if fragment else "it has no hash"
        name = remove_url_secrets(address)
        raise ArtifactError(
            f"{name} is not fetched: {reason}. "
            f"Write {name}#sha256=HASH with the 64 hexadecimal digits of its SHA-256."
        )
    if not urlsplit(address).hostname:
        raise ArtifactError(f"{address.partition('?')[0]} names no host.")
    return pin[1].lower()

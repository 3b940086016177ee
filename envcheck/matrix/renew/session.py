"""The one HTTP session of a renewal: at most eight connections, pip's TLS and proxy settings, patient retries."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from envcheck import __version__
from envcheck.matrix.renew.errors import ArtifactError, MissingLibraryError
from envcheck.matrix.renew.settings import IndexSettings

if TYPE_CHECKING:
    import requests

CONNECTIONS = 8
_BUSY = (429, 500, 502, 503, 504)  # answers worth trying again
_LATE = "it did not answer in time"


def open_session(settings: IndexSettings) -> requests.Session:
    """Open a session as pip's settings ask."""
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3.util import Retry

    session = requests.Session()
    session.headers["User-Agent"] = f"envcheck/{__version__}"
    session.max_redirects = 10
    retry = Retry(settings.retries, backoff_factor=0.5, status_forcelist=_BUSY, raise_on_status=False)
    adapter = HTTPAdapter(pool_connections=4, pool_maxsize=CONNECTIONS, pool_block=True, max_retries=retry)
    for scheme in ("https://", "http://"):
        session.mount(scheme, adapter)
    if settings.proxy:
        session.proxies.update({"http": settings.proxy, "https": settings.proxy})
    if settings.client_certificate:
        session.cert = settings.client_certificate
    return session


def require_libraries(
    names: Iterable[str] = ("requests", "pypi_simple", "remotezip", "platformdirs"), purpose: str = "Reading an index"
) -> None:
    """Raise MissingLibraryError, which says what to install, when a library that talks to a server is missing."""
    from importlib.util import find_spec

    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise MissingLibraryError(
            f"{purpose} needs {', '.join(missing)}, which this environment lacks. "
            "Install the extra that brings them: pip install 'envcheck-gpu[matrix]'"
        )


def request_options(settings: IndexSettings, url: str) -> dict[str, Any]:
    """Return what every request passes: timeouts, and how the server's certificate is checked."""
    options: dict[str, Any] = {"timeout": (settings.connect_timeout, settings.read_timeout)}
    if settings.trusts(url):
        options["verify"] = False
    elif settings.ca_file:
        options["verify"] = settings.ca_file
    return options


def read_bounded(response: requests.Response, limit: int, seconds: float) -> bytes:
    """Read a streamed answer of at most `limit` bytes within `seconds`, however slowly it drips."""
    end, taken, size = time.monotonic() + seconds, [], 0
    for chunk in response.iter_content(1 << 16):
        taken.append(chunk)
        size += len(chunk)
        if size > limit:
            raise ArtifactError(f"{plain_url(response.url)} answers with more than {limit >> 20} MiB; refused.")
        if time.monotonic() > end:
            raise ArtifactError(f"{plain_url(response.url)} did not answer in time.")
    return b"".join(taken)


def refuse_downgrade(response: requests.Response) -> None:
    """Refuse an answer that a secure address gave by sending us to an open one."""
    schemes = [urlsplit(item.url).scheme for item in (*response.history, response)]
    if "https" in schemes and schemes[-1] == "http":
        raise ArtifactError(f"{plain_url(response.history[0].url)} redirects from https to http; refused.")


def plain_url(url: str) -> str:
    """Return an address without user name, password and query, fit for a message."""
    parts = urlsplit(url)
    host = (parts.hostname or "") + (f":{parts.port}" if parts.port else "")
    return f"{parts.scheme}://{host}{parts.path}"


def reason_of(error: Exception) -> str:
    """Say in a few words why a request failed, without the address it carries."""
    import requests
    from requests import exceptions

    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"it answered with status {error.response.status_code}"
    if "timed out" in str(error):  # also how a timeout ends that was tried again
        return _LATE
    known = {
        requests.Timeout: _LATE,
        requests.TooManyRedirects: "it redirects in a circle",
        exceptions.SSLError: "its certificate could not be checked",
        exceptions.ProxyError: "the proxy could not be used",
        requests.ConnectionError: "no connection",
    }
    said = (words for kind, words in known.items() if isinstance(error, kind))
    return next(said, "the answer broke off or is not what it should be")

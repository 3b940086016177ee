"""Read a distribution's page on the primary index, HTML or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from envcheck.matrix.renew.errors import ArtifactError
from envcheck.matrix.renew.session import plain_url, read_bounded, reason_of, refuse_downgrade, request_options
from envcheck.matrix.renew.settings import IndexSettings
from envcheck.matrix.renew.wheels import Wheel, parse_wheel

if TYPE_CHECKING:
    import requests

_LIMIT = 64 << 20  # bytes; the largest real pages are below two megabytes


def read_page(session: requests.Session, settings: IndexSettings, distribution: str) -> list[Wheel] | None:
    """List the wheels of final releases on a distribution's page; None where the index has no such page."""
    import pypi_simple
    import requests

    client = pypi_simple.PyPISimple(settings.url or pypi_simple.PYPI_SIMPLE_ENDPOINT, session=session)
    address = client.get_project_url(distribution)
    headers = {"Accept": pypi_simple.ACCEPT_JSON_PREFERRED}
    try:
        with session.get(address, headers=headers, stream=True, **request_options(settings, address)) as response:
            if response.status_code == requests.codes.not_found:
                return None
            response.raise_for_status()
            refuse_downgrade(response)
            content = read_bounded(response, _LIMIT, settings.whole_timeout)
    except requests.RequestException as error:
        raise ArtifactError(f"The index page {plain_url(address)} cannot be read: {reason_of(error)}.") from error
    packages = _parse_page(content, response, distribution)
    if not packages:
        raise ArtifactError(f"The index page {plain_url(address)} lists no file at all.")
    found = (_wheel(package, response.url, distribution) for package in packages)
    return [wheel for wheel in found if wheel is not None]


def _parse_page(content: bytes, response: requests.Response, distribution: str) -> Sequence[Any]:
    """Read a page as the kind its content type says it is."""
    from pypi_simple import ProjectPage, UnsupportedRepoVersionError

    kind = response.headers.get("content-type", "text/html").partition(";")[0].strip().lower()
    try:
        if kind == "application/vnd.pypi.simple.v1+json":
            return ProjectPage.from_json_data(json.loads(content), response.url).packages
        if kind in {"application/vnd.pypi.simple.v1+html", "text/html"}:
            return ProjectPage.from_html(distribution, content, response.url).packages
    except (ValueError, KeyError, TypeError, RecursionError, UnsupportedRepoVersionError) as error:
        raise ArtifactError(f"The index page {plain_url(response.url)} is not the {kind} it says it is.") from error
    raise ArtifactError(
        f"The index page {plain_url(response.url)} is {kind or 'of no stated kind'}, not an index page."
    )


def _wheel(package: Any, page: str, distribution: str) -> Wheel | None:
    """Turn a line of a page into a wheel; None for source archives, pre-releases and local versions."""
    parsed = parse_wheel(package.filename)
    if parsed is None or parsed.distribution != distribution:
        return None
    digest = package.digests.get("sha256", "")
    if len(digest) != 64:
        raise ArtifactError(f"The index gives no SHA-256 for {package.filename}, so it cannot be cited.")
    if urlsplit(package.url).scheme != "https" and urlsplit(page).scheme == "https":
        raise ArtifactError(f"The index sends to an open address for {package.filename}; refused.")
    return Wheel(
        filename=package.filename,
        url=package.url,
        sha256=digest.lower(),
        metadata_sha256=(package.metadata_digests or {}).get("sha256", "").lower(),
        yanked=package.is_yanked,
        name=parsed,
    )

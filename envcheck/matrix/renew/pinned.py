"""Fetch a matrix whose user names its address together with its SHA-256; without the hash nothing is asked for."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from envcheck.matrix.renew.errors import ArtifactError
from envcheck.matrix.renew.session import (
    open_session,
    plain_url,
    read_bounded,
    reason_of,
    refuse_downgrade,
    request_options,
    require_libraries,
)
from envcheck.matrix.renew.settings import IndexSettings, connection_settings

if TYPE_CHECKING:
    import requests

_WHOLE = 60.0  # seconds for all of it, however slowly it drips


def fetch_pinned(url: str, limit: int) -> bytes:
    """Return what an address such as https://host/matrix.json#sha256=<64 hex digits> answers, at most `limit` bytes.

    Raises ArtifactError for an address without a hash, a failed transfer and content of another hash,
    MissingLibraryError where the library that fetches is not installed.
    """
    pin = parse_pin(url)
    require_libraries(("requests", "platformdirs"), "Fetching a matrix")
    settings = replace(connection_settings(os.environ), whole_timeout=_WHOLE)
    address = url.partition("#")[0]
    with open_session(settings) as session:
        content = _fetch(session, settings, address, limit)
    found = hashlib.sha256(content).hexdigest()
    if found != pin:
        raise ArtifactError(f"{plain_url(address)} has the SHA-256 {found}, not {pin} as was asked for; refused.")
    return content


def parse_pin(url: str) -> str:
    """Return the SHA-256 that ends an address: https://host/matrix.json#sha256=<64 hex digits>."""
    address, _, fragment = url.partition("#")
    pin = re.fullmatch(r"sha256[=:]([0-9a-fA-F]{64})", fragment)
    if pin is None:
        said = "is no SHA-256" if fragment else "is missing"
        raise ArtifactError(
            f"{plain_url(address)} is not fetched: the hash that pins it {said}. "
            f"Write {plain_url(address)}#sha256=HASH with the 64 hexadecimal digits of its SHA-256."
        )
    if not urlsplit(address).hostname:
        raise ArtifactError(f"{address.partition('?')[0]} names no host.")
    return pin[1].lower()


def _fetch(session: requests.Session, settings: IndexSettings, address: str, limit: int) -> bytes:
    import requests

    options = request_options(settings, address)
    try:
        with session.get(address, stream=True, **options) as response:
            response.raise_for_status()
            refuse_downgrade(response)
            return read_bounded(response, limit, settings.whole_timeout)
    except (requests.RequestException, OSError) as error:  # OSError: a certificate file that pip names and is not there
        raise ArtifactError(f"{plain_url(address)} cannot be read: {reason_of(error)}.") from error

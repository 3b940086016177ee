"""Tell why a server does not answer."""

from __future__ import annotations

import http.client
import os
import ssl
import urllib.error
import urllib.request
from typing import List, Tuple
from urllib.parse import urlsplit, urlunsplit

_SECONDS = 10.0


def find_connection_error(
    url: str,
    ca_file: str = "",
    proxy: str = "",
    trusted: Tuple[str, ...] = (),
    *,
    certificate: str = "",
) -> str:
    """Return why a server does not answer, "" where it does.

    A refusal is an answer, its own failure is not.
    """
    if ca_file and not os.path.isfile(ca_file):
        return f"the file of CA certificates {ca_file} does not exist"
    handlers: List[urllib.request.BaseHandler] = []
    if proxy:
        handlers += [urllib.request.ProxyHandler({"http": proxy, "https": proxy})]
    headers = {"User-Agent": "envcheck"}
    try:
        request = urllib.request.Request(_remove_credentials(url), method="HEAD", headers=headers)  # noqa: S310
        handlers.append(
            urllib.request.HTTPSHandler(
                context=_make_ssl_context(url, ca_file, trusted, certificate)
            )
        )
        urllib.request.build_opener(*handlers).open(request, timeout=_SECONDS).close()
    except urllib.error.HTTPError as error:
        # a small index does not support HEAD
        failed = error.code >= 500 and error.code != http.client.NOT_IMPLEMENTED
        return f"HTTP status {error.code}" if failed else ""
    except urllib.error.URLError as error:
        return str(error.reason)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return str(error) or type(error).__name__
    return ""


def _remove_credentials(url: str) -> str:
    """Remove name and password, which urllib would take for part of the host."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _make_ssl_context(
    url: str, ca_file: str, trusted: Tuple[str, ...], certificate: str
) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca_file or None)
    if certificate:
        context.load_cert_chain(certificate)
    if urlsplit(url).hostname in trusted:  # pip's option trusted-host
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context

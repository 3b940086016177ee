"""See whether a server answers at all, before work begins that needs it."""

from __future__ import annotations

import http.client
import os
import ssl
import urllib.error
import urllib.request
from typing import List, Tuple
from urllib.parse import urlsplit, urlunsplit


def why_unreachable(
    url: str,
    ca_file: str = "",
    proxy: str = "",
    trusted: Tuple[str, ...] = (),
    *,
    certificate: str = "",
    timeout: float = 10.0,
) -> str:
    """Say why a server gives no answer, or "": any answer but its own failure will do, a refusal too."""
    if ca_file and not os.path.isfile(ca_file):
        return f"the certificates that it is to be checked by, {ca_file}, are not there"
    handlers: List[urllib.request.BaseHandler] = []
    handlers += [urllib.request.ProxyHandler({"http": proxy, "https": proxy})] if proxy else []
    try:
        request = urllib.request.Request(_nameless(url), method="HEAD", headers={"User-Agent": "envcheck"})  # noqa: S310
        handlers.append(urllib.request.HTTPSHandler(context=_context(url, ca_file, trusted, certificate)))
        urllib.request.build_opener(*handlers).open(request, timeout=timeout).close()
    except urllib.error.HTTPError as error:
        failed = error.code >= 500 and error.code != http.client.NOT_IMPLEMENTED  # a small index knows no HEAD
        return f"it answers {error.code}" if failed else ""
    except urllib.error.URLError as error:
        return str(error.reason)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return str(error) or type(error).__name__
    return ""


def _nameless(url: str) -> str:
    """Take name and password out of an address, which urllib would take for the host: that it is refused will do."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _context(url: str, ca_file: str, trusted: Tuple[str, ...], certificate: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca_file or None)
    if certificate:
        context.load_cert_chain(certificate)
    if urlsplit(url).hostname in trusted:  # as pip is told
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context

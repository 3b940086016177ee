"""Hand pip's index, certificate and proxy settings to uv, which reads none of them."""

from __future__ import annotations

from collections.abc import Mapping

from envcheck.model.plans import RequirementSet

Options = tuple[tuple[str, ...], dict[str, str]]
_SCHEMES = ("http", "https", "file")  # of an index that uv can read
_PROXIES = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy")  # uv asks the narrower ones first


def index_options(wanted: RequirementSet, environment: Mapping[str, str]) -> Options:
    """Return uv's options and variables for a set: its own index alone, else the one pip is configured for.

    Raises ArtifactError for a configuration of pip that nothing can be read with.
    """
    from envcheck.matrix.refresh.pip_settings import read_pip_settings

    settings = read_pip_settings(environment, schemes=_SCHEMES)
    index = wanted.index or settings.url
    hosts = tuple(part for host in settings.trusted_hosts for part in ("--allow-insecure-host", host))
    named = {
        "SSL_CERT_FILE": settings.ca_file,
        "SSL_CLIENT_CERT": settings.client_certificate,
        **dict.fromkeys(_PROXIES, settings.proxy),
    }
    return (*(("--default-index", index) if index else ()), *hosts), {
        key: value for key, value in named.items() if value
    }

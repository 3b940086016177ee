"""Which page of an index a set of requirements begins with, as pip is configured."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from envcheck.model.plans import RequirementSet
from envcheck.model.records import dataclass


@dataclass(frozen=True)
class Page:
    """A page to ask for, and how; url "" where none has to be reached."""

    url: str = ""
    ca_file: str = ""
    certificate: str = ""
    proxy: str = ""
    trusted: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """Return the server's name, without what may be secret in its address."""
        return urlsplit(self.url).hostname or ""


def page_to_reach(wanted: RequirementSet, environment: Mapping[str, str]) -> Page:
    """Return the page of a set's first requirement: on its own index, else on pip's; none where pip asks no index."""
    from envcheck.matrix.renew.errors import ArtifactError
    from envcheck.matrix.renew.usual import usual_index

    try:
        from envcheck.matrix.renew.settings import is_on, pip_options, pip_settings

        if is_on(pip_options(environment).get("no-index", "")):
            return Page()
        settings = pip_settings(environment)
    except (ArtifactError, ImportError):  # a folder, or nobody here who reads pip's configuration
        return Page(_page(wanted.index, wanted))
    index = wanted.index or settings.url or usual_index()
    return Page(
        _page(index, wanted), settings.ca_file, settings.client_certificate, settings.proxy, settings.trusted_hosts
    )


def _page(index: str, wanted: RequirementSet) -> str:
    name = re.match(r"[A-Za-z0-9._-]*", wanted.requirements[0])
    return f"{index.rstrip('/')}/{name.group() if name else ''}/" if index else ""

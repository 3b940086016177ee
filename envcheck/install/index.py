"""Which server a set of requirements comes from, as pip is configured."""

from __future__ import annotations

from collections.abc import Mapping

from envcheck.model.plans import RequirementSet
from envcheck.model.records import dataclass


@dataclass(frozen=True)
class Index:
    """A server to ask; url "" where none has to be reached."""

    url: str = ""
    ca_file: str = ""
    trusted: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """Return the server's name without what may be secret in its address."""
        from urllib.parse import urlsplit

        return urlsplit(self.url).hostname or "the index"


def index_to_reach(wanted: RequirementSet, environment: Mapping[str, str]) -> Index:
    """Return the index of a set: its own, else the one pip is configured for; none where wheels lie in a folder."""
    from envcheck.matrix.renew.errors import ArtifactError

    if environment.get("PIP_NO_INDEX") or (environment.get("PIP_FIND_LINKS") and not wanted.index):
        return Index()
    try:
        from envcheck.matrix.renew.settings import pip_settings

        settings = pip_settings(environment)
    except (ArtifactError, ImportError):
        return Index(wanted.index)
    return Index(wanted.index or settings.url, settings.ca_file, settings.trusted_hosts)

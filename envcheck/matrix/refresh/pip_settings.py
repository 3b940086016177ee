"""Read pip's settings: the index, and how to connect to it."""

from __future__ import annotations

import configparser
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit


class ArtifactError(Exception):
    """An index page or wheel that could not be read; the message is one sentence that says which and why."""


class UnusableWheelError(ArtifactError):
    """A wheel that no installer takes under its name: it has no metadata, or that of another release."""


class MissingLibraryError(Exception):
    """The libraries that read an index are not installed; the message says how to install them."""


_ENDPOINT = r'^PYPI_SIMPLE_ENDPOINT\b[^=\n]*= "([^"\s]+)"'


def find_default_index() -> str:
    """Return the URL of the default index; "" if the library that knows it is not installed."""
    spec = find_spec("pypi_simple")
    if spec is None or not spec.origin:
        return ""
    # Importing the library takes longer than all other checks before an installation, so its source is searched.
    found = re.search(_ENDPOINT, Path(spec.origin).read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else _import_default_index()


def _import_default_index() -> str:
    from pypi_simple import PYPI_SIMPLE_ENDPOINT

    return str(PYPI_SIMPLE_ENDPOINT)


_SECTIONS = ("global", "download", "install")  # the later one wins, as for `pip install`


@dataclass(frozen=True)
class IndexSettings:
    """The primary index and how to connect; "" or empty: the default of the libraries."""

    url: str = ""
    ca_file: str = ""
    client_certificate: str = ""
    proxy: str = ""
    trusted_hosts: tuple[str, ...] = ()
    connect_timeout: float = 10.0
    read_timeout: float = 60.0
    whole_timeout: float = 180.0  # seconds for one page or one range
    retries: int = 3

    def trusts(self, url: str) -> bool:
        """Tell whether pip connects to this host without checking its certificate."""
        parts = urlsplit(url)
        return parts.hostname in self.trusted_hosts or f"{parts.hostname}:{parts.port}" in self.trusted_hosts


def read_pip_settings(
    environment: Mapping[str, str], prefix: str = sys.prefix, schemes: tuple[str, ...] = ("http", "https")
) -> IndexSettings:
    """Read pip's configuration of the primary index; extra indexes and find-links are ignored on purpose."""
    options = read_pip_options(environment, prefix)
    if is_true(options.get("no-index", "")):
        raise ArtifactError("pip is configured to use no index (no-index), so envcheck has nothing to read.")
    url = options.get("index-url", "").strip()
    if url and urlsplit(url).scheme not in schemes:
        readable = " and ".join(schemes)
        raise ArtifactError(f"pip's index has the scheme {urlsplit(url).scheme!r}; only {readable} can be read.")
    return replace(_build_settings(options), url=url)


def read_connection_settings(environment: Mapping[str, str], prefix: str = sys.prefix) -> IndexSettings:
    """Read how to connect to servers other than the index: certificates, proxy, timeouts."""
    return _build_settings(read_pip_options(environment, prefix))


def is_true(value: str) -> bool:
    """Tell whether pip reads a value as true."""
    return value.lower() in {"1", "true", "yes", "on"}


def read_pip_options(environment: Mapping[str, str], prefix: str = sys.prefix) -> dict[str, str]:
    """Read all options of pip's files and variables by their long names; raises ArtifactError for a broken file."""
    found: dict[str, str] = {}
    for path in _find_files(environment, prefix):
        found.update(_read(path))
    return {**found, **_read_environment(environment)}


def _build_settings(options: Mapping[str, str]) -> IndexSettings:
    defaults = IndexSettings()
    return IndexSettings(
        ca_file=options.get("cert", ""),
        client_certificate=options.get("client-cert", ""),
        proxy=options.get("proxy", ""),
        trusted_hosts=tuple(options.get("trusted-host", "").split()),
        read_timeout=_parse_number(options, ("timeout", "default-timeout"), defaults.read_timeout),
        retries=int(_parse_number(options, ("retries",), defaults.retries)),
    )


def _parse_number(options: Mapping[str, str], names: Iterable[str], default: float) -> float:
    """Read a number of seconds or retries; raises ArtifactError for another value, as pip does."""
    named = next((name for name in names if options.get(name)), "")
    if not named:
        return default
    try:
        found = float(options[named])
    except ValueError:
        found = -1.0
    if not 0 <= found < 1e6:
        raise ArtifactError(f"pip is configured with {named} = {options[named]!r}, which is not a valid number.")
    return found


def _find_files(environment: Mapping[str, str], prefix: str) -> Iterator[Path]:
    """Yield pip's configuration files, later ones override; PIP_CONFIG_FILE=/dev/null means none."""
    import platformdirs

    named = environment.get("PIP_CONFIG_FILE", "")
    if named == os.devnull:
        return
    name = "pip.ini" if sys.platform == "win32" else "pip.conf"
    site = platformdirs.site_config_dir("pip", appauthor=False, multipath=True)
    yield from (Path(folder) / name for folder in reversed(site.split(os.pathsep)))
    if sys.platform != "win32":
        yield Path("/etc") / name
    home = Path(environment.get("HOME") or Path.home())
    yield home / ("pip" if sys.platform == "win32" else ".pip") / name
    yield Path(platformdirs.user_config_dir("pip", appauthor=False, roaming=True)) / name
    yield Path(environment.get("VIRTUAL_ENV") or prefix) / name
    if named:
        yield Path(named)


def _read(path: Path) -> dict[str, str]:
    """Read one configuration file, {} if it is missing; raises ArtifactError for a broken one.

    [global]
    index-url = https://mirror.example/simple
    """
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return {}
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        reason = str(error).splitlines()[0]
        raise ArtifactError(f"pip's configuration file {path} cannot be read: {reason}") from error
    sections = [parser[name] for name in _SECTIONS if parser.has_section(name)]
    return {key.replace("_", "-"): value for section in sections for key, value in section.items()}


def _read_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Read PIP_INDEX_URL and the like; an empty variable counts as not set."""
    found = {key: value for key, value in environment.items() if key.startswith("PIP_") and value}
    return {key[len("PIP_") :].lower().replace("_", "-"): value for key, value in found.items()}

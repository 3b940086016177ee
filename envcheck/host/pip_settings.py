"""Read the settings of pip and uv: the index, and how to connect to it."""

from __future__ import annotations

import configparser
import io
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from zipfile import BadZipFile, ZipFile

from envcheck.host.documents import dig, parse_toml
from envcheck.host.pip_files import list_pip_files, parse_pip_file
from envcheck.host.protocol import Variables
from envcheck.model import UserError


class SettingsError(UserError):
    """A setting of pip or uv that cannot be used; the message is one sentence that names it."""


# has the line: PyPI = PackageIndex("https://host/", ...)
_PIP_INDEX = "pip/_internal/models/index.py"


def find_default_index() -> str:
    """Return the URL of the index that pip asks where none is configured.

    Return "" if no pip is here to tell it.
    """
    found = re.search(r'^PyPI = PackageIndex\(\s*"([^"\s]+)"', _read_pip_index(), re.MULTILINE)
    return f"{found[1].rstrip('/')}/simple" if found else ""


def _read_pip_index() -> str:
    """Read pip's module that names its index: this Python's, or that of ensurepip's wheel."""
    pip = find_spec("pip")
    try:
        if pip is not None and pip.origin:
            return Path(pip.origin).parents[1].joinpath(_PIP_INDEX).read_text(encoding="utf-8")
        for wheel in _list_bundled_pips():
            with ZipFile(wheel) as members:
                return members.read(_PIP_INDEX).decode("utf-8")
    except (OSError, BadZipFile, KeyError, UnicodeDecodeError):
        return ""
    return ""


def _list_bundled_pips() -> Iterator[Path]:
    """Yield the wheels of pip that ensurepip installs.

    Distributions keep them in a folder of their own.
    """
    import sysconfig  # 3 ms, and mostly pip is here

    ensurepip = find_spec("ensurepip")
    if ensurepip is None or not ensurepip.origin:
        return
    yield from Path(ensurepip.origin).with_name("_bundled").glob("pip-*.whl")
    named = sysconfig.get_config_var("WHEEL_PKG_DIR")
    if named:
        yield from Path(named).glob("pip-*.whl")


_SYSTEM = "windows" if sys.platform == "win32" else sys.platform
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
        """Return whether pip connects to this host without checking its certificate."""
        parts = urlsplit(url)
        return (
            parts.hostname in self.trusted_hosts
            or f"{parts.hostname}:{parts.port}" in self.trusted_hosts
        )


def read_pip_settings(
    environment: Variables, schemes: tuple[str, ...] = ("http", "https")
) -> IndexSettings:
    """Read pip's configuration of the primary index.

    Extra indexes and find-links are ignored on purpose.
    """
    options = read_pip_options(environment)
    if is_true(options.get("no-index", "")):
        raise SettingsError(
            "pip is configured to use no index (no-index), so envcheck has nothing to read."
        )
    url = options.get("index-url", "").strip()
    if url:
        _check_url(url, schemes)
    return replace(_build_settings(options), url=url)


def _check_url(url: str, schemes: tuple[str, ...]) -> None:
    """Raise SettingsError for an index URL that no request can be sent to."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError for a port that is none
    except ValueError as error:
        raise SettingsError(f"pip's index is not a valid URL: {str(error)[:200]}.") from error
    if parts.scheme not in schemes:
        raise SettingsError(
            f"pip's index has the scheme {parts.scheme!r};"
            f" only {' and '.join(schemes)} can be read."
        )
    if not parts.hostname and parts.scheme != "file":
        raise SettingsError("pip's index is not a valid URL: it names no host.")


def read_connection_settings(environment: Variables) -> IndexSettings:
    """Read how to connect to servers other than the index: certificates, proxy, timeouts."""
    return _build_settings(read_pip_options(environment))


def is_true(value: str) -> bool:
    """Return whether pip reads a value as true."""
    return value.lower() in {"1", "true", "yes", "on"}


def read_pip_options(environment: Variables) -> dict[str, str]:
    """Read all options of pip's files and variables by their long names.

    Raises SettingsError for a broken file.
    """
    found: dict[str, str] = {}
    for path in list_pip_files(environment, _SYSTEM, environment.get("VIRTUAL_ENV") or sys.prefix):
        found.update(_read(Path(path)))
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
    """Read a number of seconds or retries; raises SettingsError for another value, as pip does."""
    named = next(filter(options.get, names), "")
    if not named:
        return default
    try:
        found = float(options[named])
    except ValueError:
        found = -1.0
    if not 0 <= found < 1e6:
        raise SettingsError(
            f"pip is configured with {named} = {options[named]!r}, which is not a valid number."
        )
    return found


def _read(path: Path) -> dict[str, str]:
    """Read one configuration file, {} if it is missing; raises SettingsError for a broken one."""
    try:
        return parse_pip_file(path.read_text(encoding="utf-8"), _SECTIONS)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return {}
    except (OSError, ValueError) as error:
        raise SettingsError(f"pip's configuration file {path} cannot be read: {error}") from error


def _read_environment(environment: Variables) -> dict[str, str]:
    """Read PIP_INDEX_URL and the like; an empty variable counts as not set."""
    found = {key: value for key, value in environment.items() if key.startswith("PIP_") and value}
    return {key[len("PIP_") :].lower().replace("_", "-"): value for key, value in found.items()}


_UV_WORDS = {  # key of a uv.toml -> its variable; those that move packages elsewhere have none here
    "index-strategy": "UV_INDEX_STRATEGY",
    "keyring-provider": "UV_KEYRING_PROVIDER",
    "cache-dir": "UV_CACHE_DIR",
    "link-mode": "UV_LINK_MODE",
    "exclude-newer": "UV_EXCLUDE_NEWER",
    "python-install-mirror": "UV_PYTHON_INSTALL_MIRROR",
    "python-downloads": "UV_PYTHON_DOWNLOADS",
    "python-preference": "UV_PYTHON_PREFERENCE",
    "http-proxy": "HTTP_PROXY",
    "https-proxy": "HTTPS_PROXY",
    "no-proxy": "NO_PROXY",
}
_UV_SWITCHES = {
    "native-tls": "UV_NATIVE_TLS",
    "system-certs": "UV_SYSTEM_CERTS",
    "offline": "UV_OFFLINE",
    "no-cache": "UV_NO_CACHE",
}
# uv joins those of all files
_UV_LISTS = ("index", "extra-index-url", "find-links", "allow-insecure-host")


UV_MISLEADING = (  # variables that lead uv elsewhere than an environment and its indexes
    "UV_CONFIG_FILE",
    "UV_PROJECT",
    "UV_PROJECT_ENVIRONMENT",
    "UV_SYSTEM_PYTHON",
    "UV_TORCH_BACKEND",
    "UV_VENV_CLEAR",
    "UV_WORKING_DIR",
    "UV_WORKING_DIRECTORY",
)


def uv_variables(environment: Variables, folder: Path) -> dict[str, str]:
    """Return pip's settings and those of uv's files for a folder as variables of uv.

    uv reads none of pip's own.

    uv's own go before. Raises SettingsError for a broken file.
    """
    options = read_pip_options(environment)
    settings = read_connection_settings(environment)
    found = {
        "UV_FIND_LINKS": ",".join(options.get("find-links", "").split()),
        "UV_DEFAULT_INDEX": options.get("index-url", "").strip(),
        **_extra_indexes(options.get("extra-index-url", "").split()),
        "UV_CONSTRAINT": " ".join(options.get("constraint", "").split()),
        "UV_INSECURE_HOST": " ".join(settings.trusted_hosts),
        "SSL_CERT_FILE": settings.ca_file,
        "SSL_CLIENT_CERT": settings.client_certificate,
        "ALL_PROXY": settings.proxy,
        **(no_index_variables() if is_true(options.get("no-index", "")) else {}),
    }
    return {
        **{name: value for name, value in found.items() if value},
        **read_uv_variables(environment, folder),
    }


def _extra_indexes(urls: list[str]) -> dict[str, str]:
    """Hand over pip's further indexes, of which pip takes the best release wherever it lies."""
    if urls:
        return {"UV_EXTRA_INDEX_URL": " ".join(urls), "UV_INDEX_STRATEGY": "unsafe-best-match"}
    return {}


def read_uv_variables(environment: Variables, folder: Path) -> dict[str, str]:
    """Read uv's files, and return as variables which index they name and how to connect to it.

    Raises SettingsError for a broken file.
    """
    found = _read_uv_files(environment, folder)
    indexes = found.get("index", [])
    default = next(
        (item["url"] for item in indexes if item.get("default")), found.get("index-url", "")
    )
    extra = [
        _name_index(item)
        for item in indexes
        if not item.get("default") and not item.get("explicit")
    ]
    variables = {
        "UV_DEFAULT_INDEX": default,
        "UV_INDEX": " ".join([*extra, *found.get("extra-index-url", [])]),
        "UV_FIND_LINKS": ",".join(found.get("find-links", [])),
        "UV_INSECURE_HOST": " ".join(found.get("allow-insecure-host", [])),
        **{variable: str(found.get(name, "")) for name, variable in _UV_WORDS.items()},
        **{variable: "1" if found.get(name) else "" for name, variable in _UV_SWITCHES.items()},
        **(no_index_variables() if found.get("no-index") else {}),
    }
    return {name: value for name, value in variables.items() if value}


_UV_BOUNDS = {"constraint-dependencies": "UV_CONSTRAINT", "override-dependencies": "UV_OVERRIDE"}


def read_uv_bounds(environment: Variables, folder: Path) -> dict[str, str]:
    """Read the constraints and overrides of uv's files.

    For each variable that names such a file, the file's text.

    Raises SettingsError for a broken file.
    """
    found = _read_uv_files(environment, folder)
    return {
        _UV_BOUNDS[name]: "".join(f"{each}\n" for each in found[name])
        for name in _UV_BOUNDS
        if found.get(name)
    }


def _read_uv_files(environment: Variables, folder: Path) -> dict[str, Any]:
    """Join the options of uv's files; the nearest file goes before."""
    found: dict[str, Any] = {}
    for path in _find_uv_files(environment, folder):
        options = _read_uv_file(path)
        joined = {name: [*found.get(name, []), *options.get(name, [])] for name in _UV_LISTS}
        found = {**options, **found, **{name: values for name, values in joined.items() if values}}
    return found


def no_index_variables() -> dict[str, str]:
    """Return the environment variables that stop uv from using any index.

    UV_OFFLINE alone would let it use its cache of an index.
    """
    return {"UV_OFFLINE": "1", "UV_DEFAULT_INDEX": Path(sys.prefix, "no-index").as_uri()}


def _name_index(index: Mapping[str, Any]) -> str:
    if index.get("name"):
        return f"{index['name']}={index['url']}"
    return str(index["url"])


def _find_uv_files(environment: Variables, folder: Path) -> Iterator[Path]:
    """Yield the files that uv reads for a folder.

    The project's, the user's, the system's; the first one wins.
    """
    if environment.get("UV_CONFIG_FILE"):
        yield Path(environment["UV_CONFIG_FILE"])
        return
    if is_true(environment.get("UV_NO_CONFIG", "")):
        return
    for place in (folder.absolute(), *folder.absolute().parents):
        named = [path for path in (place / "uv.toml", place / "pyproject.toml") if path.is_file()]
        if named and (named[0].name == "uv.toml" or _read_uv_table(named[0]) is not None):
            yield named[0]
            break
    user, of_system = _list_uv_folders(environment)
    for candidates in ([user], of_system):
        found = [Path(place) / "uv" / "uv.toml" for place in candidates if place]
        yield from [path for path in found if path.is_file()][:1]


def _list_uv_folders(environment: Variables) -> tuple[str, list[str]]:
    """Return the folder of the user's settings and those of the system's.

    uv takes the first that has a file.

    Source: https://docs.astral.sh/uv/concepts/configuration-files/
    """
    if _SYSTEM == "windows":
        return environment.get("APPDATA", ""), [environment.get("PROGRAMDATA", r"C:\ProgramData")]
    home = environment.get("HOME", "")
    user = environment.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else "")
    return user, [*environment.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":"), "/etc"]


def _read_uv_file(path: Path) -> dict[str, Any]:
    """Read the options of one file as `uv pip` does; its table `pip` goes before.

    index-url = "https://mirror.example/simple"
    [[index]]
    name = "corp"
    url = "https://corp.example/simple"
    [pip]
    extra-index-url = ["https://other.example/simple"]
    """
    options = _read_uv_table(path) or {}
    table = options.get("pip", {})
    for item in options.get("index", []):
        if not isinstance(item, dict) or "url" not in item:
            raise SettingsError(f"uv's configuration file {path} has an index without a URL.")
    return {**options, **table} if isinstance(table, dict) else options


def _read_uv_table(path: Path) -> dict[str, Any] | None:
    """Read a uv.toml, or the table [tool.uv] of a pyproject.toml: None where it has none."""
    try:
        found = parse_toml(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError(f"uv's configuration file {path} cannot be read: {error}") from error
    if path.name != "pyproject.toml":
        return found
    table = dig(found, "tool", "uv")
    return table if isinstance(table, dict) else None


def without_options(text: str, names: Iterable[str]) -> str:
    """Return a pip file in which options have no value, and so none in earlier files.

    Raises SettingsError for a broken one.
    """
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise SettingsError(
            f"pip's configuration file cannot be read: {str(error).splitlines()[0]}"
        ) from error
    for name in (*_SECTIONS, "uninstall"):
        if not parser.has_section(name):
            parser.add_section(name)
    for section in parser.values():
        for key in list(section):
            if key.replace("_", "-") in names:
                del section[key]
        if section.name != parser.default_section:
            section.update(dict.fromkeys(names, ""))
    written = io.StringIO()
    parser.write(written)
    return written.getvalue()

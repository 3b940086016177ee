"""Read how pip and conda are configured: which indexes and channels they install from."""

from __future__ import annotations

import re
from typing import Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from envcheck.host.protocol import Host
from envcheck.model import Absent, Fact, Known, Source, Unknown
from envcheck.probes.toolkit_places import join_path

PIP_KEYS = (
    "index-url",
    "extra-index-url",
    "no-index",
    "find-links",
    "only-binary",
    "no-binary",
    "prefer-binary",
    "user",
    "require-virtualenv",
)
_OFF = ("/dev/null", "nul", "NUL")  # PIP_CONFIG_FILE set to this switches every file off


def read_pip_configuration(host: Host) -> Fact[Mapping[str, str]]:
    """Return what pip install would go by: global, user and environment files, then PIP_* variables."""
    files = tuple(_pip_files(host))
    values, read, unread = _merged(host, files, parse_pip_configuration)
    for key in PIP_KEYS:
        variable = "PIP_" + key.upper().replace("-", "_")
        if host.environment().get(variable):
            values[key] = remove_credentials(host.environment()[variable])
            read.append(variable)
    return _configuration(values, read, files, unread)


def parse_pip_configuration(text: str) -> Dict[str, str]:
    """Return the keys pip install reads, [install] over [global]; credentials and secrets are left out.

    [global]
    index-url = https://name:secret@pypi.example.org/simple
    extra-index-url =
        https://download.example.org/whl/cu126
        https://download.example.org/whl/cpu
    """
    sections: Dict[str, Dict[str, str]] = {"global": {}, "install": {}}
    current: Dict[str, str] = {}
    key = ""
    for line in text.split("\n"):
        if not line.strip() or line.lstrip().startswith(("#", ";")):
            continue
        header = re.search(r"^\[([^\]]+)\]", line)
        if header:
            current, key = sections.setdefault(header.group(1).strip().lower(), {}), ""
        elif line[0].isspace() and key:
            current[key] = (current[key] + " " + line.strip()).strip()
        elif re.search(r"[=:]", line):
            name, value = re.split(r"[=:]", line, maxsplit=1)
            key = name.strip().lower().replace("_", "-")
            current[key] = value.strip()
    merged = {**sections["global"], **sections["install"]}
    return {name: remove_credentials(merged[name]) for name in PIP_KEYS if name in merged}


def read_conda_configuration(host: Host) -> Fact[Mapping[str, str]]:
    """Return channels and channel priority from the .condarc files, the later ones winning."""
    files = tuple(_conda_files(host))
    values, read, unread = _merged(host, files, parse_condarc)
    return _configuration(values, read, files, unread)


def parse_condarc(text: str) -> Dict[str, str]:
    """Return channels (separated by spaces, in order) and channel_priority of a .condarc.

    channels:
      - conda-forge
      - https://conda.example.org/t/SECRET/nvidia
    channel_priority: strict
    """
    values: Dict[str, str] = {}
    block = re.search(r"^channels[ \t]*:[ \t]*(\[[^\]]*\]|(?:\s*\n[ \t]*-[ \t]*[^\n]+)+)", text, re.MULTILINE)
    if block:
        names = re.findall(r"[^\s,\[\]'\"]+", re.sub(r"(?m)#.*$|^[ \t]*-[ \t]", "", block.group(1)))
        values["channels"] = remove_credentials(" ".join(names))
    priority = re.search(r"^channel_priority[ \t]*:[ \t]*(\w+)", text, re.MULTILINE)
    if priority:
        values["channel_priority"] = priority.group(1)
    return values


def remove_credentials(text: str) -> str:
    """Cut user names, passwords, tokens and query strings out of the URLs in a value."""
    text = re.sub(r"([a-zA-Z][\w+.-]*://)[^/\s]*@", r"\1", text)
    text = re.sub(r"(://[^\s?#]*)[?#]\S*", r"\1", text)
    return re.sub(r"(://[^\s]*?/t/)[^/\s]+", r"\1<token>", text)


def _merged(
    host: Host, files: Tuple[str, ...], parse: Callable[[str], Mapping[str, str]]
) -> Tuple[Dict[str, str], List[str], Optional[Unknown]]:
    """Read configuration files, the later ones winning: the values, the files read, the last that could not be."""
    values: Dict[str, str] = {}
    read: List[str] = []
    unread: Optional[Unknown] = None
    for path in files:
        text = host.read_text(path)
        if isinstance(text, Known):
            values.update(parse(text.value))
            read.append(path)
        elif isinstance(text, Unknown):
            unread = text
    return values, read, unread


def _configuration(
    values: Mapping[str, str], read: List[str], files: Tuple[str, ...], unread: Optional[Unknown]
) -> Fact[Mapping[str, str]]:
    if unread is not None:
        return unread
    return Known(values, Source("file", ", ".join(read))) if read else Absent(files)


def _pip_files(host: Host) -> Iterator[str]:
    environment = host.environment()
    chosen = environment.get("PIP_CONFIG_FILE", "")
    if chosen in _OFF:
        return
    home = environment.get("HOME") or environment.get("USERPROFILE") or ""
    if host.system == "windows":
        yield join_path(host, environment.get("PROGRAMDATA", r"C:\ProgramData"), "pip", "pip.ini")
        for folder in (
            join_path(host, home, "pip") if home else "",
            join_path(host, environment.get("APPDATA", ""), "pip"),
        ):
            yield join_path(host, folder, "pip.ini")
    else:
        for folder in environment.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":"):
            yield f"{folder}/pip/pip.conf"
        yield "/etc/pip.conf"
        if home:
            yield from _pip_home_files(host, home)
    prefix = environment.get("VIRTUAL_ENV") or environment.get("CONDA_PREFIX")
    if prefix:
        yield join_path(host, prefix, "pip.ini" if host.system == "windows" else "pip.conf")
    if chosen:
        yield chosen


def _pip_home_files(host: Host, home: str) -> Iterator[str]:
    yield f"{home}/.pip/pip.conf"
    if host.system == "darwin":
        yield f"{home}/Library/Application Support/pip/pip.conf"
    yield f"{host.environment().get('XDG_CONFIG_HOME') or home + '/.config'}/pip/pip.conf"


def _conda_files(host: Host) -> Iterator[str]:
    environment = host.environment()
    home = environment.get("HOME") or environment.get("USERPROFILE") or ""
    if host.system != "windows":
        yield from ("/etc/conda/.condarc", "/var/lib/conda/.condarc")
    user = join_path(host, home, ".conda") if home else ""
    for folder in (environment.get("CONDA_ROOT"), user, home, environment.get("CONDA_PREFIX")):
        if folder:
            yield join_path(host, folder, ".condarc")
    if environment.get("CONDARC"):
        yield environment["CONDARC"]

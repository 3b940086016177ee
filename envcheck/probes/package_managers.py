"""Read the configuration of pip and conda, and the packages that dpkg installed."""

from __future__ import annotations

import re
from typing import Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from envcheck.host.paths import join_path
from envcheck.host.pip_files import list_pip_files, parse_pip_file
from envcheck.host.protocol import Host
from envcheck.model import Absent, Fact, Known, Unknown, from_file
from envcheck.model.text import remove_url_secrets

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


def read_pip_configuration(host: Host) -> Fact[Mapping[str, str]]:
    """Return the options of pip install.

    From global, user and environment files, then PIP_* variables.
    """
    environment = host.environment()
    prefix = environment.get("VIRTUAL_ENV") or environment.get("CONDA_PREFIX") or ""
    files = tuple(list_pip_files(environment, host.system, prefix))
    variables = {f"PIP_{key.upper().replace('-', '_')}": key for key in PIP_KEYS}
    return _read_files(host, files, parse_pip_configuration, variables)


def parse_pip_configuration(text: str) -> Dict[str, str]:
    """Parse the options of pip install, [install] over [global], without credentials and secrets.

    [global]
    index-url = https://name:secret@pypi.example.org/simple
    extra-index-url =
        https://download.example.org/whl/cu126
        https://download.example.org/whl/cpu
    """
    try:
        found = parse_pip_file(text, ("global", "install"))
    except ValueError:
        return {}
    return {
        name: remove_url_secrets(" ".join(found[name].split()))
        for name in PIP_KEYS
        if name in found
    }


def read_conda_configuration(host: Host) -> Fact[Mapping[str, str]]:
    """Return channels and channel priority from the .condarc files; later files take precedence."""
    return _read_files(host, tuple(_list_conda_files(host)), parse_condarc, {})


def parse_condarc(text: str) -> Dict[str, str]:
    """Parse channels (separated by spaces, in order) and channel_priority in a .condarc.

    channels:
      - conda-forge
      - https://conda.example.org/t/SECRET/nvidia
    channel_priority: strict
    """
    values: Dict[str, str] = {}
    block = re.search(
        r"^channels[ \t]*:[ \t]*(\[[^\]]*\]|(?:\s*\n[ \t]*-[ \t]*[^\n]+)+)", text, re.MULTILINE
    )
    if block:
        names = re.findall(r"[^\s,\[\]'\"]+", re.sub(r"(?m)#.*$|^[ \t]*-[ \t]", "", block.group(1)))
        values["channels"] = remove_url_secrets(" ".join(names))
    priority = re.search(r"^channel_priority[ \t]*:[ \t]*(\w+)", text, re.MULTILINE)
    if priority:
        values["channel_priority"] = priority.group(1)
    return values


def _read_files(
    host: Host,
    files: Tuple[str, ...],
    parse: Callable[[str], Mapping[str, str]],
    variables: Mapping[str, str],
) -> Fact[Mapping[str, str]]:
    """Return the values of configuration files, and of the variables that go before them."""
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
    for variable, key in variables.items():
        if host.environment().get(variable):
            values[key] = remove_url_secrets(host.environment()[variable])
            read.append(variable)
    if unread is not None:
        return unread
    return from_file(values, ", ".join(read)) if read else Absent(files)


def _list_conda_files(host: Host) -> Iterator[str]:
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


DPKG_STATUS = "/var/lib/dpkg/status"
_DPKG_BYTES = 32 << 20  # a desktop with 5,000 packages has 8 MB


def read_dpkg_packages(host: Host, name_pattern: str) -> Fact[Mapping[str, str]]:
    """Return name -> version of the installed packages whose whole names match a pattern.

    Known and empty for none.
    """
    text = host.read_text(DPKG_STATUS, _DPKG_BYTES)
    if not isinstance(text, Known):
        return text
    packages = parse_dpkg_status(text.value, name_pattern)
    return from_file(packages, DPKG_STATUS, ", ".join(packages)[:200])


def parse_dpkg_status(text: str, name_pattern: str) -> Dict[str, str]:
    """Parse name -> version of the installed packages in dpkg's status file.

    Package: libcudnn8
    Status: install ok installed
    Version: 8.9.2.26-1+cuda12.1

    The stanza of a removed package remains, with another status.
    """
    packages: Dict[str, str] = {}
    text = f"\n{text}\n\n"
    for match in re.finditer(rf"\nPackage: ({name_pattern})\n", text):
        stanza = text[match.end() - 1 : text.index("\n\n", match.end() - 1)]
        version = re.search(r"^Version: (\S+)", stanza, re.MULTILINE)
        if version and re.search(r"^Status: \S+ \S+ installed$", stanza, re.MULTILINE):
            packages[match.group(1)] = version.group(1)
    return packages

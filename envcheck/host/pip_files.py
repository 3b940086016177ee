"""Find the configuration files of pip.

What reads them, host/pip_settings.py, takes 5 ms to import.
"""

from __future__ import annotations

from typing import Iterator

from envcheck.host.protocol import Variables

_NO_FILES = ("/dev/null", "nul", "NUL")  # values of PIP_CONFIG_FILE that disable all files


def list_pip_files(environment: Variables, system: str, prefix: str = "") -> Iterator[str]:
    """Yield the paths that pip reads its configuration from on a system, later ones override.

    `prefix` is the environment's folder. Source:
    https://pip.pypa.io/en/stable/topics/configuration/#location
    """
    named = environment.get("PIP_CONFIG_FILE", "")
    if named in _NO_FILES:
        return
    folders = _list_windows_folders if system == "windows" else _list_posix_folders
    yield from folders(environment, system)
    if prefix:
        yield f"{prefix}\\pip.ini" if system == "windows" else f"{prefix}/pip.conf"
    if named:
        yield named


def _list_windows_folders(environment: Variables, _system: str) -> Iterator[str]:
    home = environment.get("HOME") or environment.get("USERPROFILE") or ""
    for folder in (
        environment.get("PROGRAMDATA", r"C:\ProgramData"),
        home,
        environment.get("APPDATA", ""),
    ):
        if folder:
            yield folder.rstrip("/\\") + r"\pip\pip.ini"


def _list_posix_folders(environment: Variables, system: str) -> Iterator[str]:
    home = environment.get("HOME") or environment.get("USERPROFILE") or ""
    if system == "darwin":
        yield "/Library/Application Support/pip/pip.conf"
    for folder in environment.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":"):
        yield f"{folder}/pip/pip.conf"
    yield "/etc/pip.conf"
    if home:
        yield f"{home}/.pip/pip.conf"
        if system == "darwin":
            yield f"{home}/Library/Application Support/pip/pip.conf"
        yield f"{environment.get('XDG_CONFIG_HOME') or home + '/.config'}/pip/pip.conf"

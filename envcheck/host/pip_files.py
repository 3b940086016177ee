"""Find and read the configuration files of pip.

What makes settings of them, host/pip_settings.py, takes 5 ms to import.
"""

from __future__ import annotations

from typing import Dict, Iterator, Sequence

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


def parse_pip_file(text: str, sections: Sequence[str]) -> Dict[str, str]:
    """Parse the options of some sections, of which the later ones override.

    Raises ValueError for a file that pip does not read, either.

    [global]
    index-url = https://mirror.example/simple
    """
    import configparser  # few machines have such a file

    parser = configparser.RawConfigParser()
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise ValueError(str(error).splitlines()[0]) from error
    found: Dict[str, str] = {}
    for name in sections:
        if parser.has_section(name):
            for key, value in parser[name].items():
                found[key.replace("_", "-")] = value
    return found

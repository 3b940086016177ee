"""Resolve the shims of pyenv, asdf, mise and rye from their files.

To start one costs a shell script or two.

A shim chooses its Python when it is started: by a variable, by a file in the working folder or
above it, by the person's default. uv needs none of this: what it puts on PATH is a link.
"""

from __future__ import annotations

import posixpath
import re
from typing import Iterator, Tuple

from envcheck.host.paths import list_names
from envcheck.host.protocol import Host
from envcheck.model import Known, dataclass, numbers
from envcheck.model.text import find_group


@dataclass
class Manager:
    """Where a version manager keeps Pythons, and what chooses among them."""

    installs: Tuple[str, ...]  # Python of a version, from the manager's folder; * is the version
    variable: str
    files: Tuple[str, ...]  # of a folder, the first that is there
    defaults: Tuple[str, ...]  # from the manager's folder, and ~ from HOME


_MANAGERS = {
    "pyenv": Manager(
        ("versions/*/bin/python",), "PYENV_VERSION", (".python-version",), ("version",)
    ),
    "asdf": Manager(
        ("installs/python/*/bin/python",),
        "ASDF_PYTHON_VERSION",
        (".tool-versions",),
        ("~/.tool-versions",),
    ),
    "mise": Manager(
        ("installs/python/*/bin/python",),
        "MISE_PYTHON_VERSION",
        ("mise.toml", ".mise.toml", ".tool-versions", ".python-version"),
        ("~/.config/mise/config.toml", "~/.tool-versions"),
    ),
    "rye": Manager(
        ("py/cpython@*/bin/python3", "py/cpython@*/install/bin/python3"),
        "",
        (".python-version",),
        (),
    ),
}


def resolve_shim(host: Host, path: str) -> Tuple[str, str]:
    """Return the Python that a shim starts, or "" and the version that it asks for.

    "system" is the next on PATH.
    """
    root = posixpath.dirname(posixpath.dirname(path))
    names = list_names(host, root)
    name = posixpath.basename(root).lstrip(".")
    kind = "pyenv" if "versions" in names else "asdf"
    if "py" in names:
        kind = "rye"
    manager = _MANAGERS.get(name) or _MANAGERS[kind]
    version = posixpath.basename(path)[len("python") :]  # of python3.12
    wanted = version if "." in version else _find_wanted(host, root, manager)
    for pattern in manager.installs:
        folder, _, rest = pattern.partition("*")
        for installed in _list_fitting(host, f"{root}/{folder}", wanted):
            python = f"{root}/{folder}{installed}{rest}"
            if isinstance(host.status(python), Known):
                return python, wanted
    return "", wanted or "system"


def find_managed(host: Host, version: str) -> str:
    """Return a Python of a version that a version manager or uv keeps; "" without one."""
    home = host.environment().get("HOME", "")
    places = (
        ".pyenv/versions/",
        ".asdf/installs/python/",
        ".local/share/mise/installs/python/",
        ".rye/py/cpython@",
        ".local/share/uv/python/cpython-",
    )
    for place in places:
        for name in _list_fitting(host, f"{home}/{place}", version):
            return f"{home}/{place}{name}"
    return ""


def _list_fitting(host: Host, start: str, version: str) -> Iterator[str]:
    """Yield how the names that begin as `start` go on, where that is a version.

    The newest is first.
    """
    folder, _, prefix = start.rpartition("/")
    names = [name[len(prefix) :] for name in list_names(host, folder) if name.startswith(prefix)]
    fitting = [
        name
        for name in names
        if version and re.match(rf"{re.escape(version)}(?![\w.]*\d)|{re.escape(version)}[.-]", name)
    ]
    yield from sorted(fitting, key=lambda name: (name == version, numbers(name)), reverse=True)


def _find_wanted(host: Host, root: str, manager: Manager) -> str:
    environment = host.environment()
    if environment.get(manager.variable):
        return environment[manager.variable].split(":")[0]
    folder = str(host.system_facts().get("folder", ""))
    while folder:
        for name in manager.files:
            wanted = parse_wanted(
                host.read_text(f"{folder}/{name}".replace("//", "/")).value or "", name
            )
            if wanted:
                return wanted
        folder = posixpath.dirname(folder) if folder != "/" else ""
    home = environment.get("HOME", "")
    for name in manager.defaults:
        path = home + name[1:] if name.startswith("~") else f"{root}/{name}"
        wanted = parse_wanted(host.read_text(path).value or "", name)
        if wanted:
            return wanted
    return ""


def parse_wanted(text: str, name: str) -> str:
    r"""Parse the first Python that a file of a version manager asks for; "" without one.

    Samples: '3.12.1\n' in .python-version, 'python 3.12.1 3.11.7\n' in .tool-versions,
    '[tools]\npython = "3.12"\n' in mise.toml
    """
    patterns = {
        ".tool-versions": r"^python\s+([\w.-]+)",
        ".toml": r"^python\s*=\s*(?:\[\s*)?(?:\{\s*version\s*=\s*)?[\"']([\w.-]+)",
    }
    fitting = (pattern for ending, pattern in patterns.items() if name.endswith(ending))
    pattern = next(fitting, r"^\s*(?:c?python[@-])?(\w[\w.-]*)\s*$")
    return find_group(pattern, text, re.MULTILINE)

"""Read the requirements and the indexes that tools keep in tables of their own.

Poetry, PDM and uv keep them in pyproject.toml, Pipenv in Pipfile and Pipfile.lock.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatch
from typing import Any

from envcheck.check.selection import Selection, may_hold
from envcheck.host.documents import dig, list_in, table_in, tables_in
from envcheck.model import numbers
from envcheck.model.versions import name_of

_Table = Mapping[str, Any]
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
_MAIN = (
    *("default", "packages", "tool.poetry.dependencies"),
    *("pypi-dependencies", "tool.pixi.pypi-dependencies"),
)
_DEVELOPMENT = ("develop", "dev-packages", "tool.poetry.dev-dependencies")
_INDEXES = ("tool.uv.index", "tool.poetry.source", "tool.pdm.source", "source", "_meta.sources")
_MARKERS = ("sys_platform", "platform_machine", "platform_system", "python_version", "os_name")


# A requirement (PEP 508; "" where [project] states it), its key, and the index it is bound to.
Entry = tuple[str, str, str]


def list_entries(document: _Table, selection: Selection) -> Iterator[Entry]:
    """Yield what a tool installs of its tables.

    Sample: [tool.poetry.dependencies]
            torch = {version = "^2.1", source = "pytorch", markers = "sys_platform == 'linux'"}
    """
    extras = table_in(document, "tool", "poetry", "extras")
    named = {
        name_of(str(item))
        for extra in selection.pick(extras, selection.extras)
        for item in list_in(extras, extra)
    }
    for table in _list_tables(document, selection):
        for name, value in table.items():
            for row in value if isinstance(value, list) else [value]:
                entry = _read_entry(name, row if isinstance(row, dict) else {"version": row})
                is_left_out = dig(row, "optional") is True and name_of(name) not in named
                if entry is not None and not is_left_out:
                    yield entry


def _list_tables(document: _Table, selection: Selection) -> Iterator[_Table]:
    groups = table_in(document, "tool", "poetry", "group")
    if selection.takes_project:
        yield from (table_in(document, *path.split(".")) for path in _MAIN)
    if selection.pick({"dev": ()}, selection.groups):
        yield from (table_in(document, *path.split(".")) for path in _DEVELOPMENT)
    for name in selection.pick(groups, selection.groups):
        yield table_in(groups, name, "dependencies")


def _read_entry(name: str, row: _Table) -> Entry | None:
    """Write an entry as a requirement; None for the Python, or a folder."""
    version, address = row.get("version"), row.get("url") or row.get("git")
    if name == "python" or not _NAME.fullmatch(name):
        return None
    extras = ",".join(map(str, list_in(row, "extras")))
    text = f"{name}[{extras}]" if extras else name
    if isinstance(address, str):
        text += f" @ {address}"
    elif isinstance(version, str):
        text += write_specifier(version)
    elif "source" in row:  # of what [project] requires
        return "", name, str(row["source"])
    else:
        return None
    markers = [f"{key} {row[key]}" for key in _MARKERS if key in row]
    markers += [str(row["markers"])] if row.get("markers") else []
    pythons = write_specifier(str(row.get("python", "")))
    for operator, python in re.findall(r"([<>=!~]+)([\w.]+)", pythons):
        markers.append(f"python_version {operator} '{python}'")
    if markers:
        text += " ; " + " and ".join(f"({each})" if " or " in each else each for each in markers)
    return text, name, str(row.get("source") or row.get("index") or "")


def write_specifier(text: str) -> str:
    """Write a range as PEP 440 has it: ^2.1 is >=2.1,<3; "" for any, and for alternatives."""
    clauses = re.split(r"\s*,\s*|\s+(?=[<>=!~^])", text.strip())
    return "" if "|" in text else ",".join(filter(None, map(_write_clause, clauses)))


def _write_clause(text: str) -> str:
    match = re.fullmatch(r"(\^|~(?!=)|)\s*(\d[\w.+*-]*)", text)
    if match is None:
        return "" if text == "*" else text
    sign, version = match.groups()
    if not sign:
        return f"=={version}"
    parts = numbers(version)
    kept = min(1, len(parts) - 1)
    if sign == "^":
        kept = next((place for place, part in enumerate(parts) if part), len(parts) - 1)
    upper = (*parts[:kept], parts[kept] + 1)
    return f">={version},<{'.'.join(map(str, upper))}"


def find_python(document: _Table) -> tuple[str, str, str]:
    """Return the Python that a project pins, the key of its range, and that; "" for none."""
    requires = table_in(document, "requires") or table_in(document, "_meta", "requires")
    pinned = str(requires.get("python_version") or "")
    stated = dig(document, "project", "requires-python")
    if stated is not None:
        return pinned, "requires-python", str(stated)
    poetry = dig(document, "tool", "poetry", "dependencies", "python")
    return pinned, "python", write_specifier(str(poetry or ""))


def index_finder(document: _Table, selection: Selection) -> Callable[[str, str], list[str]]:
    """Return a function that lists the indexes that a tool takes a requirement from.

    Its second argument is the name of the index that the requirement's own entry names.
    """
    rows = [row for path in _INDEXES for row in tables_in(document, *path.split("."))]
    urls = {str(row.get("name")): str(row.get("url")) for row in rows}
    usual = [row for row in rows if _is_usual(row)]

    def indexes(requirement: str, index: str) -> list[str]:
        name = name_of(requirement)
        named = [index, *_list_uv_sources(document, name, selection)]
        found = [urls[each] for each in named if each in urls]
        return found or [
            str(row.get("url"))
            for row in usual
            if any(fnmatch(name, str(each)) for each in list_in(row, "include_packages") or "*")
        ]

    return indexes


def _is_usual(row: _Table) -> bool:
    """Return whether an index is asked for what names none; Pipenv asks the first, PyPI."""
    is_asked_first = row.get("priority") in (None, "primary", "default")
    return is_asked_first and not row.get("explicit") and "verify_ssl" not in row


def _list_uv_sources(document: _Table, name: str, selection: Selection) -> Iterator[str]:
    """Yield the indexes that uv's table of sources names for a package."""
    named = {**dict.fromkeys(selection.extras, "extra"), **dict.fromkeys(selection.groups, "group")}
    entry = dig(document, "tool", "uv", "sources", name)
    for row in tables_in([entry]) or tables_in(entry):
        is_chosen = all(
            named.get(str(row[kind])) == kind for kind in ("extra", "group") if kind in row
        )
        if is_chosen and may_hold(str(row.get("marker", ""))):
            yield str(row.get("index"))

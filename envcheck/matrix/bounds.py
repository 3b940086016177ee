"""Bound what a fetched data file may say.

It brings releases of packages that this program's own data names.

Cells reach commands: names, extras, requirements and conda's channels are typed by a plan. So each
has the form that its place needs, and names only what the built-in data names too. Sentences are
shown: none holds an option, an installer's name or a character that a shell acts on. Citations and
the contents of binaries are only shown as sources.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from envcheck.matrix.load import MatrixError, iterate_rows
from envcheck.model import RequestError, dataclass
from envcheck.model.versions import Requirement, read_requirement, within

Document = Mapping[str, Any]

_FAMILIES = ("frameworks", "companions")
_REQUIREMENTS = ("fix", "replacement", "cuda_wheels", "condition")
_SPECIFIERS = ("specifier", "pythons", "compute_capabilities", "versions", "tensorflow")
_EXTRAS = ("extras", "gpu_extra", "usual_extra", "requires_extra")
_PACKAGES = ("distribution", "distributions", "stub_for", "absent")
_BINARIES = "binaries"
_SOURCES = ("citations", _BINARIES)  # shown, never typed
_OF_NVIDIA = "nvidia-"  # NVIDIA adds libraries with new CUDA releases

_EXTRA = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_PRINTABLE = re.compile(r"[ -~]*")
_ADDRESS = re.compile(r"https://([a-z0-9.-]+)(?=[/#?\s]|$)")
_COMMAND = re.compile(
    r"[`$|&\\{}^]|(?:^|\s)--?[A-Za-z]"
    r"|\b(?:apt(?:-get)?|bash|chmod|conda|curl|dnf|docker|mamba|pip3?|powershell|python3?|rm|sh|sudo|uv|wget|yum)\b\s+[a-z~/]"
)


@dataclass
class _Known:
    """What the built-in data names."""

    packages: frozenset[str]
    conda: frozenset[str]
    channels: frozenset[str]
    findings: frozenset[str]
    hosts: frozenset[str]


def check_bounds(document: Document, name: str, built_in: Document) -> None:
    """Raise MatrixError where a document names what the built-in data does not."""
    known = _Known(
        frozenset(_list_packages(built_in)),
        frozenset(built_in["conda"]),
        frozenset(row["channel"] for rows in built_in["conda"].values() for row in rows),
        frozenset(row["finding"] for row in built_in["problems"]),
        frozenset(host for text, _ in _list_texts(built_in) for host in _ADDRESS.findall(text)),
    )
    try:
        for text, place in _list_texts(document):
            _check_text(text, place, known.hosts)
        _check_names("the conda package", document["conda"], known.conda)
        _check_names("the package", _list_packages(document), known.packages)
        for row in iterate_rows(document):
            for cell, value in row.items():
                _check_cell(cell, value, known)
    except ValueError as error:
        raise MatrixError(f"{name} {error}; refused.") from None


def _list_packages(document: Document) -> Iterator[str]:
    """Yield the names of packages that a document states, but those inside requirements."""
    for family in _FAMILIES:
        for body in document[family].values():
            for item in body["distributions"]:
                yield item["name"]
    for row in iterate_rows(document):
        yield from row.get("requires", ())
        for cell in _PACKAGES:
            yield from _list_words(row.get(cell, []))
        for cell in _REQUIREMENTS:
            for text in _list_words(row.get(cell, []), cell):
                yield _parse_requirement(cell, text).name


def _list_words(value: Any, cell: str = "") -> list[str]:
    """List the texts of a cell.

    "keras<2.7 tensorflow-estimator<2.7" is two requirements, "cuda,cudnn" two extras.
    """
    if isinstance(value, str):
        if cell in {"fix", "gpu_extra"}:
            return value.split("," if cell == "gpu_extra" else None)
        return [value]
    return list(value or ())


def _list_texts(document: Document) -> Iterable[tuple[str, str]]:
    """List each key and string once with its place: citations, binaries or ""."""
    found: dict[tuple[str, str], None] = {}  # nine of ten are the same in several rows
    _collect_texts(document, "", found)
    return found


def _collect_texts(value: Any, place: str, found: dict[tuple[str, str], None]) -> None:
    if isinstance(value, str):
        found[value, place] = None
    elif isinstance(value, dict):
        for key, item in value.items():
            below = key if key in _SOURCES else place
            found[key, below] = None
            _collect_texts(item, below, found)
    elif isinstance(value, list):
        for item in value:
            _collect_texts(item, place, found)


def _check_text(text: str, place: str, hosts: frozenset[str]) -> None:
    if not _PRINTABLE.fullmatch(text):
        raise ValueError(f"holds a control or non-ASCII character in {text[:60]!a}")
    if place == _BINARIES:
        return
    named = _ADDRESS.findall(text)
    if text.count("//") != len(named) or not hosts.issuperset(named):
        raise ValueError(
            f"names an address that this release of envcheck does not know: {text[:100]!r}"
        )
    if not place and _COMMAND.search(text):
        raise ValueError(f"holds what a shell acts on: {text[:100]!r}")


def _check_names(what: str, names: Collection[str] | Iterator[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known and not (what == "the package" and name.startswith(_OF_NVIDIA)):
            raise ValueError(f"names {what} {name!r}, which this release of envcheck does not know")


def _check_cell(cell: str, value: Any, known: _Known) -> None:
    if cell == "channel":
        _check_names("the conda channel", [value], known.channels)
    elif cell == "finding":
        _check_names("the finding", [value], known.findings)
    elif cell in _EXTRAS:
        for extra in _list_words(value, cell):
            if not _EXTRA.fullmatch(extra):
                raise ValueError(f"has {extra!r} in {cell}, which is no extra")
    elif cell == "requires":
        for specifier in value.values():
            _check_specifier(cell, specifier)
    elif cell in _SPECIFIERS and isinstance(value, str):
        _check_specifier(cell, value)


def _parse_requirement(cell: str, text: str) -> Requirement:
    """Parse a name with extras and a specifier.

    Raises ValueError for an address, a marker and anything else.
    """
    try:
        parsed = read_requirement(text)
    except RequestError:
        raise ValueError(f"has {text[:80]!r} in {cell}, which is no requirement") from None
    if parsed.url or parsed.marker:
        raise ValueError(f"has {text[:80]!r} in {cell}, which is more than a name and a version")
    return parsed


def _check_specifier(cell: str, text: str) -> None:
    try:
        within("1.0", text)
    except ValueError:
        raise ValueError(f"has {text[:80]!r} in {cell}, which is no version specifier") from None

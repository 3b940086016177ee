"""Read a pip requirements file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from envcheck.check.blueprint import Blueprint, Files, Line

_FROM_INDEX = re.compile(r"(?:torch|torchvision|torchaudio)(?![\w-])", re.IGNORECASE)
_INDEX = re.compile(r"(?:-i|--index-url|--extra-index-url)[ =]?\s*(\S+)")
_INCLUDED = re.compile(r"(?:-r|--requirement)[ =]?\s*(\S+)")
_CONSTRAINED = re.compile(r"(?:-c|--constraint)[ =]?\s*(\S+)")
_KINDS = {"cpu": "cpu", "cuda": r"cu\d+", "other": r"rocm[\d.]*|xpu"}
_DEEPEST = 20


def parse_requirements(text: str, path: str, files: Files) -> Blueprint:
    """Read requirements with the files they include.

    Sample: --index-url https://download.pytorch.org/whl/cpu
            torch==2.4.0  # on the CPU
            -r more.txt
    """
    lines = list(_included(text, path, files, (path,)))
    indexes = [found[1] for line in lines if (found := _INDEX.fullmatch(line.text))]
    links = any(re.match(r"(?:-f|--find-links)\b", line.text) for line in lines)
    wanted = tuple(Line(line.text, line.where, links) for line in lines if not line.text.startswith("-"))
    for line in lines:
        if named := _CONSTRAINED.fullmatch(line.text):
            limits = files.beside(line.where.rpartition(":")[0]).find(named[1])
            wanted = constrained(wanted, limits[1] if limits else "")
    return Blueprint(
        path,
        "requirements file",
        requirements=bound_to(indexes, wanted),
        unread=tuple(
            Line(f"{found[1]} is not beside the file, so what it installs is not judged.", line.where)
            for line in lines
            if (found := _INCLUDED.fullmatch(line.text))
        ),
    )


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines, continued ones joined, comments and blank ones left out."""
    held: list[str] = []
    start = 0
    for number, raw in enumerate(text.lstrip("\ufeff").replace("\r\n", "\n").split("\n"), 1):
        start = start or number
        line = re.sub(r"(^|\s)#.*$", "", raw).rstrip()
        held.append(line.removesuffix("\\"))
        if line.endswith("\\"):
            continue
        whole = " ".join(held).strip()
        if whole:
            yield start, whole
        held, start = [], 0
    if any(held):  # the last line promises another
        yield start, " ".join(held).strip()


def _included(text: str, path: str, files: Files, seen: tuple[str, ...]) -> Iterator[Line]:
    """Yield the lines; an included file that is not there stays as the line that names it."""
    for number, line in logical_lines(text):
        named = _INCLUDED.fullmatch(line)
        found = files.beside(path).find(named[1]) if named else None
        if found is None:
            bare = re.split(r"\s--(?:hash|config-settings|global-option|build-option)\b", line)[0].strip()
            yield Line(bare, f"{path}:{number}")
        elif found[0] not in seen and len(seen) < _DEEPEST:
            yield from _included(found[1], found[0], files, (*seen, found[0]))


def constrained(lines: tuple[Line, ...], text: str) -> tuple[Line, ...]:
    """Narrow requirements by the text of a constraints file: of what it names, only those releases are installed."""
    bounds: dict[str, str] = {}
    for _, said in logical_lines(text):
        found = re.match(r"([\w.-]+)\s*([=<>!~][^;#]*)", said)
        if found:
            bounds[canonicalize_name(found[1])] = found[2].strip()
    return tuple(replace(line, text=_narrowed(line.text, bounds)) for line in lines)


def _narrowed(text: str, bounds: Mapping[str, str]) -> str:
    try:
        requirement = Requirement(text)
        bound = bounds.get(canonicalize_name(requirement.name), "")
        if not bound or requirement.url:
            return text
        requirement.specifier &= SpecifierSet(bound)
    except (InvalidRequirement, InvalidSpecifier):
        return text
    return str(requirement)


def bound_to(indexes: Iterable[str], lines: Iterable[Line]) -> tuple[Line, ...]:
    """Say of what comes from PyTorch's own indexes for what it is built; pip prefers its 2.4.0+cpu to 2.4.0 as well."""
    kinds = [kind for kind in map(_kind, indexes) if kind]
    kind = "cpu" if "cpu" in kinds else kinds[0] if kinds else ""
    return tuple(replace(line, index=kind) if kind and _FROM_INDEX.match(line.text) else line for line in lines)


def _kind(url: str) -> str:
    """Read the end of an index's address: /whl/cpu, /whl/cu126, /whl/rocm6.1."""
    end = url.strip("\"'").rstrip("/").rsplit("/", 1)[-1]
    return next((kind for kind, pattern in _KINDS.items() if re.fullmatch(pattern, end)), "")

"""Read requirements.txt and environment.yml."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from envcheck.check.blueprint import Blueprint, FileError, Files, Line

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


_MOST = 200_000  # things in a file with its aliases unfolded


def mapping_of(text: str, path: str) -> dict[str, Any]:
    """Load the one mapping that a file holds; raises FileError."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        node = yaml.compose(text, Loader=loader)
        if node is not None and _size(node, {}) > _MOST:
            raise FileError(f"{path} unfolds its YAML aliases into more than any such file needs")
        document = yaml.load(text, Loader=loader)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{path} is not YAML: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(document, dict):
        raise FileError(f"{path} holds no mapping: it is neither a compose file nor an environment.yml")
    return document


def _size(node: Any, known: dict[int, int]) -> int:
    """Count what a node holds, each alias as if it were written out; one that holds itself is endless."""
    if id(node) not in known:
        known[id(node)] = _MOST + 1  # met again before it is counted: it holds itself
        inner = node.value if isinstance(node.value, list) else []
        parts = [part for item in inner for part in (item if isinstance(item, tuple) else (item,))]
        known[id(node)] = 1 + sum(_size(part, known) for part in parts)
    return known[id(node)]


class Places:
    """The lines of a file, asked for by what stands on them."""

    def __init__(self, text: str, path: str) -> None:
        self.path = path
        self._lines = text.splitlines()
        self._first: dict[str, int] = {}
        for number, line in enumerate(self._lines, 1):
            for said in (line.strip(), re.sub(r"\s+#.*$", "", line).strip().lstrip("- ").strip("\"'")):
                self._first.setdefault(said, number)

    def of(self, item: str) -> str:
        """Say where a list item stands: "environment.yml:6"."""
        number = self._first.get(item.strip())
        if number is None and len(self._lines) < 5000:
            number = next((at for at, line in enumerate(self._lines, 1) if item in line), None)
        return f"{self.path}:{number or 1}"

    def key(self, name: str) -> str:
        """Say where a key stands."""
        return self._search(rf"\s+[\"']?{re.escape(name)}[\"']?\s*:", f"{self.path}:1")

    def value(self, name: str, said: str, other: str) -> str:
        """Say where a key with this value stands; `other` where the value is not written like that."""
        return self._search(rf"\s*{re.escape(name)}\s*:\s*[\"']?{re.escape(said)}[\"']?\s*(?:#.*)?$", other)

    def _search(self, pattern: str, other: str) -> str:
        numbered = (number for number, line in enumerate(self._lines, 1) if re.match(pattern, line))
        number = next(numbered, 0)
        return f"{self.path}:{number}" if number else other


def parse_environment_yml(text: str, path: str, files: Files) -> Blueprint:
    """Read conda's environment file.

    Sample: dependencies: [python=3.10, cudatoolkit=11.2, cudnn=8.1, pip, {pip: [tensorflow==2.10]}]
    """
    document, places = mapping_of(text, path), Places(text, path)
    blueprint = Blueprint(path, "environment.yml")
    conda: list[Line] = []
    for entry in _list(document.get("dependencies")):
        if isinstance(entry, str):
            conda.append(Line(re.sub(r"\s+", " ", entry.split("::")[-1].strip()), places.of(entry)))
        elif isinstance(entry, dict):
            blueprint = _pip(blueprint, [str(item) for item in _list(entry.get("pip"))], places, files)
    pinned = [(re.fullmatch(r"python\s*={1,2}\s*(\d+\.\d+)[\d.*]*", line.text), line.where) for line in conda]
    python = next((Line(found[1], where) for found, where in pinned if found), None)
    return replace(blueprint, conda=tuple(conda), python=python)


def _pip(blueprint: Blueprint, items: list[str], places: Places, files: Files) -> Blueprint:
    """Read the list under pip: as the requirements file that conda makes of it."""
    inner = parse_requirements("\n".join(item.replace("\n", " ") for item in items), blueprint.path, files)
    at = {f"{blueprint.path}:{number}": places.of(item) for number, item in enumerate(items, 1)}

    def placed(lines: tuple[Line, ...]) -> tuple[Line, ...]:
        return tuple(replace(line, where=at.get(line.where, line.where)) for line in lines)

    return replace(
        blueprint,
        requirements=blueprint.requirements + placed(inner.requirements),
        unread=blueprint.unread + placed(inner.unread),
    )


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []

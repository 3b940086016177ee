"""Read conda's environment.yml, with YAML that cannot unfold without end."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from envcheck.check.blueprint import Blueprint, FileError, Files, Line
from envcheck.check.requirements_file import parse_requirements

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

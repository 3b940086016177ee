"""Read a Dockerfile: its last stage, what that installs, and what its base image holds."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import IO, Any, cast

from envcheck.check.base_image import parse_image
from envcheck.check.blueprint import Blueprint, FileError, Line
from envcheck.check.requirements_file import Read, is_cpu_index, parse_requirements
from envcheck.check.shell_words import Install, commands_of, install_of

_HEREDOC = re.compile(
    r"""^([ \t]*RUN\b[^\n]*?)<<-?["']?(\w+)["']?[^\n]*\n(.*?)^[ \t]*\2[ \t]*$""",
    re.MULTILINE | re.DOTALL | re.IGNORECASE,
)
_INSTALLS = re.compile(r"\b(?:apt|apt-get|dnf|yum)\b.*\binstall\b")


def parse_dockerfile(text: str, path: str, read: Read) -> Blueprint:
    """Read a Dockerfile; `read` gives the files it copies.

    Sample: FROM nvidia/cuda:12.4.1-runtime-ubuntu22.04
            RUN pip install torch==2.4.0
    """
    from dockerfile_parse import DockerfileParser

    parser = DockerfileParser(fileobj=cast("IO[str]", io.BytesIO()))  # its stubs say text, its code writes bytes
    parser.content = _HEREDOC.sub(_joined, text)
    structure = [cast("dict[str, Any]", item) for item in parser.structure if item["instruction"] != "COMMENT"]
    stages = _stages(structure, list(parser.parent_images), path)
    if not stages:
        raise FileError(f"{path} has no FROM instruction: it is no Dockerfile")
    steps, image = _last(stages)
    blueprint = Blueprint(path, "Dockerfile", image=image)
    for step in steps:
        blueprint = _step(blueprint, step, path, read)
    return blueprint


def _joined(found: re.Match[str]) -> str:
    """Spell a here-document as one continued line of as many lines."""
    body = found[3].split("\n")[:-1]
    return " && \\\n".join([f"{found[1]} true", *(line or "true" for line in body), "true"])


class _Stage:
    """One FROM with its steps; `parent` is the stage it starts from."""

    def __init__(self, reference: str, where: str, parent: _Stage | None) -> None:
        self.reference, self.where, self.parent = reference, where, parent
        self.steps: list[dict[str, Any]] = []


def _stages(structure: list[dict[str, Any]], images: list[str], path: str) -> list[_Stage]:
    stages: list[_Stage] = []
    named: dict[str, _Stage] = {}
    for item in structure:
        if item["instruction"] == "FROM" and len(stages) < len(images):
            reference = images[len(stages)]
            stages.append(_Stage(reference, f"{path}:{item['startline'] + 1}", named.get(reference.lower())))
            alias = re.search(r"\sas\s+(\S+)\s*$", item["value"], re.IGNORECASE)
            if alias:
                named[alias[1].lower()] = stages[-1]
        elif stages:
            stages[-1].steps.append(item)
    return stages


def _last(stages: list[_Stage]) -> tuple[list[dict[str, Any]], Any]:
    stage: _Stage = stages[-1]
    steps = list(stage.steps)
    while stage.parent is not None:
        stage = stage.parent
        steps = stage.steps + steps
    return steps, parse_image(stage.reference, stage.where)


def _step(blueprint: Blueprint, step: dict[str, Any], path: str, read: Read) -> Blueprint:
    where = f"{path}:{step['startline'] + 1}"
    if step["instruction"] == "ENV" and re.search(r"\bTORCH_CUDA_ARCH_LIST\b", step["value"]):
        return replace(blueprint, compiles=(*blueprint.compiles, Line("TORCH_CUDA_ARCH_LIST is set", where)))
    if step["instruction"] != "RUN":
        return blueprint
    for words in _commands(step["value"]):
        blueprint = _command(blueprint, words, where, read)
    return blueprint


def _commands(value: str) -> Iterator[list[str]]:
    value = re.sub(r"^(?:--\w+=\S+\s+)+", "", value)
    if value.startswith("["):
        try:
            words = json.loads(value)
        except ValueError:
            return
        yield from ([str(word) for word in words],) if isinstance(words, list) else ()
    else:
        yield from commands_of(value)


def _command(blueprint: Blueprint, words: list[str], where: str, read: Read) -> Blueprint:
    line = " ".join(words)
    if words and (words[0].rsplit("/", 1)[-1] == "nvcc" or re.search(r"setup\.py (?:build|install|bdist)", line)):
        return replace(blueprint, compiles=(*blueprint.compiles, Line(line[:80], where)))
    python = re.search(r"\bpython(3\.\d+)\b", line) if _INSTALLS.search(line) else None
    if python:
        blueprint = replace(blueprint, python=Line(python[1], where))
    found = install_of(words)
    return _installed(blueprint, found, where, read) if found is not None else blueprint


def _installed(blueprint: Blueprint, install: Install, where: str, read: Read) -> Blueprint:
    lines = tuple(Line(text, where) for text in install.packages)
    if install.tool == "conda":
        return replace(blueprint, conda=blueprint.conda + lines)
    for name in install.files:
        inner = read(name.rsplit("/", 1)[-1])
        if inner is None:
            blueprint = replace(blueprint, unread=(*blueprint.unread, Line(name, where)))
        else:
            lines += parse_requirements(inner, name.rsplit("/", 1)[-1], read).requirements
    on_cpu = lines if is_cpu_index(install.index) else ()
    return replace(
        blueprint,
        requirements=blueprint.requirements + lines,
        cpu_index=blueprint.cpu_index + on_cpu,
    )

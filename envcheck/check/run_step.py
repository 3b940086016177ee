"""Read what one RUN of a Dockerfile installs and compiles; nothing of it is ever run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace

from envcheck.check.blueprint import Blueprint, FileError, Files, Line
from envcheck.check.dockerfile_lines import Instruction
from envcheck.check.requirements_file import bound_to, constrained, parse_requirements
from envcheck.check.shell_words import Install, commands_of, install_of, shell_of
from envcheck.check.substitute import is_open

_SYSTEM = re.compile(r"(?:.*/)?(?:apt|apt-get|aptitude|dnf|microdnf|yum|zypper|apk)")
_CUDA = re.compile(r"\bcuda[-_]|nvidia-cuda|/cuda\b|\bcuda\b|cudnn|tensorrt", re.IGNORECASE)
_COMPILES = re.compile(r"-D\w*CUDA\w*=(?:ON|1|TRUE|YES)\b|\bnvcc\b.*\.cu\b", re.IGNORECASE)
_SETUP = re.compile(r"\bsetup\.py (?:build|install|bdist|develop)")
# Tools that install what a lock file or a project says, which is not read.
_PROJECTS = re.compile(r"(?:poetry|pipenv|pdm) (?:install|sync)|uv sync|pixi install|conda-lock install")
_OTHER_INSTALLER = re.compile(r"get-pip|ensurepip|\b(?:uv|pyenv|poetry|pipx|pdm)\b|conda|mamba")
_WORTH_READING = re.compile(r"get-pip|install|sync|wheel|nvcc|setup\.py|cuda|venv|create|update", re.IGNORECASE)


def run_commands(step: Instruction) -> Iterator[tuple[list[str], int]]:
    """Yield the commands of a RUN with the lines they stand on."""
    value = re.sub(r"^(?:--\w+=\S+\s+)+", "", step.value)
    before = re.split(r"(?<!<)<<(?!<)", value)[0].strip()
    is_script = step.documents and (not before or re.fullmatch(r"(?:.*/)?(?:ba|da|z)?sh(?: -\w+)*", before))
    if not is_script and _WORTH_READING.search(value):
        yield from ((words, step.number) for words in _commands(value))
    for document in step.documents if is_script else ():
        if re.match(r"#!(?!.*sh\b)", document.text):
            continue  # a script of another language
        joined = re.sub(r"\\\n", lambda _: "  ", document.text)
        for offset, line in _numbered(document.text) if joined == document.text else ((0, joined),):
            if _WORTH_READING.search(line):
                yield from ((words, document.number + offset) for words in commands_of(line))


def _numbered(text: str) -> Iterator[tuple[int, str]]:
    """Yield a script by its lines, or whole where a quote runs over several."""
    bare = re.sub(r"(?m)(^|[ \t])#[^\n]*", r"\1", text)
    if bare.count("'") % 2 or bare.count('"') % 2:
        yield 0, text
    else:
        yield from enumerate(text.split("\n"))


def _commands(value: str) -> Iterator[list[str]]:
    if value.startswith("["):
        try:
            words = [str(word) for word in json.loads(value)]
        except (ValueError, TypeError, RecursionError):
            words = []
        if words:
            script = shell_of(words)
            yield from commands_of(script) if script else (words,)
            return
    yield from commands_of(value)


def take_command(blueprint: Blueprint, words: list[str], where: str, files: Files) -> Blueprint:
    """Add what one command says; `files` are those it may name."""
    line = " ".join(words)
    if _COMPILES.search(line):
        blueprint = replace(blueprint, compiles=(*blueprint.compiles, Line(line[:80], where)))
    elif _SETUP.search(line):
        blueprint = replace(blueprint, may_compile=(*blueprint.may_compile, Line(line[:80], where)))
    installs = words and _SYSTEM.fullmatch(words[0]) and "install" in words[:6]
    if _CUDA.search(line) and not _COMPILES.search(line):
        blueprint = replace(blueprint, added=(*blueprint.added, Line(line[:80], where)))
    if installs and re.search(r"\bpython3?-pip\b", line):
        blueprint = replace(blueprint, pip=Line(line[:80], where))
    if _OTHER_INSTALLER.search(line):
        blueprint = replace(blueprint, own_pip=True)
    python = re.search(r"\bpython(3\.\d+)\b", line) if installs else None
    python = python or re.search(r"\bvenv\b.*(?:--python|-p)[ =](?:python)?(3\.\d+)", line)
    if python:
        blueprint = replace(blueprint, python=Line(python[1], where))
    if _PROJECTS.search(line):
        said = f"`{line[:60]}` installs what the project's own files say, which is not judged."
        blueprint = replace(blueprint, unread=(*blueprint.unread, Line(said, where)))
    found = install_of(words)
    return _installed(blueprint, found, where, files) if found is not None else blueprint


def _installed(blueprint: Blueprint, install: Install, where: str, files: Files) -> Blueprint:
    lines = tuple(Line(text, where, links=install.links) for text in install.packages)
    if install.tool == "conda":
        blueprint = replace(blueprint, conda=blueprint.conda + lines)
        for name in install.files:
            blueprint = _conda_file(blueprint, name, where, files)
        return blueprint
    opened = [line for line in lines if is_open(line.text)]
    projects = [name for name in (*install.editable, *install.packages) if name.startswith((".", "/", "git+"))]
    said = [f"{line.text} is not known before the build, so it is not judged." for line in opened]
    said += [f"{name} is a project of its own: what it depends on is not judged." for name in projects]
    wanted = lines
    for name in install.files:
        inner = files.find(name)
        if inner is None:
            said.append(f"{name} is not beside the file, so what it installs is not judged.")
            continue
        read = parse_requirements(inner[1], inner[0], files)
        wanted += read.requirements
        said += [line.text for line in read.unread]
    for name in install.constraints:
        inner = files.find(name)
        if inner is None:
            said.append(f"{name} is not beside the file, so the releases that it chooses are not judged.")
        wanted = constrained(wanted, inner[1] if inner else "")
    return replace(
        blueprint,
        requirements=blueprint.requirements + bound_to(install.indexes, wanted),
        unread=blueprint.unread + tuple(Line(text, where) for text in said),
    )


def _conda_file(blueprint: Blueprint, name: str, where: str, files: Files) -> Blueprint:
    from envcheck.check.yaml_files import parse_environment_yml

    inner = files.find(name)
    if inner is None:
        said = Line(f"{name} is not beside the file, so what it installs is not judged.", where)
        return replace(blueprint, unread=(*blueprint.unread, said))
    try:
        other = parse_environment_yml(inner[1], inner[0], files)
    except FileError as error:
        return replace(blueprint, unread=(*blueprint.unread, Line(f"{error}.", where)))
    return replace(
        blueprint,
        conda=blueprint.conda + other.conda,
        python=other.python or blueprint.python,
        requirements=blueprint.requirements + other.requirements,
        unread=blueprint.unread + other.unread,
    )

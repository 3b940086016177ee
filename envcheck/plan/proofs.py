"""How to see that a command worked, and how to take it back: data/commands.json, read for one command."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from envcheck.host.data_files import read_data
from envcheck.model import Command, dataclass, replace
from envcheck.model.plans import Step
from envcheck.model.writing import Writing, read_writing
from envcheck.plan.paths import removal_of

_REST = re.compile(r"\{(\w+)\.\.\.\}")  # stands for all the words that are left
_ONE = re.compile(r"\{(\w+)\}")
_SPECIAL = frozenset("\\(*+?[")  # what makes a word a pattern


@dataclass(frozen=True)
class Proof:
    """What tells that a command worked and what takes it back; where nothing does, why."""

    verify: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    unverified: str = ""
    lasting: str = ""


def proof_of(argv: tuple[str, ...], system: str = "") -> Proof:
    """Look a command up; an empty Proof for one that the table does not know."""
    written = read_writing(argv)
    if written is not None:
        return _of_file(written)
    words = argv[1:] if argv[:1] == ("sudo",) else argv
    row, held = _row_of(words)
    if row.get("makes"):
        return _of_environment(held["folder"][0], row["makes"], windows=system == "windows")
    return _filled(row, held, as_root=len(words) < len(argv)) if row else Proof()


def folder_made(argv: tuple[str, ...]) -> str:
    """Return the folder of the environment that a command makes; "" for any other command."""
    row, held = _row_of(argv)
    return held["folder"][0] if row.get("makes") else ""


def _row_of(words: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, tuple[str, ...]]]:
    for row in _document()["commands"]:
        held = _held(row["is"], words)
        if held is not None:
            return row, held
    return {}, {}


def proven(step: Step, system: str = "") -> Step:
    """Give a step what it does not tell itself."""
    found = proof_of(step.argv, system) if step.argv else Proof(**_document()["by_hand"])
    told: Step = replace(
        step,
        verify=step.verify or found.verify,
        undo=step.undo or found.undo,
        unverified="" if step.verify or found.verify else found.unverified,
        lasting="" if step.undo or found.undo else found.lasting,
    )
    return told


def step_of(name: str, command: Command, summary: str, finding: str, system: str = "") -> Step:
    """Make the step of a fix's command; what the command is for, or what all of the fix is."""
    purpose = command.purpose or summary
    return proven(Step(name, purpose, command.argv, scope=command.scope, resolves=(finding,)), system)


@lru_cache(maxsize=1)
def _document() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(read_data("commands.json"))
    return loaded


def _held(patterns: list[str], words: tuple[str, ...]) -> dict[str, tuple[str, ...]] | None:
    """Match each word with its pattern; what was named in them, and the first word as 0."""
    rest = _REST.fullmatch(patterns[-1])
    fixed = patterns[:-1] if rest else patterns
    if len(words) < len(patterns) or (not rest and len(words) > len(patterns)):
        return None
    held: dict[str, tuple[str, ...]] = {"0": words[:1]}
    for pattern, word in zip(fixed, words):
        if pattern == ".*" or word in pattern.split("|"):
            continue  # most are plain words: compiling them all would take longer than the plan
        found = re.fullmatch(pattern, word, re.DOTALL) if _SPECIAL & set(pattern) else None
        if found is None:
            return None
        held.update((name, (value,)) for name, value in found.groupdict().items())
    if rest:
        held[rest[1]] = words[len(fixed) :]
    return held


def _of_environment(folder: str, kind: str, *, windows: bool) -> Proof:
    program = "python.exe" if kind == "conda" else "Scripts\\python.exe"
    python = f"{folder}\\{program}" if windows else f"{folder}/bin/python"
    return Proof((python, "--version"), removal_of(folder, windows=windows))


def _of_file(written: Writing) -> Proof:
    if not written.appends:
        return Proof(("test", "-s", written.path), ("rm", "-f", written.path))
    held = ("grep", "-qxF", "--", written.lines[0], written.path)
    return Proof(held, lasting=f"the lines stand at the end of {written.path}: they are taken out there")


def _filled(row: dict[str, Any], held: dict[str, tuple[str, ...]], *, as_root: bool) -> Proof:
    if row.get("shows"):
        return Proof(**_document()["shown"])
    undo = _words(row.get("undo", ()), held)
    return Proof(
        _words(row.get("verify", ()), held),
        undo if as_root or undo[:1] != ("sudo",) else undo[1:],
        row.get("unverified", ""),
        _text(row.get("lasting", ""), held),
    )


def _words(template: list[str] | tuple[str, ...], held: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    filled: list[str] = []
    for word in template:
        rest = _REST.fullmatch(word)
        filled += held[rest[1]] if rest else (_text(word, held),)
    return tuple(filled)


def _text(template: str, held: dict[str, tuple[str, ...]]) -> str:
    return _ONE.sub(lambda found: held[found[1]][0] if found[1] in held else found[0], template)

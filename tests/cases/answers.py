"""Recognise a confirmed fix in what a report prints first, by the types of its actions.

A row of answers.jsonl names a case of reported.jsonl, the fix that its thread confirms, and what
counts as that fix: `any` of several steps, each with all its cells. `nothing` is a log with nothing
to repair; `advice` is for what a person does, and is the whole sentence, so that a changed sentence
is judged again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from envcheck import actions as types
from envcheck.actions import Action
from envcheck.model import Remedy
from tests.cases.judged import FOLDER, Judged

Step = Mapping[str, Any]
FIRST, OTHER_WAY, MISSING = "first", "another way", "missing"


@dataclass(frozen=True)
class Answer:
    """The confirmed fix of a case, and what counts as it."""

    id: str
    fix: str
    any: tuple[Step, ...]


@cache
def answers() -> dict[str, Answer]:
    """Read the answers, by the id of their case."""
    rows = map(json.loads, (FOLDER / "answers.jsonl").read_text(encoding="utf-8").splitlines())
    return {row["id"]: Answer(row["id"], row["fix"], tuple(row["any"])) for row in rows}


def grade(judged: Judged, answer: Answer) -> str:
    """Tell where a report prints the confirmed fix: in its first remedy, in another way of it, or nowhere."""
    if any("nothing" in step for step in answer.any):
        return MISSING if judged.raises_error else FIRST
    main = next((finding for finding in judged.report.findings if finding.primary), None)
    fix = main.fix if main else None
    if fix is None:
        return MISSING
    if any(_is_printed(step, fix.summary, fix.actions) for step in answer.any):
        return FIRST
    return OTHER_WAY if _in_another_way(fix, answer) else MISSING


def _in_another_way(fix: Remedy, answer: Answer) -> bool:
    ways = fix.alternatives
    return any(_is_printed(step, way.summary, way.actions) for way in ways for step in answer.any)


def _is_printed(step: Step, summary: str, actions: Iterable[Action]) -> bool:
    if "advice" in step:
        return bool(step["advice"] == summary)
    return any(_matches(step, action) for action in actions)


def _matches(step: Step, action: Action) -> bool:
    kind = next(iter(step))
    return any(isinstance(action, row) and match(action, step) for row, match in _KINDS[kind])


def _installs(texts: Iterable[str], step: Step) -> bool:
    """Tell whether a requirement names the package, with its extra, and admits and refuses the releases of the row."""
    requirements = filter(None, map(_parse, texts))
    named = [item for item in requirements if item.name == step.get("installs", step.get("conda"))]
    return any(
        set(step.get("extras", ())) <= item.extras
        and all(
            item.specifier.contains(release, prereleases=True) for release in step.get("takes", ())
        )
        and not any(
            item.specifier.contains(release, prereleases=True)
            for release in step.get("refuses", ())
        )
        for item in named
    )


def _parse(text: str) -> Requirement | None:
    """Read a requirement of pip, or a spec of conda's: cudnn=7.1 admits 7.1.2, pytorch=*=cuda* any release."""
    conda = re.fullmatch(r"([\w.-]+)=([\w.*]+)(?:=\S+)?", text)
    try:
        return Requirement(
            (f"{conda[1]}=={conda[2]}.*" if conda[2] != "*" else conda[1]) if conda else text
        )
    except InvalidRequirement:
        return None


def _is_pip_install(action: Any, step: Step) -> bool:
    label = action.index.rpartition("/")[2]
    return _installs(action.requirements, step) and ("index" not in step or label in step["index"])


def _is_environment(action: Any, step: Step) -> bool:
    wanted = set(step.get("packages", ()))
    return step["environment"] in ("", action.python) and wanted <= set(action.packages)


def _sets(action: Any, step: Step) -> bool:
    values = dict(action.values)
    return step["sets"] in values and step.get("holds", "") in values[step["sets"]]


def _names(cell: str, attribute: str) -> Callable[[Any, Step], bool]:
    """Match a name, or one of several, of an action with a pattern for the whole of it."""

    def match(action: Any, step: Step) -> bool:
        found = getattr(action, attribute)
        names = found if isinstance(found, tuple) else (found,)
        return any(re.fullmatch(step[cell], name) for name in names)

    return match


def _is_system_package(action: Any, step: Step) -> bool:
    is_named = any(re.fullmatch(step["system_package"], name) for name in action.packages)
    return is_named and step.get("option", "") in " ".join(action.options)


def _has_words(cell: str) -> Callable[[Any, Step], bool]:
    """Match a command that holds each of the words."""
    return lambda action, step: set(step[cell]) <= set(action.argv)


def _always(action: Any, step: Step) -> bool:
    return True


_KINDS: dict[str, tuple[tuple[type, Callable[[Any, Step], bool]], ...]] = {
    "installs": (
        (types.InstallPackages, _is_pip_install),
        (types.ReinstallPackages, _is_pip_install),
        (
            types.InstallCondaPackages,
            lambda action, step: "index" not in step and _installs(action.specs, step),
        ),
    ),
    "conda": ((types.InstallCondaPackages, lambda action, step: _installs(action.specs, step)),),
    "uninstalls": ((types.UninstallPackages, _names("uninstalls", "names")),),
    "upgrades_pip": ((types.UpgradePip, _always),),
    "environment": ((types.CreateEnvironment, _is_environment),),
    "sets": ((types.SetVariables, _sets),),
    "unsets": ((types.UnsetVariable, _names("unsets", "name")),),
    "system_package": ((types.InstallSystemPackages, _is_system_package),),
    "removes_system_package": (
        (types.RemoveSystemPackages, _names("removes_system_package", "packages")),
    ),
    "loads": ((types.LoadModule, _names("loads", "module")),),
    "starts": (
        (types.StartService, _names("starts", "unit")),
        (types.RestartService, _names("starts", "unit")),
    ),
    "reboots": ((types.Reboot, _always),),
    "renames": ((types.RenameFile, _always),),
    "runs": ((types.RunCommand, _has_words("runs")),),
    "shows": ((types.Show, _has_words("shows")),),
    "envcheck": (
        (types.RunEnvcheck, lambda action, step: set(step["envcheck"]) <= set(action.words)),
    ),
    "python": ((types.RunPython, lambda action, step: step["python"] in action.code),),
}

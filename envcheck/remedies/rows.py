"""The remedies of data/remedies.json: what to do about a case, filled with the values of the problem."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from envcheck.actions import (
    Action,
    BuildModules,
    CreateEnvironment,
    InstallCondaPackages,
    InstallPackages,
    InstallSystemPackages,
    LoadModule,
    Reboot,
    RemoveSystemPackages,
    RenameFile,
    RestartService,
    RunCommand,
    RunEnvcheck,
    RunPython,
    SetCondaVariable,
    SetVariables,
    Show,
    UninstallPackages,
    UnsetVariable,
)
from envcheck.host.data_files import read_data
from envcheck.model import Alternative, Problem, Remedy, get_value
from envcheck.model.actions import CONDA, ENVIRONMENT, SYSTEM, USER
from envcheck.remedies.situation import Situation
from envcheck.remedies.system import install_somewhere

_NAMED = re.compile(r"\{([a-z_][a-z_0-9]*)\}")
_MANY = "{pids}"  # stands for several words


def special_remedy(finding_id: str, problem: Problem, situation: Situation) -> Remedy | None:
    """Return the remedy for this very case; None where the finding has one for all."""
    special = [row for row in rows_of(finding_id) if "cases" in row or "where" in row]
    return _first(sorted(special, key=lambda row: _place(row, problem)), problem, situation)


def usual_remedy(finding_id: str, problem: Problem, situation: Situation) -> Remedy | None:
    """Return the remedy of a finding of which nothing more is known."""
    rows = (row for row in rows_of(finding_id) if "cases" not in row and "where" not in row)
    return _first(rows, problem, situation)


@lru_cache(maxsize=1)
def document() -> dict[str, Any]:
    """Read data/remedies.json."""
    loaded: dict[str, Any] = json.loads(read_data("remedies.json"))
    return loaded


def rows_of(finding_id: str) -> list[dict[str, Any]]:
    """List the rows of one finding."""
    return _by_finding().get(finding_id, [])


@lru_cache(maxsize=1)
def _by_finding() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in document()["remedies"]:
        found.setdefault(row["finding"], []).append(row)
    return found


def _first(rows: Iterable[dict[str, Any]], problem: Problem, situation: Situation) -> Remedy | None:
    fitting = (row for row in rows if _fits(row, problem, situation))
    return next((found for row in fitting if (found := _Filler(problem, situation).remedy(row)) is not None), None)


def _place(row: dict[str, Any], problem: Problem) -> int:
    """Tell which of the cases a row is for: the weightiest comes first."""
    named = row.get("cases", problem.cases)
    return next((place for place, name in enumerate(problem.cases) if name in named), len(problem.cases))


def _fits(row: dict[str, Any], problem: Problem, situation: Situation) -> bool:
    if not set(row.get("when", ())) <= _tags(problem, situation):
        return False
    if "cases" in row and not set(row["cases"]) & set(problem.cases):
        return False
    return all(re.search(pattern, problem.value(name)) for name, pattern in row.get("where", {}).items())


def _tags(problem: Problem, situation: Situation) -> set[str]:
    """Name what a row may ask for: the system, the framework, conda, WSL, a build of CUDA code."""
    found = {situation.os, problem.framework, "conda" if situation.has_conda else ""}
    found |= {"wsl" if get_value(situation.facts.host.wsl_version) else "", "compiling" if problem.compiles else ""}
    return found - {""}


class _Filler:
    """Puts the values of a problem into the words of a row; what lacks a value is left out."""

    def __init__(self, problem: Problem, situation: Situation) -> None:
        self._problem, self._situation = problem, situation

    def remedy(self, row: dict[str, Any]) -> Remedy | None:
        """Fill a row; None where a name of its summary, or of all its actions, has no value."""
        summary = self._text(row["summary"])
        actions, elsewhere = self._actions(row)
        if summary is None or (row.get("actions") and not actions):
            return None
        ways = [
            Alternative(said, self._actions(way)[0])
            for way in row.get("alternatives", ())
            if (said := self._text(way["summary"]))
        ]
        return Remedy(summary, actions, (*elsewhere, *ways))

    def _actions(self, row: dict[str, Any]) -> tuple[tuple[Action, ...], tuple[Alternative, ...]]:
        """Make the actions; what a package manager installs comes with how other distributions have it."""
        found: list[Action] = []
        elsewhere: list[Alternative] = []
        for item in row.get("actions", ()):
            if "install" in item:
                values = {"major": item["major"]} if "major" in item else {}
                steps, others = install_somewhere(self._situation, item["install"], item["purpose"], **values)
                found += steps
                elsewhere += others
            elif (action := self._action(item)) is not None:
                found.append(action)
        return tuple(found), tuple(elsewhere)

    def _action(self, row: dict[str, Any]) -> Action | None:
        filled = self._filled(row)
        kind = next(name for name in row if name in _MAKERS)
        return _MAKERS[kind](filled, self._situation) if filled is not None else None

    def _filled(self, value: Any) -> Any:
        """Fill every text within a value; None where one has no value."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            words = [self._filled(word) for word in value]
            if None in words:
                return None
            return [part for said, word in zip(value, words) for part in (word.split() if said == _MANY else (word,))]
        if isinstance(value, dict):
            pairs = {name: self._filled(inner) for name, inner in value.items()}
            return None if None in pairs.values() else pairs
        return value

    def _text(self, text: str) -> str | None:
        """Put values into a text; None where one is missing."""
        values = {name: self._value(name) for name in _NAMED.findall(text)}
        return _NAMED.sub(lambda found: values[found[1]], text) if all(values.values()) else None

    def _value(self, name: str) -> str:
        return self._situation.python if name == "python" else self._problem.value(name)


Row = dict[str, Any]


def _scope(row: Row, usual: str) -> str:
    return str(row.get("scope", usual))


def _pairs(row: Row, name: str) -> tuple[tuple[str, str], ...]:
    return tuple(row.get(name, {}).items())


def _pip(row: Row, situation: Situation) -> Action:
    return InstallPackages(
        tuple(row["pip"]),
        row.get("interpreter", situation.python),
        index=row.get("index", ""),
        options=tuple(row.get("options", ())),
        settings=_pairs(row, "settings"),
        purpose=row.get("purpose", ""),
    )


def _run(row: Row, situation: Situation) -> Action:
    return RunCommand(
        tuple(row["run"]),
        row.get("purpose", ""),
        _scope(row, USER),
        tuple(row.get("systems", ())),
        row.get("sudo", False) and situation.sudo,
        tuple(row.get("check", ())),
        row.get("unchecked", RunCommand.unchecked),
        tuple(row.get("undo", ())),
        row.get("lasting", ""),
        _pairs(row, "settings"),
        by_person=row.get("by-person", False),
        in_shell=row.get("in-shell", False),
        ends_session=row.get("ends-session", False),
        windows_argv=tuple(row.get("windows", ())),
    )


def _show(row: Row, situation: Situation) -> Action:
    return Show(
        tuple(row["show"]),
        row.get("purpose", ""),
        _scope(row, USER),
        tuple(row.get("systems", ())),
        row.get("sudo", False) and situation.sudo,
    )


def _environment(row: Row, situation: Situation) -> Action:
    starter = (row["starter"],) if "starter" in row else ()
    if starter == ("python",):
        starter = (situation.python,)
    return CreateEnvironment(
        row["environment"], python=row.get("minor", ""), starter=starter, purpose=row.get("purpose", "")
    )


def _conda_environment(row: Row, _: Situation) -> Action:
    return CreateEnvironment(
        name=row["conda-environment"],
        installer=CONDA,
        packages=tuple(row["specs"]),
        channels=tuple(row.get("channels", ())),
        settings=_pairs(row, "settings"),
        purpose=row.get("purpose", ""),
    )


def _packages(row: Row, situation: Situation) -> Action:
    return InstallSystemPackages(
        row["manager"],
        tuple(row["packages"]),
        situation.sudo,
        row.get("upgrade", False),
        options=tuple(row.get("options", ())),
        purpose=row.get("purpose", ""),
        scope=_scope(row, SYSTEM),
    )


_MAKERS: dict[str, Callable[[Row, Situation], Action]] = {
    "build-modules": lambda row, its: BuildModules(sudo=its.sudo, purpose=row.get("purpose", "")),
    "conda": lambda row, _: InstallCondaPackages(
        tuple(row["conda"]), tuple(row.get("channels", ("conda-forge",))), purpose=row.get("purpose", "")
    ),
    "conda-environment": _conda_environment,
    "conda-variable": lambda row, _: SetCondaVariable(row["conda-variable"], row["value"], row.get("purpose", "")),
    "envcheck": lambda row, _: RunEnvcheck(tuple(row["envcheck"]), row.get("purpose", ""), _scope(row, ENVIRONMENT)),
    "environment": _environment,
    "load-module": lambda row, its: LoadModule(row["load-module"], its.sudo, row.get("purpose", "")),
    "packages": _packages,
    "pip": _pip,
    "python": lambda row, its: RunPython(
        row["python"], its.python, row.get("purpose", ""), tuple(row.get("systems", ()))
    ),
    "reboot": lambda row, its: Reboot(its.sudo, row.get("purpose", "")),
    "remove-packages": lambda row, its: RemoveSystemPackages(
        tuple(row["remove-packages"]), its.sudo, purpose=row.get("purpose", "")
    ),
    "rename": lambda row, _: RenameFile(row["rename"], row["to"], row.get("purpose", ""), _scope(row, USER)),
    "restart-service": lambda row, its: RestartService(row["restart-service"], its.sudo, row.get("purpose", "")),
    "run": _run,
    "set": lambda row, _: SetVariables(_pairs(row, "set"), row.get("purpose", ""), _scope(row, USER)),
    "show": _show,
    "uninstall": lambda row, its: UninstallPackages(
        tuple(row["uninstall"]), its.python, purpose=row.get("purpose", "")
    ),
    "unset": lambda row, _: UnsetVariable(row["unset"], row.get("purpose", ""), _scope(row, USER)),
}


def named_values(finding_id: str) -> tuple[str, ...]:
    """Name the values that the rows of a finding show or ask for; that of the interpreter is the situation's."""
    found: list[str] = []
    for row in rows_of(finding_id):
        found += [*_NAMED.findall(json.dumps(row)), *row.get("where", ())]
    return tuple(name for name in dict.fromkeys(found) if name != "python")


def findings_with_rows() -> set[str]:
    """Name the findings that have a row for any case."""
    return {row["finding"] for row in document()["remedies"] if not {"cases", "where", "when"} & set(row)}


__all__ = ["SYSTEM", "document", "findings_with_rows", "rows_of", "special_remedy", "usual_remedy"]

"""The remedies of data/remedies.json: what to do about a case, filled with the values of the problem."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
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
from envcheck.host.data_files import load_data
from envcheck.model import Alternative, Problem, Remedy, dataclass, decode, field, get_value, list_fields, replace
from envcheck.remedies.situation import Situation
from envcheck.remedies.system import install_somewhere

_NAMED = re.compile(r"\{([a-z_][a-z_0-9]*)\}")
_MANY = "{pids}"  # stands for several words


@dataclass(frozen=True)
class FamilyPackages:
    """What the package manager of the distribution installs; data/packages.json has the names."""

    what: str
    purpose: str
    major: str = ""


@dataclass(frozen=True)
class ActionRow:
    """One action, under the name of its kind."""

    build_modules: BuildModules | None = None
    conda: InstallCondaPackages | None = None
    conda_variable: SetCondaVariable | None = None
    envcheck: RunEnvcheck | None = None
    environment: CreateEnvironment | None = None
    install: FamilyPackages | None = None
    load_module: LoadModule | None = None
    packages: InstallSystemPackages | None = None
    pip: InstallPackages | None = None
    python: RunPython | None = None
    reboot: Reboot | None = None
    remove_packages: RemoveSystemPackages | None = None
    rename: RenameFile | None = None
    restart_service: RestartService | None = None
    run: RunCommand | None = None
    set: SetVariables | None = None
    show: Show | None = None
    uninstall: UninstallPackages | None = None
    unset: UnsetVariable | None = None

    @property
    def action(self) -> Action:
        """Return the action; values stand in it as {names}."""
        found: Action = next(filter(None, (getattr(self, name) for name in list_fields(self))))
        return found


@dataclass(frozen=True)
class AlternativeRow:
    """Another way than the remedy's own."""

    summary: str
    actions: tuple[ActionRow, ...] = ()


@dataclass(frozen=True)
class RemedyRow:
    """What to do about a finding; values stand in it as {names}."""

    summary: str
    cases: tuple[str, ...] = ()  # signatures or cases of the problem, of which it has one; () for any
    when: tuple[str, ...] = ()  # what must hold of the machine: windows, conda, compiling, a framework
    where: Mapping[str, str] = field(default_factory=dict)  # value -> pattern that it holds
    actions: tuple[ActionRow, ...] = ()
    alternatives: tuple[AlternativeRow, ...] = ()

    @property
    def is_special(self) -> bool:
        """Tell whether the row is for one case of the finding."""
        return bool(self.cases or self.where)

    @property
    def shown(self) -> tuple[str, ...]:
        """List the values that stand in the row."""
        return tuple(dict.fromkeys(name for text in _texts(self) for name in _NAMED.findall(text)))


@dataclass(frozen=True)
class RemedyTable:
    """The content of data/remedies.json."""

    remedies: Mapping[str, tuple[Any, ...]]  # finding id -> its rows, each made typed by `rows_of`
    gcc_of_symbols: Mapping[str, str]  # symbol version of libstdc++ -> the first GCC that has it
    distributions: Mapping[str, str]  # module -> distribution that brings it
    systems_of_glibc: Mapping[str, str]  # glibc -> the system that came with it, oldest first


def remedy_table() -> RemedyTable:
    """Return the content of data/remedies.json."""
    return load_data("remedies", RemedyTable)


def special_remedy(finding_id: str, problem: Problem, situation: Situation) -> Remedy | None:
    """Return the remedy for this very case; None where the finding has one for all."""
    special = [row for row in rows_of(finding_id) if row.is_special]
    return _first(sorted(special, key=lambda row: _place(row, problem)), problem, situation)


def usual_remedy(finding_id: str, problem: Problem, situation: Situation) -> Remedy | None:
    """Return the remedy of a finding of which nothing more is known."""
    return _first((row for row in rows_of(finding_id) if not row.is_special), problem, situation)


@cache
def rows_of(finding_id: str) -> tuple[RemedyRow, ...]:
    """List the rows of one finding; only these are made typed, for that takes longer than to read the file."""
    rows = remedy_table().remedies.get(finding_id, ())
    return tuple(decode(RemedyRow, row) for row in rows)


def value_names(finding_id: str) -> tuple[str, ...]:
    """Name the values that the rows of a finding show or ask for; that of the interpreter is the situation's."""
    found = dict.fromkeys(name for row in rows_of(finding_id) for name in (*row.shown, *row.where))
    return tuple(name for name in found if name != "python")


def rows_by_finding() -> dict[str, tuple[RemedyRow, ...]]:
    """Map every finding to its rows."""
    return {name: rows_of(name) for name in remedy_table().remedies}


def _first(rows: Iterable[RemedyRow], problem: Problem, situation: Situation) -> Remedy | None:
    fitting = (row for row in rows if _fits(row, problem, situation))
    return next((found for row in fitting if (found := fill_row(row, problem, situation)) is not None), None)


def _place(row: RemedyRow, problem: Problem) -> int:
    """Return which of the problem's cases a row is for: the strongest comes first."""
    named = row.cases or problem.cases
    return next((place for place, name in enumerate(problem.cases) if name in named), len(problem.cases))


def _fits(row: RemedyRow, problem: Problem, situation: Situation) -> bool:
    if not set(row.when) <= _tags(problem, situation):
        return False
    if row.cases and not set(row.cases) & set(problem.cases):
        return False
    return all(re.search(pattern, problem.value(name)) for name, pattern in row.where.items())


def _tags(problem: Problem, situation: Situation) -> set[str]:
    """Name what a row may ask for: the system, the framework, conda, WSL, a build of CUDA code."""
    found = {situation.os, problem.framework, "conda" if situation.has_conda else ""}
    found |= {"wsl" if get_value(situation.facts.host.wsl_version) else "", "compiling" if problem.compiles else ""}
    return found - {""}


def fill_row(row: RemedyRow, problem: Problem, situation: Situation) -> Remedy | None:
    """Fill a row; None where a name of its summary, or of all its actions, has no value."""
    filler = _Filler(problem, situation)
    summary = filler.text(row.summary)
    actions, elsewhere = filler.actions(row.actions)
    if summary is None or (row.actions and not actions):
        return None
    ways = [
        Alternative(said, filler.actions(way.actions)[0])
        for way in row.alternatives
        if (said := filler.text(way.summary))
    ]
    return Remedy(summary, actions, (*elsewhere, *ways))


class _Filler:
    """Puts the values of a problem in the place of {names}; what lacks a value is left out."""

    def __init__(self, problem: Problem, situation: Situation) -> None:
        self._problem, self._situation = problem, situation

    def actions(self, rows: Iterable[ActionRow]) -> tuple[tuple[Action, ...], tuple[Alternative, ...]]:
        """Make the actions; what a package manager installs comes with how other distributions have it."""
        found: list[Action] = []
        elsewhere: list[Alternative] = []
        for row in rows:
            if row.install is not None:
                values = {"major": row.install.major} if row.install.major else {}
                steps, others = install_somewhere(self._situation, row.install.what, row.install.purpose, **values)
                found += steps
                elsewhere += others
            elif (action := self._filled(row.action)) is not None:
                found.append(action)
        return tuple(found), tuple(elsewhere)

    def _filled(self, value: Any) -> Any:
        """Fill every text within a value; None where one has no value."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, tuple):
            items = [self._filled(item) for item in value]
            if None in items:
                return None
            return tuple(
                part for said, item in zip(value, items) for part in (item.split() if said == _MANY else (item,))
            )
        if isinstance(value, Action):
            cells = {name: self._filled(getattr(value, name)) for name in list_fields(value)}
            made: Action = replace(value, **cells)
            return None if None in cells.values() else made if self._situation.sudo else made.without_sudo()
        return value

    def text(self, text: str) -> str | None:
        """Put values into a text; None where one is missing."""
        values = {name: self._value(name) for name in _NAMED.findall(text)}
        return _NAMED.sub(lambda found: values[found[1]], text) if all(values.values()) else None

    def _value(self, name: str) -> str:
        return self._situation.python if name == "python" else self._problem.value(name)


def _texts(value: Any) -> Iterator[str]:
    """Yield every text within a row."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _texts(item)
    elif list_fields(value):
        for name in list_fields(value):
            yield from _texts(getattr(value, name))

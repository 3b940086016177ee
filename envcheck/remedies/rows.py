"""The remedies of data/advice/remedies.json.

What to do about a case, filled with the values of a log or a rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Protocol, TypeAlias

from envcheck.actions import (
    Action,
    AddLoaderFolder,
    BuildModules,
    CreateEnvironment,
    InstallCondaPackages,
    InstallPackages,
    InstallSystemPackages,
    LoadModule,
    Reboot,
    RefreshPackageLists,
    RemoveSystemPackages,
    RenameFile,
    RestartService,
    RunCommand,
    RunEnvcheck,
    RunPython,
    SetCondaVariable,
    SetVariables,
    Show,
    ShowKernelLog,
    StartService,
    UninstallPackages,
    UnloadModules,
    UnsetVariable,
    UpgradePip,
    is_requirement,
)
from envcheck.host.data_files import load_data
from envcheck.model import (
    Alternative,
    Fix,
    FollowRow,
    Remedy,
    dataclass,
    decode,
    field,
    list_fields,
)
from envcheck.remedies.situation import Actions, Situation
from envcheck.remedies.system import install_anywhere

_PLACEHOLDER = re.compile(r"\{([a-z_][a-z_0-9]*)\}")
_LIST_PLACEHOLDER = "{pids}"  # stands for several words
FindValue: TypeAlias = "Callable[[str], str]"  # by the name of a value; "" where none is known


class RowValues(Protocol):
    """What chooses a row and fills its {names}.

    The values of a log's messages, or those of a rule's `FollowRow`.
    """

    @property
    def signatures(self) -> tuple[str, ...]:
        """Name the messages, the strongest first, or the row."""

    @property
    def framework(self) -> str:
        """Name the framework that it is about."""

    @property
    def compiles(self) -> bool:
        """Return whether a build of CUDA code fails."""

    def find_value(self, name: str) -> str:
        """Return a value by its name; "" where it is not known."""


class RuleValues:
    """The values of a rule's finding."""

    compiles = False

    def __init__(self, fix: FollowRow, framework: str = "") -> None:
        """Take the row that a rule asks for, and the framework of its finding."""
        self.signatures: tuple[str, ...] = (fix.row,) if fix.row else ()
        self.framework, self._values = framework, dict(fix.values)

    def find_value(self, name: str) -> str:
        """Return a value of the fix."""
        return self._values.get(name, "")


@dataclass
class FamilyPackages:
    """What the distribution's package manager installs.

    data/advice/system_packages.json has the names.
    """

    what: str
    purpose: str
    major: str = ""


# kind of an action in a row -> its type
_KINDS: Mapping[str, type[Any]] = {
    "add_loader_folder": AddLoaderFolder,
    "build_modules": BuildModules,
    "conda": InstallCondaPackages,
    "conda_variable": SetCondaVariable,
    "envcheck": RunEnvcheck,
    "environment": CreateEnvironment,
    "install": FamilyPackages,
    "load_module": LoadModule,
    "packages": InstallSystemPackages,
    "pip": InstallPackages,
    "python": RunPython,
    "reboot": Reboot,
    "refresh": RefreshPackageLists,
    "remove_packages": RemoveSystemPackages,
    "rename": RenameFile,
    "restart_service": RestartService,
    "run": RunCommand,
    "set": SetVariables,
    "show": Show,
    "show_log": ShowKernelLog,
    "start_service": StartService,
    "uninstall": UninstallPackages,
    "unload_modules": UnloadModules,
    "unset": UnsetVariable,
    "upgrade_pip": UpgradePip,
}


def make_action(row: Mapping[str, Any]) -> Any:
    """Make the action of a row, or its FamilyPackages; values may stand in it as {names}."""
    ((kind, cells),) = row.items()
    return decode(_KINDS[kind], cells)


@dataclass
class AlternativeRow:
    """Another way than the remedy's own."""

    summary: str
    actions: tuple[Mapping[str, Any], ...] = ()  # each under the name of its kind


@dataclass
class RemedyRow:
    """What to do about a finding; values stand in it as {names}."""

    summary: str
    # messages of a log, or the name by which a rule asks for it; () for any
    cases: tuple[str, ...] = ()
    # what must hold of the machine: windows, conda, compiling, a framework
    when: tuple[str, ...] = ()
    where: Mapping[str, str] = field(default_factory=dict)  # value -> pattern that it holds
    actions: tuple[Mapping[str, Any], ...] = ()  # each under the name of its kind
    alternatives: tuple[AlternativeRow, ...] = ()

    @property
    def is_special(self) -> bool:
        """Return whether the row is for one case of the finding."""
        return bool(self.cases or self.where)

    @property
    def shown(self) -> tuple[str, ...]:
        """List the values that stand in the row."""
        return tuple(
            dict.fromkeys(name for text in list_texts(self) for name in _PLACEHOLDER.findall(text))
        )


@dataclass
class RemedyTable:
    """The content of data/advice/remedies.json."""

    # finding id, or name of a record of model/fixes -> its rows, each made typed by `load_rows`
    remedies: Mapping[str, tuple[Any, ...]]
    fixes: Mapping[str, tuple[Any, ...]]
    gcc_of_symbols: Mapping[str, str]  # symbol version of libstdc++ -> the first GCC that has it
    distributions: Mapping[str, str]  # module -> distribution that brings it
    systems_of_glibc: Mapping[str, str]  # glibc -> the system that came with it, oldest first


@dataclass
class MachineSteps:
    """The content of data/advice/machine_steps.json."""

    steps: Mapping[str, tuple[Any, ...]]  # name -> actions, each under the name of its kind


def remedy_table() -> RemedyTable:
    """Return the content of data/advice/remedies.json."""
    return load_data("advice/remedies", RemedyTable)


def build_special_remedy(finding_id: str, values: RowValues, situation: Situation) -> Remedy | None:
    """Return the remedy for this very case; None where the finding has one for all."""
    special = [row for row in load_rows(finding_id) if row.is_special]
    return _fill_first(sorted(special, key=lambda row: _rank_row(row, values)), values, situation)


def build_general_remedy(finding_id: str, values: RowValues, situation: Situation) -> Remedy | None:
    """Return the remedy of a finding of which nothing more is known."""
    return _fill_first(
        (row for row in load_rows(finding_id) if not row.is_special), values, situation
    )


def write_row(situation: Situation, fix: Fix) -> Remedy | None:
    """Write a fix that needs no function: its fields fill the first of its rows that fits."""
    values = tuple((name, str(getattr(fix, name) or "")) for name in list_fields(fix))
    rows = load_rows(type(fix).__name__)
    return _fill_first(rows, RuleValues(FollowRow(values=values)), situation)


@cache
def load_rows(name: str) -> tuple[RemedyRow, ...]:
    """List the rows of one finding, or of one kind of fixes.

    Only these are decoded: decoding costs more time than reading the file.
    """
    table = remedy_table()
    rows = table.remedies.get(name) or table.fixes.get(name, ())
    return tuple(decode(RemedyRow, row) for row in rows)


def _fill_first(
    rows: Iterable[RemedyRow], values: RowValues, situation: Situation
) -> Remedy | None:
    for row in rows:
        if _matches(row, values, situation):
            remedy = fill_row(row, values, situation)
            if remedy is not None:
                return remedy
    return None


def _rank_row(row: RemedyRow, values: RowValues) -> int:
    """Return which of the messages a row is for: the strongest comes first."""
    cases = row.cases or values.signatures
    for place, name in enumerate(values.signatures):
        if name in cases:
            return place
    return len(values.signatures)


def _matches(row: RemedyRow, values: RowValues, situation: Situation) -> bool:
    if not set(row.when) <= _list_tags(values, situation):
        return False
    if row.cases and not set(row.cases) & set(values.signatures):
        return False
    return all(re.search(pattern, values.find_value(name)) for name, pattern in row.where.items())


def _list_tags(values: RowValues, situation: Situation) -> set[str]:
    """Name what a row may ask for: the system, the framework, conda, WSL, a build of CUDA code."""
    tags = {situation.os, values.framework, "conda" if situation.has_conda else ""}
    tags |= {"container" if situation.in_container else ""}
    tags |= {
        "wsl" if situation.facts.host.wsl_version.value else "",
        "compiling" if values.compiles else "",
    }
    return tags - {""}


def fill_row(row: RemedyRow, values: RowValues, situation: Situation) -> Remedy | None:
    """Fill a row; None where a name of its summary, or of all its actions, has no value."""

    def find(name: str) -> str:
        return situation.python if name == "python" else values.find_value(name)

    summary = _fill(row.summary, find)
    actions, elsewhere = _make_actions(row.actions, find, situation)
    if summary is None or (row.actions and not actions):
        return None
    alternatives = [
        Alternative(summary_text, _make_actions(row_alternative.actions, find, situation)[0])
        for row_alternative in row.alternatives
        if (summary_text := _fill(row_alternative.summary, find))
    ]
    return Remedy(summary, actions, (*elsewhere, *alternatives))


def _make_actions(
    rows: Iterable[Mapping[str, Any]], find: FindValue, situation: Situation
) -> tuple[Actions, tuple[Alternative, ...]]:
    """Make the actions; a package manager's come with those of other distributions."""
    actions_found: list[Action] = []
    elsewhere: list[Alternative] = []
    for made in _fill_actions(rows, find):
        if isinstance(made, FamilyPackages):
            values = {"major": made.major} if made.major else {}
            steps, others = install_anywhere(situation, made.what, made.purpose, **values)
            actions_found += steps
            elsewhere += others
        else:
            actions_found.append(made if situation.sudo else made.without_sudo())
    return tuple(actions_found), tuple(elsewhere)


def machine_steps(name: str, sudo: bool, **values: str) -> Actions:  # noqa: FBT001 - every action names it so
    """List the steps of a name in data/advice/machine_steps.json, filled with values.

    A step that lacks a value is left out; there are none of an unknown name.
    """
    rows = load_data("advice/machine_steps", MachineSteps).steps.get(name, ())
    made = _fill_actions(rows, lambda name: values.get(name, ""))
    return tuple(each if sudo else each.without_sudo() for each in made)


def _fill_actions(rows: Iterable[Mapping[str, Any]], find: FindValue) -> Iterator[Any]:
    for row in rows:
        filled = _fill(row, find)
        made = make_action(filled) if filled else None
        if isinstance(made, InstallPackages) and not all(map(is_requirement, made.requirements)):
            continue
        if made:
            yield made


def _fill(value: Any, find: FindValue) -> Any:
    """Put values in the place of {names} in every text; None where one has no value."""
    if isinstance(value, str):
        values = {name: find(name) for name in _PLACEHOLDER.findall(value)}
        if all(values.values()):
            return _PLACEHOLDER.sub(lambda match: values[match[1]], value)
        return None
    if isinstance(value, Mapping):
        cells = {name: _fill(item, find) for name, item in value.items()}
        return None if None in cells.values() else cells
    if not isinstance(value, list):
        return value
    words: list[Any] = []
    for item in value:
        filled = _fill(item, find)
        if filled is None:
            return None
        words += filled.split() if item == _LIST_PLACEHOLDER else (filled,)
    return words


def list_texts(value: Any) -> Iterator[str]:
    """Yield every text within a row."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (tuple, list, Mapping)):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from list_texts(item)
    else:
        for name in list_fields(value):
            yield from list_texts(getattr(value, name))

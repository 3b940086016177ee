"""Sort what a project's files ask for: what is planned, and what comes along with it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from envcheck.actions import is_requirement
from envcheck.frameworks import framework_of, identity
from envcheck.matrix.companions import companion_row
from envcheck.model import RequestError, dataclass, field, replace
from envcheck.model.text import counted
from envcheck.model.versions import Requirement, can_be_met, read_requirement
from envcheck.plan.requests import UnknownPackageError, read_requests
from envcheck.rules.context import Context
from envcheck.rules.requirements import marker_holds

if TYPE_CHECKING:
    from envcheck.plan.wheelhouse import Wheelhouse


@dataclass
class ProjectLines:
    """What a project's files ask for, as they were read."""

    words: tuple[str, ...] = ()  # that name the files on a command line: -r requirements.txt
    lines: tuple[tuple[str, str], ...] = ()  # a requirement, and where it stands
    constraints: tuple[str, ...] = ()  # the files that bound the packages
    bounds: Mapping[str, str] = field(default_factory=dict)  # theirs, by package
    notes: tuple[str, ...] = ()  # what of them is not planned
    # the pylock.toml, or the pins of a wheelhouse, whose `lines` are installed as they are
    lock: str = ""
    made_for: Wheelhouse | None = None  # what the folder of these pins states of itself


@dataclass
class SortedLines:
    """Which requirements choose a framework, and which come into its environment besides."""

    planned: tuple[str, ...]
    beside: tuple[str, ...]
    notes: tuple[str, ...]


def sort_lines(texts: Iterable[str], project: ProjectLines, context: Context) -> SortedLines:
    """Join what the command line and the files ask for, and sort it for this machine.

    Raises RequestError where two lines exclude each other.
    """
    asked: dict[str, Requirement] = {}
    places: dict[str, str] = {}
    notes = list(project.notes)
    for text, place in (*((text, "") for text in texts), *project.lines):
        requirement = _read_line(text, place, context, notes)
        if requirement is None:
            continue
        if requirement.marker and not marker_holds(context, requirement.marker):
            continue
        name = requirement.name
        asked[name] = _join(asked.get(name), requirement, place)
        places.setdefault(name, place)
    for name in [name for name in asked if name in project.bounds]:
        bound = read_requirement(name + project.bounds[name])
        asked[name] = _join(asked[name], bound, f"{project.constraints[-1]} ({bound.plain})")
    planned: dict[str, str] = {}
    beside: list[str] = []
    for name, requirement in asked.items():
        place, text = places[name], requirement.plain
        reason = _find_reason_beside(text, context) if place else None
        if reason is None:
            planned[name] = text
        else:
            beside.append(text)
            notes += [f"{place}: {reason} It is installed with the rest."] if reason else []
    beside.extend(planned.pop(name) for name in _list_beside(planned, places))
    if project.lock:
        return SortedLines(tuple(planned.values()), (), tuple(notes))
    if beside:
        named = counted(len(beside), "more package")
        notes.append(f"Installed with it, as your files ask: {named} ({_shorten(beside)}).")
    return SortedLines(_with_bounds(planned, project.bounds), tuple(beside), tuple(notes))


def _list_beside(planned: Mapping[str, str], places: Mapping[str, str]) -> list[str]:
    """List what comes with the frameworks: parts of one, and a helper on the CPU beside another."""
    names = [name for name in planned if _is_part(name, planned)]
    if len(planned) - len(names) > 1 and places.get(_HELPER) and _HELPER in planned:
        names.append(_HELPER)
    return names


def _is_part(name: str, planned: Mapping[str, str]) -> bool:
    """Return whether a package is a part of a framework that is asked for too: jaxlib of jax."""
    owner = framework_of(name)
    return bool(owner) and name != identity(owner).main and identity(owner).main in planned


_HELPER = "onnxruntime"  # without a GPU: who names onnxruntime-gpu means it
_SHOWN = 4  # packages that are named before the rest is counted


def _shorten(texts: list[str]) -> str:
    return ", ".join(texts[:_SHOWN]) + (", ..." if len(texts) > _SHOWN else "")


def _read_line(text: str, place: str, context: Context, notes: list[str]) -> Requirement | None:
    """Read one line; None, with a note, for one of a file that no plan can type."""
    try:
        requirement = read_requirement(text)
    except RequestError:
        if not place:
            raise
        from envcheck.model.quoting import quote  # few files hold such a line

        what = "comes from an address" if "://" in text else "is no requirement"
        notes.append(f"{place}: {quote(text[:60])!r} {what}, and is not planned.")
        return None
    is_typed = is_requirement(requirement.plain) and not requirement.url
    if place and not context.matrix.framework_of(requirement.name):
        # the build of its framework decides: torchvision 0.22.0+cu128 is 0.22.0 in the matrix
        requirement = replace(requirement, specifier=re.sub(r"\+[\w.]+", "", requirement.specifier))
    if not place or is_typed:
        return requirement
    notes.append(f"{place}: {requirement.name} comes from an address, and is not planned.")
    return None


def _join(first: Requirement | None, second: Requirement, place: str) -> Requirement:
    """Ask for what both lines on one package ask for."""
    if first is None:
        if place and not can_be_met(second.specifier):
            raise RequestError(f"{place}: no version satisfies {second.plain}.")
        return second
    both = first.joined(second)
    if not can_be_met(both.specifier):
        raise RequestError(f"{place}: {second.plain} excludes {first.plain}, asked for too.")
    return both


def _find_reason_beside(text: str, context: Context) -> str | None:
    """Say why a package chooses no framework; "" for the usual reason, None for one that does."""
    try:
        read_requests((text,), context.matrix)
    except UnknownPackageError:
        return ""
    except RequestError as error:
        return str(error)
    return None


def _with_bounds(planned: Mapping[str, str], bounds: Mapping[str, str]) -> tuple[str, ...]:
    """Bound the frameworks that only packages on top of them bring."""
    brought = {name: "" for item in planned for name in companion_row(item).frameworks[:1]}
    new = [name + bounds[name] for name in brought if name in bounds and name not in planned]
    return (*planned.values(), *new)

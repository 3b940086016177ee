"""Read what a project's own files ask for, to plan it: the requirements of `pip install`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from envcheck.check.blueprint import Blueprint, FileError, Files, Lines, Names
from envcheck.check.requirement_files import (
    apply_constraints,
    list_bounds,
    parse_requirements,
    read_bounds,
    read_local_project,
    read_toml,
)
from envcheck.host.documents import table_in
from envcheck.model import dataclass
from envcheck.model.quoting import quote

Beside = Callable[[str], "Callable[[str], str | None]"]  # reads what the named file may name


@dataclass
class AskedFiles:
    """The files that a plan is asked for with, each as it was named."""

    requirements: Names = ()  # -r
    constraints: Names = ()  # -c
    projects: Names = ()  # folders: ".", "./server[gpu]"
    extras: Names = ()
    groups: Names = ()

    @property
    def words(self) -> Names:
        """Write them as they are typed."""
        options = (
            ("-r", self.requirements),
            ("-c", self.constraints),
            ("--extra", self.extras),
            ("--group", self.groups),
        )
        pairs = (part for option, names in options for name in names for part in (option, name))
        return (*self.projects, *pairs)


@dataclass
class FoundLines:
    """What the files ask for, each line with its place, and what of them is not read."""

    lines: Lines
    constraints: Names  # the files that bound them, those that other files name too
    bounds: Mapping[str, str]
    notes: Names


def read_asked(asked: AskedFiles, read: Callable[[str], str], beside: Beside) -> FoundLines:
    """Read the files that are asked for; raises FileError where one says nothing.

    `read` reads a file that a person named, `beside` what such a file names.
    """
    if (asked.extras or asked.groups) and not asked.projects:
        raise FileError("--extra and --group are of a project: name its folder, such as .")
    parts = [
        parse_requirements(read(path), path, Files(beside(path)).relative_to(path))
        for path in asked.requirements
    ]
    parts += [_read_folder(asked, folder, beside) for folder in asked.projects]
    named = (line.text for part in parts for line in part.constraints)
    lines = (line for part in parts for line in part.requirements)
    own = [line for path in asked.constraints for line in list_bounds(path, read(path))]
    bounds = read_bounds([*own, *(line for part in parts for line in part.bounds)])
    files = tuple(dict.fromkeys((*asked.constraints, *named)))
    notes = tuple(note for part in parts for note in _note_unread(part))
    return FoundLines(apply_constraints(lines, own), files, bounds, notes)


def _read_folder(asked: AskedFiles, folder: str, beside: Beside) -> Blueprint:
    """Read a project with the extras that stand in its brackets and those that are named."""
    path, _, stated = folder.rstrip("]").partition("[")
    extras = ",".join(filter(None, (stated, *asked.extras)))
    files = Files(beside(f"{path}/pyproject.toml"))
    _check_names(asked, [name.strip() for name in extras.split(",") if name], path, files)
    project = read_local_project(f"{path}[{extras}]" if extras else path, files, asked.groups)
    if project is None:
        raise FileError(
            f"{folder}: neither a pyproject.toml, a setup.cfg nor a setup.py there lists what the"
            " project requires."
        )
    return project


def _check_names(asked: AskedFiles, extras: Sequence[str], folder: str, files: Files) -> None:
    """Refuse an extra or a group that the pyproject.toml does not have."""
    found = files.find(f"{folder}/pyproject.toml")
    document = read_toml(found[1], found[0]) if found else {}
    tables = (
        ("extra", extras, table_in(document, "project", "optional-dependencies")),
        ("group", asked.groups, table_in(document, "dependency-groups")),
    )
    for kind, names, there in tables:
        for name in names:
            if name not in there and (found or kind == "group"):
                has = f"it has {', '.join(there)}" if there else "it has none"
                raise FileError(f"{folder} has no {kind} {name[:60]!r}: {has}.")


def _note_unread(part: Blueprint) -> list[str]:
    """Say which lines name what the plan does not follow."""
    notes = [
        f"{line.location}: {line.text.replace('not judged', 'not planned')}" for line in part.gaps
    ]
    for line in part.indexes:
        address = quote(line.text)
        notes.append(
            f"{line.location} names the index {address}: the plan chooses the builds for this"
            " machine, and asks only the indexes that pip or uv is configured for."
        )
    return notes

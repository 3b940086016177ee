"""Check what an installation needs before anything changes."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from envcheck.actions import CreateEnvironment
from envcheck.diagnosis.doctor import find_other_users
from envcheck.host.connection import find_connection_error
from envcheck.host.data_files import load_data
from envcheck.host.file_changes import get_free_bytes, measure_tree
from envcheck.host.pip_settings import (
    IndexSettings,
    SettingsError,
    find_default_index,
    is_true,
    read_pip_options,
    read_pip_settings,
)
from envcheck.host.prerequisites import find_program, has_output, is_working_python
from envcheck.install.places import MARKER, Place
from envcheck.model import (
    CONDA,
    PIP,
    SYSTEM,
    UV,
    Citation,
    Environment,
    Facts,
    Plan,
    PlannedRelease,
    RequirementSet,
    Step,
    dataclass,
    replace,
)

_MIB = 1 << 20


@dataclass
class MeasuredRelease:
    """The disk space that a release and its dependencies take."""

    framework: str
    build: str  # cpu, gpu
    release: str
    wheels_mib: int
    unpacked_mib: int


@dataclass
class MeasuredSizes:
    """The disk space that releases take, and the percentage that compiled Python files add."""

    rows: tuple[MeasuredRelease, ...]
    compiled_percent: int
    citation: Citation


@dataclass
class InstallData:
    """The content of data/program/install.json."""

    room: MeasuredSizes


def measured_sizes() -> MeasuredSizes:
    """Return the measured disk space of releases."""
    return load_data("program/install", InstallData).room


def disk_space_for(plan: Plan) -> int:
    """Return the bytes that a plan's packages take, packed and unpacked.

    Of the release, or the largest measured.

    A framework of which no release was measured counts as 0: an unknown size refuses nothing.
    """
    compiled = 1 + measured_sizes().compiled_percent / 100
    return sum(
        max(
            (int(row.wheels_mib + row.unpacked_mib * compiled) for row in _find_measured(release)),
            default=0,
        )
        * _MIB
        for release in plan.releases
    )


def wheel_space_for(plan: Plan) -> int:
    """Return the bytes that the wheels of a plan's packages take by themselves."""
    return sum(
        max((row.wheels_mib for row in _find_measured(release)), default=0) * _MIB
        for release in plan.releases
    )


def _find_measured(release: PlannedRelease) -> list[MeasuredRelease]:
    """List the rows of a release, or where it was not measured those of its kind."""
    rows = measured_sizes().rows
    same = [row for row in rows if (row.framework, row.build) == (release.framework, release.build)]
    return [row for row in same if row.release == release.version.partition("+")[0]] or same


def page_to_reach(wanted: RequirementSet, environment: Mapping[str, str]) -> IndexSettings:
    """Return how to reach the page of a set's first requirement; url "" where none has to be.

    On its own index, else on pip's; none where pip asks no index.
    """
    settings, index = IndexSettings(), wanted.index
    try:
        if is_true(read_pip_options(environment).get("no-index", "")):
            return settings
        settings = read_pip_settings(environment)
        index = index or settings.url or find_default_index()
    except SettingsError:  # a broken file, or pip's configuration cannot be read here
        pass
    name = re.split(r"[^A-Za-z0-9._-]", wanted.requirements[0])[0]
    return replace(settings, url=f"{index.rstrip('/')}/{name}/" if index else "")


_GIB = 1 << 30


@dataclass
class Preflight:
    """What to check: the plan as it will run, the place, and who asks for it."""

    plan: Plan
    place: Place
    environment: Mapping[str, str]
    facts: Facts | None = None  # of an environment that is there; None: a new one
    as_root: bool = False  # --as-root was given: root may change an environment of another user
    mends: bool = False  # an installation that was interrupted and has no journal


def objections(asked: Preflight) -> Iterator[str]:
    """Yield each reason not to start, as a sentence; cheap checks first."""
    # measuring a folder takes long: one to be copied
    yield from list(_check_place(asked)) or _list_obstacles(asked)


def is_refused(asked: Preflight) -> bool:
    """Return whether the request itself is wrong, whatever the machine lacks."""
    return any(_check_place(asked))


def _check_place(asked: Preflight) -> Iterator[str]:
    yield from _check_folder(asked.place, mends=asked.mends, as_root=asked.as_root)
    yield from _check_environment(asked.place, asked.facts) if asked.facts is not None else ()
    yield from _check_moved(asked)


def _list_obstacles(asked: Preflight) -> Iterator[str]:
    """Yield what the machine lacks."""
    yield from _check_disk_space(asked)
    yield from _check_temporary_space(asked)
    yield from _check_sudo(asked)
    made = asked.plan.environments[0]
    for step in asked.plan.steps:
        program = step.action.program_on(asked.plan.system)
        yield from _check_program(program, step, made, asked.environment) if program else ()
    for wanted in made.sets:
        text = describe_closed_index(wanted, asked.environment)
        if text:
            yield f"{text}{_MIRROR if wanted.index else ''}."


def is_root() -> bool:
    """Return whether this process may do anything on the machine.

    False on Windows, where nothing tells.
    """
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _check_folder(place: Place, *, mends: bool, as_root: bool) -> Iterator[str]:
    parent, folder = place.folder.parent, place.folder
    if not parent.is_dir():
        yield f"{parent} does not exist: create it, or name another --env."
        return
    if not os.access(parent, os.W_OK | os.X_OK):
        yield (
            f"{parent} cannot be written:"
            " the environment and what is kept of the old one lie there."
        )
    if folder.exists() and not folder.is_dir():
        yield f"{folder} is not a folder."
    elif folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK):
        yield f"{folder} cannot be written."
    elif folder.is_dir() and _belongs_to_other_user(folder):
        if not is_root():
            yield (
                f"{folder} belongs to another user, and its copy would be yours:"
                " ask them, or name a new folder."
            )
        elif not as_root:
            yield (
                f"{folder} belongs to another user, who could not change what root installs: add"
                " --as-root to do it."
            )
    # an installation with a journal was settled before
    if (folder / MARKER).exists() and not mends:
        yield (
            f"{folder} is an interrupted installation ({MARKER} is in it):"
            " remove it, or name a new folder."
        )
    if folder.is_mount():
        yield f"{folder} is a mount point, which cannot be replaced: name a folder in it."


def _belongs_to_other_user(folder: Path) -> bool:
    return hasattr(os, "geteuid") and os.geteuid() != folder.stat().st_uid


def _check_environment(place: Place, facts: Facts) -> Iterator[str]:
    is_environment = any((place.folder / name).exists() for name in ("pyvenv.cfg", "conda-meta"))
    others = find_other_users(str(place.folder), facts, is_environment=is_environment)
    if others:
        yield f"{place.folder} {others}. Name a new folder: --env .venv"
    elif os.name == "nt" and _runs_from(place):
        yield (
            "envcheck runs from this environment, and Windows"
            " renames no folder in use: run it from another one."
        )


def _check_moved(asked: Preflight) -> Iterator[str]:
    """Check that an environment lies where its activation says, if loader paths depend on it."""
    script = asked.place.folder / "bin" / "activate"
    if not asked.plan.environments[0].library_folders or not script.is_file():
        return
    named = re.findall(
        r"VIRTUAL_ENV=['\"]?(/[^'\"\n]*)", script.read_text(encoding="utf-8", errors="replace")
    )
    if named and asked.place.folder not in {Path(name).resolve() for name in named}:
        yield (
            f"{asked.place.folder} was moved: its activation still names {named[0]}. Name a new"
            " folder with --env."
        )


def _runs_from(place: Place) -> bool:
    return Path(sys.prefix).resolve() == place.folder


def _check_sudo(asked: Preflight) -> Iterator[str]:
    """Check that sudo needs no password: nobody can type one during the installation."""
    needed = [
        step
        for step in asked.plan.steps
        if step.scope == SYSTEM and step.action.program_on() == "sudo"
    ]
    if needed and not has_output(("sudo", "-n", "id"), asked.environment):
        yield (
            "sudo would ask for a password, which --system cannot type:"
            " run the system steps by hand first."
        )


def _check_disk_space(asked: Preflight) -> Iterator[str]:
    parent = asked.place.folder.parent
    if not parent.is_dir():
        return
    needed = disk_space_for(asked.plan) + (
        measure_tree(str(asked.place.folder)) if asked.facts is not None else 0
    )
    free = get_free_bytes(str(parent))
    if free < needed:
        copy = ""
        if asked.facts is not None:
            copy = ", and a copy of the environment"
        based = f"wheels of this kind, packed and unpacked{copy}"
        yield (
            f"{parent} has space for {free / _GIB:.1f} GiB;"
            f" this needs about {needed / _GIB:.1f} GiB ({based})."
        )


def _check_temporary_space(asked: Preflight) -> Iterator[str]:
    """Check that pip has space for all wheels if it downloads to another disk."""
    parent = asked.place.folder.parent
    temporary = Path(asked.environment.get("TMPDIR") or tempfile.gettempdir())
    if asked.plan.environments[0].installer != PIP or not (parent.is_dir() and temporary.is_dir()):
        return
    needed, free = wheel_space_for(asked.plan), get_free_bytes(str(temporary))
    if temporary.stat().st_dev != parent.stat().st_dev and free < needed:
        room = f"has space for {free / _GIB:.1f} GiB; the wheels take about {needed / _GIB:.1f} GiB"
        yield (
            f"pip downloads into {temporary}, which {room}: set TMPDIR to a folder with more space."
        )


def _check_program(
    program: str, step: Step, made: Environment, environment: Mapping[str, str]
) -> Iterator[str]:
    """Check that the program of a step is installed, unless the environment brings it."""
    if not isinstance(step.action, CreateEnvironment):
        if os.sep not in program and not find_program(program, environment):
            yield f"{program} is not installed: {step.purpose}"
    elif made.installer == CONDA:
        if not find_program(program, environment):
            yield (
                "conda, mamba and micromamba are not installed: install one of them, or choose"
                " --installer pip or uv."
            )
    elif made.installer == UV:
        yield from _check_uv_python(program, step.action, environment)
    elif not is_working_python(program, made.python, environment):
        yield (
            f"Python {made.python} is not installed ({program} does not start): install it or use"
            " another --python."
        )


def _check_uv_python(
    uv: str, action: CreateEnvironment, environment: Mapping[str, str]
) -> Iterator[str]:
    wanted = action.starter[-1] if action.starter else action.python
    if os.sep in wanted:
        if not is_working_python(wanted, action.python, environment):
            yield f"Python {action.python} is not installed: {wanted} does not start."
    elif not has_output((uv, "python", "find", wanted), environment) and not has_output(
        (uv, "python", "list", "--only-downloads", wanted), environment
    ):
        yield (
            f"Python {action.python} is not installed,"
            " and uv cannot download it: choose another --python."
        )


_MIRROR = ": name a mirror that does, with --torch-index"


def describe_closed_index(wanted: RequirementSet, environment: Mapping[str, str]) -> str:
    """Say which index of a set does not answer, and why; "" where it answers or none is asked."""
    page = page_to_reach(wanted, environment)
    if not page.url:
        return ""
    why = find_connection_error(
        page.url,
        page.ca_file,
        page.proxy,
        page.trusted_hosts,
        certificate=page.client_certificate,
    )
    if why:
        return f"the package index {urlsplit(page.url).hostname} does not answer ({why})"
    return ""

"""The plan that an installation runs: made for the environment that is there, by the programs that are here."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping

from envcheck.cli import inspect
from envcheck.cli.exits import UserError
from envcheck.cli.output import typed_here
from envcheck.install.adapt import AdaptError, Here, adapted
from envcheck.install.place import Place
from envcheck.model.facts import Absent, Known
from envcheck.model.machine import Facts
from envcheck.model.plans import CONDA, PIP, UV, Plan
from envcheck.model.records import dataclass, replaced
from envcheck.plan.activation import EVERY_SHELL
from envcheck.plan.described import Description
from envcheck.plan.there import Standing
from envcheck.plan.wish import Wish


@dataclass(frozen=True)
class Asked:
    """What is to be installed, and how the plan is to be."""

    requirements: tuple[str, ...]
    folder: str = ""
    python: str = ""
    installer: str = ""
    expect: str = "auto"
    matrix_file: str | None = None


@dataclass(frozen=True)
class Planned:
    """The plan as it will run, and the facts of the environment it changes (None: a new one)."""

    plan: Plan
    facts: Facts | None
    kept: tuple[Standing, ...] = ()  # frameworks of that environment which stay as they are
    is_there: bool = False  # they are all that is asked for: nothing is to be done


def plan_to_run(asked: Asked, place: Place, *, system: bool) -> Planned:
    """Plan, and fit the plan to what is here; what cannot be is the user's error, a blocked plan is returned."""
    facts = _environment_facts(asked, place)
    installer = asked.installer or ("conda" if facts is not None and _is_conda(place) else "")
    made = _made(asked, facts, installer)
    if not installer and _can_uv(made.plan):
        made = _made(asked, facts, UV)
    plan = made.plan
    if not plan.releases or plan.blocked_by:
        return made
    try:
        return replaced(made, plan=adapted(plan, _here(plan, facts, asked), system=system, typed=typed_here))
    except AdaptError as error:
        raise UserError(str(error)) from None


def _environment_facts(asked: Asked, place: Place) -> Facts | None:
    if not place.is_taken:
        return None
    try:
        facts = inspect.live_snapshot("", str(place.folder)).facts
    except UserError as error:
        raise UserError(_without_python(place) or str(error)) from None
    version = facts.python.version
    if not isinstance(version, Known):
        raise UserError(f"the Python of {place.folder} does not answer: give a new folder with --env.")
    abi = facts.python.abi_tag
    threads = "t" if isinstance(abi, Known) and abi.value.endswith("t") else ""  # 3.14t: the free-threaded build
    minor = ".".join(version.value.split(".")[:2]) + threads
    if asked.python and asked.python != minor:
        raise UserError(f"{place.folder} has Python {minor}, not {asked.python}: give a new folder with --env.")
    return facts


def _without_python(place: Place) -> str:
    """Say of an environment that what it was made from is gone; "" for a folder that is none."""
    told = ""
    with contextlib.suppress(OSError):
        told = (place.folder / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")
    base = next((line.partition("=")[2].strip() for line in told.splitlines() if line.startswith("home")), "")
    where = f", {base}, is gone or not yours to read" if base else " is gone"
    again = "give a new folder with --env, or remove this one first."
    return f"the Python of {place.folder} does not start: what it was made from{where}; {again}" if told else ""


def _made(asked: Asked, facts: Facts | None, installer: str) -> Planned:
    from envcheck.matrix.load import MatrixError, load_matrix
    from envcheck.plan.build import build_plan
    from envcheck.plan.described import check_description, planned_facts
    from envcheck.plan.into import OccupiedError, plan_into
    from envcheck.plan.requests import RequestError, check_folder, read_requests

    said = Description(python="" if facts is not None else asked.python)
    wish = Wish(asked.expect, installer, asked.folder, described=said, shells=EVERY_SHELL)
    try:
        check_description(said)
        check_folder(wish.folder)
        matrix = load_matrix(asked.matrix_file)
        requests = read_requests(asked.requirements, matrix)
        read = facts or inspect.live_snapshot("", "").facts
        expected = planned_facts(read, said, matrix, expects_gpu=asked.expect == "gpu")
        if not isinstance(expected.python.version, Known):
            raise UserError("which Python to install for is not known: name one, such as --python 3.12.")
        if facts is None:
            return Planned(build_plan(expected, matrix, requests, wish), None)
        into = plan_into(facts, matrix, requests, wish)
        return Planned(into.plan or Plan("", (), ()), facts, into.kept, into.plan is None)
    except (MatrixError, RequestError, OccupiedError) as error:
        raise UserError(str(error)) from None


def _is_conda(place: Place) -> bool:
    return (place.folder / "conda-meta").is_dir()


def _can_uv(plan: Plan) -> bool:
    """Tell whether uv can do what pip would: it is here, and so is what reads pip's settings for it."""
    from envcheck.install.variables import can_stand_for_pip

    only_pip = bool(plan.environments) and all(made.installer == PIP for made in plan.environments)
    return only_pip and bool(_uv(os.environ)) and can_stand_for_pip(os.environ)


def _uv(environment: Mapping[str, str]) -> str:
    from envcheck.plan.verify import UnreachableError, find_uv

    try:
        return find_uv(environment)
    except UnreachableError:
        return ""


def _here(plan: Plan, facts: Facts | None, asked: Asked) -> Here:
    from envcheck.host.prerequisites import program_path, python_of

    made = plan.environments[0]
    programs: dict[str, str] = {}
    if made.installer == UV and not program_path("uv", os.environ):
        programs["uv"] = _uv(os.environ) or "uv"
    if made.installer == CONDA and not program_path("conda", os.environ):
        programs["conda"] = next((name for name in ("mamba", "micromamba") if program_path(name, os.environ)), "conda")
    if not program_path("sudo", os.environ):
        programs["sudo"] = "env"  # root in a container: what sudo would do is no more than to run the command
    found = python_of(made.python, os.environ) if facts is None and asked.python and made.installer != CONDA else ""
    has_pip = facts is None or not isinstance(facts.python.pip_version, Absent)
    return Here(facts is not None, has_pip, tuple(programs.items()), (found,) if found else ())

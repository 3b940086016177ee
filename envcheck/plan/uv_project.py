"""Write the project that makes uv choose a plan's builds, and lock it as pylock.toml (PEP 751)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from envcheck.host.protocol import Variables
from envcheck.model import CONDA, Environment, Plan, RequirementSet, dataclass
from envcheck.model.versions import name_of
from envcheck.plan.verify import UnreachableError, compile_file

_NAME = r"pylock(\.[^.]+)?\.toml"  # that an installer takes for a lock file


@dataclass
class _Side:
    """What one extra of the project holds: a build of each framework, and what goes with it."""

    extra: str  # cpu, cu126
    requirements: tuple[str, ...]
    indexes: Mapping[str, str]  # by package: the index that its build comes from


def only_environment(plan: Plan) -> Environment:
    """Return a plan's only environment; ValueError where it has two."""
    if len(plan.environments) != 1:
        raise ValueError(
            "this plan needs two environments: plan for each framework by itself in this format."
        )
    return plan.environments[0]


def _make_side(plan: Plan, *, is_whole: bool) -> _Side:
    """Read one side out of a plan; ValueError for one that uv's settings cannot hold.

    `is_whole`: with what comes beside the frameworks, too.
    """
    made = only_environment(plan)
    if made.packages or made.installer == CONDA:
        raise ValueError("conda brings this plan's frameworks: ask for --format environment-yml.")
    if any(item.settings or "--find-links" in item.options for item in made.sets):
        raise ValueError(
            "this plan compiles a package or takes one from a page: ask for --format script."
        )
    chosen = [text for one in plan.releases for text in (one.requirement, *one.companions)]
    names = {*map(name_of, chosen)}
    bounds = {name_of(text) for one in plan.releases for text in one.constraints}
    texts: dict[str, str] = {}
    indexes: dict[str, str] = {}
    for item in made.sets:
        for text in item.requirements:
            name = name_of(text)
            if is_whole or name in names | bounds:
                texts[name] = re.sub(r"\+[\w.]+$", "", text) if item.index else text
            if item.index and name in names:
                indexes[name] = item.index
    cuda = next((one.cuda for one in plan.releases if one.cuda and one.build == "gpu"), None)
    extra = f"cu{cuda.replace('.', '')}" if cuda else "cpu"
    return _Side(extra, tuple(texts.values()), indexes)


def render_uv(plan: Plan, cpu: Plan | None) -> str:
    """Render the tables of a pyproject.toml with which uv locks the builds of a plan.

    With `cpu`, the same releases for the CPU, an extra chooses between both.
    """
    sides = [_make_side(plan, is_whole=False)]
    if cpu is not None and plan.goal == "gpu" and cpu.releases:
        beside = _make_side(cpu, is_whole=False)
        sides += [beside] if beside.extra != sides[0].extra else []
    made = only_environment(plan)
    lines = [
        f"# {' and '.join(plan.requirements)}, for Python {made.python} and {made.platform}.",
        "# For pyproject.toml: join each table with the one that is there.",
    ]
    if len(sides) == 1:
        lines += ["", "[project]", f"dependencies = {json.dumps(sides[0].requirements)}"]
        return "\n".join([*lines, *_write_sources(sides)]) + "\n"
    choices = " or ".join(f"uv sync --extra {side.extra}" for side in sides)
    conflict = ", ".join(f"{{ extra = {json.dumps(side.extra)} }}" for side in sides)
    lines += [f"# {choices}: one machine takes one of them.", "", "[project.optional-dependencies]"]
    lines += [f"{side.extra} = {json.dumps(side.requirements)}" for side in sides]
    lines += ["", "[tool.uv]", f"conflicts = [[{conflict}]]", *_write_sources(sides)]
    return "\n".join(lines) + "\n"


def _write_sources(sides: list[_Side]) -> Iterator[str]:
    """Yield the sources of each package, and the indexes, which nothing else may come from."""
    rows: dict[str, list[str]] = {}
    for side in sides:
        extra = f", extra = {json.dumps(side.extra)}" if len(sides) > 1 else ""
        for name, url in side.indexes.items():
            rows.setdefault(name, []).append(f"{{ index = {json.dumps(_name_index(url))}{extra} }}")
    if rows:
        yield from ("", "[tool.uv.sources]")
    for name, entries in rows.items():
        yield f"{name} = [{', '.join(entries)}]"
    for url in dict.fromkeys(url for side in sides for url in side.indexes.values()):
        yield from ("", "[[tool.uv.index]]", f"name = {json.dumps(_name_index(url))}")
        yield from (f"url = {json.dumps(url)}", "explicit = true")


def _name_index(url: str) -> str:
    """Name an index by what its builds are for: pytorch-cu126."""
    return f"pytorch-{re.sub(r'[^a-z0-9]+', '-', url.rstrip('/').rpartition('/')[2].lower())}"


def is_lock_name(path: str) -> bool:
    """Return whether installers take a file of this name for a lock file (PEP 751)."""
    return re.fullmatch(_NAME, Path(path).name) is not None


def compile_plan(
    plan: Plan,
    environ: Variables,
    seconds: float,
    *options: str,
    beside: tuple[str, ...] = (),
) -> str:
    """Return what uv resolves a plan to, for its machine: pins with hashes, or as `options` ask.

    `beside` are requirements that come along. Raises UnresolvableError, UnreachableError, or
    ValueError for a plan that a project of uv cannot hold.
    """
    made, side = only_environment(plan), _make_side(plan, is_whole=True)
    requirements = (*side.requirements, *beside)
    project = [
        "[project]",
        'name = "locked"',
        'version = "0"',
        f'requires-python = "=={made.python}.*"',
        f"dependencies = {json.dumps(requirements)}",
        *_write_sources([side]),
    ]
    bounds = max((item.options for item in made.sets), key=len, default=())  # all have the same
    built = tuple(name for item in made.sets for name in item.source_only)
    wanted = RequirementSet(requirements, source_only=built, options=bounds)
    file = ("pyproject.toml", "\n".join(project) + "\n")
    return compile_file(made, wanted, file, environ, seconds, *options)


def lock(plan: Plan, environ: Variables, seconds: float) -> str:
    """Lock a plan for its machine, with hashes; return the text of its pylock.toml.

    Raises as `compile_plan` does.
    """
    made = only_environment(plan)
    text = compile_plan(plan, environ, seconds, "--format", "pylock.toml")
    head = re.search(r'^lock-version = "1\.\d+"\n', text, re.MULTILINE)
    if head is None:
        raise UnreachableError("uv printed no pylock.toml: a newer uv does")
    # An installer refuses it on another machine; uv leaves that out.
    return (
        f"{text[: head.end()]}environments = [{json.dumps(_describe(made))}]\n{text[head.end() :]}"
    )


_SYSTEMS = {"linux": "linux", "win": "win32", "macosx": "darwin"}
_MACHINES = {"amd64": "AMD64"}


def _describe(made: Environment) -> str:
    """Write the machine of a plan as a marker."""
    system, _, machine = made.platform.partition("_")
    return (
        f"sys_platform == '{_SYSTEMS[system]}' and"
        f" platform_machine == '{_MACHINES.get(machine, machine)}'"
        f" and python_version == '{made.python}'"
    )

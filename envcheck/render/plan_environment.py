"""A plan as a conda environment file."""

from __future__ import annotations

import json

from envcheck.model.plans import Environment, Plan
from envcheck.plan.paths import prefix
from envcheck.render.inert import inert, shell_line
from envcheck.render.plan_files import paths_hint, the_environment


def render_environment_file(plan: Plan) -> str:
    """Render environment.yml, exact where the plan was verified.

    Every text is written as a JSON string, which YAML reads as it stands.
    """
    made = the_environment(plan)
    lines = [f"# {inert(' and '.join(plan.requirements))}, {made.platform}", *_hints(made)]
    lines += [f"# {inert(plan.verified)}"] if plan.verified else []
    lines += [f"name: {json.dumps(_name(made))}", "channels:"]
    channels = made.channels or ("conda-forge",)
    closed = () if "defaults" in channels else ("nodefaults",)
    lines += [f"  - {json.dumps(name)}" for name in (*channels, *closed)]
    lines += ["dependencies:"]
    lines += [f"  - {json.dumps(spec)}" for spec in made.solved or made.packages or (f"python={made.python}", "pip")]
    if made.sets:
        lines += ["  - pip:", *(f"      - {json.dumps(line)}" for line in _pip_lines(made))]
    return "\n".join(lines) + "\n"


def _name(made: Environment) -> str:
    return made.folder.replace("\\", "/").rstrip("/").rpartition("/")[2].lstrip(".") or "envcheck"


def _hints(made: Environment) -> list[str]:
    settings = "".join(f"{name}={value} " for name, value in made.variables.items())
    create = shell_line(("conda", "env", "create", "-p", prefix(made), "-f", "environment.yml"))
    return [f"# {settings}{create}", *paths_hint(made)]


def _pip_lines(made: Environment) -> list[str]:
    if len(made.sets) > 1:
        raise ValueError("this plan installs from two indexes, which one file must not mix: ask for --format script.")
    wanted = made.sets[0]
    index = [f"--index-url {wanted.index}"] if wanted.index else []
    exceptions = [f"--no-binary {name}" for name in wanted.source_only]
    return [*index, "--only-binary :all:", *exceptions, *(wanted.pins or wanted.requirements)]

"""Render a plan as a script, Dockerfile, requirements file, conda environment file or JSON."""

from __future__ import annotations

import json
import re
from typing import Any

from envcheck import __version__
from envcheck.actions import AskPerson, CreateEnvironment, ImportFrameworks, InstallPackages, UpgradePip
from envcheck.actions.activation import launcher_path
from envcheck.actions.environments import conda_prefix
from envcheck.actions.shells import HEADING, STOP, action_line, script_line, shell_line, typed_words
from envcheck.model import dataclass, replace
from envcheck.model.actions import CONDA, SYSTEM, Action, Step
from envcheck.model.codec import encode
from envcheck.model.plans import Environment, Plan, PlannedRelease, RequirementSet
from envcheck.model.text import inert
from envcheck.plan.images import Images
from envcheck.render.json_report import document_text, finding_document, step_document
from envcheck.render.plan_text import is_windows
from envcheck.rules.catalogue import catalogue


def paths_hint(made: Environment) -> list[str]:
    """Say, as a comment, what a file cannot bring: the loader paths that an environment's activation sets."""
    folders = ", ".join(made.library_folders)
    said = f"# Its activation must put these folders on LD_LIBRARY_PATH (--format script does): {folders}"
    return [said] if folders else []


def the_environment(plan: Plan) -> Environment:
    """Return a plan's only environment; ValueError where it has two."""
    if len(plan.environments) != 1:
        raise ValueError("this plan needs two environments: plan for each framework by itself in this format.")
    return plan.environments[0]


_HOME = "/home/app"
_CHECKER_PYTHON = "/opt/checker"  # a Python of its own, where that of the environment is too old for this program
_CACHE = "--mount=type=cache,target=/home/app/.cache,uid=10001 "
_INSTALL_CHECKER = 'exec "$0" -m pip install "$ENVCHECK"'


def render_dockerfile(plan: Plan, images: Images) -> str:
    """Render a Dockerfile upon these images; ValueError for a plan that an image of Linux cannot hold."""
    made = the_environment(plan)
    if not made.platform.startswith("linux"):
        raise ValueError(f"an image runs Linux, and this plan is for {made.platform}: add --platform linux_x86_64.")
    if any(catalogue()[name].layer == "toolkit" for step in plan.steps for name in step.resolves):
        raise ValueError("this plan counts on CUDA of the machine, which an image does not see: try --installer conda.")
    folder = f"{_HOME}/{_name(made)}"
    lines = [
        "# syntax=docker/dockerfile:1",
        f"# {inert(' and '.join(plan.requirements))}",
        *_host(plan),
        f"FROM {images.base}",
        *([f"COPY --from={images.uv} /uv /usr/local/bin/uv"] if images.uv else []),
    ]
    lines += [_run(("useradd", "--create-home", "--uid", "10001", "app")), "USER app", f"WORKDIR {_HOME}"]
    for step in plan.steps:
        if step.scope != SYSTEM and not isinstance(step.action, (AskPerson, ImportFrameworks)):
            lines += [f"# {inert(step.purpose)}", _step(made, step.action, folder)]
    return "\n".join([*lines, *_paths(made, folder, plan.goal), *_gate(plan, made, images, folder)]) + "\n"


def _name(made: Environment) -> str:
    """Name the environment's folder in the image: the last part of what was asked for, in plain letters."""
    last = re.split(r"[/\\]", made.folder.rstrip("/\\"))[-1]
    return re.sub(r"[^A-Za-z0-9_-]+", "-", last).strip("-") or "environment"


def _host(plan: Plan) -> list[str]:
    """Say what the host needs, as comments."""
    lines = []
    for step in plan.steps:
        if step.scope == SYSTEM:
            lines.append(f"# On the host: {inert(step.purpose)}")
            lines += [] if isinstance(step.action, AskPerson) else [f"#   {action_line(step.action)}"]
    return lines


def _step(made: Environment, action: Action, folder: str) -> str:
    there = action.moved(made.folder, folder)
    if isinstance(there, CreateEnvironment) and made.installer != CONDA:
        there = CreateEnvironment(folder, starter=("python",))
    installs = isinstance(there, (InstallPackages, UpgradePip))
    return _run(typed_words(there), _CACHE if installs else "")


def _paths(made: Environment, folder: str, goal: str) -> list[str]:
    """Set what an activation would: an image has no activation."""
    prefix = "CONDA_PREFIX" if made.installer == CONDA else "VIRTUAL_ENV"
    lines = [f"ENV PATH={folder}/bin:$PATH {prefix}={folder}"]
    if goal == "gpu":
        lines += ["ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility"]
    if made.library_folders:
        lines.append("ENTRYPOINT " + json.dumps(_activated(folder)))
    return lines


def _activated(folder: str) -> list[str]:
    """Write the words that start a program with the loader paths of the environment."""
    return ["sh", launcher_path(folder)]


def _gate(plan: Plan, made: Environment, images: Images, folder: str) -> list[str]:
    checker, python = f"{_HOME}/.envcheck", "/opt/conda/bin/python" if made.installer == CONDA else "python"
    lines = ["# ENVCHECK is what pip installs envcheck from: its name on your index, or the address of a wheel."]
    if images.checker:
        lines.append(f"COPY --from={images.checker} /usr/local {_CHECKER_PYTHON}")
        python = f"{_CHECKER_PYTHON}/bin/python3"
    check = (f"{checker}/bin/envcheck", "check", "--config", "pyproject.toml", "--env", folder)
    return [
        *lines,
        "ARG ENVCHECK=envcheck-gpu",
        _run((python, "-m", "venv", checker)),
        _run(("sh", "-c", _INSTALL_CHECKER, f"{checker}/bin/python"), _CACHE),
        "# The image is not built where it does not hold what [tool.envcheck] of the project requires.",
        "COPY --chown=app pyproject.toml ./",
        *_machine(plan),
        _run((*(_activated(folder) if made.library_folders else ()), *check)),
    ]


def _machine(plan: Plan) -> list[str]:
    """Tell the gate of the machine that is planned for: no build sees a driver or a GPU."""
    stated = [f"{name}={value}" for name, value in plan.machine.items() if re.fullmatch(r"[\d.,]+", value)]
    if not stated:
        return []
    return [
        "# The machine it is planned for: a build sees neither its driver nor its GPUs.",
        *(f"ARG {item}" for item in stated),
    ]


def _run(argv: tuple[str, ...], mount: str = "") -> str:
    """Write a RUN line in its JSON form, which no shell reads."""
    return f"RUN {mount}{json.dumps(argv)}"


def render_environment_file(plan: Plan) -> str:
    """Render environment.yml, exact where the plan was verified.

    Every text is written as a JSON string, which YAML reads as it stands.
    """
    made = the_environment(plan)
    lines = [f"# {inert(' and '.join(plan.requirements))}, {made.platform}", *_hints(made)]
    lines += [f"# {inert(plan.verified)}"] if plan.verified else []
    lines += [f"name: {json.dumps(_environment_name(made))}", "channels:"]
    channels = made.channels or ("conda-forge",)
    closed = () if "defaults" in channels else ("nodefaults",)
    lines += [f"  - {json.dumps(name)}" for name in (*channels, *closed)]
    lines += ["dependencies:"]
    lines += [f"  - {json.dumps(spec)}" for spec in made.solved or made.packages or (f"python={made.python}", "pip")]
    if made.sets:
        lines += ["  - pip:", *(f"      - {json.dumps(line)}" for line in _pip_lines(made))]
    return "\n".join(lines) + "\n"


def _environment_name(made: Environment) -> str:
    return made.folder.replace("\\", "/").rstrip("/").rpartition("/")[2].lstrip(".") or "envcheck"


def _hints(made: Environment) -> list[str]:
    settings = "".join(f"{name}={value} " for name, value in made.variables.items())
    create = shell_line(("conda", "env", "create", "-p", _prefix(made), "-f", "environment.yml"))
    return [f"# {settings}{create}", *paths_hint(made)]


def _prefix(made: Environment) -> str:
    return conda_prefix(made.folder, windows=made.platform.startswith("win"))


def _pip_lines(made: Environment) -> list[str]:
    if len(made.sets) > 1:
        raise ValueError("this plan installs from two indexes, which one file must not mix: ask for --format script.")
    wanted = made.sets[0]
    index = [f"--index-url {wanted.index}"] if wanted.index else []
    exceptions = [f"--no-binary {name}" for name in wanted.source_only]
    return [*index, "--only-binary :all:", *exceptions, *(wanted.pins or wanted.requirements)]


def render_requirements(plan: Plan) -> str:
    """Render the requirements; exact and with hashes where the plan was verified. ValueError: not one file."""
    made = the_environment(plan)
    if not made.sets:
        raise ValueError("conda brings this plan's frameworks: ask for --format environment-yml.")
    if len(made.sets) > 1:
        raise ValueError("this plan installs from two indexes, which one file must not mix: ask for --format script.")
    lines = [f"# {inert(' and '.join(plan.requirements))}, Python {made.python}, {made.platform}"]
    lines += [f"# {inert(plan.verified)}"] if plan.verified else []
    lines += [f"# conda brings, beside what stands here: {inert(' '.join(made.packages))}"] if made.packages else []
    lines += paths_hint(made)
    return "\n".join([*lines, *_options(made.sets[0]), *(made.sets[0].pins or made.sets[0].requirements)]) + "\n"


def _options(wanted: RequirementSet) -> list[str]:
    index = [f"--index-url {wanted.index}"] if wanted.index else []
    return [*index, "--only-binary :all:", *(f"--no-binary {name}" for name in wanted.source_only)]


_SAVE = "# For PowerShell: save it as setup.ps1, then type: powershell -ExecutionPolicy Bypass -File setup.ps1"

_SAY = """trap 'test "$?" -eq 0 || echo "Stopped: a step failed, and what follows it was not done." >&2' EXIT"""


def render_script(plan: Plan) -> str:
    """Render a plan as a script that stops at the first failure; system steps stand in it as comments."""
    wanted = f"# {inert(' and '.join(plan.requirements))} on the {plan.goal.upper()}: "
    wanted += ", ".join(item.requirement for item in plan.releases)
    lines = [_SAVE, wanted, *HEADING] if is_windows(plan) else ["#!/bin/sh", "set -eu", _SAY, wanted]
    for step in plan.steps:
        lines += ["", f"# {inert(step.purpose)}", *_command(plan, step)]
    text = "\n".join(lines) + "\n"
    return text.encode("ascii", "replace").decode("ascii") if is_windows(plan) else text


def _command(plan: Plan, step: Step) -> list[str]:
    if isinstance(step.action, AskPerson):
        return ["# (by hand)"]
    line = script_line(step.action, plan.system)
    if step.scope == SYSTEM:
        taken_back = step.action.undo(plan.system).argv
        undo = [f"# takes it back: {shell_line(taken_back, plan.system)}"] if taken_back else []
        return [*(f"# as an administrator: {part}" for part in line.splitlines()), *undo]
    return [line, STOP] if is_windows(plan) else [line]


SCHEMA = "envcheck/plan/1"


def plan_document(plan: Plan, verdict: str) -> dict[str, Any]:
    """Return a plan's JSON document, schema envcheck/plan/1."""
    return {
        "schema": SCHEMA,
        "tool_version": __version__,
        "verdict": verdict,
        **encode(replace(plan, releases=(), steps=(), blocked_by=())),
        "releases": [_release_document(item, plan.system) for item in plan.releases],
        "steps": [step_document(step, plan.system) for step in plan.steps],
        "blocked_by": [finding_document(item, plan.system) for item in plan.blocked_by],
    }


def _release_document(release: PlannedRelease, system: str) -> dict[str, Any]:
    told = {"warnings": release.warnings, "doubts": release.doubts}
    findings = {name: [finding_document(item, system) for item in found] for name, found in told.items()}
    return {**encode(replace(release, warnings=(), doubts=())), **findings}


def render_plan_json(plan: Plan, verdict: str) -> str:
    """Render a plan as one JSON document."""
    return document_text(plan_document(plan, verdict))


INSTALL_SCHEMA = "envcheck/install/1"


@dataclass(frozen=True)
class Result:
    """What came of an installation, of its undoing, or of a plan that was only shown."""

    outcome: str  # installed, unchanged, restored, planned, blocked, unsettled
    folder: str
    id: str = ""  # of the installation
    why: str = ""  # why the environment is not the new one
    log: str = ""  # file with what the steps printed
    machine: tuple[Any, ...] = ()  # steps taken on the machine where the environment is not the new one, newest first


def render_install_json(result: Result, plan: dict[str, Any] | None) -> str:
    """Render a result with the plan that ran (schema envcheck/plan/1; null for what needs none)."""
    told = {"schema": INSTALL_SCHEMA, "tool_version": __version__, **encode(result), "plan": plan}
    return document_text(told)

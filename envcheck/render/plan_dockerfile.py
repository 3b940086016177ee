"""A plan as a Dockerfile: an ordinary user, layers that cache, and a gate on the project's requirements."""

from __future__ import annotations

import json
import re

from envcheck.model.plans import CONDA, SYSTEM, Environment, Plan, Step
from envcheck.plan.images import Images
from envcheck.render.inert import inert, shell_line
from envcheck.render.plan_files import the_environment
from envcheck.rules.catalogue import catalogue
from envcheck.rules.loader_hook import launcher_path

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
        if step.scope != SYSTEM and step.argv and step.id != "verify":
            lines += [f"# {inert(step.purpose)}", _step(made, step, folder)]
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
            lines += [f"#   {shell_line(step.argv)}"] if step.argv else []
    return lines


def _step(made: Environment, step: Step, folder: str) -> str:
    argv = tuple(_moved(word, made.folder, folder) for word in step.argv)
    if step.id == "create-environment" and made.installer != CONDA:
        argv = ("python", "-m", "venv", folder)
    if step.env:
        argv = ("env", *(f"{name}={value}" for name, value in step.env.items()), *argv)
    return _run(argv, _CACHE if step.id.startswith(("install", "upgrade")) else "")


def _moved(word: str, folder: str, target: str) -> str:
    if word == folder or word.startswith(f"{folder}/"):
        return target + word[len(folder) :]
    return target if word == f"./{folder}" else word


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

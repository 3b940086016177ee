"""A plan as a Dockerfile: an ordinary user, layers that cache, and a gate on the project's requirements."""

from __future__ import annotations

import json

from envcheck.model.plans import CONDA, SYSTEM, Environment, Plan, Step
from envcheck.plan.activation import hook_path
from envcheck.render.inert import inert, shell_line
from envcheck.render.plan_files import the_environment

_HOME = "/home/app"
_OWN_FLOOR = (3, 10)  # requires-python of this program


def render_dockerfile(plan: Plan, image: str) -> str:
    """Render a Dockerfile upon `image`; ValueError for a plan that an image of Linux cannot hold."""
    made = the_environment(plan)
    if not made.platform.startswith("linux"):
        raise ValueError(f"an image runs Linux, and this plan is for {made.platform}: add --platform linux_x86_64.")
    folder = f"{_HOME}/{made.folder.strip('./')}"
    lines = [
        "# syntax=docker/dockerfile:1",
        f"# {inert(' and '.join(plan.requirements))}",
        *_host(plan),
        f"FROM {image}",
    ]
    lines += [_run(("useradd", "--create-home", "--uid", "10001", "app")), "USER app", f"WORKDIR {_HOME}"]
    for step in plan.steps:
        if step.scope != SYSTEM and step.argv and step.id != "verify":
            lines += [f"# {inert(step.purpose)}", _step(made, step, folder)]
    return "\n".join([*lines, *_paths(made, folder, plan.goal), *_gate(made, folder)]) + "\n"


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
    cache = "--mount=type=cache,target=/home/app/.cache,uid=10001 "
    return _run(argv, cache if step.id.startswith(("install", "upgrade")) else "")


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
        hook = f"{folder}/{hook_path(made)}"
        lines.append("ENTRYPOINT " + json.dumps(["sh", "-c", f'. {hook} && exec "$@"', "sh"]))
    return lines


def _gate(made: Environment, folder: str) -> list[str]:
    if made.installer != CONDA and tuple(map(int, made.python.split("."))) < _OWN_FLOOR:
        floor = ".".join(map(str, _OWN_FLOOR))
        return [
            f"# No gate: envcheck itself needs Python {floor}; run `envcheck doctor --env {folder}` from another image."
        ]
    checker = f"{_HOME}/.envcheck"
    python = "/opt/conda/bin/python" if made.installer == CONDA else "python"
    return [
        "# The image is not built where it does not hold what [tool.envcheck] of the project requires.",
        "COPY --chown=app pyproject.toml ./",
        _run((python, "-m", "venv", checker)),
        _run((f"{checker}/bin/python", "-m", "pip", "install", "envcheck-gpu")),
        _run((f"{checker}/bin/envcheck", "check", "--config", "pyproject.toml", "--env", folder)),
    ]


def _run(argv: tuple[str, ...], mount: str = "") -> str:
    """Write a RUN line in its JSON form, which no shell reads."""
    return f"RUN {mount}{json.dumps(argv)}"

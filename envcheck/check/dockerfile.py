"""Read a Dockerfile: its last stage, what that installs, and what its base image holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from envcheck.check.base_image import parse_image
from envcheck.check.blueprint import Blueprint, FileError, Files
from envcheck.check.dockerfile_lines import Instruction, read_instructions
from envcheck.check.stage import Stage
from envcheck.check.substitute import assignments, substituted


def parse_dockerfile(
    text: str, path: str, files: Files, arguments: Mapping[str, str] | None = None, target: str = ""
) -> tuple[Blueprint, ...]:
    """Read a Dockerfile: the stage it ends with, or `target`, then those it copies from; `arguments` are for ARG.

    Sample: FROM nvidia/cuda:12.4.1-runtime-ubuntu22.04
            RUN pip install torch==2.4.0
    """
    stages = _stages(text, path, files, dict(arguments or {}))
    if not stages:
        raise FileError(f"{path} has no FROM instruction: it is no Dockerfile")
    last = next((stage for stage in stages if target and stage.name == target.lower()), stages[-1])
    helpers = list(last.helpers)
    for helper in helpers:  # grows while it is walked: what a helper copies from counts too
        helpers += [other for other in helper.helpers if other not in helpers]
    merged = last.blueprint
    for helper in helpers:
        if helper in last.inherited:
            merged = _with_environment(merged, helper.blueprint)
    return (merged, *(replace(helper.blueprint, kind="stage") for helper in helpers))


def _with_environment(blueprint: Blueprint, helper: Blueprint) -> Blueprint:
    """Add what a copied environment holds; it runs on the last stage's image."""
    return replace(
        blueprint,
        python=blueprint.python or helper.python,
        requirements=blueprint.requirements + helper.requirements,
        unread=blueprint.unread + helper.unread,
        built=blueprint.built + helper.requirements,
    )


def _stages(text: str, path: str, files: Files, arguments: dict[str, str]) -> list[Stage]:
    stages: list[Stage] = []
    defaults: dict[str, str] = {}
    for item in read_instructions(text):
        if item.keyword == "FROM":
            stages.append(_stage(item, path, files, stages, {**defaults, **arguments}))
            stages[-1].defaults, stages[-1].arguments = defaults, arguments
        elif stages:
            stages[-1].take(item, stages)
        elif item.keyword == "ARG":
            defaults |= {name: substituted(said, defaults) for name, said in assignments(item.value)}
    return stages


def _stage(item: Instruction, path: str, files: Files, stages: list[Stage], known: dict[str, str]) -> Stage:
    words = substituted(item.value, known).split()
    platform = next((word.partition("=")[2] for word in words if word.startswith("--platform=")), "")
    words = [word for word in words if not word.startswith("--")]
    reference = words[0] if words else ""
    name = words[2].lower() if len(words) > 2 and words[1].lower() == "as" else ""
    parent = next((stage for stage in reversed(stages) if stage.name and stage.name == reference.lower()), None)
    where = f"{path}:{item.number}"
    if parent is not None:
        return Stage(name, replace(parent.blueprint, platform=platform or parent.blueprint.platform), files, parent)
    if not reference:
        raise FileError(f"{where}: FROM names no image")
    image = parse_image(reference, where)
    return Stage(name, Blueprint(path, "Dockerfile", image=image, platform=platform), files)

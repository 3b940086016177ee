"""What only the file itself shows: wheels for the CPU, code that compiles, a request for GPUs that is missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from envcheck.check.blueprint import Blueprint, Image, Line
from envcheck.matrix.images import conventions
from envcheck.model.facts import Source
from envcheck.model.findings import (
    COMPATIBLE,
    ERROR,
    INCOMPATIBLE,
    NOTE,
    UNDETERMINED,
    WARNING,
    Evidence,
    Finding,
    Fix,
)

Told = Iterator[tuple[str, list[Finding]]]


def of_the_file(blueprint: Blueprint, wanted: list[Line], goal: str) -> Told:
    """Yield each check that the file decides with what it found."""
    if goal == "gpu":
        conda = [line for line in blueprint.conda if line.text.split("=")[0].strip() == "cpuonly"]
        brought = _brought(blueprint.image)
        if wanted or conda or (blueprint.image and blueprint.image.frameworks):
            by_index = [_cpu_wheels(line) for line in wanted if line.index == "cpu"]
            yield "framework-cpu-build", by_index + [_cpu_conda(line) for line in conda] + brought
        without = [_no_plugin(line) for line in wanted if _is_plain_jax(line, blueprint)]
        if without:
            yield "framework-cuda-extra-missing", without
    yield from of_the_stage(blueprint, goal)
    if (blueprint.asks_gpu or blueprint.lacks_gpu) and goal == "gpu":
        yield "driver-not-in-container", [_no_request(line) for line in (blueprint.lacks_gpu,) if line]


def of_the_stage(blueprint: Blueprint, goal: str) -> Told:
    """Yield what compiles in an image without a compiler for it, and what could not be read."""
    image = blueprint.image
    plain = image is not None and image.source and image.flavor != "devel" and not blueprint.added
    if image is not None and plain and goal != "cpu" and not (image.frameworks and not image.flavor):
        compiling = [_no_compiler(line, image) for line in _compiling(blueprint)[:1]]
        perhaps = [_perhaps(line, image) for line in blueprint.may_compile[:1] if image.cuda and not compiling]
        if compiling or perhaps:
            yield "toolkit-missing", compiling + perhaps
    for line in (*blueprint.unread, *_not_judged(blueprint)):
        yield "", [_unread(line)]


def _not_judged(blueprint: Blueprint) -> Iterator[Line]:
    """Say what the names in the file leave open."""
    image = blueprint.image
    if image is not None and blueprint.kind != "stage" and not image.source:
        yield Line(f"The name {image.reference or '(none)'} does not tell what the image holds.", image.where)
    for line in blueprint.requirements:
        name, at, _ = line.text.partition("@")
        if line.index == "other":
            said = f"{line.text} comes from an index of builds for other makers' GPUs, which is not judged."
            yield replace(line, text=said)
        elif at and re.fullmatch(r"[\w.\[\],-]+", name.strip()):
            yield replace(line, text=f"{name.strip()} comes from an address of its own, which is not judged.")


def _brought(image: Image | None) -> list[Finding]:
    """Find images whose name says that they hold a build for the CPU."""
    cpu = [name for name in (image.frameworks if image else ()) if "-cpu" in name]
    assert image is not None or not cpu  # noqa: S101 - no image brings nothing
    return [_cpu_image(image, name) for name in cpu if image is not None]


def _cpu_image(image: Image, name: str) -> Finding:
    message = f"{image.reference} holds {name.replace('==', ' ')}, a build for the CPU; this environment is for a GPU."
    seen = Evidence("base image", image.reference, Source("file", image.where, image.reference))
    return Finding("framework-cpu-build", INCOMPATIBLE, ERROR, message, (seen,), Fix("Take the tag that ends in -gpu."))


def _is_plain_jax(line: Line, blueprint: Blueprint) -> bool:
    if _name(line) != "jax" or (blueprint.image is not None and not blueprint.image.source):
        return False  # an image of unknown contents may hold the plugin
    plugins = any(_name(other).startswith(("jax-cuda", "jaxlib")) for other in blueprint.requirements)
    return not plugins and not any("cuda" in extra for extra in Requirement(line.text).extras)


def _no_plugin(line: Line) -> Finding:
    message = f"{line.text} is installed without its CUDA plugin, so JAX runs on the CPU only."
    fix = Fix("Name the extra that brings it: jax[cuda12], or jax[cuda13] for a driver that runs CUDA 13.")
    seen = Evidence("requirement", line.text, Source("file", line.where, line.text))
    return Finding("framework-cuda-extra-missing", INCOMPATIBLE, ERROR, message, (seen,), fix)


def _cpu_conda(line: Line) -> Finding:
    message = "cpuonly makes conda choose PyTorch's build for the CPU; this environment is for a GPU."
    seen = Evidence("conda spec", line.text, Source("file", line.where, line.text))
    fix = Fix("Name pytorch-cuda, or pytorch-gpu of conda-forge, instead of cpuonly.")
    return Finding("framework-cpu-build", INCOMPATIBLE, ERROR, message, (seen,), fix)


def _perhaps(line: Line, image: Image) -> Finding:
    message = f"`{line.text}` builds an extension; where that is CUDA code, {image.reference} has no nvcc for it."
    fix = Fix("If it is, build in a stage from the devel variant of the image.")
    return Finding("toolkit-missing", COMPATIBLE, WARNING, message, _seen(line, image), fix)


def _seen(line: Line, image: Image) -> tuple[Evidence, ...]:
    return (
        Evidence("what compiles", line.text, Source("file", line.where, line.text)),
        Evidence("base image", image.reference, Source("file", image.where, image.reference)),
    )


def _compiling(blueprint: Blueprint) -> tuple[Line, ...]:
    sources = conventions()["compiles_cuda"]
    here = (line for line in blueprint.requirements if line not in blueprint.built and not line.links)
    named = (line for line in here if _name(line) in sources)
    return (*blueprint.compiles, *named)


def _name(line: Line) -> str:
    try:
        return str(canonicalize_name(Requirement(line.text).name))
    except InvalidRequirement:
        return ""


def _cpu_wheels(line: Line) -> Finding:
    message = (
        f"{line.text} is installed from an index that has wheels for the CPU alone; this environment is for a GPU."
    )
    seen = Evidence("requirement", line.text, Source("file", line.where, line.text))
    fix = Fix("Name PyTorch's index of the CUDA variant you want (…/whl/cu126), or none: its usual wheels bring CUDA.")
    return Finding("framework-cpu-build", INCOMPATIBLE, ERROR, message, (seen,), fix)


def _no_compiler(line: Line, image: Image) -> Finding:
    why = "only its devel variant has" if image.cuda else "it is no image of a CUDA Toolkit"
    message = f"{line.text} compiles CUDA code, and {image.reference} has no nvcc: {why}."
    devel = image.reference.replace(f"-{image.flavor}", "-devel") if image.cuda else "a devel image of nvidia/cuda"
    fix = Fix(f"Build in a stage FROM {devel}, and copy the result into the image that runs.")
    return Finding("toolkit-missing", INCOMPATIBLE, ERROR, message, _seen(line, image), fix)


def _no_request(line: Line) -> Finding:
    message = (
        f"{line.text} has a CUDA image and asks for no GPU: its container sees none, unless "
        "Docker's default runtime is NVIDIA's."
    )
    seen = Evidence("compose service", line.text, Source("file", line.where, line.text))
    return Finding(
        "driver-not-in-container", INCOMPATIBLE, ERROR, message, (seen,), Fix("Add `gpus: all` to the service.")
    )


def _unread(line: Line) -> Finding:
    seen = Evidence("file", line.text, Source("file", line.where))
    return Finding("probe-failed", UNDETERMINED, NOTE, line.text, (seen,))

"""Read what a file installs, of whichever kind it is.

A Dockerfile, a compose file, requirements, a lock file.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from envcheck.check.blueprint import (
    Blueprint,
    FileError,
    Files,
    Line,
    Reader,
    assignments,
    is_open,
    parse_image,
    substituted,
)
from envcheck.check.dockerfile import parse_dockerfile
from envcheck.check.requirement_files import (
    Places,
    Selection,
    _list,
    logical_lines,
    mapping_of,
    parse_conda_lock,
    parse_environment_yml,
    parse_project,
    parse_requirements,
)

_VARIABLES = "x-known"  # where a service carries the variables of the file beside
_MAX_DEPTH = 10  # services that extend each other


def parse_compose(text: str, path: str, files: Files) -> tuple[Blueprint, ...]:
    """Read a compose file: the blueprints of each service, its Dockerfile's where it builds one.

    Sample: services: {train: {image: "nvidia/cuda:12.4.1-runtime-ubuntu22.04", gpus: all}}
    """
    services = mapping_of(text, path).get("services")
    if not isinstance(services, dict):
        raise FileError(f"{path} has no services: it is not a compose file")
    env_file, variables = files.find(".env"), dict[str, str]()
    for _, line in logical_lines(env_file[1]) if env_file else ():
        variables.update(assignments(line))
    places = Places(text, path)
    blueprints: list[Blueprint] = []
    for name, entry in services.items():
        if isinstance(entry, dict):
            blueprints += _service(
                str(name),
                {**_merge_base_service(entry, services), _VARIABLES: variables},
                places,
                files,
            )
    if not blueprints:
        raise FileError(f"{path} has no services: it is not a compose file")
    return tuple(blueprints)


def _merge_base_service(entry: dict[str, Any], services: Mapping[str, Any]) -> dict[str, Any]:
    """Lay a service over the one of the same file that it extends."""
    for _ in range(_MAX_DEPTH):
        base = entry.get("extends")
        name = base.get("service") if isinstance(base, dict) and "file" not in base else base
        base_service = services.get(name) if isinstance(name, str) else None
        if not isinstance(base_service, dict):
            return entry
        entry = {**base_service, **{key: value for key, value in entry.items() if key != "extends"}}
    return entry


def _service(name: str, entry: dict[str, Any], places: Places, files: Files) -> list[Blueprint]:
    location = places.key(name)
    blueprints = [Blueprint(f"{places.path} ({name})", "compose file")]
    if entry.get("build") is not None:
        blueprints = _blueprints_of_build(blueprints[0], entry["build"], location, files)
    elif isinstance(entry.get("image"), str):
        image_location = places.value("image", entry["image"], location)
        blueprints = [
            replace(
                blueprints[0],
                image=parse_image(substituted(entry["image"], entry[_VARIABLES]), image_location),
            )
        ]
    base, kind = entry.get("extends"), f"the service {name}"
    if isinstance(base, dict) and isinstance(base.get("file"), str):
        gap = Line(f"{kind} extends a service in {base['file']}, which is not judged.", location)
        return [replace(blueprints[0], gaps=(*blueprints[0].gaps, gap)), *blueprints[1:]]
    stated = entry.get("environment")
    pairs = (
        [f"{key}={value}" for key, value in stated.items()]
        if isinstance(stated, dict)
        else _list(stated)
    )
    lines = tuple(Line(text, location) for text in pairs if isinstance(text, str) and "=" in text)
    blueprints[0] = replace(blueprints[0], variables=(*blueprints[0].variables, *lines))
    if isinstance(entry.get("platform"), str):
        blueprints[0] = replace(blueprints[0], platform=entry["platform"])
    if _asks_for_gpus(entry):
        return [replace(blueprints[0], asks_gpu=Line(kind, location)), *blueprints[1:]]
    has_cuda = blueprints[0].image is not None and blueprints[0].image.cuda
    return [
        replace(blueprints[0], lacks_gpu=Line(kind, location) if has_cuda else None),
        *blueprints[1:],
    ]


def _blueprints_of_build(
    blueprint: Blueprint, build: object, location: str, files: Files
) -> list[Blueprint]:
    settings: dict[str, Any] = build if isinstance(build, dict) else {"context": str(build)}
    context = str(settings.get("context", "."))
    name = posixpath.normpath(
        posixpath.join(context, str(settings.get("dockerfile", "Dockerfile")))
    )
    inline = settings.get("dockerfile_inline")
    inner = (f"{blueprint.path}, inline", inline) if isinstance(inline, str) else files.find(name)
    if inner is None:
        gap = Line(f"{name} was not found, so its build is not judged.", location)
        return [replace(blueprint, gaps=(gap,))]
    arguments = settings.get("args")
    pairs = (
        arguments.items()
        if isinstance(arguments, dict)
        else (str(item).split("=", 1) for item in _list(arguments))
    )
    build_arguments = {str(pair[0]): str(pair[1]) for pair in map(tuple, pairs) if len(pair) == 2}
    build_arguments = {key: gap for key, gap in build_arguments.items() if not is_open(gap)}
    context_files = replace(
        files, folders=tuple(posixpath.join(folder, context) for folder in files.folders)
    )
    return list(
        parse_dockerfile(
            inner[1], inner[0], context_files, build_arguments, str(settings.get("target") or "")
        )
    )


def _asks_for_gpus(entry: dict[str, Any]) -> bool:
    if (
        entry.get("gpus")
        or entry.get("runtime") == "nvidia"
        or _names(entry.get("devices"), "nvidia")
    ):
        return True
    deploy = entry.get("deploy")
    resources = deploy.get("resources", {}) if isinstance(deploy, dict) else {}
    reservations = resources.get("reservations", {}) if isinstance(resources, dict) else {}
    devices = _list(reservations.get("devices")) if isinstance(reservations, dict) else []
    return any(
        _names(item.get("capabilities"), "gpu") or _names(item.get("device_ids"), "nvidia.com/gpu")
        for item in devices
        if isinstance(item, dict)
    )


def _names(value: object, part: str) -> bool:
    """Return whether a list of words holds one with `part` in it."""
    return any(isinstance(item, str) and part in item for item in _list(value))


def read_blueprints(
    text: str, path: str, reader: Reader, selection: Selection | None = None
) -> tuple[Blueprint, ...]:
    """Read a Dockerfile, or another file that says what is installed; raises FileError.

    `selection` is what of a project is installed.
    """
    files = Files(reader).relative_to(path)
    name = path.replace("\\", "/").rsplit("/", 1)[-1].lower()
    if re.fullmatch(r"pixi\.lock|.*conda-lock\.ya?ml", name):
        return (parse_conda_lock(text, path),)
    if name.endswith((".yml", ".yaml")):
        return _yaml(text, path, files)
    if name.endswith((".toml", ".lock")):
        return (parse_project(text, path, selection),)
    if name.endswith((".txt", ".in")):
        return (parse_requirements(text, path, files),)
    return parse_dockerfile(text, path, files)


def _yaml(text: str, path: str, files: Files) -> tuple[Blueprint, ...]:
    is_compose = any(line.startswith("services:") for line in text.splitlines())
    return (
        parse_compose(text, path, files)
        if is_compose
        else (parse_environment_yml(text, path, files),)
    )

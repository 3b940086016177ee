"""Read a Dockerfile, a compose file, an environment.yml or a requirements file."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from envcheck.check.blueprint import (
    Blueprint,
    FileError,
    Files,
    Line,
    Read,
    assignments,
    is_open,
    parse_image,
    substituted,
)
from envcheck.check.dockerfile import parse_dockerfile
from envcheck.check.requirement_files import (
    Places,
    _list,
    logical_lines,
    mapping_of,
    parse_environment_yml,
    parse_requirements,
)

_KNOWN = "x-known"  # where a service carries the variables of the file beside
_DEEPEST = 10  # services that extend each other


def parse_compose(text: str, path: str, files: Files) -> tuple[Blueprint, ...]:
    """Read a compose file: the blueprints of each service, its Dockerfile's where it builds one.

    Sample: services: {train: {image: "nvidia/cuda:12.4.1-runtime-ubuntu22.04", gpus: all}}
    """
    services = mapping_of(text, path).get("services")
    if not isinstance(services, dict):
        raise FileError(f"{path} has no services: it is no compose file")
    beside, known = files.find(".env"), dict[str, str]()
    for _, line in logical_lines(beside[1]) if beside else ():
        known.update(assignments(line))
    places = Places(text, path)
    found: list[Blueprint] = []
    for name, entry in services.items():
        if isinstance(entry, dict):
            found += _service(str(name), {**_extended(entry, services), _KNOWN: known}, places, files)
    if not found:
        raise FileError(f"{path} has no services: it is no compose file")
    return tuple(found)


def _extended(entry: dict[str, Any], services: Mapping[str, Any]) -> dict[str, Any]:
    """Lay a service over the one of the same file that it extends."""
    for _ in range(_DEEPEST):
        base = entry.get("extends")
        name = base.get("service") if isinstance(base, dict) and "file" not in base else base
        other = services.get(name) if isinstance(name, str) else None
        if not isinstance(other, dict):
            return entry
        entry = {**other, **{key: value for key, value in entry.items() if key != "extends"}}
    return entry


def _service(name: str, entry: dict[str, Any], places: Places, files: Files) -> list[Blueprint]:
    where = places.key(name)
    found = [Blueprint(f"{places.path} ({name})", "compose file")]
    if entry.get("build") is not None:
        found = _built(found[0], entry["build"], where, files)
    elif isinstance(entry.get("image"), str):
        at = places.value("image", entry["image"], where)
        found = [replace(found[0], image=parse_image(substituted(entry["image"], entry[_KNOWN]), at))]
    base, kind = entry.get("extends"), f"the service {name}"
    if isinstance(base, dict) and isinstance(base.get("file"), str):
        said = Line(f"{kind} extends one of {base['file']}, which is not judged.", where)
        return [replace(found[0], unread=(*found[0].unread, said)), *found[1:]]
    if isinstance(entry.get("platform"), str):
        found[0] = replace(found[0], platform=entry["platform"])
    if _asks_for_gpus(entry):
        return [replace(found[0], asks_gpu=Line(kind, where)), *found[1:]]
    lacks = found[0].image is not None and found[0].image.cuda
    return [replace(found[0], lacks_gpu=Line(kind, where) if lacks else None), *found[1:]]


def _built(blueprint: Blueprint, build: object, where: str, files: Files) -> list[Blueprint]:
    given: dict[str, Any] = build if isinstance(build, dict) else {"context": str(build)}
    context = str(given.get("context", "."))
    name = posixpath.normpath(posixpath.join(context, str(given.get("dockerfile", "Dockerfile"))))
    inline = given.get("dockerfile_inline")
    inner = (f"{blueprint.path}, inline", inline) if isinstance(inline, str) else files.find(name)
    if inner is None:
        said = Line(f"{name} is not beside the file, so what it builds is not judged.", where)
        return [replace(blueprint, unread=(said,))]
    arguments = given.get("args")
    pairs = arguments.items() if isinstance(arguments, dict) else (str(item).split("=", 1) for item in _list(arguments))
    known = {str(pair[0]): str(pair[1]) for pair in map(tuple, pairs) if len(pair) == 2}
    known = {key: said for key, said in known.items() if not is_open(said)}
    context_files = replace(files, folders=tuple(posixpath.join(folder, context) for folder in files.folders))
    return list(parse_dockerfile(inner[1], inner[0], context_files, known, str(given.get("target") or "")))


def _asks_for_gpus(entry: dict[str, Any]) -> bool:
    if entry.get("gpus") or entry.get("runtime") == "nvidia" or _names(entry.get("devices"), "nvidia"):
        return True
    deploy = entry.get("deploy")
    resources = deploy.get("resources", {}) if isinstance(deploy, dict) else {}
    reserved = resources.get("reservations", {}) if isinstance(resources, dict) else {}
    devices = _list(reserved.get("devices")) if isinstance(reserved, dict) else []
    return any(
        _names(item.get("capabilities"), "gpu") or _names(item.get("device_ids"), "nvidia.com/gpu")
        for item in devices
        if isinstance(item, dict)
    )


def _names(value: object, part: str) -> bool:
    """Tell whether a list of words holds one with `part` in it."""
    return any(isinstance(item, str) and part in item for item in _list(value))


_EXTRA = "pip install 'envcheck-gpu[files]'"


def read_blueprints(text: str, path: str, read: Read) -> tuple[Blueprint, ...]:
    """Read a Dockerfile, a compose file, an environment.yml or a requirements file; raises FileError."""
    files = Files(read).beside(path)
    name = path.replace("\\", "/").rsplit("/", 1)[-1].lower()
    try:
        if name.endswith((".yml", ".yaml")):
            return _yaml(text, path, files)
        if name.endswith((".txt", ".in")):
            return (parse_requirements(text, path, files),)
        return parse_dockerfile(text, path, files)
    except ModuleNotFoundError as error:
        raise FileError(f"reading {path} needs the package {error.name}: {_EXTRA}") from None


def _yaml(text: str, path: str, files: Files) -> tuple[Blueprint, ...]:
    is_compose = any(line.startswith("services:") for line in text.splitlines())
    return parse_compose(text, path, files) if is_compose else (parse_environment_yml(text, path, files),)

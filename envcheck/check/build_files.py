"""Read what a file installs, of whichever kind it is.

A Dockerfile, a compose file, requirements, a lock file.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import replace

from envcheck.check.blueprint import (
    Blueprint,
    FileError,
    Files,
    Line,
    Reader,
    Table,
    assignments,
    is_for_gpu,
    is_open,
    parse_image,
    substituted,
)
from envcheck.check.dockerfile import parse_dockerfile
from envcheck.check.requirement_files import (
    Places,
    logical_lines,
    mapping_of,
    parse_environment_yml,
    parse_requirements,
    read_lock,
    read_pyproject,
    read_setup,
)
from envcheck.check.selection import Selection
from envcheck.host.documents import dig, list_in, table_in, tables_in

_MAX_DEPTH = 10  # services that extend each other


def parse_compose(text: str, path: str, files: Files) -> tuple[Blueprint, ...]:
    """Read a compose file: the blueprints of each service, its Dockerfile's where it builds one.

    Sample: services: {train: {image: "nvidia/cuda:12.4.1-runtime-ubuntu22.04", gpus: all}}
    """
    services = table_in(mapping_of(text, path), "services")
    env_file, variables = files.find(".env"), dict[str, str]()
    for _, line in logical_lines(env_file[1]) if env_file else ():
        variables.update(assignments(line))
    places = Places(text, path)
    blueprints: list[Blueprint] = []
    for name, entry in services.items():
        if isinstance(entry, dict):
            merged = _merge_base_service(entry, services)
            blueprints += _service(str(name), merged, variables, places, files)
    if not blueprints:
        raise FileError(f"{path} has no services: it is not a compose file")
    return tuple(blueprints)


def _merge_base_service(entry: Table, services: Table) -> Table:
    """Lay a service over the one of the same file that it extends."""
    for _ in range(_MAX_DEPTH):
        name = entry.get("extends")
        if isinstance(name, dict) and "file" not in name:
            name = name.get("service")
        base_service = table_in(services, name) if isinstance(name, str) else {}
        if not base_service:
            return entry
        entry = {**base_service, **{key: value for key, value in entry.items() if key != "extends"}}
    return entry


def _service(
    name: str, entry: Table, variables: Mapping[str, str], places: Places, files: Files
) -> list[Blueprint]:
    location = places.key(name)
    blueprints = [Blueprint(f"{places.path} ({name})", "compose file")]
    if entry.get("build") is not None:
        blueprints = _blueprints_of_build(blueprints[0], entry["build"], location, files)
    elif isinstance(entry.get("image"), str):
        image_location = places.value("image", entry["image"], location)
        image = parse_image(substituted(entry["image"], variables), image_location)
        blueprints = [replace(blueprints[0], image=image)]
    return [_with_settings(blueprints[0], name, entry, location), *blueprints[1:]]


def _with_settings(blueprint: Blueprint, name: str, entry: Table, location: str) -> Blueprint:
    """Add what a service states of its environment, its platform and its GPUs."""
    service, file = Line(f"the service {name}", location), dig(entry, "extends", "file")
    if isinstance(file, str):
        gap = f"{service.text} extends a service in {file}, which is not judged."
        return blueprint.plus(gaps=[Line(gap, location)])
    lines = [Line(text, location) for text in _pairs(entry, "environment") if "=" in text]
    blueprint = blueprint.plus(variables=lines)
    if isinstance(entry.get("platform"), str):
        blueprint = replace(blueprint, platform=entry["platform"])
    if _asks_for_gpus(entry):
        return replace(blueprint, asks_gpu=service)
    return replace(blueprint, lacks_gpu=service) if is_for_gpu(blueprint.image) else blueprint


def _pairs(entry: Table, key: str) -> list[str]:
    """List the pairs NAME=value of a table, which may be written as a list."""
    pairs = [f"{name}={value}" for name, value in table_in(entry, key).items()]
    return pairs or [item for item in list_in(entry, key) if isinstance(item, str)]


def _blueprints_of_build(
    blueprint: Blueprint, build: object, location: str, files: Files
) -> list[Blueprint]:
    settings: Table = build if isinstance(build, dict) else {"context": str(build)}
    context = str(settings.get("context", "."))
    name = posixpath.normpath(
        posixpath.join(context, str(settings.get("dockerfile", "Dockerfile")))
    )
    inline = settings.get("dockerfile_inline")
    inner = (f"{blueprint.path}, inline", inline) if isinstance(inline, str) else files.find(name)
    if inner is None:
        gap = Line(f"{name} was not found, so its build is not judged.", location)
        return [replace(blueprint, gaps=(gap,))]
    pairs = (pair.partition("=") for pair in _pairs(settings, "args"))
    build_arguments = {key: value for key, equals, value in pairs if equals and not is_open(value)}
    context_files = replace(
        files, folders=tuple(posixpath.join(folder, context) for folder in files.folders)
    )
    return list(
        parse_dockerfile(
            inner[1], inner[0], context_files, build_arguments, str(settings.get("target") or "")
        )
    )


def _asks_for_gpus(entry: Table) -> bool:
    if entry.get("gpus") or entry.get("runtime") == "nvidia" or _names(entry, "devices", "nvidia"):
        return True
    return any(
        _names(item, "capabilities", "gpu") or _names(item, "device_ids", "nvidia.com/gpu")
        for item in tables_in(entry, "deploy", "resources", "reservations", "devices")
    )


def _names(entry: Table, key: str, part: str) -> bool:
    """Return whether a list of words holds one with `part` in it."""
    return any(isinstance(item, str) and part in item for item in list_in(entry, key))


def read_blueprints(
    text: str, path: str, reader: Reader, selection: Selection | None = None
) -> tuple[Blueprint, ...]:
    """Read a Dockerfile, or another file that says what is installed; raises FileError.

    `selection` is what of a project is installed.
    """
    files = Files(reader).relative_to(path)
    name = path.replace("\\", "/").rsplit("/", 1)[-1].lower()
    if name == "pyproject.toml":
        return (read_pyproject(text, path, Files(reader), selection),)
    if name == "pipfile" or name.endswith((".toml", ".lock", "conda-lock.yml", "conda-lock.yaml")):
        return (read_lock(text, path, selection),)
    if name.endswith((".yml", ".yaml")):
        if re.search(r"(?m)^services:", text):
            return parse_compose(text, path, files)
        blueprint: Blueprint | None = parse_environment_yml(text, path, files)
    elif name.endswith((".txt", ".in")):
        blueprint = parse_requirements(text, path, files)
    elif name in ("setup.cfg", "setup.py"):
        blueprint = read_setup(text, path, selection.extras if selection else ())
    else:
        return parse_dockerfile(text, path, files)
    if blueprint is None:
        raise FileError(f"{path} states no list of requirements that can be read.")
    return (blueprint,)

"""Read compose files and conda's environment.yml."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from envcheck.check.base_image import parse_image
from envcheck.check.blueprint import Blueprint, FileError, Line
from envcheck.check.dockerfile import parse_dockerfile
from envcheck.check.requirements_file import Read


def parse_environment_yml(text: str, path: str) -> Blueprint:
    """Read conda's environment file.

    Sample: dependencies: [python=3.10, cudatoolkit=11.2, cudnn=8.1, pip, {pip: [tensorflow==2.10]}]
    """
    document = _mapping(text, path)
    blueprint = Blueprint(path, "environment.yml")
    for entry in _list(document.get("dependencies")):
        if isinstance(entry, str):
            line = Line(re.sub(r"\s+", " ", entry.split("::")[-1].strip()), _where(text, path, entry))
            python = re.fullmatch(r"python\s*[=]{1,2}\s*(\d+\.\d+)[\d.*]*", line.text)
            blueprint = replace(blueprint, conda=(*blueprint.conda, line))
            blueprint = replace(blueprint, python=Line(python[1], line.where)) if python else blueprint
        elif isinstance(entry, dict):
            wanted = [str(item) for item in _list(entry.get("pip")) if not str(item).startswith("-")]
            lines = tuple(Line(item, _where(text, path, item)) for item in wanted)
            blueprint = replace(blueprint, requirements=blueprint.requirements + lines)
    return blueprint


def parse_compose(text: str, path: str, read: Read) -> tuple[Blueprint, ...]:
    """Read a compose file: one blueprint for each service, its Dockerfile's where it builds one.

    Sample: services: {train: {image: "nvidia/cuda:12.4.1-runtime-ubuntu22.04", gpus: all}}
    """
    services = _mapping(text, path).get("services")
    if not isinstance(services, dict):
        raise FileError(f"{path} has no services: it is no compose file")
    return tuple(
        _service(str(name), entry, text, path, read) for name, entry in services.items() if isinstance(entry, dict)
    )


def _service(name: str, entry: dict[str, Any], text: str, path: str, read: Read) -> Blueprint:
    where = _where(text, path, f"{name}:")
    blueprint = Blueprint(f"{path} ({name})", "compose file")
    build = entry.get("build")
    if build is not None:
        file = str(build.get("dockerfile", "Dockerfile")) if isinstance(build, dict) else "Dockerfile"
        inner = read(file)
        unread = (Line(file, where),) if inner is None else ()
        blueprint = parse_dockerfile(inner, file, read) if inner is not None else replace(blueprint, unread=unread)
    elif isinstance(entry.get("image"), str):
        blueprint = replace(blueprint, image=parse_image(entry["image"], _where(text, path, entry["image"])))
    request = Line(f"the service {name}", where)
    if _asks_for_gpus(entry):
        return replace(blueprint, asks_gpu=request)
    return replace(blueprint, lacks_gpu=request) if blueprint.image and blueprint.image.cuda else blueprint


def _asks_for_gpus(entry: dict[str, Any]) -> bool:
    if entry.get("gpus") or entry.get("runtime") == "nvidia" or "nvidia.com/gpu" in str(entry.get("devices", "")):
        return True
    deploy = entry.get("deploy")
    resources = deploy.get("resources", {}) if isinstance(deploy, dict) else {}
    reserved = resources.get("reservations", {}) if isinstance(resources, dict) else {}
    devices = _list(reserved.get("devices")) if isinstance(reserved, dict) else []
    return any("gpu" in str(item.get("capabilities", "")) for item in devices if isinstance(item, dict))


def _mapping(text: str, path: str) -> dict[str, Any]:
    import yaml

    try:
        document = yaml.safe_load(_without_aliases(text, path))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise FileError(f"{path} is not YAML: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(document, dict):
        raise FileError(f"{path} holds no mapping: it is neither a compose file nor an environment.yml")
    return document


def _without_aliases(text: str, path: str) -> str:
    """Refuse a file whose aliases could unfold without end (a "billion laughs")."""
    if len(re.findall(r"(?<![\w&])\*\w+", text)) > 200:
        raise FileError(f"{path} uses more YAML aliases than any such file needs")
    return text


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _where(text: str, path: str, item: str) -> str:
    numbered: Iterator[int] = (number for number, line in enumerate(text.splitlines(), 1) if item in line)
    return f"{path}:{next(numbered, 1)}"

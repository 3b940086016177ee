"""Tell by its name what a file builds an environment with, and read it."""

from __future__ import annotations

from envcheck.check.blueprint import Blueprint, FileError, Files, Read
from envcheck.check.requirements_file import parse_requirements

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
        from envcheck.check.dockerfile import parse_dockerfile

        return parse_dockerfile(text, path, files)
    except ModuleNotFoundError as error:
        raise FileError(f"reading {path} needs the package {error.name}: {_EXTRA}") from None


def _yaml(text: str, path: str, files: Files) -> tuple[Blueprint, ...]:
    from envcheck.check.yaml_files import parse_compose, parse_environment_yml

    is_compose = any(line.startswith("services:") for line in text.splitlines())
    return parse_compose(text, path, files) if is_compose else (parse_environment_yml(text, path, files),)

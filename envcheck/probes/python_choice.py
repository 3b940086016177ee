"""Choose the interpreter to inspect."""

from __future__ import annotations

import posixpath
from typing import Any, Iterator, List, Mapping, Tuple

from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known, Source, value_of
from envcheck.model.records import dataclass

# Environments that hold one tool each: nobody means them when asking about "my Python".
_TOOL_FOLDERS = ("/pipx/venvs/", "/pipx/.cache/", "/uv/tools/", "/uv/archive-v", "/uv/environments-v", "/uv/builds-v")


@dataclass(frozen=True)
class PythonSelection:
    """What the user asked to inspect: a Python by path or name, or an environment by folder or name."""

    python: str = ""
    env: str = ""
    alone: bool = False  # the interpreter, not what is installed for it: a plan makes an environment of its own


@dataclass(frozen=True)
class Choice:
    """The interpreter chosen, its answer to the child script and by what it was chosen."""

    executable: Fact[str]
    answer: Fact[Mapping[str, Any]]
    chosen_by: str


def choose_python(host: Host, selection: PythonSelection) -> Choice:
    """Take --python, --env, VIRTUAL_ENV, CONDA_PREFIX, this tool's own Python or the first on PATH."""
    environment, told = host.environment(), ("alone",) if selection.alone else ()
    if selection.python:
        return _asked(host, _named_python(host, selection.python), "option", told)
    if selection.env:
        return _asked(host, _environment_python(host, selection.env), "option", told)
    active = [name for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if environment.get(name)]
    active = [name for name in active if not _is_tool(environment[name])]
    for variable in active:
        python = _python_in(host, environment[variable])
        if not isinstance(python, Absent):
            return _asked(host, python, variable, told)
    answer = host.ask("interpreter_info", *told)
    # An active environment that is gone, or without a Python, leaves a shell to the next Python on PATH.
    if active or (isinstance(answer, Known) and _is_tool(str(answer.value.get("prefix", "")))):
        on_path = _on_path(host)
        if isinstance(on_path, Known):
            return _asked(host, on_path, "PATH", told)
    return Choice(_executable(answer, Absent(("own interpreter",))), answer, "own")


def _asked(host: Host, python: Fact[str], chosen_by: str, told: Tuple[str, ...]) -> Choice:
    if not isinstance(python, Known):
        return Choice(python, python, chosen_by)
    answer = host.ask("interpreter_info", *told, python=python.value)
    return Choice(_executable(answer, python), answer, chosen_by)


def _executable(answer: Fact[Mapping[str, Any]], otherwise: Fact[str]) -> Fact[str]:
    # A shim on PATH starts another file: the interpreter knows best which it is.
    path = str(answer.value.get("executable", "")) if isinstance(answer, Known) else ""
    return Known(path, answer.source) if path and isinstance(answer, Known) else otherwise


def _is_tool(prefix: str) -> bool:
    return any(folder in prefix.replace("\\", "/") + "/" for folder in _TOOL_FOLDERS)


def _named_python(host: Host, name: str) -> Fact[str]:
    if "/" not in name and "\\" not in name:
        return host.find_program(name)
    status = host.status(name)
    if isinstance(status, Known) and status.value.kind == "folder":
        return _python_in(host, name)
    return Known(name, Source("file", name)) if isinstance(status, Known) else status


def _environment_python(host: Host, name: str) -> Fact[str]:
    """Find the Python of an environment given by its folder, or of a conda environment by its name."""
    tried: List[str] = []
    for folder in (name, *(_conda_folders(host, name) if "/" not in name else ())):
        found = _python_in(host, folder)
        if isinstance(found, Known):
            return found
        tried.extend(found.tried)
    return Absent(tuple(tried))


def _python_in(host: Host, folder: str) -> Fact[str]:
    names = ("Scripts/python.exe", "python.exe") if host.system == "windows" else ("bin/python", "bin/python3")
    paths = [posixpath.join(folder, name) for name in names]
    for path in paths:
        if isinstance(host.status(path), Known):
            return Known(path, Source("file", path))
    return Absent(tuple(paths))


def _conda_folders(host: Host, name: str) -> Iterator[str]:
    """Yield where conda keeps an environment of this name: beside the active one, under its root, in its list."""
    environment = host.environment()
    prefix = environment.get("CONDA_PREFIX", "")
    roots = [environment.get(variable, "") for variable in ("CONDA_ROOT", "MAMBA_ROOT_PREFIX")]
    executable = environment.get("CONDA_EXE", "")  # <root>/bin/conda
    roots.append(posixpath.dirname(posixpath.dirname(executable)))
    if prefix:
        yield posixpath.join(posixpath.dirname(prefix), name) if "/envs/" in prefix else f"{prefix}/envs/{name}"
    for root in filter(None, roots):
        yield root if name == "base" else f"{root}/envs/{name}"
    listed = value_of(host.read_text(posixpath.join(environment.get("HOME", "/"), ".conda/environments.txt"))) or ""
    yield from (line.strip() for line in listed.splitlines() if posixpath.basename(line.strip()) == name)


def _on_path(host: Host) -> Fact[str]:
    names: Tuple[str, ...] = ("python",) if host.system == "windows" else ("python3", "python")
    found = [host.find_program(name) for name in names]
    return next((each for each in found if isinstance(each, Known)), found[0])

"""Choose the Python environment that a person means, in the order that uv, Poetry, PyCharm, VS Code and pixi follow.

Options, the active environment, UV_PROJECT_ENVIRONMENT, the project's .venv, its .pixi/envs/default, the Python that
runs this program, conda's base, the first Python on PATH. An environment that was made for this program alone (by
`uvx`, `uv tool`, `uv run --with`, pipx) is nobody's: it is recognised by what it holds, wherever it lies.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any, Dict, Iterator, List, Mapping, Set, Tuple

from envcheck.frameworks import framework_of
from envcheck.host.paths import list_names
from envcheck.host.protocol import Host
from envcheck.model import (
    NO_ENVIRONMENT,
    Absent,
    Fact,
    Known,
    Source,
    canonical_name,
    dataclass,
    replace,
)

_PROGRAM = "envcheck-gpu"  # the distribution of this program
_INSTALLERS = frozenset(("pip", "setuptools", "wheel"))  # come with an environment
# what `uv tool install` and pipx leave in a tool's environment
_TOOL_FILES = ("uv-receipt.toml", "pipx_metadata.json")
_OVERLAY = "_uv_ephemeral_overlay.pth"  # what `uv run --with` lays over an environment
_EXTENDED = "extends-environment"  # key of pyvenv.cfg: the environment below
_CACHE_BUCKET = re.compile(r"(.+)/(?:archive|builds|environments)-v\d+/[^/]+$")  # of uv's cache
_PROJECT_FOLDERS = (".venv", ".pixi/envs/default")
_REPOSITORIES = (".git", ".hg")


@dataclass
class PythonSelection:
    """What to inspect: a Python by path or name, or an environment by folder or name."""

    python: str = ""
    env: str = ""
    without_packages: bool = False  # a plan creates a new environment


@dataclass
class PythonChoice:
    """The chosen interpreter, its answer to the child script, and what chose it."""

    executable: Fact[str]
    answer: Fact[Mapping[str, Any]]
    chosen_by: str  # see PythonFacts.chosen_by
    broken_environment: str = ""  # see PythonFacts.broken_environment


def choose_python(host: Host, selection: PythonSelection) -> PythonChoice:
    """Choose the Python to inspect; NO_ENVIRONMENT with our own Python's answer if none is anybody's."""
    arguments = ("without-packages",) if selection.without_packages else ()
    if selection.python:
        return _query_python(host, _find_named_python(host, selection.python), "option", arguments)
    if selection.env:
        return _query_python(
            host, _find_environment_python(host, selection.env), "option", arguments
        )
    broken = ""
    for folder, chosen_by in (*_list_active(host), *_list_project_environments(host)):
        python = _find_python_in(host, folder)
        if isinstance(python, Known):
            return replace(
                _query_python(host, python, chosen_by, arguments), broken_environment=broken
            )
        broken = broken or (folder if _has_lost_its_python(host, folder) else "")
    return replace(_choose_without_environment(host, arguments), broken_environment=broken)


def _has_lost_its_python(host: Host, folder: str) -> bool:
    """Tell whether a folder is an environment whose Python is gone; one that cannot be read counts as there."""
    if not _is_venv(host, folder) and not _is_conda(host, folder):
        return False
    return all(isinstance(host.status(path), Absent) for path in _list_python_paths(host, folder))


def _choose_without_environment(host: Host, arguments: Tuple[str, ...]) -> PythonChoice:
    """Choose our own Python, conda's base or the first Python on PATH that is not ours."""
    answer = host.ask("interpreter_info", *arguments)
    own = PythonChoice(_get_executable(answer, Absent(("own interpreter",))), answer, "own")
    prefix = str(answer.value.get("prefix", "")) if isinstance(answer, Known) else ""
    is_tool = is_tool_environment(host, prefix)
    # With an active environment that is gone or has no Python, a shell starts the next Python on
    # PATH.
    if not is_tool and not _has_stale_environment(host):
        return own
    base = _find_conda_base(host)
    python = _find_python_in(host, base) if base else Absent(())
    if isinstance(python, Known):
        return _query_python(host, python, "base", arguments)
    on_path = _find_python_on_path(host, prefix if is_tool else "")
    if isinstance(on_path, Known):
        return _query_python(host, on_path, "PATH", arguments)
    if not is_tool:
        return own
    return PythonChoice(
        Absent(("active environment", ".venv", ".pixi/envs/default", "PATH")),
        answer,
        NO_ENVIRONMENT,
    )


def _list_active(host: Host) -> Iterator[Tuple[str, str]]:
    """Yield the active environments; conda's base, which many shells activate for ever, is no choice of a person."""
    environment = host.environment()
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        folder = environment.get(variable, "")
        if not folder or (variable == "CONDA_PREFIX" and folder == _find_conda_base(host)):
            continue
        extended = _read_settings(host, folder).get(_EXTENDED, "")
        if extended and (_is_venv(host, extended) or _is_conda(host, extended)):
            yield extended, "uv run"
        elif not _is_made_for_a_tool(host, folder):
            yield folder, variable


def _has_stale_environment(host: Host) -> bool:
    """Tell whether a variable names an active environment that is none: the choice would have taken it."""
    return any(chosen_by != "uv run" for _, chosen_by in _list_active(host))


def find_project_environment(host: Host) -> str:
    """Return the venv of the project around the working directory, the nearest; "" without one."""
    return next((path for path, _ in _list_project_environments(host) if _is_venv(host, path)), "")


def _list_project_environments(host: Host) -> Iterator[Tuple[str, str]]:
    """Yield the environments of the project around the working directory, the nearest first."""
    folders = list(_list_project_folders(host))
    named = host.environment().get("UV_PROJECT_ENVIRONMENT", "")
    for folder in folders if named else ():
        yield posixpath.join(folder, named), "UV_PROJECT_ENVIRONMENT"
    for folder in folders:
        for name in _PROJECT_FOLDERS:
            path = posixpath.join(folder, name)
            if _is_venv(host, path) or _is_conda(host, path):
                yield path, name.partition("/")[0]


def _list_project_folders(host: Host) -> Iterator[str]:
    """Yield the working directory and its parents up to the root of the repository.

    Without a repository the walk ends at the home folder, and before a folder that anybody may
    write to.
    """
    folder = str(host.system_facts().get("folder", "")).replace("\\", "/")
    home = host.environment().get("HOME", "").rstrip("/")
    first = True
    while folder.strip("/"):
        if not first and _is_open_to_all(host, folder):
            return
        yield folder
        if folder == home or any(
            not isinstance(host.status(f"{folder}/{name}"), Absent) for name in _REPOSITORIES
        ):
            return
        folder, first = posixpath.dirname(folder), False


def _is_open_to_all(host: Host, folder: str) -> bool:
    status = host.status(folder).value
    return status is not None and status.mode[8:9] == "w"


def _find_conda_base(host: Host) -> str:
    """Return conda's base environment where it is the active one, else ""."""
    environment = host.environment()
    prefix = environment.get("CONDA_PREFIX", "")
    if not prefix:
        return ""
    name = environment.get("CONDA_DEFAULT_ENV", "")
    executable = environment.get("CONDA_EXE", "")  # <root>/bin/conda
    roots = (
        environment.get("MAMBA_ROOT_PREFIX", ""),
        posixpath.dirname(posixpath.dirname(executable)),
    )
    return prefix if name in ("base", "root") or prefix in roots else ""


# Environments that hold one tool.


def is_tool_environment(host: Host, prefix: str) -> bool:
    """Tell whether an environment was made for a tool alone; one that somebody put a framework into is meant."""
    if not _is_venv(host, prefix):
        return False
    distributions = _list_distributions(host, prefix)
    if any(framework_of(name) for name in distributions):
        return False
    return _is_made_for_a_tool(host, prefix) or _holds_only_this_program(host, distributions)


def _is_made_for_a_tool(host: Host, prefix: str) -> bool:
    """Tell whether uv or pipx made an environment for one tool, or for one run."""
    if any(isinstance(host.status(f"{prefix}/{name}"), Known) for name in _TOOL_FILES):
        return True
    if _EXTENDED in _read_settings(host, prefix):
        return True
    if any(
        isinstance(host.status(f"{folder}/{_OVERLAY}"), Known)
        for folder in _list_packages_folders(host, prefix)
    ):
        return True
    bucket = _CACHE_BUCKET.match(prefix.replace("\\", "/").rstrip("/"))
    return bucket is not None and isinstance(host.status(f"{bucket.group(1)}/CACHEDIR.TAG"), Known)


def _holds_only_this_program(host: Host, distributions: Mapping[str, str]) -> bool:
    """Tell whether nothing is installed but this program with what it requires."""
    if _PROGRAM not in distributions:
        return False
    required: Set[str] = set()
    waiting = [_PROGRAM]
    while waiting:
        name = waiting.pop()
        if name in distributions and name not in required:
            required.add(name)
            waiting += _read_requirements(host, distributions[name])
    return set(distributions) <= required | _INSTALLERS


def _read_requirements(host: Host, folder: str) -> List[str]:
    header = (
        (host.read_text(f"{folder}/METADATA").value or "").replace("\r", "").partition("\n\n")[0]
    )
    return [
        canonical_name(name)
        for name in re.findall(r"^Requires-Dist:\s*([\w.-]+)", header, re.MULTILINE)
    ]


def _list_distributions(host: Host, prefix: str) -> Dict[str, str]:
    """Map the normalised names of what is installed below a prefix to the folders of their metadata."""
    return {
        canonical_name(name.rsplit(".", 1)[0].split("-")[0]): f"{folder}/{name}"
        for folder in _list_packages_folders(host, prefix)
        for name in list_names(host, folder)
        if name.endswith((".dist-info", ".egg-info"))
    }


def _list_packages_folders(host: Host, prefix: str) -> List[str]:
    if host.system == "windows":
        return [f"{prefix}/Lib/site-packages"]
    names = [
        name for name in list_names(host, f"{prefix}/lib") if name.startswith(("python", "pypy"))
    ]
    return [f"{prefix}/lib/{name}/site-packages" for name in names]


def _is_venv(host: Host, folder: str) -> bool:
    return bool(folder) and isinstance(host.status(f"{folder}/pyvenv.cfg"), Known)


def _is_conda(host: Host, folder: str) -> bool:
    return bool(folder) and isinstance(host.status(f"{folder}/conda-meta"), Known)


def _read_settings(host: Host, folder: str) -> Dict[str, str]:
    r"""Read the pyvenv.cfg of an environment.

    Sample: 'home = /usr/bin\nuv = 0.13.9\nextends-environment = /home/u/project/.venv\n'
    """
    lines = (host.read_text(f"{folder}/pyvenv.cfg").value or "").splitlines()
    pairs = [line.partition("=") for line in lines]
    return {key.strip().lower(): value.strip() for key, _, value in pairs}


# Interpreters.


def _query_python(
    host: Host, python: Fact[str], chosen_by: str, arguments: Tuple[str, ...]
) -> PythonChoice:
    if not isinstance(python, Known):
        return PythonChoice(python, python, chosen_by)
    answer = host.ask("interpreter_info", *arguments, python=python.value)
    return PythonChoice(_get_executable(answer, python), answer, chosen_by)


def _get_executable(answer: Fact[Mapping[str, Any]], otherwise: Fact[str]) -> Fact[str]:
    # A shim on PATH starts another file, which only the interpreter knows.
    path = str(answer.value.get("executable", "")) if isinstance(answer, Known) else ""
    if path and isinstance(answer, Known):
        return Known(path, answer.source)
    return otherwise


def _find_named_python(host: Host, name: str) -> Fact[str]:
    if "/" not in name and "\\" not in name:
        return host.find_program(name)
    status = host.status(name)
    if isinstance(status, Known) and status.value.kind == "folder":
        return _find_python_in(host, name)
    return Known(name, Source("file", name)) if isinstance(status, Known) else status


def _find_environment_python(host: Host, name: str) -> Fact[str]:
    """Find the Python of an environment by its folder, or of a conda environment by its name."""
    tried: List[str] = []
    for folder in (name, *(_list_conda_folders(host, name) if "/" not in name else ())):
        python = _find_python_in(host, folder)
        if isinstance(python, Known):
            return python
        tried.extend(python.tried)
    return Absent(tuple(tried))


def _find_python_in(host: Host, folder: str) -> Fact[str]:
    paths = _list_python_paths(host, folder)
    for path in paths:
        if isinstance(host.status(path), Known):
            return Known(path, Source("file", path))
    return Absent(tuple(paths))


def _list_python_paths(host: Host, folder: str) -> List[str]:
    names = (
        ("Scripts/python.exe", "python.exe")
        if host.system == "windows"
        else ("bin/python", "bin/python3")
    )
    return [posixpath.join(folder, name) for name in names]


def _list_conda_folders(host: Host, name: str) -> Iterator[str]:
    """Yield the folders of a conda environment: beside the active one, below conda's root, in conda's list."""
    environment = host.environment()
    prefix = environment.get("CONDA_PREFIX", "")
    roots = [environment.get(variable, "") for variable in ("CONDA_ROOT", "MAMBA_ROOT_PREFIX")]
    executable = environment.get("CONDA_EXE", "")  # <root>/bin/conda
    roots.append(posixpath.dirname(posixpath.dirname(executable)))
    if prefix:
        yield (
            posixpath.join(posixpath.dirname(prefix), name)
            if "/envs/" in prefix
            else f"{prefix}/envs/{name}"
        )
    for root in filter(None, roots):
        yield root if name == "base" else f"{root}/envs/{name}"
    listed = (
        host.read_text(
            posixpath.join(environment.get("HOME", "/"), ".conda/environments.txt")
        ).value
        or ""
    )
    yield from (
        line.strip() for line in listed.splitlines() if posixpath.basename(line.strip()) == name
    )


def _find_python_on_path(host: Host, own: str) -> Fact[str]:
    """Find the first Python on PATH that belongs to no tool and not to the prefix `own`."""
    names: Tuple[str, ...] = ("python",) if host.system == "windows" else ("python3", "python")
    facts = [host.find_program(name) for name in names]
    first = next((fact for fact in facts if isinstance(fact, Known)), facts[0])
    if not isinstance(first, Known) or not _is_ours(host, first.value, own):
        return first
    separator = ";" if host.system == "windows" else ":"
    for folder in host.environment().get("PATH", "").split(separator):
        for name in names:
            path = posixpath.join(folder, name + (".exe" if host.system == "windows" else ""))
            status = host.status(path).value if posixpath.isabs(path) or ":" in path else None
            if status is not None and "x" in status.mode and not _is_ours(host, path, own):
                return Known(path, Source("file", path))
    return Absent(tuple(f"{name} on PATH" for name in names))


def _is_ours(host: Host, python: str, own: str) -> bool:
    """Tell whether a Python on PATH lies in the prefix `own` or in another environment of a tool."""
    prefix = posixpath.dirname(posixpath.dirname(python.replace("\\", "/")))
    is_own = bool(own) and host.real_path(prefix).value == (host.real_path(own).value or own)
    return is_own or is_tool_environment(host, prefix)

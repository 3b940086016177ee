"""Choose the Python environment that a person means.

The order is that of uv, Poetry, PDM, VS Code and pixi.

An option, the Python that asks, a notebook's kernel, what PDM saved, the active environment, then
those of the project: UV_PROJECT_ENVIRONMENT, what the settings of its tools name, its .venv, what
its managers keep elsewhere, any other folder that is an environment. After that the Python that
runs this program, conda's base, the first Python on PATH. An environment that was made for this
program alone (by `uvx`, `uv tool`, `uv run --with`, pipx) is nobody's: it is recognised by what it
holds, wherever it lies.

What was merely found is read from its files: a repository may hold any program as .venv/bin/python.
"""

from __future__ import annotations

import posixpath
import re
import time
from typing import Any, Dict, Iterator, List, Mapping, Optional, Set, Tuple

from envcheck import DISTRIBUTION
from envcheck.frameworks import framework_of
from envcheck.host.paths import list_folders_in, list_names
from envcheck.host.protocol import Host
from envcheck.model import (
    NO_ENVIRONMENT,
    Absent,
    Fact,
    Known,
    OtherEnvironment,
    Unknown,
    canonical_name,
    dataclass,
    from_file,
    replace,
)

_INSTALLERS = frozenset(("pip", "setuptools", "wheel"))  # come with an environment
# what `uv tool install` and pipx leave in a tool's environment
_TOOL_FILES = ("uv-receipt.toml", "pipx_metadata.json")
_OVERLAY = "_uv_ephemeral_overlay.pth"  # what `uv run --with` lays over an environment
_EXTENDED = "extends-environment"  # key of pyvenv.cfg: the environment below
_CACHE_BUCKET = re.compile(r"(.+)/(?:archive|builds|environments)-v\d+/[^/]+$")  # of uv's cache
_REPOSITORIES = (".git", ".hg")
_VENV, _PDM, _FOLDER, _UV = ".venv", ".pdm-python", "folder", "UV_PROJECT_ENVIRONMENT"
_ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX", "uv run", "kernel")
_FEW = 200  # folders beside each other that are looked into
# names that tools give a meaning: where a folder has none, project_environments is not loaded
_SIGNS = frozenset(
    (
        ".direnv",
        ".pdm-python",
        ".pixi",
        ".python-version",
        ".venv",
        ".vscode",
        "Pipfile",
        "environment.yaml",
        "environment.yml",
        "hatch.toml",
        "pdm.lock",
        "poetry.lock",
        "pyproject.toml",
        "pyrightconfig.json",
        "ty.toml",
    )
)


@dataclass
class PythonSelection:
    """What to inspect: a Python by path or name, or an environment by folder or name."""

    python: str = ""
    env: str = ""
    without_packages: bool = False  # a plan creates a new environment
    asks: bool = False  # a program asks from its own Python: that one is meant
    is_found: bool = False  # `env` was not named by a person: it is read from its files


@dataclass
class PythonChoice:
    """The chosen interpreter, its answer to the child script, and what chose it."""

    executable: Fact[str]
    answer: Fact[Mapping[str, Any]]
    chosen_by: str  # see PythonFacts.chosen_by
    broken_environment: str = ""  # see PythonFacts.broken_environment
    is_found: bool = False  # see PythonFacts.is_found
    others: Tuple[OtherEnvironment, ...] = ()  # see PythonFacts.others


def choose_python(host: Host, selection: PythonSelection) -> PythonChoice:
    """Choose the Python to inspect.

    NO_ENVIRONMENT with our own Python's answer if none is anybody's.
    """
    arguments = ("without-packages",) if selection.without_packages else ()
    if selection.python:
        return _query_python(host, _find_named_python(host, selection.python), "option", arguments)
    if selection.env:
        python = _find_environment_python(host, selection.env)
        query = _read_found if selection.is_found else _query_python
        return query(host, python, "option", arguments)
    meant = _list_meant(host)
    choice = _choose_own(host, arguments, "asking") if selection.asks else None
    choice = choice or _choose_meant(host, meant, arguments)
    choice = choice or _choose_without_environment(host, arguments)
    return _with_others(host, choice, meant)


def _choose_own(host: Host, arguments: Tuple[str, ...], chosen_by: str) -> PythonChoice:
    """Choose the Python that runs this program."""
    answer = host.ask("interpreter_info", *arguments)
    return PythonChoice(_get_executable(answer, Absent(("own interpreter",))), answer, chosen_by)


def _choose_meant(
    host: Host, meant: List[OtherEnvironment], arguments: Tuple[str, ...]
) -> Optional[PythonChoice]:
    """Choose the first environment that a person means.

    None where several folders are meant alike.
    """
    usable = [item for item in meant if not item.problem]
    if not usable:
        return None
    first = usable[0]
    alike = [item for item in usable if item.named_by == _FOLDER]
    if first.named_by == _FOLDER and len(alike) > 1:
        answer = host.ask("interpreter_info", *arguments)
        tried = tuple(item.path for item in alike)
        return PythonChoice(Absent(tried), answer, NO_ENVIRONMENT)
    is_found = not is_trusted(host, first.path, first.named_by)
    query = _read_found if is_found else _query_python
    return query(host, _find_python_in(host, first.path), first.named_by, arguments)


def _with_others(host: Host, choice: PythonChoice, meant: List[OtherEnvironment]) -> PythonChoice:
    """Add what else may be meant to a choice, and what names an environment that is not there."""
    answer = choice.answer.value or {}
    prefix = ""
    if choice.chosen_by != NO_ENVIRONMENT:
        prefix = str(answer.get("prefix", ""))
    real = host.real_path(prefix).value or prefix
    others = [item for item in meant if (host.real_path(item.path).value or item.path) != real]
    if choice.chosen_by not in ("asking", "own", "base", "PATH", NO_ENVIRONMENT):
        others = [item for item in others if item.problem != "not-made"]
    others += _find_version_problem(host, str(answer.get("version", "")))
    first = next((place for place, item in enumerate(meant) if not item.problem), len(meant))
    lost = (item.path for item in meant[:first] if item.problem == "no-python")
    broken = "" if choice.chosen_by == "asking" else next(lost, "")
    return replace(choice, others=tuple(others), broken_environment=broken)


def _find_version_problem(host: Host, version: str) -> Iterator[OtherEnvironment]:
    """Yield what the nearest .python-version asks for, where that is not what is judged."""
    for folder, names in _list_projects(host):
        if ".python-version" not in names:
            continue
        from envcheck.probes.project_environments import find_managed, parse_wanted

        text = host.read_text(f"{folder}/.python-version").value or ""
        wanted = parse_wanted(text, ".python-version")
        if version and wanted[:1].isdigit() and not f"{version}.".startswith(f"{wanted}."):
            problem = "not-installed"
            if find_managed(host, wanted):
                problem = "another-version"
            yield OtherEnvironment(wanted, ".python-version", problem)
        return


def _choose_without_environment(host: Host, arguments: Tuple[str, ...]) -> PythonChoice:
    """Choose our own Python, conda's base or the first Python on PATH that is not ours."""
    own = _choose_own(host, arguments, "own")
    prefix = str((own.answer.value or {}).get("prefix", ""))
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
        own.answer,
        NO_ENVIRONMENT,
    )


# What is meant, and where it is looked for.


def _list_meant(host: Host) -> List[OtherEnvironment]:
    """List the environments that may be meant, each once, and what names one in vain."""
    projects = list(_list_projects(host))
    found: Dict[str, OtherEnvironment] = {}
    sources = (
        _list_kernel(host),
        _list_saved(host, projects),
        ((folder, named, "") for folder, named in _list_active(host)),
        _list_of_projects(host, projects),
    )
    for source in sources:
        for path, named_by, problem in source:
            real = host.real_path(path).value or path
            if real not in found:
                found[real] = OtherEnvironment(
                    path, named_by, problem or _find_problem(host, path, named_by)
                )
    return list(found.values())


def _find_problem(host: Host, folder: str, named_by: str) -> str:
    """Return why an environment cannot be judged; one that is active needs no pyvenv.cfg."""
    if named_by not in _ACTIVE and not _is_venv(host, folder) and not _is_conda(host, folder):
        return "gone" if isinstance(host.status(folder), Absent) else "no-settings"
    if isinstance(_find_python_in(host, folder), Known):
        return ""
    if isinstance(host.status(folder), Absent):
        return "gone"
    paths = _list_python_paths(host, folder)
    if all(isinstance(host.status(path), Absent) for path in paths):
        return "no-python"
    return "denied"


def _list_kernel(host: Host) -> Iterator[Tuple[str, str, str]]:
    """Yield the environment of the notebook's kernel that started this program.

    A notebook starts it as by `!envcheck doctor`.
    """
    if not host.environment().get("JPY_PARENT_PID"):
        return
    process = "self"
    for _ in range(4):  # a shell or two stand between
        words = (host.read_text(f"/proc/{process}/cmdline").value or "").split("\0")
        if any("ipykernel" in word for word in words[1:]):
            yield posixpath.dirname(posixpath.dirname(words[0])), "kernel", ""
            return
        status = (host.read_text(f"/proc/{process}/stat").value or "").rpartition(")")[2].split()
        process = status[1] if len(status) > 1 else ""


def _list_active(host: Host) -> Iterator[Tuple[str, str]]:
    """Yield the active environments.

    Conda's base, which many shells activate for ever, is no choice of a person.
    """
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
    """Tell whether a variable names an active environment that is none.

    The choice would have taken it.
    """
    return any(chosen_by != "uv run" for _, chosen_by in _list_active(host))


def is_trusted(host: Host, folder: str, named_by: str = "") -> bool:
    """Return whether code of an environment may run unasked.

    It is active, asks itself, or envcheck has made it.
    """
    named = host.environment().get(_UV, "")
    if named_by in _ACTIVE or (named_by == _UV and posixpath.isabs(named)):
        return True
    real = host.real_path(folder).value or folder
    own = host.ask("interpreter_info", "without-packages").value or {}
    mine = [str(own.get("prefix", "")), *(path for path, _ in _list_active(host))]
    if real in [host.real_path(path).value for path in mine if path]:
        return True
    return _is_made_here(host, real)


def _is_made_here(host: Host, folder: str) -> bool:
    """Return whether this person's `envcheck install` made an environment, by its journal.

    A repository can hold a journal, but cannot know the number of the folder.
    """
    own, lines = host.status(folder).value, _read_own_journal(host, folder)
    if own is None or own.owner.split(":")[0] != _read_user(host):
        return False
    installed = next((line for line in reversed(lines) if '"event": "installed"' in line), "")
    return f'"inode": {own.inode}}}' in installed


def is_interrupted_here(host: Host, folder: str) -> bool:
    """Return whether this person's `envcheck install` was cut off in an environment's folder."""
    lines = _read_own_journal(host, host.real_path(folder).value or folder)
    ends = ("finished", "restored", "waiting")
    return bool(lines) and not any(f'"event": "{name}"' in lines[-1] for name in ends)


def _read_user(host: Host) -> str:
    return str(host.system_facts().get("uid", "0"))


def _read_own_journal(host: Host, folder: str) -> List[str]:
    """Read the newest journal of a folder; nothing where this person did not write it here.

    A repository can hold a journal, but cannot know when its own file is written.
    """
    parent, name = posixpath.split(folder)
    state = f"{parent}/.envcheck-{name}"
    journals = [each for each in list_names(host, state) if each.endswith(".jsonl")]
    path = f"{state}/{max(journals)}" if journals else ""
    written = host.status(path).value if path else None
    if written is None or written.owner.split(":")[0] != _read_user(host):
        return []
    lines = (host.read_text(path).value or "").splitlines()
    times = {
        time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(written.changed + shift))
        for shift in range(-2, 3)
    }
    is_last = re.search(r'"at": "([^"]+)"', lines[-1]) if lines else None
    return lines if is_last is not None and is_last.group(1) in times else []


def find_project_environment(host: Host) -> str:
    """Return the venv of the project around the working directory, the nearest; "" without one."""
    for path, named_by, _ in _list_of_projects(host, list(_list_projects(host))):
        if named_by in (_VENV, _UV) and _is_venv(host, path):
            return path
    return ""


Projects = List[Tuple[str, Tuple[str, ...]]]  # folders with the names in them


def _list_saved(host: Host, projects: Projects) -> Iterator[Tuple[str, str, str]]:
    for folder, names in projects:
        if _PDM in names:
            from envcheck.probes.project_environments import find_saved, read_project

            saved = find_saved(read_project(host, folder, names))
            if saved and (_is_venv(host, saved) or _is_conda(host, saved)):
                yield saved, _PDM, ""
            return


def _list_of_projects(host: Host, projects: Projects) -> Iterator[Tuple[str, str, str]]:
    """Yield the environments of the project around the working directory, nearest first."""
    named = host.environment().get(_UV, "")
    for folder, names in projects if named else ():
        if "pyproject.toml" in names:
            yield posixpath.join(folder, named), _UV, ""
            break
    for place, (folder, names) in enumerate(projects):
        path = f"{folder}/.venv"
        usual = path if not isinstance(host.status(path), Absent) else ""
        project = None
        if not _SIGNS.isdisjoint(names):
            from envcheck.probes import project_environments as tools

            project = tools.read_project(host, folder, names)
            yield from tools.list_before_usual(project)
            if usual and not isinstance(host.list_folder(usual), Known):
                yield tools.read_venv_file(project)
                usual = ""
        if usual:
            yield usual, _VENV, ""
        if project is not None:
            yield from tools.list_after_usual(project)
        if place == 0 or not set(names).isdisjoint(_REPOSITORIES):
            yield from _list_other_folders(host, folder, names)


def _list_other_folders(
    host: Host, folder: str, names: Tuple[str, ...]
) -> Iterator[Tuple[str, str, str]]:
    """Yield the folders that are virtual environments, and those of conda that are named so."""
    likely = [name for name in names if not name.startswith(".") or "env" in name]
    likely = sorted(likely, key=lambda name: "env" not in name)[:_FEW]
    for name in likely:
        path = f"{folder}/{name}"
        is_conda = "env" in name and _is_conda(host, path)
        if (
            name != _VENV
            and (is_conda or _is_venv(host, path))
            and not is_tool_environment(host, path)
        ):
            yield path, _FOLDER, ""


def _list_projects(host: Host) -> Iterator[Tuple[str, Tuple[str, ...]]]:
    """Yield the working directory and its parents up to the repository, with their names.

    Without a repository the walk ends at the home folder, and before a folder that anybody may
    write to.
    """
    folder = str(host.system_facts().get("folder", "")).replace("\\", "/").rstrip("/")
    home = host.environment().get("HOME", "").rstrip("/")
    first = True
    while folder.strip("/"):
        if not first and _is_open_to_all(host, folder):
            return
        yield folder, list_names(host, folder)
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
    """Tell whether an environment was made for a tool alone.

    One that somebody put a framework into is meant.
    """
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
    if DISTRIBUTION not in distributions:
        return False
    required: Set[str] = set()
    waiting = [DISTRIBUTION]
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
    """Map the installed distributions below a prefix to the folders of their metadata."""
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


def _read_found(
    host: Host, python: Fact[str], chosen_by: str, arguments: Tuple[str, ...]
) -> PythonChoice:
    """Read an environment that nobody named from its files; its Python is not started."""
    if not isinstance(python, Known):
        return PythonChoice(python, python, chosen_by, is_found=True)
    prefix = posixpath.dirname(python.value)
    if posixpath.basename(prefix) in ("bin", "Scripts"):
        prefix = posixpath.dirname(prefix)
    answer = host.ask("interpreter_info", *(arguments or ("",)), prefix)
    return PythonChoice(python, answer, chosen_by, is_found=True)


def _get_executable(answer: Fact[Mapping[str, Any]], otherwise: Fact[str]) -> Fact[str]:
    # A shim on PATH starts another file, which only the interpreter knows.
    path = str(answer.value.get("executable", "")) if isinstance(answer, Known) else ""
    if path and isinstance(answer, Known):
        return Known(path, answer.source)
    return otherwise


def _find_named_python(host: Host, name: str) -> Fact[str]:
    if "/" not in name and "\\" not in name:
        found = host.find_program(name)
        if found.value is not None:
            return _start_of(host, found.value) or found
        return found
    status = host.status(name)
    if isinstance(status, Known) and status.value.kind == "folder":
        return _find_python_in(host, name)
    return from_file(name, name) if isinstance(status, Known) else status


def _start_of(host: Host, python: str) -> Optional[Known[str]]:
    """Return the Python that a program on PATH starts; None for a shim that leads to none."""
    if posixpath.basename(posixpath.dirname(python)) != "shims":
        return from_file(python, python)
    from envcheck.probes.project_environments import resolve_shim  # few have one first on PATH

    real, _ = resolve_shim(host, python)
    return from_file(real, python) if real else None


def _find_environment_python(host: Host, name: str) -> Fact[str]:
    """Find the Python of an environment by its folder, or of a conda environment by its name."""
    from envcheck.probes.project_environments import list_conda_folders  # few name one

    tried: List[str] = []
    for folder in (name, *(list_conda_folders(host, name) if "/" not in name else ())):
        python = _find_python_in(host, folder)
        if isinstance(python, Known):
            return python
        tried.extend(python.tried)
    return Absent(tuple(tried))


def _find_python_in(host: Host, folder: str) -> Fact[str]:
    paths = _list_python_paths(host, folder)
    for path in paths:
        if isinstance(host.status(path), Known):
            return from_file(path, path)
    return Absent(tuple(paths))


def _list_python_paths(host: Host, folder: str) -> List[str]:
    if host.system == "windows":
        names = ("Scripts/python.exe", "python.exe")
    else:
        names = ("bin/python", "bin/python3")
    return [posixpath.join(folder, name) for name in names]


def _find_python_on_path(host: Host, own: str) -> Fact[str]:
    """Find the first Python on PATH that belongs to no tool and not to the prefix `own`.

    An entry that is no absolute path is no property of the machine: it may hold any program.
    """
    names: Tuple[str, ...] = ("python",) if host.system == "windows" else ("python3", "python")
    suffix = ".exe" if host.system == "windows" else ""
    denied: List[Fact[str]] = []
    for folder in list_folders_in(host, "PATH"):
        for name in names:
            path = posixpath.join(folder, name + suffix)
            status = host.status(path).value
            if status is not None and status.kind == "file" and "x" in status.mode:
                started = _start_of(host, path)
                if started is not None and not _is_ours(host, started.value, own):
                    return started
            elif status is not None and status.kind == "file":
                denied.append(Unknown("denied", f"{path} is not executable", (path,)))
    return denied[0] if denied else Absent(tuple(f"{name} on PATH" for name in names))


def _is_ours(host: Host, python: str, own: str) -> bool:
    """Return whether a Python on PATH lies in the prefix `own`, or in a tool's environment."""
    prefix = posixpath.dirname(posixpath.dirname(python.replace("\\", "/")))
    is_own = bool(own) and host.real_path(prefix).value == (host.real_path(own).value or own)
    return is_own or is_tool_environment(host, prefix)

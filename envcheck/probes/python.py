"""Choose the interpreter to inspect, and read its environment without importing anything in it."""

from __future__ import annotations

import fnmatch
import json
import posixpath
import re
from typing import Any, Dict, Iterator, List, Mapping, Tuple

from envcheck.host.protocol import Host
from envcheck.model import (
    Absent,
    Distribution,
    Extension,
    Fact,
    FrameworkBuild,
    JupyterKernel,
    Known,
    PythonFacts,
    Source,
    Unknown,
    dataclass,
    get_value,
    replace,
)
from envcheck.probes.loader import Loader
from envcheck.probes.packages import (
    Installation,
    find_duplicate_owners,
    list_framework_names,
    load_cuda_data,
    read_installation,
)

# Environments that hold one tool each: nobody means them when asking about "my Python".
_TOOL_FOLDERS = ("/pipx/venvs/", "/pipx/.cache/", "/uv/tools/", "/uv/archive-v", "/uv/environments-v", "/uv/builds-v")


@dataclass(frozen=True)
class PythonSelection:
    """What the user asked to inspect: a Python by path or name, or an environment by folder or name."""

    python: str = ""
    env: str = ""
    alone: bool = False  # the interpreter, not what is installed for it: a plan makes an environment of its own


@dataclass(frozen=True)
class PythonChoice:
    """The interpreter chosen, its answer to the child script and by what it was chosen."""

    executable: Fact[str]
    answer: Fact[Mapping[str, Any]]
    chosen_by: str


def choose_python(host: Host, selection: PythonSelection) -> PythonChoice:
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
    return PythonChoice(_executable(answer, Absent(("own interpreter",))), answer, "own")


def _asked(host: Host, python: Fact[str], chosen_by: str, told: Tuple[str, ...]) -> PythonChoice:
    if not isinstance(python, Known):
        return PythonChoice(python, python, chosen_by)
    answer = host.ask("interpreter_info", *told, python=python.value)
    return PythonChoice(_executable(answer, python), answer, chosen_by)


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
    listed = get_value(host.read_text(posixpath.join(environment.get("HOME", "/"), ".conda/environments.txt"))) or ""
    yield from (line.strip() for line in listed.splitlines() if posixpath.basename(line.strip()) == name)


def _on_path(host: Host) -> Fact[str]:
    names: Tuple[str, ...] = ("python",) if host.system == "windows" else ("python3", "python")
    found = [host.find_program(name) for name in names]
    return next((each for each in found if isinstance(each, Known)), found[0])


def collect_kernels(host: Host, prefix: str) -> Fact[Tuple[JupyterKernel, ...]]:
    """Read kernel.json of every kernel that a Jupyter of this environment or user would list."""
    folders = list(_folders(host, prefix))
    kernels: List[JupyterKernel] = []
    for folder in folders:
        names = host.list_folder(folder)
        for name in names.value if isinstance(names, Known) else ():
            text = host.read_text(posixpath.join(folder, name, "kernel.json"))
            python = parse_kernel(text.value) if isinstance(text, Known) else ""
            if python and name not in [each.name for each in kernels]:
                kernels.append(JupyterKernel(name, python))
    return Known(tuple(kernels), Source("file", folders[0])) if kernels else Absent(tuple(folders))


def parse_kernel(text: str) -> str:
    """Return the program that a kernel.json starts, empty when it names none.

    Sample: '{"argv": ["/v/bin/python", "-m", "ipykernel_launcher", "-f", "{connection_file}"], "language": "python"}'
    """
    try:
        command = json.loads(text).get("argv", [])
        return str(command[0]) if isinstance(command, list) and command else ""
    except (ValueError, AttributeError):
        return ""


def _folders(host: Host, prefix: str) -> Iterator[str]:
    environment = host.environment()
    home = environment.get("HOME", "")
    yield from (f"{entry}/kernels" for entry in environment.get("JUPYTER_PATH", "").split(":") if entry.startswith("/"))
    if environment.get("JUPYTER_DATA_DIR"):
        yield posixpath.join(environment["JUPYTER_DATA_DIR"], "kernels")
    elif host.system == "darwin":
        yield posixpath.join(home, "Library/Jupyter/kernels")
    elif host.system == "windows":
        yield posixpath.join(environment.get("APPDATA", ""), "jupyter/kernels")
    else:
        yield posixpath.join(environment.get("XDG_DATA_HOME") or f"{home}/.local/share", "jupyter/kernels")
    yield posixpath.join(prefix, "share/jupyter/kernels")
    if host.system != "windows":
        yield from ("/usr/local/share/jupyter/kernels", "/usr/share/jupyter/kernels")


def collect_extensions(host: Host, installed: Installation, where: Source) -> Fact[Tuple[Extension, ...]]:
    """Read the libraries that known extensions need: flash-attn, mmcv, apex, torchvision ..."""
    known = load_cuda_data()["extensions"]
    found = [
        extension
        for distribution in installed.distributions
        if distribution.name in known
        for pattern in known[distribution.name]
        for extension in _read(host, distribution, pattern)
    ]
    return Known(tuple(found), where) if found else Absent(("distributions: " + ", ".join(sorted(known)),))


def _read(host: Host, distribution: Distribution, pattern: str) -> Iterator[Extension]:
    needs = tuple(load_cuda_data()["extension_needs"])
    folder, name_pattern = posixpath.split(posixpath.join(distribution.location, pattern))
    names = host.list_folder(folder)
    for name in names.value if isinstance(names, Known) else ():
        if fnmatch.fnmatchcase(name, name_pattern) and ".so" in name:
            path = posixpath.join(folder, name)
            elf = host.elf(path)
            if isinstance(elf, Known):
                needed = tuple(each for each in elf.value.needed if each.startswith(needs))
                yield Extension(distribution.name, path, needed)


_SONAME = "libstdc++.so.6"


def collect_libstdcxx(host: Host, installed: Installation) -> Tuple[Fact[str], Fact[str]]:
    """Return the path of the copy and its newest GLIBCXX version: conda's beside its interpreter, else the system's."""
    if host.system != "linux":
        absent = Absent((f"{_SONAME} on {host.system}",))
        return absent, absent
    # A conda interpreter has an RPATH to this folder.
    folders = (posixpath.join(installed.base_prefix, "lib"),) if installed.is_conda else ()
    found = Loader(host).find(_SONAME, rpath=folders)
    if not isinstance(found, Known):
        return found, found
    path = found.value.path
    return Known(path, found.source), _newest(host, path)


def _newest(host: Host, path: str) -> Fact[str]:
    version = parse_glibcxx(path)
    if version:
        return Known(version, Source("file", path))
    elf = host.elf(path)
    if not isinstance(elf, Known):
        return elf
    numbers = [tuple(map(int, name[8:].split("."))) for name in elf.value.versions_defined if _is_version(name)]
    if not numbers:
        return Unknown("unparsable", f"{path} defines no GLIBCXX version", (path,))
    return Known(".".join(map(str, max(numbers))), elf.source)


def _is_version(name: str) -> bool:
    return re.match(r"GLIBCXX_[\d.]+$", name) is not None


def parse_glibcxx(path: str) -> str:
    """Read the newest GLIBCXX version off a real file name, empty when it does not tell.

    Sample: 'libstdc++.so.6.0.30' -> 3.4.30: since GCC 4.1 the last numbers are the same, and reading the name
    costs nothing beside reading the file.
    """
    match = re.search(r"libstdc\+\+\.so\.6\.0\.(\d+)$", path)
    return f"3.4.{match.group(1)}" if match else ""


_PLAIN = {
    "version": "version",
    "implementation": "implementation",
    "bits": "bits",
    "architecture": "machine",
    "platform_tag": "platform",
    "abi_tag": "abi",
    "prefix": "prefix",
    "kind": "kind",
    "externally_managed": "externally_managed",
    "user_site_enabled": "user_site_enabled",
}
_READ = ("pip_version", "distributions", "duplicate_owners", "frameworks", "extensions", "kernels")


def collect_python(host: Host, selection: PythonSelection) -> PythonFacts:
    """Choose an interpreter, let it describe itself isolated, and read what its packages say."""
    choice = choose_python(host, selection)
    if not isinstance(choice.answer, Known):
        return _silent(choice, choice.answer)
    told, source = choice.answer.value, choice.answer.source
    if "version" not in told or ("distributions" in told and not set(_PLAIN.values()) <= set(told)):
        return _silent(choice, Unknown("unparsable", "its answer describes no interpreter", (source.where,)))
    if "distributions" not in told:  # Python 2
        reason = Unknown("failed", f"Python {told['version']} is too old to be inspected", (source.where,))
        return replace(_silent(choice, reason), version=Known(str(told["version"]), source))
    plain: Dict[str, Any] = {field: Known(told[key], source) for field, key in _PLAIN.items()}
    installed = {} if selection.alone else _installation(host, told, source)
    return PythonFacts(executable=choice.executable, chosen_by=choice.chosen_by, **plain, **installed)


def _silent(choice: PythonChoice, reason: Fact[Any]) -> PythonFacts:
    names = (*_PLAIN, *_READ, "libstdcxx_path", "libstdcxx_glibcxx")
    unknown: Dict[str, Any] = dict.fromkeys(names, reason)
    return PythonFacts(executable=choice.executable, chosen_by=choice.chosen_by, **unknown)


def _installation(host: Host, told: Mapping[str, Any], source: Source) -> Dict[str, Any]:
    """Read what is installed for the interpreter."""
    installed = read_installation(host, told)
    path, glibcxx = collect_libstdcxx(host, installed)
    return {
        "pip_version": _version_of(installed, "pip", source),
        "distributions": Known(installed.distributions, source),
        "duplicate_owners": find_duplicate_owners(installed, source),
        "frameworks": _frameworks(host, installed),
        "extensions": collect_extensions(host, installed, source),
        "libstdcxx_path": path,
        "libstdcxx_glibcxx": glibcxx,
        "kernels": collect_kernels(host, told["prefix"]),
    }


def _frameworks(host: Host, installed: Installation) -> Fact[Tuple[FrameworkBuild, ...]]:
    names = list_framework_names()
    if not any(each.name in names or each.name.startswith("jax-cuda") for each in installed.distributions):
        return Absent((f"distributions {', '.join(names)}, jax-cuda*",))
    from envcheck.probes.frameworks import collect_frameworks  # not loaded where there is nothing to read

    return Known(collect_frameworks(host, installed), Source("file", installed.prefix))


def _version_of(installed: Installation, name: str, source: Source) -> Fact[str]:
    found: Tuple[Distribution, ...] = installed.named((name,))
    return Known(found[0].version, source) if found else Absent((f"distribution {name}",))

"""Find the environments that the tools of a project lead to, each by its own convention.

A file of the folder names one (ty, Pyright, VS Code, PyCharm, a `.venv` file, `.pdm-python`,
conda's environment.yml), or the folder's path does, through a hash (Poetry, Pipenv, PDM, Hatch).
Nothing here starts a tool or runs a file.
"""

from __future__ import annotations

import base64
import posixpath
import re
from typing import Callable, Iterator, NamedTuple, Sequence, Tuple

from envcheck.host.paths import list_names
from envcheck.host.protocol import Host
from envcheck.model import Absent, Known, canonical_name, dataclass, numbers
from envcheck.model.text import find_group

Named = Tuple[str, str, str]  # folder, what names it, why it cannot be judged


class Project(NamedTuple):
    """A folder of the project, the names in it, and its pyproject.toml."""

    host: Host
    folder: str
    names: Sequence[str]
    settings: str

    def read(self, name: str) -> str:
        """Return the text of a file of the folder; "" without one."""
        return _read(self.host, f"{self.folder}/{name}") if name in self.names else ""

    def hash(self, algorithm: str, suffix: str = "") -> bytes:
        """Return a hash of the folder's real path, as tools with environments elsewhere make it."""
        import hashlib  # 2 ms, for these tools alone

        real = self.host.real_path(self.folder).value or self.folder
        if algorithm == "md5":
            return hashlib.md5((real + suffix).encode()).digest()  # noqa: S324 - PDM's choice
        return hashlib.sha256((real + suffix).encode()).digest()


def read_project(host: Host, folder: str, names: Sequence[str]) -> Project:
    """Read what the tools of a folder share."""
    return Project(host, folder, names, _read(host, f"{folder}/pyproject.toml"))


def list_before_usual(project: Project) -> Iterator[Named]:
    """Yield what is meant before the `.venv` of a folder: what was set for it, and Pipenv's own."""
    for list_named in (_list_settings, _list_pipenv):
        yield from list_named(project)


def list_after_usual(project: Project) -> Iterator[Named]:
    """Yield what is meant where a folder has no `.venv`."""
    for list_named in _AFTER:
        yield from list_named(project)


def find_saved(project: Project) -> str:
    """Return the environment whose Python PDM keeps in `.pdm-python`; "" without one."""
    if project.host.environment().get("PDM_IGNORE_SAVED_PYTHON"):
        return ""
    python = project.read(".pdm-python").strip()
    return _prefix_of(python) if python else ""


def read_venv_file(project: Project) -> Named:
    """Read a `.venv` that is a file.

    A path from its folder, or the name of an environment in WORKON_HOME.
    """
    text = project.read(".venv").strip()
    name = text.splitlines()[0].strip() if text else ""
    if not name:
        return f"{project.folder}/.venv", ".venv file", "empty"
    places = [posixpath.normpath(posixpath.join(project.folder, name))]
    if "/" not in name and "\\" not in name:
        places.append(f"{_workon_home(project.host)}/{name}")
    found = next((place for place in places if _is_environment(project.host, place)), "")
    return found or places[-1], ".venv file", "" if found else "gone"


def _list_settings(project: Project) -> Iterator[Named]:
    """Yield what the settings of ty, Pyright, VS Code and PyCharm name."""
    ty = _read_key(project.read("ty.toml"), "environment", "python")
    ty = ty or _read_key(project.settings, "tool.ty.environment", "python")
    if ty:
        yield project.folder + "/" + ty, "ty", ""
    pyright = dict(
        re.findall(r'"(venvPath|venv)"\s*:\s*"([^"]+)"', project.read("pyrightconfig.json"))
    )
    for key in ("venvPath", "venv"):
        pyright.setdefault(key, _read_key(project.settings, "tool.pyright", key))
    if pyright["venv"]:
        yield posixpath.join(project.folder, pyright["venvPath"], pyright["venv"]), "Pyright", ""
    if ".vscode" in project.names:
        text = _read(project.host, f"{project.folder}/.vscode/settings.json")
        named = re.search(
            r'^(?!\s*//).*"python\.(?:defaultInterpreterPath|pythonPath)"\s*:\s*"([^"]+)"',
            text,
            re.MULTILINE,
        )
        path = _expand(project, named.group(1).replace("\\\\", "/")) if named else ""
        if "/" in path:
            yield posixpath.join(project.folder, _prefix_of(path)), "VS Code", ""
    if ".idea" in project.names:
        yield from _list_pycharm(project)


def _list_pycharm(project: Project) -> Iterator[Named]:
    """Yield the environment that a folder of PyCharm names, by the person's table of interpreters.

    Sample: '<jdk version="2"> <name value="Python 3.11 (proj)" /> <type value="Python SDK" />
    <homePath value="$USER_HOME$/proj/env/bin/python" />'
    """
    text = _read(project.host, f"{project.folder}/.idea/misc.xml")
    named = re.search(r'\bproject-jdk-name="([^"]+)"', text)
    if named is None:
        return
    environment = project.host.environment()
    root = _user_folder(project.host, "config", "JetBrains")
    if project.host.system == "windows":
        root = environment.get("APPDATA", "") + "/JetBrains"
    path = (
        rf'<name value="{re.escape(named.group(1))}"\s*/>(?:(?!</jdk>).)*?<homePath value="([^"]+)"'
    )
    for program in sorted(list_names(project.host, root), reverse=True):
        table = _read(project.host, f"{root}/{program}/options/jdk.table.xml")
        found = re.search(path, table, re.DOTALL)
        if found and "://" not in found.group(1):  # not in a container or on another machine
            python = found.group(1).replace("$USER_HOME$", environment.get("HOME", ""))
            yield _prefix_of(python), "PyCharm", ""
            return


def _expand(project: Project, path: str) -> str:
    """Put the values of ${workspaceFolder}, ${env:NAME} and ~ into a path."""
    environment = project.host.environment()

    def value_of(found: "re.Match[str]") -> str:
        name = found.group(1)
        if name.startswith("env:"):
            return environment.get(name[4:], "")
        return project.folder

    path = re.sub(r"\$\{(env:\w+|workspace(?:Folder|Root))\}", value_of, path)
    return environment.get("HOME", "") + path[1:] if path.startswith("~/") else path


def _list_pipenv(project: Project) -> Iterator[Named]:
    """Yield Pipenv's environment of a folder, which goes before a `.venv` that it did not make."""
    environment = project.host.environment()
    if "Pipfile" not in project.names or environment.get("PIPENV_VENV_IN_PROJECT"):
        return
    name = environment.get("PIPENV_CUSTOM_VENV_NAME", "")
    if not name:
        code = base64.urlsafe_b64encode(project.hash("sha256", "/Pipfile")[:6]).decode()
        plain = re.sub(r'[ &$`!*@"()\[\]\\\r\n\t]', "_", posixpath.basename(project.folder))[:42]
        name = f"{plain}-{code}"
    yield from _if_made(project.host, f"{_workon_home(project.host)}/{name}", "Pipenv")


def _list_poetry(project: Project) -> Iterator[Named]:
    """Yield Poetry's environments of a folder, the one that `poetry env use` chose first."""
    if "poetry.lock" not in project.names and "[tool.poetry" not in project.settings:
        return
    tables = ("project", "tool.poetry")
    name = next(filter(None, (_read_key(project.settings, table, "name") for table in tables)), "")
    plain = re.sub(r'[ $`!*@"\\\r\n\t]', "_", canonical_name(name or "non-package-mode"))[:42]
    code = base64.urlsafe_b64encode(project.hash("sha256")).decode()[:8]
    root = _poetry_folder(project)
    made = [
        each for each in list_names(project.host, root) if each.startswith(f"{plain}-{code}-py")
    ]
    chosen = _read_key(_read(project.host, f"{root}/envs.toml"), f"{plain}-{code}", "minor")
    made.sort(key=lambda each: (each.endswith(f"-py{chosen}"), numbers(each)), reverse=True)
    for each in made:
        yield f"{root}/{each}", "Poetry", ""
    if not made:
        yield f"{root}/{plain}-{code}-py*", "Poetry", "not-made"


def _poetry_folder(project: Project) -> str:
    """Return where Poetry keeps environments.

    By the folder's poetry.toml, a variable, the person's settings.
    """
    environment, host = project.host.environment(), project.host
    folder = environment.get("POETRY_CONFIG_DIR") or _user_folder(host, "config", "pypoetry")
    texts = (project.read("poetry.toml"), _read(host, f"{folder}/config.toml"))
    cache = environment.get("POETRY_CACHE_DIR") or _read_top(texts[1], "cache-dir")
    cache = cache or _user_folder(host, "cache", "pypoetry")
    path = _read_key(texts[0], "virtualenvs", "path") or environment.get(
        "POETRY_VIRTUALENVS_PATH", ""
    )
    path = path or _read_key(texts[1], "virtualenvs", "path") or "{cache-dir}/virtualenvs"
    return path.replace("{cache-dir}", cache).replace("{project-dir}", project.folder)


def _list_pdm(project: Project) -> Iterator[Named]:
    """Yield the environments that PDM keeps for a folder outside of it, the newest Python first."""
    if "pdm.lock" not in project.names and "[tool.pdm" not in project.settings:
        return
    host = project.host
    root = _read_key(
        _read(host, f"{_user_folder(host, 'config', 'pdm')}/config.toml"), "venv", "location"
    )
    root = root or f"{_user_folder(host, 'data', 'pdm')}/venvs"
    code = base64.urlsafe_b64encode(project.hash("md5")).decode()[:8]
    start = f"{posixpath.basename(project.folder)}-{code}-"
    made = [each for each in list_names(host, root) if each.startswith(start)]
    for each in sorted(made, key=numbers, reverse=True):
        yield f"{root}/{each}", "PDM", ""


def _list_hatch(project: Project) -> Iterator[Named]:
    """Yield Hatch's default environment of a folder, which is named as the project."""
    if "[tool.hatch.envs" not in project.settings and "hatch.toml" not in project.names:
        return
    host = project.host
    name = canonical_name(_read_key(project.settings, "project", "name"))
    path = host.environment().get("HATCH_ENV_TYPE_VIRTUAL_PATH", "")
    path = path or _read_key(project.settings, "tool.hatch.envs.default", "path")
    text = _read(host, f"{_user_folder(host, 'config', 'hatch')}/config.toml")
    root = _read_key(text, "dirs.env", "virtual")
    if path:
        path = posixpath.join(project.folder, path)
    elif root:
        path = posixpath.join(project.folder, root, name)
    else:
        data = host.environment().get("HATCH_DATA_DIR") or _user_folder(host, "data", "hatch")
        code = base64.urlsafe_b64encode(project.hash("sha256")).decode()[:8]
        path = f"{data}/env/virtual/{name}/{code}/{name}"
    yield from _if_made(host, path, "Hatch")


def _list_pixi(project: Project) -> Iterator[Named]:
    """Yield pixi's environments of a folder, the default one first."""
    root = f"{project.folder}/.pixi/envs"
    names = list_names(project.host, root) if ".pixi" in project.names else ()
    for name in sorted(names, key=lambda name: name != "default"):
        if _is_environment(project.host, f"{root}/{name}"):
            yield f"{root}/{name}", ".pixi", ""


def _list_conda(project: Project) -> Iterator[Named]:
    """Yield the conda environment that environment.yml names."""
    text = project.read("environment.yml") or project.read("environment.yaml")
    for key in ("prefix", "name"):
        found = re.search(rf"^{key}:\s*[\"']?([^\s\"'#]+)", text, re.MULTILINE)
        if not found:
            continue
        value = found.group(1)
        folders = [value] if key == "prefix" else list(list_conda_folders(project.host, value))
        made = next((each for each in folders if _is_environment(project.host, each)), "")
        yield made or value, "environment.yml", "" if made else "not-made"
        return


def _list_pyenv(project: Project) -> Iterator[Named]:
    """Yield the environment of pyenv-virtualenv that .python-version names by a word."""
    word = parse_wanted(project.read(".python-version"), ".python-version")
    root = project.host.environment().get("PYENV_ROOT", "")
    root = root or project.host.environment().get("HOME", "") + "/.pyenv"
    path = f"{root}/versions/{word}"
    if re.fullmatch(r"\w[\w.-]*", word) and _is_environment(project.host, path):
        yield path, ".python-version", ""


def _list_direnv(project: Project) -> Iterator[Named]:
    """Yield the environment that direnv's `layout python` makes."""
    if ".envrc" in project.names:
        for name in reversed(list_names(project.host, f"{project.folder}/.direnv")):
            if name.startswith(("python-", "virtualenv")):
                yield from _if_made(project.host, f"{project.folder}/.direnv/{name}", "direnv")


_AFTER: Tuple[Callable[[Project], Iterator[Named]], ...] = (
    _list_pixi,
    _list_poetry,
    _list_pdm,
    _list_hatch,
    _list_conda,
    _list_pyenv,
    _list_direnv,
)


def list_conda_folders(host: Host, name: str) -> Iterator[str]:
    """Yield the folders of a conda environment.

    Beside the active one, below conda's roots, in conda's list.
    """
    environment = host.environment()
    prefix, home = environment.get("CONDA_PREFIX", ""), environment.get("HOME", "/")
    roots = [environment.get(variable, "") for variable in ("CONDA_ROOT", "MAMBA_ROOT_PREFIX")]
    executable = environment.get("CONDA_EXE", "")  # <root>/bin/conda
    roots.append(posixpath.dirname(posixpath.dirname(executable)))
    if prefix:
        if "/envs/" in prefix:
            yield posixpath.join(posixpath.dirname(prefix), name)
        else:
            yield f"{prefix}/envs/{name}"
    for root in filter(None, roots):
        yield root if name == "base" else f"{root}/envs/{name}"
    listed = _read(host, f"{home}/.conda/environments.txt")
    for line in listed.splitlines():
        if posixpath.basename(line.strip()) == name:
            yield line.strip()


def _if_made(host: Host, path: str, named_by: str) -> Iterator[Named]:
    yield path, named_by, "" if _is_environment(host, path) else "not-made"


def _is_environment(host: Host, folder: str) -> bool:
    paths = (f"{folder}/{name}" for name in ("pyvenv.cfg", "conda-meta"))
    return any(not isinstance(host.status(path), Absent) for path in paths)


def _prefix_of(python: str) -> str:
    """Return the environment of an interpreter's path, or a path that is none as it is."""
    return re.sub(r"[/\\](?:bin|Scripts)[/\\]python[\d.]*(?:\.exe)?$", "", python)


def _workon_home(host: Host) -> str:
    environment = host.environment()
    if host.system == "windows":
        return (
            environment.get("WORKON_HOME") or environment.get("USERPROFILE", "") + "/.virtualenvs"
        )
    data = environment.get("XDG_DATA_HOME") or environment.get("HOME", "") + "/.local/share"
    folder = environment.get("WORKON_HOME") or f"{data}/virtualenvs"
    if folder.startswith("~"):
        return environment.get("HOME", "") + folder[1:]
    return folder


# what a program keeps -> the variable that names the place, the place below HOME, that of macOS
_USER_FOLDERS = {
    "config": ("XDG_CONFIG_HOME", ".config", "Application Support"),
    "data": ("XDG_DATA_HOME", ".local/share", "Application Support"),
    "cache": ("XDG_CACHE_HOME", ".cache", "Caches"),
}


def _user_folder(host: Host, kind: str, name: str) -> str:
    """Return a person's folder of a program: config, data or cache."""
    variable, usual, on_macos = _USER_FOLDERS[kind]
    environment = host.environment()
    if host.system == "windows":
        end = "/Cache" if kind == "cache" else ""
        return f"{environment.get('LOCALAPPDATA', '')}/{name}{end}"
    home = environment.get("HOME", "")
    if host.system == "darwin":
        return f"{home}/Library/{on_macos}/{name}"
    return f"{environment.get(variable) or f'{home}/{usual}'}/{name}"


def _read(host: Host, path: str) -> str:
    return host.read_text(path).value or ""


def _read_key(text: str, table: str, key: str) -> str:
    r"""Read a string of a table in TOML, which Python 3.8 has no reader for.

    Sample: '[project]\nname = "My_Proj.x"\n'
    """
    found = re.search(
        rf"^\[{re.escape(table)}\]\s*$(.*?)(?=^\[|\Z)", text, re.MULTILINE | re.DOTALL
    )
    return _read_top(found.group(1), key) if found else ""


def _read_top(text: str, key: str) -> str:
    found = re.search(
        rf"^\s*{re.escape(key)}\s*=\s*(?:\"([^\"\n]*)\"|'([^'\n]*)')", text, re.MULTILINE
    )
    return (found.group(1) or found.group(2) or "") if found else ""


@dataclass
class Manager:
    """Where a version manager keeps Pythons, and what chooses among them."""

    installs: Tuple[str, ...]  # Python of a version, from the manager's folder; * is the version
    variable: str
    files: Tuple[str, ...]  # of a folder, the first that is there
    defaults: Tuple[str, ...]  # from the manager's folder, and ~ from HOME


_MANAGERS = {
    "pyenv": Manager(
        ("versions/*/bin/python",), "PYENV_VERSION", (".python-version",), ("version",)
    ),
    "asdf": Manager(
        ("installs/python/*/bin/python",),
        "ASDF_PYTHON_VERSION",
        (".tool-versions",),
        ("~/.tool-versions",),
    ),
    "mise": Manager(
        ("installs/python/*/bin/python",),
        "MISE_PYTHON_VERSION",
        ("mise.toml", ".mise.toml", ".tool-versions", ".python-version"),
        ("~/.config/mise/config.toml", "~/.tool-versions"),
    ),
    "rye": Manager(
        ("py/cpython@*/bin/python3", "py/cpython@*/install/bin/python3"),
        "",
        (".python-version",),
        (),
    ),
}


def resolve_shim(host: Host, path: str) -> Tuple[str, str]:
    """Return the Python that a shim starts, or "" and the version that it asks for.

    "system" is the next on PATH.
    """
    root = posixpath.dirname(posixpath.dirname(path))
    names = list_names(host, root)
    name = posixpath.basename(root).lstrip(".")
    kind = "pyenv" if "versions" in names else "asdf"
    if "py" in names:
        kind = "rye"
    manager = _MANAGERS.get(name) or _MANAGERS[kind]
    version = posixpath.basename(path)[len("python") :]  # of python3.12
    wanted = version if "." in version else _find_wanted(host, root, manager)
    for pattern in manager.installs:
        folder, _, rest = pattern.partition("*")
        for installed in _list_fitting(host, f"{root}/{folder}", wanted):
            python = f"{root}/{folder}{installed}{rest}"
            if isinstance(host.status(python), Known):
                return python, wanted
    return "", wanted or "system"


def find_managed(host: Host, version: str) -> str:
    """Return a Python of a version that a version manager or uv keeps; "" without one."""
    home = host.environment().get("HOME", "")
    places = (
        ".pyenv/versions/",
        ".asdf/installs/python/",
        ".local/share/mise/installs/python/",
        ".rye/py/cpython@",
        ".local/share/uv/python/cpython-",
    )
    for place in places:
        for name in _list_fitting(host, f"{home}/{place}", version):
            return f"{home}/{place}{name}"
    return ""


def _list_fitting(host: Host, start: str, version: str) -> Iterator[str]:
    """Yield how the names that begin as `start` go on, where that is a version.

    The newest is first.
    """
    folder, _, prefix = start.rpartition("/")
    names = [name[len(prefix) :] for name in list_names(host, folder) if name.startswith(prefix)]
    fitting = [
        name
        for name in names
        if version and re.match(rf"{re.escape(version)}(?![\w.]*\d)|{re.escape(version)}[.-]", name)
    ]
    yield from sorted(fitting, key=lambda name: (name == version, numbers(name)), reverse=True)


def _find_wanted(host: Host, root: str, manager: Manager) -> str:
    environment = host.environment()
    if environment.get(manager.variable):
        return environment[manager.variable].split(":")[0]
    folder = str(host.system_facts().get("folder", ""))
    while folder:
        for name in manager.files:
            wanted = parse_wanted(
                host.read_text(f"{folder}/{name}".replace("//", "/")).value or "", name
            )
            if wanted:
                return wanted
        folder = posixpath.dirname(folder) if folder != "/" else ""
    home = environment.get("HOME", "")
    for name in manager.defaults:
        path = home + name[1:] if name.startswith("~") else f"{root}/{name}"
        wanted = parse_wanted(host.read_text(path).value or "", name)
        if wanted:
            return wanted
    return ""


def parse_wanted(text: str, name: str) -> str:
    r"""Parse the first Python that a file of a version manager asks for; "" without one.

    Samples: '3.12.1\n' in .python-version, 'python 3.12.1 3.11.7\n' in .tool-versions,
    '[tools]\npython = "3.12"\n' in mise.toml
    """
    patterns = {
        ".tool-versions": r"^python\s+([\w.-]+)",
        ".toml": r"^python\s*=\s*(?:\[\s*)?(?:\{\s*version\s*=\s*)?[\"']([\w.-]+)",
    }
    fitting = (pattern for ending, pattern in patterns.items() if name.endswith(ending))
    pattern = next(fitting, r"^\s*(?:c?python[@-])?(\w[\w.-]*)\s*$")
    return find_group(pattern, text, re.MULTILINE)

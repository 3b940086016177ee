"""Actions on Python environments of pip, uv and conda, and how each shell activates one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import count, pairwise
from typing import Any, TypeVar, cast

from envcheck.actions.machine import RunCommand, WriteFile
from envcheck.host.data_files import read_data
from envcheck.model import (
    CHANGES_NOTHING,
    CONDA,
    ENVIRONMENT,
    MACOS,
    ONLY_SHOWS,
    OWN_STATUS,
    PIP,
    THIS_SHELL,
    USER,
    UV,
    WINDOWS,
    Action,
    Trace,
    dataclass,
    list_fields,
    program_path,
    replace,
)

T = TypeVar("T")

KEPT_BY_INSTALL = (
    "pip keeps no record of what it replaces: `envcheck install` keeps the environment as it was"
)
_CLAUSE = r"(?:===|==|>=|<=|!=|~=|<|>)[A-Za-z0-9][A-Za-z0-9.*+!-]*"
_REQUIREMENT = rf"[a-z0-9][a-z0-9._-]*(?:\[[a-z0-9,_-]+\])?(?:{_CLAUSE}(?:,{_CLAUSE})*)?"
_RELEASE_HOSTS = r"github\.com|data\.pyg\.org"  # of the files that data/packages names
_RELEASE_FILE = rf"[a-z0-9][a-z0-9._-]* @ https://(?:{_RELEASE_HOSTS})/[\w./+%-]+\.whl"
_CONDA_SPEC = r"[a-z0-9][a-z0-9._-]*(?:[=<>!~]=?[A-Za-z0-9.*+_]+(?:=[A-Za-z0-9.*_]+)?)?"
_ONLY_ON_LINUX = re.compile(r"gxx_linux|libstdcxx-ng")
_PART_OF_CUDA = re.compile("cuda|cudnn")  # of which macOS has none
# Exits 0 where no distribution of these names is left; runs on every Python that a framework was
# made for.
_GONE = (
    "import os, re, sys; found = [n for p in sys.path if p.startswith(sys.prefix) and"
    " os.path.isdir(p) for n in os.listdir(p)]; found = [n.split('-')[0] for n in found if"
    " n.endswith(('.dist-info', '.egg-info'))]; left = {re.sub('[-_.]+', '-', n).lower() for n in"
    " found} & set(sys.argv[1:]); sys.exit('still there: ' + ' '.join(left) if left else 0)"
)
_IS_VENV = "import sys; sys.exit(sys.prefix == sys.base_prefix)"


def is_requirement(text: str) -> bool:
    """Return whether a text is a plain requirement, such as tensorflow[and-cuda]==2.15.1."""
    return re.fullmatch(_REQUIREMENT, text) is not None


def is_release_file(text: str) -> bool:
    """Return whether a text requires one built file by its address.

    One is `flash-attn @ https://host/flash_attn-2.8.3.whl`.
    """
    return re.fullmatch(_RELEASE_FILE, text) is not None


def environment_python(folder: str, installer: str, system: str) -> str:
    """Return the path of an environment's Python as it can be typed."""
    if system == WINDOWS:
        if installer == CONDA:
            return f"{folder}\\python.exe"
        return f"{folder}\\Scripts\\python.exe"
    return f"{folder}/bin/python"


def conda_prefix(folder: str, system: str) -> str:
    """Return a folder as conda's -p takes it: mamba reads one without a separator as a name."""
    if "/" in folder or "\\" in folder:
        return folder
    return f".\\{folder}" if system == WINDOWS else f"./{folder}"


def folder_removal(folder: str, system: str) -> tuple[str, ...]:
    """Return the command that removes a folder.

    Both shells of Windows start cmd, which takes / for an option.
    """
    if system == WINDOWS:
        return ("cmd", "/c", "rmdir", "/s", "/q", folder.replace("/", "\\"))
    return ("rm", "-rf", "--", folder)


def find_free_folder(folder: str, exists: Callable[[str], bool]) -> str:
    """Return the first of FOLDER-2, FOLDER-3 ... that is not there."""
    return next(name for name in (f"{folder}-{number}" for number in count(2)) if not exists(name))


def move_environment(value: T, folder: str, free: str) -> T:
    """Let a record and all that it holds work on another folder.

    Every value that is it, or a path below it.
    """

    def move(part: Any) -> Any:
        if isinstance(part, tuple):
            return tuple(map(move, part))
        if isinstance(part, str):
            is_path = part == folder or part.startswith((f"{folder}/", f"{folder}\\"))
            return free + part[len(folder) :] if is_path else part
        names = list_fields(part)
        return (
            replace(part, **{name: move(getattr(part, name)) for name in names}) if names else part
        )

    return cast("T", move(value))


def pick_options(options: tuple[str, ...], *names: str) -> tuple[str, ...]:
    """Return those options of pip that have one of these names, each with its value."""
    pairs = pairwise(options)
    return tuple(part for pair in pairs if pair[0] in names for part in pair)


@dataclass
class CreateEnvironment(Action):
    """Make an environment: a folder, or with conda a name.

    Raise ValueError for no plain spec of conda's.
    """

    folder: str = ""
    installer: str = PIP
    python: str = ""  # minor version: 3.11
    starter: tuple[str, ...] = ()  # starts the Python that a venv is made with
    packages: tuple[str, ...] = ()  # of conda: python=3.7, cudatoolkit=10.0
    channels: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()  # variables of the installer: CONDA_OVERRIDE_CUDA
    name: str = ""  # of an environment that conda keeps by name
    program: str = ""  # conda or uv under the name it has here
    purpose: str = ""

    @property
    def _installer_program(self) -> str:
        return self.program or self.installer

    def command(self, system: str = "") -> tuple[str, ...]:
        program = self._installer_program
        if self.installer == UV:
            base = self.starter[-1] if self.starter else self.python
            return (program, "venv", "--allow-existing", "--python", base, self.folder)
        if self.installer != CONDA:
            usual = ("py", f"-{self.python}") if system == WINDOWS else (f"python{self.python}",)
            starter = self.starter or usual
            return (program_path(starter[0], system), *starter[1:], "-m", "venv", self.folder)
        channels = _channel_options(self.channels, self.packages)
        if self.name:
            return (program, "create", "-n", self.name, *channels, *self.packages)
        into = ("-p", conda_prefix(self.folder, system), "--override-channels")
        return (program, "create", "-y", *into, *channels, *self.packages)

    def in_image(self) -> Action:
        return (
            self if self.installer == CONDA else CreateEnvironment(self.folder, starter=("python",))
        )

    def into_existing(self, purpose: str = "") -> InstallCondaPackages:
        """Return what brings conda's packages into the folder where it is there already."""
        return InstallCondaPackages(
            self.packages,
            self.channels,
            self.folder,
            settings=self.settings,
            program=self.program,
            purpose=purpose or self.purpose,
        )

    def interpreter(self, system: str = "") -> str:
        """Return the path of the Python of the environment."""
        return environment_python(self.folder, self.installer, system)

    def check(self, system: str = "") -> Trace:
        if self.name:
            return Trace((self._installer_program, "list", "-n", self.name))
        python = self.interpreter(system)
        return Trace((python, "--version") if self.installer == CONDA else (python, "-c", _IS_VENV))

    def undo(self, system: str = "") -> Trace:
        if self.name:
            return Trace((self._installer_program, "env", "remove", "-y", "-n", self.name))
        return Trace(folder_removal(self.folder, system))


def changes_environment(action: Action) -> bool:
    """Return whether an action changes an environment, and needs nobody to do it."""
    if (
        action.scope != ENVIRONMENT
        or action.by_person
        or action.in_shell
        or action.lasting == CHANGES_NOTHING
    ):
        return False
    return not isinstance(action, CreateEnvironment) or bool(action.folder)


def fit_to_installer(
    actions: Iterable[Action], python: str, *, lacks_pip: bool = False, uv: str = ""
) -> tuple[Action, ...]:
    """Write pip's actions for the environment of `python`, which may have no pip.

    uv takes them where one is named; else the pip that Python brings comes first.
    """
    if not lacks_pip:
        return tuple(actions)
    if uv:
        others = (item for item in actions if not isinstance(item, (AddPip, UpgradePip)))
        return tuple(_by_uv(item, python, uv) for item in others)
    found = [
        replace(item, installer=PIP, program="") if _installs(item, python) else item
        for item in actions
    ]
    if any(_needs_pip(item, python) for item in found) and AddPip not in map(type, found):
        found.insert(0, AddPip(python))
    return tuple(found)


# how a tool takes a requirement into its project, or its environment
ADD = {
    "pdm": ("pdm", "add"),
    "poetry": ("poetry", "add"),
    "uv": ("uv", "add"),
    "uv pip": ("uv", "pip", "install"),
}


def fit_to_project(action: Action, tool: str) -> Action:
    """Return what a tool that keeps a project, or an environment without pip, does in pip's place.

    Poetry and PDM take an index from the project's file alone: there pip's own command stays.
    """
    if isinstance(action, InstallPackages) and not (action.index or action.options):
        lasting = "the project's file and its lock hold the releases from before"
        if tool == "uv pip":
            lasting = "uv pip freeze lists the releases before it"
        words = (*ADD[tool], *action.requirements)
        return RunCommand(words, purpose=action.purpose, scope=ENVIRONMENT, lasting=lasting)
    if tool.startswith(UV):
        action = _by_uv(action, getattr(action, "python", ""), UV)
        if getattr(action, "installer", "") == UV:
            action = replace(action, python="")
    return action


def _installs(action: Action, python: str) -> bool:
    has_tool = {"installer", "program"}.issubset(list_fields(action))
    return has_tool and getattr(action, "python", "") == python


def _needs_pip(action: Action, python: str) -> bool:
    argv: tuple[str, ...] = getattr(action, "argv", ())
    return (
        argv[:3] == (python, "-m", "pip")
        or _installs(action, python)
        or isinstance(action, UpgradePip)
    )


def _by_uv(action: Action, python: str, uv: str) -> Action:
    """Return what uv does in place of pip; what it has no command for stays."""
    if _installs(action, python):
        return replace(action, installer=UV, program=uv)
    if not _needs_pip(action, python):
        return action
    argv: tuple[str, ...] = getattr(action, "argv", ())
    words = argv[3:]
    if words == ("cache", "purge"):
        return replace(action, argv=(uv, "cache", "clean"))
    if words[0] in {"check", "install", "list", "show"}:
        return replace(action, argv=(uv, "pip", words[0], "--python", python, *words[1:]))
    return action


@dataclass
class ActivateEnvironment(Action):
    """Let this shell use an environment."""

    folder: str
    installer: str = PIP
    purpose: str = ""

    scope = USER
    in_shell = True

    unchecked = "the shell's prompt shows it"
    lasting = THIS_SHELL

    def command(self, system: str = "") -> tuple[str, ...]:
        if self.installer == CONDA:
            name = self.folder
            if not re.fullmatch(r"[\w-]+", name):
                name = conda_prefix(name, system)
            return ("conda", "activate", name)
        if system == WINDOWS:
            return (f"{self.folder}\\Scripts\\activate",)
        return (".", f"{self.folder}/bin/activate")


@dataclass
class InstallPackages(Action):
    """Install requirements into an environment with pip or uv.

    Raise ValueError for what is no plain requirement.
    """

    requirements: tuple[str, ...]
    python: str
    installer: str = PIP
    index: str = ""  # package index of its own; "" for the configured one
    options: tuple[str, ...] = ()  # of pip: --upgrade, --force-reinstall, --no-deps
    wheels_only: bool = False
    source_only: tuple[str, ...] = ()  # packages without wheels: the exceptions from "wheels only"
    kept: tuple[str, ...] = ()  # what the environment holds and must keep: tensorflow==2.15.1
    settings: tuple[tuple[str, str], ...] = ()  # variables of the build: FORCE_CUDA
    program: str = ""  # uv under the name it has here
    purpose: str = ""

    downloads = True
    lasting = KEPT_BY_INSTALL

    def command(self, system: str = "") -> tuple[str, ...]:
        for text in (*self.requirements, *self.kept):
            if not (is_requirement(text) or is_release_file(text)):
                raise ValueError(text)
        wanted = (*self.requirements, *self.kept)
        is_uv = self.installer == UV
        wheels = []
        if self.wheels_only:
            wheels = ["--only-binary=:all:", *(f"--no-binary={name}" for name in self.source_only)]
        if is_uv:
            wheels = [part for option in wheels for part in option.split("=")]
        index: tuple[str, ...] = ()
        if self.index:
            index = ("--default-index" if is_uv else "--index-url", self.index)
        return (*_pip_words(self, "install", system), *wheels, *self.options, *index, *wanted)

    def check(self, system: str = "") -> Trace:
        return Trace(_pip_words(self, "check", system))

    def joined_with(self, other: Action) -> InstallPackages | None:
        """Join another installation into the same environment; what this one says of a name stands.

        None: two steps.
        """
        if not isinstance(other, InstallPackages) or self.index or other.index:
            return None
        if replace(other, requirements=self.requirements, purpose=self.purpose) != self:
            return None
        kept = {_name_of(text): text for text in (*other.requirements, *self.requirements)}
        ordered = dict.fromkeys(map(_name_of, (*self.requirements, *other.requirements)))
        return replace(self, requirements=tuple(kept[name] for name in ordered))


@dataclass
class InstallLock(Action):
    """Install what a pylock.toml (PEP 751) or pins with hashes name, each file by its hash."""

    file: str
    python: str
    installer: str = PIP
    options: tuple[str, ...] = ()  # of pip: --no-index --find-links DIR
    program: str = ""  # uv under the name it has here
    purpose: str = ""

    lasting = KEPT_BY_INSTALL

    def command(self, system: str = "") -> tuple[str, ...]:
        hashed = () if self.file.endswith(".toml") else ("--require-hashes",)
        return (*_pip_words(self, "install", system), *self.options, *hashed, "-r", self.file)

    def check(self, system: str = "") -> Trace:
        return Trace(_pip_words(self, "check", system))


@dataclass
class ReinstallPackages(Action):
    """Reinstall the installed releases whole, and leave all other distributions alone."""

    requirements: tuple[str, ...]  # exact: torch==2.2.2
    python: str
    installer: str = PIP
    index: str = ""  # package index of its own; "" for the configured one
    options: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()  # whose import shows that it worked
    without_record: bool = False  # pip removes nothing whose files it does not know
    program: str = ""  # uv under the name it has here
    purpose: str = ""

    lasting = KEPT_BY_INSTALL

    @property
    def installation(self) -> InstallPackages:
        """Return the installation that it is."""
        if self.installer == UV:  # its cache may share the damaged file
            again: tuple[str, ...] = ("--reinstall", "--no-deps", "--no-cache")
        elif self.without_record:
            again = ("--ignore-installed", "--no-deps")
        else:
            again = ("--force-reinstall", "--no-deps")
        return InstallPackages(
            self.requirements,
            self.python,
            self.installer,
            self.index,
            (*again, *self.options),
            program=self.program,
        )

    def with_label(self) -> ReinstallPackages:
        """Name the builds, such as torch==2.13.0+cpu: another index must not give another one."""
        label = self.index.rstrip("/").rpartition("/")[2]
        if not label:
            return self
        return replace(self, requirements=tuple(f"{text}+{label}" for text in self.requirements))

    def command(self, system: str = "") -> tuple[str, ...]:
        return self.installation.command(system)

    def check(self, system: str = "") -> Trace:
        if not self.modules:
            return self.installation.check(system)
        return Trace((program_path(self.python, system), "-c", f"import {', '.join(self.modules)}"))


@dataclass
class UninstallPackages(Action):
    """Remove distributions from an environment."""

    names: tuple[str, ...]
    python: str
    installer: str = PIP
    program: str = ""
    purpose: str = ""

    lasting = KEPT_BY_INSTALL

    @property
    def removed(self) -> tuple[str, ...]:
        return self.names

    def command(self, system: str = "") -> tuple[str, ...]:
        yes = () if self.installer == UV else ("-y",)
        return (*_pip_words(self, "uninstall", system), *yes, *self.names)

    def check(self, system: str = "") -> Trace:
        return Trace((program_path(self.python, system), "-c", _GONE, *self.names))


@dataclass
class AddPip(Action):
    """Install the pip that Python brings along."""

    python: str
    purpose: str = "This Python has no pip yet."
    typed = ("{python}", "-m", "ensurepip", "--upgrade")
    checked_by = ("{python}", "-m", "pip", "--version")
    undone_by = ("{python}", "-m", "pip", "uninstall", "-y", "pip")


@dataclass
class UpgradePip(Action):
    """Upgrade pip itself."""

    python: str
    requirement: str = "pip"
    purpose: str = ""
    options: tuple[str, ...] = ()  # --no-index --find-links DIR

    downloads = True
    lasting = KEPT_BY_INSTALL
    typed = ("{python}", "-m", "pip", "install", "--upgrade", "{options}", "{requirement}")
    checked_by = ("{python}", "-m", "pip", "--version")


@dataclass
class InstallCondaPackages(Action):
    """Install conda packages into the active environment, or the one in a folder.

    Raise ValueError for no plain spec.
    """

    specs: tuple[str, ...]
    channels: tuple[str, ...] = ("conda-forge",)
    folder: str = ""
    options: tuple[str, ...] = ()  # --force-reinstall
    settings: tuple[tuple[str, str], ...] = ()
    program: str = ""
    purpose: str = ""
    installer = CONDA
    lasting = (
        "`conda list --revisions` names the state before;"
        " `conda install --revision NUMBER` restores it"
    )

    def command(self, system: str = "") -> tuple[str, ...]:
        channels = _channel_options(self.channels, self.specs)
        if self.folder:
            prefix = conda_prefix(self.folder, system)
            channels = ("-y", "-p", prefix, "--override-channels", *channels)
        return (self.program or CONDA, "install", *self.options, *channels, *self.specs)

    def runs_on(self, system: str) -> bool:
        if system == MACOS and any(map(_PART_OF_CUDA.match, self.specs)):
            return False
        return system not in (WINDOWS, MACOS) or not any(map(_ONLY_ON_LINUX.search, self.specs))

    def check(self, system: str = "") -> Trace:
        if not self.folder:
            return Trace(reason=OWN_STATUS)
        return Trace((environment_python(self.folder, CONDA, system), "--version"))


@dataclass
class RemoveCondaPackages(Action):
    """Remove conda's packages from an environment, and leave what depends on them."""

    names: tuple[str, ...]
    folder: str
    program: str = ""
    purpose: str = ""

    lasting = KEPT_BY_INSTALL
    installer = CONDA

    def command(self, system: str = "") -> tuple[str, ...]:
        prefix = conda_prefix(self.folder, system)
        return (self.program or CONDA, "remove", "-y", "-p", prefix, "--force", *self.names)

    def check(self, system: str = "") -> Trace:
        python = environment_python(self.folder, CONDA, system)
        return Trace((python, "-c", _GONE, *self.names))


@dataclass
class SetCondaVariable(Action):
    """Set a variable whenever the active conda environment is activated."""

    name: str
    value: str
    purpose: str = ""
    typed = ("conda", "env", "config", "vars", "set", "{name}={value}")
    checked_by = ("sh", "-c", "conda env config vars list | grep -q '^{name} ='")
    undone_by = ("conda", "env", "config", "vars", "unset", "{name}")

    def runs_on(self, system: str) -> bool:
        return system not in (WINDOWS, MACOS) or not self.name.startswith("LD_")


@dataclass
class RunPython(Action):
    """Show something that the environment's Python knows."""

    code: str
    python: str
    purpose: str = ""
    systems: tuple[str, ...] = ()

    unchecked = ONLY_SHOWS
    lasting = CHANGES_NOTHING
    typed = ("{python}", "-c", "{code}")


@dataclass
class ImportFrameworks(Action):
    """Import frameworks in their environment, activated where its loader paths need that."""

    code: str
    folder: str
    installer: str = PIP
    activated: bool = False
    program: str = ""
    purpose: str = ""

    lasting = CHANGES_NOTHING

    def command(self, system: str = "") -> tuple[str, ...]:
        if not self.activated:
            return (environment_python(self.folder, self.installer, system), "-c", self.code)
        if self.installer == CONDA:
            prefix = conda_prefix(self.folder, system)
            return (self.program or CONDA, "run", "-p", prefix, "python", "-c", self.code)
        program = '. "$1" && exec python -c "$2"'
        return ("sh", "-c", program, "sh", f"{self.folder}/bin/activate", self.code)

    def check(self, system: str = "") -> Trace:
        return Trace(self.command(system))

    def with_programs(self, programs: dict[str, str]) -> Action:
        return super().with_programs(programs) if self.activated else self


def _channel_options(channels: tuple[str, ...], specs: tuple[str, ...]) -> tuple[str, ...]:
    """Return conda's options for channels.

    Raise ValueError for a channel or spec that is no plain word.
    """
    for text in (*specs, *channels):
        if not re.fullmatch(_CONDA_SPEC, text):
            raise ValueError(text)
    return tuple(part for name in channels for part in ("-c", name))


def _pip_words(
    action: InstallPackages | InstallLock | UninstallPackages, verb: str, system: str
) -> tuple[str, ...]:
    """Begin a command of pip, or of uv in its place, for the environment of an action."""
    if action.installer == UV:
        python = ("--python", action.python) if action.python else ()
        return (action.program or UV, "pip", verb, *python)
    return (program_path(action.python, system), "-m", "pip", verb)


def _name_of(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    return found.group() if found else requirement


SH = "sh"  # and bash, zsh, dash, ksh, busybox
# program -> its scripts' suffix
_OTHERS = {"fish": "fish", "csh": "csh", "tcsh": "csh", "pwsh": "ps1"}
_SCRIPTS = {  # that activate a venv: venv's, and uv's and virtualenv's where they differ
    SH: ("activate",),
    "fish": ("activate.fish",),
    "csh": ("activate.csh",),
    "ps1": ("Activate.ps1", "activate.ps1"),
}
EVERY_SHELL = tuple(_SCRIPTS)
_NAMES = {SH: "sh, bash, zsh and ksh", "fish": "fish", "csh": "csh and tcsh", "ps1": "PowerShell"}
_WRITE = "Write what runs a command with the environment's CUDA libraries on the loader's path."


def shells_of(variables: Mapping[str, str]) -> tuple[str, ...]:
    """List the shells to serve: those like sh, and the user's own."""
    own = _OTHERS.get(variables.get("SHELL", "").rpartition("/")[2])
    return (SH, own) if own else (SH,)


def launcher_path(prefix: str) -> str:
    """Return where the program lies in an environment.

    `sh PATH COMMAND...` runs a command with the paths.
    """
    return f"{prefix}/bin/envcheck-cuda"


def write_launcher(prefix: str, words: Iterable[str]) -> WriteFile:
    """Write the program that puts every folder first on LD_LIBRARY_PATH.

    A folder is given as a word of sh.
    """
    folders = " ".join(words)
    lines = tuple(line.replace("@FOLDERS@", folders) for line in _write_lines("launcher.sh"))
    return WriteFile(launcher_path(prefix), lines, is_program=True, purpose=_WRITE)


def venv_hooks(
    prefix: str, folders: Iterable[str], already: Iterable[str]
) -> tuple[WriteFile, ...]:
    """Put folders on the loader's path of an existing venv, beside those set already."""
    words = []
    for folder in dict.fromkeys([*already, *folders]):
        is_below = folder.startswith(f"{prefix}/")  # it moves with the environment
        words.append(f'"$prefix"{folder[len(prefix) :]}' if is_below else folder)
    hook = activation_hooks(prefix, SH, purpose="Then activate it again.")
    return (write_launcher(prefix, words), *hook)


def activation_hooks(prefix: str, shell: str, purpose: str = "") -> tuple[WriteFile, ...]:
    """Let the scripts that activate a venv in one shell call the program."""
    usual = f"Let the environment's activation use it, until `deactivate`, in {_NAMES[shell]}."
    return tuple(
        WriteFile(
            f"{prefix}/bin/{script}",
            _write_lines(f"venv.{shell}"),
            appends=True,
            if_there=shell != SH,
            block=True,
            sets_path_of=f"{prefix}/lib" if shell == SH else "",
            purpose=purpose or usual,
        )
        for script in _SCRIPTS[shell]
    )


def conda_hooks(prefix: str, shell: str) -> tuple[WriteFile, ...]:
    """Write the two scripts that conda reads.

    When the environment is activated, and when it is left.
    """
    return tuple(
        WriteFile(
            f"{prefix}/etc/conda/{kind}e.d/envcheck-cuda.{shell}",
            _write_lines(f"{name}.{shell}"),
            new_folder=True,
            purpose=f"Let {what}, in {_NAMES[shell]}.",
        )
        for kind, name, what in (
            ("activat", "conda", "the environment's activation use it"),
            ("deactivat", "conda-leave", "leaving the environment take that back"),
        )
    )


def _write_lines(name: str) -> tuple[str, ...]:
    return tuple(read_data(f"program/activation/{name}").decode("utf-8").splitlines())

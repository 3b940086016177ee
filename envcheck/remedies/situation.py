"""What a remedy is made for.

The facts of a machine, read or stated by a log, and what they mean for commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TypeAlias

from envcheck.actions import (
    Action,
    ActivateEnvironment,
    CreateEnvironment,
    InstallCondaPackages,
    InstallPackages,
    ReinstallPackages,
    RunEnvcheck,
    RunPython,
    SetCondaVariable,
    SetVariables,
    Show,
    UninstallPackages,
    UnsetVariable,
    fit_to_installer,
    fit_to_project,
    is_requirement,
    venv_hooks,
)
from envcheck.frameworks import framework_names, framework_of, identity
from envcheck.matrix.package_index import index_url
from envcheck.matrix.query import Matrix
from envcheck.model import CONDA, PIP, UV, Absent, Facts, FrameworkRelease, numbers, replace
from envcheck.model.versions import public_version
from envcheck.rules.builds import Build
from envcheck.rules.context import Context
from envcheck.rules.gpu_releases import (
    best_gpu_row,
    find_index_build,
    gpu_requirement,
)
from envcheck.rules.targets import JudgedFramework, judged_builds, judged_frameworks

Actions: TypeAlias = tuple[Action, ...]  # one after the other
DEBIAN, UBUNTU, FEDORA, RHEL, SUSE, ARCH = "debian", "ubuntu", "fedora", "rhel", "suse", "arch"
WSL, WINDOWS, MACOS, JETSON = "wsl", "windows", "macos", "jetson"
CONTAINER, OTHER = "container", "other"
_FAMILIES = {
    "debian": DEBIAN,
    "ubuntu": UBUNTU,
    "linuxmint": UBUNTU,
    "pop": UBUNTU,
    "fedora": FEDORA,
    "rhel": RHEL,
    "rocky": RHEL,
    "almalinux": RHEL,
    "centos": RHEL,
    "ol": RHEL,
    "amzn": RHEL,
    "opensuse": SUSE,
    "opensuse-leap": SUSE,
    "opensuse-tumbleweed": SUSE,
    "sles": SUSE,
    "suse": SUSE,
    "arch": ARCH,
    "manjaro": ARCH,
    "endeavouros": ARCH,
}
_PLAIN_PATH = r"[~\w./+-]+"
PROGRAM_SHELL = "in the program's shell"
PLAIN_FILE = r"[~\w./\\: +-]+"
_PYTORCH_INDEX = r"https://download\.pytorch\.org/whl/[a-z0-9]+"
_YES = ("y", "yes", "t", "true", "on", "1")  # as pip reads a switch
_NAME = r"[a-z0-9][a-z0-9._-]*"
# What a plan depends on: without these options it is for the machine where it is typed.
_STATED = {"--python", "--driver", "--gpu"}


def requires_virtualenv(facts: Facts) -> str:
    """Say that pip's settings allow virtual environments alone; "" where they allow others."""
    settings = facts.host.pip_configuration.value or {}
    if settings.get("require-virtualenv", "").lower() not in _YES:
        return ""
    return "pip's settings here refuse all but virtual environments (require-virtualenv)."


def name_mirror(action: Action, facts: Facts) -> str:
    """Name the index that pip's settings state where an installation uses another; else ""."""
    settings = facts.host.pip_configuration.value or {}
    mirror = settings.get("index-url", "").split()
    if not mirror or not isinstance(action, InstallPackages | ReinstallPackages):
        return ""
    told = f"Your pip is set to use {mirror[0]}:"
    if action.index:
        return f"{told} `envcheck plan --torch-index URL` uses a mirror of PyTorch's index."
    if action.installer == UV:
        return f"{told} uv reads none of pip's settings: --default-index {mirror[0]} says the same."
    return ""


class Situation:
    """A machine that remedies are made for.

    `stated` holds the options with which `envcheck plan` plans for a log's.
    """

    def __init__(
        self,
        context: Context,
        stated: tuple[str, ...] = (),
        *,
        from_log: bool = False,
        floor: str = "",
        installer: str = "",
    ) -> None:
        """Hold the facts, the matrix and the goal.

        `from_log`: they were stated by a log of a machine elsewhere. `floor`: the lowest driver
        that somebody asks for. `installer`: what the log uses in place of pip.
        """
        self.floor, self.installer = floor, installer
        self.context, self.matrix, self.facts = context, context.matrix, context.facts
        self.plan_options, self.from_log = stated, from_log

    @property
    def os(self) -> str:
        """Name the operating system: linux, windows, darwin; "" unknown."""
        return self.context.os

    @cached_property
    def family(self) -> str:
        """Name whose commands fit.

        A distribution's, wsl, windows, macos, container, jetson or other.
        """
        host = self.facts.host
        if self.os in ("windows", "darwin"):
            return WINDOWS if self.os == "windows" else MACOS
        if host.container.value:
            return CONTAINER
        if host.wsl_version.value:
            return WSL
        return JETSON if host.jetson_release.value else self.distribution

    @cached_property
    def distribution(self) -> str:
        """Name the family of the Linux distribution, by its ID, then by ID_LIKE."""
        host = self.facts.host
        names = [host.distribution_id.value or "", *(host.distribution_like.value or "").split()]
        return next((_FAMILIES[name] for name in names if name in _FAMILIES), OTHER)

    @property
    def is_distribution_known(self) -> bool:
        """Return whether the Linux distribution was read or stated, whichever it is."""
        return bool(self.distribution_id)

    @property
    def distribution_id(self) -> str:
        """Return the ID of the distribution: rocky; "" unknown."""
        return self.facts.host.distribution_id.value or ""

    @property
    def distribution_version(self) -> str:
        """Return the version of the distribution: 22.04; "" unknown."""
        return self.facts.host.distribution_version.value or ""

    @property
    def sudo(self) -> bool:
        """Return whether a command that needs root needs sudo."""
        return self.os != "windows" and self.facts.host.is_root.value is not True

    @property
    def in_container(self) -> bool:
        """Return whether this is a container."""
        return bool(self.facts.host.container.value)

    @property
    def has_conda(self) -> bool:
        """Return whether the environment is conda's."""
        return self.facts.python.kind.value == "conda"

    @property
    def python(self) -> str:
        """Return the inspected interpreter as it can be typed."""
        return self.context.python_program

    @cached_property
    def prefix(self) -> str:
        """Return the folder of the environment where it can stand in a command; "" else."""
        prefix_path = self.facts.python.prefix.value or ""
        return prefix_path if re.fullmatch(_PLAIN_PATH, prefix_path) else ""

    @property
    def builds(self) -> tuple[Build, ...]:
        """List the judged builds of all frameworks."""
        return tuple(judged_builds(self.context))

    def build(self, framework: str, distribution: str = "") -> Build | None:
        """Return the judged build of a framework, of one distribution where several are there."""
        builds = [item for item in self.builds if item.framework == framework]
        for item in builds:
            if item.distribution == distribution:
                return item
        return builds[0] if builds else None

    def framework(self, name: str) -> JudgedFramework | None:
        """Return a judged framework with all its builds."""
        return next((item for item in judged_frameworks(self.context) if item.name == name), None)

    def release_row(self, framework: str, release: str) -> FrameworkRelease | None:
        """Return the matrix' row of a release for this platform; None where it is not listed."""
        public = public_version(release)
        if public:
            return self.matrix.release(framework, public, self.context.platform)
        return None

    def install(
        self, *requirements: str, index: str = "", force: bool = False, upgrade: bool = False
    ) -> Actions:
        """Install requirements; () where one is not plain.

        Raises ValueError for a package index other than PyTorch's own.
        """
        if index and not re.fullmatch(_PYTORCH_INDEX, index):
            raise ValueError(index)
        if not requirements or not all(map(is_requirement, requirements)):
            return ()
        options = (("--force-reinstall",) if force else ()) + (("--upgrade",) if upgrade else ())
        return (InstallPackages(requirements, self.python, index=index, options=options),)

    def reinstall(self, *pins: str, modules: str = "", without_record: bool = False) -> Actions:
        """Install releases such as torch==2.2.2+cpu again, each from the index of its label.

        Return () where one is not plain.

        `modules`: those whose import shows that it worked.
        """
        by_index: dict[str, list[str]] = {}
        for pin in pins:
            name, _, version = pin.partition("==")
            public, _, label = version.partition("+")
            by_index.setdefault(index_url(framework_of(name), label), []).append(
                f"{name}=={public}"
            )
        if not all(is_requirement(pin) for listed in by_index.values() for pin in listed):
            return ()
        managed = self.facts.python.externally_managed.value is True
        return tuple(
            ReinstallPackages(
                tuple(listed),
                self.python,
                PIP,
                index,
                ("--break-system-packages",) if managed else (),
                modules=tuple(modules.split()),
                without_record=without_record,
            )
            for index, listed in by_index.items()
        )

    def fit(self, actions: Iterable[Action]) -> Actions:
        """Write pip's actions for the environment, or for a new one where it takes no packages."""
        if self.refuses_packages:
            return tuple(map(self._name_mirror, self._fit_to_new(actions)))
        if self.installer:
            return tuple(fit_to_project(item, self.installer) for item in actions)
        lacks_pip = isinstance(self.facts.python.pip_version, Absent)
        uv = ""
        if lacks_pip and any(each.installer == UV for each in self.context.distributions.values()):
            uv = UV
        fitted = fit_to_installer(actions, self.python, lacks_pip=lacks_pip, uv=uv)
        return tuple(map(self._name_mirror, fitted))

    @property
    def refuses_packages(self) -> str:
        """Return why this Python takes no packages, in a sentence; "" where it takes them."""
        python = self.facts.python
        if python.externally_managed.value is True:
            return "The system's Python takes no packages (PEP 668)."
        if python.kind.value in ("system", "conda"):
            return requires_virtualenv(self.facts)
        return ""

    def _name_mirror(self, action: Action) -> Action:
        """Say beside an installation which index pip is told to use here, where it uses another."""
        told = name_mirror(action, self.facts)
        if not told:
            return action
        own = action.purpose_on(self.os)
        return replace(action, purpose=f"{own.rstrip('.')}. {told}" if own else told)

    def _fit_to_new(self, actions: Iterable[Action]) -> Iterator[Action]:
        purpose = self.refuses_packages
        create = CreateEnvironment(".venv", starter=(self.python,), purpose=purpose)
        is_made = False
        for action in actions:
            is_own = getattr(action, "python", "") == self.python
            if is_own and isinstance(action, InstallPackages):
                if not is_made:
                    yield create
                is_made = True
                yield replace(action, python=create.interpreter(self.os))
            elif not (is_own and isinstance(action, UninstallPackages)):
                yield action

    def uninstall(self, *names: str) -> Actions:
        """Remove distributions from the environment."""
        plain_names = tuple(name for name in names if re.fullmatch(_NAME, name))
        if plain_names:
            return (UninstallPackages(plain_names, self.python),)
        return ()

    def new_environment(self, python: str) -> Actions:
        """Create an environment with another Python minor such as 3.12; () where it is no minor."""
        if not re.fullmatch(r"\d+\.\d+", python):
            return ()
        if self.has_conda:
            return (
                CreateEnvironment(
                    name=f"py{python.replace('.', '')}",
                    installer=CONDA,
                    packages=(f"python={python}",),
                    python=python,
                ),
            )
        return (CreateEnvironment(f".venv-{python}", python=python),)

    def add_loader_folders(self, folders: Iterable[str]) -> Actions:
        """Put folders on the loader's path whenever the environment is activated."""
        plain_folders = [
            folder for folder in dict.fromkeys(folders) if re.fullmatch(_PLAIN_PATH, folder)
        ]
        if not plain_folders or not self.prefix:
            return ()
        if self.has_conda:
            return (SetCondaVariable("LD_LIBRARY_PATH", ":".join(plain_folders)),)
        if self.facts.python.kind.value == "system":
            return ()  # nothing activates it
        return venv_hooks(self.prefix, plain_folders, list_activated_folders(self.context))

    def leave_out(self, variable: str, *folders: str) -> Actions:
        """Take folders off a variable that was read.

        Return () where it names none of them, or what cannot be typed.
        """
        separator = ";" if self.os == "windows" else ":"
        entries = [
            each for each in self.context.environment.get(variable, "").split(separator) if each
        ]
        unwanted = {folder.rstrip("/\\") for folder in folders}
        remaining = [each for each in entries if each.rstrip("/\\") not in unwanted]
        if remaining == entries or not all(re.fullmatch(PLAIN_FILE, each) for each in remaining):
            return ()
        return (set_entries(variable, remaining, separator), *map(find_setting, folders[:1]))

    def activate(self) -> Actions:
        """Activate the environment."""
        if self.prefix:
            return (ActivateEnvironment(self.prefix, CONDA if self.has_conda else "pip"),)
        return ()

    def run_python(self, code: str, purpose: str) -> RunPython:
        """Ask the Python of the environment something."""
        return RunPython(code, self.python, purpose)

    def install_gpu_build(
        self,
        framework: str,
        *,
        release: str = "",
        cuda: str = "",
        capability: str = "",
        newest: bool = False,
    ) -> Actions:
        """Install a framework's CUDA build by pip's own command.

        Return () where none is known for this machine.

        For a log: `envcheck plan` would plan for the machine where it is typed.
        """
        if framework not in framework_names():
            return ()
        context, traits = self.context, identity(framework)
        public = public_version(release)
        if traits.index:
            row = find_index_build(
                context, framework, release=public, cuda=cuda, capability=capability, newest=newest
            )
            is_pinned = bool(public) or self.facts.python.version.value is not None
            if row is None or not (public or cuda or capability or self._knows_cuda):
                # pip's own index has some CUDA
                return self.install(framework, upgrade=True) if row else ()
            requirement = framework
            if is_pinned:
                requirement = f"{framework}=={row.version}+{row.local}"
            return self.install(requirement, index=row.index, upgrade=not is_pinned)
        row = None
        if capability:
            row = best_gpu_row(context, framework, capability=capability)
        elif public or self.facts.python.version.value is not None:
            row = best_gpu_row(context, framework, public)
        if self.os in ("windows", "darwin") or (capability and row is None):
            return ()
        if row is not None:
            return self.install(gpu_requirement(context, row))
        return self.install(traits.plans.gpu_requirement or traits.name, upgrade=True)

    @property
    def _knows_cuda(self) -> bool:
        """Return whether it is known which CUDA a build must have.

        On Windows a CUDA index is always needed.
        """
        driver = self.facts.driver
        facts = (driver.release, driver.cuda_driver_version, self.facts.gpus)
        return any(fact.value for fact in facts) or not self.from_log or self.os == "windows"

    def plan_command(self, framework: str, requirement: str = "") -> Actions:
        """Name the command that plans for this machine.

        Return () for a log that leaves open what the plan depends on.
        """
        target = framework
        if requirement and is_requirement(requirement):
            target = requirement
        if not target or (self.from_log and not set(self.plan_options) >= _STATED):
            return ()
        machine = " for that machine" if self.from_log else ""
        purpose = f"prints the exact commands{machine} and changes nothing"
        return (RunEnvcheck(("plan", target, *self.plan_options), purpose),)


def find_last_gpu_release(matrix: Matrix, framework: str, platform: str) -> str:
    """Return the last CUDA build for a platform, where Linux has newer ones; "" else."""
    last_here, last_on_linux = (
        _find_last_with_cuda(matrix, framework, name) for name in (platform, "linux_x86_64")
    )
    return last_here if numbers(last_here) < numbers(last_on_linux) else ""


def _find_last_with_cuda(matrix: Matrix, framework: str, platform: str) -> str:
    # the newest first: to make typed rows of all takes longer than to explain
    versions = matrix.versions(framework)
    return next((version for version in versions if matrix.cudas(framework, version, platform)), "")


_SETTINGS = (
    "/etc/environment /etc/profile /etc/profile.d/*.sh"
    " ~/.profile ~/.bash_profile ~/.bashrc ~/.zshrc"
)


def set_entries(variable: str, entries: list[str], separator: str) -> Action:
    """Set a variable to the entries that remain; unset it if none do."""
    purpose = "in the program's shell; then change where it is set"
    setting = ((variable, separator.join(entries)),)
    if entries:
        return SetVariables(setting, purpose)
    return UnsetVariable(variable, purpose)


def find_setting(text: str) -> Show:
    """Show the lines of the shells' and the loader's files that set a folder or a variable."""
    search = ("sh", "-c", f'grep -ns -e "$1" {_SETTINGS} /etc/ld.so.conf.d/*', "sh", text)
    return Show(
        search, "shows the line that sets it otherwise: change it in that file", systems=("linux",)
    )


def install_conda_packages(*specs: str, channel: str = "conda-forge") -> InstallCondaPackages:
    """Install conda packages into the active environment."""
    return InstallCondaPackages(specs, (channel,))


def list_activated_folders(context: Context) -> tuple[str, ...]:
    """List the folders that the environment's activation puts on the loader's path already."""
    builds = context.python.frameworks.value or ()
    lookups = (
        item for build in builds for item in build.libraries.value or () if item.via == "activation"
    )
    return tuple(
        item.found.value.rpartition("/")[0] for item in lookups if item.found.value is not None
    )

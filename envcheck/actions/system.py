"""Actions on the machine itself: its packages, kernel modules and services. Printed, and run only on request."""

from __future__ import annotations

from envcheck.actions.types import as_root
from envcheck.model import dataclass, replace
from envcheck.model.actions import LINUX, MACOS, OWN_STATUS, SYSTEM, WINDOWS, Action, Trace

APT, DNF, ZYPPER, PACMAN, WINGET = "apt-get", "dnf", "zypper", "pacman", "winget"
_INSTALL = {
    APT: ("apt-get", "install", "-y"),
    DNF: ("dnf", "install", "-y"),
    ZYPPER: ("zypper", "install", "-y"),
    PACMAN: ("pacman", "-S", "--needed"),
    WINGET: ("winget", "install"),
}
_UPGRADE = {
    APT: ("apt-get", "install", "-y", "--only-upgrade"),
    DNF: ("dnf", "upgrade", "-y"),
    ZYPPER: ("zypper", "update", "-y"),
}
_REMOVE = {
    APT: ("apt-get", "purge", "-y", "--auto-remove"),
    DNF: ("dnf", "remove", "-y"),
    ZYPPER: ("zypper", "remove", "-y", "--clean-deps"),
    PACMAN: ("pacman", "-Rs"),
}
_UPGRADE_STAYS = {
    APT: "the release before is installed again by its number alone: /var/log/apt/history.log names it",
    DNF: "`dnf history undo` reverts the upgrade while a repository still has the release before",
    ZYPPER: "/var/log/zypp/history names the release before",
}
_INSTALLED = {
    # dpkg-query lists what is half configured as well.
    APT: "for each; do dpkg-query -W -f='${db:Status-Status}\\n' \"$each\" | grep -qx installed || exit 1; done",
    DNF: "rpm -q",
    ZYPPER: "rpm -q",
    PACMAN: "pacman -Q",
}
_UNASKED = {PACMAN: ("--noconfirm",), ZYPPER: ("--non-interactive",)}  # what still asks, such as a licence, fails


@dataclass(frozen=True)
class InstallSystemPackages(Action):
    """Install packages of the system; `provides` is a command that runs once they are there."""

    manager: str
    packages: tuple[str, ...]
    sudo: bool = True
    upgrade: bool = False  # only to a newer release of what is installed
    provides: tuple[str, ...] = ()
    options: tuple[str, ...] = ()  # of winget, after the package
    asks_nothing: bool = False
    purpose: str = ""
    scope: str = SYSTEM

    def command(self, system: str = "") -> tuple[str, ...]:
        program, *words = (_UPGRADE if self.upgrade else _INSTALL)[self.manager]
        quiet = _UNASKED.get(self.manager, ()) if self.asks_nothing else ()
        argv = (program, *quiet, *words, *self.packages, *self.options)
        if self.asks_nothing and self.manager == APT:
            argv = ("env", "DEBIAN_FRONTEND=noninteractive", *argv)
        return as_root(argv, sudo=self.sudo and self.manager != WINGET)

    def runs_on(self, system: str) -> bool:
        return system not in (WINDOWS, MACOS) or (system == WINDOWS and self.manager == WINGET)

    def check(self, system: str = "") -> Trace:
        if self.provides:
            return Trace(self.provides)
        if self.manager == WINGET:
            return Trace(("winget", "list", "--exact", "--id", self.packages[0]))
        asked = _INSTALLED[self.manager]
        return Trace(
            ("sh", "-c", asked, "sh", *self.packages) if self.manager == APT else (*asked.split(), *self.packages)
        )

    def undo(self, system: str = "") -> Trace:
        if self.upgrade:
            return Trace(reason=_UPGRADE_STAYS[self.manager])
        if self.manager == WINGET:
            return Trace(("winget", "uninstall", "--exact", "--id", self.packages[0]))
        return Trace(as_root((*_REMOVE[self.manager], *self.packages), sudo=self.sudo))

    def unattended(self) -> Action:
        quiet: Action = replace(self, asks_nothing=True)
        return quiet


@dataclass(frozen=True)
class RemoveSystemPackages(Action):
    """Remove packages of Debian and Ubuntu, by their names or by patterns such as ^nvidia-.*."""

    packages: tuple[str, ...]
    sudo: bool = True
    asks_nothing: bool = False
    purpose: str = ""

    scope = SYSTEM
    systems = (LINUX,)

    def command(self, system: str = "") -> tuple[str, ...]:
        quiet = ("env", "DEBIAN_FRONTEND=noninteractive") if self.asks_nothing else ()
        return as_root((*quiet, "apt-get", "purge", "-y", *self.packages), sudo=self.sudo)

    @property
    def _has_patterns(self) -> bool:
        return any(name.startswith("^") for name in self.packages)

    def check(self, system: str = "") -> Trace:
        if self._has_patterns:
            return Trace(reason=OWN_STATUS)
        return Trace(("sh", "-c", 'for each; do ! dpkg-query -W "$each" || exit 1; done', "sh", *self.packages))

    def undo(self, system: str = "") -> Trace:
        if self._has_patterns:
            return Trace(reason="/var/log/apt/history.log names what it removed")
        return Trace(as_root(("apt-get", "install", "-y", *self.packages), sudo=self.sudo))

    def unattended(self) -> Action:
        quiet: Action = replace(self, asks_nothing=True)
        return quiet


@dataclass(frozen=True)
class RefreshPackageLists(Action):
    """Read the package lists of Debian and Ubuntu."""

    sudo: bool = True
    purpose: str = ""

    scope = SYSTEM
    systems = (LINUX,)

    lasting = "it renews the package lists and installs nothing"

    def command(self, system: str = "") -> tuple[str, ...]:
        return as_root(("apt-get", "update"), sudo=self.sudo)


@dataclass(frozen=True)
class LoadModule(Action):
    """Load a kernel module."""

    module: str
    sudo: bool = True
    purpose: str = ""

    scope = SYSTEM
    systems = (LINUX,)

    def command(self, system: str = "") -> tuple[str, ...]:
        return as_root(("modprobe", self.module), sudo=self.sudo)

    def check(self, system: str = "") -> Trace:
        return Trace(("test", "-d", f"/sys/module/{self.module}"))

    def undo(self, system: str = "") -> Trace:
        return Trace(as_root(("modprobe", "-r", self.module), sudo=self.sudo))


@dataclass(frozen=True)
class UnloadModules(Action):
    """Unload kernel modules, in the order in which they depend on each other."""

    modules: tuple[str, ...]
    sudo: bool = True
    purpose: str = ""

    scope = SYSTEM
    systems = (LINUX,)

    def command(self, system: str = "") -> tuple[str, ...]:
        return as_root(("modprobe", "-r", *self.modules), sudo=self.sudo)

    def check(self, system: str = "") -> Trace:
        return Trace(("sh", "-c", 'for each; do ! test -d "/sys/module/$each" || exit 1; done', "sh", *self.modules))

    def undo(self, system: str = "") -> Trace:
        return Trace(as_root(("modprobe", "-a", *self.modules), sudo=self.sudo))


@dataclass(frozen=True)
class BuildModules(Action):
    """Build DKMS modules for the running kernel."""

    force: bool = False  # build those again that are built
    sudo: bool = True
    purpose: str = ""

    scope = SYSTEM
    systems = (LINUX,)

    def command(self, system: str = "") -> tuple[str, ...]:
        return as_root(("dkms", "autoinstall", *(("--force",) if self.force else ())), sudo=self.sudo)

    def check(self, system: str = "") -> Trace:
        return Trace(("modinfo", "nvidia"))

    def undo(self, system: str = "") -> Trace:
        if self.force:
            return Trace(reason="the new build replaces the one before, for this kernel")
        return Trace(reason="the module stays for this kernel; `dkms remove` removes a release of it")


@dataclass(frozen=True)
class StartService(Action):
    """Start a service now and at every start of the machine."""

    unit: str
    sudo: bool = True
    purpose: str = ""

    scope = SYSTEM
    systems = (LINUX,)

    def command(self, system: str = "") -> tuple[str, ...]:
        return as_root(("systemctl", "enable", "--now", self.unit), sudo=self.sudo)

    def check(self, system: str = "") -> Trace:
        return Trace(("systemctl", "is-active", self.unit))

    def undo(self, system: str = "") -> Trace:
        return Trace(as_root(("systemctl", "disable", "--now", self.unit), sudo=self.sudo))


@dataclass(frozen=True)
class RestartService(Action):
    """Restart a service."""

    unit: str
    sudo: bool = True
    purpose: str = ""
    check_argv: tuple[str, ...] = ()

    scope = SYSTEM
    systems = (LINUX,)

    lasting = "what ran in it before has ended"

    def command(self, system: str = "") -> tuple[str, ...]:
        return as_root(("systemctl", "restart", self.unit), sudo=self.sudo)

    def check(self, system: str = "") -> Trace:
        return Trace(self.check_argv or ("systemctl", "is-active", self.unit))


@dataclass(frozen=True)
class Reboot(Action):
    """Restart the machine."""

    sudo: bool = True
    purpose: str = ""

    scope = SYSTEM
    ends_session = True

    lasting = "a restart is not taken back"

    def command(self, system: str = "") -> tuple[str, ...]:
        return ("shutdown", "/r", "/t", "0") if system == WINDOWS else as_root(("reboot",), sudo=self.sudo)

    def runs_on(self, system: str) -> bool:
        return system not in (WINDOWS, MACOS)

    def check(self, system: str = "") -> Trace:
        return Trace(("nvidia-smi",))

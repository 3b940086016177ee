"""Actions on files, variables and the machine.

Packages, kernel modules, services, and what a person does.
"""

from __future__ import annotations

import re

from envcheck.model import (
    CHANGES_NOTHING,
    ENVIRONMENT,
    LINUX,
    MACOS,
    ONLY_SHOWS,
    OWN_STATUS,
    REBOOT,
    REMOVE_DRIVER,
    SYSTEM,
    THIS_SHELL,
    UNIX,
    USER,
    WINDOWS,
    Action,
    Trace,
    dataclass,
    replace,
)


@dataclass
class AskPerson(Action):
    """Something that only a person can do; `purpose` says it."""

    purpose: str
    scope: str = USER

    by_person = True

    unchecked = "whoever does it sees whether it worked"
    lasting = "whoever did it takes it back"


@dataclass
class Show(Action):
    """A command that shows something and changes nothing."""

    argv: tuple[str, ...]
    purpose: str = ""
    scope: str = USER
    systems: tuple[str, ...] = ()
    sudo: bool = False

    unchecked = ONLY_SHOWS
    lasting = CHANGES_NOTHING
    typed = ("{argv}",)


@dataclass
class ShowKernelLog(Action):
    """Show what the kernel, or on Windows NVIDIA's driver, logged."""

    sudo: bool = True
    purpose: str = ""

    scope = SYSTEM
    systems = (LINUX, WINDOWS)
    unchecked = ONLY_SHOWS
    lasting = CHANGES_NOTHING
    typed = ("dmesg",)
    # the source is the driver's own, as NVRM is on Linux
    typed_on_windows = (
        "wevtutil", "qe", "System", "/q:*[System[Provider[@Name='nvlddmkm']]]",
        "/c:20", "/rd:true", "/f:text",
    )  # fmt: skip

    def purpose_on(self, system: str) -> str:
        if system == WINDOWS:
            return "the last events of NVIDIA's driver: look for Xid"
        return self.purpose


@dataclass
class RunEnvcheck(Action):
    """A command of this program: doctor, plan, gpus, matrix refresh."""

    words: tuple[str, ...]
    purpose: str = ""
    scope: str = ENVIRONMENT

    unchecked = ONLY_SHOWS
    lasting = CHANGES_NOTHING
    typed = ("envcheck", "{words}")

    @property
    def plans_framework(self) -> bool:
        """Return whether it plans a framework, named or described."""
        return self.words[0] == "plan" and len(self.words) > 2

    @property
    def fixes_environment(self) -> bool:
        """Return whether it is the command that fixes an environment."""
        return self.words[0] == "fix"

    @property
    def installs(self) -> bool:
        """Return whether it is the command that installs what was judged."""
        return self.words[0] == "install"


@dataclass
class RunCommand(Action):
    """A command without a type, with its check and undo, or the reasons why there are none.

    `check_argv` and `undo_argv` stand without sudo; `undo_argv` gets it where the command has it.
    """

    argv: tuple[str, ...]
    purpose: str = ""
    scope: str = USER
    systems: tuple[str, ...] = ()
    sudo: bool = False
    check_argv: tuple[str, ...] = ()
    unchecked: str = OWN_STATUS
    undo_argv: tuple[str, ...] = ()
    lasting: str = ""
    settings: tuple[tuple[str, str], ...] = ()  # variables it runs with
    by_person: bool = False  # a name in it stands for the reader's own: IMAGE
    in_shell: bool = False
    ends_session: bool = False
    consent: str = ""
    windows_argv: tuple[str, ...] = ()  # where Windows writes it otherwise
    typed = ("{argv}",)
    typed_on_windows = ("{windows_argv}",)
    checked_by = ("{check_argv}",)
    undone_by = ("{undo_argv}",)


# Programs of sh for writing a file: every path and line is an argument of its own, which no shell
# reads.
_TAKE = "file=$1; shift; "
_PRINT = 'printf "%s\\n" "$@"'
_APPEND = f'{_TAKE}grep -qxF -- "$1" "$file" || {_PRINT} >> "$file"'
_PROGRAMS = {  # (appends, if_there, new_folder)
    (False, False, False): f'{_TAKE}{_PRINT} > "$file"',
    (False, False, True): f'{_TAKE}mkdir -p -- "${{file%/*}}" && {_PRINT} > "$file"',
    (True, False, False): _APPEND,
    (True, True, False): f'[ ! -e "$1" ] || {{ {_APPEND}; }}',
}
_CUT = (
    'sed "/^# envcheck: begin/,/^# envcheck: end/d" "$1" > "$1.new" && cat "$1.new" > "$1" && rm -f'
    ' "$1.new"'
)
_REMOVE_BLOCK = f'[ ! -e "$1" ] || {{ {_CUT}; }}'
_HOLDS = 'grep -qxF -- "$2" "$1"'
_HOLDS_IF_THERE = f'[ ! -e "$1" ] || {_HOLDS}'
_SETS_PATH = '. "$1" && printenv LD_LIBRARY_PATH | grep -qF -- "$2"'
_ONLY_ON_LINUX = re.compile(r"(?<!\w)(?:libcuda|LD_\w+)|/usr/local/cuda|gxx_linux-64")


@dataclass
class WriteFile(Action):
    """Write lines to a file, or append them unless the file holds the first of them."""

    path: str
    lines: tuple[str, ...]
    appends: bool = False
    if_there: bool = False  # only to a file that exists
    new_folder: bool = False  # its folder may not exist yet
    is_program: bool = False  # of sh: checked by running `true` through it
    # an activation script: checked by the folder it must put on LD_LIBRARY_PATH
    sets_path_of: str = ""
    # lines between "# envcheck: begin" and "# envcheck: end", which the undo takes out
    block: bool = False
    purpose: str = ""

    systems = UNIX

    @property
    def brief(self) -> str:
        return f"{'adds' if self.appends else 'writes'} {len(self.lines)} lines: {self.path}"

    def command(self, system: str = "") -> tuple[str, ...]:
        program = _PROGRAMS[(self.appends, self.if_there, self.new_folder)]
        return ("sh", "-c", program, "sh", self.path, *self.lines)

    def check(self, system: str = "") -> Trace:
        if self.is_program:
            return Trace(("sh", self.path, "true"))
        if self.sets_path_of:
            return Trace(("sh", "-c", _SETS_PATH, "sh", self.path, self.sets_path_of))
        if self.block:
            return Trace(("sh", "-c", _HOLDS_IF_THERE, "sh", self.path, self.lines[0]))
        if self.appends:
            return Trace(("grep", "-qxF", "--", self.lines[0], self.path))
        return Trace(("test", "-s", self.path))

    def undo(self, system: str = "") -> Trace:
        if self.block:
            return Trace(("sh", "-c", _REMOVE_BLOCK, "sh", self.path))
        if self.appends:
            return Trace(reason=f"the lines are at the end of {self.path}: remove them there")
        return Trace(("rm", "-f", self.path))


@dataclass
class SetVariables(Action):
    """Set variables of the shell.

    NAME and VALUE, which may hold $NAME itself to put a folder in front.
    """

    values: tuple[tuple[str, str], ...]
    purpose: str = ""
    scope: str = USER

    in_shell = True

    lasting = THIS_SHELL

    def command(self, system: str = "") -> tuple[str, ...]:
        words = tuple(f"{name}={value}" for name, value in self.values)
        return ("set", *words) if system == WINDOWS else ("export", *words)

    def runs_on(self, system: str) -> bool:
        text = " ".join(f"{name}={value}" for name, value in self.values)
        if system == WINDOWS:
            return (
                len(self.values) == 1
                and not re.search(r"\$|=/", text)
                and not _ONLY_ON_LINUX.search(text)
            )
        return system != MACOS or not _ONLY_ON_LINUX.search(text)

    def purpose_on(self, system: str) -> str:
        return _with_powershell(
            self.purpose, f'$env:{self.values[0][0]} = "{self.values[0][1]}"', system
        )

    def check(self, system: str = "") -> Trace:
        name = self.values[0][0]
        if system == WINDOWS:
            return Trace(reason=f"`set {name}` shows it")
        return Trace(("printenv", name))


@dataclass
class UnsetVariable(Action):
    """Unset a variable of the shell."""

    name: str
    purpose: str = ""
    scope: str = USER

    in_shell = True

    lasting = THIS_SHELL
    typed = ("unset", "{name}")
    typed_on_windows = ("set", "{name}=")

    def runs_on(self, system: str) -> bool:
        return system not in (WINDOWS, MACOS) or not self.name.startswith("LD_")

    def purpose_on(self, system: str) -> str:
        return _with_powershell(self.purpose, f"Remove-Item Env:{self.name}", system)

    def check(self, system: str = "") -> Trace:
        if system == WINDOWS:
            return Trace(reason=f"`set {self.name}` shows it")
        return Trace(("sh", "-c", f"! printenv {self.name}"))


@dataclass
class MakeFolder(Action):
    """Make a folder with those above it."""

    path: str
    purpose: str = ""

    systems = UNIX
    typed = ("mkdir", "-p", "{path}")
    checked_by = ("test", "-d", "{path}")
    undone_by = ("rmdir", "{path}")


@dataclass
class LinkFile(Action):
    """Make a symbolic link to a file."""

    target: str
    link: str
    purpose: str = ""

    systems = UNIX
    typed = ("ln", "-s", "{target}", "{link}")
    checked_by = ("test", "-e", "{link}")
    undone_by = ("rm", "-f", "{link}")


@dataclass
class RenameFile(Action):
    """Give a file of the user's another name."""

    path: str
    new_path: str
    purpose: str = ""
    scope: str = USER
    typed = ("mv", "{path}", "{new_path}")
    typed_on_windows = ("move", "{path}", "{new_path}")

    def check(self, system: str = "") -> Trace:
        if system == WINDOWS:
            return Trace(reason="its exit status shows it")
        return Trace(("test", "-e", self.new_path))

    def undo(self, system: str = "") -> Trace:
        return Trace(("move" if system == WINDOWS else "mv", self.new_path, self.path))


@dataclass
class AddLoaderFolder(Action):
    """Let the loader of every user look in a folder."""

    folder: str
    sudo: bool = True
    purpose: str = ""
    file: str = "/etc/ld.so.conf.d/nvidia-driver.conf"

    scope = SYSTEM
    systems = (LINUX,)
    typed = ("sh", "-c", "echo {folder} > {file} && ldconfig")
    checked_by = ("sh", "-c", "ldconfig -p | grep -qF {folder}/")
    undone_by = ("sh", "-c", "rm -f {file} && ldconfig")


def _with_powershell(purpose: str, line: str, system: str) -> str:
    """Add how PowerShell does it, whose `set` is another command."""
    if system != WINDOWS or "PowerShell" in purpose:
        return purpose
    if purpose:
        return f"{purpose}; in PowerShell: {line}"
    return f"in cmd; in PowerShell: {line}"


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
    APT: (
        "the release before is installed again by its number alone:"
        " /var/log/apt/history.log names it"
    ),
    DNF: "`dnf history undo` reverts the upgrade while a repository still has the release before",
    ZYPPER: "/var/log/zypp/history names the release before",
}
_INSTALLED = {
    # dpkg-query lists what is half configured as well.
    APT: (
        "for each; do dpkg-query -W -f='${db:Status-Status}\\n' \"$each\" | grep -qx installed ||"
        " exit 1; done"
    ),
    DNF: "rpm -q",
    ZYPPER: "rpm -q",
    PACMAN: "pacman -Q",
}
# tools that a system has before or uses besides: taking them away could break it
_SHARED = frozenset(("ca-certificates", "curl", "gnupg", "gnupg2", "gpg", "mokutil", "openssl"))
# what still asks, such as a licence, fails
_UNASKED = {PACMAN: ("--noconfirm",), ZYPPER: ("--non-interactive",)}


@dataclass
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
        return argv if self.manager == WINGET else self._as_root(argv)

    @property
    def _names(self) -> tuple[str, ...]:
        """Return the packages without the releases that are asked for: libcuda1=550.54.14*."""
        return tuple(item.partition("=")[0] for item in self.packages)

    def runs_on(self, system: str) -> bool:
        return system not in (WINDOWS, MACOS) or (system == WINDOWS and self.manager == WINGET)

    def check(self, system: str = "") -> Trace:
        if self.provides:
            return Trace(self.provides)
        if self.manager == WINGET:
            return Trace(("winget", "list", "--exact", "--id", self.packages[0]))
        asked = _INSTALLED[self.manager]
        if self.manager == APT:
            return Trace(("sh", "-c", asked, "sh", *self._names))
        return Trace((*asked.split(), *self._names))

    def undo(self, system: str = "") -> Trace:
        if self.upgrade:
            return Trace(reason=_UPGRADE_STAYS[self.manager])
        if _SHARED.issuperset(self._names):
            return Trace(reason="other programs may use what it installs: it stays")
        if self.manager == WINGET:
            return Trace(("winget", "uninstall", "--exact", "--id", self.packages[0]))
        return Trace(self._as_root((*_REMOVE[self.manager], *self._names)))

    def unattended(self) -> Action:
        return replace(self, asks_nothing=True)


@dataclass
class RemoveSystemPackages(Action):
    """Remove packages of Debian and Ubuntu, by their names or by patterns such as ^nvidia-.*."""

    packages: tuple[str, ...]
    sudo: bool = True
    asks_nothing: bool = False
    purpose: str = ""

    scope = SYSTEM
    systems = (LINUX,)
    consent = REMOVE_DRIVER

    def command(self, system: str = "") -> tuple[str, ...]:
        quiet = ("env", "DEBIAN_FRONTEND=noninteractive") if self.asks_nothing else ()
        return self._as_root((*quiet, "apt-get", "purge", "-y", *self.packages))

    @property
    def _has_patterns(self) -> bool:
        return any(name.startswith("^") for name in self.packages)

    def check(self, system: str = "") -> Trace:
        if self._has_patterns:
            return Trace(reason=OWN_STATUS)
        gone = 'for each; do ! dpkg-query -W "$each" || exit 1; done'
        return Trace(("sh", "-c", gone, "sh", *self.packages))

    def undo(self, system: str = "") -> Trace:
        if self._has_patterns:
            return Trace(reason="/var/log/apt/history.log names what it removed")
        return Trace(self._as_root(("apt-get", "install", "-y", *self.packages)))

    def unattended(self) -> Action:
        return replace(self, asks_nothing=True)


@dataclass
class RefreshPackageLists(Action):
    """Read the package lists of Debian and Ubuntu."""

    sudo: bool = True
    purpose: str = ""

    scope = SYSTEM
    systems = (LINUX,)

    lasting = "it renews the package lists and installs nothing"
    typed = ("apt-get", "update")


@dataclass
class LoadModule(Action):
    """Load a kernel module."""

    module: str
    sudo: bool = True
    purpose: str = ""

    scope = SYSTEM
    systems = (LINUX,)
    typed = ("modprobe", "{module}")
    checked_by = ("test", "-d", "/sys/module/{module}")
    undone_by = ("modprobe", "-r", "{module}")


@dataclass
class UnloadModules(Action):
    """Unload kernel modules, in the order in which they depend on each other."""

    modules: tuple[str, ...]
    sudo: bool = True
    purpose: str = ""

    scope = SYSTEM
    systems = (LINUX,)
    typed = ("modprobe", "-r", "{modules}")
    checked_by = (
        "sh", "-c", 'for each; do ! test -d "/sys/module/$each" || exit 1; done', "sh", "{modules}",
    )  # fmt: skip
    undone_by = ("modprobe", "-a", "{modules}")


@dataclass
class BuildModules(Action):
    """Build DKMS modules for the running kernel."""

    force: bool = False  # build those again that are built
    sudo: bool = True
    purpose: str = ""

    scope = SYSTEM
    systems = (LINUX,)
    checked_by = ("modinfo", "nvidia")

    def command(self, system: str = "") -> tuple[str, ...]:
        return self._as_root(("dkms", "autoinstall", *(("--force",) if self.force else ())))

    def undo(self, system: str = "") -> Trace:
        if self.force:
            return Trace(reason="the new build replaces the one before, for this kernel")
        return Trace(
            reason="the module stays for this kernel; `dkms remove` removes a release of it"
        )


@dataclass
class StartService(Action):
    """Start a service now and at every start of the machine."""

    unit: str
    sudo: bool = True
    purpose: str = ""

    scope = SYSTEM
    systems = (LINUX,)
    typed = ("systemctl", "enable", "--now", "{unit}")
    checked_by = ("systemctl", "is-active", "{unit}")
    undone_by = ("systemctl", "disable", "--now", "{unit}")


@dataclass
class RestartService(Action):
    """Restart a service."""

    unit: str
    sudo: bool = True
    purpose: str = ""
    check_argv: tuple[str, ...] = ()

    scope = SYSTEM
    systems = (LINUX,)

    lasting = "what ran in it before has ended"
    typed = ("systemctl", "restart", "{unit}")

    def check(self, system: str = "") -> Trace:
        return Trace(self.check_argv or ("systemctl", "is-active", self.unit))


@dataclass
class Reboot(Action):
    """Restart the machine."""

    sudo: bool = True
    purpose: str = ""

    scope = SYSTEM
    systems = (LINUX,)
    ends_session = True
    consent = REBOOT

    lasting = "a restart is not taken back"
    typed = ("reboot",)
    typed_on_windows = ("shutdown", "/r", "/t", "0")
    checked_by = ("nvidia-smi",)

"""Actions on files, and on the variables of the shell they are typed in."""

from __future__ import annotations

import re

from envcheck.actions.types import as_root
from envcheck.model import dataclass
from envcheck.model.actions import LINUX, MACOS, SYSTEM, THIS_SHELL, UNIX, USER, WINDOWS, Action, Trace

# Programs of sh for writing a file: every path and line is an argument of its own, which no shell reads.
_TAKE = "file=$1; shift; "
_PRINT = 'printf "%s\\n" "$@"'
_APPEND = f'{_TAKE}grep -qxF -- "$1" "$file" || {_PRINT} >> "$file"'
_PROGRAMS = {  # (appends, if_there, new_folder)
    (False, False, False): f'{_TAKE}{_PRINT} > "$file"',
    (False, False, True): f'{_TAKE}mkdir -p -- "${{file%/*}}" && {_PRINT} > "$file"',
    (True, False, False): _APPEND,
    (True, True, False): f'[ ! -e "$1" ] || {{ {_APPEND}; }}',
}
_CUT = 'sed "/^# envcheck: begin/,/^# envcheck: end/d" "$1" > "$1.new" && cat "$1.new" > "$1" && rm -f "$1.new"'
_REMOVE_BLOCK = f'[ ! -e "$1" ] || {{ {_CUT}; }}'
_HOLDS = 'grep -qxF -- "$2" "$1"'
_HOLDS_IF_THERE = f'[ ! -e "$1" ] || {_HOLDS}'
_SETS_PATH = '. "$1" && printenv LD_LIBRARY_PATH | grep -qF -- "$2"'
_ONLY_ON_LINUX = re.compile(r"(?<!\w)(?:libcuda|LD_\w+)|/usr/local/cuda|gxx_linux-64")


@dataclass(frozen=True)
class WriteFile(Action):
    """Write lines to a file, or append them unless the file holds the first of them."""

    path: str
    lines: tuple[str, ...]
    appends: bool = False
    if_there: bool = False  # only to a file that exists
    new_folder: bool = False  # its folder may not exist yet
    is_program: bool = False  # of sh: checked by running `true` through it
    sets_path_of: str = ""  # an activation script: checked by the folder it must put on LD_LIBRARY_PATH
    block: bool = False  # lines between "# envcheck: begin" and "# envcheck: end", which the undo takes out
    purpose: str = ""

    systems = UNIX

    def command(self, system: str = "") -> tuple[str, ...]:
        return ("sh", "-c", _PROGRAMS[(self.appends, self.if_there, self.new_folder)], "sh", self.path, *self.lines)

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


@dataclass(frozen=True)
class SetVariables(Action):
    """Set variables of the shell: NAME and VALUE, which may hold $NAME itself to put a folder in front."""

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
            return len(self.values) == 1 and not re.search(r"\$|=/", text) and not _ONLY_ON_LINUX.search(text)
        return system != MACOS or not _ONLY_ON_LINUX.search(text)

    def purpose_on(self, system: str) -> str:
        return _with_powershell(self.purpose, f'$env:{self.values[0][0]} = "{self.values[0][1]}"', system)

    def check(self, system: str = "") -> Trace:
        name = self.values[0][0]
        return Trace(reason=f"`set {name}` shows it") if system == WINDOWS else Trace(("printenv", name))


@dataclass(frozen=True)
class UnsetVariable(Action):
    """Unset a variable of the shell."""

    name: str
    purpose: str = ""
    scope: str = USER

    in_shell = True

    lasting = THIS_SHELL

    def command(self, system: str = "") -> tuple[str, ...]:
        return ("set", f"{self.name}=") if system == WINDOWS else ("unset", self.name)

    def runs_on(self, system: str) -> bool:
        return system not in (WINDOWS, MACOS) or not self.name.startswith("LD_")

    def purpose_on(self, system: str) -> str:
        return _with_powershell(self.purpose, f"Remove-Item Env:{self.name}", system)

    def check(self, system: str = "") -> Trace:
        if system == WINDOWS:
            return Trace(reason=f"`set {self.name}` shows it")
        return Trace(("sh", "-c", f"! printenv {self.name}"))


@dataclass(frozen=True)
class MakeFolder(Action):
    """Make a folder with those above it."""

    path: str
    purpose: str = ""

    systems = UNIX

    def command(self, system: str = "") -> tuple[str, ...]:
        return ("mkdir", "-p", self.path)

    def check(self, system: str = "") -> Trace:
        return Trace(("test", "-d", self.path))

    def undo(self, system: str = "") -> Trace:
        return Trace(("rmdir", self.path))


@dataclass(frozen=True)
class LinkFile(Action):
    """Make a symbolic link to a file."""

    target: str
    link: str
    purpose: str = ""

    systems = UNIX

    def command(self, system: str = "") -> tuple[str, ...]:
        return ("ln", "-s", self.target, self.link)

    def check(self, system: str = "") -> Trace:
        return Trace(("test", "-e", self.link))

    def undo(self, system: str = "") -> Trace:
        return Trace(("rm", "-f", self.link))


@dataclass(frozen=True)
class RenameFile(Action):
    """Give a file of the user's another name."""

    path: str
    new_path: str
    purpose: str = ""
    scope: str = USER

    def command(self, system: str = "") -> tuple[str, ...]:
        return ("move" if system == WINDOWS else "mv", self.path, self.new_path)

    def check(self, system: str = "") -> Trace:
        return Trace(reason="its exit status shows it") if system == WINDOWS else Trace(("test", "-e", self.new_path))

    def undo(self, system: str = "") -> Trace:
        return Trace(("move" if system == WINDOWS else "mv", self.new_path, self.path))


@dataclass(frozen=True)
class AddLoaderFolder(Action):
    """Let the loader of every user look in a folder."""

    folder: str
    sudo: bool = True
    purpose: str = ""
    file: str = "/etc/ld.so.conf.d/nvidia-driver.conf"

    scope = SYSTEM
    systems = (LINUX,)

    def command(self, system: str = "") -> tuple[str, ...]:
        return as_root(("sh", "-c", f"echo {self.folder} > {self.file} && ldconfig"), sudo=self.sudo)

    def check(self, system: str = "") -> Trace:
        return Trace(("sh", "-c", f"ldconfig -p | grep -qF {self.folder}/"))

    def undo(self, system: str = "") -> Trace:
        return Trace(as_root(("sh", "-c", f"rm -f {self.file} && ldconfig"), sudo=self.sudo))


def _with_powershell(purpose: str, line: str, system: str) -> str:
    """Add how PowerShell does it, whose `set` is another command."""
    if system != WINDOWS or "PowerShell" in purpose:
        return purpose
    return f"{purpose}; in PowerShell: {line}" if purpose else f"in cmd; in PowerShell: {line}"

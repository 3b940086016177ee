"""Actions that fit no other subject: what a person does, what only shows something, and commands of other programs."""

from __future__ import annotations

from envcheck.model import dataclass
from envcheck.model.actions import (
    CHANGES_NOTHING,
    ENVIRONMENT,
    LINUX,
    ONLY_SHOWS,
    OWN_STATUS,
    SYSTEM,
    USER,
    WINDOWS,
    Action,
    Trace,
)


@dataclass(frozen=True)
class AskPerson(Action):
    """Something that only a person can do; `purpose` says it."""

    purpose: str
    scope: str = USER

    by_person = True

    unchecked = "whoever does it sees whether it worked"
    lasting = "whoever did it takes it back"

    def command(self, system: str = "") -> tuple[str, ...]:
        return ()


@dataclass(frozen=True)
class Show(Action):
    """A command that shows something and changes nothing."""

    argv: tuple[str, ...]
    purpose: str = ""
    scope: str = USER
    systems: tuple[str, ...] = ()
    sudo: bool = False

    unchecked = ONLY_SHOWS
    lasting = CHANGES_NOTHING

    def command(self, system: str = "") -> tuple[str, ...]:
        return as_root((program_path(self.argv[0], system), *self.argv[1:]), sudo=self.sudo)


@dataclass(frozen=True)
class ShowKernelLog(Action):
    """Show what the kernel, or on Windows NVIDIA's driver, logged."""

    sudo: bool = True
    purpose: str = ""

    scope = SYSTEM
    systems = (LINUX, WINDOWS)
    unchecked = ONLY_SHOWS
    lasting = CHANGES_NOTHING

    def command(self, system: str = "") -> tuple[str, ...]:
        if system == WINDOWS:  # the source is the driver's own, as NVRM is on Linux
            query = "/q:*[System[Provider[@Name='nvlddmkm']]]"
            return ("wevtutil", "qe", "System", query, "/c:20", "/rd:true", "/f:text")
        return as_root(("dmesg",), sudo=self.sudo)

    def purpose_on(self, system: str) -> str:
        return "the last events of NVIDIA's driver: look for Xid" if system == WINDOWS else self.purpose


@dataclass(frozen=True)
class RunEnvcheck(Action):
    """A command of this program: doctor, plan, gpus, matrix refresh."""

    words: tuple[str, ...]
    purpose: str = ""
    scope: str = ENVIRONMENT

    unchecked = ONLY_SHOWS
    lasting = CHANGES_NOTHING

    def command(self, system: str = "") -> tuple[str, ...]:
        return ("envcheck", *self.words)


@dataclass(frozen=True)
class RunCommand(Action):
    """A command that has no type of its own, with its check and its undo, or the reasons why there are none.

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
    windows_argv: tuple[str, ...] = ()  # where Windows writes it otherwise

    def command(self, system: str = "") -> tuple[str, ...]:
        argv = self.windows_argv if system == WINDOWS and self.windows_argv else self.argv
        return as_root((program_path(argv[0], system), *argv[1:]), sudo=self.sudo)

    def variables(self) -> dict[str, str]:
        return dict(self.settings)

    def check(self, system: str = "") -> Trace:
        return Trace(self.check_argv) if self.check_argv else Trace(reason=self.unchecked)

    def undo(self, system: str = "") -> Trace:
        undone = as_root(self.undo_argv, sudo=self.sudo)
        return Trace(undone) if self.undo_argv else Trace(reason=self.lasting)


def as_root(argv: tuple[str, ...], *, sudo: bool) -> tuple[str, ...]:
    """Put sudo before a command that needs root, unless the user is root."""
    return ("sudo", *argv) if sudo and argv else argv


def program_path(program: str, system: str) -> str:
    """Spell a Python as a system names it: on Windows python3 is python, and .venv/bin/python is in Scripts."""
    if system != WINDOWS:
        return program
    if program == "python3":
        return "python"
    if program.endswith("/bin/python") and not program.startswith(("/", "~")):
        return program[: -len("bin/python")].replace("/", "\\") + "Scripts\\python.exe"
    return program

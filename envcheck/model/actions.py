"""What every action answers: its command, how to see that it worked, and how to undo it."""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

from envcheck.model.records import dataclass, list_fields, replace

ENVIRONMENT = "environment"  # changes nothing but one Python environment
USER = "user"  # changes what belongs to this user, or this shell
SYSTEM = "system"  # changes the machine: printed, and run only on request

LINUX, MACOS, WINDOWS = "linux", "darwin", "windows"
UNIX = (LINUX, MACOS)

# What --yes does not stand for: each is an option of its own.
ENROL_KEY, REBOOT = "enrol-key", "reboot"
REMOVE_DRIVER, BLOCK_NOUVEAU = "remove-other-driver", "blacklist-nouveau"
CONSENTS = (ENROL_KEY, REBOOT, REMOVE_DRIVER, BLOCK_NOUVEAU)

PIP, UV, CONDA = "pip", "uv", "conda"  # installers

OWN_STATUS = "its exit status shows it"
ONLY_SHOWS = "it only shows something"
CHANGES_NOTHING = "it changes nothing"
THIS_SHELL = "it holds in this shell alone"


@dataclass
class Trace:
    """The command that checks or undoes an action; where there is none, the reason why."""

    argv: Tuple[str, ...] = ()
    reason: str = ""


class Action:
    """One thing to do.

    Subclasses are frozen records. `systems` names the systems that have the command; () means all
    of them. The words of a command name fields in braces; a word that is a field of several words
    alone, such as "{modules}", stands for all of them.
    """

    scope = ENVIRONMENT
    purpose = ""
    systems: Tuple[str, ...] = ()
    typed: Tuple[str, ...] = ()  # the command, without sudo
    typed_on_windows: Tuple[str, ...] = ()  # where Windows writes it otherwise
    checked_by: Tuple[str, ...] = ()  # exits 0 where the action worked
    undone_by: Tuple[str, ...] = ()  # without sudo
    unchecked = OWN_STATUS  # why no command checks it
    lasting = ""  # why no command undoes it
    sudo = False
    installer = ""  # that carries it out under the name in a field `program`: conda, uv
    settings: Tuple[Tuple[str, str], ...] = ()  # variables that the command runs with
    in_shell = False  # changes the shell it is typed in: no other process can do it
    downloads = False  # packages, which a cache keeps
    by_person = False  # only a person can do it, or must fill in a name first
    consent = ""  # one of CONSENTS that a person gives for it
    ends_session = False  # a restart: what follows needs a new start

    def command(self, system: str = "") -> Tuple[str, ...]:
        """Return the command as arguments for a system (linux, darwin, windows; "" unknown)."""
        on_windows = self._fill(self.typed_on_windows, system) if system == WINDOWS else ()
        return on_windows or self._as_root(self._fill(self.typed, system))

    def check(self, system: str = "") -> Trace:
        """Return what shows that the action worked: a command that exits 0."""
        words = self._fill(self.checked_by, system)
        return Trace(words) if words else Trace(reason=self.unchecked)

    def undo(self, system: str = "") -> Trace:
        """Return what takes the action back."""
        words = self._as_root(self._fill(self.undone_by, system))
        return Trace(words) if words else Trace(reason=self.lasting)

    def _fill(self, words: Tuple[str, ...], system: str) -> Tuple[str, ...]:
        filled: List[str] = []
        for word in words:
            value = getattr(self, word[1:-1], None) if word.startswith("{") else None
            if isinstance(value, tuple):
                filled += value
            else:
                filled.append(word.format(**self.__dict__) if value is None else value)
        return (program_path(filled[0], system), *filled[1:]) if filled else ()

    def _as_root(self, words: Tuple[str, ...]) -> Tuple[str, ...]:
        """Put sudo before a command that needs root, unless the user is root."""
        return ("sudo", *words) if self.sudo and words else words

    def variables(self) -> Dict[str, str]:
        """Return the environment variables that the command runs with."""
        return dict(self.settings)

    def runs_on(self, system: str) -> bool:
        """Return whether the command can be typed on Windows or macOS.

        On Linux, WSL included, every command stands.
        """
        return system not in (WINDOWS, MACOS) or not self.systems or system in self.systems

    def purpose_on(self, system: str) -> str:
        """Return the purpose as a reader on a system needs it."""
        return self.purpose

    def with_purpose(self, purpose: str) -> Action:
        """Return the action with a purpose, where it does not say its own."""
        return self if self.purpose else replace(self, purpose=purpose)

    @property
    def brief(self) -> str:
        """Say what it does where the whole command says too much; "" elsewhere."""
        return ""

    @property
    def removed(self) -> Tuple[str, ...]:
        """List the distributions that it uninstalls."""
        return ()

    def in_image(self) -> Action:
        """Return the action as a container image is built by it, with the image's own Python."""
        return self

    def unattended(self) -> Action:
        """Return the action as it runs without anybody to answer questions."""
        return self

    def with_programs(self, programs: Dict[str, str]) -> Action:
        """Return the action with this machine's programs: {"conda": "micromamba"}."""
        if self.installer in programs and "program" in list_fields(self):
            return replace(self, program=programs[self.installer])
        return self

    def without_sudo(self) -> Action:
        """Return the action for root, who needs no sudo."""
        return replace(self, sudo=False) if self.sudo else self

    def program_on(self, system: str = "") -> str:
        """Name the program that the command starts; "" for what no command does."""
        return "".join(self.command(system)[:1])


def program_path(program: str, system: str) -> str:
    """Spell a Python as a system names it.

    On Windows python3 is python, and .venv/bin/python is in Scripts.
    """
    if system != WINDOWS:
        return program
    if program == "python3":
        return "python"
    if program.endswith("/bin/python") and not program.startswith(("/", "~")):
        return program[: -len("bin/python")].replace("/", "\\") + "Scripts\\python.exe"
    return program


@dataclass
class Step:
    """An action with its place in a plan."""

    id: str
    action: Action
    resolves: Tuple[str, ...] = ()  # finding ids
    environment: str = ""  # folder of the environment it changes
    check: Optional[Trace] = None  # what shows that it worked, in place of the action's own

    @property
    def purpose(self) -> str:
        """Return what the action is for."""
        return self.action.purpose

    @property
    def scope(self) -> str:
        """Return what the action changes: the environment, what is the user's, or the system."""
        return self.action.scope

    def checked(self, system: str = "") -> Trace:
        """Return what shows that the step worked."""
        return self.check or self.action.check(system)

"""What every engine is given and what it may end with."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from envcheck.fleet.results import HostResult
from envcheck.model.records import dataclass


class EngineError(RuntimeError):
    """The engine itself failed, or names no host; the message says what it said."""


@dataclass(frozen=True)
class Asked:
    """What to ask, and how long to wait."""

    inventory: str = ""  # of Ansible
    partition: str = ""  # of Slurm
    pattern: str = "all"  # an Ansible host pattern
    forks: int = 50  # hosts at a time
    connect_seconds: int = 10
    host_seconds: int = 60  # for one host, from its start to its answer
    become: bool = False
    python: str = ""  # the interpreter to inspect there; what each host finds by itself when empty
    skip: frozenset[str] = frozenset()  # hosts that have answered before, by the names they bear in the folder
    environment: Mapping[str, str] | None = None  # for the engine's own programs


@dataclass(frozen=True)
class Listener:
    """Who is told: the hosts that are asked, each answer as it comes, and what the engine itself has to say."""

    heard_of: Callable[[list[str]], None]
    told: Callable[[HostResult], None]
    warned: Callable[[str], None]

"""What a rule may look at: the facts, the matrix and what the user wants."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any, TypeVar

from envcheck.matrix.query import Matrix
from envcheck.model import Absent, Distribution, Evidence, Fact, Facts, Gpu, Known, Source, Unknown, dataclass

T = TypeVar("T")
_NOTHING = ("", "void", "none")  # values of NVIDIA_VISIBLE_DEVICES that ask for no GPU


class UndecidedError(Exception):
    """A rule met a fact that could not be read; the engine reports it."""

    def __init__(self, name: str, unknown: Unknown) -> None:
        super().__init__(name)
        self.name = name
        self.unknown = unknown


@dataclass(frozen=True)
class Target:
    """What the user wants: `expect` is auto, gpu or cpu; `requirements` are PEP 508 strings to judge.

    `compiles` says that CUDA code is built on this machine, which running a framework does not need.
    """

    expect: str = "auto"
    requirements: tuple[str, ...] = ()
    compiles: bool = False


_AS_USUAL = Target()


class Context:
    """Everything a rule sees. Nothing here reads the machine or the clock."""

    def __init__(
        self, facts: Facts, matrix: Matrix, target: Target = _AS_USUAL, memo: dict[str, Any] | None = None
    ) -> None:
        """Hold what is judged; `memo` keeps what several rules work out once."""
        self.facts, self.matrix, self.target = facts, matrix, target
        self.memo: dict[str, Any] = {} if memo is None else memo

    @cached_property
    def goal(self) -> str:
        """Say whether the verdict is about "gpu" or "cpu" work; auto asks for a GPU wherever there may be one."""
        if self.target.expect in ("gpu", "cpu"):
            return self.target.expect
        has_none = isinstance(self.facts.gpus, Absent) and not self.hides_host_gpus
        return "cpu" if has_none or self._is_left_without_gpu else "gpu"

    @property
    def _is_left_without_gpu(self) -> bool:
        """Say whether this is a container that was given no GPU of its host and holds nothing that asks for one."""
        host, driver, installs = self.facts.host, self.facts.driver, self.facts.toolkits.installs
        nodes = [node.path for node in driver.device_nodes.value] if isinstance(driver.device_nodes, Known) else []
        given = isinstance(driver.libcuda_path, Known) or any(path[len("/dev/nvidia") :].isdigit() for path in nodes)
        unread = isinstance(driver.device_nodes, Unknown) or isinstance(driver.libcuda_path, Unknown)
        if not isinstance(host.container, Known) or isinstance(host.jetson_release, Known) or given or unread:
            return False
        frameworks = self.facts.python.frameworks
        builds = frameworks.value if isinstance(frameworks, Known) else ()
        cpu_only = not isinstance(frameworks, Unknown) and all(
            isinstance(build.cuda_build, Known) and not build.cuda_build.value for build in builds
        )
        asked = self.target.requirements or self.environment.get("NVIDIA_VISIBLE_DEVICES", "").strip() not in _NOTHING
        return cpu_only and not asked and not (isinstance(installs, Known) and installs.value)

    @property
    def hides_host_gpus(self) -> bool:
        """Say whether this container asks for GPUs and could not see those of its host.

        A container shows the PCI devices of its host, given or not; in WSL there are none to see.
        """
        host, devices = self.facts.host, self.environment.get("NVIDIA_VISIBLE_DEVICES", "").strip()
        in_wsl = isinstance(host.container, Known) and isinstance(host.wsl_version, Known)
        return in_wsl and devices not in _NOTHING

    def fact(self, name: str) -> Fact[Any]:
        """Find a fact by its dotted name: "driver.release", "gpus"."""
        value: Any = self.facts
        for part in name.split("."):
            value = getattr(value, part)
        return value  # type: ignore[no-any-return]  # every leaf of Facts is a fact

    def need(self, fact: Fact[T], name: str) -> T | None:
        """Return a known fact's value, None when it is absent; an unknown one ends the rule as undetermined."""
        if isinstance(fact, Unknown):
            raise UndecidedError(name, fact)
        return fact.value if isinstance(fact, Known) else None

    @cached_property
    def gpus(self) -> tuple[Gpu, ...]:
        """List the GPUs; empty when there is none or it could not be told (see `goal` and `need`)."""
        return self.facts.gpus.value if isinstance(self.facts.gpus, Known) else ()

    @cached_property
    def distributions(self) -> dict[str, Distribution]:
        """Map normalised names to the distributions of the inspected environment (the first found wins)."""
        found: dict[str, Distribution] = {}
        for item in self._installed():
            found.setdefault(item.name, item)
        return found

    def _installed(self) -> tuple[Distribution, ...]:
        fact = self.facts.python.distributions
        return fact.value if isinstance(fact, Known) else ()

    @cached_property
    def environment(self) -> dict[str, str]:
        """Return the recorded environment variables."""
        fact = self.facts.host.environment
        return dict(fact.value) if isinstance(fact, Known) else {}

    @cached_property
    def os(self) -> str:
        """Name the operating system, or "" when it was not read."""
        return self._text(self.facts.host.os)

    @cached_property
    def platform(self) -> str:
        """Name the wheel platform family the matrix uses: linux_x86_64, win_amd64, macosx_arm64 ...; "" unknown."""
        machine = self._text(self.facts.python.architecture) or self._text(self.facts.host.architecture)
        machine = {"amd64": "x86_64", "AMD64": "x86_64"}.get(machine, machine)
        if self.os == "windows":
            return "win_amd64" if machine in ("x86_64", "") else f"win_{machine.lower()}"
        if self.os == "darwin":
            return f"macosx_{machine or 'arm64'}"
        return f"linux_{machine or 'x86_64'}"

    @cached_property
    def python_program(self) -> str:
        """Return the inspected interpreter as it can be typed."""
        found = self._text(self.facts.python.executable)
        if is_typeable(found):
            return found
        return "python" if self.os == "windows" else "python3"

    @staticmethod
    def _text(fact: Fact[str]) -> str:
        return fact.value if isinstance(fact, Known) else ""

    def seen(self, name: str, fact: Fact[Any] | None = None, shown: str = "") -> Evidence:
        """Make evidence of a fact, by default the one called `name`."""
        found = self.fact(name) if fact is None else fact
        return Evidence(name, shown or describe(found), source_of(found))


def is_typeable(path: str) -> bool:
    """Tell whether a path needs no more than quotes to stand in a command."""
    return re.fullmatch(r"[~\w./+:\\ @()-]+", path) is not None and not path.startswith("-")


def describe(fact: Fact[Any]) -> str:
    """Say a fact in words."""
    if isinstance(fact, Known):
        return str(fact.value) if not isinstance(fact.value, (tuple, list)) else f"{len(fact.value)} found"
    if isinstance(fact, Absent):
        return "not found"
    return f"could not be read ({fact.why}: {fact.detail})"


def source_of(fact: Fact[Any]) -> Source | None:
    """Return where a known fact was read, or where an absent one was looked for."""
    if isinstance(fact, Known):
        return fact.source
    return Source("file", ", ".join(fact.tried)[:300]) if fact.tried else None

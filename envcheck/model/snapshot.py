"""A machine at one moment: every fact the verdict uses, with where it was read."""

from __future__ import annotations

from typing import Tuple

from envcheck.model.facts import NOT_STATED, Fact
from envcheck.model.machine import CompilerFacts, DriverFacts, Gpu, HostFacts, LibraryInstall, ToolkitFacts
from envcheck.model.python_env import PythonFacts
from envcheck.model.records import dataclass, field

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Facts:
    """All facts, by the probe that reads them."""

    host: HostFacts = field(default_factory=HostFacts)
    driver: DriverFacts = field(default_factory=DriverFacts)
    gpus: Fact[Tuple[Gpu, ...]] = NOT_STATED  # absent: no NVIDIA GPU by PCI, WSL and Jetson alike
    toolkits: ToolkitFacts = field(default_factory=ToolkitFacts)
    cudnn: Fact[Tuple[LibraryInstall, ...]] = NOT_STATED
    tensorrt: Fact[Tuple[LibraryInstall, ...]] = NOT_STATED
    nccl: Fact[Tuple[LibraryInstall, ...]] = NOT_STATED
    compilers: CompilerFacts = field(default_factory=CompilerFacts)
    python: PythonFacts = field(default_factory=PythonFacts)


@dataclass(frozen=True)
class Snapshot:
    """A recorded machine; `doctor --snapshot` judges it as it judges the live one."""

    schema_version: int
    tool_version: str
    host: str
    taken_at: str  # ISO 8601, UTC; never read by rules
    facts: Facts

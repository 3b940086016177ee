"""Fixes of the GPU and the CPU, and of what is busy, split, hidden or limited on GPUs that work."""

from __future__ import annotations

from typing import Tuple

from envcheck.model.fixes import Fix
from envcheck.model.records import dataclass


@dataclass(frozen=True)
class UseNewerBuild(Fix):
    """Install the first build that has code for a GPU that is newer than the installed one."""

    framework: str = ""
    distribution: str = ""
    capability: str = ""  # compute capability of the GPU; "" not known


@dataclass(frozen=True)
class UseOlderBuild(Fix):
    """Install the last build that has code for a GPU which newer ones no longer support."""

    framework: str = ""
    distribution: str = ""
    capability: str = ""


@dataclass(frozen=True)
class AvoidReportedFailure(Fix):
    """Do what is known to work where users report that a build fails on a GPU."""

    sentence: str


@dataclass(frozen=True)
class CompileWithNewerToolkit(Fix):
    """Build CUDA code with the first toolkit that knows the GPU."""

    capability: str


@dataclass(frozen=True)
class CompileWithOlderToolkit(Fix):
    """Build CUDA code with the last toolkit that knows the GPU."""

    capability: str


@dataclass(frozen=True)
class HideGpu(Fix):
    """Use another GPU than one that a project excludes."""


@dataclass(frozen=True)
class UseMachineWithGpu(Fix):
    """Run on a machine with a GPU."""

    or_cpu: bool = False  # the CPU would do: a GPU is only expected


@dataclass(frozen=True)
class FindLostGpu(Fix):
    """Look for a GPU that the machine had."""


@dataclass(frozen=True)
class StopUsingGpu(Fix):
    """Check a GPU that computes wrong results."""

    gpu: str = ""


@dataclass(frozen=True)
class PowerCycleGpu(Fix):
    """Power off and on a machine whose driver lost a GPU."""


@dataclass(frozen=True)
class FollowXid(Fix):
    """Do what NVIDIA's catalogue says of the errors that the driver logged."""

    codes: Tuple[str, ...]
    pci: str = ""  # address of the GPU: 0000:3b:00
    recovery: str = ""  # what Xid 154 recommends: GPU Reset Required


@dataclass(frozen=True)
class UseOtherProcessor(Fix):
    """Use a processor with these instructions, or the last release built without them."""

    framework: str = ""
    instructions: Tuple[str, ...] = ()  # those that the processor lacks; () for one that nobody names
    is_stated: bool = True  # False: a program died of some illegal instruction


@dataclass(frozen=True)
class SetDefaultComputeMode(Fix):
    """Let several processes use a GPU."""

    index: str


@dataclass(frozen=True)
class FindGpuUser(Fix):
    """Stop the process that has a GPU for itself."""


@dataclass(frozen=True)
class WaitForMemory(Fix):
    """Stop the process that holds a GPU's memory, or wait for it."""


@dataclass(frozen=True)
class StopProcess(Fix):
    """Stop a process that holds a GPU's memory and that the driver lists."""

    pid: str


@dataclass(frozen=True)
class FindHiddenProcess(Fix):
    """Find a process that holds a GPU's memory and that the driver does not list."""


@dataclass(frozen=True)
class CreateMigInstance(Fix):
    """Create an instance on a GPU in MIG mode."""

    index: str


@dataclass(frozen=True)
class AssignMigInstance(Fix):
    """Give each process one MIG instance."""

    uuid: str


@dataclass(frozen=True)
class EnlargeSharedMemory(Fix):
    """Start the container with a larger /dev/shm."""


@dataclass(frozen=True)
class UnsetVisibleDevices(Fix):
    """Unset CUDA_VISIBLE_DEVICES."""


@dataclass(frozen=True)
class RequestGpusFromRuntime(Fix):
    """Start a container whose NVIDIA_VISIBLE_DEVICES asks for GPUs."""

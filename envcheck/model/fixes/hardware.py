"""Fixes of the GPU and the CPU, and of what is busy, split, hidden or limited on GPUs that work."""

from __future__ import annotations

from typing import Tuple

from envcheck.model.fixes import Fix
from envcheck.model.records import dataclass


@dataclass
class UseBuildForGpu(Fix):
    """Install the first build that has code for a newer GPU, or the last for an older one."""

    framework: str = ""
    distribution: str = ""
    capability: str = ""  # compute capability of the GPU; "" not known
    is_newer: bool = True  # the GPU; False: newer builds no longer support it


@dataclass
class AvoidReportedFailure(Fix):
    """Do what is known to work where users report that a build fails on a GPU."""

    sentence: str


@dataclass
class CompileForGpu(Fix):
    """Build CUDA code with the first toolkit that knows a newer GPU, or the last for an older."""

    capability: str
    is_newer: bool = True


@dataclass
class HideGpu(Fix):
    """Use another GPU than one that a project excludes."""


@dataclass
class UseMachineWithGpu(Fix):
    """Run on a machine with a GPU."""

    or_cpu: bool = False  # the CPU would do: a GPU is only expected


@dataclass
class FindLostGpu(Fix):
    """Look for a GPU that the machine had."""


@dataclass
class StopUsingGpu(Fix):
    """Check a GPU that computes wrong results."""

    gpu: str = ""


@dataclass
class ServiceGpu(Fix):
    """Do what a GPU needs: power-cycle, reset, reboot, replace, drain, cool or watch."""

    action: str
    index: str = "0"


@dataclass
class FollowXid(Fix):
    """Do what NVIDIA's catalogue says of the errors that the driver logged."""

    codes: Tuple[str, ...]
    pci: str = ""  # address of the GPU: 0000:3b:00
    recovery: str = ""  # what Xid 154 recommends: GPU Reset Required


@dataclass
class UseOtherProcessor(Fix):
    """Use a processor with these instructions, or the last release built without them."""

    framework: str = ""
    # those that the processor lacks; () for one that nobody names
    instructions: Tuple[str, ...] = ()
    is_stated: bool = True  # False: a program died of some illegal instruction


@dataclass
class SetDefaultComputeMode(Fix):
    """Let several processes use a GPU."""

    index: str


@dataclass
class FindGpuUser(Fix):
    """Stop the process that has a GPU for itself."""


@dataclass
class WaitForMemory(Fix):
    """Stop the process that holds a GPU's memory, or wait for it."""


@dataclass
class StopProcess(Fix):
    """Stop a process that holds a GPU's memory and that the driver lists."""

    pid: str


@dataclass
class FindHiddenProcess(Fix):
    """Find a process that holds a GPU's memory and that the driver does not list."""


@dataclass
class CreateMigInstance(Fix):
    """Create an instance on a GPU in MIG mode."""

    index: str


@dataclass
class AssignMigInstance(Fix):
    """Give each process one MIG instance."""

    uuid: str


@dataclass
class EnlargeSharedMemory(Fix):
    """Start the container with a larger /dev/shm."""


@dataclass
class UnsetVisibleDevices(Fix):
    """Unset CUDA_VISIBLE_DEVICES, unless a scheduler set it to what a job was given."""

    by_scheduler: bool = False


@dataclass
class RequestGpusFromRuntime(Fix):
    """Start a container whose NVIDIA_VISIBLE_DEVICES asks for GPUs."""

"""Fixes of the NVIDIA driver: its release, kernel module, libraries, device nodes, services and containers."""

from __future__ import annotations

from typing import Tuple

from envcheck.model.fixes import Fix
from envcheck.model.records import dataclass


@dataclass(frozen=True)
class InstallDriver(Fix):
    """Install a driver that is new enough, or keep it and install what runs on it."""

    floor: str = ""  # the lowest release or branch that serves; "" not known
    exact: bool = False  # of this very branch
    cuda: str = ""  # what needs it
    framework: str = ""
    distribution: str = ""


@dataclass(frozen=True)
class InstallMissingDriver(Fix):
    """Install a driver where none is left of one, once a GPU is seen."""


@dataclass(frozen=True)
class LoadDriver(Fix):
    """Load the kernel module that is installed."""


@dataclass(frozen=True)
class BuildDriver(Fix):
    """Build the kernel module for the running kernel."""


@dataclass(frozen=True)
class InstallKernelModule(Fix):
    """Install the driver with another kind of kernel module: open, proprietary."""

    kind: str


@dataclass(frozen=True)
class ReadKernelLog(Fix):
    """Find out why the driver does not start."""


@dataclass(frozen=True)
class ReleaseFromVirtualMachine(Fix):
    """Take the GPU from vfio-pci."""


@dataclass(frozen=True)
class ReplaceNouveau(Fix):
    """Install the driver and keep nouveau from loading."""


@dataclass(frozen=True)
class SignModule(Fix):
    """Make Secure Boot accept the kernel module."""


@dataclass(frozen=True)
class RemoveStrayNvml(Fix):
    """Remove a copy of NVML that is found before the driver's own."""


@dataclass(frozen=True)
class RemoveStrayLibcuda(Fix):
    """Remove a copy of libcuda that is found before the driver's own."""

    folder: str


@dataclass(frozen=True)
class MatchDriverParts(Fix):
    """Bring the kernel module and the libraries to one release."""

    kernel: str = ""  # the release of the module; "" not known
    libraries: str = ""


@dataclass(frozen=True)
class RemoveForwardCompatibility(Fix):
    """Take the folder of cuda-compat off the loader's path."""

    folder: str


@dataclass(frozen=True)
class InstallLibcuda(Fix):
    """Install the user-space libraries of the running driver's release."""


@dataclass(frozen=True)
class AddLibcudaFolder(Fix):
    """Make the loader look in the folder of libcuda."""

    folder: str


@dataclass(frozen=True)
class OpenDeviceNode(Fix):
    """Give this user access to a device node."""

    node: str


@dataclass(frozen=True)
class RestoreDevices(Fix):
    """Give a container or a job its GPUs back."""


@dataclass(frozen=True)
class CreateDeviceNode(Fix):
    """Create a device node, and pass it through to a container."""

    node: str


@dataclass(frozen=True)
class ReloadMemoryModule(Fix):
    """Load nvidia-uvm again, which a suspend left in a bad state."""


@dataclass(frozen=True)
class StartFabricManager(Fix):
    """Install and start the fabric manager of the driver's release."""

    driver: str = ""  # where the machine's own is not known


@dataclass(frozen=True)
class ConvertToWsl2(Fix):
    """Convert a WSL 1 distribution to WSL 2."""


@dataclass(frozen=True)
class RemoveDriverFromWsl(Fix):
    """Remove the Linux driver that hides the one of Windows."""

    packages: Tuple[str, ...] = ()


@dataclass(frozen=True)
class InstallWindowsDriver(Fix):
    """Install the driver in Windows."""


@dataclass(frozen=True)
class PassGpusToContainer(Fix):
    """Start the container with the GPUs of its host, and with the driver's libraries."""

    lacks_library: bool = False  # the devices are there already

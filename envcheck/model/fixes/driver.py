"""Fixes of the NVIDIA driver.

Its release, kernel module, libraries, device nodes, services and containers.
"""

from __future__ import annotations

from typing import Tuple

from envcheck.model.fixes import Fix
from envcheck.model.records import dataclass


@dataclass
class InstallDriver(Fix):
    """Install a driver that is new enough, or keep it and install what runs on it."""

    floor: str = ""  # the lowest release or branch that serves; "" not known
    exact: bool = False  # of this very branch
    cuda: str = ""  # what needs it
    framework: str = ""
    distribution: str = ""


@dataclass
class InstallMissingDriver(Fix):
    """Install a driver where none is left of one, once a GPU is seen."""


@dataclass
class LoadDriver(Fix):
    """Load the kernel module that is installed."""


@dataclass
class BuildDriver(Fix):
    """Build the kernel module for the running kernel."""


@dataclass
class InstallKernelModule(Fix):
    """Install the driver with another kind of kernel module: open, proprietary."""

    kind: str


@dataclass
class ReadKernelLog(Fix):
    """Find out why the driver does not start."""


@dataclass
class ReleaseFromVirtualMachine(Fix):
    """Take the GPU from vfio-pci."""


@dataclass
class ReplaceNouveau(Fix):
    """Install the driver and keep nouveau from loading."""


@dataclass
class SignModule(Fix):
    """Make Secure Boot accept the kernel module."""


@dataclass
class RemoveStrayNvml(Fix):
    """Remove a copy of NVML that is found before the driver's own."""


@dataclass
class RemoveStrayLibcuda(Fix):
    """Remove a copy of libcuda that is found before the driver's own."""

    folder: str


@dataclass
class MatchDriverParts(Fix):
    """Bring the kernel module and the libraries to one release."""

    kernel: str = ""  # the release of the module; "" not known
    libraries: str = ""


@dataclass
class RemoveForwardCompatibility(Fix):
    """Take the folder of cuda-compat off the loader's path."""

    folder: str


@dataclass
class InstallLibcuda(Fix):
    """Install the user-space libraries of the running driver's release."""


@dataclass
class AddLibcudaFolder(Fix):
    """Make the loader look in the folder of libcuda."""

    folder: str


@dataclass
class OpenDeviceNode(Fix):
    """Give this user access to a device node."""

    node: str


@dataclass
class RestoreDevices(Fix):
    """Give a container or a job its GPUs back."""


@dataclass
class CreateDeviceNode(Fix):
    """Create a device node, and pass it through to a container."""

    node: str


@dataclass
class ReloadMemoryModule(Fix):
    """Load nvidia-uvm again, which a suspend left in a bad state."""


@dataclass
class StartFabricManager(Fix):
    """Install and start the fabric manager of the driver's release."""

    driver: str = ""  # where the machine's own is not known


@dataclass
class ConvertToWsl2(Fix):
    """Convert a WSL 1 distribution to WSL 2."""


@dataclass
class RemoveDriverFromWsl(Fix):
    """Remove the Linux driver that hides the one of Windows."""

    packages: Tuple[str, ...] = ()


@dataclass
class InstallWindowsDriver(Fix):
    """Install the driver in Windows."""


@dataclass
class PassGpusToContainer(Fix):
    """Start the container with the GPUs of its host, and with the driver's libraries."""

    lacks_library: bool = False  # the devices are there already

"""Read the NVIDIA driver.

Its kernel module, device nodes, packages, DKMS state and fabric manager.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Mapping, Tuple

from envcheck.host.paths import list_names
from envcheck.host.protocol import Host
from envcheck.model import (
    Absent,
    DeviceNode,
    DriverFacts,
    Fact,
    Known,
    Unknown,
    choose_reading,
    from_file,
)
from envcheck.probes.driver_libraries import (
    CudaReading,
    DriverLibraries,
    find_driver_libraries,
    query_cuda,
    read_library_version,
)
from envcheck.probes.fabric_manager import read_fabric_manager
from envcheck.probes.gpus import WSL_DEVICE
from envcheck.probes.kernel_module import (
    KernelReading,
    find_module_file,
    read_dkms,
    read_kernel,
    read_signature,
)
from envcheck.probes.nvml import NvmlReading, SmiReading, read_nvml, read_smi
from envcheck.probes.package_managers import DPKG_STATUS, read_dpkg_packages
from envcheck.probes.pci import PciDevice, detect_nvswitch, scan_pci

_NO_TRACE = Absent(("not looked for: no NVIDIA device, module, library, node or tool is here",))


def collect_driver(host: Host) -> DriverFacts:
    """Read every driver fact.

    Without a trace of a GPU or driver, start no process and read no large file.
    """
    kernel = read_kernel(host)
    libraries = find_driver_libraries(host)
    cuda = query_cuda(host, libraries.libcuda)  # first: the GPU probe queries NVML meanwhile
    nvml = read_nvml(host, libraries.nvml_to_query)
    smi = read_smi(host, needed=not nvml.is_complete)
    return DriverFacts(
        release=_choose_release(host, kernel, nvml, smi),
        # cuDriverGetVersion of the libcuda that programs load, then NVML, then the banner of
        # nvidia-smi
        cuda_driver_version=choose_reading(
            cuda.driver_version, nvml.cuda_driver_version, smi.smi_cuda_driver_version
        ),
        logged_faults=_read_log(host, kernel),
        **kernel._asdict(),
        **smi._asdict(),
        **_make_user_space_facts(libraries, cuda, nvml),
        **_read_installation(host, kernel, libraries, smi),
    )


def _read_log(host: Host, kernel: KernelReading) -> Fact[Tuple[str, ...]]:
    if kernel.kernel_module_version.value is None:
        return Absent(("not looked for: the driver's kernel module is not loaded",))
    from envcheck.probes.kernel_log import read_logged_faults  # only for machines with the driver

    return read_logged_faults(host)


def _choose_release(
    host: Host, kernel: KernelReading, nvml: NvmlReading, smi: SmiReading
) -> Fact[str]:
    # The loaded kernel module, then NVML, then nvidia-smi. A Linux kernel without the module is
    # decisive; WSL and Windows do not show the module, so only the user space counts.
    release = choose_reading(
        kernel.kernel_module_version, nvml.driver_version, smi.smi_driver_version
    )
    if isinstance(release, Known) or not isinstance(kernel.kernel_module_version, Absent):
        return release
    kernel_decides = host.system == "linux" and isinstance(host.status(WSL_DEVICE), Absent)
    return kernel.kernel_module_version if kernel_decides else release


def _make_user_space_facts(
    libraries: DriverLibraries, cuda: CudaReading, nvml: NvmlReading
) -> Dict[str, Any]:
    return {
        "libcuda_path": libraries.libcuda,
        "libcuda_version": read_library_version(libraries.libcuda),
        "libcuda_unversioned": libraries.libcuda_unversioned,
        "libcuda_elsewhere": libraries.libcuda_elsewhere,
        "libnvidia_ml_path": libraries.nvml,
        "libnvidia_ml_version": read_library_version(libraries.nvml),
        "cuda_init_result": cuda.init_result,
        "nvml_result": nvml.result,
        "nvml_driver_version": nvml.driver_version,
    }


def _read_installation(
    host: Host, kernel: KernelReading, libraries: DriverLibraries, smi: SmiReading
) -> Dict[str, Any]:
    bus: Fact[Tuple[PciDevice, ...]] = scan_pci(host) if host.system == "linux" else _NO_TRACE
    nodes, dkms = read_device_nodes(host), read_dkms(host)
    traces = (kernel.kernel_module_version, smi.smi_path, nodes, dkms, host.status(WSL_DEVICE))
    # what could not be read may be one
    has_trace = (
        libraries.is_any_found
        or bool(bus.value)
        or isinstance(bus, Unknown)
        or not all(isinstance(fact, Absent) for fact in traces)
    )
    packages: Fact[Mapping[str, str]] = read_packages(host) if has_trace else _NO_TRACE
    module_file: Fact[str] = (
        find_module_file(host) if has_trace and host.system == "linux" else _NO_TRACE
    )
    nvswitch = detect_nvswitch(bus)
    fabric_version, fabric_running = read_fabric_manager(host, nvswitch)
    return {
        "module_file": module_file,
        "module_file_signed": read_signature(
            host, module_file, is_loaded=isinstance(kernel.kernel_module_version, Known)
        ),
        "dkms": dkms,
        "device_nodes": nodes,
        "nvswitch_present": nvswitch,
        "fabric_manager_version": fabric_version,
        "fabric_manager_running": fabric_running,
        "packages": packages,
    }


_NODE = r"nvidia(\d+|ctl|-modeset|-uvm|-uvm-tools|-nvswitch\d+|-nvswitchctl)$"
_CAPS = "/dev/nvidia-caps"


_MOUNTED = ("/proc/self", "/proc/version", "/proc/cpuinfo", "/proc/modules", "/sys/bus")


def read_device_nodes(host: Host) -> Fact[Tuple[DeviceNode, ...]]:
    """List /dev/nvidia* and /dev/nvidia-caps/*.

    nvidiactl alone proves nothing: nvidia-smi, run as root, creates it on a machine without a
    driver.
    """
    if host.system != "linux":
        return Absent((f"/dev/nvidia* (this is {host.system})",))
    names = host.list_folder("/dev")
    if not isinstance(names, Known):
        return names
    paths = [f"/dev/{name}" for name in names.value if re.match(_NODE, name)]
    if "nvidia-caps" in names.value:
        paths += [f"{_CAPS}/{name}" for name in list_names(host, _CAPS)]
    if not paths and all(isinstance(host.status(path), Absent) for path in _MOUNTED):
        return Unknown(
            "failed",
            "neither /proc nor /sys is mounted, so /dev may not be, either (a chroot?)",
            _MOUNTED,
        )
    if not paths:
        return Absent(("/dev/nvidia*",))
    return from_file(tuple(_read_node(host, path) for path in paths), "/dev", " ".join(paths)[:200])


def _read_node(host: Host, path: str) -> DeviceNode:
    status = host.status(path)
    if isinstance(status, Unknown):
        return DeviceNode(path, status)
    if isinstance(status, Absent):
        return DeviceNode(path, Unknown("failed", f"{path} is a broken link", (path,)))
    node = status.value
    mode = f"{node.mode} {node.owner}"
    is_accessible = node.kind == "char" and node.readable and node.writable
    excerpt = mode if node.kind == "char" else f"a {node.kind}, not a device"
    return DeviceNode(path, from_file(is_accessible, path, excerpt), mode)


_PACKAGES = (
    r"(?!nvidia-(?:cuda|cudnn|visual|profiler|nsight))"  # other probes read toolkits and cuDNN
    r"(?:\S*nvidia|libcuda1|libcuda-\d|cuda-compat|cuda-drivers)\S*"
)


def read_packages(host: Host) -> Fact[Mapping[str, str]]:
    """Read the installed driver packages from dpkg's status file."""
    packages = read_dpkg_packages(host, _PACKAGES)
    if isinstance(packages, Known) and not packages.value:
        return Absent((DPKG_STATUS,))
    return packages

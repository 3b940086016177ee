"""Read the NVIDIA driver: kernel side, user side and tools, each reading a fact of its own."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Tuple

from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known
from envcheck.model.machine import DriverFacts
from envcheck.probes.driver_choice import first_known
from envcheck.probes.driver_cuda import CudaReading, read_cuda
from envcheck.probes.driver_dkms import read_dkms
from envcheck.probes.driver_fabric import read_fabric_manager
from envcheck.probes.driver_kernel import KernelSide, read_kernel
from envcheck.probes.driver_libraries import DriverLibraries, find_libraries, library_version
from envcheck.probes.driver_module_file import find_module_file, read_signature
from envcheck.probes.driver_nodes import read_device_nodes
from envcheck.probes.driver_packages import read_packages
from envcheck.probes.gpu_pci import PciDevice, nvswitch_present, scan_pci
from envcheck.probes.nvml import NvmlReading, read_nvml
from envcheck.probes.smi import SmiReading, read_smi

_WSL_DEVICE = "/dev/dxg"
_NO_TRACE = Absent(("not looked for: no NVIDIA device, module, library, node or tool is here",))


def collect_driver(host: Host) -> DriverFacts:
    """Read every driver fact; without a trace of a GPU or driver no process is started and no large file read."""
    kernel = read_kernel(host)
    libraries = find_libraries(host)
    cuda = read_cuda(host, libraries.libcuda)  # first: the GPU probe asks NVML meanwhile
    nvml = read_nvml(host, libraries.nvml_to_ask)
    smi = read_smi(host, needed=not nvml.is_complete)
    return DriverFacts(
        release=_release(host, kernel, nvml, smi),
        # Sources: cuDriverGetVersion of the libcuda programs would load, NVML, the banner of nvidia-smi.
        cuda_driver_version=first_known(cuda.driver_version, nvml.cuda_driver_version, smi.cuda_driver_version),
        kernel_module_version=kernel.version,
        kernel_module_kind=kernel.kind,
        uvm_loaded=kernel.uvm_loaded,
        nouveau_loaded=kernel.nouveau_loaded,
        **_user_side(libraries, cuda, nvml, smi),
        **_installation(host, kernel, libraries, smi),
    )


def _release(host: Host, kernel: KernelSide, nvml: NvmlReading, smi: SmiReading) -> Fact[str]:
    # Sources: the loaded kernel module, NVML, nvidia-smi. A Linux kernel seen to run without the module is
    # decisive; in WSL and on Windows the module is out of sight and the user side alone can tell.
    readings = (kernel.version, nvml.driver_version, smi.driver_version)
    release = first_known(*readings)
    if isinstance(release, Known) or not isinstance(kernel.version, Absent):
        return release
    kernel_decides = host.system == "linux" and isinstance(host.status(_WSL_DEVICE), Absent)
    return kernel.version if kernel_decides else release


def _user_side(libraries: DriverLibraries, cuda: CudaReading, nvml: NvmlReading, smi: SmiReading) -> Dict[str, Any]:
    return {
        "libcuda_path": libraries.libcuda,
        "libcuda_version": library_version(libraries.libcuda),
        "libcuda_unversioned": libraries.libcuda_unversioned,
        "libcuda_elsewhere": libraries.libcuda_elsewhere,
        "libnvidia_ml_path": libraries.nvml,
        "libnvidia_ml_version": library_version(libraries.nvml),
        "cuda_init_result": cuda.init_result,
        "nvml_result": nvml.result,
        "nvml_driver_version": nvml.driver_version,
        "smi_path": smi.path,
        "smi_exit_code": smi.exit_code,
        "smi_driver_version": smi.driver_version,
        "smi_cuda_driver_version": smi.cuda_driver_version,
        "smi_message": smi.message,
    }


def _installation(host: Host, kernel: KernelSide, libraries: DriverLibraries, smi: SmiReading) -> Dict[str, Any]:
    bus: Fact[Tuple[PciDevice, ...]] = scan_pci(host) if host.system == "linux" else _NO_TRACE
    nodes, dkms = read_device_nodes(host), read_dkms(host)
    traces = (kernel.version, smi.path, nodes, dkms, host.status(_WSL_DEVICE))
    is_traced = libraries.any_there or any(isinstance(fact, Known) for fact in traces)
    is_traced = is_traced or (isinstance(bus, Known) and bool(bus.value))
    packages: Fact[Mapping[str, str]] = read_packages(host) if is_traced else _NO_TRACE
    module_file: Fact[str] = find_module_file(host) if is_traced and host.system == "linux" else _NO_TRACE
    nvswitch = nvswitch_present(host, bus)
    fabric_version, fabric_running = read_fabric_manager(host, nvswitch, packages)
    return {
        "module_file": module_file,
        "module_file_signed": read_signature(host, module_file, is_running=isinstance(kernel.version, Known)),
        "dkms": dkms,
        "device_nodes": nodes,
        "nvswitch_present": nvswitch,
        "fabric_manager_version": fabric_version,
        "fabric_manager_running": fabric_running,
        "packages": packages,
    }

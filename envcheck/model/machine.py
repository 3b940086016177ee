"""What the probes read about a machine below its Python: host, driver, GPUs, toolkits, compilers."""

from __future__ import annotations

from typing import Mapping, Tuple

from envcheck.model.facts import NOT_STATED, Fact
from envcheck.model.records import dataclass


@dataclass(frozen=True)
class HostFacts:
    """Operating system, C library, processor, container and the relevant environment."""

    os: Fact[str] = NOT_STATED  # linux, windows, darwin
    distribution_id: Fact[str] = NOT_STATED  # os-release ID: ubuntu, debian, rhel, ...
    distribution_like: Fact[str] = NOT_STATED  # os-release ID_LIKE: "debian", "rhel fedora"
    distribution_version: Fact[str] = NOT_STATED
    kernel_release: Fact[str] = NOT_STATED
    architecture: Fact[str] = NOT_STATED  # x86_64, aarch64, i686, arm64 (macOS) ...
    libc_kind: Fact[str] = NOT_STATED  # glibc, musl
    libc_version: Fact[str] = NOT_STATED
    glibcxx_version: Fact[str] = NOT_STATED  # newest GLIBCXX_x.y.z in the system libstdc++
    cpu_model: Fact[str] = NOT_STATED
    cpu_flags: Fact[Tuple[str, ...]] = NOT_STATED  # lower case, as /proc/cpuinfo spells them
    memory_bytes: Fact[int] = NOT_STATED
    shm_bytes: Fact[int] = NOT_STATED  # size of /dev/shm
    container: Fact[str] = NOT_STATED  # docker, podman, lxc, kubernetes, apptainer, ...
    wsl_version: Fact[int] = NOT_STATED  # 1 or 2; absent when not WSL
    jetson_release: Fact[str] = NOT_STATED  # "R35.4.1"; absent when no Jetson
    secure_boot: Fact[bool] = NOT_STATED
    msvc_runtime: Fact[str] = NOT_STATED  # Windows: folder of the Visual C++ runtime
    is_root: Fact[bool] = NOT_STATED
    environment: Fact[Mapping[str, str]] = NOT_STATED  # known variables only
    pip_configuration: Fact[Mapping[str, str]] = NOT_STATED
    conda_configuration: Fact[Mapping[str, str]] = NOT_STATED


@dataclass(frozen=True)
class DeviceNode:
    """A character device of the driver and whether this user can open it."""

    path: str
    accessible: Fact[bool] = NOT_STATED
    mode: str = ""  # "crw-rw-rw- root:root"


@dataclass(frozen=True)
class DkmsModule:
    """A driver module as DKMS knows it: nvidia/550.163.01, kernel, state."""

    version: str
    kernel_release: str
    state: str  # added, built, installed, broken, ...


@dataclass(frozen=True)
class DriverFacts:
    """The NVIDIA driver, read from its kernel side, its user side and its tools."""

    release: Fact[str] = NOT_STATED  # driver release version the kernel runs: 550.163.01
    cuda_driver_version: Fact[str] = NOT_STATED  # ceiling: "12.4"
    kernel_module_version: Fact[str] = NOT_STATED
    kernel_module_kind: Fact[str] = NOT_STATED  # open, proprietary
    module_file: Fact[str] = NOT_STATED  # nvidia.ko for the running kernel, whether loaded or not
    module_file_signed: Fact[bool] = NOT_STATED
    dkms: Fact[Tuple[DkmsModule, ...]] = NOT_STATED
    uvm_loaded: Fact[bool] = NOT_STATED  # nvidia_uvm in /proc/modules
    nouveau_loaded: Fact[bool] = NOT_STATED
    libcuda_path: Fact[str] = NOT_STATED  # real file behind the libcuda.so.1 the loader finds
    libcuda_version: Fact[str] = NOT_STATED  # from its file name
    libcuda_unversioned: Fact[str] = NOT_STATED  # where the loader finds plain libcuda.so
    libcuda_elsewhere: Fact[Tuple[str, ...]] = NOT_STATED  # copies off the loader's path (WSL, stubs, compat)
    libnvidia_ml_path: Fact[str] = NOT_STATED
    libnvidia_ml_version: Fact[str] = NOT_STATED
    cuda_init_result: Fact[int] = NOT_STATED  # cuInit(0) in a child: 0, 100, 999, 803 ...
    nvml_result: Fact[int] = NOT_STATED  # nvmlInit: 0 ok, 9 not loaded, 18 mismatch
    nvml_driver_version: Fact[str] = NOT_STATED
    smi_path: Fact[str] = NOT_STATED
    smi_exit_code: Fact[int] = NOT_STATED
    smi_driver_version: Fact[str] = NOT_STATED
    smi_cuda_driver_version: Fact[str] = NOT_STATED
    smi_message: Fact[str] = NOT_STATED  # its error text, if it failed
    device_nodes: Fact[Tuple[DeviceNode, ...]] = NOT_STATED
    nvswitch_present: Fact[bool] = NOT_STATED
    fabric_manager_version: Fact[str] = NOT_STATED
    fabric_manager_running: Fact[bool] = NOT_STATED
    packages: Fact[Mapping[str, str]] = NOT_STATED  # dpkg: libnvidia-compute-535 -> 535.261.03...


@dataclass(frozen=True)
class MigDevice:
    """A MIG instance of a GPU."""

    uuid: str
    name: str = ""


@dataclass(frozen=True)
class GpuProcess:
    """A process NVML lists on a GPU; its name is the executable's base name only."""

    pid: int
    name: str = ""
    memory_bytes: Fact[int] = NOT_STATED


@dataclass(frozen=True)
class Gpu:
    """One GPU, joined from NVML, /proc/driver/nvidia and PCI by address and UUID."""

    nvml_index: Fact[int] = NOT_STATED
    name: Fact[str] = NOT_STATED
    uuid: Fact[str] = NOT_STATED
    pci_address: Fact[str] = NOT_STATED  # 0000:07:00.0
    pci_id: Fact[str] = NOT_STATED  # device id, lower case hex: 20b0
    compute_capability: Fact[str] = NOT_STATED  # "8.0"
    kernel_driver: Fact[str] = NOT_STATED  # nvidia, nouveau, vfio-pci; absent when none is bound
    memory_bytes: Fact[int] = NOT_STATED
    memory_used_bytes: Fact[int] = NOT_STATED
    compute_mode: Fact[str] = NOT_STATED  # default, exclusive-process, prohibited
    mig_enabled: Fact[bool] = NOT_STATED
    mig_devices: Fact[Tuple[MigDevice, ...]] = NOT_STATED
    processes: Fact[Tuple[GpuProcess, ...]] = NOT_STATED


@dataclass(frozen=True)
class ToolkitInstall:
    """One CUDA Toolkit (CTK) installation."""

    root: str
    origin: str  # path, usr-local, opt, debian, hpc-sdk, conda, wheels, environment
    version: Fact[str] = NOT_STATED  # "13.0": the best of the readings below
    nvcc_path: Fact[str] = NOT_STATED
    nvcc_release: Fact[str] = NOT_STATED  # "13.0"
    nvcc_build: Fact[str] = NOT_STATED  # "13.0.88"
    version_file: Fact[str] = NOT_STATED  # from version.json or version.txt
    header_version: Fact[str] = NOT_STATED  # cuda.h CUDA_VERSION
    cudart_path: Fact[str] = NOT_STATED
    ptxas_path: Fact[str] = NOT_STATED
    libdevice_path: Fact[str] = NOT_STATED


@dataclass(frozen=True)
class ToolkitFacts:
    """All CUDA Toolkits, and which one wins for whom."""

    installs: Fact[Tuple[ToolkitInstall, ...]] = NOT_STATED
    nvcc_on_path: Fact[str] = NOT_STATED  # real file of the nvcc that PATH finds
    root_on_path: Fact[str] = NOT_STATED  # its install's root
    usr_local_cuda: Fact[str] = NOT_STATED  # what /usr/local/cuda points to
    cuda_home: Fact[str] = NOT_STATED  # CUDA_HOME, else CUDA_PATH, as set
    cuda_home_root: Fact[str] = NOT_STATED  # the real folder behind cuda_home; absent: it leads nowhere
    roots_on_library_path: Fact[Tuple[str, ...]] = NOT_STATED  # real roots of the installs LD_LIBRARY_PATH names
    ptxas_on_path: Fact[str] = NOT_STATED
    nvcc_host_compiler: Fact[str] = NOT_STATED  # path of the compiler nvcc really uses
    nvcc_host_compiler_version: Fact[str] = NOT_STATED


@dataclass(frozen=True)
class LibraryInstall:
    """One copy of cuDNN, TensorRT or NCCL: header, library and package are separate facts."""

    library: str  # cudnn, tensorrt, nccl
    root: str
    origin: str  # system, toolkit, debian, conda, wheels, environment
    header_version: Fact[str] = NOT_STATED
    header_path: Fact[str] = NOT_STATED
    library_version: Fact[str] = NOT_STATED  # from the real file name or the ELF
    library_path: Fact[str] = NOT_STATED
    package_version: Fact[str] = NOT_STATED  # wheel, dpkg or conda package
    cuda_major: Fact[str] = NOT_STATED  # "12", from package name or suffix


@dataclass(frozen=True)
class CompilerFacts:
    """Host compilers on PATH."""

    gcc_version: Fact[str] = NOT_STATED
    gcc_path: Fact[str] = NOT_STATED
    gxx_version: Fact[str] = NOT_STATED
    gxx_path: Fact[str] = NOT_STATED
    clang_version: Fact[str] = NOT_STATED
    clang_path: Fact[str] = NOT_STATED
    others: Fact[Mapping[str, str]] = NOT_STATED  # /usr/bin/gcc-11 -> "11.4.0"

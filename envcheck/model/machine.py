"""What a fact is, and the records of a machine: what the probes read, and what its GPUs do now.

A fact is known, absent or unknown, and says where it comes from.
"""

from __future__ import annotations

from typing import Any, Callable, Generic, Mapping, Optional, Tuple, TypeVar, Union

from envcheck import __version__
from envcheck.model.records import dataclass, field, list_fields, replace
from envcheck.model.versions import numbers, public_version

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

UNKNOWN_REASONS = ("timeout", "denied", "failed", "unparsable", "conflict", "crashed")


@dataclass
class Source:
    """Where a value was read.

    A command, file, variable, library, override, report or the matrix.
    """

    kind: str
    where: str
    excerpt: str = ""


@dataclass
class Known(Generic[T_co]):
    """A value and its source. The value is never None."""

    value: T_co
    source: Source


@dataclass
class Absent:
    """A thing that is in none of the places `tried`."""

    tried: Tuple[str, ...] = ()
    value = None  # no field: see `Fact`


@dataclass
class Unknown:
    """A thing that could not be determined.

    One of UNKNOWN_REASONS, and what happened as a clause.
    """

    why: str
    detail: str
    tried: Tuple[str, ...] = ()
    value = None


# `fact.value` is the plain value, or None where the thing is absent or could not be read. 0, False
# and "" are values.
Fact = Union[Known[T], Absent, Unknown]

NOT_STATED = Unknown("failed", "not stated in this snapshot")
# What a file that builds an environment leaves to the machine that runs it: its driver, its GPUs,
# its loader.
AT_RUN = Unknown("failed", "it shows when the environment runs")
NOT_COLLECTED = Unknown("failed", "not collected: an older envcheck recorded this machine")


def from_file(value: T, path: str, excerpt: str = "") -> Known[T]:
    """State what a file says."""
    return Known(value, Source("file", path, excerpt))


def choose_reading(*readings: Fact[T]) -> Fact[T]:
    """Return the first known reading, else the first unknown one, else absent."""
    for kind in (Known, Unknown):
        for reading in readings:
            if isinstance(reading, kind):
                return reading
    return Absent(collect_tried(*readings))


def collect_tried(*readings: Fact[Any]) -> Tuple[str, ...]:
    """Return the distinct places where absent and unknown readings looked, in order."""
    places = [
        place for reading in readings if not isinstance(reading, Known) for place in reading.tried
    ]
    return tuple(dict.fromkeys(places))


def parse_fact(text: Fact[str], parse: Callable[[str], Optional[T]], what: str) -> Fact[T]:
    """Apply `parse` to a known text.

    Where it returns None the fact is unknown and names `what` is missing.
    """
    if not isinstance(text, Known):
        return text
    value = parse(text.value)
    where = text.source.where
    if value is None:
        return Unknown("unparsable", f"{where}: no {what} in {text.value[:80].strip()!r}", (where,))
    return Known(value, text.source)


@dataclass
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


@dataclass
class DeviceNode:
    """A character device of the driver and whether this user can open it."""

    path: str
    accessible: Fact[bool] = NOT_STATED
    mode: str = ""  # "crw-rw-rw- root:root"


@dataclass
class DkmsModule:
    """A driver module that DKMS builds: its version, the kernel it is for, its state."""

    version: str
    kernel_release: str
    state: str  # added, built, installed, broken, ...


@dataclass
class DriverFacts:
    """The NVIDIA driver, read from its kernel side, its user side and its tools."""

    release: Fact[str] = NOT_STATED  # driver release version that the kernel runs: 550.163.01
    cuda_driver_version: Fact[str] = NOT_STATED  # newest CUDA version the driver runs: "12.4"
    kernel_module_version: Fact[str] = NOT_STATED
    kernel_module_kind: Fact[str] = NOT_STATED  # open, proprietary
    module_file: Fact[str] = NOT_STATED  # nvidia.ko for the running kernel, whether loaded or not
    module_file_signed: Fact[bool] = NOT_STATED
    dkms: Fact[Tuple[DkmsModule, ...]] = NOT_STATED
    uvm_loaded: Fact[bool] = NOT_STATED  # nvidia_uvm in /proc/modules
    nouveau_loaded: Fact[bool] = NOT_STATED
    libcuda_path: Fact[str] = NOT_STATED  # real file of the libcuda.so.1 that the loader finds
    libcuda_version: Fact[str] = NOT_STATED  # from its file name
    libcuda_unversioned: Fact[str] = NOT_STATED  # where the loader finds plain libcuda.so
    # copies off the loader's path (WSL, stubs, compat)
    libcuda_elsewhere: Fact[Tuple[str, ...]] = NOT_STATED
    libnvidia_ml_path: Fact[str] = NOT_STATED
    libnvidia_ml_version: Fact[str] = NOT_STATED
    cuda_init_result: Fact[int] = NOT_STATED  # cuInit(0) in a child: 0, 100, 999, 803 ...
    nvml_result: Fact[int] = NOT_STATED  # nvmlInit: 0 OK, 9 driver not loaded, 18 version mismatch
    nvml_driver_version: Fact[str] = NOT_STATED
    smi_path: Fact[str] = NOT_STATED
    smi_exit_code: Fact[int] = NOT_STATED
    smi_driver_version: Fact[str] = NOT_STATED
    smi_cuda_driver_version: Fact[str] = NOT_STATED
    smi_message: Fact[str] = NOT_STATED  # error text of a failed run
    device_nodes: Fact[Tuple[DeviceNode, ...]] = NOT_STATED
    nvswitch_present: Fact[bool] = NOT_STATED
    fabric_manager_version: Fact[str] = NOT_STATED
    fabric_manager_running: Fact[bool] = NOT_STATED
    # of the kernel log since the start: "0000:3b:00: Xid 79", "0000:3b:00: fell off the bus"
    logged_faults: Fact[Tuple[str, ...]] = NOT_STATED
    packages: Fact[Mapping[str, str]] = NOT_STATED  # dpkg: libnvidia-compute-535 -> 535.261.03...


@dataclass
class MigDevice:
    """One MIG instance of a GPU."""

    uuid: str
    name: str = ""


@dataclass
class GpuProcess:
    """A process that NVML lists on a GPU; its name is the base name of the executable."""

    pid: int
    name: str = ""
    memory_bytes: Fact[int] = NOT_STATED


@dataclass
class Gpu:
    """One GPU: readings of NVML, /proc/driver/nvidia and PCI, matched by address and UUID."""

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
    # What the driver says of the GPU's state; read for a second at most, and without root.
    recovery_action: Fact[str] = NOT_STATED  # what the driver asks for: none, reset, reboot, ...
    remap_pending: Fact[bool] = NOT_STATED  # a faulty memory row is replaced by the next reset
    remap_failed: Fact[bool] = NOT_STATED  # no spare row was left for a faulty one
    retired_pages_pending: Fact[bool] = NOT_STATED  # before Ampere: retired by the next reset
    sram_threshold_exceeded: Fact[bool] = NOT_STATED  # more errors than NVIDIA allows a card
    ecc_uncorrected: Fact[int] = NOT_STATED  # uncorrectable errors since the driver was loaded
    slowdown: Fact[Tuple[str, ...]] = NOT_STATED  # why clocks are low: gpu_idle, sw_power_cap, ...
    # seconds since the driver was loaded, by the same reasons: a healthy GPU has some of each
    slowed_for: Fact[Mapping[str, float]] = NOT_STATED
    pcie_width: Fact[int] = NOT_STATED  # lanes now; fewer may be right for the slot
    pcie_width_limit: Fact[int] = NOT_STATED  # of the GPU in this slot
    pcie_generation: Fact[int] = NOT_STATED  # now; an idle GPU lowers it
    pcie_generation_limit: Fact[int] = NOT_STATED
    nvlinks_active: Fact[int] = NOT_STATED
    nvlinks_down: Fact[int] = NOT_STATED  # all of them: perhaps there is no bridge
    fabric_state: Fact[str] = NOT_STATED  # of NVSwitch: not started, in progress, completed, failed
    fabric_health: Fact[Tuple[str, ...]] = NOT_STATED  # what is wrong there: route_unhealthy, ...
    inforom_corrupted: Fact[bool] = NOT_STATED  # the card's own store of settings


@dataclass
class OtherGpu:
    """A GPU that NVIDIA did not make; it is named, not judged."""

    vendor: str  # amd, intel, apple
    name: Fact[str] = NOT_STATED
    pci_address: Fact[str] = NOT_STATED
    pci_id: Fact[str] = NOT_STATED  # device id, lower case hex: 744c
    kernel_driver: Fact[str] = NOT_STATED  # amdgpu, i915, xe
    integrated: Fact[bool] = NOT_STATED  # the graphics inside a processor, where the address tells


@dataclass
class ToolkitInstall:
    """One CUDA Toolkit (CTK) installation."""

    root: str  # its folder; the release where only that is known
    # path, usr-local, opt, debian, hpc-sdk, conda, wheels, environment; "" where only the release
    # is known
    origin: str
    version: Fact[str] = NOT_STATED  # "13.0": the best of the readings below
    nvcc_path: Fact[str] = NOT_STATED
    nvcc_release: Fact[str] = NOT_STATED  # "13.0"
    nvcc_build: Fact[str] = NOT_STATED  # "13.0.88"
    version_file: Fact[str] = NOT_STATED  # from version.json or version.txt
    header_version: Fact[str] = NOT_STATED  # cuda.h CUDA_VERSION
    cudart_path: Fact[str] = NOT_STATED
    ptxas_path: Fact[str] = NOT_STATED
    libdevice_path: Fact[str] = NOT_STATED

    @property
    def folder(self) -> str:
        """Return its folder; "" where only its release is known."""
        return self.root if self.origin else ""

    @property
    def label(self) -> str:
        """Name it by its folder."""
        return f"CUDA Toolkit in {self.root}" if self.folder else "CUDA Toolkit"

    @property
    def place(self) -> str:
        """Return its folder in brackets, behind a blank; "" where it is not known."""
        return f" ({self.root})" if self.folder else ""


@dataclass
class ToolkitFacts:
    """All CUDA Toolkits, and which of them PATH, CUDA_HOME and LD_LIBRARY_PATH choose."""

    installs: Fact[Tuple[ToolkitInstall, ...]] = NOT_STATED
    nvcc_on_path: Fact[str] = NOT_STATED  # real file of the nvcc on PATH
    root_on_path: Fact[str] = NOT_STATED  # root of that nvcc's toolkit
    usr_local_cuda: Fact[str] = NOT_STATED  # real folder of /usr/local/cuda
    cuda_home: Fact[str] = NOT_STATED  # CUDA_HOME, else CUDA_PATH, as set
    cuda_home_root: Fact[str] = NOT_STATED  # real folder of cuda_home; absent: it does not exist
    # real roots of the toolkits on LD_LIBRARY_PATH
    roots_on_library_path: Fact[Tuple[str, ...]] = NOT_STATED
    ptxas_on_path: Fact[str] = NOT_STATED
    nvcc_host_compiler: Fact[str] = NOT_STATED  # path of the compiler that nvcc uses
    nvcc_host_compiler_version: Fact[str] = NOT_STATED


@dataclass
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


@dataclass
class CompilerFacts:
    """Host compilers on PATH."""

    gcc_version: Fact[str] = NOT_STATED
    gcc_path: Fact[str] = NOT_STATED
    gxx_version: Fact[str] = NOT_STATED
    gxx_path: Fact[str] = NOT_STATED
    clang_version: Fact[str] = NOT_STATED
    clang_path: Fact[str] = NOT_STATED
    others: Fact[Mapping[str, str]] = NOT_STATED  # /usr/bin/gcc-11 -> "11.4.0"


@dataclass
class Distribution:
    """One installed distribution, from its metadata."""

    name: str  # normalised: lower case, runs of -_. as one dash
    version: str
    location: str = ""  # its site-packages folder
    scope: str = (
        ""  # environment, user, system, path, front; conda: a package without Python metadata
    )
    installer: str = ""  # pip, uv, conda; empty when not recorded
    requires: Tuple[str, ...] = ()  # raw Requires-Dist lines
    modules: Tuple[str, ...] = ()  # top-level modules it owns (empty: not recorded)
    build: str = ""  # conda build string or local version

    @property
    def label(self) -> str:
        """Name the distribution and its version: torch 2.7.1+cu126."""
        return f"{self.name} {self.version}"

    @property
    def pin(self) -> str:
        """Pin the distribution to its version: torch==2.7.1+cu126."""
        return f"{self.name}=={self.version}"

    @property
    def public(self) -> str:
        """Return the version without a local label: 2.7.1."""
        return public_version(self.version)


@dataclass
class UnreadPart:
    """Something that a file installs, or may install, and that could not be read."""

    reason: str
    place: str = ""  # Dockerfile:3


@dataclass
class LibraryLookup:
    """Where the loader finds one shared library that a framework build loads."""

    soname: str  # libcudart.so.12
    needed_by: str  # file that requests it
    mandatory: bool = True  # GPU use or the import fails without it; False: the framework continues
    found: Fact[str] = NOT_STATED  # real file; absent: the loader does not find it
    via: str = ""  # rpath, runpath, LD_LIBRARY_PATH, ld.so cache, default, preload, activation
    # copies in the environment or a toolkit that the loader does not search
    elsewhere: Tuple[str, ...] = ()
    version: Fact[str] = NOT_STATED  # from the file's name or package


@dataclass
class FrameworkBuild:
    """A TensorFlow, PyTorch or JAX build in the environment."""

    framework: str  # tensorflow, torch, jax
    distribution: str  # tensorflow-gpu, torch, jaxlib, jax-cuda12-plugin ...
    version: str
    location: str = ""
    cuda_build: Fact[bool] = NOT_STATED
    cuda_version: Fact[str] = NOT_STATED  # wheel CUDA variant as version: "12.5"
    cudnn_version: Fact[str] = NOT_STATED  # built with: "9" or "9.3" or "8.9.2.26"
    compute_capabilities: Fact[Tuple[str, ...]] = NOT_STATED  # "sm_80", "compute_90"
    libraries: Fact[Tuple[LibraryLookup, ...]] = NOT_STATED
    runpath: Fact[Tuple[str, ...]] = NOT_STATED
    # what else than CUDA it computes on: rocm, xpu, mps; absent: nothing
    accelerator: Fact[str] = NOT_STATED
    shadowed_by: Fact[str] = NOT_STATED  # file or folder that Python imports instead

    @property
    def label(self) -> str:
        """Name it in a sentence: torch 2.7.1."""
        return f"{self.distribution} {self.version}"


@dataclass
class Extension:
    """A compiled CUDA extension of a framework: flash-attn, mmcv, apex ..."""

    distribution: str
    path: str
    needed: Tuple[str, ...] = ()  # DT_NEEDED names of CUDA and framework libraries


IMPORT = "import"  # it ends where a file does not load
USE = "use"  # the import goes on without it, what needs the file ends


@dataclass
class LinkFault:
    """Why the loader cannot load a compiled file that an import needs."""

    distribution: str  # whose import fails: torch, torchvision ...
    # missing-library, missing-symbol, missing-symbol-version, damaged, other-cuda (symbols: its,
    # the other), missing-name (of a Python module)
    kind: str
    file: str  # file that asks; of a damaged one that the import itself opens, that file
    library: str  # soname that it asks for, or module
    # a few that `found` lacks, or the versions; libraries of which one is enough
    symbols: Tuple[str, ...] = ()
    found: str = ""  # the library that the loader finds
    via: str = ""  # how it finds it, as in LibraryLookup
    asked_by: str = ""  # distribution that owns `file`; "" unknown
    found_in: str = ""  # distribution that owns `found`
    # NVIDIA's wheel that holds the library, without CUDA suffix: nvidia-cublas; "" none
    wheel: str = ""
    elsewhere: Tuple[str, ...] = ()  # copies of a missing library that the loader does not search
    # the file is opened where a GPU is used, and the import itself does without
    needs_gpu: bool = False
    stops: str = ""  # IMPORT, USE; "" where nobody recorded which


PASSED, FAILED, UNPROVEN = "passed", "failed", "unproven"


@dataclass
class ImportTest:
    """What the real import of a distribution's modules showed."""

    distribution: str
    version: str
    module: str
    # PASSED, FAILED; UNPROVEN: something outside the environment ended it, or nothing tried
    outcome: str
    seconds: float = 0.0
    reason: str = ""  # why it is unproven, as a clause
    printed: str = ""  # the end of what a failing one printed: its traceback
    # of the files that its end names, those that are not as their RECORD lists them
    altered: Tuple[str, ...] = ()
    # where it failed: folders that code of Python's start puts before its own library
    front: Tuple[str, ...] = ()
    # what was tried: IMPORT; USE: beside damaged files the import passed, and a computation was
    # tried
    stage: str = IMPORT


@dataclass
class JupyterKernel:
    """A registered Jupyter kernel and the Python that it starts."""

    name: str
    python: str


# chosen_by where no environment is judged: none is anybody's, or several are meant alike
NO_ENVIRONMENT = "none"


@dataclass
class UnknownWord:
    """A word in a variable that the installed release of what reads the variable does not have."""

    variable: str  # XLA_FLAGS
    word: str  # xla_bogus
    package: str  # jaxlib
    release: str
    file: str  # which holds all that the release has


@dataclass
class OtherEnvironment:
    """An environment that may be meant, too, or what names one that cannot be judged."""

    path: str  # its folder; for .python-version what the file asks for
    named_by: str  # as PythonFacts.chosen_by
    # why it cannot be judged; "" where it can: gone, no-python, no-settings (no pyvenv.cfg),
    # empty (the file that should name it), not-made, not-installed, another-version
    problem: str = ""


@dataclass
class InterpreterFault:
    """What is wrong with the Python itself, or with where it looks for packages."""

    # lacks: a compiled module of its own; unloadable: a library that one needs; front: code of its
    # start puts a folder before all others; replaced: such code takes a module away; other-library:
    # its packages are those of another Python
    kind: str
    name: str  # the module, the folder
    path: str = ""  # the file that is at fault
    library: str = ""  # which an unloadable module needs


NUMPY_1 = "numpy-1"


@dataclass
class FileFault:
    """A distribution's file that differs from its RECORD, or a missing folder with files."""

    distribution: str
    release: str
    path: str  # from the folder of the distributions: torch/lib/libtorch_cpu.so
    # missing, empty, emptied (a module from which none near it takes names), truncated, shortened
    # (without what the loader does not read), lacking (names that modules near it import from it),
    # optional (compiled; what imports it goes on without it), not-elf, garbled, edited, misplaced,
    # other-python (built for another one), numpy-1 (built for it, beside NumPy 2)
    kind: str
    installer: str = ""
    location: str = ""


@dataclass
class InstallLeftover:
    """What an installation that did not come to its end left behind."""

    path: str
    # marker: of envcheck install; renamed: pip's ~name, or compared where `file_faults` has what
    # its RECORD lists; no-record, no-metadata, unowned: without RECORD, without METADATA, without
    # both
    kind: str
    distribution: str = ""
    release: str = ""
    command: str = ""  # of the marker: what settles it, where the installation's journal is there


@dataclass
class PythonFacts:
    """The inspected interpreter and the packages installed for it."""

    executable: Fact[str] = NOT_STATED
    # option, asking, kernel, VIRTUAL_ENV, CONDA_PREFIX, "uv run" (which extends it), own, base
    # (conda's), PATH, none; else the file or the tool whose convention leads to it: .venv, Poetry,
    # .pdm-python ... (probes/project_environments.py); "" where nobody chose
    chosen_by: str = ""
    # merely found in or for the working folder: read from its files, and nothing of it was run
    is_found: bool = False
    others: Tuple[OtherEnvironment, ...] = ()
    # folder of an environment that was meant before it, and whose Python is gone
    broken_environment: str = ""
    version: Fact[str] = NOT_STATED  # 3.11.7
    implementation: Fact[str] = NOT_STATED  # cpython, pypy
    bits: Fact[int] = NOT_STATED
    architecture: Fact[str] = NOT_STATED  # machine of the interpreter itself
    platform_tag: Fact[str] = NOT_STATED  # sysconfig platform: linux-x86_64
    abi_tag: Fact[str] = NOT_STATED  # cp311, cp313t
    prefix: Fact[str] = NOT_STATED
    kind: Fact[str] = NOT_STATED  # venv, conda, system
    externally_managed: Fact[bool] = NOT_STATED  # PEP 668
    user_site_enabled: Fact[bool] = NOT_STATED
    pip_version: Fact[str] = NOT_STATED
    distributions: Fact[Tuple[Distribution, ...]] = NOT_STATED
    # importable top-level modules that no metadata names
    unowned_modules: Fact[Tuple[str, ...]] = NOT_STATED
    unread: Fact[Tuple[UnreadPart, ...]] = NOT_STATED  # what else a file may install
    # module or path -> distributions
    duplicate_owners: Fact[Mapping[str, Tuple[str, ...]]] = NOT_STATED
    frameworks: Fact[Tuple[FrameworkBuild, ...]] = NOT_STATED
    extensions: Fact[Tuple[Extension, ...]] = NOT_STATED
    link_faults: Fact[Tuple[LinkFault, ...]] = NOT_STATED
    libstdcxx_path: Fact[str] = NOT_STATED  # the copy that this interpreter loads
    libstdcxx_glibcxx: Fact[str] = NOT_STATED
    kernels: Fact[Tuple[JupyterKernel, ...]] = NOT_STATED
    # of the frameworks and what importing them loads
    file_faults: Fact[Tuple[FileFault, ...]] = NOT_STATED
    install_leftovers: Fact[Tuple[InstallLeftover, ...]] = NOT_STATED
    unknown_words: Fact[Tuple[UnknownWord, ...]] = NOT_STATED  # of its environment variables
    interpreter_faults: Fact[Tuple[InterpreterFault, ...]] = NOT_STATED
    # Of the frameworks and of what requires them; unknown where nothing was imported, with the
    # reason.
    imports: Fact[Tuple[ImportTest, ...]] = NOT_STATED


SCHEMA_VERSION = 1


@dataclass
class Facts:
    """All facts of a machine, one section per probe."""

    host: HostFacts = field(default_factory=HostFacts)
    driver: DriverFacts = field(default_factory=DriverFacts)
    gpus: Fact[Tuple[Gpu, ...]] = NOT_STATED  # absent: no NVIDIA GPU by PCI, WSL and Jetson alike
    other_gpus: Fact[Tuple[OtherGpu, ...]] = NOT_STATED  # absent: none of another vendor
    toolkits: ToolkitFacts = field(default_factory=ToolkitFacts)
    cudnn: Fact[Tuple[LibraryInstall, ...]] = NOT_STATED
    tensorrt: Fact[Tuple[LibraryInstall, ...]] = NOT_STATED
    nccl: Fact[Tuple[LibraryInstall, ...]] = NOT_STATED
    compilers: CompilerFacts = field(default_factory=CompilerFacts)
    python: PythonFacts = field(default_factory=PythonFacts)


@dataclass
class Snapshot:
    """A recorded machine; `doctor --snapshot` judges it like a live one."""

    schema_version: int
    tool_version: str
    host: str
    taken_at: str  # ISO 8601, UTC; rules never read it
    facts: Facts


def mark_uncollected(snapshot: Snapshot) -> Snapshot:
    """Mark the facts that an older envcheck did not collect: they decide nothing.

    A snapshot that names no release was written by hand: what it leaves out is not known.
    """
    release = numbers(snapshot.tool_version)
    if len(release) != len(numbers(__version__)) or release >= numbers(__version__):
        return snapshot
    sections = {name: getattr(snapshot.facts, name) for name in list_fields(snapshot.facts)}
    return replace(
        snapshot, facts=Facts(**{name: _mark(section) for name, section in sections.items()})
    )


def _mark(value: Any) -> Any:
    """Mark the missing facts of every record that states others.

    One that states none was never read.
    """
    if isinstance(value, Known):
        if isinstance(value.value, tuple):
            return Known(tuple(map(_mark, value.value)), value.source)
        return value
    if isinstance(value, (Absent, Unknown)) or not list_fields(value):
        return value
    cells = {name: getattr(value, name) for name in list_fields(value)}
    states = any(
        isinstance(cell, (Known, Absent, Unknown)) and cell is not NOT_STATED
        for cell in cells.values()
    )
    missing = NOT_COLLECTED if states else NOT_STATED
    return replace(
        value,
        **{name: missing if cell is NOT_STATED else _mark(cell) for name, cell in cells.items()},
    )


@dataclass
class InstanceMemory:
    """The memory of a MIG instance."""

    uuid: str
    name: str
    memory_bytes: Fact[int] = NOT_STATED
    memory_used_bytes: Fact[int] = NOT_STATED
    memory_reserved_bytes: Fact[int] = NOT_STATED


@dataclass
class GpuActivity:
    """One GPU and how busy it is."""

    gpu: Gpu = field(default_factory=Gpu)
    minor: Fact[int] = NOT_STATED  # of /dev/nvidia<minor>; not always NVML's index
    # by the driver; unknown where it counts them as used
    memory_reserved_bytes: Fact[int] = NOT_STATED
    utilization_percent: Fact[int] = NOT_STATED  # share of the last second in which a kernel ran
    temperature_celsius: Fact[int] = NOT_STATED
    power_watts: Fact[float] = NOT_STATED
    power_limit_watts: Fact[float] = NOT_STATED
    fan_percent: Fact[int] = NOT_STATED  # absent on cards that the case cools
    performance_state: Fact[int] = NOT_STATED  # 0 the fastest, 15 the slowest, 32 not known
    instances: Fact[Tuple[InstanceMemory, ...]] = NOT_STATED


@dataclass
class ActivityReading:
    """All GPUs of a machine at one moment."""

    driver: Fact[str] = NOT_STATED
    gpus: Fact[Tuple[GpuActivity, ...]] = NOT_STATED  # absent: this machine has no NVIDIA GPU


@dataclass
class ProcessInfo:
    """A process as /proc shows it.

    Never write `command_line` to a report or log, it may hold secrets.
    """

    pid: int
    name: str
    owner: int  # user id
    state: str  # the kernel's letter: R, S, D, Z, T, I
    parent: int
    devices: Tuple[str, ...]  # the device files it has open: /dev/nvidia0 ...
    container: str = ""  # first digits of its id
    command_line: str = ""
    user: str = ""  # name of the owner
    seconds: Optional[int] = None  # since it started


@dataclass
class ProcessScan:
    """The requested processes, those that use a GPU, and what hides others."""

    processes: Tuple[ProcessInfo, ...] = ()
    unreadable: int = 0  # processes whose open files this user may not list
    # this is a PID namespace (a container): it does not show processes outside
    isolated: bool = False
    hides_others: bool = False  # /proc shows only this user's processes (hidepid)
    own_user: int = 0

"""Records of the matrix: releases, toolkits, drivers, architectures, problems, GPUs."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Tuple

from envcheck.model.answers import Citation
from envcheck.model.records import dataclass, field


@dataclass
class FrameworkRelease:
    """One final release of a framework distribution for one platform."""

    framework: str  # tensorflow, torch, jax
    distribution: str  # tensorflow, tensorflow-gpu, tensorflow-cpu, torch, jaxlib ...
    version: str
    platform: str  # linux_x86_64, linux_aarch64, win_amd64, macosx_arm64, macosx_x86_64
    pythons: Tuple[str, ...]  # "3.11": minors with a wheel
    # lowest glibc its binaries need; None: no Linux wheel, or not read (see note)
    glibc: Optional[str]
    cuda_build: bool
    cuda: Optional[str]  # CUDA Toolkit version it was built with; None: not a CUDA build
    # cuDNN version it was built with: "8.6"; None: not a CUDA build, or bundled
    cudnn: Optional[str]
    compute_capabilities: Tuple[str, ...]  # "sm_80" native code, "compute_90" PTX
    cpu_features: Tuple[str, ...]  # flags of /proc/cpuinfo that the wheel needs: ("avx",)
    gpu_extra: Optional[str]  # and-cuda, cuda12; None: it needs no extra for its CUDA libraries
    # CUDA requirements of the extra or the wheel: "nvidia-cudnn-cu12>=9.3,<10"
    cuda_wheels: Tuple[str, ...]
    # it loads libraries from the nvidia/* folders of site-packages (RUNPATH or preloading)
    finds_cuda_wheels: bool
    requires: Mapping[str, str]  # numpy, protobuf, keras, ml-dtypes -> specifier
    yanked: bool
    citations: Tuple[Citation, ...]
    note: str = ""
    tags: Tuple[str, ...] = ()  # platform tags of its wheels: manylinux_2_17_x86_64
    free_threaded: Tuple[str, ...] = ()  # "3.14": minors with a free-threaded wheel
    stub_for: Optional[str] = None  # an empty wheel that only requires this other distribution
    extras: Tuple[str, ...] = ()  # every extra that brings CUDA: ("cuda12", "cuda13")
    # brings what `requires` states: srt of sglang before 0.5.3; "" where the base does
    usual_extra: str = ""
    # properties read from the binaries of one wheel
    binaries: Mapping[str, Any] = field(default_factory=dict)
    proof: Mapping[str, str] = field(default_factory=dict)  # cell -> tier1, tier2, documented
    # "GCC 9.3.1", "clang 18.1.8", "MSVC 14.29"; None: not read, or no compiled code
    compiler: Optional[str] = None
    # TensorRT version it was built with; "none": without TensorRT; None: not read
    tensorrt: Optional[str] = None
    # CUDA -> GPU code, builds on its own index
    variants: Mapping[str, Tuple[str, ...]] = field(default_factory=dict)
    # TensorFlow releases this companion package supports: ">=2.15,<2.16"
    tensorflow: Optional[str] = None
    # label of a build on the framework's own index: "cu126", "cpu"; "" for the default index
    local: str = ""
    index: str = ""  # address of that index; "" for the default one

    @property
    def label(self) -> str:
        """Name the distribution and its release: torch 2.7.1."""
        return f"{self.distribution} {self.version}"

    @property
    def pin(self) -> str:
        """Pin the distribution to its release: torch==2.7.1."""
        return f"{self.distribution}=={self.version}"

    @property
    def build_version(self) -> str:
        """Return the version with the label of the build: 2.7.1+cu126."""
        return f"{self.version}+{self.local}" if self.local else self.version

    @property
    def free_threaded_pythons(self) -> Tuple[str, ...]:
        """List the minors with a free-threaded wheel.

        A wheel without compiled code installs on all.
        """
        return self.pythons if self.tags == ("any",) else self.free_threaded


@dataclass
class Toolkit:
    """One CUDA Toolkit release line (major.minor)."""

    version: str
    min_driver_linux: Optional[str]
    min_driver_windows: Optional[str]
    # lowest driver with minor-version compatibility; None below CUDA 11
    minor_floor_linux: Optional[str]
    minor_floor_windows: Optional[str]
    compute_capabilities: Tuple[str, ...]  # "8.6"
    gcc_min: Optional[str]
    gcc_max: Optional[str]
    clang_max: Optional[str]
    msvc: Optional[str]  # _MSC_VER range that its headers accept: "1910..1949"
    citations: Tuple[Citation, ...]
    note: str = ""
    sonames: Mapping[str, str] = field(default_factory=dict)  # cudart -> libcudart.so.12
    proof: Mapping[str, str] = field(default_factory=dict)
    # package whose libcuda runs it on an older data-center driver
    forward_compatibility: Optional[str] = None


@dataclass
class DriverBranch:
    """One driver release branch."""

    branch: str  # "550"
    cuda: str  # CUDA driver version it reports: "12.4"
    compute_capability_min: Optional[str]  # oldest supported
    compute_capability_max: Optional[str]  # newest supported
    citations: Tuple[Citation, ...]
    release: str = ""  # the newest that was read: "550.67"
    note: str = ""
    proof: Mapping[str, str] = field(default_factory=dict)


@dataclass
class CudnnRelease:
    """One cuDNN release line (major.minor), for one CUDA major where the builds differ."""

    version: str
    cuda: Tuple[str, ...]  # CUDA versions it supports: "11.8", "12"
    min_driver: Optional[str]
    compute_capability_min: Optional[str]
    compute_capability_max: Optional[str]
    citations: Tuple[Citation, ...]
    note: str = ""
    cuda_major: Optional[str] = None  # "12": the row describes this build; None: all builds
    soname: str = ""  # libcudnn.so.9
    proof: Mapping[str, str] = field(default_factory=dict)


@dataclass
class TensorrtRelease:
    """One TensorRT release line (major.minor), for one CUDA major."""

    version: str
    cuda_major: str
    cuda: Tuple[str, ...]  # CUDA versions it supports: "11.8", or only the major "12"
    cudnn: Optional[str]  # cuDNN it was built with, or the newest it supports; None: not read
    compute_capability_min: Optional[str]
    compute_capability_max: Optional[str]
    soname: str  # libnvinfer.so.8
    citations: Tuple[Citation, ...]
    note: str = ""
    proof: Mapping[str, str] = field(default_factory=dict)


@dataclass
class CondaBuild:
    """The equivalent builds of a package on one conda channel."""

    package: str  # tensorflow, cudatoolkit, cudnn, cuda-version
    channel: str  # conda-forge, defaults, nvidia
    versions: str  # specifier
    releases: Tuple[str, ...]  # of them those that its recipes built; empty: not read
    pythons: Tuple[str, ...]  # that these were built for
    build: Optional[str]  # pattern of the build strings: "cuda*"; None: not read
    platforms: Tuple[str, ...]  # empty: not read
    cuda: Tuple[str, ...]  # CUDA versions they install or are built for; empty: none, or not read
    what: str  # one sentence
    citations: Tuple[Citation, ...]
    note: str = ""
    proof: str = "documented"


@dataclass
class Architecture:
    """One GPU architecture with the first and last toolkit and driver that support it."""

    compute_capability: str  # "8.9"
    name: str  # Ada
    first_toolkit: Optional[str]
    last_toolkit: Optional[str]
    first_driver_branch: Optional[str]
    last_driver_branch: Optional[str]
    kernel_module: str  # open, proprietary, either
    citations: Tuple[Citation, ...]
    note: str = ""
    tegra: bool = False  # an embedded GPU: its driver is part of the board's system image
    proof: Mapping[str, str] = field(default_factory=dict)

    def is_driven_by(self, branch: int) -> bool:
        """Return whether a driver branch is neither before its first nor after its last one."""
        last = self.last_driver_branch
        return int(self.first_driver_branch or 0) <= branch and (not last or branch <= int(last))


@dataclass
class KnownProblem:
    """A release that fails under a condition although its requirements are met."""

    id: str  # stable slug of the row
    finding: str  # finding id that reports it
    distribution: str
    specifier: str  # affected releases: ">=2.16,<2.16.2"
    platforms: Tuple[str, ...]  # empty: all
    pythons: str  # specifier over the Python version; "" for all
    requires_extra: Optional[str]  # applies only when this extra's wheels are installed: "and-cuda"
    condition: str  # specifier over another distribution: "numpy>=2"; "" for all
    what: str  # what happens, one sentence
    fix: str  # constraints, space-separated: "keras<2.7 tensorflow-estimator<2.7"; never a command
    citations: Tuple[Citation, ...]
    # run: it fails after installation; install: it does not resolve; advice: worth knowing
    stage: str = "run"
    severity: str = "error"  # error, warning, note
    remedy: str = ""  # what else to do, or to do instead of the constraints, one sentence
    absent: str = ""  # applies only while this distribution is not installed
    # specifier over the GPU's compute capability: "<7.5"; "" for all
    compute_capabilities: str = ""
    proof: str = "documented"


@dataclass
class RemovedDistribution:
    """A distribution name that no longer installs its framework, and its replacement."""

    name: str
    framework: str
    last_versions: Mapping[str, str]  # platform -> last release with a wheel that holds code
    reason: str  # one sentence
    replacement: str  # requirement to use instead: "tensorflow[and-cuda]"
    citations: Tuple[Citation, ...]
    note: str = ""


@dataclass
class PciProduct:
    """The product behind a PCI device id."""

    name: str  # as drivers report it
    chip: str  # AD102
    cc: str  # compute capability
    data_center: Optional[bool] = None


@dataclass
class NamedProduct:
    """The product behind a name that has no PCI device id here, or stands for several chips."""

    cc: Tuple[str, ...]  # compute capabilities of its chips
    data_center: Optional[bool] = None


@dataclass
class GpuTable:
    """The content of data/nvidia/gpus.json."""

    checked: str
    sources: Tuple[str, ...]
    chips: Mapping[str, str]  # AD102 -> Ada
    names: Mapping[str, NamedProduct]  # in lower case, without the vendor
    pci: Mapping[str, PciProduct]  # by device id in lower case


@dataclass
class OtherVendor:
    """A vendor of GPUs whose work is not judged, and what to ask instead."""

    title: str  # as people write it: AMD
    pci: str  # PCI vendor id in lower case; "" for none
    platform: str  # what frameworks compute on: ROCm
    accelerators: Tuple[str, ...]  # names that a build states: rocm
    citation: str
    names: str = "(?!)"  # pattern in the names of its GPUs
    integrated_names: str = "(?!)"  # pattern of those of graphics inside a processor
    windows_driver: str = "(?!)"  # pattern of the folder of its display driver, as WSL shows it
    # framework -> where its builds are documented to be
    wheels: Mapping[str, str] = field(default_factory=dict)


@dataclass
class OtherGpuVendors:
    """The content of data/program/other_gpus.json."""

    vendors: Mapping[str, OtherVendor]


@dataclass
class GpuProduct:
    """A GPU product by PCI device id or name.

    Several compute capabilities when the name is ambiguous.
    """

    name: str
    chip: Optional[str]  # None when looked up by name
    architecture: Optional[str]  # Ada; None when looked up by name
    compute_capabilities: Tuple[str, ...]
    # forward compatibility is offered there; None: the name does not tell
    data_center: Optional[bool]


@dataclass
class WheelFloor:
    """The glibc that a CUDA wheel needs from one release on."""

    wheel: str
    first: str
    glibc: str


@dataclass
class WheelFloors:
    """The glibc that CUDA wheels need."""

    rows: Tuple[WheelFloor, ...]
    citation: Citation


@dataclass
class CudaWheels:
    """The content of data/nvidia/cuda_wheels.json."""

    libraries: Mapping[str, str]  # libcublasLt -> nvidia-cublas
    one_folder_for_all_majors: Tuple[str, ...]
    wheel_glibc: WheelFloors
    citation: Citation

    def wheel_of(self, soname: str) -> str:
        """Name the wheel of a library without its CUDA suffix.

        libcublasLt.so.12 -> nvidia-cublas; "" for none.
        """
        return self.libraries.get(soname.partition(".so")[0], "")

"""Rows of the compatibility matrix as the rules read them."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Tuple

from envcheck.model.findings import Citation
from envcheck.model.records import dataclass, field


@dataclass(frozen=True)
class FrameworkRelease:
    """One final release of a framework distribution for one platform."""

    framework: str  # tensorflow, torch, jax
    distribution: str  # tensorflow, tensorflow-gpu, tensorflow-cpu, torch, jaxlib ...
    version: str
    platform: str  # linux_x86_64, linux_aarch64, win_amd64, macosx_arm64, macosx_x86_64
    pythons: Tuple[str, ...]  # "3.11": minors with a wheel
    glibc: Optional[str]  # lowest glibc the build really needs; None: no wheel for Linux or not read (see note)
    cuda_build: bool
    cuda: Optional[str]  # CUDA Toolkit version built with; None when no CUDA build
    cudnn: Optional[str]  # cuDNN built with: "8.6"; None when no CUDA build or bundled
    compute_capabilities: Tuple[str, ...]  # "sm_80" native code, "compute_90" PTX
    cpu_features: Tuple[str, ...]  # flags of /proc/cpuinfo the wheel needs: ("avx",)
    gpu_extra: Optional[str]  # and-cuda, cuda12; None: CUDA libraries come from elsewhere or as plain dependencies
    cuda_wheels: Tuple[str, ...]  # requirements the extra or the wheel itself brings: "nvidia-cudnn-cu12>=9.3,<10"
    finds_cuda_wheels: bool  # its RUNPATH or preloading reaches the nvidia/* folders of site-packages
    requires: Mapping[str, str]  # numpy, protobuf, keras, ml-dtypes -> specifier
    yanked: bool
    citations: Tuple[Citation, ...]
    note: str = ""
    tags: Tuple[str, ...] = ()  # platform tags of its wheels: manylinux_2_17_x86_64
    free_threaded: Tuple[str, ...] = ()  # "3.14": minors with a free-threaded wheel
    stub_for: Optional[str] = None  # an empty wheel that only requires this other distribution
    extras: Tuple[str, ...] = ()  # every extra that brings CUDA: ("cuda12", "cuda13")
    binaries: Mapping[str, Any] = field(default_factory=dict)  # what the binaries of one of its wheels say
    proof: Mapping[str, str] = field(default_factory=dict)  # cell -> tier1, tier2, documented
    compiler: Optional[str] = None  # "GCC 9.3.1", "clang 18.1.8", "MSVC 14.29"; None: not read, or no code inside
    tensorrt: Optional[str] = None  # TensorRT built with: "8.6.1"; "none" for a CUDA build without it; None: not read
    variants: Mapping[str, Tuple[str, ...]] = field(default_factory=dict)  # CUDA -> code of the build on its own index
    tensorflow: Optional[str] = None  # TensorFlow that this companion goes with: ">=2.15,<2.16"; None: not read

    @property
    def free_threaded_pythons(self) -> Tuple[str, ...]:
        """List the minors whose free-threaded build takes a wheel of it: one without compiled code goes into each."""
        return self.pythons if self.tags == ("any",) else self.free_threaded


@dataclass(frozen=True)
class Toolkit:
    """One CUDA Toolkit release line (major.minor)."""

    version: str
    min_driver_linux: Optional[str]
    min_driver_windows: Optional[str]
    minor_floor_linux: Optional[str]  # lowest driver under minor-version compatibility; None below CUDA 11
    minor_floor_windows: Optional[str]
    compute_capabilities: Tuple[str, ...]  # "8.6"
    gcc_min: Optional[str]
    gcc_max: Optional[str]
    clang_max: Optional[str]
    msvc: Optional[str]  # _MSC_VER range its headers accept: "1910..1949"
    citations: Tuple[Citation, ...]
    note: str = ""
    sonames: Mapping[str, str] = field(default_factory=dict)  # cudart -> libcudart.so.12
    proof: Mapping[str, str] = field(default_factory=dict)
    forward_compatibility: Optional[str] = None  # package whose libcuda runs it on an older data-centre driver


@dataclass(frozen=True)
class DriverBranch:
    """One driver release branch."""

    branch: str  # "550"
    cuda: str  # CUDA driver version it reports: "12.4"
    compute_capability_min: Optional[str]  # oldest architecture it still drives
    compute_capability_max: Optional[str]  # newest it knows
    citations: Tuple[Citation, ...]
    note: str = ""
    proof: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CudnnRelease:
    """One cuDNN release line (major.minor), for one CUDA major where they differ."""

    version: str
    cuda: Tuple[str, ...]  # CUDA versions it is built for or supports: "11.8", "12"
    min_driver: Optional[str]
    compute_capability_min: Optional[str]
    compute_capability_max: Optional[str]
    citations: Tuple[Citation, ...]
    note: str = ""
    cuda_major: Optional[str] = None  # "12": the build this row is about; None: all builds together
    soname: str = ""  # libcudnn.so.9
    proof: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TensorrtRelease:
    """One TensorRT release line (major.minor), for one CUDA major."""

    version: str
    cuda_major: str
    cuda: Tuple[str, ...]  # CUDA versions it supports: "11.8"; "12" alone where no more is known
    cudnn: Optional[str]  # cuDNN it was built with or supports at most; None: not read
    compute_capability_min: Optional[str]
    compute_capability_max: Optional[str]
    soname: str  # libnvinfer.so.8
    citations: Tuple[Citation, ...]
    note: str = ""
    proof: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CondaBuild:
    """The builds of a package on one conda channel that are alike."""

    package: str  # tensorflow, cudatoolkit, cudnn, cuda-version
    channel: str  # conda-forge, defaults, nvidia
    versions: str  # specifier
    build: Optional[str]  # pattern of their build strings: "cuda*"; None: not read
    platforms: Tuple[str, ...]  # empty: not read
    cuda: Tuple[str, ...]  # CUDA versions they bring or are built for; empty: none, or not read
    what: str  # one sentence
    citations: Tuple[Citation, ...]
    note: str = ""
    proof: str = "documented"


@dataclass(frozen=True)
class Architecture:
    """One GPU architecture: which toolkits and drivers bracket it."""

    compute_capability: str  # "8.9"
    name: str  # Ada
    first_toolkit: Optional[str]
    last_toolkit: Optional[str]
    first_driver_branch: Optional[str]
    last_driver_branch: Optional[str]
    kernel_module: str  # open, proprietary, either
    citations: Tuple[Citation, ...]
    note: str = ""
    tegra: bool = False  # an embedded part: its driver comes with the board's system image
    proof: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class KnownProblem:
    """A release that misbehaves under a condition although its pins are met."""

    id: str  # stable slug of the row
    finding: str  # finding id it leads to
    distribution: str
    specifier: str  # releases it touches: ">=2.16,<2.16.2"
    platforms: Tuple[str, ...]  # empty: all
    pythons: str  # specifier over the Python version; "" for all
    requires_extra: Optional[str]  # only when this extra's wheels are installed: "and-cuda"
    condition: str  # specifier over another distribution: "numpy>=2"; "" when unconditional
    what: str  # what happens, one sentence
    fix: str  # constraints, space-separated: "keras<2.7 tensorflow-estimator<2.7"; never a command
    citations: Tuple[Citation, ...]
    stage: str = "run"  # run: installed and misbehaves; install: does not resolve; advice: worth knowing
    severity: str = "error"  # error, warning, note
    remedy: str = ""  # what to do beside or instead of the constraints, one sentence
    absent: str = ""  # holds only while this distribution is not installed
    compute_capabilities: str = ""  # specifier over the GPU's compute capability: "<7.5"; "" for all
    proof: str = "documented"


@dataclass(frozen=True)
class RemovedDistribution:
    """A distribution name that no longer brings its framework, and what replaces it."""

    name: str
    framework: str
    last_versions: Mapping[str, str]  # platform -> last release with a real wheel
    reason: str  # one sentence
    replacement: str  # requirement to use instead: "tensorflow[and-cuda]"
    citations: Tuple[Citation, ...]
    note: str = ""

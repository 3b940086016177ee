"""What differs between frameworks, by role: the cells of a row in data/frameworks/identity.json."""

from __future__ import annotations

from typing import Mapping, Sequence, Tuple

from envcheck.model import dataclass


@dataclass
class CudaUse:
    """How a framework behaves with CUDA and with what stands beside it, for the rules."""

    # every CUDA build has the libraries inside, or requires their wheels plainly
    brings_libraries: bool = False
    pins_cudnn: bool = False  # its wheels require one cuDNN exactly
    major: str = ""  # CUDA major of every CUDA build, where the distributions do not name it
    # CUDA major -> NVIDIA's wheels of the libraries that it opens
    wheels: Mapping[str, Sequence[str]] = {}
    needs_gpu: bool = False  # it has no way to compute on the CPU
    compiles_kernels: bool = False  # where they run, with its CUDA: it holds no GPU code
    ptx_means_code: bool = False  # "compute_80" of its build info stands for machine code, too
    needs_libdevice: bool = False  # XLA looks for NVIDIA's libdevice outside the wheel
    runs_ptxas: bool = False  # XLA starts ptxas
    hosts_extensions: bool = False  # packages compile CUDA code against it: flash-attn, mmcv
    has_tensorrt: bool = False  # its extra "tensorrt" lets it hand work to TensorRT
    build_info: str = ""  # Python that prints the CUDA and cuDNN it was built with


@dataclass
class CopiedFiles:
    """The files of an installed copy that load CUDA libraries, below the package's folder."""

    # folders that hold the package, of which the last one was used first
    packages: Tuple[str, ...] = ()
    linking: Tuple[str, ...] = ()  # need CUDA libraries by DT_NEEDED
    optional: Tuple[str, ...] = ()  # the same, but it works without them
    opening: Tuple[str, ...] = ()  # open CUDA libraries at run time
    opens: Tuple[str, ...] = ()  # which: cudart, cublas
    opens_optionally: Tuple[str, ...] = ()
    full_cuda_version: Mapping[str, str] = {}  # of releases whose files name the major alone


@dataclass
class PlanTraits:
    """What a plan installs and types."""

    # what a plan for a GPU takes, the first that has a release
    gpu_distributions: Tuple[str, ...] = ()
    cpu_distributions: Tuple[str, ...] = ()
    # what to uninstall before a CUDA build takes the place of one for the CPU
    cpu_builds: Tuple[str, ...] = ()
    # the distribution for GPUs, where its releases come apart from those for the CPU
    gpu_twin: str = ""
    # what brings it with its CUDA libraries; "" where the plain name does
    gpu_requirement: str = ""
    conda_gpu_spec: str = ""  # asks conda for a CUDA build: pytorch=*=cuda*
    # what conda builds stand for: every "version", or the newest of a "minor"
    conda_releases: str = "minor"
    # One line of Python: import it as t and bind d to the GPUs that it sees. Every TensorFlow has
    # the module that it takes: tf.config lists devices from 2.1 on. For ONNX Runtime it is one
    # MatMul, as check_onnxruntime.py encodes it: only a session tells whether its CUDA provider
    # loads.
    gpu_listing: str = ""
    # Python that computes a product of matrices with t, on the GPU where there is one
    computation: str = ""
    # a CUDA build that brings no CUDA wheels uses those of the system
    takes_system_cuda: bool = False


@dataclass
class PublishedWheels:
    """Its wheels on the index, for the renewal of the matrix."""

    # whose wheels are read; () for a framework that the matrix does not hold
    distributions: Tuple[str, ...] = ()
    first_release: str = ""  # the oldest release that the matrix holds
    texts: str = "(?!)"  # names of the Python texts that tell how a wheel was built
    cited_texts: str = ""  # names that a citation gives them, where those are not the whole ones
    binaries: str = "(?!)"  # names of the binaries that `matrix refresh --deep` reads
    # what `draft` may say in a note: a renewal writes these sentences anew
    remarks: Tuple[str, ...] = ()
    # distribution whose wheel is read with each other one of the release: jax
    speaks_for_release: str = ""
    has_32bit: bool = False  # of some of its releases
    # its wheels for older Pythons require older packages; the matrix holds one's
    has_floors_by_python: bool = False


@dataclass
class LogTraits:
    """How its logs are known."""

    words: str = "(?!)"  # pattern, whatever the case, of a line that is about it
    # beginnings of the names of signatures that only its messages match
    signatures: Tuple[str, ...] = ()
    packages: Tuple[str, ...] = ()  # names that a log lists it under
    # signatures that are most likely its, where nothing else names a framework
    guesses: Tuple[str, ...] = ()
    # frameworks whose words its own logs hold as well: both are built on XLA
    words_of_others: Tuple[str, ...] = ()
    names_opened: bool = False  # they name each CUDA library that it opened


@dataclass
class SmokeTraits:
    """What the smoke test does with it."""

    has_test: bool = True  # a script of smoke/children computes with it
    takes_memory_at_start: bool = False  # its share of a GPU's memory is set before it starts
    # its log says on which device each operation ran, as TensorFlow's does
    logs_placement: bool = False

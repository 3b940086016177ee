"""What a framework is for envcheck: its names, and how it is read, planned, tested and found in logs.

Every difference between frameworks is an attribute or a method here, so that no other code compares names. This module
and the frameworks' own are sent to other hosts: they run on Python 3.8 without `packaging`, and import neither the
matrix nor what stands above it. What a renewal or a smoke test needs is handed in.
"""

from __future__ import annotations

import fnmatch
import re
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Protocol, Sequence, Tuple

from envcheck.model import dataclass

if TYPE_CHECKING:
    from envcheck.frameworks.installed import Inspection
    from envcheck.frameworks.packages import Installation
    from envcheck.model import Distribution, FrameworkBuild


@dataclass(frozen=True)
class Need:
    """One requirement of a wheel."""

    name: str  # as written: nvidia-cudnn-cu12
    extra: str  # that it belongs to, "" for a plain one
    text: str  # without its marker: nvidia-cudnn-cu12>=9.3,<10.0
    lowest: str  # version that an == or >= asks for, "" for none
    here: bool  # its marker holds on the row's platform, for one of its Pythons


class RowDraft(Protocol):
    """A row of the matrix in the making: what was read of a wheel, and the cells to fill."""

    cells: Dict[str, Any]

    @property
    def distribution(self) -> str:
        """Return the name of the distribution."""

    @property
    def platform(self) -> str:
        """Return the platform: linux_x86_64."""

    @property
    def entries(self) -> int:
        """Return how many members the wheel has."""

    @property
    def needs(self) -> Sequence[Need]:
        """Return its requirements."""

    def constants(self, ending: str) -> Mapping[str, Any]:
        """Return what a Python text binds to literals, by the end of its name; empty where there is none."""

    def cite(self, member: str) -> None:
        """Say in the row's citation that a member was read."""

    def say(self, cell: str, text: str, *, gap: bool = False) -> None:
        """Add a sentence to the row's note; a gap says why a cell is empty, vague or inferred."""

    def unsay(self, cell: str) -> None:
        """Take back what was said of a cell."""

    def infer(self, cell: str, value: Any) -> None:
        """Fill a cell with what no artifact states: documented, not read."""

    def add_glibc(self) -> None:
        """State the glibc that a Linux wheel's tags imply."""

    def is_published(self, need: Need) -> bool:
        """Tell whether the index has a release of the same framework that meets a requirement."""

    def rest_on(self, other: "RowDraft") -> None:
        """Cite the wheel of another row, too."""


class Framework:
    """One framework. The attributes are the cells of its row in data/frameworks/identity.json, or of its own class."""

    # -- names --
    name: str  # of its module here, its section of the matrix and its import: torch
    title: str  # as people write it: PyTorch
    distributions: Mapping[str, str]  # each with the module that it owns, the usual one first
    main: str = ""  # the distribution whose version people mean, where the others are parts of it: jax
    library: str = ""  # the compiled half, where that is a distribution of its own: jaxlib
    plugins: Tuple[str, ...] = ()  # patterns of distributions that bring CUDA to it: jax-cuda*
    plugin_modules: Mapping[str, str] = {}  # those that the matrix knows, each with the module that it owns
    plugin_of_extra: str = ""  # which of them an extra brings: jax-{extra}-plugin
    namespaces: Tuple[str, ...] = ()  # modules that several distributions share without a clash: jax_plugins
    conda_packages: Tuple[str, ...] = ()  # whose build string names CUDA
    conda_gpu_spec: str = ""  # asks conda for a CUDA build: pytorch=*=cuda*
    gpu_distributions: Tuple[str, ...] = ()  # what a plan for a GPU takes, the first that has a release
    cpu_distributions: Tuple[str, ...] = ()
    cpu_builds: Tuple[str, ...] = ()  # what to uninstall before a CUDA build takes the place of one for the CPU
    gpu_twin: str = ""  # the distribution for GPUs, where its releases come apart from those for the CPU
    gpu_requirement: str = ""  # what brings it with its CUDA libraries; "" where the plain name does
    index: str = (
        ""  # data file on its own package index, whose versions have labels such as +cu126; "" where it has none
    )

    from_plugin: bool = False  # added by another package: a row alone, and no release of it in the matrix

    # -- how it behaves with CUDA and with what stands beside it, for the rules --
    brings_cuda: bool = False  # every CUDA build has the libraries inside, or requires their wheels plainly
    pins_cudnn: bool = False  # its wheels require one cuDNN exactly
    cuda: str = ""  # CUDA major of every CUDA build, where the distributions do not name it
    cuda_wheels: Mapping[str, Sequence[str]] = {}  # CUDA major -> NVIDIA's wheels of the libraries that it opens
    needs_gpu: bool = False  # it has no way to compute on the CPU
    preload_call: str = ""  # what a program calls for it to load the CUDA wheels that lie beside it
    ptx_means_code: bool = False  # "compute_80" of its build info stands for machine code, too
    needs_libdevice: bool = False  # XLA looks for NVIDIA's libdevice outside the wheel
    runs_ptxas: bool = False  # XLA starts ptxas
    hosts_extensions: bool = False  # packages compile CUDA code against it: flash-attn, mmcv
    has_tensorrt: bool = False  # its extra "tensorrt" lets it hand work to TensorRT
    build_info: str = ""  # Python that prints the CUDA and cuDNN it was built with
    paired_minors: Tuple[str, ...] = ()  # packages that are released for one minor of it each
    accelerators: Mapping[str, str] = {}  # patterns of distributions that compute on other GPUs -> rocm, metal
    apple_backend: str = ""  # its own way to the GPU of an Apple machine, by name: MPS
    apple_plugin: str = ""  # the distribution that gives it the GPU of an Apple machine

    # -- installed copies: the files that load CUDA libraries, below the package's folder --
    packages: Tuple[str, ...] = ()  # folders that hold the package, of which the last one was used first
    linking_files: Tuple[str, ...] = ()  # need CUDA libraries by DT_NEEDED
    optional_files: Tuple[str, ...] = ()  # the same, but it works without them
    opening_files: Tuple[str, ...] = ()  # open CUDA libraries at run time
    opens: Tuple[str, ...] = ()  # which: cudart, cublas
    opens_optionally: Tuple[str, ...] = ()
    full_cuda_version: Mapping[str, str] = {}  # of releases whose files name the major alone

    # -- plans --
    gpu_listing: str = ""  # one line of Python: import it as t and bind d to the GPUs that it sees
    computation: str = ""  # Python that computes a product of matrices with t, on the GPU where there is one
    takes_system_cuda: bool = False  # a CUDA build that brings no CUDA wheels uses those of the system
    conda_releases: str = "minor"  # what conda builds stand for: every "version", or the newest of a "minor"

    # -- wheels, for the renewal of the matrix --
    has_32bit_wheels: bool = False  # of some of its releases
    has_floors_by_python: bool = False  # its wheels for older Pythons require older packages; the matrix holds one's
    published: Tuple[str, ...] = ()  # distributions whose wheels are read from the index
    first_release: str = ""  # the oldest release that the matrix holds
    wheel_texts: str = "(?!)"  # names of the Python texts that tell how a wheel was built
    cited_texts: str = ""  # names that a citation gives them, where those are not the whole ones
    wheel_binaries: str = "(?!)"  # names of the binaries that `matrix refresh --deep` reads
    remarks: Tuple[str, ...] = ()  # what `draft` may say in a note: a renewal writes these sentences anew
    speaks_for_release: str = ""  # distribution whose wheel is read with each other one of the release: jax

    # -- logs --
    log_words: str = "(?!)"  # pattern, whatever the case, of a line that is about it
    log_signatures: Tuple[str, ...] = ()  # beginnings of the names of signatures that only its messages match
    log_packages: Tuple[str, ...] = ()  # names that a log lists it under
    log_guesses: Tuple[str, ...] = ()  # signatures that are most likely its, where nothing else names a framework
    log_words_of_others: Tuple[str, ...] = ()  # frameworks whose words its own logs hold as well: both are built on XLA

    # -- the smoke test --
    has_smoke_test: bool = True  # a script of smoke/children computes with it
    takes_memory_at_start: bool = False  # its share of a GPU's memory is set before it starts
    logs_placement: bool = False  # its log says on which device each operation ran, as TensorFlow's does

    def __init__(self, name: str, row: Mapping[str, Any]) -> None:
        """Take the cells of a framework's row."""
        self.name = name
        for cell, value in row.items():
            setattr(self, cell, tuple(value) if isinstance(value, list) else value)

    def owns(self, distribution: str) -> bool:
        """Tell whether a distribution is one of this framework's, or a plugin of it."""
        return distribution in self.distributions or self.is_plugin(distribution)

    def is_plugin(self, distribution: str) -> bool:
        """Tell whether a distribution brings CUDA to this framework."""
        return any(fnmatch.fnmatchcase(distribution, pattern) for pattern in self.plugins)

    def module_of(self, distribution: str) -> str:
        """Return the module that an import finds of a distribution; a plugin is loaded by the framework's own."""
        return self.distributions.get(distribution, self.name)

    def is_whole(self, distribution: str, modules: Sequence[str]) -> bool:
        """Tell whether a distribution is the whole framework: not an empty wheel, and not one of its parts."""
        module = self.distributions.get(distribution)
        is_whole = distribution == self.main if self.main else module is not None
        return is_whole and (module in modules or not modules)

    def cuda_of(self, distribution: str) -> str:
        """Return the CUDA version that a distribution names: 12 of cupy-cuda12x; "" where nothing says it."""
        match = re.search(r"-cu(?:da)?(\d+)x?(?:-|$)", distribution)
        digits = match.group(1) if match else self.cuda
        return digits if len(digits) < 3 else f"{digits[:-1]}.{digits[-1]}"  # cupy-cuda112

    def extra_of_plugin(self, distribution: str) -> str:
        """Return the extra that brings a plugin: cuda12 of jax-cuda12-pjrt; "" for any other distribution."""
        return ""

    def read_extras(self, extras: Tuple[str, ...]) -> Tuple[str, ...]:
        """Write extras that were asked for by the names of today; raises ValueError for one that cannot be planned."""
        return extras

    def distribution_in_image(self, version: str, *, for_gpu: bool) -> str:
        """Name the distribution that a container image of this framework holds."""
        return self.name

    def collect(self, inspection: Inspection) -> Tuple[FrameworkBuild, ...]:
        """Read the installed builds; of several copies the imported one comes first."""
        return tuple(self.read_build(inspection, each) for each in self.one_each(inspection.installed))

    def read_build(self, inspection: Inspection, distribution: Distribution) -> FrameworkBuild:
        """Read what one installed distribution was built for, and whether its libraries are found.

        A framework of a row alone is a CUDA build where one of its linking files lies in its package.
        """
        return inspection.read_linked(self, distribution)

    def one_each(self, installed: Installation) -> List[Distribution]:
        """Pick one distribution for each folder that holds the module, in the order of import."""
        found: Dict[str, Distribution] = {}
        for each in self._holding(installed):
            found.setdefault(each.location, each)
        order = [folder.path for folder in installed.folders]
        last = len(order)
        return sorted(found.values(), key=lambda each: order.index(each.location) if each.location in order else last)

    def _holding(self, installed: Installation) -> Iterator[Distribution]:
        for name in self.distributions:
            yield from (each for each in installed.named((name,)) if self.is_whole(name, each.modules))

    def draft(self, row: RowDraft) -> None:
        """Fill the row of a release on one platform by what its wheel states."""
        row.add_glibc()

    def complete(self, rows: Mapping[Tuple[str, str], RowDraft]) -> None:
        """Fill in what the rows of one release, by distribution and platform, say of each other."""

    def binary_cells(self, binaries: Mapping[str, Any]) -> Dict[str, Any]:
        """Return cells that the facts read of a wheel's binaries, by member, tell."""
        return {}

    def smoke_script(self, version: str) -> str:
        """Name the module of smoke/children that tests a release."""
        return f"check_{self.name}"

    def smoke_variables(self, environment: Mapping[str, str], *, on_cpu: bool) -> Dict[str, str]:
        """Return the environment variables that a smoke test of it sets."""
        return {}

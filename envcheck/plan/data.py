"""What the planner knows beside the matrix.

Older CUDA libraries, conda's builds, companions, images, exceptions.
"""

from __future__ import annotations

from collections.abc import Mapping

from packaging.version import Version

from envcheck.host.data_files import load_data
from envcheck.model import CONDA, UV, Citation, Environment, dataclass, numbers


@dataclass
class BundledPip:
    """The pip that a new environment begins with, and the last one for old Pythons."""

    rows: Mapping[str, str]  # Python minor -> pip
    last: Mapping[str, str]  # Python minor -> requirement: "pip<21"
    citation: Citation


@dataclass
class CudaWheelSet:
    """NVIDIA's wheels whose libraries bear the names that builds for other CUDA versions load."""

    cuda: str
    platforms: tuple[str, ...]
    requirements: tuple[str, ...]
    cudnn: str  # nvidia-cudnn-cu11
    cudnn_first: str  # its first release
    libraries: tuple[str, ...]  # cudart, cublas
    citation: Citation


@dataclass
class CondaLibrary:
    """A CUDA that conda channels hold; no cuDNN listed: not known which."""

    cuda: tuple[str, ...]
    channels: tuple[str, ...]
    platforms: tuple[str, ...]
    cudnn: tuple[str, ...]


@dataclass
class CondaLibraries:
    """The CUDA libraries that come from conda channels."""

    rows: tuple[CondaLibrary, ...]
    toolkit: str  # cudatoolkit={cuda}
    cudnn: str  # cudnn={cudnn}
    citation: Citation


@dataclass
class ChannelNames:
    """The channels that a name such as defaults stands for."""

    rows: Mapping[str, tuple[str, ...]]
    citation: Citation


@dataclass
class SharedRequirement:
    """What framework releases require beyond the matrix's columns, shared by several."""

    framework: str
    specifier: str
    requires: tuple[str, ...]


@dataclass
class SharedRequirements:
    """What frameworks require beyond the columns of the matrix."""

    rows: tuple[SharedRequirement, ...]
    citation: Citation


@dataclass
class SourceOnly:
    """Dependencies of releases that exist as source distributions only."""

    distributions: tuple[str, ...]
    specifier: str
    names: tuple[str, ...]
    pythons: str = ""  # specifier; "" for all
    answers: str = ""  # id of the known problem that this takes into account


@dataclass
class SourceOnlyTable:
    """The dependencies that exist as source distributions only."""

    rows: tuple[SourceOnly, ...]
    citation: Citation


@dataclass
class ImageTable:
    """The container images that a Dockerfile may build upon."""

    suites: Mapping[str, str]  # bookworm -> glibc
    pythons: Mapping[str, tuple[str, ...]]  # Python minor -> suites
    python: str  # name with {python} and {suite}
    conda: str
    uv: str
    checker: str  # a Python that this program runs on
    citation: Citation


@dataclass
class PlanData:
    """The content of data/program/plan.json."""

    bundled_pip: BundledPip
    cuda_wheels: tuple[CudaWheelSet, ...]
    conda_libraries: CondaLibraries
    channel_names: ChannelNames
    shared_requirements: SharedRequirements
    source_only: SourceOnlyTable
    images: ImageTable
    usual_glibc: str
    platform_glibc: tuple[str, ...]
    platform_tags: Mapping[str, str]  # platform -> its name for uv, with {glibc}


def plan_data() -> PlanData:
    """Return data/program/plan.json."""
    return load_data("program/plan", PlanData)


@dataclass
class CondaSpecs:
    """The match specs of a framework's builds: "tensorflow={version}=cuda*"."""

    gpu: tuple[str, ...]
    cpu: tuple[str, ...]


@dataclass
class CondaBuilds:
    """The content of data/frameworks/conda_builds.json."""

    specs: Mapping[str, CondaSpecs]  # by framework
    beside: tuple[str, ...]  # packages that bear the same name on the channel and on the index
    packages: Mapping[str, tuple[str, ...]]  # framework -> its packages
    channels: tuple[str, ...]


def conda_builds_data() -> CondaBuilds:
    """Return data/frameworks/conda_builds.json."""
    return load_data("frameworks/conda_builds", CondaBuilds)


_OWN_FLOOR = (3, 10)  # requires-python of this program


@dataclass
class Images:
    """The images a Dockerfile names."""

    base: str
    checker: str = ""  # with a Python that this program runs on; "" where that of the base will do
    uv: str = ""  # "" where nothing is installed with it


def images_for(environment: Environment) -> Images:
    """Name the images for an environment.

    Raise ValueError where no listed one has its Python and C library.
    """
    images = plan_data().images
    if environment.installer == CONDA:
        return Images(images.conda)
    suite = _choose_suite(environment)
    is_old = numbers(environment.python) < _OWN_FLOOR
    return Images(
        _name_image(environment.python, suite),
        checker=_name_image(images.checker, suite) if is_old else "",
        uv=images.uv if environment.installer == UV else "",
    )


def _choose_suite(environment: Environment) -> str:
    images = plan_data().images
    for suite in reversed(images.pythons.get(environment.python, ())):
        if Version(images.suites[suite]) >= Version(environment.glibc or "0"):
            return suite
    raise ValueError(
        f"no image is listed with Python {environment.python} and glibc"
        f" {environment.glibc or 'of any version'}."
    )


def _name_image(python: str, suite: str) -> str:
    return plan_data().images.python.format(python=python, suite=suite)

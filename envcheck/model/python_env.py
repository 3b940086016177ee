"""What the probes read about the inspected Python environment, without importing anything in it."""

from __future__ import annotations

from typing import Mapping, Tuple

from envcheck.model.facts import NOT_STATED, Fact
from envcheck.model.records import dataclass


@dataclass(frozen=True)
class Distribution:
    """One installed distribution as its metadata tells it."""

    name: str  # normalised: lower case, runs of -_. as one dash
    version: str
    location: str = ""  # the site-packages folder it lies in
    scope: str = ""  # environment, user, system, path; conda: a record of conda-meta that is no Python distribution
    installer: str = ""  # pip, uv, conda; empty when not recorded
    requires: Tuple[str, ...] = ()  # raw Requires-Dist lines
    modules: Tuple[str, ...] = ()  # top-level modules it owns (empty: not recorded)
    build: str = ""  # conda build string or local version


@dataclass(frozen=True)
class LibraryLookup:
    """Where the loader would find one shared library a framework build loads."""

    soname: str  # libcudart.so.12
    needed_by: str  # file that names it
    mandatory: bool = True  # GPU use (or the import) fails without; False: the framework goes on
    found: Fact[str] = NOT_STATED  # real file; absent: the loader would not find it
    via: str = ""  # rpath, runpath, LD_LIBRARY_PATH, ld.so cache, default, preload, activation
    elsewhere: Tuple[str, ...] = ()  # copies that lie in the environment or a toolkit, unreached
    version: Fact[str] = NOT_STATED  # of the file found, as far as its name or package tells


@dataclass(frozen=True)
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
    shadowed_by: Fact[str] = NOT_STATED  # file or folder imported in its place


@dataclass(frozen=True)
class Extension:
    """A compiled CUDA extension beside the frameworks: flash-attn, mmcv, apex ..."""

    distribution: str
    path: str
    needed: Tuple[str, ...] = ()  # DT_NEEDED names that tell what it was built for


@dataclass(frozen=True)
class JupyterKernel:
    """A registered Jupyter kernel and the Python it starts."""

    name: str
    python: str


@dataclass(frozen=True)
class PythonFacts:
    """The inspected interpreter and everything installed for it."""

    executable: Fact[str] = NOT_STATED
    chosen_by: str = ""  # option, VIRTUAL_ENV, CONDA_PREFIX, own, PATH
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
    duplicate_owners: Fact[Mapping[str, Tuple[str, ...]]] = NOT_STATED  # module or path -> distributions
    frameworks: Fact[Tuple[FrameworkBuild, ...]] = NOT_STATED
    extensions: Fact[Tuple[Extension, ...]] = NOT_STATED
    libstdcxx_path: Fact[str] = NOT_STATED  # the copy this interpreter would load
    libstdcxx_glibcxx: Fact[str] = NOT_STATED
    kernels: Fact[Tuple[JupyterKernel, ...]] = NOT_STATED

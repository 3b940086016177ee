"""What the probes of all frameworks share: reading a build's own files and conda's build strings."""

from __future__ import annotations

import re
from typing import Any, Dict, Optional, Sequence, Tuple

from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known, Source, Unknown
from envcheck.model.python_env import Distribution, FrameworkBuild, LibraryLookup
from envcheck.probes.framework_libraries import Caller, LibrarySearch
from envcheck.probes.python_installed import Installed


class Inspection:
    """A host, what is installed there, and one library search made when the first CUDA build needs it."""

    def __init__(self, host: Host, installed: Installed) -> None:
        self.host = host
        self.installed = installed
        self._search: Optional[LibrarySearch] = None

    @property
    def search(self) -> LibrarySearch:
        """Return the search; making it lists folders and reads the loader's cache."""
        if self._search is None:
            self._search = LibrarySearch(self.host, self.installed)
        return self._search

    def conda_build(self, names: Sequence[str]) -> Tuple[str, Source]:
        """Return the build string of the first conda package of `names`, empty without one."""
        for each in self.installed.named(names):
            if each.installer == "conda" and each.build:
                return each.build, Source("file", each.location, f"{each.name} {each.version} {each.build}")
        return "", Source("file", self.installed.prefix)


def parse_conda_build(build: str) -> Dict[str, str]:
    """Read a conda build string: "cuda" and "cudnn" when it names them, "cpu" when it says CPU.

    Samples: 'cuda112py39h4e9e4d0_0', 'py3.11_cuda12.1_cudnn8.9.2_0', 'cuda126_mkl_py312h', 'gpu_py37h57d29ca_0',
    'mkl_py38hd9fbd2f_0', 'cpu_generic_py311h', 'py3.9_cpu_0'
    """
    found: Dict[str, str] = {}
    cuda = re.search(r"cuda_?(\d+)(?:\.(\d+))?", build)
    cudnn = re.search(r"cudnn([\d.]+\d|\d)", build)
    if cuda:
        digits, minor = cuda.groups()
        split = minor is None and (len(digits) > 2 or digits[0] > "1")
        found["cuda"] = f"{digits[:-1]}.{digits[-1]}" if split else digits + (f".{minor}" if minor else "")
    elif re.search(r"(^|_)gpu(_|$)", build):
        found["cuda"] = ""
    elif re.search(r"(^|_)(cpu|mkl|eigen|openblas)(_|$)", build):
        found["cpu"] = build
    if cudnn:
        found["cudnn"] = cudnn.group(1)
    return found


def literals(text: str) -> Dict[str, Any]:
    """Return the module-level names of Python source that are bound to literals, without running it.

    Annotated names count; `build_info = collections.OrderedDict([...])` counts as its argument. Raises
    SyntaxError or ValueError when the source is not Python.
    """
    import ast

    found: Dict[str, Any] = {}
    for node in ast.parse(text).body:
        if not isinstance(node, (ast.Assign, ast.AnnAssign)):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        value = node.value
        while isinstance(value, ast.Call) and len(value.args) == 1:
            value = value.args[0]
        for target in targets:
            if isinstance(target, ast.Name) and value is not None:
                try:
                    found[target.id] = ast.literal_eval(value)
                except (ValueError, TypeError):
                    continue  # an expression: its value is only known to those who run it
    return found


def cpu_build(framework: str, distribution: Distribution, source: Source) -> FrameworkBuild:
    """Describe a build without CUDA: it has no CUDA version and loads no CUDA library."""
    nothing = Absent((source.where,))
    return FrameworkBuild(
        framework=framework,
        distribution=distribution.name,
        version=distribution.version,
        location=distribution.location,
        cuda_build=Known(False, source),
        cuda_version=nothing,
        cudnn_version=nothing,
        compute_capabilities=nothing,
        libraries=Known((), source),
        runpath=nothing,
    )


def unreadable_build(framework: str, distribution: Distribution, reason: Unknown) -> FrameworkBuild:
    """Describe a build of which nothing but its distribution could be read."""
    unknown: Dict[str, Any] = dict.fromkeys(
        ("cuda_build", "cuda_version", "cudnn_version", "compute_capabilities", "libraries", "runpath"), reason
    )
    return FrameworkBuild(framework, distribution.name, distribution.version, distribution.location, **unknown)


def lookups(
    search: LibrarySearch, callers: Sequence[Fact[Caller]], preload: str = ""
) -> Tuple[Fact[Tuple[LibraryLookup, ...]], Fact[Tuple[str, ...]]]:
    """Return the library lookups of a build and the RUNPATH of the first file that loads them."""
    readable = [caller.value for caller in callers if isinstance(caller, Known)]
    for caller in callers:
        if isinstance(caller, Unknown):
            return caller, caller
    if not readable:
        tried = tuple(path for caller in callers if isinstance(caller, Absent) for path in caller.tried)
        missing = Unknown("failed", "the files that load its libraries are not there", tried)
        return missing, missing
    source = Source("file", readable[0].path)
    return Known(search.look_up(readable, preload), source), Known(readable[0].elf.runpath, source)

"""Read a PyTorch build: CUDA or not, for what, and whether its libraries are found."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Dict

from envcheck.model.facts import Absent, Fact, Known, Source, Unknown
from envcheck.model.python_env import Distribution, FrameworkBuild
from envcheck.probes.cuda_data import cuda_data
from envcheck.probes.framework_builds import (
    Inspection,
    cpu_build,
    literals,
    lookups,
    parse_conda_build,
    unreadable_build,
)
from envcheck.probes.framework_tensorflow import linked_version

_SILENT = Unknown("failed", "the wheel's metadata does not name them")


def collect_torch(inspection: Inspection, distribution: Distribution) -> FrameworkBuild:
    """Read the build that `distribution` installed."""
    path = f"{distribution.location}/torch/version.py"
    text = inspection.host.read_text(path)
    if isinstance(text, Absent):
        reason = Unknown("failed", f"{distribution.name} is installed but {path} is missing", (path,))
        return unreadable_build("torch", distribution, reason)
    if isinstance(text, Unknown):
        return unreadable_build("torch", distribution, text)
    names = parse_version_file(text.value)
    if "cuda" not in names:
        return unreadable_build("torch", distribution, Unknown("unparsable", f"{path} does not name a CUDA", (path,)))
    source = Source("file", path, f"cuda = {names['cuda']!r}")
    distribution = replace(distribution, version=str(names.get("__version__") or distribution.version))
    if names["cuda"] is None:
        return cpu_build("torch", distribution, source)
    return _cuda_build(inspection, distribution, str(names["cuda"]), source)


def parse_version_file(text: str) -> Dict[str, Any]:
    r"""Read torch/version.py; "cuda" is missing when it does not say.

    Samples: "__version__ = '1.13.1+cu117'\ndebug = False\ncuda = '11.7'\n",
    "__version__ = '2.13.0+cpu'\ncuda: Optional[str] = None\n"
    """
    try:
        return literals(text)
    except (SyntaxError, ValueError):
        return {}


def _cuda_build(inspection: Inspection, distribution: Distribution, cuda: str, source: Source) -> FrameworkBuild:
    data, folder = cuda_data()["torch"], f"{distribution.location}/torch"
    search = inspection.search
    callers = [search.caller(f"{folder}/{name}") for name in data["linking_files"]]
    callers += [search.caller(f"{folder}/{name}", mandatory=False) for name in data["optional_files"]]
    libraries, runpath = lookups(search, callers, preload="fallback")
    linked = linked_version("libcudnn.so.", libraries)
    return replace(
        cpu_build("torch", distribution, source),
        cuda_build=Known(True, source),
        cuda_version=Known(".".join(cuda.split(".")[:2]), source),
        cudnn_version=_cudnn_version(inspection, distribution, linked),
        compute_capabilities=_SILENT,
        libraries=libraries,
        runpath=runpath,
    )


def _cudnn_version(inspection: Inspection, distribution: Distribution, linked: Fact[str]) -> Fact[str]:
    """Take the wheel's own pin, else conda's build string, else the soname it links."""
    for line in distribution.requires:
        match = re.match(r"nvidia-cudnn-cu\d+\s*\(?==\s*([\d.]+)", line)
        if match:
            return Known(match.group(1), Source("file", distribution.location, line))
    build, source = inspection.conda_build(cuda_data()["torch"]["conda_packages"])
    told = parse_conda_build(build).get("cudnn")
    return Known(told, source) if told else linked

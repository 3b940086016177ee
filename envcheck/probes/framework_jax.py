"""Read a JAX build: its CUDA plugin, or a jaxlib that has CUDA itself, and whether its libraries are found."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Optional, Sequence, Tuple

from envcheck.model.facts import Fact, Known, Source, Unknown, value_of
from envcheck.model.python_env import Distribution, FrameworkBuild
from envcheck.probes.cuda_data import cuda_data
from envcheck.probes.framework_builds import (
    Inspection,
    cpu_build,
    lookups,
    parse_conda_build,
    unreadable_build,
)
from envcheck.probes.framework_libraries import opened_names

_SILENT = Unknown("failed", "the wheel's metadata does not name them")
_PLUGIN = r"jax-cuda(\d+)-(?:plugin|pjrt)$"


def collect_jax(inspection: Inspection) -> Tuple[FrameworkBuild, ...]:
    """Read each CUDA plugin; without one, jaxlib; without that, jax alone."""
    everything = inspection.installed.distributions
    plugins = {match.group(1): each for each in everything for match in [re.match(_PLUGIN, each.name)] if match}
    plugins.update({major: each for major, each in plugins.items() if each.name.endswith("-plugin")})
    library = next((each for each in everything if each.name == "jaxlib"), None)
    if plugins:
        return tuple(_plugin_build(inspection, each, major) for major, each in sorted(plugins.items()))
    if library is not None:
        return (_library_build(inspection, library),)
    reason = Unknown("failed", "jax is installed without jaxlib")
    return tuple(unreadable_build("jax", each, reason) for each in everything if each.name == "jax")[:1]


def _plugin_build(inspection: Inspection, plugin: Distribution, major: str) -> FrameworkBuild:
    source = Source("file", plugin.location, f"{plugin.name} {plugin.version}")
    cudnn = least_cudnn(plugin.requires)
    runtimes = inspection.installed.named((f"jax-cuda{major}-pjrt",))
    folder = f"{(*runtimes, plugin)[0].location}/jax_plugins/xla_cuda{major}"
    script = value_of(inspection.host.read_text(f"{folder}/__init__.py")) or ""
    preload = "first" if "_load_nvidia_libraries" in script else ""
    path = f"{folder}/xla_cuda_plugin.so"
    return _cuda_build(inspection, plugin, (major, cudnn, preload, path), source)


def _library_build(inspection: Inspection, library: Distribution) -> FrameworkBuild:
    cuda, cudnn = parse_local_version(library.version)
    build, source = inspection.conda_build(cuda_data()["jax"]["conda_packages"])
    if cuda is None and build:
        cuda = parse_conda_build(build).get("cuda")
    else:
        source = Source("file", library.location, f"{library.name} {library.version}")
    if cuda is None:
        return cpu_build("jax", library, source)
    path = f"{library.location}/jaxlib/xla_extension.so"
    return _cuda_build(inspection, library, (cuda, cudnn, "", path), source)


def parse_local_version(version: str) -> Tuple[Optional[str], str]:
    """Read CUDA and cuDNN from the local version of a jaxlib before the plugins; (None, "") without them.

    Samples: '0.4.13+cuda12.cudnn89' -> ("12", "8.9"), '0.3.25+cuda11.cudnn805' -> ("11", "8.0.5")
    """
    match = re.search(r"\+cuda(\d+)(?:\.cudnn(\d+))?", version)
    if match is None:
        return None, ""
    digits = match.group(1)
    cuda = f"{digits[:2]}.{digits[2:]}" if len(digits) > 2 else digits
    return cuda, ".".join(match.group(2) or "")


def least_cudnn(requires: Sequence[str]) -> str:
    """Return the lower bound on cuDNN of a plugin's extra, empty without one.

    Sample: 'nvidia-cudnn-cu13<10.0,>=9.12.0.46; sys_platform == "linux" and extra == "with-cuda"' -> 9.12.0.46
    """
    for line in requires:
        match = re.match(r"nvidia-cudnn-cu\d+[^;]*>=\s*([\d.]+)", line)
        if match:
            return match.group(1)
    return ""


def _cuda_build(
    inspection: Inspection, distribution: Distribution, facts: Tuple[str, str, str, str], source: Source
) -> FrameworkBuild:
    cuda, cudnn, preload, path = facts
    opens = opened_names(cuda_data()["jax"], cuda, cudnn)
    libraries, runpath = lookups(inspection.search, [inspection.search.caller(path, opens)], preload)
    silent: Fact[str] = Unknown("failed", "the distribution does not name it", (distribution.location,))
    return replace(
        cpu_build("jax", distribution, source),
        cuda_build=Known(True, source),
        cuda_version=Known(cuda, source) if cuda else silent,
        cudnn_version=Known(cudnn, source) if cudnn else silent,
        compute_capabilities=_SILENT,
        libraries=libraries,
        runpath=runpath,
    )

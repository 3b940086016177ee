"""JAX with its compiled half, jaxlib, and the plugins that bring CUDA."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Dict, Mapping, Optional, Sequence, Tuple

from envcheck.frameworks.base import Framework
from envcheck.frameworks.installed import (
    SILENT,
    Inspection,
    cpu_build,
    lookups,
    opened_names,
    parse_conda_build,
    unreadable_build,
)
from envcheck.model import Distribution, Fact, FrameworkBuild, Known, Source, Unknown, value_of

_PLUGIN = r"jax-cuda(\d+)-(?:plugin|pjrt)$"


class Jax(Framework):
    """JAX: the compiled half and the CUDA plugins are distributions of their own."""

    takes_memory_at_start = True

    def collect(self, inspection: Inspection) -> Tuple[FrameworkBuild, ...]:
        """Read each CUDA plugin; without one, jaxlib; without that, jax alone."""
        everything = inspection.installed.distributions
        plugins = {match.group(1): each for each in everything for match in [re.match(_PLUGIN, each.name)] if match}
        plugins.update({major: each for major, each in plugins.items() if each.name.endswith("-plugin")})
        library = next((each for each in everything if each.name == self.library), None)
        if plugins:
            return tuple(self._plugin_build(inspection, each, major) for major, each in sorted(plugins.items()))
        if library is not None:
            return (self._library_build(inspection, library),)
        reason = Unknown("failed", "jax is installed without jaxlib")
        return tuple(unreadable_build(self.name, each, reason) for each in everything if each.name == self.main)[:1]

    def _plugin_build(self, inspection: Inspection, plugin: Distribution, major: str) -> FrameworkBuild:
        source = Source("file", plugin.location, f"{plugin.name} {plugin.version}")
        cudnn = least_cudnn(plugin.requires)
        runtimes = inspection.installed.named((f"jax-cuda{major}-pjrt",))
        folder = f"{(*runtimes, plugin)[0].location}/jax_plugins/xla_cuda{major}"
        script = value_of(inspection.host.read_text(f"{folder}/__init__.py")) or ""
        preload = "first" if "_load_nvidia_libraries" in script else ""
        path = f"{folder}/xla_cuda_plugin.so"
        return self._cuda_build(inspection, plugin, (major, cudnn, preload, path), source)

    def _library_build(self, inspection: Inspection, library: Distribution) -> FrameworkBuild:
        cuda, cudnn = parse_local_version(library.version)
        build, source = inspection.conda_build(self.conda_packages)
        if cuda is None and build:
            cuda = parse_conda_build(build).get("cuda")
        else:
            source = Source("file", library.location, f"{library.name} {library.version}")
        if cuda is None:
            return cpu_build(self.name, library, source)
        path = f"{library.location}/jaxlib/xla_extension.so"
        return self._cuda_build(inspection, library, (cuda, cudnn, "", path), source)

    def _cuda_build(
        self, inspection: Inspection, distribution: Distribution, facts: Tuple[str, str, str, str], source: Source
    ) -> FrameworkBuild:
        cuda, cudnn, preload, path = facts
        opens = opened_names(self, cuda, cudnn)
        libraries, runpath = lookups(inspection.search, [inspection.search.caller(path, opens)], preload)
        silent: Fact[str] = Unknown("failed", "the distribution does not name it", (distribution.location,))
        return replace(
            cpu_build(self.name, distribution, source),
            cuda_build=Known(True, source),
            cuda_version=Known(cuda, source) if cuda else silent,
            cudnn_version=Known(cudnn, source) if cudnn else silent,
            compute_capabilities=SILENT,
            libraries=libraries,
            runpath=runpath,
        )

    def smoke_variables(self, environment: Mapping[str, str], *, on_cpu: bool) -> Dict[str, str]:
        """Let XLA log all, and open the platforms that the test compares: sums come home to the CPU."""
        platforms = environment.get("JAX_PLATFORMS", "")
        if on_cpu:
            platforms = "cpu"
        elif platforms and "cpu" not in platforms:
            platforms += ",cpu"
        return {"TF_CPP_MIN_LOG_LEVEL": "0", **({"JAX_PLATFORMS": platforms} if platforms else {})}


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


FRAMEWORK = Jax

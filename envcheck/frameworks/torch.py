"""PyTorch."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Dict

from envcheck.frameworks.base import Framework
from envcheck.frameworks.installed import (
    SILENT,
    Inspection,
    cpu_build,
    linked_version,
    literals,
    lookups,
    parse_conda_build,
    unreadable_build,
)
from envcheck.model import Absent, Distribution, Fact, FrameworkBuild, Known, Source, Unknown


class Torch(Framework):
    """PyTorch: one distribution; a package index of its own holds its builds for each CUDA."""

    def read_build(self, inspection: Inspection, distribution: Distribution) -> FrameworkBuild:
        """Read torch/version.py, and what the libraries beside it load."""
        path = f"{distribution.location}/torch/version.py"
        text = inspection.host.read_text(path)
        if isinstance(text, Absent):
            reason = Unknown("failed", f"{distribution.name} is installed but {path} is missing", (path,))
            return unreadable_build(self.name, distribution, reason)
        if isinstance(text, Unknown):
            return unreadable_build(self.name, distribution, text)
        names = parse_version_file(text.value)
        if "cuda" not in names:
            return unreadable_build(
                self.name, distribution, Unknown("unparsable", f"{path} does not name a CUDA", (path,))
            )
        source = Source("file", path, f"cuda = {names['cuda']!r}")
        distribution = replace(distribution, version=str(names.get("__version__") or distribution.version))
        if names["cuda"] is None:
            return cpu_build(self.name, distribution, source)
        return self._cuda_build(inspection, distribution, str(names["cuda"]), source)

    def _cuda_build(
        self, inspection: Inspection, distribution: Distribution, cuda: str, source: Source
    ) -> FrameworkBuild:
        folder = f"{distribution.location}/torch"
        search = inspection.search
        callers = [search.caller(f"{folder}/{name}") for name in self.linking_files]
        callers += [search.caller(f"{folder}/{name}", mandatory=False) for name in self.optional_files]
        libraries, runpath = lookups(search, callers, preload="fallback")
        linked = linked_version("libcudnn.so.", libraries)
        return replace(
            cpu_build(self.name, distribution, source),
            cuda_build=Known(True, source),
            cuda_version=Known(".".join(cuda.split(".")[:2]), source),
            cudnn_version=self._cudnn_version(inspection, distribution, linked),
            compute_capabilities=SILENT,
            libraries=libraries,
            runpath=runpath,
        )

    def _cudnn_version(self, inspection: Inspection, distribution: Distribution, linked: Fact[str]) -> Fact[str]:
        """Take the wheel's own pin, else conda's build string, else the soname it links."""
        for line in distribution.requires:
            match = re.match(r"nvidia-cudnn-cu\d+\s*\(?==\s*([\d.]+)", line)
            if match:
                return Known(match.group(1), Source("file", distribution.location, line))
        build, source = inspection.conda_build(self.conda_packages)
        stated = parse_conda_build(build).get("cudnn")
        return Known(stated, source) if stated else linked


def parse_version_file(text: str) -> Dict[str, Any]:
    r"""Read torch/version.py; "cuda" is missing when it does not say.

    Samples: "__version__ = '1.13.1+cu117'\ndebug = False\ncuda = '11.7'\n",
    "__version__ = '2.13.0+cpu'\ncuda: Optional[str] = None\n"
    """
    try:
        return literals(text)
    except (SyntaxError, ValueError):
        return {}


FRAMEWORK = Torch

"""PyTorch."""

from __future__ import annotations

import re
from typing import Any, Dict, List

from envcheck.frameworks.base import Framework, RowDraft
from envcheck.frameworks.installed import (
    Inspection,
    cpu_build,
    cuda_build,
    cudnn_required,
    damaged_build,
    linked_version,
    literals,
    lookups,
    make_build,
    parse_conda_build,
)
from envcheck.model import (
    Absent,
    Distribution,
    Fact,
    FrameworkBuild,
    Known,
    Source,
    Unknown,
    from_file,
    replace,
)
from envcheck.model.versions import major_minor


class Torch(Framework):
    """PyTorch: one distribution; a package index of its own holds its builds for each CUDA."""

    def read_build(self, inspection: Inspection, distribution: Distribution) -> FrameworkBuild:
        """Read torch/version.py, and what the libraries beside it load."""
        path = f"{distribution.location}/torch/version.py"
        text = inspection.host.read_text(path)
        if isinstance(text, Absent):
            return damaged_build(self.name, distribution, f"{path} is missing", (path,))
        if isinstance(text, Unknown):
            return make_build(self.name, distribution, text)
        names = parse_version_file(text.value)
        if "cuda" not in names:
            return make_build(
                self.name,
                distribution,
                Unknown("unparsable", f"{path} does not name a CUDA", (path,)),
            )
        source = Source("file", path, f"cuda = {names['cuda']!r}")
        distribution = replace(
            distribution, version=str(names.get("__version__") or distribution.version)
        )
        if names["cuda"] is None:
            build = cpu_build(self.name, distribution, source)
            return replace(
                build, accelerator=self._accelerator(inspection, distribution, names, path)
            )
        return self._cuda_build(inspection, distribution, str(names["cuda"]), source)

    def _accelerator(
        self, inspection: Inspection, distribution: Distribution, names: Dict[str, Any], path: str
    ) -> Fact[str]:
        """Name what a build without CUDA computes on beside the CPU.

        version.py states it, macOS wheels have MPS.
        """
        if names.get("hip"):
            return from_file("rocm", path, f"hip = {names['hip']!r}")
        if names.get("xpu"):
            return from_file("xpu", path, f"xpu = {names['xpu']!r}")
        backend = f"{distribution.location}/torch/backends/mps/__init__.py"
        if inspection.host.system == "darwin" and isinstance(
            inspection.host.status(backend), Known
        ):
            return from_file("mps", backend)
        return Absent((path,))

    def _cuda_build(
        self, inspection: Inspection, distribution: Distribution, cuda: str, source: Source
    ) -> FrameworkBuild:
        folder = f"{distribution.location}/torch"
        search = inspection.search
        callers = [search.caller(f"{folder}/{name}") for name in self.files.linking]
        callers += [
            search.caller(f"{folder}/{name}", mandatory=False) for name in self.files.optional
        ]
        libraries, runpath = lookups(search, callers, preload="fallback")
        linked = linked_version("libcudnn.so.", libraries)
        return cuda_build(
            self.name,
            distribution,
            source,
            cuda_version=Known(major_minor(cuda), source),
            cudnn_version=self._cudnn_version(inspection, distribution, linked),
            libraries=libraries,
            runpath=runpath,
        )

    def _cudnn_version(
        self, inspection: Inspection, distribution: Distribution, linked: Fact[str]
    ) -> Fact[str]:
        """Take the wheel's own pin, else conda's build string, else the soname it links."""
        pinned, line = cudnn_required(distribution.requires, "==")
        if pinned:
            return from_file(pinned, distribution.location, line)
        build, source = inspection.conda_build(self.conda_packages)
        stated = parse_conda_build(build).get("cudnn")
        return Known(stated, source) if stated else linked

    def draft(self, row: RowDraft) -> None:
        """State version.py's CUDA, the required CUDA wheels, and the code that torch/cuda names."""
        version = row.constants("torch/version.py")
        if version:
            row.cite("torch/version.py")
        cuda = version.get("cuda")
        table = row.constants("torch/cuda/__init__.py").get("PYTORCH_RELEASES_CODE_CC")
        if cuda:
            row.cells.update(cuda_build=True, cuda=major_minor(str(cuda)))
            _add_wheels(row)
            _add_architectures(row, table)
        _add_variants(row, table)
        row.add_glibc()


def _add_wheels(row: RowDraft) -> None:
    """List the CUDA wheels it requires plainly; without any, the libraries are inside."""
    pins = [
        need
        for need in row.needs
        if re.match(r"nvidia-|cuda-", need.name) and not need.extra and need.here
    ]
    row.cells["cuda_wheels"] = [need.text for need in pins]
    row.infer("finds_cuda_wheels", bool(pins))
    pinned = [need.lowest for need in pins if "cudnn" in need.name]
    if pinned and pinned[0]:
        row.cells["cudnn"] = pinned[0]
    else:
        row.say("cudnn", "cuDNN is bundled in the wheel.")


def _add_architectures(row: RowDraft, table: Any) -> None:
    """Take the machine code from the table that newer releases carry for an error message."""
    numbers = _look_up_code(table, row.cells["cuda"], row.platform)
    row.cells["compute_capabilities"] = [f"sm_{number}" for number in sorted(numbers)]
    if numbers:
        row.cite("torch/cuda/__init__.py")
    else:
        row.say("compute_capabilities", "Compute capabilities were not read.", gap=True)


def _add_variants(row: RowDraft, table: Any) -> None:
    """List this release's CUDA builds on PyTorch's own index, by the same table for Linux."""
    if isinstance(table, dict) and row.platform.startswith("linux"):
        read = {cuda: sorted(_look_up_code(table, cuda, row.platform)) for cuda in sorted(table)}
        found = {
            cuda: [f"sm_{number}" for number in numbers]
            for cuda, numbers in read.items()
            if numbers
        }
        if found:
            row.cells["variants"] = found


def _look_up_code(table: Any, cuda: str, platform: str) -> List[int]:
    """Look up the capabilities of one CUDA in the table.

    It is {"13.0": {"x86_64": {75, 80}}}, or in older releases {"12.6": {50, 60}} for x86_64.
    """
    found = table.get(cuda) if isinstance(table, dict) else None
    if isinstance(found, dict):
        found = found.get("aarch64" if platform.endswith("aarch64") else "x86_64")
    elif platform != "linux_x86_64":
        found = None
    return [number for number in found or () if isinstance(number, int)]


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

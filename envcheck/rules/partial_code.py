"""GPUs for which a build holds machine code in some of its kernels only, and PTX in the others."""

from __future__ import annotations

from envcheck.host.data_files import load_data
from envcheck.matrix.specifiers import within
from envcheck.model import Citation, Known, dataclass
from envcheck.rules.architecture_targets import JIT, coverage, parse_target
from envcheck.rules.builds import Build
from envcheck.rules.context import Context


@dataclass(frozen=True)
class PartialRelease:
    """Releases that hold PTX alone in some kernels."""

    framework: str
    specifier: str
    cuda: str  # of that PTX: "12.3"


@dataclass(frozen=True)
class PartialCode:
    """The content of data/partial_code.json."""

    rows: tuple[PartialRelease, ...]
    citation: Citation


def _data() -> PartialCode:
    return load_data("partial_code", PartialCode)


def compiled_partly(context: Context, build: Build, capability: str) -> str:
    """Return the CUDA whose PTX the driver must compile for a GPU of this capability; "" where it need not."""
    texts = build.compute_capabilities.value if isinstance(build.compute_capabilities, Known) else ()
    cuda = _cuda_of_its_ptx(build) if any(text.startswith("compute_") for text in texts) else ""
    if not cuda:
        return ""
    named = [target for target in map(parse_target, texts) if target]

    def is_tegra(other: str) -> bool:
        row = context.matrix.architecture(other)
        return row is not None and row.tegra

    return cuda if coverage(named, capability, is_tegra) == JIT else ""


def partial_code_citation() -> Citation:
    """Return what the PTX of releases was read from."""
    return _data().citation


def _cuda_of_its_ptx(build: Build) -> str:
    rows = (row for row in _data().rows if row.framework == build.framework)
    return next((row.cuda for row in rows if within(build.version, row.specifier)), "")

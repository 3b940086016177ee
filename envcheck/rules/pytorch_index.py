"""The CUDA variants of PyTorch on its own package index."""

from __future__ import annotations

import re
from collections.abc import Mapping

from packaging.version import InvalidVersion, Version

from envcheck.host.data_files import load_data
from envcheck.model import Citation, dataclass
from envcheck.model.releases import FrameworkRelease
from envcheck.rules.builds import Build


@dataclass(frozen=True)
class IndexVariant:
    """One CUDA variant of a torch release on PyTorch's own index."""

    cuda: str  # "12.4"
    index_url: str
    compute_capabilities: tuple[str, ...]  # "sm_80"; empty: not known
    citation: Citation
    proof: str = "documented"


@dataclass(frozen=True)
class PytorchIndex:
    """The content of data/pytorch_index.json."""

    url: str
    citation: Citation
    served: Mapping[str, str]  # platform -> first release with CUDA builds
    proposed_from: str  # first release to propose


def _data() -> PytorchIndex:
    return load_data("pytorch_index", PytorchIndex)


def serves(version: str, platform: str) -> bool:
    """Tell whether the index has CUDA builds of a torch release for a platform."""
    first = _data().served.get(platform)
    try:
        return first is not None and Version(version) >= Version(first)
    except InvalidVersion:
        return False


def cuda_variants(row: FrameworkRelease | None) -> tuple[str, ...]:
    """List the CUDA versions to install a torch release for, newest first; () where none is known.

    Releases before the recorded first one are told of, but never proposed: their pages were laid out differently.
    """
    if row is None or Version(row.version) < Version(_data().proposed_from):
        return ()
    return tuple(sorted(row.variants, key=Version, reverse=True))


def variants_of(row: FrameworkRelease) -> tuple[IndexVariant, ...]:
    """List the builds of a torch release on PyTorch's own index for a platform, newest CUDA first."""
    newest_first = sorted(row.variants.items(), key=lambda item: Version(item[0]), reverse=True)
    proof = row.proof.get("variants", "documented")
    cited = _cited(row) if proof == "documented" else row.citations[0]
    return tuple(IndexVariant(cuda, index_url(cuda), tuple(code), cited, proof) for cuda, code in newest_first)


def _cited(row: FrameworkRelease) -> Citation:
    usual = _data().citation
    return next((item for item in row.citations if item.url_or_artifact == usual.url_or_artifact), usual)


def index_url(cuda: str) -> str:
    """Return the index of a CUDA variant: 12.6 -> .../cu126."""
    return f"{_data().url}cu{cuda.replace('.', '')}"


def cpu_index_url() -> str:
    """Return the index of the builds without CUDA."""
    return f"{_data().url}cpu"


def local_index(build: Build) -> str:
    """Return the index that a torch build with a local version such as +cu126 came from; "" for the default one."""
    match = re.fullmatch(r"cu\d{2,3}", build.local)
    return f"{_data().url}{match.group()}" if match and build.framework == "torch" else ""

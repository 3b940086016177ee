"""The builds on a framework's own index, whose versions have labels such as +cu126."""

from __future__ import annotations

import re
from collections.abc import Mapping

from envcheck.frameworks import framework_names, identity
from envcheck.host.data_files import load_data
from envcheck.matrix.built_in import DeferredCitations, DeferredTable
from envcheck.model import Citation, FrameworkRelease, dataclass, major_minor, numbers, replace

CPU = "cpu"  # the label of builds without CUDA


@dataclass
class PackageIndex:
    """The data file on one framework's index, such as data/frameworks/pytorch_index.json."""

    url: str
    citation: Citation
    served: Mapping[str, str]  # platform -> first release with builds for CUDA
    proposed_from: str  # first release to propose; older ones lie on pages of another layout
    # requirements of its builds for CUDA, which that for the CPU does not have
    for_cuda: tuple[str, ...]
    # how labels of builds for other GPUs begin: rocm -> AMD GPUs (ROCm)
    other_vendors: Mapping[str, str]


def package_index(name: str) -> PackageIndex | None:
    """Return a framework's own index; None if it has none."""
    file = identity(name).index if name in framework_names() else ""
    return load_data(file.removesuffix(".json"), PackageIndex) if file else None


def index_url(name: str, local: str) -> str:
    """Return the address of a framework's builds with a label.

    cu126 -> .../whl/cu126; "" for no index or no label.
    """
    index = package_index(name)
    return f"{index.url}{local}" if index and is_index_label(name, local) else ""


def cuda_label(cuda: str) -> str:
    """Return the label of builds for a CUDA version: 12.6 -> cu126."""
    return f"cu{cuda.replace('.', '')}"


def is_index_label(name: str, local: str) -> bool:
    """Return whether a label is one of the builds on a framework's own index: cu126 or cpu."""
    return (
        package_index(name) is not None and re.fullmatch(rf"cu\d{{2,3}}|{CPU}", local) is not None
    )


def is_served(name: str, version: str, platform: str) -> bool:
    """Return whether a framework's own index has CUDA builds of a version.

    The matrix need not hold them.
    """
    index = package_index(name)
    first_version = index.served.get(platform) if index else None
    return first_version is not None and numbers(version) >= numbers(first_version)


def index_rows(row: FrameworkRelease) -> tuple[FrameworkRelease, ...]:
    """List the builds of a release on its framework's own index.

    The newest CUDA first, that for the CPU last.
    """
    index = package_index(row.framework)
    if index is None or not is_served(row.framework, row.version, row.platform):
        return ()
    cuda = tuple(
        _cuda_row(row, index, version)
        for version in sorted(row.variants, key=numbers, reverse=True)
    )
    return (*cuda, _cpu_row(row, index)) if row.cuda_build else cuda


def is_proposed(row: FrameworkRelease) -> bool:
    """Return whether a build may be proposed to users.

    All but old ones of an index that were laid out differently.
    """
    index = package_index(row.framework) if row.local not in ("", CPU) else None
    return index is None or numbers(row.version) >= numbers(index.proposed_from)


def _cuda_row(row: FrameworkRelease, index: PackageIndex, cuda: str) -> FrameworkRelease:
    """Describe the build for one CUDA.

    It is the one on the default index where that was built with the same.
    """
    local = cuda_label(cuda)
    labelled: FrameworkRelease = replace(
        row, local=local, index=index_url(row.framework, local), variants={}
    )
    if row.cuda_build and major_minor(row.cuda) == cuda:
        return labelled
    return replace(
        labelled,
        cuda_build=True,
        cuda=cuda,
        cudnn=None,
        compute_capabilities=tuple(row.variants[cuda]),
        cuda_wheels=(),
        citations=DeferredCitations(lambda: _cite_variant(row, index)),
        proof=DeferredTable(
            lambda: {
                **row.proof,
                **dict.fromkeys(("cuda", "compute_capabilities"), _find_tier(row)),
            }
        ),
        binaries={},
    )


def _find_tier(row: FrameworkRelease) -> str:
    """Return how a row's variants are known."""
    return row.proof.get("variants", "documented")


def _cite_variant(row: FrameworkRelease, index: PackageIndex) -> tuple[Citation, ...]:
    """Cite the document that states a row's variants before the row's other citations."""
    if _find_tier(row) == "tier1":
        return row.citations
    # The first citation of a row is the wheel on the default index, the second the document of the
    # release.
    documented = (*row.citations[1:], index.citation)[0]
    return tuple(dict.fromkeys((documented, *row.citations)))


def _cpu_row(row: FrameworkRelease, index: PackageIndex) -> FrameworkRelease:
    return replace(
        row,
        local=CPU,
        index=index_url(row.framework, CPU),
        cuda_build=False,
        cuda=None,
        cudnn=None,
        compute_capabilities=(),
        cuda_wheels=(),
        variants={},
        binaries={},
        requires={name: text for name, text in row.requires.items() if name not in index.for_cuda},
    )

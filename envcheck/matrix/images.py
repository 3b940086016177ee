"""Read what the name of a public container image says of its contents."""

from __future__ import annotations

import re
from collections.abc import Mapping

from envcheck.frameworks import framework, framework_names
from envcheck.host.data_files import load_data
from envcheck.model import at_least, dataclass, field


@dataclass
class ImageConvention:
    """How the images of a repository are named; patterns name the parts."""

    repository: str
    tag: str
    source: str
    os: str = ""
    cudnn_unnumbered: str = "any"  # the cuDNN major behind a tag that names cuDNN without a number
    # by the release of CUDA, where it is known
    cudnn_releases: Mapping[str, str] = field(default_factory=dict)
    own_python: bool = False  # its Python is not the distribution's
    flavor: str = ""  # base, runtime or devel, where the tag does not name it
    partial: bool = False  # the image holds CUDA libraries of which the tag says nothing
    holds: str = ""  # the framework that its images hold, where the tag does not name a release
    gpu_tag: str = ""  # which of its tags are for a GPU, where this one is for the CPU


@dataclass
class SystemRelease:
    """A release of a Linux distribution and what it contains; "" for what is not known."""

    os: str = ""
    version: str = ""
    codename: str = ""
    glibc: str = ""
    python: str = ""
    pip: str = ""


@dataclass
class ExternalManagement:
    """Since which release a distribution's Python refuses packages of pip (PEP 668)."""

    os: str
    version: str
    rolling: tuple[str, ...]  # tags without a release that are all newer
    source: str


@dataclass
class BaseImages:
    """The content of data/program/base_images.json."""

    images: tuple[ImageConvention, ...]
    # NVIDIA's monthly images: their parts, where a document states them
    months: Mapping[str, Mapping[str, str]]
    externally_managed: tuple[ExternalManagement, ...]
    systems: tuple[SystemRelease, ...]
    for_gpu: str  # pattern of the names of images for a GPU
    compiles_cuda: tuple[str, ...]  # distributions that compile CUDA code when they are installed


def load_base_images() -> BaseImages:
    """Return data/program/base_images.json: the naming conventions of public images."""
    return load_data("program/base_images", BaseImages)


def parse_reference(reference: str) -> tuple[ImageConvention, dict[str, str]] | None:
    """Parse a reference such as pytorch/pytorch:2.4.0-cuda12.4-cudnn9-runtime.

    Return None if no convention fits.

    Returns the convention and the parts by name: torch 2.4.0, cuda 12.4, cudnn 9, flavor runtime.
    """
    name = reference.split("@", 1)[0]
    repository, _, tag = name.rpartition(":") if ":" in name.rsplit("/", 1)[-1] else (name, "", "")
    for row in load_base_images().images:
        repository_match = re.fullmatch(row.repository, repository)
        tag_match = re.fullmatch(row.tag, tag)
        if repository_match and tag_match:
            named = {**tag_match.groupdict(), **repository_match.groupdict()}
            parts = {key: value or "" for key, value in named.items()}
            if parts.get("month", "") in {"", *load_base_images().months}:
                return (row, _with_month(row, parts))
            return None
    return None


def _with_month(row: ImageConvention, parts: dict[str, str]) -> dict[str, str]:
    """Add what is in the image of a month.

    Its toolkit, and the release of the framework that it holds.
    """
    month = load_base_images().months.get(parts.get("month", ""), {})
    found = {key: value for key, value in month.items() if not key.startswith(framework_names())}
    found[row.holds] = month.get(row.holds + parts.get("line", ""), "")
    if month:
        return {**found, **parts, "flavor": parts.get("flavor") or row.flavor}
    return parts


def is_externally_managed(os: str, version: str, tag: str) -> bool:
    """Return whether a distribution's Python refuses pip outside environments (PEP 668)."""
    rows = (row for row in load_base_images().externally_managed if row.os == os)
    return any(
        bool(at_least(version, row.version)) if version else tag in row.rolling for row in rows
    )


def parse_framework(reference: str) -> tuple[str, str, str] | None:
    """Return the framework's distribution, version and CUDA that an image contains.

    Return None if its name states none.

    The CUDA is "" if the name does not state it, and "cpu" for an image without CUDA.
    """
    reference_parts = parse_reference(reference)
    parts = reference_parts[1] if reference_parts else {}
    name = next((name for name in framework_names() if parts.get(name)), "")
    if not name:
        return None
    is_for_gpu = bool(parts.get("gpu") or parts.get("cuda"))
    identity = framework(name)
    if identity.index:
        return name, parts[name], parts.get("cuda", "")
    return (
        identity.distribution_in_image(parts[name], for_gpu=is_for_gpu),
        parts[name],
        "" if is_for_gpu else "cpu",
    )

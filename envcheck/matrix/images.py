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
    # its images for GPUs hold the CUDA and cuDNN that their framework was built for
    own_cuda: bool = False
    flavor: str = ""  # base, runtime or devel, where the tag does not name it
    platform: str = ""  # that all of its images are for: linux/arm64
    partial: bool = False  # the image holds CUDA libraries of which the tag says nothing
    holds: str = ""  # the framework that its images hold, where the tag does not name a release
    gpu: bool = False  # all of its images hold the build for CUDA
    lacks: str = ""  # what its images hold in place of a framework that envcheck judges
    constraints: str = ""  # the file that pip keeps to in its images, by PIP_CONSTRAINT
    constrained_from: str = ""  # the month of the first of them: 25.03
    variable: str = ""  # that names the month of NVIDIA's own build in its images
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
    # by part: the pattern that finds it in a name that follows no convention, with its release
    stated: Mapping[str, str]
    for_gpu: str  # pattern of the names of images for a GPU
    compiles_cuda: tuple[str, ...]  # distributions that compile CUDA code when they are installed


def load_base_images() -> BaseImages:
    """Return data/program/base_images.json: the naming conventions of public images."""
    return load_data("program/base_images", BaseImages)


# Where others hand out the images of Docker Hub under the same names.
_MIRROR = re.compile(
    r"^(?:m\.daocloud\.io/docker\.io|docker\.m\.daocloud\.io|docker\.1ms\.run|mirror\.gcr\.io"
    r"|public\.ecr\.aws/docker|(?:index|registry-1|registry\.hub)\.docker\.(?:io|com))/(?:library/)?"
)


def parse_reference(reference: str) -> tuple[ImageConvention, dict[str, str]] | None:
    """Parse a reference such as pytorch/pytorch:2.4.0-cuda12.4-cudnn9-runtime.

    Return None if no convention fits.

    Returns the convention and the parts by name: torch 2.4.0, cuda 12.4, cudnn 9, flavor runtime.
    """
    name = _MIRROR.sub("", reference.split("@", 1)[0])
    repository, _, tag = name.rpartition(":") if ":" in name.rsplit("/", 1)[-1] else (name, "", "")
    for row in load_base_images().images:
        repository_match = re.fullmatch(row.repository, repository)
        tag_match = re.fullmatch(row.tag, tag)
        if repository_match and tag_match:
            named = {**tag_match.groupdict(), **repository_match.groupdict()}
            parts = {key: value or "" for key, value in named.items()}
            is_known = parts.get("month", "") in {"", *load_base_images().months}
            return (row, _with_month(row, parts)) if is_known else None
    return _read_stated(name)


_OTHER = "what is built for other vendors' GPUs or accelerators, which envcheck does not judge"


def _read_stated(name: str) -> tuple[ImageConvention, dict[str, str]] | None:
    """Read the words of a name that follows no known convention; None if it names no framework.

    Sample: team/train:torch2.1.0-cu121-py310-ubuntu22.04
    """
    found = {
        part: next(filter(None, match.groups()), "")
        for part, pattern in load_base_images().stated.items()
        if (match := re.search(pattern, name))
    }
    holds = next((part for part in framework_names() if part in found), "")
    if not holds:
        return None
    source = "the words of the name"
    if "other" in found:
        return ImageConvention("", "", source, lacks=_OTHER), {}
    parts = {part: _spell_out(part, text) for part, text in found.items()}
    system = "ubuntu" if "os_version" in parts else ""
    is_for_gpu = "gpu" in parts and "cpu" not in parts
    is_open = not is_for_gpu and "cpu" not in parts and "cuda" not in parts
    row = ImageConvention(
        "", "", source, os=system, own_python=True, partial=True, holds=holds, gpu=is_for_gpu
    )
    return row, {**parts, "open": "open" if is_open else ""}


def _spell_out(part: str, text: str) -> str:
    """Put the dots into a release that is written without them: torch 1131, cu118, py310, 2004."""
    if not text.isdecimal() or len(text) == 1:
        return text
    if part == "os_version":
        return f"{text[:2]}.{text[2:]}"
    if part == "python":
        return f"{text[0]}.{text[1:]}"
    if part == "cuda":
        return f"{text[:-1]}.{text[-1]}"
    return f"{text[0]}.{text[1:-1]}.{text[-1]}"


def _with_month(row: ImageConvention, parts: dict[str, str]) -> dict[str, str]:
    """Add what is in the image of a month.

    Its toolkit, and the release of the framework that it holds.
    """
    month = load_base_images().months.get(parts.get("month", ""), {})
    found = {key: value for key, value in month.items() if not key.startswith(framework_names())}
    if month:
        found["python"] = month.get(f"{row.holds}_python") or found.get("python", "")
        found[row.holds] = month.get(row.holds + parts.get("line", ""), "")
    stated = {key: value for key, value in parts.items() if value or key not in found}
    return {**found, **stated, "flavor": parts.get("flavor") or (row.flavor if month else "")}


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
    row, parts = parse_reference(reference) or (None, dict[str, str]())
    name = next(filter(parts.get, framework_names()), "")
    if row is None or not name:
        return None
    is_for_gpu = bool(row.gpu or parts.get("gpu") or parts.get("cuda"))
    identity = framework(name)
    if identity.index:
        return name, parts[name], parts.get("cuda", "")
    return (
        identity.distribution_in_image(parts[name], for_gpu=is_for_gpu),
        parts[name],
        "" if is_for_gpu else "cpu",
    )

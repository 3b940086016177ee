"""What the name of a public container image says of its contents, by data/base_images.json."""

from __future__ import annotations

import re

from envcheck.host.data_files import load_data
from envcheck.model import dataclass


@dataclass(frozen=True)
class ImageConvention:
    """How the images of a repository are named; patterns name the parts."""

    repository: str
    tag: str
    source: str
    os: str = ""
    cudnn_unnumbered: str = "any"  # the cuDNN major behind a tag that names cuDNN without a number


@dataclass(frozen=True)
class SystemRelease:
    """A release of a Linux distribution and what it brings; "" where that is not known."""

    os: str = ""
    version: str = ""
    codename: str = ""
    glibc: str = ""
    python: str = ""
    pip: str = ""


@dataclass(frozen=True)
class BaseImages:
    """What data/base_images.json holds."""

    images: tuple[ImageConvention, ...]
    systems: tuple[SystemRelease, ...]
    for_gpu: str  # pattern of the names of images for a GPU
    compiles_cuda: tuple[str, ...]  # distributions that compile CUDA code when they are installed


def load_base_images() -> BaseImages:
    """Return the naming conventions of public images."""
    return load_data("base_images", BaseImages)


def parse_reference(reference: str) -> tuple[ImageConvention, dict[str, str]] | None:
    """Read an image reference such as pytorch/pytorch:2.4.0-cuda12.4-cudnn9-runtime; None for one of no known kind.

    Returns the row of the table and the parts by its names: torch 2.4.0, cuda 12.4, cudnn 9, flavor runtime.
    """
    name = reference.split("@", 1)[0]
    repository, _, tag = name.rpartition(":") if ":" in name.rsplit("/", 1)[-1] else (name, "", "")
    for row in load_base_images().images:
        place = re.fullmatch(row.repository, repository)
        said = re.fullmatch(row.tag, tag)
        if place and said:
            return row, {key: value or "" for key, value in {**said.groupdict(), **place.groupdict()}.items()}
    return None


def parse_framework(reference: str) -> tuple[str, str, str] | None:
    """Name the distribution, its version and its CUDA that an image is made of; None where its name tells none.

    The CUDA is "" where the name does not tell it, and "cpu" for an image without.
    """
    found = parse_reference(reference)
    parts = found[1] if found else {}
    if parts.get("torch"):
        return "torch", parts["torch"], parts.get("cuda", "")
    if not parts.get("tensorflow"):
        return None
    version, is_for_gpu = parts["tensorflow"], bool(parts.get("gpu"))
    return f"tensorflow{'-gpu' if is_for_gpu and version[:2] == '1.' else ''}", version, "" if is_for_gpu else "cpu"

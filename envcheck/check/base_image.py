"""Read what the name of a base image says of its contents, by data/base_images.json."""

from __future__ import annotations

import re
from typing import Any

from envcheck.check.blueprint import Image
from envcheck.matrix.images import conventions, parse_reference


def parse_image(reference: str, where: str) -> Image:
    """Read an image reference: nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04 has CUDA 12.4.1 and cuDNN, and no nvcc."""
    found = parse_reference(reference)
    return _image(reference, where, *found) if found else Image(reference, where)


def is_for_gpu(image: Image) -> bool:
    """Tell whether an image is meant for a GPU: by the CUDA in it, or by its name where that says no release."""
    return bool(image.cuda) or re.fullmatch(conventions()["for_gpu"], image.reference) is not None


def _image(reference: str, where: str, row: dict[str, Any], parts: dict[str, str]) -> Image:
    system = _system(parts.get("os") or row.get("os", ""), parts.get("os_version", ""), parts.get("codename", ""))
    return Image(
        reference=reference,
        where=where,
        cuda=parts.get("cuda", ""),
        cudnn=(parts["cudnn"] or row.get("cudnn_unnumbered", "any"))
        if "-cudnn" in reference and "cudnn" in parts
        else "",
        flavor=parts.get("flavor", ""),
        os=system.get("os", ""),
        os_version=system.get("version", ""),
        glibc=system.get("glibc", ""),
        python=parts.get("python") or system.get("python", ""),
        pip=system.get("pip", ""),
        frameworks=tuple(_framework(name, parts) for name in ("torch", "tensorflow") if parts.get(name)),
        source=row["source"],
    )


def _framework(name: str, parts: dict[str, str]) -> str:
    cpu = name == "tensorflow" and not parts.get("gpu")
    return f"{name}{'-cpu' if cpu else ''}=={parts[name]}"


def _system(name: str, version: str, codename: str) -> dict[str, str]:
    for row in conventions()["systems"]:
        by_version = row["os"] == name and version and (row["version"] or version) == version.rstrip(".")
        by_major = row["os"] == name and row["version"] and version.split(".", maxsplit=1)[0] == row["version"]
        if by_version or by_major or (codename and row["codename"] == codename):
            return dict(row)
    return {"os": name, "version": version} if version else {}

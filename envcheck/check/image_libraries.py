"""Whether an image has the CUDA libraries that a framework does not bring itself, and what mends it in a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from envcheck.check.blueprint import Blueprint, Image, Line
from envcheck.model.facts import Source, value_of
from envcheck.model.findings import ERROR, NOTE, Evidence, Finding, Fix
from envcheck.rules import Context
from envcheck.rules.builds import Build
from envcheck.rules.targets import target_builds

WITHOUT_EXTRA = "framework-cuda-extra-missing"
_OF_THE_IMAGE = frozenset({
    "cudnn-missing", "cudnn-too-old", "cudnn-wrong-cuda-build", "cudnn-wrong-major", "toolkit-missing",
    "toolkit-wrong-version",
})  # fmt: skip


def in_the_image(finding: Finding, line: Line, context: Context, blueprint: Blueprint) -> Finding | None:
    """Say of a finding on a framework's libraries what it means in the image; None where that has them."""
    if finding.id == "toolkit-wrong-version" and finding.severity == NOTE and line.index == "cuda":
        return None  # the index has builds for another CUDA than the release's usual one
    if finding.id == WITHOUT_EXTRA and finding.severity != ERROR:
        return _without_extra(finding, context, blueprint)
    if finding.id in _OF_THE_IMAGE and finding.fix is not None and blueprint.image is not None:
        return replace(finding, fix=_another_image(context, blueprint.image) or finding.fix)
    return finding


def _without_extra(finding: Finding, context: Context, blueprint: Blueprint) -> Finding | None:
    """Make an error of it where the image lacks what the build loads; what is not known of the image stays open."""
    image = blueprint.image
    brought = any(line.text.startswith("nvidia-") for line in blueprint.requirements)
    by_conda = any("cud" in line.text for line in blueprint.conda)
    if image is None or not image.source or image.frameworks or blueprint.added or brought or by_conda:
        return None
    lacks = [what for build in target_builds(context) for what in _lacking(build, image)]
    if not lacks:
        return None
    message = f"{finding.message.split(';', maxsplit=1)[0]}, and {image.reference} has no {' and no '.join(lacks)}."
    seen = Evidence("base image", image.reference, Source("file", image.where, image.reference))
    cited = (item for item in finding.evidence if item.citation)  # the rest speaks of an installed machine
    return replace(finding, severity=ERROR, message=message, evidence=(seen, *cited))


def _lacking(build: Build, image: Image) -> Iterator[str]:
    """Name the libraries by the major version that their file names bear."""
    cuda, cudnn = (_major(value_of(fact) or "") for fact in (build.cuda, build.cudnn))
    if cuda and (image.flavor not in {"runtime", "devel"} or _major(image.cuda) != cuda):
        yield f"CUDA {cuda}"
    if cudnn and image.cudnn not in {"any", cudnn}:
        yield f"cuDNN {cudnn}"


def _another_image(context: Context, image: Image) -> Fix | None:
    """Name the image that the build takes its CUDA from: packages laid over another one do not make it."""
    for build in target_builds(context):
        cuda, cudnn = value_of(build.cuda), value_of(build.cudnn)
        if cuda:
            holds = f"CUDA {cuda}" + (f" and cuDNN {_major(cudnn)}" if cudnn else "")
            other = (
                f", or a release of {build.framework} that was built for CUDA {_minor(image.cuda)}"
                if image.cuda
                else ""
            )
            return Fix(f"Take a base image with {holds}{other}.")
    return None


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _major(version: str) -> str:
    return version.split(".", maxsplit=1)[0]

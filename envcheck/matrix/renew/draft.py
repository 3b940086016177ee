"""A row as the artifacts alone show it, before what people found out is laid over it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from envcheck.matrix.renew.contents import Contents
from envcheck.matrix.renew.metadata import classified_pythons, columns, parse_field, parse_requirements
from envcheck.matrix.renew.wheels import Group, Wheel, glibc_of

Row = dict[str, Any]

# Remarks that only these modules write; all else in a note is somebody's finding and is kept.
_REMARKS = (
    r"[\w-]+[<>=!~].* from Python 3\.\d+ on\.",
    r"An empty wheel( that requires [\w-]+)?\.",
    r"An empty wheel that requires only itself, so it brings no TensorFlow\.",
    r"A ROCm build: for AMD GPUs\.",
    r"The wheel states nothing about CUDA; told by the distribution's name\.",
    r"build_info names (CUDA|cuDNN) \d+ only\.",
    r"Compute capabilities were not read\.",
    r"(CUDA|cuDNN) was not read\.",
    r"cuDNN is bundled in the wheel\.",
    r"cuDNN is the minimum its extra asks for\.",
    r"cuDNN and CUDA wheels are what the \w+ extra of jax asks for\.",
    r"This wheel does not state its cuDNN\.",
    r"Only the CUDA major is stated\.",
    r"glibc was not read; the tag is not trusted\.",
    r"The compiler was not read\.",
    r"TensorRT was not read\.",
    r"Which TensorFlow it goes with was not read\.",
    r"The wheel holds Python bindings only\.",
    r"Its name states no Python; those that its classifiers name are listed\.",
    r"That it finds the wheels of its extra was not read\.",
    r"Yanked wheels: \d+ of \d+\.",
    r"Left out, since no installer takes it: \S+\.",
)


@dataclass(frozen=True)
class Remark:
    """A sentence of a note about one cell; a gap says why the cell is empty, vague or inferred."""

    cell: str
    text: str
    gap: bool = False


@dataclass
class Draft:
    """A row in the making, for one release of a distribution on one platform."""

    group: Group
    members: list[str]  # what was read of the wheel, as its citation says it
    cells: Row = field(default_factory=dict)
    proof: dict[str, str] = field(default_factory=dict)  # of the cells that are not tier 1
    remarks: list[Remark] = field(default_factory=list)
    also: list[str] = field(default_factory=list)  # other artifacts it rests on, by citation id

    @property
    def key(self) -> tuple[str, str]:
        """Return what tells it from the other rows of its release."""
        return self.group.distribution, self.group.platform

    @property
    def citation_id(self) -> str:
        """Name its wheel in the citation table: tensorflow-2.15.0-mac-arm64."""
        platform = re.sub(r"^linux_", "", self.group.platform).replace("macosx_", "mac-").replace("win_amd64", "win")
        return f"{self.group.distribution}-{self.group.version}-{platform}"

    @property
    def wheel(self) -> Wheel:
        """Return the wheel that was read for it."""
        return self.group.representative

    def say(self, cell: str, text: str, *, gap: bool = False) -> None:
        """Add a sentence to its note."""
        self.remarks.append(Remark(cell, text, gap))


def start_draft(group: Group, contents: Contents) -> Draft | None:
    """Fill the cells that every framework has; None for a release without any Python."""
    pythons = group.pythons() or _admitted(contents.metadata)
    if not pythons:
        return None
    draft = Draft(group, ["METADATA (RECORD has another hash of it)" if contents.altered else "METADATA"])
    requires, notes = columns(parse_requirements(contents.metadata), group.platform, pythons)
    draft.cells = {"pythons": pythons, "tags": group.tags, "requires": requires, "cuda_build": False}
    free_threaded = group.pythons(free_threaded=True)
    if free_threaded:
        draft.cells["free_threaded"] = free_threaded
    for note in notes:
        draft.say("requires", note)
    if group.yanked:
        draft.cells["yanked"] = group.yanked == len(group.wheels)
        draft.say("yanked", f"Yanked wheels: {group.yanked} of {len(group.wheels)}.")
    for wheel in group.left_out:
        draft.say("pythons", f"Left out, since no installer takes it: {wheel.filename}.")
    return draft


def add_glibc(draft: Draft) -> None:
    """State the glibc that a Linux wheel's tags imply, or that they imply none."""
    if draft.group.platform.startswith("linux"):
        draft.cells["glibc"] = glibc_of(draft.group.tags)
        if draft.cells["glibc"] is None:
            draft.say("glibc", "glibc was not read; the tag is not trusted.", gap=True)


def _admitted(metadata: str) -> list[str]:
    """List the classified Pythons that Requires-Python admits, for wheels whose name tells none."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        admitted = SpecifierSet(parse_field(metadata, "Requires-Python"))
    except InvalidSpecifier:
        admitted = SpecifierSet()
    return [python for python in classified_pythons(metadata) if admitted.contains(f"{python}.0")]


def sentences(note: str) -> list[str]:
    """Part a note into its sentences."""
    return [part for part in re.split(r"(?<=\.) (?=[A-Za-z])", note) if part]


def is_remark(sentence: str) -> bool:
    """Tell whether a sentence of a note is one these modules write."""
    return any(re.fullmatch(pattern, sentence) for pattern in _REMARKS)


def by_key(drafts: list[Draft]) -> Mapping[tuple[str, str], Draft]:
    """Index drafts by distribution and platform."""
    return {draft.key: draft for draft in drafts}

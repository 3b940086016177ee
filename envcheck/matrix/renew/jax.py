"""JAX's rows: jax and jaxlib are CPU builds, plugins bring CUDA, and extras bring its wheels."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from envcheck.matrix.renew.contents import Contents
from envcheck.matrix.renew.draft import Draft, add_glibc, start_draft
from envcheck.matrix.renew.metadata import bare, extra_of, holds, lower_bound, parse_requirements
from envcheck.matrix.renew.wheels import Group

if TYPE_CHECKING:
    from packaging.requirements import Requirement


def draft_jax(group: Group, contents: Contents, published: Mapping[str, Collection[str]]) -> Draft | None:
    """Draft the row of a release on one platform; `published` lists the versions of each distribution."""
    draft = start_draft(group, contents)
    if draft is None:
        return None
    plugin = re.fullmatch(r"jax-cuda(\d+)-plugin", group.distribution)
    if plugin:
        _add_plugin(draft, contents, plugin[1])
    elif group.distribution == "jax":
        _add_extras(draft, contents, published)
    add_glibc(draft)
    return draft


def _add_plugin(draft: Draft, contents: Contents, cuda: str) -> None:
    """State what a CUDA plugin says of itself: the CUDA major in its name, the wheels of its extra."""
    draft.cells.update(cuda_build=True, cuda=cuda, compute_capabilities=[], finds_cuda_wheels=True)
    draft.proof["finds_cuda_wheels"] = "documented"
    draft.say("cuda", "Only the CUDA major is stated.")
    pins = [
        item
        for item in parse_requirements(contents.metadata)
        if item.name.startswith("nvidia-")
        and any(holds(item, draft.group.platform, python, extra_of(item)) for python in draft.cells["pythons"])
    ]
    draft.cells["cuda_wheels"] = [bare(item) for item in pins]
    extras = sorted({extra_of(item) for item in pins if extra_of(item)})
    if extras:
        draft.cells.update(gpu_extra=extras[0], extras=extras)
    floors = [_minor(lower_bound(item)) for item in pins if "cudnn" in item.name]
    draft.cells["cudnn"] = next((floor for floor in floors if floor), None)
    if draft.cells["cudnn"]:
        draft.say("cudnn", "cuDNN is the minimum its extra asks for.")
    else:
        draft.say("cudnn", "This wheel does not state its cuDNN.", gap=True)
    draft.say("compute_capabilities", "Compute capabilities were not read.", gap=True)


def _add_extras(draft: Draft, contents: Contents, published: Mapping[str, Collection[str]]) -> None:
    """List the extras of jax that bring CUDA; one that asks for a plugin nobody published brings nothing."""
    wanted: dict[str, list[Requirement]] = {}
    for item in parse_requirements(contents.metadata):
        if re.fullmatch(r"cuda\d{2}(_pip)?", extra_of(item)):
            wanted.setdefault(extra_of(item), []).append(item)
    extras = sorted(extra for extra, needs in wanted.items() if all(_is_published(need, published) for need in needs))
    if extras:
        chosen = extras[0] if "cuda12" not in extras else "cuda12"
        wheels = [bare(item) for item in wanted[chosen]]
        draft.cells.update(extras=extras, gpu_extra=chosen, cuda_wheels=wheels)


def _is_published(requirement: Requirement, published: Mapping[str, Collection[str]]) -> bool:
    """Tell whether a plugin that is asked for exists; other distributions are not JAX's to publish."""
    if not re.fullmatch(r"jax-cuda\d+-plugin", requirement.name):
        return True
    return any(requirement.specifier.contains(version) for version in published.get(requirement.name, ()))


def lend_wheels(drafts: Mapping[tuple[str, str], Draft]) -> None:
    """Fill in plugins that require nothing themselves from the extra of jax that brings them."""
    jax = drafts.get(("jax", "any"))
    for draft in drafts.values():
        extra = re.fullmatch(r"jax-(cuda\d+)-plugin", draft.group.distribution)
        if jax is None or extra is None or draft.cells["cuda_wheels"] or jax.cells.get("gpu_extra") != extra[1]:
            continue
        wheels = [item for item in jax.cells["cuda_wheels"] if item.startswith("nvidia-")]
        floors = [found[1] for found in (re.match(r"nvidia-cudnn.*>=(\d+\.\d+)", item) for item in wheels) if found]
        if floors:
            draft.cells.update(cudnn=floors[0], cuda_wheels=wheels)
            draft.remarks = [item for item in draft.remarks if item.cell != "cudnn"]
            draft.say("cudnn", f"cuDNN and CUDA wheels are what the {extra[1]} extra of jax asks for.")
            draft.also.append(jax.citation_id)


def _minor(version: str) -> str:
    """Cut a version to major.minor: 9.8 of 9.8.0.87; "" stays."""
    return ".".join(version.split(".")[:2])

"""PyTorch's rows, of the wheels on the primary index: version.py says what a wheel was built with."""

from __future__ import annotations

import re
from typing import Any

from envcheck.matrix.renew.contents import Contents
from envcheck.matrix.renew.draft import Draft, add_glibc, start_draft
from envcheck.matrix.renew.metadata import bare, extra_of, holds, lower_bound, parse_requirements
from envcheck.matrix.renew.python_text import parse_constants
from envcheck.matrix.renew.wheels import Group


def draft_torch(group: Group, contents: Contents) -> Draft | None:
    """Draft the row of a release on one platform."""
    draft = start_draft(group, contents)
    if draft is None:
        return None
    text = contents.text("torch/version.py")
    cuda = parse_constants(text).get("cuda") if text else None
    if text:
        draft.members.append("torch/version.py")
    if isinstance(cuda, str) and cuda:
        draft.cells.update(cuda_build=True, cuda=".".join(cuda.split(".")[:2]))
        _add_wheels(draft, contents)
        _add_architectures(draft, contents)
    _add_variants(draft, contents)
    add_glibc(draft)
    return draft


def _add_wheels(draft: Draft, contents: Contents) -> None:
    """List the CUDA wheels it requires plainly; without any, the libraries are inside."""
    platform, pythons = draft.group.platform, draft.cells["pythons"]
    pins = [
        item
        for item in parse_requirements(contents.metadata)
        if re.match(r"nvidia-|cuda-", item.name)
        and not extra_of(item)
        and any(holds(item, platform, python) for python in pythons)
    ]
    draft.cells["cuda_wheels"] = [bare(item) for item in pins]
    draft.cells["finds_cuda_wheels"] = bool(pins)
    draft.proof["finds_cuda_wheels"] = "documented"
    pinned = [lower_bound(item) for item in pins if "cudnn" in item.name]
    if pinned and pinned[0]:
        draft.cells["cudnn"] = pinned[0]
    else:
        draft.say("cudnn", "cuDNN is bundled in the wheel.")


def _add_architectures(draft: Draft, contents: Contents) -> None:
    """Take the machine code from the table that newer releases carry for their own error message."""
    numbers = _row(_table(contents), draft.cells["cuda"], draft.group.platform)
    draft.cells["compute_capabilities"] = [f"sm_{number}" for number in sorted(numbers)]
    if numbers:
        draft.members.append("torch/cuda/__init__.py")
    else:
        draft.say("compute_capabilities", "Compute capabilities were not read.", gap=True)


def _add_variants(draft: Draft, contents: Contents) -> None:
    """List the CUDA builds of this release on PyTorch's own index, which the same table names for Linux."""
    table = _table(contents)
    if isinstance(table, dict) and draft.group.platform.startswith("linux"):
        read = {cuda: sorted(_row(table, cuda, draft.group.platform)) for cuda in sorted(table)}
        found = {cuda: [f"sm_{number}" for number in numbers] for cuda, numbers in read.items() if numbers}
        if found:
            draft.cells["variants"] = found


def _table(contents: Contents) -> Any:
    text = contents.text("torch/cuda/__init__.py")
    return parse_constants(text).get("PYTORCH_RELEASES_CODE_CC") if text else None


def _row(table: Any, cuda: str, platform: str) -> list[int]:
    """Look up {"13.0": {"x86_64": {75, 80}}}, or {"12.6": {50, 60}} in older releases, which mean x86_64."""
    found = table.get(cuda) if isinstance(table, dict) else None
    if isinstance(found, dict):
        found = found.get("aarch64" if platform.endswith("aarch64") else "x86_64")
    elif platform != "linux_x86_64":
        found = None
    return [number for number in found or () if isinstance(number, int)]

"""TensorFlow's rows: build_info.py says what a wheel was built with, the and-cuda extra what it asks for."""

from __future__ import annotations

import re
from typing import Any

from envcheck.matrix.renew.contents import Contents
from envcheck.matrix.renew.draft import Draft, add_glibc, start_draft
from envcheck.matrix.renew.metadata import bare, extra_of, holds, parse_requirements
from envcheck.matrix.renew.python_text import parse_constants
from envcheck.matrix.renew.wheels import Group

_EMPTY = 40  # members; an empty wheel has some five, the smallest real one thousands
_PARTS = ("tensorflow-estimator", "tensorflow_estimator", "tensorflow-io", "tensorflow_io")  # no TensorFlow themselves


def draft_tensorflow(group: Group, contents: Contents) -> Draft | None:
    """Draft the row of a release on one platform."""
    draft = start_draft(group, contents)
    if draft is None or contents.entries < _EMPTY:
        if draft is not None:
            _describe_stub(draft, contents)
        return draft
    text = contents.text("platform/build_info.py")
    facts = parse_constants(text)
    if text:
        draft.members.append("build_info.py")
    if facts.get("is_rocm_build") or group.distribution.endswith("-rocm"):
        draft.say("cuda_build", "A ROCm build: for AMD GPUs.")
    _add_compiler(draft, facts)
    _add_cuda_build(draft, facts)
    if draft.cells["cuda_build"]:
        _add_cuda(draft, facts)
        _add_extra(draft, contents)
        _add_cudnn(draft, facts)
        _add_tensorrt(draft, facts)
        _add_architectures(draft, facts)
    add_glibc(draft)
    return draft


def _describe_stub(draft: Draft, contents: Contents) -> None:
    """Say which distribution an empty wheel requires in its stead."""
    from packaging.utils import canonicalize_name

    python = draft.cells["pythons"][0]
    members = [item for item in parse_requirements(contents.metadata) if item.name.startswith("tensorflow")]
    here = [item for item in members if holds(item, draft.group.platform, python)] or members
    name = next((canonicalize_name(item.name) for item in here if not item.name.startswith(_PARTS)), None)
    if name is None:
        draft.say("stub_for", "An empty wheel.")
        return
    draft.cells["stub_for"] = name
    itself = name == draft.group.distribution
    draft.say(
        "stub_for",
        "An empty wheel that requires only itself, so it brings no TensorFlow."
        if itself
        else f"An empty wheel that requires {name}.",
    )


def _add_compiler(draft: Draft, facts: dict[str, Any]) -> None:
    """State the compiler that build_info names by version: .../llvm-18/bin/clang, .../MSVC/14.29.30133/....

    The path of a GCC says nothing: 2.3 to 2.6 name gcc-5, and their binaries are of GCC 7.3.1.
    """
    stated = facts.get("cpu_compiler")
    found = re.search(r"llvm-(?P<clang>\d+)/|^clang (?P<bare>\d+)$|MSVC/(?P<msvc>\d+\.\d+)", str(stated))
    if found is None:
        draft.cells["compiler"] = None
        draft.say("compiler", "The compiler was not read.", gap=True)
    elif found["msvc"]:
        draft.cells["compiler"] = f"MSVC {found['msvc']}"
    else:
        draft.cells["compiler"] = f"clang {found['clang'] or found['bare']}"


def _add_tensorrt(draft: Draft, facts: dict[str, Any]) -> None:
    """State that TensorRT was left out; where it is in, build_info does not say which."""
    if facts.get("is_tensorrt_build") is False:
        draft.cells["tensorrt"] = "none"
    else:
        draft.cells["tensorrt"] = None
        draft.say("tensorrt", "TensorRT was not read.", gap=True)


def _add_cuda_build(draft: Draft, facts: dict[str, Any]) -> None:
    stated = facts.get("is_cuda_build")
    if stated is None:
        draft.cells["cuda_build"] = draft.group.distribution.endswith("-gpu")
        draft.proof["cuda_build"] = "documented"
        draft.say("cuda_build", "The wheel states nothing about CUDA; told by the distribution's name.", gap=True)
    else:
        draft.cells["cuda_build"] = bool(stated)


def _add_cuda(draft: Draft, facts: dict[str, Any]) -> None:
    """State the CUDA version, or only its major where build_info says no more."""
    version = _version(facts.get("cuda_version") or facts.get("cuda_version_number"), dotted=True)
    draft.cells["cuda"] = version or None
    if not version:
        draft.say("cuda", "CUDA was not read.", gap=True)
    elif "." not in version:
        draft.say("cuda", f"build_info names CUDA {version} only.")


def _add_cudnn(draft: Draft, facts: dict[str, Any]) -> None:
    """State the cuDNN minor that the extra pins where build_info names the same major, else the major."""
    major = _version(facts.get("cudnn_version") or facts.get("cudnn_version_number"), dotted=False)
    pins = [pin for pin in draft.cells.get("cuda_wheels", ()) if pin.startswith("nvidia-cudnn")]
    bound = re.search(r"[=>]=(\d+\.\d+)", pins[0]) if pins else None
    pinned = bound[1] if bound else ""
    if pinned and major in {"", pinned.split(".", maxsplit=1)[0]}:
        draft.cells["cudnn"] = pinned
        return
    draft.cells["cudnn"] = major or None
    if major:
        draft.say("cudnn", f"build_info names cuDNN {major} only.")
    else:
        draft.say("cudnn", "cuDNN was not read.", gap=True)


def _add_extra(draft: Draft, contents: Contents) -> None:
    """List the extra that brings NVIDIA's wheels, and those it brings here."""
    platform, pythons = draft.group.platform, draft.cells["pythons"]
    requirements = parse_requirements(contents.metadata)
    bringing = sorted(
        {extra_of(item) for item in requirements if extra_of(item) and item.name.startswith("nvidia-cudnn")}
    )
    found = False
    if bringing and platform == "linux_x86_64":
        extra = bringing[0]
        mine = [item for item in requirements if extra_of(item) == extra]
        wheels = [bare(item) for item in mine if any(holds(item, platform, python, extra) for python in pythons)]
        draft.cells.update(gpu_extra=extra, extras=bringing, cuda_wheels=wheels)
        draft.say("finds_cuda_wheels", "That it finds the wheels of its extra was not read.", gap=True)
        found = True
    draft.cells["finds_cuda_wheels"] = found
    draft.proof["finds_cuda_wheels"] = "documented"


def _add_architectures(draft: Draft, facts: dict[str, Any]) -> None:
    stated = facts.get("cuda_compute_capabilities") or []
    targets = [item for item in stated if isinstance(item, str) and re.fullmatch(r"(sm|compute)_\d{2,3}[af]?", item)]
    draft.cells["compute_capabilities"] = list(dict.fromkeys(targets))
    if not targets:
        draft.say("compute_capabilities", "Compute capabilities were not read.", gap=True)


def _version(stated: Any, *, dotted: bool) -> str:
    """Read a version as build_info states it, Windows' spelling too: "12.5.1", "64_112" -> "11.2", "64_8" -> "8"."""
    text = re.sub(r"^64_", "", stated) if isinstance(stated, str) else ""
    if not re.fullmatch(r"\d+(\.\d+)*", text):
        return ""
    packed = dotted and isinstance(stated, str) and (stated.startswith("64_") or len(text) == 3) and "." not in text
    return f"{text[:-1]}.{text[-1]}" if packed and len(text) > 1 else text

"""Derive the rows of a release from its wheels."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from envcheck.matrix.refresh.pip_settings import ArtifactError
from envcheck.matrix.refresh.wheel_contents import (
    Contents,
    bare,
    classified_pythons,
    columns,
    extra_of,
    holds,
    lower_bound,
    parse_constants,
    parse_field,
    parse_requirements,
)
from envcheck.matrix.refresh.wheels import Group, Wheel, glibc_of

if TYPE_CHECKING:
    from packaging.requirements import Requirement


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
        _add_torch_architectures(draft, contents)
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


def _add_torch_architectures(draft: Draft, contents: Contents) -> None:
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


_LIBRARIES = r"nvidia-(cuda-runtime|cudnn|cublas)-cu\d+"


def draft_companion(group: Group, contents: Contents) -> Draft | None:
    """Draft the row of a companion's release on one platform."""
    draft = start_draft(group, contents)
    if draft is None:
        return None
    if not group.pythons():
        draft.say("pythons", "Its name states no Python; those that its classifiers name are listed.")
    if "tensorrt" in group.distribution:
        _add_tensorrt_cuda(draft, contents)
    else:
        _add_tensorflow(draft)
    add_glibc(draft)
    return draft


def _add_tensorflow(draft: Draft) -> None:
    """State which TensorFlow it goes with, where its metadata bounds it: tf-keras 2.15.1 asks for >=2.15,<2.16."""
    asked = draft.cells["requires"].get("tensorflow", "")
    if "<" in asked or "=" in asked.replace(">=", ""):
        draft.cells["tensorflow"] = asked
    else:
        draft.cells["tensorflow"] = None
        draft.say("tensorflow", "Which TensorFlow it goes with was not read.", gap=True)


def _add_tensorrt_cuda(draft: Draft, contents: Contents) -> None:
    """State the CUDA major of a TensorRT wheel, by its name or by the CUDA wheels it requires."""
    wheels = [
        item
        for item in parse_requirements(contents.metadata)
        if re.fullmatch(_LIBRARIES, item.name) and not extra_of(item)
    ]
    majors = {item.name.rpartition("-cu")[2] for item in wheels}
    named = re.search(r"-cu(\d+)-", draft.group.distribution)
    if named:
        majors = {named[1]}
        draft.say("cuda", "The wheel holds Python bindings only.")
    if len(majors) == 1:
        draft.cells["cuda"] = majors.pop()
        draft.say("cuda", "Only the CUDA major is stated.")
    if wheels:  # the libraries are inside
        draft.cells.update(cuda_build=True, compute_capabilities=[], cuda_wheels=[bare(item) for item in wheels])
        draft.say("compute_capabilities", "Compute capabilities were not read.", gap=True)


def draft_release(
    framework: str,
    groups: Sequence[Group],
    contents: Mapping[str, Contents],
    published: Mapping[str, Collection[str]],
) -> list[Draft]:
    """Draft the rows of one release.

    `contents` is by the SHA-256 of the representatives: a group without is left out. `published` lists the versions
    of each distribution of the framework.
    """
    kept = [group for group in groups if group.representative.sha256 in contents]
    made = [_draft(framework, group, contents[group.representative.sha256], published) for group in kept]
    drafts = [draft for draft in made if draft is not None]
    if framework == "jax":
        lend_wheels(by_key(drafts))
    return drafts


def _draft(framework: str, group: Group, contents: Contents, published: Mapping[str, Collection[str]]) -> Draft | None:
    try:
        if framework == "tensorflow":
            return draft_tensorflow(group, contents)
        if framework == "torch":
            return draft_torch(group, contents)
        if framework == "jax":
            return draft_jax(group, contents, published)
        return draft_companion(group, contents)
    except ArtifactError as error:
        raise ArtifactError(f"{group.representative.filename} cannot be used: {error}.") from error

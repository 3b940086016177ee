"""Derive the rows of a release from its wheels.

What all frameworks have in common, then what each states itself.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from envcheck.frameworks import (
    Framework,
    all_frameworks,
    distribution_names,
    framework_of,
    identity,
)
from envcheck.frameworks.base import Need, RowDraft
from envcheck.matrix.companions import companion_row, load_companions, published_framework
from envcheck.matrix.load import check_cells
from envcheck.matrix.refresh.index import ArtifactError, Group, Wheel, glibc_of
from envcheck.matrix.refresh.wheel_contents import (
    COLUMNS,
    CUBINS,
    CUT_OFF,
    Contents,
    bare,
    columns,
    extra_of,
    holds,
    lower_bound,
    nested_extras,
    parse_constants,
    parse_requirements,
    required_python,
)
from envcheck.model import FrameworkRelease, list_fields, numbers
from envcheck.model.versions import Requirement, read_requirement

Row = dict[str, Any]

# Sentences of a note that are written here, beside those of the frameworks; all else is somebody's
# finding and is kept.
_REMARKS = (
    r"[\w-]+[<>=!~].* from Python 3\.\d+ on\.",
    r"Compute capabilities were not read\.",
    r"(CUDA|cuDNN) was not read\.",
    r"Only the CUDA major is stated\.",
    r"Whether it is built for CUDA was not read\.",
    r"Its binaries name no library of CUDA\.",
    r"The names of its cubin files state the GPUs(, but for some)?\.",
    r"It has libraries for CUDA \d+(, \d+)*\.",
    r"glibc was not read; the tag is not trusted\.",
    r"The compiler was not read\.",
    r"Which TensorFlow it goes with was not read\.",
    r"The wheel holds Python bindings only\.",
    r"What it requires is what its extra [\w-]+ asks for\.",
    (
        r"Its name states (no|only the oldest) Python; those that its (classifiers name|metadata"
        r" admits) are listed\."
    ),
    r"Yanked wheels: \d+ of \d+( \(.*\))?\.",
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
    """A row in the making, for one release of a distribution on one platform.

    What a framework fills is a RowDraft.
    """

    group: Group
    contents: Contents
    # versions of each distribution
    published: Mapping[str, Collection[str]] = field(default_factory=dict)
    # what was read of the wheel, as its citation says it
    members: list[str] = field(default_factory=list)
    cells: Row = field(default_factory=dict)
    proof: dict[str, str] = field(default_factory=dict)  # of the cells that are not tier 1
    remarks: list[Remark] = field(default_factory=list)
    also: list[str] = field(default_factory=list)  # other artifacts it rests on, by citation id

    @property
    def key(self) -> tuple[str, str]:
        """Return what tells it from the other rows of its release."""
        return self.group.distribution, self.group.platform

    @property
    def distribution(self) -> str:
        """Return the name of the distribution."""
        return self.group.distribution

    @property
    def platform(self) -> str:
        """Return the platform: linux_x86_64."""
        return self.group.platform

    @property
    def entries(self) -> int:
        """Return how many members the wheel has."""
        return self.contents.entries

    @property
    def citation_id(self) -> str:
        """Name its wheel in the citation table: tensorflow-2.15.0-mac-arm64."""
        platform = (
            re.sub(r"^linux_", "", self.group.platform)
            .replace("macosx_", "mac-")
            .replace("win_amd64", "win")
        )
        return f"{self.group.distribution}-{self.group.version}-{platform}"

    @property
    def wheel(self) -> Wheel:
        """Return the wheel that was read for it."""
        return self.group.representative

    @cached_property
    def needs(self) -> tuple[Need, ...]:
        """Return the requirements of its wheel."""
        return tuple(map(self._need, parse_requirements(self.contents.metadata)))

    def _need(self, item: Requirement) -> Need:
        extra = extra_of(item)
        here = any(holds(item, self.platform, python, extra) for python in self.cells["pythons"])
        return Need(item.name, extra, bare(item), lower_bound(item), here)

    def constants(self, ending: str) -> dict[str, Any]:
        """Return what a Python text binds to literals, by the end of its name.

        Empty where there is none.
        """
        text = self.contents.text(ending)
        return parse_constants(text) if text else {}

    def cite(self, member: str) -> None:
        """Say in the row's citation that a member was read."""
        self.members.append(member)

    def say(self, cell: str, text: str, *, gap: bool = False) -> None:
        """Add a sentence to its note."""
        self.remarks.append(Remark(cell, text, gap))

    def unsay(self, cell: str) -> None:
        """Take back what was said of a cell."""
        self.remarks = [item for item in self.remarks if item.cell != cell]

    def infer(self, cell: str, value: Any) -> None:
        """Fill a cell with what no artifact states."""
        self.cells[cell] = value
        self.proof[cell] = "documented"

    def is_published(self, need: Need) -> bool:
        """Return whether the index has a release of the same framework that meets a requirement."""
        asked = read_requirement(need.text)
        return any(
            asked.admits(version, prereleases=False)
            for version in self.published.get(asked.name, ())
        )

    def rest_on(self, other: RowDraft) -> None:
        """Cite the wheel of another row, too."""
        if isinstance(other, Draft):
            self.also.append(other.citation_id)

    def add_glibc(self) -> None:
        """State the glibc that a Linux wheel's tags imply, or that they imply none."""
        if self.platform.startswith("linux"):
            self.cells["glibc"] = glibc_of(self.group.tags)
            if self.cells["glibc"] is None:
                self.say("glibc", "glibc was not read; the tag is not trusted.", gap=True)


def start_draft(
    group: Group,
    contents: Contents,
    published: Mapping[str, Collection[str]],
    names: Sequence[str] = COLUMNS,
) -> Draft | None:
    """Fill the cells that every row has, with what it requires of `names`.

    Return None for a release without any Python.
    """
    pythons = _list_pythons(group, contents.metadata)
    if not pythons:
        return None
    read = ["METADATA (RECORD has another hash of it)" if contents.altered else "METADATA"]
    draft = Draft(group, contents, published, read)
    requirements = parse_requirements(contents.metadata)
    extra = _usual_extra(group.distribution, requirements)
    extras = nested_extras(requirements, group.distribution, extra) if extra else ()
    # sglang[srt] requires sglang[runtime-common]
    others = [name for name in names if name != group.distribution]
    requires, notes = columns(requirements, group.platform, pythons, others, extras)
    draft.cells = {
        "pythons": pythons,
        "tags": group.tags,
        "requires": requires,
        "cuda_build": False,
    }
    if extra:
        draft.cells["usual_extra"] = extra
        draft.say("requires", f"What it requires is what its extra {extra} asks for.")
    free_threaded = group.pythons(free_threaded=True)
    if free_threaded:
        draft.cells["free_threaded"] = free_threaded
    for note in notes:
        draft.say("requires", note)
    if group.yanked:
        draft.cells["yanked"] = group.yanked == len(group.wheels)
        draft.say("yanked", group.yank_remark)
    for wheel in group.left_out:
        draft.say("pythons", f"Left out, since no installer takes it: {wheel.filename}.")
    return draft


def _usual_extra(distribution: str, requirements: list[Requirement]) -> str:
    """Return the extra that brings the framework where the base does not; "" for none."""
    row = companion_row(distribution)
    needed = {name for framework in row.frameworks for name in identity(framework).distributions}
    holders = {extra_of(item) for item in requirements if item.name in needed}
    if row.usual_extra in holders and "" not in holders:
        return row.usual_extra
    return ""


def _list_pythons(group: Group, metadata: str) -> list[str]:
    """List the Pythons that pip installs a release on.

    Those that a name states, or that it and the metadata admit.

    Classifiers are no limit:
    https://packaging.python.org/en/latest/specifications/core-metadata/#requires-python
    """
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        required = SpecifierSet(required_python(metadata))
    except InvalidSpecifier:
        required = SpecifierSet()
    known = filter(group.admits, load_companions().pythons)
    admitted = (python for python in known if required.contains(f"{python}.0"))
    return sorted({*group.pythons(), *admitted}, key=numbers)


def sentences(note: str) -> list[str]:
    """Part a note into its sentences."""
    return [part for part in re.split(r"(?<=\.) (?=[A-Za-z])", note) if part]


def is_remark(sentence: str) -> bool:
    """Return whether a sentence of a note is one that a renewal writes."""
    return any(re.fullmatch(pattern, sentence) for pattern in _list_patterns())


@lru_cache(maxsize=1)
def _list_patterns() -> tuple[str, ...]:
    return (*_REMARKS, *(pattern for each in all_frameworks() for pattern in each.wheels.remarks))


_LIBRARIES = r"nvidia-(cuda-runtime|cudnn|cublas)-cu\d+"
_LINKED = (
    r"^(?:lib(?:cudart|cublas|cublasLt|nvrtc|nvJitLink)(?:[.-][0-9a-f]{8})?\.so\."
    r"|(?:(?:cudart|cublas|cublasLt|nvrtc)64|nvJitLink)_)(1\d)"
)
# Libraries that only a build for some CUDA needs, and all that have to do with CUDA, the driver's
# among them.
_NEEDS_CUDA = re.compile(r"^(lib)?(\w+_cuda|nvcudart\w*)\.(so|dll)", re.MULTILINE)
_OF_CUDA = re.compile(
    r"^(lib)?(cu(da|blas|dnn|fft|pti|rand|solver|sparse)|nv(cu|infer|rtc|JitLink|jpeg))",
    re.MULTILINE,
)
_OF_MAJOR = r"^[\w-]+-cu(\d\d)(?![\w])"


@lru_cache(maxsize=1)
def _names_beside() -> tuple[str, ...]:
    """Name what a companion's row says that it requires.

    The columns, the frameworks, and other companions.
    """
    beside = (name for row in load_companions().rows if row.releases for name in row.distributions)
    return tuple(
        dict.fromkeys(
            (*COLUMNS, *(name for name in distribution_names() if "*" not in name), *beside)
        )
    )


def fill_companion(draft: Draft) -> None:
    """Fill the row of a companion's release on one platform."""
    oldest = [item for wheel in draft.group.wheels for item in wheel.name.oldest_pythons]
    if oldest:
        stated = "only the oldest Python"
        if max(oldest) <= (3, 0):
            stated = "no Python"
        draft.say(
            "pythons", f"Its name states {stated}; those that its metadata admits are listed."
        )
    for name in {*companion_row(draft.distribution).frameworks[:1]}.intersection(_CELLS):
        _add_framework(draft, name)
    _add_cuda(draft)
    draft.add_glibc()


_CELLS = list_fields(FrameworkRelease)


def _add_framework(draft: Draft, name: str) -> None:
    """State which framework releases it goes with, where metadata bounds them."""
    asked = draft.cells["requires"].get(name, "")
    if "<" in asked or "=" in asked.replace(">=", ""):
        draft.cells[name] = asked
    else:
        draft.cells[name] = None
        draft.say(name, f"Which {identity(name).title} it goes with was not read.", gap=True)


def _add_cuda(draft: Draft) -> None:
    """State the CUDA major, and whether the wheel is for CUDA at all.

    The gap where neither can be read.
    """
    wheels = [
        need.text for need in draft.needs if re.fullmatch(_LIBRARIES, need.name) and not need.extra
    ]
    names = {name: text for name, text in draft.contents.texts.items() if name != CUBINS}
    linked = {major for text in names.values() for major in re.findall(_LINKED, text, re.MULTILINE)}
    named = re.findall(r"-(?:cu|cuda)(\d\d)", draft.distribution)
    has_code = companion_row(draft.distribution).binaries != "(?!)" and draft.platform.startswith(
        ("linux", "win")
    )
    asked = wheels
    if has_code:
        asked = [need.text for need in draft.needs if not need.extra]
    majors = (
        set(named) or linked or {major for text in asked for major in re.findall(_OF_MAJOR, text)}
    )
    if linked:
        draft.cite(f"libraries of {len(names)} binaries")
    if named and not has_code:
        draft.say("cuda", "The wheel holds Python bindings only.")
    # its CUDA lies in parts that it requires
    is_judged = bool(named and framework_of(draft.distribution))
    is_for_cuda = is_judged or bool(wheels or linked or (named and has_code))
    is_for_cuda = is_for_cuda or any(map(_NEEDS_CUDA.search, names.values()))
    if is_for_cuda:
        draft.cells.update(cuda_build=True, cuda_wheels=wheels)
    elif has_code:
        _add_absence(draft, names)
    if is_for_cuda or majors:
        _add_majors(draft, sorted(majors, key=int))
    _add_extras(draft)
    _add_gpu_code(draft, is_unread=is_for_cuda or "cuda_build" in draft.proof)


def _add_majors(draft: Draft, majors: list[str]) -> None:
    """State the one CUDA major of a wheel, or why there is none."""
    draft.cells["cuda"] = majors[0] if len(majors) == 1 else None
    if len(majors) == 1:
        draft.say("cuda", "Only the CUDA major is stated.")
    elif majors:
        draft.say("cuda", f"It has libraries for CUDA {', '.join(majors)}.")
    else:
        draft.say("cuda", "CUDA was not read.", gap=True)


def _add_absence(draft: Draft, names: Mapping[str, str]) -> None:
    """State that a wheel is not for CUDA, where its binaries name no CUDA library."""
    if names and not any(CUT_OFF in text or _OF_CUDA.search(text) for text in names.values()):
        draft.say("cuda_build", "Its binaries name no library of CUDA.")
        draft.cite(f"libraries of {len(names)} binaries")
    else:
        draft.infer("cuda_build", value=False)
        draft.say("cuda_build", "Whether it is built for CUDA was not read.", gap=True)


def _add_gpu_code(draft: Draft, *, is_unread: bool) -> None:
    """State the GPU code that the names of cubin files tell, or that none was read."""
    targets = draft.contents.texts.get(CUBINS, "").split()
    if targets:
        draft.cells["compute_capabilities"] = [target for target in targets if target != "?"]
        draft.cite("names of cubin files")
        rest = ", but for some" if "?" in targets else ""
        draft.say("compute_capabilities", f"The names of its cubin files state the GPUs{rest}.")
    elif is_unread:
        draft.cells["compute_capabilities"] = []
        draft.say("compute_capabilities", "Compute capabilities were not read.", gap=True)


def _add_extras(draft: Draft) -> None:
    """List a package's extras that bring NVIDIA's wheels: ctk of cupy-cuda12x."""
    if companion_row(draft.distribution).frameworks:
        return
    wheels = [
        need
        for need in draft.needs
        if need.extra and need.here and re.match(r"nvidia-|cuda-toolkit", need.name)
    ]
    wheels = [need for need in wheels if not need.extra.startswith(("test", "dev", "doc"))]
    extras = sorted({need.extra for need in wheels})
    if extras:
        draft.cells.update(extras=extras, cuda_wheels=[need.text for need in wheels])
    if len(extras) == 1:
        draft.cells["gpu_extra"] = extras[0]
    if any(need.name == "cuda-pathfinder" and not need.extra for need in draft.needs):
        draft.cells["finds_cuda_wheels"] = True


def draft_release(
    name: str,
    groups: Sequence[Group],
    contents: Mapping[str, Contents],
    published: Mapping[str, Collection[str]],
) -> tuple[list[Draft], dict[str, str]]:
    """Draft the rows of one release of a framework or companion.

    Map the SHA-256 of each odd wheel to the reason.

    `contents` is by the SHA-256 of the representatives: a group without is left out. `published`
    lists the versions of each distribution of the framework.
    """
    known = published_framework(name)
    kept = [group for group in groups if group.representative.sha256 in contents]
    made = [
        _draft(known, group, contents[group.representative.sha256], published) for group in kept
    ]
    drafts = [draft for draft in made if isinstance(draft, Draft)]
    odd = {
        group.representative.sha256: item
        for group, item in zip(kept, made, strict=True)
        if isinstance(item, str)
    }
    if known is not None:
        known.complete({draft.key: draft for draft in drafts})
    return drafts, odd


# What reading a wheel raises where its texts hold what no wheel held before, such as a version that
# is a list.
_MISREADINGS = (ArtifactError, ValueError, TypeError, KeyError, IndexError, AttributeError)


def _draft(
    known: Framework | None,
    group: Group,
    contents: Contents,
    published: Mapping[str, Collection[str]],
) -> Draft | str | None:
    """Draft the row of one wheel; return the reason for one that states what no row can hold."""
    try:
        draft = start_draft(group, contents, published, COLUMNS if known else _names_beside())
        if draft is not None:
            fill = known.draft if known else fill_companion
            fill(draft)
            check_cells(draft.cells)
    except _MISREADINGS as error:
        return f"{group.representative.filename} cannot be used: {str(error).rstrip('.')}."
    return draft

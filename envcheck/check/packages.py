"""What the commands of a file install one after the other, and whether packages go with the frameworks below them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from envcheck.check.blueprint import Blueprint, Image, Line, is_for_gpu
from envcheck.diagnosis.planned import name_working_releases
from envcheck.matrix.companions import TorchBuild, companion_row, find_file, shares_cuda
from envcheck.matrix.images import load_base_images
from envcheck.matrix.query import Matrix
from envcheck.model import (
    COMPATIBLE,
    ERROR,
    INCOMPATIBLE,
    NOTE,
    WARNING,
    Evidence,
    Finding,
    FrameworkRelease,
    Remedy,
    Source,
    dataclass,
    major_minor,
    numbers,
    replace,
)
from envcheck.model.specifiers import within
from envcheck.rules import Context, Target
from envcheck.rules.builds import PEER, WantedRelease, required_frameworks, supports_python, wanted_releases
from envcheck.rules.described_machine import Description, with_hardware
from envcheck.rules.gpu_releases import driver_floor, full_driver, toolkit_of
from envcheck.rules.requirements import marker_holds

CONFLICT = "dependency-conflict"
MISMATCH = "extension-build-mismatch"
WRONG_TOOLKIT = "toolkit-wrong-version"


def name_of_line(line: Line) -> str:
    """Return the normalized name of a requirement; "" for what is none, or names a URL."""
    try:
        requirement = Requirement(line.text)
    except InvalidRequirement:
        return ""
    return "" if requirement.url else str(canonicalize_name(requirement.name))


@dataclass(frozen=True)
class Held:
    """A release that an environment holds, and the line that brought it."""

    row: FrameworkRelease
    line: Line

    @property
    def label(self) -> str:
        """Name it as people do: torch 2.8.0+cu126."""
        return f"{self.row.distribution} {self.row.build_version}"


@dataclass(frozen=True)
class Judged:
    """Requirements to judge together, at the line that they come from; only these finding ids where there are any."""

    line: Line
    texts: tuple[str, ...]
    only: frozenset[str] = frozenset()
    owner: str = ""  # the package that brings it: vllm 0.33.0
    instead: str = ""  # what goes with the framework that is there: vllm==0.11.0

    @property
    def label(self) -> str:
        """Name what is judged as people do: torch 2.14.0."""
        return self.texts[0].replace("==", " ")


class Environment:
    """What an environment holds after each command; it starts as its image."""

    def __init__(self, context: Context, blueprint: Blueprint) -> None:
        """Take a context with the facts of the file, and what the file states."""
        self.context, self.image, self.inherited = context, blueprint.image, frozenset(blueprint.inherited)
        by_url = any("://" in line.text for line in blueprint.requirements)
        self.is_open = bool(blueprint.conda or blueprint.gaps or by_url)  # it holds more than what is read here
        image = blueprint.image
        self.frameworks: dict[str, Held] = {}
        self.packages: dict[str, Held] = {}
        self.findings: list[Finding] = []
        self.built_files: dict[Line, str] = {}  # of what is compiled: the file that is built already
        for text in (*image.frameworks, *image.packages) if image else ():
            line = Line(text.replace("-cpu", ""), image.location if image else "")
            if "==" in text:
                self._hold(line, wanted_releases(self._asking((line.text,))))

    def computes_on_gpu(self, beside: str) -> bool:
        """Tell whether it holds a framework with CUDA other than this one, or an image that may hold one."""
        others = [held for name, held in self.frameworks.items() if name != beside]
        if any(held.row.cuda_build and held.line.index != "cpu" for held in others):
            return True
        if self.image is None or not is_for_gpu(self.image):
            return False
        # Its name says no release of its framework, or nothing of what it holds.
        named = [name_of_line(Line(text, "")) for text in self.image.frameworks]
        return not self.image.source or any(name not in (beside, f"{beside}-cpu") for name in named)

    def _asking(self, texts: tuple[str, ...]) -> Context:
        return Context(self.context.facts, self.context.matrix, Target(self.context.goal, texts))

    def _hold(self, line: Line, wanted: Iterable[WantedRelease]) -> None:
        for item in wanted:
            if item.package is not None:
                self.packages[item.distribution] = Held(item.package, line)
            elif item.build is not None and item.build.release is not None:
                self.frameworks[item.framework] = Held(self._labelled(item.build.release, line), line)

    def _labelled(self, row: FrameworkRelease, line: Line) -> FrameworkRelease:
        """Return the build of a release that the index of a command has; the default one where it has none."""
        label = row.local or line.label
        builds = (row, *self.context.matrix.index_builds(row))
        return next((item for item in builds if label and item.local == label), row)

    def install(self, lines: Iterable[Line]) -> Iterator[Judged]:
        """Run the commands that lines come from, and yield what is to be judged."""
        for _, group in groupby(lines, key=lambda line: line.command):
            named = [line for line in group if name_of_line(line)]
            for line in named:
                self._check_sources(line)
            yield from self._install_together([line for line in named if not is_source(line)])

    def _install_together(self, lines: list[Line]) -> Iterator[Judged]:
        wanted = wanted_releases(self._asking(tuple(line.text for line in lines)))
        places = {name_of_line(line): line for line in lines}
        has_packages = any(item.package or item.obstacle == PEER for item in wanted)
        for item in wanted:
            line = places.get(item.distribution)
            if item.required_by:
                yield from self._bring(item, places)
            elif line is not None and not self.context.matrix.companion_of(item.distribution):
                yield self._place_framework(item, line, narrowed=has_packages)
            elif line is not None and item.obstacle:
                yield self._refuse(item, line, wanted)
        yield from (Judged(line, (line.text,)) for line in lines if places[name_of_line(line)] is not line)
        self._hold_packages(wanted, places)

    def _check_sources(self, line: Line) -> None:
        """Judge what is compiled, or comes from a page of wheels: its framework is the one of an earlier command."""
        name = name_of_line(line)
        pages = ((item, re.search(rf"/{item}-(\d+\.\d+)", line.links)) for item in self.context.matrix.frameworks())
        framework, page = next((item for item in pages if item[1]), ("", None))
        framework = framework or next(iter(companion_row(name).frameworks), "")
        held = self.frameworks.get(framework)
        if not framework or not is_source(line) or self.context.goal != "gpu" or line in self.inherited:
            return
        if page and held and major_minor(held.row.version) != page[1]:
            message = f"{name} comes from a page of wheels for {framework} {page[1]}, but {held.label} is installed."
            advice = f"Use the page for {framework} {major_minor(held.row.version)}."
            self.findings.append(_finding(MISMATCH, message, replace(held, line=line), held.label, advice))
        elif not line.links and held is None and not self.is_open:
            self._find_no_framework(line, name, framework)
        elif not line.links and held is not None:
            self._find_build_problems(line, name, replace(held, line=line))

    def _find_no_framework(self, line: Line, name: str, framework: str) -> None:
        is_known = self.image is not None and bool(self.image.source) and not self.image.is_partial
        message = f"{name} is compiled against {framework}, which no step before this one installs."
        evidence = (Evidence("requirement", line.text, Source("file", line.location, line.text)),)
        fix = Remedy(f"Install {framework} in a step before it, and {name} with --no-build-isolation.")
        verdict, severity = (INCOMPATIBLE, ERROR) if is_known else (COMPATIBLE, WARNING)
        self.findings.append(Finding(CONFLICT, verdict, severity, message, evidence, fix=fix))

    def _find_build_problems(self, line: Line, name: str, held: Held) -> None:
        """Find a build that does not see the framework, and one by the compiler of another CUDA."""
        built = find_file(name, str(Requirement(line.text).specifier), self._torch_build(held))
        if built is not None:
            self.built_files[line] = " ".join((f"'{built.requirement}'", *built.options))
        if line.is_isolated:
            message = (
                f"{name} is compiled in an isolated environment, where it finds no {held.row.distribution}, or "
                f"another one than {held.label}."
            )
            newest = next(iter(self.context.matrix.versions(held.row.framework)), "")
            severity = WARNING if held.row.version == newest else ERROR
            advice = f"Install {name} with --no-build-isolation. {self.name_built_file(line)}".rstrip()
            self.findings.append(_finding(MISMATCH, message, held, held.label, advice, severity=severity))
        image = self.image
        own, other = numbers(image.cuda if image else ""), numbers(held.row.cuda or "")
        if image and image.flavor == "devel" and own and other and own[:1] != other[:1]:
            message = (
                f"{name} is compiled by the nvcc {major_minor(image.cuda)} of {image.reference}, but {held.label} is "
                f"for CUDA {held.row.cuda}: {held.row.distribution} stops a build by another major version."
            )
            self.findings.append(_finding(WRONG_TOOLKIT, message, held, held.label, self._name_build_for(image, held)))

    def _torch_build(self, held: Held) -> TorchBuild:
        facts, row = self.context.facts, held.row
        python = major_minor(facts.python.version.value or "")
        return TorchBuild(
            row.build_version, row.cuda or "", python, self.context.platform, facts.host.libc_version.value or ""
        )

    def name_built_file(self, line: Line) -> str:
        """Say which file installs what is compiled; "" where no built file is known."""
        built = self.built_files.get(line, "")
        return (
            f"Install the file that its project built (documented, not read): `pip install {built}`." if built else ""
        )

    def _name_build_for(self, image: Image, held: Held) -> str:
        rows = self.context.matrix.builds(held.row.framework, self.context.platform)
        fitting = (
            row
            for row in rows
            if row.cuda and row.cuda_build and numbers(row.cuda)[:1] == numbers(image.cuda)[:1] and not row.yanked
        )
        row = next((item for item in fitting if supports_python(self.context, item)), None)
        index = f" --index-url {row.index}" if row and row.index else ""
        other = f", or install `{row.distribution}=={row.build_version}{index}` before it" if row else ""
        return f"Build on a devel image with CUDA {held.row.cuda}{other}."

    def _place_framework(self, item: WantedRelease, line: Line, *, narrowed: bool) -> Judged:
        build = item.build
        if build is None or build.release is None:
            return Judged(line, (line.text,))
        row = self._newest_labelled(item, line) or self._labelled(build.release, line)
        self.frameworks[item.framework] = Held(row, line)
        is_other = narrowed or bool(row.local and row.local != build.local)
        return Judged(line, (self._pin(item, row),) if is_other else (line.text,))

    def _newest_labelled(self, item: WantedRelease, line: Line) -> FrameworkRelease | None:
        """Return the newest release that the one index of a command has; None where another one serves it, too."""
        if not line.label or not line.is_only_index:
            return None
        matrix = self.context.matrix
        rows = matrix.builds(
            item.framework, self.context.platform, admits=lambda version: within(version, item.specifier)
        )
        fitting = (row for row in rows if row.local == line.label and row.distribution == item.distribution)
        return next((row for row in fitting if supports_python(self.context, row)), None)

    @staticmethod
    def _pin(item: WantedRelease, row: FrameworkRelease) -> str:
        extras = f"[{','.join(item.extras)}]" if item.extras else ""
        return f"{item.distribution}{extras}=={row.build_version}"

    def _bring(self, item: WantedRelease, places: dict[str, Line]) -> Iterator[Judged]:
        """Install the framework that a package requires, unless one is there that it accepts."""
        line = places[item.required_by.split(" ")[0]]
        held = self.frameworks.get(item.framework)
        if held is not None and within(held.row.version, item.specifier):
            return
        if item.build is None or item.build.release is None:
            yield Judged(line, (item.text,), owner=item.required_by)
            return
        row = self._labelled(item.build.release, line)
        self.frameworks[item.framework] = Held(row, line)
        fitting = self._fitting(name_of_line(line), item.framework, held.row) if held else ""
        if held is not None:
            self.findings.append(self._warn_replaced(item, held, row, fitting))
        yield Judged(line, (self._pin(item, row),), owner=item.required_by, instead=fitting)

    def _warn_replaced(self, item: WantedRelease, held: Held, row: FrameworkRelease, fitting: str) -> Finding:
        """Warn that a command replaces the framework of the image, or of an earlier command."""
        origin = f" of {self.image.reference}" if self.image and self._is_of_image(held) else ""
        other = f", a build for CUDA {row.cuda}" if row.cuda != held.row.cuda and row.cuda else ""
        message = (
            f"{item.required_by} requires {item.text}, so this step replaces {held.label}{origin} "
            f"by {row.distribution} {row.build_version}{other}."
        )
        advice = f"Ask for {fitting}, which goes with {held.label}." if fitting else "Start from an image without it."
        shown = f"{item.required_by}: {item.text}"
        return _finding(CONFLICT, message, self.frameworks[item.framework], shown, advice, severity=WARNING)

    def _is_of_image(self, held: Held) -> bool:
        return self.image is not None and held.line.location == self.image.location

    def _fitting(self, name: str, framework: str, row: FrameworkRelease) -> str:
        rows = self.context.matrix.companions_of(framework, row.version, self.context.platform, name)
        fitting = (item for item in rows if supports_python(self.context, item) and shares_cuda(item, row))
        return next((f"{item.distribution}=={item.version}" for item in fitting), "")

    def _refuse(self, item: WantedRelease, line: Line, wanted: Iterable[WantedRelease]) -> Judged:
        """Judge a package without a release: by itself, or with the frameworks that it does not go with."""
        if item.obstacle != PEER:
            return Judged(line, (line.text,))
        peers = (other.text for other in wanted if other.build is not None)
        return Judged(line, (line.text, *peers), frozenset({CONFLICT}))

    def _hold_packages(self, wanted: Iterable[WantedRelease], places: dict[str, Line]) -> None:
        for item in wanted:
            if item.package is not None and item.distribution in places:
                held = Held(item.package, places[item.distribution])
                self.packages[item.distribution] = held
                if self.context.goal == "gpu":
                    self._compare_cuda(held)
        self._find_broken(places)

    def _compare_cuda(self, held: Held) -> None:
        """Warn of a package that was built for another CUDA than the framework that comes to lie beside it."""
        for framework in required_frameworks(held.row):
            other = self.frameworks.get(framework)
            is_of_index = bool(held.line.label) and (
                bool(held.line.own_index) or companion_row(held.row.distribution).on_index
            )
            if other is None or is_of_index or not other.row.cuda or shares_cuda(held.row, other.row):
                continue
            message = (
                f"{held.label} was built for CUDA {held.row.cuda}, but the {other.label} beside it for CUDA "
                f"{other.row.cuda}: its CUDA code cannot be loaded."
            )
            pair = name_working_releases(self.context, (name_of_line(held.line),))
            advice = f"Ask for `{pair}`, which are for one CUDA." if pair else ""
            self.findings.append(_finding(MISMATCH, message, held, f"{held.label}: CUDA {held.row.cuda}", advice))

    def _find_broken(self, places: dict[str, Line]) -> None:
        """Find packages of the image or an earlier command whose framework a command replaces."""
        for name, held in self.packages.items():
            for framework, pin in required_frameworks(held.row).items():
                other = self.frameworks.get(framework)
                if (
                    name in places
                    or other is None
                    or within(other.row.version, pin)
                    or other.line not in places.values()
                ):
                    continue
                message = f"This step installs {other.label}, but {held.label} requires {framework}{pin}."
                advice = f"Ask for {framework}{pin}, or install {name} together with it."
                at_step = replace(held, line=other.line)
                self.findings.append(_finding(CONFLICT, message, at_step, f"{held.label}: {framework}{pin}", advice))

    def note_driver(self) -> Iterator[Finding]:
        """Say which driver the frameworks need where nobody states one; warn where the image's own CUDA needs less."""
        for held in self.frameworks.values():
            toolkit = toolkit_of(self.context, held.row.cuda) if held.row.cuda else None
            floor = driver_floor(self.context, toolkit) if toolkit else None
            if not floor or self._is_of_image(held):
                continue
            message = f"{held.label} is built for CUDA {held.row.cuda}, so it needs driver >= {floor}."
            own = self._image_driver()
            if not own or numbers(floor) <= numbers(own):
                yield _finding("driver-too-old", message, held, held.label, severity=NOTE)
                continue
            assert self.image is not None  # noqa: S101 - it has a driver
            message = f"{message} {self.image.reference} alone needs {own}."
            other = name_working_releases(self._on_driver(self._image_driver(full=True)), (name_of_line(held.line),))
            advice = f"If the driver may be older, ask for `{other}`" if other else "Use an image for that CUDA"
            advice += "; --driver states the driver that you have."
            yield _finding("driver-too-old", message, held, held.label, advice, severity=WARNING)

    def _image_driver(self, *, full: bool = False) -> str:
        """Return the driver that the CUDA of the image needs, or in full comes with; "" where it names none."""
        toolkit = toolkit_of(self.context, self.image.cuda) if self.image and self.image.cuda else None
        return ((full_driver if full else driver_floor)(self.context, toolkit) or "") if toolkit else ""

    def _on_driver(self, release: str) -> Context:
        facts = with_hardware(self.context.facts, Description(driver=release), self.context.matrix)
        return Context(facts, self.context.matrix, self.context.target)

    def list_open(self) -> Iterator[Line]:
        """Say which release was judged of what is not pinned, and which packages nothing is known of."""
        for held in self.packages.values():
            if not self._is_of_image(held) and not _is_pinned(held.line):
                names = [name for name in required_frameworks(held.row) if name in self.frameworks]
                with_text = f" with {' and '.join(self.frameworks[name].label for name in names)}" if names else ""
                message = f"{held.line.text} is not pinned: it was judged as {held.label}{with_text}."
                yield replace(held.line, text=message)


def is_source(line: Line) -> bool:
    """Tell whether a package is compiled when it is installed."""
    return name_of_line(line) in load_base_images().compiles_cuda


def applies_to(context: Context, line: Line) -> bool:
    """Tell whether the marker of a requirement holds where it is installed."""
    try:
        marker = Requirement(line.text).marker
    except InvalidRequirement:
        return True
    return marker is None or marker_holds(context, str(marker))


def list_unjudged(lines: Iterable[Line], environment: Environment) -> Iterator[Line]:
    """Say which packages on top of a framework nothing is known of, or come from an index whose builds are not read."""
    for line in lines:
        name = name_of_line(line)
        row = companion_row(name)
        is_beside = any(item in environment.frameworks for item in row.frameworks)
        if row.distributions and not row.releases and is_beside and not is_source(line):
            yield replace(line, text=f"{name} is not judged: the matrix does not hold its releases.")
        elif row.releases and line.own_index:
            message = (
                f"The builds of {line.own_index} are not read: {name} was judged by its build on the default index."
            )
            yield replace(line, text=message)


def needs_gpu(matrix: Matrix, name: str) -> bool:
    """Tell whether a package is for a GPU alone: its wheels hold CUDA code, and none is for a system without CUDA."""
    rows = matrix.companion_releases(name)
    return any(row.cuda_build for row in rows) and not any(row.platform.startswith("macosx") for row in rows)


def _is_pinned(line: Line) -> bool:
    return any(item.operator in ("==", "===") for item in Requirement(line.text).specifier)


def _finding(name: str, message: str, held: Held, shown: str, advice: str = "", *, severity: str = ERROR) -> Finding:
    line, citations = held.line, held.row.citations
    evidence = (
        Evidence("requirement", line.text, Source("file", line.location, line.text)),
        Evidence("matrix", shown, citation=citations[0] if citations else None),
    )
    fix = Remedy(advice) if advice else None
    return Finding(name, INCOMPATIBLE if severity == ERROR else COMPATIBLE, severity, message, evidence, fix=fix)

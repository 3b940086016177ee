"""Compose the machine that a file builds.

What its image holds, and what each command leaves installed in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from envcheck.check.blueprint import NO_DRIVER, Blueprint, Image, Line, find_named, find_spec
from envcheck.check.requirement_files import is_on_index
from envcheck.check.selection import may_hold
from envcheck.frameworks import identities, identity
from envcheck.frameworks.installed import parse_conda_build
from envcheck.host.known_variables import keep_known_variables
from envcheck.matrix.companions import companion_row
from envcheck.matrix.images import load_base_images
from envcheck.matrix.query import Matrix
from envcheck.model import (
    AT_RUN,
    NOT_STATED,
    Absent,
    CondaBuild,
    Distribution,
    DriverFacts,
    Fact,
    Facts,
    Finding,
    FrameworkBuild,
    FrameworkRelease,
    HostFacts,
    Known,
    LibraryInstall,
    PythonFacts,
    Source,
    ToolkitFacts,
    ToolkitInstall,
    Unknown,
    UnreadPart,
    dataclass,
    from_file,
    list_fields,
    major,
    major_minor,
    replace,
)
from envcheck.model.quoting import quote
from envcheck.model.versions import Requirement, at_least, can_be_met, name_of, within
from envcheck.rules import Context, Target
from envcheck.rules.builds import list_conda_recipes, plugin_of, supports_python
from envcheck.rules.context import SourceBuild
from envcheck.rules.described_machine import Description, with_hardware
from envcheck.rules.frameworks import is_excluded
from envcheck.rules.gpu_releases import driver_runs, is_data_center
from envcheck.rules.matrix_question import find_requirer
from envcheck.rules.requirements import marker_holds
from envcheck.rules.targets import LABEL, OLDER, UNLISTED, WantedRelease, wanted_releases

ROOT = "/usr/local/cuda"
_MACHINES = {"amd64": "x86_64", "x86_64": "x86_64", "arm64": "aarch64", "aarch64": "aarch64"}
# The flavors that hold CUDA's libraries, not libcudart alone.
_LIBRARIES = ("runtime", "libraries", "devel")
CONDA_CUDA = ("pytorch-cuda", "cuda-version", "cudatoolkit", "cuda-toolkit")
_NOTHING = "The file names no framework that envcheck knows"


def is_source(line: Line) -> bool:
    """Say whether a package is compiled when it is installed."""
    return line.name in load_base_images().compiles_cuda


def is_of_interest(line: Line, matrix: Matrix) -> bool:
    """Say whether a line installs a framework, or a package on top of one."""
    name = line.name
    known = (
        matrix.framework_of(name) or matrix.removed_distribution(name) or matrix.companion_of(name)
    )
    return bool(name and known) or is_source(line)


@dataclass
class Place:
    """What a line brings, and where it stands."""

    line: Line
    name: str  # the distribution: torch
    label: str  # as findings name it: torch 2.13.0
    owner: str = ""  # the package that brings it: vllm 0.33.0
    kind: str = "requirement"  # or variable, which it sets, or uninstalled

    @property
    def text(self) -> str:
        """Show the line, and which release it means where it does not pin one."""
        release, line = self.owner or self.label, self.line
        if "==" in line.text or line.requirement is None or " " not in release:
            return line.text
        return f"{line.text} (not pinned: judged as {release})"


class Environment:
    """What an environment holds after each command; it starts as its image."""

    def __init__(self, blueprint: Blueprint, matrix: Matrix, goal: str, host: Description) -> None:
        """Install what the file states, command by command."""
        self.image = _with_own_cuda(blueprint.image, matrix)
        self.blueprint = replace(blueprint, image=self.image)
        self.matrix, self.goal = matrix, goal
        self.base: Facts = _leave_to_run(with_hardware(planned_facts(self.blueprint), host, matrix))
        driver = self.base.driver
        if self.image.has_compat and self._may_use_compat():
            driver = self._with_compat(driver)
        if blueprint.lacks_gpu:
            driver = replace(driver, device_nodes=Absent((blueprint.lacks_gpu.location,)))
        self.base = replace(self.base, driver=driver)
        self.places: list[Place] = []
        self.required: tuple[str, ...] = ()  # by the project
        # what each command asks for, in the environment as it is then
        self.commands: list[Context] = []
        self.unread = [
            UnreadPart(line.text.rstrip("."), line.location) for line in _list_unread(blueprint)
        ]
        self.refused: list[str] = []  # what pip does not install: the build ends there
        self._builds: dict[str, FrameworkBuild] = {}
        self._rows: dict[str, FrameworkRelease] = {}
        self._commands_of: dict[str, int] = {}
        self._installed: dict[str, Distribution] = {}
        compiled, possible = self.list_compiled()
        self.places += [Place(line, line.name, line.text) for line in (*compiled, *possible)]
        names = ((line, line.text.partition("=")[0]) for line in blueprint.variables)
        self.places += [Place(line, name, name, kind="variable") for line, name in names]
        self._take_image()
        self._take_conda()
        for line in blueprint.refused[:1]:
            self._ask(Target(goal, command=line.text), refused=line)
        steps = sorted(
            (*blueprint.requirements, *blueprint.removals), key=lambda line: line.command
        )
        for _, group in groupby(steps, key=lambda line: line.command):
            lines = list(group)
            if lines[0] in blueprint.removals:
                self._remove(lines)
            else:
                self.install(lines)
        if blueprint.python is not None and blueprint.pythons is not None:
            line = replace(blueprint.pythons, text=f"requires-python {blueprint.pythons.text}")
            self.places.append(Place(line, "python", f"Python {blueprint.python.text}"))

    def facts(self) -> Facts:
        """Describe the environment as it is now."""
        source = Source("file", self.blueprint.path)
        builds = tuple(self._builds.values())
        frameworks: Fact[tuple[FrameworkBuild, ...]] = Absent((self.blueprint.path,))
        if builds:
            frameworks = Known(builds, source)
        elif self.image.is_named and not self.image.source:
            frameworks = _why_unread(self.unread[0])
        installed = tuple(self._with_requirements(item) for item in self._installed.values())
        python = replace(
            self.base.python,
            distributions=Known(installed, source),
            frameworks=_leave_to_run(frameworks),
            unread=Known(tuple(self.unread), source),
        )
        return replace(self.base, python=python)

    @property
    def is_stage(self) -> bool:
        """Whether the last stage copies from it: it is built, and does not run."""
        return self.blueprint.kind == "stage"

    def require(self, lines: Iterable[Line]) -> None:
        """Install what the project requires besides.

        What is there in another release stays, and is judged.
        """
        self.required = tuple(line.text for line in lines)
        self.install([line for line in lines if not self.holds(line)])

    def final_facts(self, *, is_decisive: bool = True) -> Facts:
        """Describe the environment that the file leaves.

        One without a framework is not known to lack it.

        Where another environment of the file has one, that is not decisive: this one may need none.
        """
        facts = self.facts()
        is_empty = self.refused and isinstance(facts.python.frameworks, Absent)
        # In an image for other vendors' GPUs, pip keeps what is there.
        is_for_others = "which envcheck does not judge" in self.image.lacks
        if (facts.python.frameworks.value is not None and not is_for_others) or is_empty:
            return facts
        part = self.unread[0] if self.unread else UnreadPart(_NOTHING, self.blueprint.path)
        why = _why_unread(part) if is_decisive or self.unread else AT_RUN
        return replace(facts, python=replace(facts.python, frameworks=why))

    @property
    def holds_framework(self) -> bool:
        """Say whether anything in the file names a framework."""
        return bool(self._builds)

    def holds(self, line: Line) -> bool:
        """Say whether the framework that a line asks for is there, in whichever release."""
        framework = self.matrix.framework_of(line.name)
        return any(build.framework == framework for build in self._builds.values())

    def _may_use_compat(self) -> bool:
        """Return whether an old driver may do with the libcuda that the image brings."""
        is_old = self.base.driver.release.value is not None and not driver_runs(
            Context(self.base, self.matrix, Target(self.goal)), self.image.cuda
        )
        return is_old and not all(
            is_data_center(gpu) is False for gpu in self.base.gpus.value or ()
        )

    def _with_compat(self, driver: DriverFacts) -> DriverFacts:
        """State what the libcuda of the image makes of an old driver.

        Its publisher names the drivers that it serves; where no document does, it is open.
        """
        release, named = driver.release.value or "", self.image.compat_drivers
        serving = [
            oldest
            for oldest in named
            if major(oldest) == major(release) and at_least(release, oldest)
        ]
        if named and not serving:
            return driver
        if not named or not all(map(is_data_center, self.base.gpus.value or ())):
            why = f"{self.image.reference} brings a newer libcuda, which data-centre GPUs may use"
            return replace(driver, release=Unknown("failed", why))
        stated = f"its cuda-compat serves driver {serving[0]} and later ones of that branch"
        source = Source("file", self.image.location, stated)
        return replace(
            driver,
            cuda_driver_version=Known(major_minor(self.image.cuda), source),
            cuda_init_result=Known(0, source),
        )

    def list_compiled(self) -> tuple[list[Line], list[Line]]:
        """List what is CUDA code that is compiled, and what may be."""
        sources = (
            line for line in self.blueprint.requirements if is_source(line) and not line.links
        )
        compiled = [
            *self.blueprint.compiles,
            *(line for line in sources if line not in self.blueprint.inherited),
        ]
        return compiled, list(self.blueprint.may_compile) if self.image.cuda else []

    def find_places(self, finding: Finding) -> list[Place]:
        """List the lines that a finding is about: what they bring is named in it."""
        if finding.id == "probe-failed":
            return []
        texts = [
            finding.message,
            *(text for item in finding.evidence for text in (item.fact, item.shown)),
        ]
        words = "\n".join(texts)
        found = [place for place in self.places if _names(words, place.label)]
        return list({place.line: place for place in reversed(found)}.values())[::-1]

    def install(self, lines: list[Line]) -> None:
        """Ask for what one command installs, and add it to what is there."""
        named = self._hold_what_is_open(lines)
        named += self._list_brought(named)
        asked = [
            line
            for line in named
            if is_of_interest(line, self.matrix)
            and (self.matrix.framework_of(line.name) or not is_source(line))
            and not find_requirer(self.matrix, line.name)  # it has no releases of its own
        ]
        others = [
            line for line in named if line not in asked or not self.matrix.framework_of(line.name)
        ]
        stated = _list_stated(others)
        sources = tuple(
            self._list_sources(line) for line in named if is_source(line) and self.goal == "gpu"
        )
        brings = all(line.is_resolved for line in asked)
        places = {line.name: line for line in asked}
        upgraded = {line.name for line in named if line.is_upgrade}
        target = Target(self.goal, tuple(map(self._state, asked)), brings=brings)
        chosen = self._choose_releases(target, places, upgraded)
        texts = _with_pins({line.name: self._state(line) for line in asked}, chosen, upgraded)
        ranges = [(item, line) for item, line in stated.values() if line.is_resolved]
        ranges += self._list_bounds(named, [row for _, row in chosen if row is not None])
        beside = tuple(item.name + item.specifier for item, _ in ranges)
        self.places += [Place(line, item.name, item.name + item.specifier) for item, line in ranges]
        for bound, line in ranges:
            if line in self.blueprint.bounds and is_of_interest(line, self.matrix):
                texts[bound.name] = bound.plain
        if texts or sources:
            built = tuple(filter(None, sources))
            self._ask(
                Target(
                    self.goal,
                    tuple(texts.values()),
                    beside=beside,
                    sources=built,
                    brings=brings,
                    unfound=tuple(line.text for line in asked if _is_unfound(line)),
                )
            )
        self.refused += [
            item.text for item, _ in chosen if item.obstacle not in {"", UNLISTED, LABEL, OLDER}
        ]
        for item, row in chosen:
            self._add(item, row, places)
        self._add_pins(stated, [row for _, row in chosen if row is not None])

    def _choose_releases(
        self, target: Target, places: dict[str, Line], upgraded: set[str]
    ) -> list[tuple[WantedRelease, FrameworkRelease | None]]:
        """List the releases that a command wants, each with the row of what is installed."""
        builds, installed = dict(self._builds), dict(self._installed)
        for name in upgraded:  # pip chooses its release as if none were there
            self._builds.pop(name, None)
            self._installed.pop(name, None)
        chosen = []
        for item in wanted_releases(self._context(target)):
            line = _line_of(item, places)
            if line is not None:
                chosen.append((item, self._choose(item, line)))
        self._builds, self._installed = builds, installed
        return chosen

    def _list_brought(self, named: list[Line]) -> list[Line]:
        """List the frameworks that packages of unknown releases bring where none is there."""
        bringing = [
            line
            for line in named
            if line.is_resolved and companion_row(line.name).brings and not is_source(line)
        ]
        known = {line.location for line in bringing}
        if any(part.place not in known for part in self.unread):
            return []  # what is not read may bring another one
        brought = {companion_row(line.name).frameworks[0]: line for line in bringing}
        names = {self.matrix.framework_of(line.name) for line in named}
        lines = [replace(line, text=name) for name, line in brought.items() if name not in names]
        return [line for line in lines if not self.holds(line)]

    def _list_bounds(
        self, named: list[Line], rows: list[FrameworkRelease]
    ) -> list[tuple[Requirement, Line]]:
        """List what a constraints file says of packages that only other packages bring."""
        commands, names = {line.command for line in named}, {line.name for line in named}
        bounds = _list_stated(each for each in self.blueprint.bounds if each.command in commands)
        brought = {name for row in rows for name in row.requires} - names
        return [each for name, each in bounds.items() if name in brought]

    def _hold_what_is_open(self, lines: list[Line]) -> list[Line]:
        """Hold what only the build shows the release of; return the other lines that apply."""
        now = self._context(Target(self.goal))
        is_old = self.blueprint.old_installer and self.blueprint.python is None
        named = []
        for line in lines:
            if line.is_open or (is_old and "==" not in line.text):
                self._hold_open(line)
            elif line.name and line.index != "other" and _applies(now, line):
                named.append(line)
        return _join_lines(named)

    def _hold_open(self, line: Line) -> None:
        """Add a framework of which only the build will show the release."""
        match = re.match(r"[\w.-]+", line.text)
        framework = self.matrix.framework_of(match[0]) if match else None
        if match is None or not framework:
            return
        why = Unknown(
            "failed", f"which {match[0]} is installed shows only in the build", (line.location,)
        )
        self._put(framework, Distribution(match[0], ""), why, line)

    def _remove(self, lines: list[Line]) -> None:
        """Take away what one command uninstalls; its line is to blame for what then lacks it."""
        for line in lines:
            name = line.name
            for held in (self._builds, self._rows, self._installed):
                held.pop(name, None)
            self.places.append(Place(line, name, name, kind="uninstalled"))

    def _context(self, target: Target, facts: Facts | None = None) -> Context:
        return Context(facts or self.facts(), self.matrix, target)

    def _ask(self, target: Target, refused: Line | None = None) -> None:
        facts = self.facts()
        if refused is not None:
            managed = Known(value=True, source=_at(refused))
            facts = replace(facts, python=replace(facts.python, externally_managed=managed))
        self.commands.append(self._context(target, facts))

    def _choose(self, item: WantedRelease, line: Line) -> FrameworkRelease | None:
        """Return the row of what is installed: of the build that the index of its command has."""
        if item.package is not None:
            return item.package
        if item.build is None or item.build.installed or item.build.release is None:
            return None
        row = item.build.release
        label = row.local or line.label
        builds = (row, *self.matrix.index_builds(row))
        return next((each for each in builds if label and each.local == label), row)

    def _state(self, line: Line) -> str:
        """Write what is asked for as the matrix holds it.

        A package has no label of its build there. Of a framework, an index that goes before all
        others has the releases that were built for its CUDA alone.
        """
        framework = self.matrix.framework_of(line.name)
        requirement = line.requirement
        if framework and requirement and line.label and line.is_only_index and not requirement.pin:
            now = self._context(Target())
            rows = self.matrix.builds(
                framework, now.platform, lambda version: within(version, requirement.specifier)
            )
            for row in rows:  # the newest first
                is_labelled = row.local == line.label and row.distribution == requirement.name
                if is_labelled and supports_python(now, row):
                    return replace(requirement, specifier=f"=={row.version}").plain
        is_package = self.matrix.companion_of(line.name) and not framework
        text = line.text.partition(";")[0].strip()  # that its marker holds is decided
        return re.sub(r"\+[\w.]+", "", text) if is_package else text

    @staticmethod
    def _label_of(line: Line) -> str:
        """Return the label of a build that its text names or its index has: +cu126."""
        if stated := re.search(r"==[\w.]+(\+[\w.]+)", line.text):
            return stated[1]
        if line.label and not line.own_index and companion_row(line.name).on_index:
            return f"+{line.label}"
        return ""

    def _add(
        self, item: WantedRelease, row: FrameworkRelease | None, places: dict[str, Line]
    ) -> None:
        line = _line_of(item, places)
        label = f"{row.distribution} {row.build_version}" if row else item.text
        if line is None:
            return
        self.places.append(Place(line, item.distribution, label, item.required_by))
        if row is None:
            if item.specifier.startswith("==") and item.obstacle == UNLISTED:
                pinned = Distribution(item.distribution, item.specifier.strip("="))
                self._installed[pinned.name] = pinned
                self.places.append(Place(line, pinned.name, pinned.label))
            return
        source = _at(line)
        before = self._rows.get(row.distribution)
        for wheel in before.cuda_wheels if before and line.is_resolved else ():
            # the new release's wheels lie over them
            self._installed.pop(name_of(wheel), None)
        self._rows[row.distribution] = row
        version = row.build_version
        if item.package is not None:
            version += self._label_of(line)
        self._installed[row.distribution] = Distribution(row.distribution, version)
        if item.package is not None:
            return
        is_gpu_build: Fact[bool] = Known(row.cuda_build and line.index != "cpu", source)
        if (
            not row.cuda_build
            and identity(item.framework).plugins
            and self.image.is_named
            and not self.image.source
        ):
            is_gpu_build = _why_unread(self.unread[0], "conflict")  # the image may hold the plugin
        self._put(item.framework, self._installed[row.distribution], is_gpu_build, line)
        extra = next((extra for extra in item.extras if extra in row.extras), "")
        plugin = plugin_of(self._context(Target()), row, extra) if extra else None
        if plugin is not None:
            installed = Distribution(plugin.distribution, plugin.version)
            self._put(item.framework, installed, Known(value=True, source=source), line)
            self.places.append(Place(line, plugin.distribution, plugin.label))
        if extra or (line.is_resolved and not row.gpu_extra):
            self._add_wheels((plugin or row).cuda_wheels, line)

    def _add_wheels(self, wheels: Iterable[str], line: Line) -> None:
        """Add CUDA wheels.

        Of a range, or of two pins in one command, nobody knows which release comes.
        """
        for wheel in wheels:
            name, (_, exact, version) = name_of(wheel), wheel.partition("==")
            known = self._installed.get(name)
            is_rival = (
                known is not None
                and self._commands_of.get(name) == line.command
                and known.version != version
            )
            self._installed[name] = Distribution(name, version if exact and not is_rival else "")
            self._commands_of[name] = line.command

    def _put(
        self,
        framework: str,
        installed: Distribution,
        cuda_build: Fact[bool],
        line: Line,
        **more: Any,
    ) -> None:
        """Add a build of a framework with its distribution."""
        name, version = installed.name, installed.version
        self._installed[name] = installed
        self._hold(FrameworkBuild(framework, name, version, cuda_build=cuda_build, **more), line)

    def _hold(self, build: FrameworkBuild, line: Line | None = None) -> None:
        """Add a build; of two with one module, the last one installed overwrites the other."""
        for name, other in self._builds.items():
            module = self.matrix.module_of(name)
            if (
                name == build.distribution
                or module is None
                or module != self.matrix.module_of(build.distribution)
            ):
                continue
            if (
                other.cuda_build.value == build.cuda_build.value
                or module in identity(build.framework).namespaces
            ):
                continue
            overwritten = build.cuda_build
            if line is not None and self._commands_of.get(name) == line.command:
                overwritten = Unknown(
                    "conflict", f"{name} and {build.distribution} install the same files"
                )
                build = replace(build, cuda_build=overwritten)
            self._builds[name] = replace(other, cuda_build=overwritten)
        self._builds[build.distribution] = build
        if line is not None:
            self._commands_of[build.distribution] = line.command

    def _add_pins(
        self, stated: dict[str, tuple[Requirement, Line]], rows: Iterable[FrameworkRelease]
    ) -> None:
        """Add what a command pins.

        What the frameworks beside it exclude, pip refuses or replaces.
        """
        pins = {
            name: (item.pin, line)
            for name, (item, line) in stated.items()
            if item.specifier == f"=={item.pin}"
        }
        for name, held in [*self._installed.items()]:
            is_open = held.version and name not in pins and name not in self._rows
            if is_open and any(is_excluded(row, name, f"=={held.version}") for row in rows):
                del self._installed[name]
        for name, (version, line) in pins.items():
            if not line.is_resolved or not any(
                is_excluded(row, name, f"=={version}") for row in rows
            ):
                self._installed[name] = Distribution(name, version)
                self.places.append(Place(line, name, f"{name} {version}"))

    def _list_sources(self, line: Line) -> SourceBuild | None:
        """Describe what is compiled, or taken ready built: which framework it needs."""
        name = line.name
        if line in self.blueprint.inherited:
            return None
        pages = (
            (item, re.search(rf"/{item}-(\d+\.\d+)", line.links))
            for item in self.matrix.frameworks()
        )
        framework, page = next((item for item in pages if item[1]), ("", None))
        framework = framework or next(iter(companion_row(name).frameworks), "")
        is_known = framework and (page or not line.links)
        if is_known:
            return SourceBuild(name, framework, line.is_isolated, page[1] if page else "")
        return None

    def _with_requirements(self, item: Distribution) -> Distribution:
        row = self._rows.get(item.name)
        if row is None or self.matrix.framework_of(item.name):
            return item  # the rules know the rows of frameworks
        if item.installer == "conda" and self.blueprint.kind == "lock file":
            return item  # conda solved it by what its own builds require
        requires = tuple(
            f"{name}{bounds}" for name, bounds in row.requires.items() if name in self._installed
        )
        if item.installer == "conda":  # conda-forge's builds go with each patch of a minor
            requires = tuple(re.sub(r"==(\d+\.\d+)\.\d+$", r"==\1.*", text) for text in requires)
        return replace(item, requires=requires)

    def _take_image(self) -> None:
        """Add what the image's name states that it holds.

        Its publisher has made that work together.
        """
        image = self.image
        source = Source("file", self.image.location, self.image.reference)
        for text in image.packages:
            line = Line(text, image.location)
            wanted = wanted_releases(self._context(Target(self.goal, (text,))))
            for item in wanted:
                self._add(item, self._choose(item, line), {line.name: line})
        for name, build in self._builds.items():
            self._builds[name] = replace(build, libraries=Known((), source))
        for text in image.frameworks:
            named, _, version = text.partition("==")
            framework = named.removesuffix("-cpu")
            if not version and framework in self._builds:
                continue  # a package of the image has brought it, in a release that is known
            is_gpu_build: Fact[bool] = Known(named == framework, source)
            if image.is_open:
                is_gpu_build = Unknown(
                    "failed",
                    f"the name {image.reference} does not say what its {named} is built for",
                )
            build = FrameworkBuild(
                framework,
                framework,
                version,
                cuda_build=is_gpu_build,
                cuda_version=_of_image(image.cuda, image),
                cudnn_version=_of_image(image.cudnn, image),
                libraries=Known((), source),
            )
            self._hold(build)
            self.places.append(
                Place(
                    Line(image.reference, image.location),
                    framework,
                    f"{framework} {version}".rstrip(),
                )
            )
            if version:
                label = ""
                if image.cuda and "+" not in version and not image.own_cuda:
                    label = f"+cu{image.cuda.replace('.', '')}"
                self._installed[framework] = Distribution(framework, version + label)

    def _take_conda(self) -> None:
        """Add the frameworks that conda installs: its builds bring their own CUDA."""
        packages = {name: item.name for item in identities() for name in item.conda_packages}
        cpuonly = find_named(self.blueprint.conda, "cpuonly")
        for line in self.blueprint.conda:
            name, version, _ = line.spec
            framework = packages.get(re.sub(r"-(?:cpu|gpu|nightly)$", "", name))
            if framework is None:
                self._take_conda_package(line)
                continue
            is_for_gpu, cuda = self._choose_conda_build(line, framework, cpuonly)
            if isinstance(is_for_gpu, Unknown) and framework in self._builds:
                # its other package has said it: jaxlib, before jax
                is_for_gpu = self._builds[framework].cuda_build
            stated = {"cuda_version": cuda} if is_for_gpu.value else {}
            installed = Distribution(framework, version, installer="conda")
            self._put(
                framework, installed, is_for_gpu, line, libraries=Known((), _at(line)), **stated
            )
            label = f"{framework} {version}".rstrip()
            self.places.append(Place(cpuonly or line, framework, label))

    def _choose_conda_build(
        self, line: Line, framework: str, cpuonly: Line | None
    ) -> tuple[Fact[bool], Fact[str]]:
        """Say whether the build that conda chooses is for a GPU, and for which CUDA."""
        conda = self.blueprint.conda
        name, _, build = line.spec
        stated = parse_conda_build(build.replace("*", "_"))
        spec = find_spec(conda, CONDA_CUDA)
        cuda: Fact[str] = Known(spec.text, _at(spec)) if spec else NOT_STATED
        if stated.get("cuda"):
            cuda = Known(stated["cuda"], _at(line))
        if cpuonly or "cpu" in stated or name.endswith("-cpu"):
            return Known(value=False, source=_at(cpuonly or line)), cuda
        channel = self._find_channel(line)
        built = self._list_recipes(line, framework) if channel == "conda-forge" else []
        # CPU builds of PyTorch's channel ask for `cpuonly`: those for CUDA go first.
        is_pinned = spec is not None and channel == "pytorch"
        twin = find_named(conda, "pytorch-cuda", f"{name}-gpu")
        if is_pinned or twin or name.endswith("-gpu") or "cuda" in build or "cuda" in stated:
            if self.blueprint.conda_driver == NO_DRIVER:
                return Known(value=False, source=_at(line)), cuda
            if built and self._lacks_conda_driver():
                why = "conda-forge's builds for CUDA require __cuda: state CONDA_OVERRIDE_CUDA"
                return Unknown("failed", why, (line.location,)), cuda
            majors = {each for row in built for each in row.cuda}
            if cuda.value is None and len(majors) == 1:
                cuda = Known(majors.pop(), _at(line))
            return Known(value=True, source=_at(line)), cuda
        return self._choose_recipe(built, cuda, line), cuda

    def _list_recipes(self, line: Line, framework: str) -> list[CondaBuild]:
        """List what conda-forge has built of the release that a spec names, for the platform."""
        platform, version = self._context(Target()).platform, line.spec[1]
        recipes = list_conda_recipes(self.matrix, framework)
        return [row for row in recipes if platform in row.platforms and _admits(row, version)]

    def _choose_recipe(self, built: list[CondaBuild], cuda: Fact[str], line: Line) -> Fact[bool]:
        """Say whether conda-forge's build is for a GPU.

        One for CUDA requires __cuda, which conda has where it sees a driver, and goes before one
        for the CPU.
        """
        context, told = self._context(Target()), self.blueprint.conda_driver
        majors = {each for row in built for each in row.cuda}
        if cuda.value:
            majors &= {major(cuda.value)}
        if not built:
            return _left_to_conda(line)
        if not majors:
            return Known(value=False, source=_at(line))
        if told.isdigit():
            return Known(value=any(int(each) <= int(told) for each in majors), source=_at(line))
        if self._lacks_conda_driver():
            return Known(value=False, source=_at(line))
        if context.driver.release.value and not self.image.is_named:
            runs = any(driver_runs(context, f"{each}.0") for each in majors)
            return Known(value=runs, source=_at(line))
        return _left_to_conda(line)

    def _lacks_conda_driver(self) -> bool:
        """Return whether conda sees no driver, as while an image is built."""
        told = self.blueprint.conda_driver
        return told == NO_DRIVER or (bool(self.image.source) and not told)

    def _find_channel(self, line: Line) -> str:
        """Return the first channel named that has a framework's release; "" for none."""
        name, version, _ = line.spec
        rows = self.matrix.conda_builds(re.sub(r"-(?:cpu|gpu)$", "", name))
        for channel in line.links.split():
            short = channel.rstrip("/").rpartition("/")[2]
            if any(row.channel == short and _admits(row, version) for row in rows):
                return short
        return ""

    def _take_conda_package(self, line: Line) -> None:
        """Add a package beside a framework where its spec names one release."""
        name, version, _ = line.spec
        section = self.matrix.companion_of(name)
        row = None
        if section:
            platform = self._context(Target()).platform
            row = self.matrix.release(section, version, platform, name)
        if row is not None:
            self._rows[name] = row
        elif name != "numpy" or not version:
            return
        self._installed[name] = Distribution(name, version, installer="conda")
        self.places.append(Place(line, name, f"{name} {version}"))


def _with_own_cuda(image: Image, matrix: Matrix) -> Image:
    """Fill in the CUDA and cuDNN of an image that holds those of its framework's build."""
    for text in image.frameworks if image.own_cuda else ():
        name, _, version = text.partition("==")
        row = matrix.release(name, version, "linux_x86_64")
        if row is not None and row.cuda and row.cudnn:
            cudnn = major(row.cudnn)
            return replace(image, cuda=row.cuda, cudnn=cudnn, flavor="libraries", is_partial=False)
    return image


def _leave_to_run(value: Any) -> Any:
    """Mark what nobody stated as what the machine shows that runs the environment."""
    if value == NOT_STATED:
        return AT_RUN
    if isinstance(value, Known) and isinstance(value.value, tuple):
        return Known(tuple(_leave_to_run(item) for item in value.value), value.source)
    if isinstance(value, (Known, Absent, Unknown)) or not list_fields(value):
        return value
    return replace(
        value, **{name: _leave_to_run(getattr(value, name)) for name in list_fields(value)}
    )


def _names(words: str, label: str) -> bool:
    return (
        label in words
        and re.search(rf"(?<![\w.-]){re.escape(label)}(?![\w+-]|\.\d)", words) is not None
    )


def _admits(row: CondaBuild, version: str) -> bool:
    """Return whether a row has a version, or a patch of the line that it is."""
    patches = (text for text in row.releases if text.startswith(f"{version}."))
    return not version or within(version, row.versions) or any(patches)


def _left_to_conda(line: Line) -> Unknown:
    why = f"conda chooses the build of {line.spec[0]} when it installs"
    return Unknown("failed", why, (line.location,))


def _why_unread(part: UnreadPart, why: str = "failed") -> Unknown:
    return Unknown(why, part.reason, (part.place,))


def _is_unfound(line: Line) -> bool:
    """Return whether no index that its command asks has the build whose label it names."""
    stated = line.requirement
    if stated is None or not stated.label or line.links or not is_on_index(line):
        return False
    is_on_other = line.is_only_index and line.label not in ("", stated.label)
    return line.is_on_default or is_on_other


def _at(line: Line) -> Source:
    return Source("file", line.location, quote(line.text))


def _applies(context: Context, line: Line) -> bool:
    """Return whether a line's marker holds, where nothing states the Python for one of them."""
    requirement = line.requirement
    if requirement is None or not requirement.marker:
        return True
    if context.python.version.value is None and context.os == "linux":
        return may_hold(requirement.marker)
    return marker_holds(context, requirement.marker)


def _join_lines(lines: Iterable[Line]) -> list[Line]:
    """Join the lines that one command has on a package, as an installer does; a pin speaks for all.

    Those that exclude each other stay: forks of a lock file.
    """
    joined: list[Line] = []
    places: dict[str, int] = {}
    for line in lines:
        place = places.setdefault(line.name, len(joined))
        both = _join(joined[place], line) if place < len(joined) else None
        if both is not None:
            joined[place] = both
        else:
            joined.append(line)
    return joined


def _join(first: Line, second: Line) -> Line | None:
    one, other = first.requirement, second.requirement
    if one is None or other is None:
        return None
    both = one.joined(other)
    if not can_be_met(both.specifier):
        return None
    kept, stated = (second, other) if other.pin and not one.pin else (first, one)
    if stated.pin and both.extras == stated.extras:
        return kept
    return replace(kept, text=both.plain)


def _line_of(item: WantedRelease, places: dict[str, Line]) -> Line | None:
    """Return the line that a release comes from.

    Its own, or that of the package which requires it.
    """
    return places.get(item.required_by.split(" ")[0] if item.required_by else item.distribution)


def _pin(item: WantedRelease, row: FrameworkRelease) -> str:
    extras = f"[{','.join(item.extras)}]" if item.extras else ""
    return f"{item.distribution}{extras}=={row.build_version}"


def _with_pins(
    asked: dict[str, str],
    chosen: Iterable[tuple[WantedRelease, FrameworkRelease | None]],
    upgraded: set[str],
) -> dict[str, str]:
    """Pin what is chosen in another build than is there, or anew."""
    texts = dict(asked)
    for item, row in chosen:
        if row is None or not (row.local or item.framework in texts):
            continue
        build = item.build
        is_other = build and (row.version, row.local) != (build.version, build.local)
        if is_other or item.distribution in upgraded:
            texts[item.distribution] = _pin(item, row)
    return texts


def _list_stated(lines: Iterable[Line]) -> dict[str, tuple[Requirement, Line]]:
    """Map each package to what one command states of it; forks of a lock file state two."""
    found: dict[str, list[tuple[Requirement, Line]]] = {}
    for line in lines:
        requirement = line.requirement
        if requirement and requirement.specifier:
            found.setdefault(requirement.name, []).append((requirement, line))
    return {name: stated[0] for name, stated in found.items() if len(stated) == 1}


def _list_unread(blueprint: Blueprint) -> Iterator[Line]:
    """Say what the names and lines of the file leave open."""
    image = blueprint.image
    if image.is_named and not image.source:
        name = image.reference or "(none)"
        yield Line(f"The name {name} does not say what the image contains.", image.location)
    if image.lacks:
        yield Line(f"{image.reference} holds {image.lacks}.", image.location)
    yield from blueprint.gaps
    for line in blueprint.requirements:
        if message := _describe_unread(line):
            yield replace(line, text=message)


def _describe_unread(line: Line) -> str:
    """Give the reason why a requirement is not judged, "" where it is judged."""
    name, separator, _ = line.text.partition("@")
    row = companion_row(line.name)
    if line.index == "other":
        return f"{line.text} comes from an index for other vendors' GPUs, which is not judged."
    if separator and re.fullmatch(r"[\w.\[\],-]+", name.strip()):
        return f"{name.strip()} comes from a URL, which is not judged."
    if re.fullmatch(r"[\w.-]+ *= *[\w.]+", line.text):
        return f"`{line.text}` is no requirement: pip pins a release with `==`, and stops here."
    if row.distributions and not row.releases and not is_source(line):
        return f"{line.name} is not judged: the matrix does not hold its releases."
    if row.releases and line.own_index:
        return (
            f"The builds of {line.own_index} are not read: {line.name} was judged by its usual one."
        )
    return ""


def planned_facts(blueprint: Blueprint) -> Facts:
    """Compose the facts of the system that the file builds on."""
    image = blueprint.image
    if not image.is_named:
        host = HostFacts(os=from_file("linux", "the file"))
        reason = "the file does not say which CUDA Toolkit and cuDNN the machine has"
        where = blueprint.path
    else:
        host = _host(blueprint, image)
        reason = f"the name {image.reference} does not say which CUDA Toolkit and cuDNN it has"
        where = image.location
    for line in blueprint.cuda_steps[:1]:
        reason = f"`{line.text}` brings a CUDA Toolkit or cuDNN that is not read"
        where = line.location
    system: Fact[Any] = Unknown("failed", reason, (where,))
    installs, cudnn = _toolkits(blueprint) or system, _cudnn(blueprint) or system
    nvcc: Fact[str] = NOT_STATED
    if image.flavor in {"base", "runtime"} and not blueprint.cuda_steps:
        nvcc = Absent((image.location,))
    toolkits = _describe_toolkits(installs, nvcc, host)
    return Facts(host=host, toolkits=toolkits, cudnn=cudnn, python=_python(blueprint))


def _describe_toolkits(
    installs: Fact[tuple[ToolkitInstall, ...]], nvcc: Fact[str], host: HostFacts
) -> ToolkitFacts:
    """Say which toolkits the LD_LIBRARY_PATH of the image names.

    One of an image is linked to as /usr/local/cuda.
    """
    path = (host.environment.value or {}).get("LD_LIBRARY_PATH", "")
    source = Source("file", "the file", "LD_LIBRARY_PATH")
    folders = [f"{folder}/" for folder in path.split(":")]
    own = [item.root for item in installs.value or () if item.origin == "usr-local"]
    named = [
        root
        for root in own
        if any(folder.startswith((f"{root}/", f"{ROOT}/")) for folder in folders)
    ]
    return ToolkitFacts(
        installs=installs,
        nvcc_on_path=nvcc,
        roots_on_library_path=Known(tuple(named), source) if named else NOT_STATED,
        usr_local_cuda=Known(own[0], source) if own else NOT_STATED,
    )


def _of_image(value: str, image: Image) -> Fact[str]:
    if value:
        return from_file(value, image.location, image.reference)
    return NOT_STATED


def _architecture(blueprint: Blueprint) -> Fact[str]:
    location = blueprint.image.location or blueprint.path
    platform = blueprint.platform or blueprint.image.platform
    machine = _MACHINES.get([*platform.split("/"), ""][1] or platform)
    if platform:
        if machine:
            return from_file(machine, location, platform)
        return NOT_STATED
    return from_file("x86_64", "the file", "assumed: it does not name a platform")


def _host(blueprint: Blueprint, image: Image) -> HostFacts:
    source = Source("file", image.location, image.reference)
    libc = "glibc" if image.glibc else ""
    if image.os == "alpine":
        libc = "musl"
    stated = dict(line.text.split("=", 1) for line in blueprint.variables)
    variables = {**image.variables, **keep_known_variables(stated)}
    if "PIP_CONSTRAINT" in stated:  # "" lifts it
        variables["PIP_CONSTRAINT"] = stated["PIP_CONSTRAINT"]
    if blueprint.loader_path is not None:
        variables.setdefault("LD_LIBRARY_PATH", blueprint.loader_path.text)
    return HostFacts(
        os=NOT_STATED if "windows" in image.reference.lower() else Known("linux", source),
        distribution_id=_of_image(image.os, image),
        distribution_version=_of_image(image.os_version, image),
        architecture=_architecture(blueprint),
        jetson_release=_of_image(image.jetson, image),
        libc_kind=_of_image(libc, image),
        libc_version=_of_image(image.glibc, image),
        container=Known("docker", source),
        is_root=Known(value=True, source=source),
        environment=Known(variables, source),
    )


def _toolkits(blueprint: Blueprint) -> Fact[tuple[ToolkitInstall, ...]] | None:
    """Name the toolkits; None where a step adds one, or nothing says what the system holds."""
    image = blueprint.image
    spec = find_spec(blueprint.conda, ("cudatoolkit", "cuda-toolkit", "cuda-version"))
    installs: list[ToolkitInstall] = []
    if spec is not None:
        installs.append(
            ToolkitInstall("$CONDA_PREFIX", "conda", version=Known(spec.text, _at(spec)))
        )
    if blueprint.toolkit is not None and not blueprint.cuda_steps:
        version, source = blueprint.toolkit.text, _at(blueprint.toolkit)
        root = f"{ROOT}-{version}"
        return Known((ToolkitInstall(root, "usr-local", version=Known(version, source)),), source)
    is_open = _is_partial(image) and not (image.flavor == "devel" and image.cuda)
    if not image.source or blueprint.cuda_steps or is_open:
        return Known(tuple(installs), _at(spec)) if spec else None
    if image.cuda and image.flavor in _LIBRARIES:
        version = major_minor(image.cuda)
        root = f"{ROOT}-{version}"
        nvcc: Fact[str] = NOT_STATED
        if image.flavor == "devel":
            nvcc = _of_image(f"{root}/bin/nvcc", image)
        elif image.flavor == "runtime":
            nvcc = Absent((image.location,))
        installs.insert(
            0, ToolkitInstall(root, "usr-local", version=_of_image(version, image), nvcc_path=nvcc)
        )
    if installs:
        return from_file(tuple(installs), image.location)
    return Absent((image.location,))


def _is_partial(image: Image) -> bool:
    """Say whether an image holds CUDA libraries of which its name says nothing.

    One for the CPU holds none.
    """
    is_for_cpu = bool(image.frameworks) and all("-cpu" in text for text in image.frameworks)
    return image.is_partial and not is_for_cpu


def _cudnn(blueprint: Blueprint) -> Fact[tuple[LibraryInstall, ...]] | None:
    """Name the cuDNN of the system; None where nothing says which it is."""
    image, spec = blueprint.image, find_spec(blueprint.conda, ("cudnn",))
    if spec is not None:
        copy = LibraryInstall(
            "cudnn", "$CONDA_PREFIX", "conda", package_version=Known(spec.text, _at(spec))
        )
        return Known((copy,), _at(spec))
    if blueprint.cuda_steps:
        return None
    if blueprint.cudnn is not None:
        image = replace(image, cudnn=blueprint.cudnn.text, is_partial=False)
    if image.cudnn and (not _is_partial(image) or image.flavor == "devel"):
        source = Source("file", image.location, image.reference)
        version: Fact[str] = Known(image.cudnn, source) if image.cudnn != "any" else NOT_STATED
        machine = _architecture(blueprint).value or "x86_64"
        folder = "/usr/lib64"
        if image.os in {"ubuntu", "debian", ""}:
            folder = f"/usr/lib/{machine}-linux-gnu"
        copy = LibraryInstall(
            "cudnn",
            "/usr",
            "debian",
            library_path=Known(f"{folder}/libcudnn.so", source),
            library_version=version,
            cuda_major=Known(major(image.cuda), source),
        )
        return Known((copy,), source)
    if image.source and not _is_partial(image):
        return Absent((image.location,))
    return None


def _python(blueprint: Blueprint) -> PythonFacts:
    version: Fact[str] = NOT_STATED
    if blueprint.python is not None:
        version = from_file(blueprint.python.text, blueprint.python.location)
    elif not blueprint.own_python:
        version = _of_image(blueprint.image.python, blueprint.image)
    source = version.source if isinstance(version, Known) else Source("file", blueprint.path)
    return PythonFacts(
        executable=Known("python", source),
        pip_version=_pip(blueprint),
        version=version,
        abi_tag=(
            Known(f"cp{version.value.replace('.', '')}", source) if version.value else NOT_STATED
        ),
        bits=Known(64, source),
        architecture=_architecture(blueprint),
    )


def _pip(blueprint: Blueprint) -> Fact[str]:
    """Name the system's own pip where the file installs it and uses no other."""
    image, line = blueprint.image, blueprint.pip
    is_upgraded = any(re.match(r"pip\b(?!-)", item.text) for item in blueprint.requirements)
    if line is None or not image.pip or blueprint.own_pip or blueprint.inherited or is_upgraded:
        return NOT_STATED
    return from_file(
        image.pip, line.location, f"{line.text}: {image.pip} in {image.os} {image.os_version}"
    )

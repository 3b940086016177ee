"""Query the matrix, as typed rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache, wraps
from typing import Any, TypeVar, cast

from envcheck.frameworks import framework_names, identity
from envcheck.matrix.built_in import EVIDENCE, BuiltInRow, DeferredCitations, DeferredTable
from envcheck.matrix.companions import asked_of, companion_row, shares_cuda
from envcheck.matrix.package_index import index_rows
from envcheck.model import (
    Architecture,
    Citation,
    CondaBuild,
    CudnnRelease,
    DriverBranch,
    FrameworkRelease,
    KnownProblem,
    RemovedDistribution,
    TensorrtRelease,
    Toolkit,
    list_fields,
    major,
    major_minor,
    numbers,
    replace,
)
from envcheck.model.versions import matches, within, without_zeros

Cells = Mapping[str, Any]  # a row of a document
R = TypeVar("R")
M = TypeVar("M", bound="Callable[..., Any]")

# the name and the sources of a row
_NO_CELLS = ("distribution", "platform", "citations", "note", "proof")

# The values of cells that a document omits because they do not apply.
_OMITTED: dict[type, dict[str, Any]] = {
    FrameworkRelease: {
        "glibc": None,
        "cuda": None,
        "cudnn": None,
        "compute_capabilities": (),
        "cpu_features": (),
        "gpu_extra": None,
        "cuda_wheels": (),
        "finds_cuda_wheels": False,
        "requires": {},
        "yanked": False,
    },
    Toolkit: {"minor_floor_linux": None, "minor_floor_windows": None},
    CondaBuild: {"releases": (), "pythons": (), "platforms": (), "cuda": ()},
    Architecture: {"last_toolkit": None, "first_driver_branch": None, "last_driver_branch": None},
    KnownProblem: {
        "platforms": (),
        "pythons": "",
        "requires_extra": None,
        "condition": "",
        "fix": "",
    },
}


def _kept(method: M) -> M:
    """Keep the answers of a method by its arguments: a matrix never changes."""

    @wraps(method)
    def answer(self: Matrix, *asked: Any) -> Any:
        key = (method, *asked)
        if key not in self.answers:
            self.answers[key] = method(self, *asked)
        return self.answers[key]

    return cast("M", answer)


class Matrix:
    """A loaded matrix document."""

    def __init__(
        self, document: Mapping[str, Any], origin: str = "", renewal: str = "refresh"
    ) -> None:
        """Wrap a decoded document of schema envcheck/matrix/1.

        `envcheck matrix RENEWAL` brings a newer one.
        """
        self._document = document
        self.origin, self.renewal = origin, renewal
        self._has_own_indexes = True
        # By identity: the row of cells that the document holds, and the builds of a row.
        self._built: dict[int, Any] = {}
        self.answers: dict[tuple[Any, ...], Any] = {}  # of the methods that keep them

    @property
    def checked(self) -> str:
        """Return the day the newest row was checked: 2026-11-21."""
        return str(self._document["checked"])

    # -- frameworks --

    def frameworks(self) -> tuple[str, ...]:
        """List the frameworks by their import names."""
        return tuple(self._document["frameworks"])

    @cached_property
    def _bodies(self) -> Mapping[str, Cells]:
        """Map each framework, and each companion planned like one, to its distributions."""
        judged = [
            name for name in framework_names() if _section_of(name) in self._document["companions"]
        ]
        rows = {name: identity(name).distributions.items() for name in judged}
        bodies = {
            name: {"distributions": [{"name": item, "module": module} for item, module in row]}
            for name, row in rows.items()
        }
        return {**self._document["frameworks"], **bodies}

    @_kept
    def _releases_of(self, framework: str) -> Mapping[str, list[Cells]]:
        """Map the versions of a framework to their rows.

        A section that several share holds those of each.
        """
        table, section = self._document["releases"], _section_of(framework)
        if section == framework or section not in table:
            versions: Mapping[str, list[Cells]] = table.get(framework, {})
            return versions
        owned = identity(framework).distributions
        shared = {
            version: [
                _with_code_of_library(row, table[section])
                for row in rows
                if row["distribution"] in owned
            ]
            for version, rows in table[section].items()
        }
        return {version: held for version, held in shared.items() if held}

    def judged(self) -> tuple[str, ...]:
        """List the frameworks, then the companions that are planned and judged like one."""
        return tuple(self._bodies)

    def distributions(self, framework: str) -> tuple[str, ...]:
        """List the distributions a framework comes in, the usual one first."""
        body = self._bodies.get(framework)
        return tuple(item["name"] for item in body["distributions"]) if body else ()

    @cached_property
    def _owners(self) -> dict[str, tuple[str, str]]:
        """Map distributions to their framework and top-level module.

        Rules ask about every installed one.
        """
        rows = [
            (item["name"], (framework, str(item["module"])))
            for framework, body in self._bodies.items()
            for item in body["distributions"]
        ]
        return dict(reversed(rows))  # the first row of a name counts

    def framework_of(self, distribution: str) -> str:
        """Return the framework a distribution (normalised name) belongs to; "" for none."""
        return self._owners.get(distribution, ("", ""))[0]

    def module_of(self, distribution: str) -> str:
        """Return the top-level module a framework distribution owns; "" for any other."""
        return self._owners.get(distribution, ("", ""))[1]

    def release(
        self, framework: str, version: str, platform: str, distribution: str | None = None
    ) -> FrameworkRelease | None:
        """Return the row of a release.

        Without `distribution`, of the first distribution that has it here.
        """
        versions = self._releases_of(framework)
        exact = next(filter(versions.__contains__, _list_spellings(version)), None)
        if exact is None:
            return None
        rows = [cells for cells in versions[exact] if cells["platform"] in (platform, "any")]
        for name in (distribution,) if distribution else self.distributions(framework):
            for cells in rows:
                if cells["distribution"] == name:
                    return self._row(FrameworkRelease, cells, framework=framework, version=exact)
        return None

    @_kept
    def versions(self, framework: str) -> tuple[str, ...]:
        """List the versions of a framework's releases, newest first."""
        return tuple(reversed([*self._releases_of(framework)]))

    def releases(
        self,
        framework: str,
        platform: str | None = None,
        admits: Callable[[str], bool] | None = None,
        pin: str = "",
    ) -> tuple[FrameworkRelease, ...]:
        """List a framework's releases, newest first; `admits` filters by version.

        With `pin`, only versions of that number are asked about: 2.15 and 2.15.0 for 2.15.
        """
        if admits is None and not pin:
            return self._all_releases(framework, platform)
        rows, versions = self._releases_of(framework), self.versions(framework)
        if pin:
            versions = tuple(self._by_number(framework).get(without_zeros(pin), ()))
        return tuple(
            self._row(FrameworkRelease, cells, framework=framework, version=version)
            for version in versions
            if admits is None or admits(version)
            for cells in rows[version]
            if platform is None or cells["platform"] in (platform, "any")
        )

    @_kept
    def _all_releases(self, framework: str, platform: str | None) -> tuple[FrameworkRelease, ...]:
        """List a framework's releases once for each platform.

        A plan of several packages asks a thousand times.
        """
        return self.releases(framework, platform, admits=lambda _: True)

    def builds(
        self,
        framework: str,
        platform: str | None = None,
        admits: Callable[[str], bool] | None = None,
        pin: str = "",
    ) -> Iterator[FrameworkRelease]:
        """Yield releases like `releases`, each followed by its index's builds."""
        for row in self.releases(framework, platform, admits, pin):
            yield row
            yield from self.index_builds(row)

    @_kept
    def _by_number(self, framework: str) -> dict[tuple[int, ...], list[str]]:
        """Map the versions of a framework, newest first, by their numbers without last zeros."""
        numbered: dict[tuple[int, ...], list[str]] = {}
        for item in self.versions(framework):
            numbered.setdefault(without_zeros(item), []).append(item)
        return numbered

    def build(
        self,
        framework: str,
        version: str,
        local: str,
        platform: str,
        distribution: str | None = None,
    ) -> FrameworkRelease | None:
        """Return the row of one build, by its label such as cu126.

        Return "" for the one on the default index.
        """
        row = self.release(framework, version, platform, distribution)
        if row is None or not local:
            return row
        return next((item for item in self.index_builds(row) if item.local == local), None)

    def without_own_indexes(self) -> Matrix:
        """Return the matrix without the builds of the frameworks' own indexes."""
        changed = Matrix(self._document, self.origin, self.renewal)
        changed._has_own_indexes = False
        return changed

    def index_builds(self, row: FrameworkRelease) -> tuple[FrameworkRelease, ...]:
        """List the builds of a release on its framework's own index, newest CUDA first.

        Return () where there are none.
        """
        if id(row) not in self._built:
            self._built[id(row)] = index_rows(row) if self._has_own_indexes else ()
        builds: tuple[FrameworkRelease, ...] = self._built[id(row)]
        return builds

    def cudas(self, framework: str, version: str, platform: str) -> tuple[str, ...]:
        """List the CUDA lines of a release's builds for a platform, without building their rows."""
        rows = self._releases_of(framework).get(version, ())
        return tuple(
            cells["cuda"]
            for cells in rows
            if cells["platform"] in (platform, "any") and cells.get("cuda")
        )

    def companion_of(self, distribution: str) -> str:
        """Return the companion of a distribution.

        Keras for tf-keras; "" for any other, and for one that is judged like a framework.
        """
        name = self._companion_names.get(distribution, "")
        return "" if name and self.framework_of(distribution) else name

    @cached_property
    def _companion_names(self) -> dict[str, str]:
        companions = self._document["companions"].items()
        return {item["name"]: name for name, body in companions for item in body["distributions"]}

    @_kept
    def companions_of(
        self, framework: str, version: str, platform: str, distribution: str
    ) -> tuple[FrameworkRelease, ...]:
        """List a companion's releases for a framework's release and platform, newest first."""
        pins = self.companion_pins(framework, distribution)
        fitting = {name for name, pin in pins.items() if matches(version, pin)}
        rows = self.companion_releases(distribution, platform) if fitting else ()
        return tuple(row for row in rows if row.version in fitting)

    @_kept
    def companion_pins(self, framework: str, distribution: str) -> Mapping[str, str]:
        """Map a companion's releases to the framework releases that they name.

        The newest is first: 0.29.1 to >=2.14.
        """
        pins: dict[str, str] = {}
        for row in self.companion_releases(distribution):
            pin = asked_of(row, framework)
            # one platform's wheel may leave open what the others pin
            if pin is not None and not row.yanked:
                pins[row.version] = pin or pins.get(row.version, "")
        return pins

    def is_of_one_cuda(self, companion: FrameworkRelease, release: FrameworkRelease) -> bool:
        """Return whether a companion has a build for the CUDA of a framework's build."""
        if self.is_on_index(companion, release):
            return True
        of_index = release.local and release.cuda and companion_row(companion.distribution).on_index
        return not of_index and shares_cuda(companion, release)

    def is_on_index(self, companion: FrameworkRelease, release: FrameworkRelease) -> bool:
        """Return whether the index of a framework's build has the companion's build.

        It has one for each CUDA that the companion's row names, else for each of the first
        framework release that the companion is for.
        """
        if not release.local or not companion_row(companion.distribution).on_index:
            return False
        if not release.cuda:
            return any(
                item.platform.startswith("macosx")
                for item in self.companion_releases(companion.distribution)
            )
        if companion.variants:
            return release.cuda in companion.variants
        pin = self.companion_pins(release.framework, companion.distribution).get(companion.version)
        versions = reversed(self.versions(release.framework))
        oldest = release.version
        if pin:
            oldest = next((item for item in versions if within(item, pin)), "")
        first = self.release(release.framework, oldest, release.platform)
        return first is not None and release.cuda in first.variants

    @_kept
    def companion_releases(
        self, distribution: str, platform: str | None = None, specifier: str = ""
    ) -> tuple[FrameworkRelease, ...]:
        """List the releases of a companion, newest first, for every platform or for one."""
        return tuple(
            row
            for row in self.releases(self.companion_of(distribution), platform)
            if row.distribution == distribution and within(row.version, specifier)
        )

    def companions_requiring(self, distribution: str, required: str) -> Iterator[FrameworkRelease]:
        """Yield a companion's releases that require another distribution, newest first.

        Build no other row.
        """
        name = self.companion_of(distribution)
        for version in self.versions(name):
            for cells in self._releases_of(name)[version]:
                if cells["distribution"] == distribution and required in cells.get("requires", ()):
                    yield self._row(FrameworkRelease, cells, framework=name, version=version)

    def removed_distribution(self, name: str) -> RemovedDistribution | None:
        """Return why a distribution no longer installs its framework; None if it does."""
        return self._one(RemovedDistribution, "removed", name=name)

    def problems(
        self, distribution: str, version: str, stage: str = "run"
    ) -> tuple[KnownProblem, ...]:
        """List the known problems of a release; the caller checks platform, Python and conditions.

        `stage`: "run" for installed releases, "install" for requirements that do not resolve,
        "advice" for the rest.
        """
        return tuple(
            item
            for item in self.problems_of(distribution)
            if item.stage == stage and matches(version, item.specifier)
        )

    @_kept
    def problems_of(self, distribution: str) -> tuple[KnownProblem, ...]:
        """List the known problems of all releases of a distribution."""
        return tuple(
            self._build(KnownProblem, cells, distribution=distribution)
            for cells in self._document["problems"]
            if distribution in cells["distributions"]
        )

    # -- CUDA and the driver --

    def toolkit(self, version: str) -> Toolkit | None:
        """Return the CUDA Toolkit line of a version such as 12.6 or 12.6.77."""
        return self._one(Toolkit, "toolkits", version=major_minor(version))

    def resolve_toolkit(self, cuda: str) -> Toolkit | None:
        """Return the line of a CUDA version.

        A bare major, as JAX names its builds, stands for its oldest line.
        """
        if "." in cuda:
            return self.toolkit(cuda)
        return next((row for row in reversed(self.toolkits()) if major(row.version) == cuda), None)

    def toolkits(self) -> tuple[Toolkit, ...]:
        """List the CUDA Toolkit lines, newest first."""
        return tuple(
            row for row in map(self.toolkit, reversed([*self._document["toolkits"]])) if row
        )

    def cuda_sonames(self, cuda_version: str) -> Mapping[str, str]:
        """Map each CUDA library to its soname in that toolkit.

        Cudart to libcudart.so.12; empty when unknown.
        """
        toolkit = self.toolkit(cuda_version)
        return toolkit.sonames if toolkit else {}

    def toolkits_with(self, library: str, soname: str) -> tuple[str, ...]:
        """List the toolkit lines whose `library`, such as cublas, has this soname.

        The newest is first.
        """
        return tuple(row.version for row in self.toolkits() if row.sonames.get(library) == soname)

    def driver_branch(self, release: str) -> DriverBranch | None:
        """Return the branch of a Linux driver release such as 550.163.01, or of 550."""
        return self._one(DriverBranch, "drivers", branch=major(release))

    def driver_branches(self) -> tuple[DriverBranch, ...]:
        """List the driver branches, newest first."""
        return tuple(
            row for row in map(self.driver_branch, reversed([*self._document["drivers"]])) if row
        )

    def newest_driver(self, branch: str, *, windows: bool = False) -> str:
        """Return the newest known release of a branch: 580 -> 580.95.05; "" where none is known.

        Windows numbers its releases in its own way: what is known of them are the drivers that
        toolkits need.
        """
        row = None if windows else self.driver_branch(branch)
        toolkits = [
            cells["min_driver_windows" if windows else "min_driver_linux"]
            for cells in self._document["toolkits"].values()
        ]
        releases = [
            item
            for item in (row.release if row else "", *toolkits)
            if item and major(item) == branch
        ]
        return max(releases, key=numbers, default="")

    def is_dropped(self, compute_capability: str) -> bool:
        """Return whether newer toolkits no longer build for a compute capability."""
        row = self.architecture(compute_capability)
        return row is not None and row.last_toolkit is not None

    def is_tegra(self, capability: str) -> bool:
        """Return whether a compute capability is of Tegra's GPUs, which run no others' code."""
        row = self.architecture(capability)
        return row is not None and row.tegra

    def architecture(self, compute_capability: str) -> Architecture | None:
        """Return the GPU architecture of a compute capability such as 8.9."""
        return self._one(Architecture, "architectures", compute_capability=compute_capability)

    def architectures(self) -> tuple[Architecture, ...]:
        """List the GPU architectures, oldest first."""
        return tuple(row for row in map(self.architecture, self._document["architectures"]) if row)

    # -- cuDNN and TensorRT --

    def cudnn(self, version: str, cuda_major: str | None = None) -> CudnnRelease | None:
        """Return the cuDNN line of a version, built for one CUDA major if that is given.

        Without `cuda_major` the row joins all builds: every CUDA version, the lowest floors.
        """
        if version:
            rows = [
                row for row in self.cudnn_builds(version) if cuda_major in (None, row.cuda_major)
            ]
        else:
            rows = []
        return _join_builds(rows) if rows else None

    def cudnn_builds(self, version: str = "") -> tuple[CudnnRelease, ...]:
        """List the builds of a cuDNN line, or of all, by CUDA major, oldest first."""
        return self._lines(CudnnRelease, "cudnn", version)

    def cudnn_soname(self, version: str) -> str | None:
        """Return the soname of a cuDNN version: libcudnn.so.9."""
        row = self.cudnn(version)
        return row.soname if row else None

    def tensorrt(self, version: str = "") -> tuple[TensorrtRelease, ...]:
        """List the builds of a TensorRT line, or of all, by CUDA major."""
        return self._lines(TensorrtRelease, "tensorrt", version)

    # -- conda --

    def conda_packages(self) -> tuple[str, ...]:
        """List the packages with documented conda builds."""
        return tuple(self._document["conda"])

    def conda_builds(self, package: str) -> tuple[CondaBuild, ...]:
        """List the documented builds of a package on the conda channels."""
        return tuple(
            self._row(CondaBuild, cells, package=package)
            for cells in self._document["conda"].get(package, ())
        )

    # -- rows --

    def _one(self, kind: type[R], section: str, **key: str) -> R | None:
        """Return the row of a section by its key, given under the name of its field."""
        cells = self._document[section].get(*key.values())
        return self._row(kind, cells, **key) if cells else None

    def _lines(self, kind: type[R], section: str, version: str) -> tuple[R, ...]:
        table = self._document[section]
        lines = (major_minor(version),) if version else tuple(table)
        return tuple(
            self._row(kind, cells, version=line) for line in lines for cells in table.get(line, ())
        )

    def _row(self, kind: type[R], cells: Cells, **key: Any) -> R:
        if id(cells) not in self._built:
            self._built[id(cells)] = self._build(kind, cells, **key)
        row: R = self._built[id(cells)]
        return row

    def _build(self, kind: type[R], cells: Cells, **key: Any) -> R:
        """Build a row from its cells and its key. Raises TypeError for an unknown cell."""
        values = {
            name: tuple(value) if value.__class__ is list else value
            for name, value in cells.items()
            if name not in (*EVIDENCE, "distributions")  # of a problem: the key names one
        }
        values["citations"] = DeferredCitations(lambda: self._cite(cells["citations"]))
        if isinstance(cells.get("proof"), str):
            values["proof"] = cells["proof"]
        elif "proof" in list_fields(kind):
            values["proof"] = DeferredTable(lambda: _expand_proof(cells))
        if "binaries" in list_fields(kind):
            values["binaries"] = DeferredTable(lambda: _get_evidence(cells, "binaries"))
        return kind(**{**_OMITTED.get(kind, {}), **values, **key})

    def _cite(self, names: Iterable[str]) -> Iterator[Citation]:
        for cells in map(self._document["citations"].__getitem__, names):
            digest = f" (sha256 {cells['sha256']})" if "sha256" in cells else ""  # of an artifact
            yield Citation(cells["url_or_artifact"], cells["locator"] + digest, cells["checked"])


@lru_cache(maxsize=64)
def _section_of(framework: str) -> str:
    """Name the section of releases that holds a framework.

    Its own, or the one of the companion that it is.
    """
    names = identity(framework).plans.gpu_distributions if framework in framework_names() else ()
    return companion_row(names[0]).releases or framework if names else framework


def _with_code_of_library(row: Cells, versions: Mapping[str, list[Cells]]) -> Cells:
    """Give Python bindings the GPU code of the newest library that they require."""
    beside = (
        item
        for version in reversed(list(versions))
        for item in versions[version]
        if item["platform"] == row["platform"] and item["distribution"] in row["requires"]
        if within(version, row["requires"][item["distribution"]])
    )
    library = next((item for item in beside if item["compute_capabilities"]), None)
    if library is None or row["compute_capabilities"]:
        return row
    shown = {name: value for name, value in row.items() if name not in EVIDENCE}
    shown["compute_capabilities"] = library["compute_capabilities"]
    shown["note"] = row["note"].replace(
        _UNREAD_CODE, f"Its GPU code is that of {library['distribution']}."
    )

    def read_evidence() -> Cells:
        citations = [*row["citations"], *library["citations"]]
        return {
            **row,
            **shown,
            "citations": citations,
            "proof": {**row["proof"], "compute_capabilities": "tier2"},
        }

    return BuiltInRow(shown, read_evidence)


_UNREAD_CODE = "Compute capabilities were not read."


def _list_spellings(version: str) -> Iterator[str]:
    """Yield how the matrix may spell a version, trailing zeros aside: 2.15 -> 2.15.0."""
    yield version
    if version.count(".") == 1:
        yield version + ".0"
    elif version.endswith(".0"):
        yield version[: -len(".0")]


def _get_evidence(cells: Cells, cell: str) -> Mapping[str, Any]:
    """Return a cell of a row's evidence; empty where the row has none.

    A built-in row reads its evidence on asking.
    """
    try:
        found: Mapping[str, Any] = cells[cell]
    except KeyError:
        return {}
    return found


def _expand_proof(cells: Cells) -> dict[str, str]:
    """Return the proof of each cell.

    "*" stands for the cells that the row's proof does not name.
    """
    proof = dict(_get_evidence(cells, "proof"))
    rest = proof.pop("*", None)
    if rest is None:
        return proof
    return {
        cell: proof.get(cell, rest)
        for cell in cells
        if cell not in _NO_CELLS and cells[cell] is not None
    }


def _join_builds(builds: list[CudnnRelease]) -> CudnnRelease:
    """Join the builds of one cuDNN line for several CUDA majors, oldest CUDA first."""
    default = builds[0]
    if len(builds) == 1:
        return default
    return replace(
        default,
        cuda=tuple(cuda for row in builds for cuda in row.cuda),
        citations=DeferredCitations(
            lambda: dict.fromkeys(citation for row in builds for citation in row.citations)
        ),
        note=" ".join(dict.fromkeys(row.note for row in builds if row.note)),
        cuda_major=None,
    )

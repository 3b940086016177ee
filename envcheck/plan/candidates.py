"""List the releases that may answer a request, with what must be kept in bounds beside each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from packaging.version import Version

from envcheck.frameworks import framework
from envcheck.matrix.companions import (
    SourceInstall,
    asked_of,
    companion_row,
    load_companions,
    source_package,
)
from envcheck.matrix.documented_gpus import documented_gpus
from envcheck.matrix.package_index import CPU, is_proposed
from envcheck.matrix.query import Matrix
from envcheck.model import (
    CONDA,
    Finding,
    FrameworkRelease,
    KnownProblem,
    PlannedRelease,
    dataclass,
    major,
    major_minor,
    numbers,
    replace,
)
from envcheck.model.fixes import BoundCudnn
from envcheck.model.versions import can_be_met, clauses, name_of, within
from envcheck.plan.data import CudaWheelSet, SourceOnly, plan_data
from envcheck.plan.requests import Request
from envcheck.rules.builds import library_of, plugin_of, rows_by_extra, supports_python
from envcheck.rules.context import Context
from envcheck.rules.cudnn import list_cudnn_caps
from envcheck.rules.gpu_releases import NONE as NO_CODE
from envcheck.rules.gpu_releases import coverage, driver_runs, parse_target
from envcheck.rules.matrix_question import is_refused_for_gpu
from envcheck.rules.requirements import has_extra_wheels, has_extras, resolve_extras, wheel_glibc


@dataclass
class ChosenCompanion:
    """What comes beside a release, or on top of it."""

    name: str
    # torchvision==0.28.0; as it was typed where the matrix does not tell the release
    requirement: str
    row: FrameworkRelease | None = None  # of the default index
    on_index: bool = False  # it comes from the framework's own index
    source: SourceInstall | None = None  # of what is published as source only

    @property
    def label(self) -> str:
        """Name it in a sentence."""
        if self.row:
            return f"{self.name} {self.row.version}"
        return self.requirement.replace("==", " ")


@dataclass
class Candidate:
    """One release in one build."""

    row: FrameworkRelease
    requirement: str  # tensorflow[and-cuda]==2.20.0, torch==2.7.1+cu118
    targets: tuple[str, ...]  # what the rules are asked about; jax is nothing without jaxlib
    # the row that says which CUDA it brings, where that is not `row`
    plugin: FrameworkRelease | None = None
    # the row of the compiled half, where that is not `row`: jaxlib
    library: FrameworkRelease | None = None
    # what else was asked for, as it goes with this release
    chosen: tuple[ChosenCompanion, ...] = ()

    @property
    def companions(self) -> tuple[str, ...]:
        """List the requirements of what else was asked for: torchvision==0.28.0."""
        return tuple(item.requirement for item in self.chosen)

    @property
    def label(self) -> str:
        """Name it with what else was asked for: torch==2.9.1 vllm==0.20."""
        return " ".join((self.requirement, *self.companions))

    @property
    def is_gpu(self) -> bool:
        """Say whether it is a CUDA build."""
        return self.cuda_row.cuda_build

    @property
    def is_of_cuda_index(self) -> bool:
        """Say whether it is a CUDA build of its framework's own index, whose pins are not known."""
        return self.is_gpu and bool(self.row.local)

    @property
    def rows(self) -> tuple[FrameworkRelease, ...]:
        """List the rows of everything it consists of, and of what comes beside it."""
        beside = (item.row for item in self.chosen)
        return tuple(
            row for row in (self.row, self.library, self.plugin, *beside) if row is not None
        )

    @property
    def cuda(self) -> str | None:
        """Return the CUDA version it was built with; None for a CPU build."""
        return self.cuda_row.cuda if self.is_gpu else None

    @property
    def cuda_row(self) -> FrameworkRelease:
        """Return the row that tells of its CUDA."""
        return self.plugin or self.row


def candidates(context: Context, request: Request, *, is_whole: bool = True) -> Iterator[Candidate]:
    """Yield a request's releases on this platform, newest first, the better build first.

    Unless the list is to be whole, what cannot work is left out before anything is matched that
    comes beside it.
    """
    identity = framework(request.framework)
    if _label_of(request) and not identity.index:
        return  # no build of it is known by a label
    if context.goal == "cpu" and identity.cuda.needs_gpu:
        return
    builds = _by_distribution
    if identity.plugins:
        builds = _by_plugin
    elif identity.index:
        builds = _by_label
    found: Iterable[Candidate] = (
        item
        for rows in _by_version(context, request)
        if is_whole or any(supports_python(context, row) for row in rows)
        for item in builds(context, request, rows)
        if is_whole or is_possible(context, item)
    )
    if request.companions:
        beside = _with_companions(context, request, found)
        yield from sorted(beside, key=_companion_versions, reverse=True)
    else:
        yield from found


def is_possible(context: Context, candidate: Candidate) -> bool:
    """Return whether a candidate is worth judging: the rules reject what is left out here."""
    if context.goal == "gpu" and not (candidate.is_gpu and driver_runs(context, candidate.cuda)):
        return False
    return supports_python(context, candidate.row) and not is_refused_for_gpu(
        context, candidate.cuda_row
    )


def _with_companions(
    context: Context, request: Request, found: Iterable[Candidate]
) -> Iterator[Candidate]:
    """Add what comes beside each candidate.

    Leave out those beside which something has no release.
    """
    default: Candidate | None = None  # the last one of the default index
    for candidate in found:
        is_same = default and (default.row.version, default.cuda) == (
            candidate.row.version,
            candidate.cuda,
        )
        if candidate.row.local and is_same:
            continue  # the same build once more, for what only the framework's own index has
        chosen = match_companions(context, candidate.row, request.companions)
        if chosen is not None:
            default = default if candidate.row.local else candidate
            yield replace(candidate, chosen=chosen)


def _companion_versions(candidate: Candidate) -> list[Version]:
    """Order candidates by what comes beside them.

    What nothing tells of, or is to be compiled, is the oldest.
    """
    versions = []
    for item in candidate.chosen:
        if item.row:
            versions.append(Version(item.row.version))
        else:
            versions.append(Version("1" if is_built_file(item) else "0"))
    return versions


def is_built_file(item: ChosenCompanion) -> bool:
    """Return whether something comes as the built file of a package that could be compiled, too."""
    return item.source is not None and not item.source.compiles and is_source_only(item.name)


def _by_version(context: Context, request: Request) -> Iterator[list[FrameworkRelease]]:
    """Group the admitted rows for this platform by version."""
    version_clauses = tuple(clauses(request.specifier))
    public = ",".join(item.operator + item.version.partition("+")[0] for item in version_clauses)
    is_pin = any(
        item.operator in ("==", "===") and not item.version.endswith(".*")
        for item in version_clauses
    )
    for version in context.matrix.versions(request.framework):
        if within(version, public, prereleases=False):
            rows = context.matrix.releases(
                request.framework, context.platform, version.__eq__, pin=version
            )
            usable = [
                row
                for row in rows
                if (is_pin or not row.yanked) and _provides(context, row, request)
            ]
            if usable:
                yield usable


def _provides(context: Context, row: FrameworkRelease, request: Request) -> bool:
    """Return whether a release of the distribution has the extras that are asked for.

    Its parts need none.
    """
    known, extras = framework(row.framework), request.extras
    if not extras or row.distribution == known.library:
        return True
    if row.distribution not in known.distributions:
        return True
    return has_extras(row, extras) and has_extra_wheels(context.platform, row, extras)


def _label_of(request: Request) -> str:
    """Return the local version that is asked for: cu118 of ==2.7.1+cu118."""
    return next((item.version.partition("+")[2] for item in clauses(request.specifier)), "")


def _by_distribution(
    context: Context, request: Request, rows: list[FrameworkRelease]
) -> Iterator[Candidate]:
    names = _list_distributions(context, request)
    named = (row for name in names for row in rows if row.distribution == name)
    usable = [part for row in named for part in rows_by_extra(row, request.extras)]
    if context.goal == "cpu":  # what others require by its name keeps it
        usable = [row for row in usable if row.distribution == request.preferred_name] or usable
    matches = [
        row for row in usable if row.cuda_build == (context.goal == "gpu") and not row.stub_for
    ]
    # An empty wheel stands for another distribution: the usual name's problems are the known ones.
    usable.sort(
        key=lambda row: (
            row.cuda_build != (context.goal == "gpu"),
            row.distribution != request.distribution,
        )
    )
    # several only where the distribution's name says the CUDA
    by_cuda = {row.cuda: row for row in reversed(matches)}
    for row in [row for row in matches if by_cuda[row.cuda] is row] or usable[:1]:
        gpu_extras = (row.gpu_extra or "").split(",") if context.goal == "gpu" else []
        extras = sorted({*request.extras, *filter(None, gpu_extras)})
        yield Candidate(
            row, text := _write_requirement(row.distribution, extras, row.version), (text,)
        )


def _list_distributions(context: Context, request: Request) -> tuple[str, ...]:
    """List the names a release may come under; a name that is asked for by itself stands."""
    if request.distribution != request.framework:
        return (request.distribution,)
    identity = framework(request.framework)
    if context.goal == "gpu":
        return identity.plans.gpu_distributions
    return identity.plans.cpu_distributions


def _by_plugin(
    context: Context, request: Request, rows: list[FrameworkRelease]
) -> Iterator[Candidate]:
    identity = framework(request.framework)
    row = next((row for row in rows if row.distribution == identity.main), None)
    if row is None:
        return
    library = library_of(context, row)
    cuda_extras = [extra for extra in request.extras if extra.startswith("cuda")]
    if not set(resolve_extras(row, cuda_extras)) <= set(row.extras):
        return  # pip would go on without what an extra that is not there was to bring
    alternatives: list[str] = (
        (cuda_extras or sorted(row.extras, reverse=True)) if context.goal == "gpu" else []
    )
    # releases up to 0.4.29 brought no jaxlib by themselves
    default = "" if identity.library in row.requires else "cpu"
    for extra in alternatives or [default]:
        extras = sorted({*request.extras, *([extra] if extra else [])})
        text = _write_requirement(identity.main, extras, row.version)
        plugin = None
        if extra:
            plugin = plugin_of(context, row, resolve_extras(row, (extra,))[0])
        library_pin = f"{identity.library}=={(library or row).version}"
        yield Candidate(row, text, (text, library_pin), plugin=plugin, library=library)


def _by_label(
    context: Context, request: Request, rows: list[FrameworkRelease]
) -> Iterator[Candidate]:
    label = _label_of(request)
    builds = [build for row in rows[:1] for build in (row, *context.matrix.index_builds(row))]
    chosen = [item for item in builds if item.local == label]
    if not label:
        chosen = _choose_builds(context, builds, beside=bool(request.companions))
    for build in chosen:
        text = _write_requirement(build.distribution, request.extras, build.build_version)
        yield Candidate(build, text, (text,))


def _choose_builds(
    context: Context, builds: list[FrameworkRelease], *, beside: bool
) -> list[FrameworkRelease]:
    """Choose the builds of a release that fit the goal, the one on the default index first.

    What comes `beside` it may be for one CUDA alone, or on the framework's own index alone.
    """
    default, alternatives = builds[0], builds[1:]
    cpu = [build for build in alternatives if build.local == CPU] or [default]
    if context.goal == "cpu" and not beside:
        return cpu
    named = [build for build in alternatives if build.cuda_build and is_proposed(build)]
    gpu = [build for build in named if beside or build.cuda != major_minor(default.cuda)]
    usable = [default, *gpu] if default.cuda_build or not gpu else gpu
    if context.goal == "cpu":
        return [*cpu, *(build for build in usable if build not in cpu)]
    return usable


def _write_requirement(name: str, extras: Iterable[str], version: str) -> str:
    extra_list = ",".join(extras)
    return f"{name}{f'[{extra_list}]' if extra_list else ''}=={version}"


NONE, OWN, WHEELS, PACKAGES, SYSTEM = "none", "own", "wheels", "conda", "system"


@dataclass
class CudaSource:
    """One way to get the CUDA libraries."""

    # NONE: a CPU build, work on the CPU; OWN: its extra or dependencies; else WHEELS, SYSTEM or
    # PACKAGES, which are conda's.
    kind: str
    requirements: tuple[str, ...] = ()  # wheels to install beside the framework
    packages: tuple[str, ...] = ()  # conda specs
    channels: tuple[str, ...] = ()
    cuda: str = ""  # CUDA version it brings, where the rules would else look for it on the system
    cudnn: str = ""
    needs_hook: bool = False  # the framework does not look where the libraries come to lie


def cuda_sources(context: Context, candidate: Candidate, installer: str) -> tuple[CudaSource, ...]:
    """List the ways for a candidate, the best first; the system's toolkit is the last."""
    row = candidate.cuda_row
    # without its extra it brings none
    if not candidate.is_gpu or (context.goal == "cpu" and row.gpu_extra):
        return (CudaSource(NONE),)
    if (
        not framework(candidate.row.framework).plans.takes_system_cuda
        or row.gpu_extra
        or row.cuda_wheels
    ):
        return (CudaSource(OWN, needs_hook=not row.finds_cuda_wheels and bool(row.gpu_extra)),)
    if context.goal == "cpu":
        return (CudaSource(NONE),)  # a CUDA build that finds no CUDA computes on the CPU
    sources = [] if installer == CONDA else [*_wheel_sources(context, candidate)]
    if installer in ("", CONDA):
        sources += _conda_sources(context, candidate)
    return (*sources, CudaSource(SYSTEM))


def _wheel_sources(context: Context, candidate: Candidate) -> list[CudaSource]:
    cuda, cudnn = candidate.row.cuda or "", candidate.row.cudnn or ""
    own = framework(candidate.row.framework).cuda.wheels.get(cuda.partition(".")[0])
    if own is not None:
        toolkit = next(
            (item.version for item in context.matrix.toolkits() if major(item.version) == cuda), ""
        )
        cudnn_wheels = [f"nvidia-cudnn-cu{cuda}=={major(cudnn)}.*"] if cudnn else []
        return [
            CudaSource(WHEELS, (*own, *cudnn_wheels), cuda=toolkit, cudnn=cudnn, needs_hook=True)
        ]
    sources = []
    for row in plan_data().cuda_wheels:
        if context.platform in row.platforms and _same_sonames(context, row, cuda):
            lowest = max(cudnn, row.cudnn_first, key=Version)
            wheels = (*row.requirements, f"{row.cudnn}>={lowest},<{numbers(cudnn)[0] + 1}")
            sources.append(CudaSource(WHEELS, wheels, cuda=cuda, cudnn=cudnn, needs_hook=True))
    return sources


def _same_sonames(context: Context, row: CudaWheelSet, cuda: str) -> bool:
    """Return whether libraries of one CUDA bear the names that builds for another load."""
    sonames = context.matrix.cuda_sonames(row.cuda)
    expected = context.matrix.cuda_sonames(cuda)
    return bool(expected) and all(
        sonames.get(name) == expected.get(name) for name in row.libraries if name in expected
    )


def _conda_sources(context: Context, candidate: Candidate) -> list[CudaSource]:
    data = plan_data().conda_libraries
    cuda = major_minor(candidate.row.cuda)
    sources = []
    for row in data.rows:
        cudnn = _lowest_cudnn(row.cudnn, major_minor(candidate.row.cudnn))
        if (
            cuda in row.cuda
            and context.platform in row.platforms
            and (cudnn or not candidate.row.cudnn)
        ):
            specs = (
                data.toolkit.format(cuda=cuda),
                *((data.cudnn.format(cudnn=cudnn),) if cudnn else ()),
            )
            on_linux = context.os == "linux"
            source = CudaSource(
                PACKAGES,
                packages=specs,
                channels=row.channels,
                cuda=cuda,
                cudnn=cudnn,
                needs_hook=on_linux,
            )
            sources.append(source)
    return sources


def _lowest_cudnn(lines: Sequence[str], lowest: str) -> str:
    """Return a channel's lowest cuDNN line, of the same major, that the build can use.

    A channel whose lines are not known (none listed) is taken to hold every one.
    """
    if not (lines and lowest):
        return lowest
    for line in lines:
        if major(line) == major(lowest) and Version(line) >= Version(lowest):
            return line
    return ""


_APPLE = "macosx_arm64"


def constraints(context: Context, candidate: Candidate, source: CudaSource) -> tuple[str, ...]:
    """List the requirements to install beside a release, each from a row of the matrix."""
    bounds = (
        text
        for _, text in _bounding_problems(context, candidate)
        if not name_of(text).startswith("nvidia-")
    )
    plugins = (row.pin for row in _apple_plugins(context, candidate.row))
    requirements = [*bounds, *source.requirements]
    caps = _cudnn_caps(context, candidate, source)
    uncapped = [item for item in requirements if name_of(item) not in caps]
    return tuple(dict.fromkeys([*candidate.companions, *uncapped, *caps.values(), *plugins]))


def source_only(context: Context, candidate: Candidate) -> tuple[str, ...]:
    """List the dependencies of a release that exist as source distributions only."""
    return tuple(name for entry in _source_rows(context, candidate) for name in entry.names)


def _source_rows(context: Context, candidate: Candidate) -> Iterator[SourceOnly]:
    rows = (candidate.row, *(item.row for item in candidate.chosen if item.row))
    for entry in plan_data().source_only.rows:
        is_match = any(
            row.distribution in entry.distributions and within(row.version, entry.specifier)
            for row in rows
        )
        if is_match and within(python_minor(context), entry.pythons):
            yield entry


def machine_glibc(context: Context) -> str:
    """Return the glibc of a Linux; "" where it is unknown or there is none."""
    if context.os == "linux":
        return context.host.libc_version.value or ""
    return ""


def python_minor(context: Context) -> str:
    """Return the planned Python's minor version: 3.11."""
    version = context.python.version.value
    return major_minor(version) if version else ""


def is_resolved(context: Context, candidate: Candidate, finding: Finding) -> bool:
    """Return whether a release's constraints or builds take away a finding's warning."""
    if isinstance(finding.cure, BoundCudnn):
        return True  # the constraints hold the bound
    problems = {problem.id for problem, _ in _bounding_problems(context, candidate)}
    problems |= {entry.answers for entry in _source_rows(context, candidate) if entry.answers}
    return any(item.fact.removeprefix("problems ") in problems for item in finding.evidence)


def _bounding_problems(
    context: Context, candidate: Candidate
) -> Iterator[tuple[KnownProblem, str]]:
    """Pair each known problem that hangs on a neighbour's version with what bounds it."""
    for row in (candidate.row, candidate.cuda_row):
        for stage in ("run", "advice"):
            for problem in context.matrix.problems(row.distribution, row.version, stage):
                if problem.condition and _applies(context, problem):
                    for item in problem.fix.split():
                        if name_of(item) != row.distribution:
                            yield problem, item


def _applies(context: Context, problem: KnownProblem) -> bool:
    on_platform = not problem.platforms or context.platform in problem.platforms
    return on_platform and within(python_minor(context), problem.pythons)


def _cudnn_caps(context: Context, candidate: Candidate, source: CudaSource) -> dict[str, str]:
    """Bound the cuDNN wheel where the newest one that may be resolved no longer serves the GPUs."""
    wheels = candidate.cuda_row.cuda_wheels if source.kind == OWN else ()
    caps = {name: f"{name}{cap}" for name, cap in list_cudnn_caps(context, wheels)}
    for name, cap in list_cudnn_caps(context, source.requirements):
        bounds = next(item for item in source.requirements if name_of(item) == name)
        caps[name] = f"{bounds},{cap}"
    return {**_problem_caps(context, candidate, source), **caps}


def _problem_caps(context: Context, candidate: Candidate, source: CudaSource) -> dict[str, str]:
    """Take a bound on an nvidia wheel from a known problem, such as an open cuDNN."""
    bounds: dict[str, str] = {}
    if source.kind != OWN:
        return bounds
    row = candidate.cuda_row
    for problem in context.matrix.problems(row.distribution, row.version, "run"):
        for item in problem.fix.split():
            if item.startswith("nvidia-") and _applies(context, problem):
                bounds[name_of(item)] = item
    return bounds


def list_apple_plugins(
    context: Context, releases: Iterable[PlannedRelease]
) -> list[FrameworkRelease]:
    """List the rows of the plugins for Apple's GPU that planned releases have beside them."""
    return [row for item in releases for row in _apple_plugins(context, item)]


def newest_with_apple_plugin(context: Context, name: str) -> str:
    """Name the newest release of a framework that a plugin for Apple's GPU goes with here.

    Return "" where there is none.
    """
    if context.platform != _APPLE or not framework(name).apple_plugin:
        return ""
    rows = context.matrix.releases(name, context.platform)
    return next((row.version for row in rows if _apple_plugins(context, row)), "")


def _apple_plugins(
    context: Context, release: FrameworkRelease | PlannedRelease
) -> list[FrameworkRelease]:
    """List the newest plugin for Apple's GPU that goes with a release here.

    Return [] where there is none.
    """
    plugin = ""
    if context.platform == _APPLE:
        plugin = framework(release.framework).apple_plugin
    known = (release.framework, release.version, context.platform, plugin)
    rows = context.matrix.companions_of(*known) if plugin else ()
    return [row for row in rows if python_minor(context) in row.pythons][:1]


def needs_gpu(context: Context, candidate: Candidate) -> tuple[ChosenCompanion, ...]:
    """List what comes beside a CUDA build where work on the CPU is planned.

    It has no build for the CPU.
    """
    is_forced = candidate.is_gpu and context.goal == "cpu"
    return tuple(
        item
        for item in candidate.chosen
        if is_forced and (item.source or (item.row and item.row.cuda_build))
    )


def match_companions(
    context: Context,
    release: FrameworkRelease,
    texts: tuple[str, ...],
    chosen: tuple[ChosenCompanion, ...] = (),
) -> tuple[ChosenCompanion, ...] | None:
    """Choose for each text the newest release that goes with a build and the others.

    None where there is none.
    """
    if not texts:
        return chosen
    name = name_of(texts[0])
    if is_source_only(name):
        return _match_source(context, release, texts, chosen)
    for row in companion_options(context, release, texts[0]):
        if row is None or all(item.row is None or _go_together(row, item.row) for item in chosen):
            extras = [row.usual_extra] if row and row.usual_extra else []
            requirement = _write_requirement(name, extras, row.version) if row else texts[0]
            if row:
                is_there = context.matrix.is_on_index(row, release)
            else:
                is_there = companion_row(name).on_index
            item = ChosenCompanion(name, requirement, row, on_index=is_there)
            found = match_companions(context, release, texts[1:], (*chosen, item))
            if found is not None:
                return found
    return _match_source(context, release, texts, chosen)


def is_source_only(name: str) -> bool:
    """Return whether the matrix holds no release because the index has sources alone."""
    return source_package(name) is not None and not companion_row(name).releases


def _match_source(
    context: Context,
    release: FrameworkRelease,
    texts: tuple[str, ...],
    chosen: tuple[ChosenCompanion, ...],
) -> tuple[ChosenCompanion, ...] | None:
    """Choose the project's own built file of a package, or its sources, then the rest."""
    name = name_of(texts[0])
    source = None
    if source_package(name):
        from envcheck.remedies.packages import find_install  # few are sources alone

        source = find_install(context, texts[0], release.build_version, release.cuda)
    if source is None or documented_above(context, name, source.version):
        return None
    item = ChosenCompanion(name, f"{name}=={source.version}", source=source)
    return match_companions(context, release, texts[1:], (*chosen, item))


def companion_options(
    context: Context, release: FrameworkRelease, text: str
) -> Iterator[FrameworkRelease | None]:
    """Yield a text's rows that go with a build here, newest first; None for unknown.

    Those that state nothing of the framework follow where none that does is left.
    """
    name, matrix = name_of(text), context.matrix
    default = release
    if release.local == CPU:  # it requires less than the one on the default index
        default = (
            matrix.release(
                release.framework, release.version, release.platform, release.distribution
            )
            or release
        )
    admitted = f"{default.requires.get(name, '')},{text.removeprefix(name)}".strip(",")

    def is_usable(row: FrameworkRelease) -> bool:
        fits = within(row.version, admitted) and matrix.is_of_one_cuda(row, release)
        return fits and not companion_fault(context, row, release)

    is_empty = True
    known = (release.framework, release.version, context.platform, name)
    for row in filter(is_usable, matrix.companions_of(*known)):
        is_empty = False
        yield row
    is_left_out = name not in default.requires and _is_required_by_newest(matrix, name, release)
    if not is_empty or is_left_out or _is_stated(matrix, name, release):
        return
    held = matrix.companion_releases(name, context.platform)
    pins = matrix.companion_pins(release.framework, name)
    inferred = _pins_of_dependents(matrix, release.framework, name)
    for row in held:
        is_unpinned = row.version not in pins and not row.yanked
        is_for_it = row.platform == "any" or within(release.version, inferred.get(row.version, ""))
        if is_unpinned and is_for_it and is_usable(row):
            is_empty = False
            yield row
    if is_empty and _may_be_unknown(context, release, text, held):
        yield None


def _is_required_by_newest(matrix: Matrix, name: str, release: FrameworkRelease) -> bool:
    """Return whether a framework requires what comes beside it, as torch does triton."""
    newest = next(iter(matrix.versions(release.framework)), "")
    return any(
        name in row.requires
        for row in matrix.releases(release.framework, release.platform, pin=newest)
    )


def is_unstated(matrix: Matrix, row: FrameworkRelease, release: FrameworkRelease) -> bool:
    """Return whether nothing states the frameworks of a companion with compiled code."""
    is_required = row.distribution in release.requires or row.version in _pins_of_dependents(
        matrix, release.framework, row.distribution
    )
    is_pinned = row.version in matrix.companion_pins(release.framework, row.distribution)
    return row.platform != "any" and not is_required and not is_pinned


@lru_cache(maxsize=64)
def _pins_of_dependents(matrix: Matrix, framework: str, name: str) -> Mapping[str, str]:
    """Map compiled releases that state no framework to the pin of what requires them.

    The kernels of sglang are such.
    """
    pins: dict[str, str] = {}
    names = (
        item
        for row in load_companions().rows
        if framework in row.frameworks
        for item in row.distributions
    )
    for row in (row for item in names for row in matrix.companions_requiring(item, name)):
        pin = asked_of(row, framework)
        if pin and row.requires[name].startswith("=="):
            pins.setdefault(row.requires[name][2:], pin)
    return pins


def _may_be_unknown(
    context: Context, release: FrameworkRelease, text: str, held: Sequence[FrameworkRelease]
) -> bool:
    """Return whether a release that the matrix does not hold may go with a build.

    An older one, for the same CUDA.
    """
    name = name_of(text)
    row = companion_row(name)
    if not held:
        return not context.matrix.companion_releases(name)
    if not row.has_older or not can_be_met(f"{text.removeprefix(name)},<{row.first}".strip(",")):
        return False
    if documented_above(context, name, row.first):
        return False  # nothing says that older ones were for older GPUs
    return (release.cuda_build and context.goal == "gpu") or not all(item.cuda for item in held)


def newest_companion(
    context: Context, text: str, release: FrameworkRelease | None = None
) -> tuple[FrameworkRelease | None, str]:
    """Return the newest release that a text asks for, and why it does not work here.

    (None, "") where none is known.
    """
    name = name_of(text)
    rows = context.matrix.companion_releases(name)
    admitted = [
        row for row in rows if not row.yanked and within(row.version, text.removeprefix(name))
    ]
    here = [row for row in admitted if row.platform in (context.platform, "any")]
    if not admitted:
        return None, ""
    if not here or here[0].version != admitted[0].version:
        return admitted[0], f"has no wheel for {context.platform}"
    return here[0], companion_fault(context, here[0], release)


def companion_fault(
    context: Context, row: FrameworkRelease, release: FrameworkRelease | None
) -> str:
    """Say why a companion's release does not work on this machine, or with a framework's release.

    Return "" where nothing speaks against it.
    """
    if not _has_python(context, row):
        return f"does not state support for Python {python_minor(context)}"
    libc, floor = context.host.libc_version.value, wheel_glibc(row)
    if floor and libc and Version(libc) < Version(floor):
        return f"needs glibc {floor}, and this machine has {libc}"
    minimum = documented_above(context, row.distribution, row.version)
    if minimum:
        return f"is documented for compute capability {minimum} or newer"
    compiles = row.platform == "any"  # on the machine, what it has no code for
    missing = [] if compiles else _list_unserved(context, row)
    if missing and not (release and context.matrix.is_on_index(row, release)):
        return f"has no code for compute capability {' or '.join(missing)}"
    return _misfit(context, row, release) if release else ""


def _misfit(context: Context, row: FrameworkRelease, release: FrameworkRelease) -> str:
    """Name what a companion requires of a framework or another package, and does not get."""
    pin = asked_of(row, release.framework) or ""
    if not within(release.version, pin):
        return f"requires {release.framework}{pin}"
    for name, specifier in row.requires.items():
        if not _has_dependency(context, row, name, release):
            return f"requires {name}{specifier}, which does not go with it here"
    return ""


def _has_python(context: Context, row: FrameworkRelease) -> bool:
    """Return whether a companion has a wheel for this Python.

    One without compiled code runs on newer ones, too.
    """
    if row.platform == "any":
        return not row.pythons or numbers(python_minor(context)) >= numbers(
            min(row.pythons, key=numbers)
        )
    return supports_python(context, row)


def _gpu_capabilities(context: Context) -> list[str]:
    """List the compute capabilities of the GPUs that are meant to work, where known."""
    if context.goal != "gpu":
        return []
    return [text for gpu in context.gpus if (text := gpu.compute_capability.value)]


def documented_above(context: Context, name: str, version: str) -> str:
    """Return a release's documented compute capability if all GPUs lie below it."""
    document = documented_gpus(name, version, context.platform)
    capabilities = _gpu_capabilities(context)
    if document and capabilities and all(map(document.excludes, capabilities)):
        return document.minimum
    return ""


def _list_unserved(context: Context, row: FrameworkRelease) -> list[str]:
    """List the GPUs of a machine that a companion has no code for, if it has none for any."""
    capabilities = _gpu_capabilities(context)
    targets = [target for target in map(parse_target, row.compute_capabilities) if target]

    missing = [
        text
        for text in capabilities
        if targets and coverage(targets, text, context.matrix.is_tegra) == NO_CODE
    ]
    return missing if len(missing) == len(capabilities) else []


def _has_dependency(
    context: Context, row: FrameworkRelease, name: str, release: FrameworkRelease
) -> bool:
    """Return whether a companion's requirement goes with a build here, as far as known."""
    if not can_be_met(f"{row.requires[name]},{release.requires.get(name, '')}".strip(",")):
        return False
    if release.framework not in companion_row(name).frameworks:
        return True
    held = context.matrix.companion_releases(name)
    admitted = context.matrix.companion_releases(name, None, row.requires[name])
    pins = context.matrix.companion_pins(release.framework, name)
    # it may require another release here, or none
    is_portable = row.platform == "any" and context.os != "linux"
    here = [
        item
        for item in (held if is_portable else admitted)
        if item.platform in (context.platform, "any")
    ]
    if is_portable or not here:
        return bool(here) or not admitted
    return any(
        within(release.version, pins.get(item.version, ""))
        and _has_python(context, item)
        and context.matrix.is_of_one_cuda(item, release)
        for item in here
    )


def _go_together(first: FrameworkRelease, second: FrameworkRelease) -> bool:
    """Return whether two companions require nothing that cannot be met together."""
    pairs = ((first, second), (second, first))
    shared = {*first.requires} & {*second.requires}
    return all(
        within(other.version, row.requires.get(other.distribution, "")) for row, other in pairs
    ) and all(
        can_be_met(f"{first.requires[name]},{second.requires[name]}".strip(",")) for name in shared
    )


def _is_stated(matrix: Matrix, name: str, release: FrameworkRelease) -> bool:
    """Return whether the matrix holds every companion release for a framework's release."""
    if not _states_all(matrix, name, release.framework):
        return False
    *_, oldest = matrix.companion_pins(release.framework, name).values()
    lowest = next(clauses(oldest), None)
    return (
        not companion_row(name).has_older
        or lowest is None
        or numbers(release.version) >= numbers(lowest.version)
    )


@lru_cache(maxsize=64)
def _states_all(matrix: Matrix, name: str, framework: str) -> bool:
    """Return whether every companion release in the matrix states what it goes with."""
    pins = matrix.companion_pins(framework, name)
    return bool(pins) and {
        row.version for row in matrix.companion_releases(name) if not row.yanked
    } == set(pins)

"""Whether a build has code for the GPUs of a machine."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.host.data_files import load_data
from envcheck.matrix.companions import companion_row
from envcheck.matrix.documented_gpus import DocumentedGpus, documented_gpus
from envcheck.model import (
    ERROR,
    NOTE,
    UNDETERMINED,
    WARNING,
    About,
    Advise,
    Citation,
    Evidence,
    Finding,
    Fix,
    Known,
    KnownProblem,
    Unknown,
    at_least_minor,
    dataclass,
    is_older,
    major_minor,
    numbers,
)
from envcheck.model.fixes import (
    AvoidReportedFailure,
    RenewMatrix,
    ReplaceBundledPtxas,
    UseBuildForGpu,
)
from envcheck.model.versions import within
from envcheck.rules.builds import NO_ROW, Build
from envcheck.rules.context import Context, UndecidedError, cite, rule
from envcheck.rules.gpu_releases import (
    JIT,
    NATIVE,
    NONE,
    JudgedGpu,
    build_targets,
    coverage,
    judged_gpus,
    problem_findings,
    toolkit_of,
)
from envcheck.rules.targets import judged_builds, package_builds, wanted_releases


@dataclass
class PartialRelease:
    """Releases that hold PTX alone in some kernels."""

    framework: str
    specifier: str
    cuda: str  # of that PTX: "12.3"


@dataclass
class PartialCode:
    """The content of data/frameworks/partial_code.json."""

    rows: tuple[PartialRelease, ...]
    citation: Citation


@dataclass
class BundledPtxas:
    """The ptxas that a minor release of a package brings and calls."""

    distribution: str
    release: str
    cuda: str
    variable: str = ""  # names another one


@dataclass
class PtxasTable:
    """The content of data/nvidia/bundled_ptxas.json."""

    rows: tuple[BundledPtxas, ...]
    citation: Citation


def _load_data() -> PartialCode:
    return load_data("frameworks/partial_code", PartialCode)


def compiled_partly(context: Context, build: Build, capability: str) -> str:
    """Return the CUDA whose PTX the driver must compile for a GPU of this capability.

    Return "" where it need not.
    """
    texts = build.compute_capabilities.value or ()
    cuda = ""
    if any(text.startswith("compute_") for text in texts):
        cuda = cuda_of_ptx(build.framework, build.version)
    if not cuda:
        return ""
    if coverage(build_targets("", texts), capability, context.matrix.is_tegra) == JIT:
        return cuda
    return ""


def partial_code_citation() -> Citation:
    """Return what the PTX of releases was read from."""
    return _load_data().citation


def cuda_of_ptx(framework: str, version: str) -> str:
    """Return the CUDA of the PTX that some kernels of a release hold alone; "" where none do."""
    rows = (row for row in _load_data().rows if row.framework == framework)
    return next((row.cuda for row in rows if within(version, row.specifier)), "")


TOO_NEW = "gpu-arch-too-new"
TOO_OLD = "gpu-arch-too-old"
UNREAD = "unread"  # nothing states the build's targets; its toolkit supports the GPU


@dataclass
class Verdict:
    """How one build serves one GPU: NATIVE, JIT, UNREAD, TOO_NEW or TOO_OLD, and why."""

    kind: str
    why: str = ""
    document: DocumentedGpus | None = None  # that excludes the GPU; `documents_of_packages` says so


@rule(TOO_NEW, TOO_OLD)
def code_for_gpus(context: Context) -> Iterator[Finding]:
    """Find builds made before a GPU or after its support, and unknown architectures."""
    builds = possible_cuda_builds(context)
    yield from problem_findings(context, TOO_OLD, lambda build: build in builds)
    for build in builds:
        gpus = judged_gpus(context)
        for item in gpus:
            if item.architecture is None:
                yield context.report(
                    f"Compute capability {item.capability} ({item.name}) is not in the"
                    f" compatibility matrix: whether {build.label} has code for it is unknown.",
                    _show_gpu(context, item, f"compute capability {item.capability}"),
                    verdict=UNDETERMINED,
                    finding_id="release-unknown",
                    severity=ERROR,
                    cure=RenewMatrix(),
                )
        yield from _report_gpus(context, build, gpus)
        yield from _slow_or_unread(context, build, gpus)


@rule(TOO_NEW, TOO_OLD)
def code_of_packages(context: Context) -> Iterator[Finding]:
    """Find packages without code for a GPU that the framework itself serves."""
    builds = [
        build for build in package_builds(context) if build.compute_capabilities.value is not None
    ]
    if builds:
        gpus = tuple(item for item in judged_gpus(context) if _is_served(context, item))
        for build in builds:
            yield from _report_gpus(context, build, gpus)


@rule(TOO_OLD)
def documents_of_packages(context: Context) -> Iterator[Finding]:
    """Find releases documented for a newer GPU than one that the framework serves."""
    releases = [(item.name, item.version) for item in context.distributions.values()]
    releases += [
        (item.package.distribution, item.package.version)
        for item in wanted_releases(context)
        if item.package
    ]
    releases += [(build.distribution, build.version) for build in possible_cuda_builds(context)]
    for name, version in dict.fromkeys(releases):
        document = documented_gpus(name, version, context.platform)
        if document is None:
            continue
        gpus = [item for item in judged_gpus(context) if _is_served(context, item)]
        excluded = [item for item in gpus if document.excludes(item.capability)]
        if excluded:
            item = excluded[0]
            framework = next(iter(companion_row(name).frameworks), name)
            yield context.report(
                f"{item.name} has compute capability {item.capability}; the documents of {name}"
                f" {version} ask for {document.minimum} or newer.",
                ("gpus", f"{item.name}, compute capability {item.capability}"),
                Evidence(
                    f"documents of {name} {version}",
                    document.statement,
                    citation=document.citation,
                ),
                severity=ERROR if excluded == gpus else WARNING,
                cure=UseBuildForGpu(framework, name, item.capability, is_newer=False),
                about=About(framework, name),
            )


@rule("ptxas-problem", severity=WARNING)
def bundled_ptxas(context: Context) -> Iterator[Finding]:
    """Find a package whose own ptxas does not know a GPU that the framework itself serves."""
    if not context.gpus or not any(map(context.matrix.companion_of, context.distributions)):
        return
    table = load_data("nvidia/bundled_ptxas", PtxasTable)
    for row in table.rows:
        item = context.distributions.get(row.distribution)
        # conda's and NVIDIA's own builds bring another ptxas than the index's
        is_from_index = item and item.installer != "conda" and "+" not in item.version
        if item and is_from_index and major_minor(item.version) == row.release:
            newer = (gpu for gpu in judged_gpus(context) if is_older(row.cuda, gpu.first_toolkit))
            unknown = next((gpu for gpu in newer if _is_served(context, gpu)), None)
            if unknown and not context.environment.get(row.variable):
                yield _old_ptxas(context, table, row, unknown)


def _old_ptxas(context: Context, table: PtxasTable, row: BundledPtxas, item: JudgedGpu) -> Finding:
    first = item.first_toolkit
    copy = context.distributions[row.distribution]
    serving = (
        each
        for each in table.rows
        if each.distribution == copy.name and not is_older(each.cuda, first)
    )
    newer = next((f"{each.distribution} {each.release}" for each in serving), "")
    installs = context.toolkits.installs.value or ()
    usable = (each for each in installs if not is_older(each.version.value or "0", first))
    path = next(filter(None, (each.ptxas_path.value for each in usable)), "")
    return context.report(
        f"{copy.label} calls its own ptxas, of CUDA {row.cuda}; {item.label}"
        f" needs one of CUDA {first} or newer. Kernels that"
        " it compiles, such as those of torch.compile, fail.",
        ("python.distributions", copy.label),
        Evidence(
            f"ptxas of {copy.name} {row.release}", f"CUDA {row.cuda}", citation=table.citation
        ),
        cure=ReplaceBundledPtxas(first, row.variable, path, newer),
    )


def serves_no_gpu(context: Context, build: Build) -> bool:
    """Return whether `code_for_gpus` finds an error with a build here.

    It is known to serve none of the GPUs.
    """
    try:
        kinds = [
            verdict_on(context, build, item).kind
            for item in judged_gpus(context)
            if item.architecture
        ]
    except UndecidedError:
        return False
    return bool(kinds) and all(kind in (TOO_NEW, TOO_OLD) for kind in kinds)


def _is_served(context: Context, item: JudgedGpu) -> bool:
    """Return whether no framework is known to lack code for a GPU.

    What is not stated, or documented alone, is not.
    """
    frameworks = (
        build
        for build in possible_cuda_builds(context)
        if build.compute_capabilities.value is not None
    )
    verdicts = (verdict_on(context, build, item) for build in frameworks if item.architecture)
    return not any(
        verdict.kind in (TOO_NEW, TOO_OLD) and not verdict.document for verdict in verdicts
    )


def possible_cuda_builds(context: Context) -> tuple[Build, ...]:
    """List the judged builds that are, or may be, CUDA builds.

    JAX's plugins of one CUDA count once.
    """
    builds: dict[tuple[str, str, object], Build] = {}
    for build in judged_builds(context):
        if build.cuda_build.value is not False:
            cuda = build.cuda.value
            builds.setdefault((build.framework, build.version, cuda), build)
    return tuple(builds.values())


def verdict_on(context: Context, build: Build, item: JudgedGpu) -> Verdict:
    """Decide how a build serves a GPU whose architecture is in the matrix.

    Raises where nothing states it.
    """
    document = documented_gpus(build.distribution, build.version, context.platform)
    if document is not None and document.excludes(item.capability):
        return Verdict(TOO_OLD, document=document)
    cuda = build.cuda.value
    if build.compute_capabilities.value is None:
        return _by_toolkit(context, build, item, cuda)
    targets = build_targets(build.framework, build.compute_capabilities.value)
    served = coverage(targets, item.capability, context.matrix.is_tegra)
    if served == JIT and context.environment.get("CUDA_DISABLE_PTX_JIT") == "1":
        return Verdict(TOO_NEW, "CUDA_DISABLE_PTX_JIT=1 prevents compiling its PTX")
    if served == JIT and cuda and _older_major(cuda, item):
        return Verdict(TOO_NEW, f"the libraries of CUDA {cuda} have no code for it")
    if served != NONE:
        return Verdict(served)
    is_dropped = any((target.major, target.minor) > numbers(item.capability) for target in targets)
    return Verdict(
        TOO_OLD if is_dropped and not context.matrix.is_tegra(item.capability) else TOO_NEW
    )


def _by_toolkit(context: Context, build: Build, item: JudgedGpu, cuda: str | None) -> Verdict:
    row, fact = item.architecture, build.compute_capabilities
    reason = fact if isinstance(fact, Unknown) else NO_ROW
    unread = UndecidedError(f"{build.label}: the GPUs it has code for", reason)
    if cuda is None or row is None:
        raise unread
    last = row.last_toolkit
    if last and (
        numbers(cuda)[:1] > numbers(last)[:1] or ("." in cuda and not at_least_minor(last, cuda))
    ):
        return Verdict(TOO_OLD, f"CUDA {last} was the last that supports it")
    too_new = Verdict(TOO_NEW, f"CUDA {row.first_toolkit} is the first that supports it")
    if _older_major(cuda, item):
        return too_new
    toolkit = toolkit_of(context, cuda)
    capabilities = toolkit.compute_capabilities if toolkit else ()
    targets = build_targets("", tuple(f"sm_{each.replace('.', '')}" for each in capabilities))
    if coverage(targets, item.capability, context.matrix.is_tegra) == NONE:
        # PyTorch's wheels: machine code, and PTX at most of what is as old
        if build.local and not build.installed:
            return too_new
        raise unread
    if row.tegra and not build.installed:
        return Verdict(
            TOO_NEW,
            "wheels for Arm are made for servers,"
            " and nothing states that they have code for this module",
        )
    return Verdict(NATIVE if build.traits.cuda.compiles_kernels else UNREAD)


def _older_major(cuda: str, item: JudgedGpu) -> bool:
    # A build takes its CUDA libraries from its own major; those of an older one have no code for
    # the GPU.
    first = item.first_toolkit
    return bool(first) and numbers(cuda)[:1] < numbers(first)[:1]


def _report_gpus(context: Context, build: Build, gpus: tuple[JudgedGpu, ...]) -> Iterator[Finding]:
    """Yield one finding for the GPUs newer than a build serves, and one for the older ones.

    A warning when it serves another one.
    """
    verdicts = [(item, verdict_on(context, build, item)) for item in gpus if item.architecture]
    served = any(verdict.kind in (NATIVE, JIT, UNREAD) for _, verdict in verdicts)
    severity = WARNING if served else ERROR
    for kind in (TOO_NEW, TOO_OLD):
        for item, verdict in verdicts:
            if verdict.kind == kind and not verdict.document:
                yield _report_unserved(context, build, item, verdict, severity)
                break


def _report_unserved(
    context: Context, build: Build, item: JudgedGpu, verdict: Verdict, severity: str
) -> Finding:
    is_newer = verdict.kind == TOO_NEW
    relation = "newer than" if is_newer else "no longer supported by"
    targets = build_targets(build.framework, build.compute_capabilities.value or ())
    if is_newer and any(
        (target.major, target.minor) > numbers(item.capability) for target in targets
    ):
        # code for embedded parts and for cards never serves the other kind
        relation = "not served by"
    why = verdict.why or _name_embedded(item)
    message = (
        f"{item.name[0].upper()}{item.name[1:]} has compute capability {item.capability}, which is"
        f" {relation} {build.label}{_targets_in_words(build)}."
        + (f" {why[0].upper()}{why[1:]}." if why else "")
    )
    return context.report(
        message,
        *_list_evidence(context, build, item),
        finding_id=verdict.kind,
        severity=severity,
        cure=UseBuildForGpu(build.framework, build.distribution, item.capability, is_newer),
        about=build.about,
    )


def _name_embedded(item: JudgedGpu) -> str:
    is_embedded = item.architecture is not None and item.architecture.tegra
    if is_embedded:
        return "machine code for cards does not run on embedded parts such as Jetson"
    return ""


def _targets_in_words(build: Build) -> str:
    if build.compute_capabilities.value:
        return f" (it has code for {', '.join(build.compute_capabilities.value)})"
    if build.cuda.value:
        return f" (built with CUDA {build.cuda.value})"
    return ""


def _show_gpu(context: Context, item: JudgedGpu, shown: str) -> Evidence:
    """Make evidence of a GPU: where its name was read, or else the list of the GPUs."""
    fact = item.gpu.name if isinstance(item.gpu.name, Known) else None
    return context.seen("gpus", fact, shown)


def _list_evidence(context: Context, build: Build, item: JudgedGpu) -> tuple[Evidence, ...]:
    evidence = [_show_gpu(context, item, f"{item.name}, compute capability {item.capability}")]
    if item.architecture:
        row = item.architecture
        support = (
            f"{row.name}: CUDA {row.first_toolkit or 'the oldest'} to"
            f" {row.last_toolkit or 'the newest'}"
        )
        evidence.append(cite(f"architectures {item.capability}", support, row))
    if build.citations:
        evidence.append(cite(f"matrix {build.label}", _targets_in_words(build).strip(" ()"), build))
    return tuple(evidence)


def _slow_or_unread(
    context: Context, build: Build, gpus: tuple[JudgedGpu, ...]
) -> Iterator[Finding]:
    for item in gpus:
        kind = NATIVE
        if item.architecture:
            kind = verdict_on(context, build, item).kind
        if kind == JIT:
            problems = _find_known_problem(context, build, item)
            cure: Fix = UseBuildForGpu(build.framework, build.distribution, item.capability)
            for row in problems:
                if row.remedy:  # what works where users report that a build fails
                    cure = AvoidReportedFailure(row.remedy)
                    break
            yield context.report(
                f"{build.label} has no machine code for {item.label}, only PTX (CUDA's"
                " portable assembly) that the driver must compile. The first start is slow, up to"
                f" half an hour.{''.join(f' {row.what}' for row in problems)}",
                *_list_evidence(context, build, item),
                *(cite(f"problems {row.id}", row.what, row) for row in problems),
                finding_id=TOO_NEW,
                severity=WARNING,
                cure=cure,
                about=build.about,
            )
            return
        if kind == UNREAD:
            # What is installed can be tried. Nobody is told to install what is not known to work.
            yield context.report(
                f"Neither the files of {build.label} nor the matrix state which GPUs it has code"
                f" for; its CUDA supports {item.name}.",
                *_list_evidence(context, build, item),
                verdict=UNDETERMINED,
                finding_id="release-unknown",
                severity=NOTE if build.installed else ERROR,
                about=build.about,
                cure=(
                    None
                    if build.installed
                    else Advise("Choose a release or build whose GPU code is known.")
                ),
            )
            return


def is_unread(finding: Finding) -> bool:
    """Return whether a finding says that nothing states which GPUs a build has code for."""
    return finding.id == "release-unknown" and bool(finding.about.distribution)


def _find_known_problem(context: Context, build: Build, item: JudgedGpu) -> list[KnownProblem]:
    """List what is known to go wrong with a build on a GPU of this compute capability."""
    found = []
    for row in context.matrix.problems(build.distribution, build.version, stage="advice"):
        gpus = row.compute_capabilities
        if row.finding == TOO_NEW and gpus and within(item.capability, gpus):
            found.append(row)
    return found


def is_reported_to_fail(finding: Finding) -> bool:
    """Return whether a finding says that users report a build to fail on a GPU."""
    return isinstance(finding.cure, AvoidReportedFailure)

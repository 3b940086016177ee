"""Does a build have code for these GPUs, and does the driver still or already drive them?"""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import Version

from envcheck.model import (
    ERROR,
    INCOMPATIBLE,
    NOTE,
    UNDETERMINED,
    WARNING,
    Evidence,
    Finding,
    Known,
    Problem,
    Unknown,
    at_least_minor,
    dataclass,
    numbers,
)
from envcheck.model.releases import KnownProblem
from envcheck.rules.architecture_targets import JIT, NATIVE, NONE, build_targets, coverage, parse_target
from envcheck.rules.builds import Build
from envcheck.rules.context import Context, UndecidedError
from envcheck.rules.driver_release import toolkit_of
from envcheck.rules.gpu_facts import Judged, gpu_name, judged_gpus
from envcheck.rules.known_problems import problem_findings
from envcheck.rules.registry import rule
from envcheck.rules.targets import judged_builds

TOO_NEW = "gpu-arch-too-new"
TOO_OLD = "gpu-arch-too-old"
UNREAD = "unread"  # the build's targets are nowhere told; its toolkit supports the GPU


@dataclass(frozen=True)
class Verdict:
    """How one build serves one GPU: NATIVE, JIT, UNREAD, TOO_NEW or TOO_OLD, and why."""

    kind: str
    why: str = ""


@rule(TOO_NEW)
def gpu_arch_too_new(context: Context) -> Iterator[Finding]:
    """Report builds that were made before a GPU's architecture, and architectures the matrix lacks."""
    for build in cuda_builds(context):
        judged = judged_gpus(context)
        yield from (_no_architecture(build, item) for item in judged if item.architecture is None)
        yield from _findings(context, build, judged, TOO_NEW)
        yield from _slow_or_unread(context, build, judged)


@rule(TOO_OLD)
def gpu_arch_too_old(context: Context) -> Iterator[Finding]:
    """Report builds that dropped a GPU's architecture, or bring libraries that did."""
    yield from problem_findings(context, TOO_OLD, lambda build: build in cuda_builds(context))
    for build in cuda_builds(context):
        yield from _findings(context, build, judged_gpus(context), TOO_OLD)


def cuda_builds(context: Context) -> tuple[Build, ...]:
    """List the judged builds that are, or may be, CUDA builds; JAX's plugins of one CUDA count once."""
    found: dict[tuple[str, str, object], Build] = {}
    for build in judged_builds(context):
        if not (isinstance(build.cuda_build, Known) and not build.cuda_build.value):
            cuda = build.cuda.value if isinstance(build.cuda, Known) else None
            found.setdefault((build.framework, build.version, cuda), build)
    return tuple(found.values())


def verdict_on(context: Context, build: Build, item: Judged) -> Verdict:
    """Decide how a build serves a GPU whose architecture is in the matrix; raises where nothing tells."""
    cuda = build.cuda.value if isinstance(build.cuda, Known) else None
    if not isinstance(build.compute_capabilities, Known):
        return _by_toolkit(context, build, item, cuda)
    targets = build_targets(build.framework, build.compute_capabilities.value)
    served = coverage(targets, item.capability, lambda cc: _is_tegra(context, cc))
    if served == JIT and context.environment.get("CUDA_DISABLE_PTX_JIT") == "1":
        return Verdict(TOO_NEW, "CUDA_DISABLE_PTX_JIT=1 forbids compiling its PTX")
    if served == JIT and cuda and _older_major(cuda, item):
        return Verdict(TOO_NEW, f"the libraries of CUDA {cuda} have no code for it")
    if served != NONE:
        return Verdict(served)
    dropped = any((target.major, target.minor) > numbers(item.capability) for target in targets)
    return Verdict(TOO_OLD if dropped and not _is_tegra(context, item.capability) else TOO_NEW)


def _by_toolkit(context: Context, build: Build, item: Judged, cuda: str | None) -> Verdict:
    row = item.architecture
    if cuda is None or row is None:
        raise UndecidedError(f"{build.label}: the GPUs it has code for", _reason(build))
    if row.last_toolkit and numbers(cuda)[:1] > numbers(row.last_toolkit)[:1]:
        return Verdict(TOO_OLD, f"CUDA {row.last_toolkit} was the last with code for it")
    if row.last_toolkit and "." in cuda and not at_least_minor(row.last_toolkit, cuda):
        return Verdict(TOO_OLD, f"CUDA {row.last_toolkit} was the last with code for it")
    if _older_major(cuda, item):
        return Verdict(TOO_NEW, f"CUDA {row.first_toolkit} is the first that knows it")
    toolkit = toolkit_of(context, cuda)
    made = [parse_target("sm_" + cc.replace(".", "")) for cc in (toolkit.compute_capabilities if toolkit else ())]
    if coverage([target for target in made if target], item.capability, lambda cc: _is_tegra(context, cc)) == NONE:
        if build.local and not build.installed:  # PyTorch's wheels: machine code, and PTX at most of what is as old
            return Verdict(TOO_NEW, f"CUDA {row.first_toolkit} is the first that knows it")
        raise UndecidedError(f"{build.label}: the GPUs it has code for", _reason(build))
    if row.tegra and not build.installed:
        return Verdict(
            TOO_NEW, "what is published for Arm is made for servers, and nothing tells of code for this module"
        )
    return Verdict(UNREAD)


def _reason(build: Build) -> Unknown:
    fact = build.compute_capabilities
    return fact if isinstance(fact, Unknown) else Unknown("failed", "neither the installed files nor the matrix tell")


def _older_major(cuda: str, item: Judged) -> bool:
    # A build takes its CUDA libraries from its own major; those of an older one have no code for the GPU.
    first = item.architecture.first_toolkit if item.architecture else None
    return first is not None and numbers(cuda)[:1] < numbers(first)[:1]


def _is_tegra(context: Context, capability: str) -> bool:
    row = context.matrix.architecture(capability)
    return row is not None and row.tegra


def _findings(context: Context, build: Build, judged: tuple[Judged, ...], wanted: str) -> Iterator[Finding]:
    """Yield one finding for the GPUs a build does not serve; a warning when it serves another one."""
    known = [item for item in judged if item.architecture]
    verdicts = [(item, verdict_on(context, build, item)) for item in known]
    bad = [(item, verdict) for item, verdict in verdicts if verdict.kind == wanted]
    if not bad:
        return
    item, verdict = bad[0]
    served = any(verdict.kind in (NATIVE, JIT, UNREAD) for _, verdict in verdicts)
    age = "newer than" if wanted == TOO_NEW else "no longer supported by"
    message = (
        f"{gpu_name(item.gpu)} has compute capability {item.capability}, which is {age} {build.label}"
        f"{_targets_in_words(build)}" + (f": {verdict.why}." if verdict.why else ".")
    )
    yield Finding(
        wanted,
        INCOMPATIBLE,
        WARNING if served else ERROR,
        message,
        _evidence(context, build, item),
        problem=_problem(build, item),
    )


def _problem(build: Build, item: Judged) -> Problem:
    return Problem(framework=build.framework, distribution=build.distribution, capability=item.capability)


def _targets_in_words(build: Build) -> str:
    if isinstance(build.compute_capabilities, Known) and build.compute_capabilities.value:
        return f" (it has code for {', '.join(build.compute_capabilities.value)})"
    return f" (built with CUDA {build.cuda.value})" if isinstance(build.cuda, Known) else ""


def _evidence(context: Context, build: Build, item: Judged) -> tuple[Evidence, ...]:
    found = [context.seen("gpus", shown=f"{gpu_name(item.gpu)}, compute capability {item.capability}")]
    if isinstance(item.gpu.name, Known):
        found = [Evidence("gpus", found[0].shown, item.gpu.name.source)]
    if item.architecture:
        row = item.architecture
        shown = f"{row.name}: CUDA {row.first_toolkit or 'the oldest'} to {row.last_toolkit or 'the newest'}"
        found.append(Evidence(f"architectures {item.capability}", shown, citation=row.citations[0]))
    if build.citations:
        found.append(
            Evidence(f"matrix {build.label}", _targets_in_words(build).strip(" ()"), citation=build.citations[0])
        )
    return tuple(found)


def _slow_or_unread(context: Context, build: Build, judged: tuple[Judged, ...]) -> Iterator[Finding]:
    for item in judged:
        kind = verdict_on(context, build, item).kind if item.architecture else NATIVE
        if kind == JIT:
            trouble = _known_trouble(context, build, item)
            message = (
                f"{build.label} has no machine code for {gpu_name(item.gpu)} (compute capability {item.capability}), "
                "only PTX (CUDA's portable assembly) that the driver must compile: the first start is slow, up to half "
                "an hour."
            )
            yield Finding(
                TOO_NEW,
                INCOMPATIBLE,
                WARNING,
                message + "".join(f" {row.what}" for row in trouble),
                _evidence(context, build, item),
                problem=_problem(build, item),
            )
            return
        if kind == UNREAD:
            message = (
                f"Neither the files of {build.label} nor the matrix tell which GPUs it has code for; its CUDA "
                f"supports {gpu_name(item.gpu)}."
            )
            yield Finding("release-unknown", UNDETERMINED, NOTE, message, _evidence(context, build, item))
            return


def _known_trouble(context: Context, build: Build, item: Judged) -> tuple[KnownProblem, ...]:
    """List what is known to go wrong with a build on a GPU of this compute capability."""
    from packaging.specifiers import SpecifierSet

    rows = context.matrix.problems(build.distribution, build.version, stage="advice")
    return tuple(
        row
        for row in rows
        if row.finding == "gpu-arch-too-new"
        and row.compute_capabilities
        and SpecifierSet(row.compute_capabilities).contains(Version(item.capability))
    )


def _no_architecture(build: Build, item: Judged) -> Finding:
    message = (
        f"Compute capability {item.capability} ({gpu_name(item.gpu)}) is not in the matrix: whether "
        f"{build.label} has code for it is not known."
    )
    source = item.gpu.name.source if isinstance(item.gpu.name, Known) else None
    return Finding(
        "release-unknown",
        UNDETERMINED,
        ERROR,
        message,
        (Evidence("gpus", f"compute capability {item.capability}", source),),
        problem=Problem(),
    )

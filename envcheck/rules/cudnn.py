"""Whether the cuDNN a build loads is there, and is the one it was built for."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.model import (
    ERROR,
    INCOMPATIBLE,
    WARNING,
    Evidence,
    Finding,
    Known,
    Problem,
    Unknown,
    get_value,
    is_older,
    numbers,
    replace,
)
from envcheck.rules.builds import Build
from envcheck.rules.context import Context, describe, source_of
from envcheck.rules.cuda_libraries import (
    brings_cuda,
    cuda_builds,
    cudnn_lookup,
    in_environment,
    is_own,
    relies_on_system,
    row_evidence,
    unknown_release,
)
from envcheck.rules.cudnn_copies import (
    DROPPED,
    OLDER,
    OTHER_CUDA,
    OTHER_MAJOR,
    Copy,
    built_with,
    dropped_gpus,
    fault_of,
    foreign_needs,
    loaded_copy,
    system_copies,
    wheel_copy,
)
from envcheck.rules.gpu_facts import gpu_name
from envcheck.rules.registry import rule

MISSING = "cudnn-missing"
SHADOWED = "cudnn-shadowed"


@rule(MISSING)
def cudnn_missing(context: Context) -> Iterator[Finding]:
    """Find builds that load cuDNN where there is none; a link that leads nowhere is none."""
    return _only(context, MISSING)


@rule(OTHER_MAJOR)
def cudnn_wrong_major(context: Context) -> Iterator[Finding]:
    """Find builds for whose cuDNN major only another one is there."""
    return _only(context, OTHER_MAJOR)


@rule(OLDER)
def cudnn_too_old(context: Context) -> Iterator[Finding]:
    """Find builds that load a cuDNN older than the one they were compiled with."""
    return _only(context, OLDER)


@rule(DROPPED)
def cudnn_too_new(context: Context) -> Iterator[Finding]:
    """Find builds whose cuDNN no longer serves this machine's GPUs."""
    return _only(context, DROPPED)


@rule(OTHER_CUDA)
def cudnn_wrong_cuda_build(context: Context) -> Iterator[Finding]:
    """Find builds whose cuDNN was built for another CUDA major."""
    return _only(context, OTHER_CUDA)


@rule(SHADOWED)
def cudnn_shadowed(context: Context) -> Iterator[Finding]:
    """Find builds for which a right cuDNN is installed while another is loaded first."""
    return _only(context, SHADOWED)


def _only(context: Context, finding_id: str) -> Iterator[Finding]:
    """Yield one id's findings; a release the matrix lacks goes with the rule it leaves open."""
    for build in cuda_builds(context):
        for finding in _judge(context, build):
            if finding.id == finding_id or (finding.id == "release-unknown" and finding_id == DROPPED):
                yield finding


def _judge(context: Context, build: Build) -> Iterator[Finding]:
    if isinstance(build.libraries, Unknown):
        yield from _by_versions(context, build)
        return
    lookup = cudnn_lookup(build)
    if lookup is None:
        return
    copy = loaded_copy(context, lookup)
    if copy is not None:
        yield from _judge_copy(context, build, copy)
    elif relies_on_system(build) and not lookup.elsewhere:
        yield _none_fits(context, build, system_copies(context), lookup.soname)


def _by_versions(context: Context, build: Build) -> Iterator[Finding]:
    """Judge by versions, for a machine of which only those are known."""
    needed = built_with(build)
    if brings_cuda(build):
        # Another major bears another soname: the loader passes it by.
        wheel = wheel_copy(context)
        ahead = [copy for copy in _known_copies(context) if _on_library_path(context, copy)]
        same = [copy for copy in (*ahead, *([wheel] if wheel else [])) if _may_be_loaded(copy, needed)]
        if build.installed and same:
            yield from _judge_copy(context, build, same[0])
        return
    copies = system_copies(context)
    fitting = [copy for copy in copies if _may_be_loaded(copy, needed)]
    if not fitting and needed is not None:
        yield _none_fits(context, build, copies, context.matrix.cudnn_soname(needed) or f"cuDNN {needed}")
    elif fitting and all(fault_of(context, build, copy) for copy in fitting):
        yield from _judge_copy(context, build, fitting[0])


def _may_be_loaded(copy: Copy, needed: str | None) -> bool:
    return not needed or _major(copy) in (numbers(needed)[:1], ())


def _known_copies(context: Context) -> tuple[Copy, ...]:
    return system_copies(context) if isinstance(context.facts.cudnn, Known) else ()


def _judge_copy(context: Context, build: Build, copy: Copy) -> Iterator[Finding]:
    """Judge the copy a build loads."""
    ahead = brings_cuda(build) and not is_own(context, copy.path) and _on_library_path(context, copy)
    if built_with(build) is not None:
        context.need(copy.version, f"version of the cuDNN in {copy.path}")
    fault = fault_of(context, build, copy) or (OTHER_CUDA if foreign_needs(build) else "")
    if fault:
        right = _right_copy(context, build, copy) or ("the build's own" if ahead else "")
        yield _shadowed(build, copy, right, ERROR) if right else _fault(context, build, copy, fault)
    elif ahead and built_with(build) is None:
        yield _shadowed(build, copy, "the build's own", WARNING)
    else:
        yield from _unlisted(context, build, copy)


def _right_copy(context: Context, build: Build, loaded: Copy) -> str:
    wheel = wheel_copy(context)
    others = (*((wheel,) if wheel else ()), *_known_copies(context))
    for copy in others:
        apart = copy.path != loaded.path and not (wheel is copy and in_environment(loaded.path))
        if apart and isinstance(copy.version, Known) and not fault_of(context, build, copy):
            return f"{copy.version.value} in {copy.path}"
    return ""


def _unlisted(context: Context, build: Build, copy: Copy) -> Iterator[Finding]:
    """Doubt a cuDNN newer than the one built with that the matrix does not list."""
    version, needed = get_value(copy.version), built_with(build)
    if version and needed and is_older(needed, version) and context.matrix.cudnn(version) is None:
        what = f"cuDNN {version}, which {build.label} loads,"
        yield unknown_release(what, "whether it still serves these GPUs", copy.evidence)


def _none_fits(context: Context, build: Build, copies: tuple[Copy, ...], soname: str) -> Finding:
    needed, problem = built_with(build), _problem(build)
    others = [copy for copy in copies if get_value(copy.version)]
    if others:
        there = " and ".join(dict.fromkeys(describe(copy.version) for copy in others))
        message = f"{build.label} loads {soname} (built with cuDNN {needed}); this machine has cuDNN {there}."
        evidence = (*(copy.evidence for copy in others), *_row(build))
        return Finding(OTHER_MAJOR, INCOMPATIBLE, ERROR, message, evidence, problem=problem)
    message = f"{build.label} loads {soname}, and there is no cuDNN on this machine that it could load."
    evidence = (context.seen("cudnn"), *_row(build))
    return Finding(MISSING, INCOMPATIBLE, ERROR, message, evidence, problem=problem)


def _problem(build: Build) -> Problem:
    return Problem(framework=build.framework, distribution=build.distribution)


def _fault(context: Context, build: Build, copy: Copy, fault: str) -> Finding:
    needed, version = built_with(build), describe(copy.version)
    if fault == DROPPED:
        return _dropped(context, build, copy, str(get_value(copy.version)))
    if fault == OTHER_CUDA:
        message, evidence = _other_cuda(build, copy, version)
    else:
        verb = "was compiled with" if fault == OLDER else "loads another major:"
        message = f"{build.label} {verb} cuDNN {needed} and would load {version} from {copy.path}."
        evidence = ()
    shown = (copy.evidence, *evidence, *_row(build))
    return Finding(fault, INCOMPATIBLE, ERROR, message, shown, problem=_problem(build))


def _other_cuda(build: Build, copy: Copy, version: str) -> tuple[str, tuple[Evidence, ...]]:
    gone = foreign_needs(build)
    built = f"cuDNN {version} in {copy.path} was built for CUDA {copy.cuda_major or 'of another major version'}"
    asks = f" and asks for {gone[0].soname}, which is nowhere" if gone else ""
    cuda = get_value(build.cuda)
    message = f"{built}{asks}; {build.label} uses {f'CUDA {cuda}' if cuda else 'another CUDA'}."
    return message, tuple(Evidence(f"{item.soname} for cuDNN", "not found") for item in gone)


def _dropped(context: Context, build: Build, copy: Copy, version: str) -> Finding:
    row, dropped = context.matrix.cudnn(version), dropped_gpus(context, version)
    lowest = row.compute_capability_min if row else None
    names = " and ".join(dict.fromkeys(f"{gpu_name(item.gpu)} ({item.capability})" for item in dropped))
    message = (
        f"{build.label} loads cuDNN {version}, which serves GPUs from compute capability {lowest} on; "
        f"this machine has {names}."
    )
    severity = ERROR if len(dropped) == len(context.gpus) else WARNING
    floor = row_evidence(f"cuDNN {version}", f"from {lowest} on", row.citations if row else ())
    evidence = (copy.evidence, context.seen("gpus", shown=names), floor)
    problem = replace(_problem(build), cases=("dropped-gpu",), cudnn=version, capability=dropped[0].capability)
    return Finding(DROPPED, INCOMPATIBLE, severity, message, evidence, problem=problem)


def _shadowed(build: Build, copy: Copy, right: str, severity: str) -> Finding:
    needed = built_with(build)
    built = f", built with cuDNN {needed}," if needed else ""
    via = f" ({copy.via})" if copy.via else ""
    message = f"{build.label}{built} loads cuDNN {describe(copy.version)} from {copy.path}{via} ahead of {right}."
    advice = f"Take {copy.path.rpartition('/lib')[0] or copy.path} out of LD_LIBRARY_PATH where it is set."
    evidence = (copy.evidence, *_row(build))
    return Finding(SHADOWED, INCOMPATIBLE, severity, message, evidence, problem=Problem(advice=advice))


def _on_library_path(context: Context, copy: Copy) -> bool:
    if copy.via:
        return copy.via == "LD_LIBRARY_PATH"
    folders = context.environment.get("LD_LIBRARY_PATH", "").split(":")
    return any(
        folder.startswith("/") and (folder + "/").startswith(copy.path.rstrip("/") + "/") for folder in folders
    ) or (copy.path.rsplit("/", 1)[0] in folders)


def _major(copy: Copy) -> tuple[int, ...]:
    return numbers(get_value(copy.version) or "")[:1]


def _row(build: Build) -> tuple[Evidence, ...]:
    needed, row = built_with(build), build.release.cudnn if build.release else None
    if not needed:
        return ()
    cited = build.citations[0] if row == needed and build.citations else None
    return (Evidence(build.label, f"built with cuDNN {needed}", source_of(build.cudnn), cited),)

"""Is the driver new enough for the builds and for the GPUs, and does it still drive them?"""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.model.facts import Known, Unknown
from envcheck.model.findings import ERROR, INCOMPATIBLE, UNDETERMINED, Citation, Evidence, Finding, Fix
from envcheck.model.releases import DriverBranch, Toolkit
from envcheck.rules.architecture_targets import JIT
from envcheck.rules.builds import Build
from envcheck.rules.context import Context, UndecidedError
from envcheck.rules.driver_release import (
    at_least,
    at_least_cuda,
    driver_floor,
    full_driver,
    is_windows_driver,
    major,
    parse_release,
    toolkit_of,
)
from envcheck.rules.fixes_system import install_driver
from envcheck.rules.gpu_architecture import TOO_OLD, cuda_builds, verdict_on
from envcheck.rules.gpu_facts import Judged, cuda_starts, gpu_name, judged_gpus
from envcheck.rules.registry import rule

_ID = "driver-too-old"


@rule(_ID)
def driver_too_old(context: Context) -> Iterator[Finding]:
    """Compare the driver with what each build's CUDA needs: minor-version compatibility and its limit, PTX."""
    for build in cuda_builds(context):
        cuda = context.need(build.cuda, f"{build.label}: CUDA version")
        if cuda is None:
            continue
        toolkit = toolkit_of(context, cuda)
        if toolkit is None:
            yield _unknown_row(f"CUDA {cuda}, which {build.label} was built with,", build.citations)
            continue
        found = _below_floor(context, build, toolkit) or _ptx_too_new(context, build, toolkit)
        if found is not None:
            yield found


def _below_floor(context: Context, build: Build, toolkit: Toolkit) -> Finding | None:
    floor = driver_floor(context, toolkit)
    release = context.facts.driver.release
    if isinstance(release, Known) and floor is not None:
        reached = at_least(release.value, floor)
        if reached is None:
            detail = f"the driver is only known as {release.value}; {build.label} needs {floor}"
            raise UndecidedError("driver.release", Unknown("unparsable", detail))
        if reached or _runs_ahead(context, toolkit):
            return None
        return _too_old(
            context,
            build,
            toolkit,
            f"needs driver >= {floor}; this machine runs {release.value}",
            "driver.release",
            floor,
        )
    return _by_cuda_version(context, build, toolkit, floor)


def _runs_ahead(context: Context, toolkit: Toolkit) -> bool:
    # Forward compatibility: a newer user-space driver (cuda-compat) was seen to start on this kernel module.
    found = context.facts.driver.cuda_driver_version
    return cuda_starts(context) and isinstance(found, Known) and at_least_cuda(found.value, toolkit.version)


def _by_cuda_version(context: Context, build: Build, toolkit: Toolkit, floor: str | None) -> Finding | None:
    """Decide by what the driver says of CUDA, where its release is not known or the matrix names no release."""
    version = context.facts.driver.cuda_driver_version
    if not isinstance(version, Known):
        if context.need(context.facts.driver.release, "driver.release") is not None:
            context.need(version, "driver.cuda_driver_version")
        return None  # no driver at all: another rule's finding
    has_minor = toolkit.minor_floor_linux is not None
    enough = (
        major(version.value) >= major(toolkit.version) if has_minor else at_least_cuda(version.value, toolkit.version)
    )
    if enough:
        return None
    wanted = f"CUDA {major(toolkit.version)}" if has_minor else f"CUDA {toolkit.version}"
    message = f"needs a driver for {wanted}; this one goes up to CUDA {version.value}"
    return _too_old(context, build, toolkit, message, "driver.cuda_driver_version", floor)


def _ptx_too_new(context: Context, build: Build, toolkit: Toolkit) -> Finding | None:
    """Minor-version compatibility ends where PTX must be compiled: a driver reads that of its own CUDA at most."""
    release, full = context.facts.driver.release, full_driver(context, toolkit)
    if not isinstance(release, Known) or (full and at_least(release.value, full)) or not context.gpus:
        return None
    compiled = [item for item in judged_gpus(context) if item.architecture and _must_compile(context, build, item)]
    ceiling = _cuda_ceiling(context, release.value)
    if not compiled or ceiling is None or at_least_cuda(ceiling, toolkit.version):
        return None
    needs = (
        f"has only PTX of CUDA {toolkit.version} for {gpu_name(compiled[0].gpu)}, and this driver compiles PTX up to "
        f"CUDA {ceiling}: it needs driver >= {full}; this machine runs {release.value}"
    )
    return _too_old(context, build, toolkit, needs, "driver.release", full)


def _must_compile(context: Context, build: Build, item: Judged) -> bool:
    return isinstance(build.compute_capabilities, Known) and verdict_on(context, build, item).kind == JIT


def _cuda_ceiling(context: Context, release: str) -> str | None:
    found = context.facts.driver.cuda_driver_version
    if isinstance(found, Known):
        return found.value
    branch = None if is_windows_driver(context) else context.matrix.driver_branch(release)
    return branch.cuda if branch else None


def _too_old(context: Context, build: Build, toolkit: Toolkit, needs: str, seen: str, floor: str | None) -> Finding:
    evidence = [
        context.seen(seen),
        Evidence(f"toolkits {toolkit.version}", f"driver >= {floor or 'not stated'}", citation=toolkit.citations[0]),
    ]
    if build.citations:
        evidence.append(
            Evidence(f"matrix {build.label}", f"built with CUDA {toolkit.version}", citation=build.citations[0])
        )
    message = f"{build.label} was built with CUDA {toolkit.version} and {needs}."
    return Finding(_ID, INCOMPATIBLE, ERROR, message, tuple(evidence), install_driver(context, floor))


@rule(_ID)
def driver_before_gpu(context: Context) -> Iterator[Finding]:
    """Report drivers older than a GPU's architecture, and driver branches the matrix lacks."""
    branch = _branch(context)
    if branch is None:
        release = context.facts.driver.release
        if isinstance(release, Known) and not is_windows_driver(context) and context.gpus and _has_branch(context):
            yield _unknown_row(f"Driver branch {parse_release(release.value)[0]}", (), context.seen("driver.release"))
        return
    for item in _driven_by_branch(context):
        first = item.architecture.first_driver_branch if item.architecture else None
        if first and int(branch.branch) < int(first) and not cuda_starts(context):
            yield _branch_finding(context, _ID, branch, item, f"the first branch that drives it is {first}", first)


@rule(TOO_OLD)
def gpu_dropped_by_driver(context: Context) -> Iterator[Finding]:
    """Report GPUs that the installed driver branch no longer drives."""
    branch = _branch(context)
    for item in _driven_by_branch(context) if branch else ():
        last = item.architecture.last_driver_branch if item.architecture else None
        if branch and last and int(branch.branch) > int(last) and not cuda_starts(context):
            yield _branch_finding(context, TOO_OLD, branch, item, f"the last branch that drives it is {last}", last)


def _has_branch(context: Context) -> bool:
    return isinstance(context.facts.host.jetson_release, Known) is False


def _branch(context: Context) -> DriverBranch | None:
    """Find the matrix row of the running Linux driver; a board's system image has its own numbering."""
    release = context.facts.driver.release
    if not isinstance(release, Known) or is_windows_driver(context) or not _has_branch(context):
        return None
    return context.matrix.driver_branch(release.value)


def _driven_by_branch(context: Context) -> tuple[Judged, ...]:
    return (
        tuple(item for item in judged_gpus(context) if item.architecture and not item.architecture.tegra)
        if context.gpus
        else ()
    )


def _branch_finding(
    context: Context, finding_id: str, branch: DriverBranch, item: Judged, why: str, wanted: str
) -> Finding:
    row = item.architecture
    citation = row.citations[0] if row else branch.citations[0]
    message = f"Driver branch {branch.branch} does not drive {gpu_name(item.gpu)} (compute capability {item.capability}): {why}."
    evidence = (context.seen("driver.release"), Evidence(f"architectures {item.capability}", why, citation=citation))
    return Finding(
        finding_id, INCOMPATIBLE, ERROR, message, evidence, install_driver(context, wanted, exact=finding_id == TOO_OLD)
    )


def _unknown_row(what: str, citations: tuple[Citation, ...], *seen: Evidence) -> Finding:
    evidence = seen or tuple(Evidence("matrix", what, citation=citation) for citation in citations[:1])
    return Finding(
        "release-unknown",
        UNDETERMINED,
        ERROR,
        f"{what} is not in the matrix: what it works with is not known.",
        evidence,
        Fix("Update envcheck, or renew its matrix: envcheck matrix refresh."),
    )

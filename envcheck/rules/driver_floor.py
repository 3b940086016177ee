"""Is the driver new enough for the builds and for the GPUs, and does it still drive them?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from envcheck.model import (
    ERROR,
    INCOMPATIBLE,
    UNDETERMINED,
    Citation,
    Evidence,
    Finding,
    Known,
    Problem,
    Unknown,
    at_least,
    at_least_minor,
    major,
    numbers,
    replace,
)
from envcheck.model.releases import DriverBranch, Toolkit
from envcheck.rules.architecture_targets import JIT
from envcheck.rules.builds import Build
from envcheck.rules.context import Context, UndecidedError
from envcheck.rules.driver_release import driver_floor, full_driver, is_windows_driver, toolkit_of
from envcheck.rules.gpu_architecture import TOO_OLD, cuda_builds, verdict_on
from envcheck.rules.gpu_facts import Judged, cuda_starts, gpu_name, judged_gpus
from envcheck.rules.partial_code import compiled_partly, partial_code_citation
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
    # A Jetson numbers its driver in its own way; what it says of CUDA counts there.
    if not isinstance(release, Known) or floor is None or isinstance(context.facts.host.jetson_release, Known):
        return _by_cuda_version(context, build, toolkit, floor)
    reached = at_least(release.value, floor)
    if reached is None:
        detail = f"the driver is only known as {release.value}; {build.label} needs {floor}"
        raise UndecidedError("driver.release", Unknown("unparsable", detail))
    if reached or _runs_ahead(context, toolkit):
        return None
    needs = f"needs driver >= {floor}; this machine runs {release.value}"
    return _too_old(context, build, toolkit, Shortfall(needs, "driver.release", floor))


def _runs_ahead(context: Context, toolkit: Toolkit) -> bool:
    # Forward compatibility: a newer user-space driver (cuda-compat) was seen to start on this kernel module.
    found = context.facts.driver.cuda_driver_version
    return cuda_starts(context) and isinstance(found, Known) and at_least_minor(found.value, toolkit.version)


def _by_cuda_version(context: Context, build: Build, toolkit: Toolkit, floor: str | None) -> Finding | None:
    """Decide by what the driver says of CUDA, where its release is not known or the matrix names no release."""
    version = context.facts.driver.cuda_driver_version
    if not isinstance(version, Known):
        if context.need(context.facts.driver.release, "driver.release") is not None:
            context.need(version, "driver.cuda_driver_version")
        return None  # no driver at all: another rule's finding
    has_minor = toolkit.minor_floor_linux is not None
    wanted = major(toolkit.version) if has_minor else toolkit.version
    if at_least_minor(version.value, wanted):
        return None
    needs = f"needs a driver for CUDA {wanted}; this one goes up to CUDA {version.value}"
    return _too_old(context, build, toolkit, Shortfall(needs, "driver.cuda_driver_version", floor))


def _ptx_too_new(context: Context, build: Build, toolkit: Toolkit) -> Finding | None:
    """Minor-version compatibility ends where PTX must be compiled: a driver reads that of its own CUDA at most."""
    ceiling = _cuda_ceiling(context)
    if ceiling is None or at_least_minor(ceiling, toolkit.version) or not context.gpus:
        return None
    for item in judged_gpus(context):
        ptx = _ptx_of(context, build, toolkit, item)
        if ptx is None or at_least_minor(ceiling, ptx.version):
            continue
        full = full_driver(context, ptx)
        whole = verdict_on(context, build, item).kind == JIT
        needs = (
            f"has only PTX of CUDA {ptx.version} for {gpu_name(item.gpu)}{'' if whole else ' in most of its kernels'}, "
            f"and this driver compiles PTX up to CUDA {ceiling}: it needs driver >= {full or 'one of that CUDA'}"
        )
        seen = "driver.release" if isinstance(context.facts.driver.release, Known) else "driver.cuda_driver_version"
        found = _too_old(context, build, toolkit, Shortfall(needs, seen, full))
        return found if whole else replace(found, evidence=(*found.evidence, _partly(build, ptx)))
    return None


def _ptx_of(context: Context, build: Build, toolkit: Toolkit, item: Judged) -> Toolkit | None:
    """Return the toolkit of the PTX that the driver must compile for a GPU; None where it need not."""
    if item.architecture is None or not isinstance(build.compute_capabilities, Known):
        return None
    if verdict_on(context, build, item).kind == JIT:
        return toolkit
    return context.matrix.toolkit(compiled_partly(context, build, item.capability) or "")


def _partly(build: Build, ptx: Toolkit) -> Evidence:
    return Evidence(f"kernels of {build.label}", f"PTX of CUDA {ptx.version}", citation=partial_code_citation())


def _cuda_ceiling(context: Context) -> str | None:
    found, branch = context.facts.driver.cuda_driver_version, _branch(context)
    return found.value if isinstance(found, Known) else (branch.cuda if branch else None)


class Shortfall(NamedTuple):
    """What a driver lacks: in words, the fact that shows it, and the driver that would do."""

    needs: str
    seen: str
    floor: str | None


def _too_old(context: Context, build: Build, toolkit: Toolkit, lack: Shortfall) -> Finding:
    shown = f"driver >= {lack.floor}" if lack.floor else "driver not stated"
    evidence = [
        context.seen(lack.seen),
        Evidence(f"toolkits {toolkit.version}", shown, citation=toolkit.citations[0]),
    ]
    if build.citations:
        built = f"built with CUDA {toolkit.version}"
        evidence.append(Evidence(f"matrix {build.label}", built, citation=build.citations[0]))
    message = f"{build.label} was built with CUDA {toolkit.version} and {lack.needs}."
    problem = Problem(
        framework=build.framework, distribution=build.distribution, cuda=toolkit.version, driver=lack.floor or ""
    )
    return Finding(_ID, INCOMPATIBLE, ERROR, message, tuple(evidence), problem=problem)


@rule(_ID)
def driver_before_gpu(context: Context) -> Iterator[Finding]:
    """Report drivers older than a GPU's architecture, and driver branches the matrix lacks."""
    release = context.facts.driver.release
    if isinstance(release, Known) and context.gpus and _has_branch(context) and _branch(context) is None:
        yield _unknown_row(f"Driver branch {release.value.split('.')[0]}", (), context.seen("driver.release"))
    for branch, item in _driven(context):
        first = item.architecture.first_driver_branch if item.architecture else None
        if first and int(branch.branch) < int(first):
            why = f"the first branch that drives it is {first}"
            yield _undriven(context, _ID, item, f"{branch.branch}: {why}", Problem(driver=first))


@rule(TOO_OLD)
def gpu_dropped_by_driver(context: Context) -> Iterator[Finding]:
    """Report GPUs that the installed driver branch no longer drives."""
    for branch, item in _driven(context):
        last = item.architecture.last_driver_branch if item.architecture else None
        if last and int(branch.branch) > int(last):
            why = f"the last branch that drives it is {last}"
            problem = Problem(("driver",), driver=last, exact=True)
            yield _undriven(context, TOO_OLD, item, f"{branch.branch}: {why}", problem)


def _has_branch(context: Context) -> bool:
    """Say whether the driver is one of the Linux branches; Windows and a board's system image number their own."""
    return not is_windows_driver(context) and not isinstance(context.facts.host.jetson_release, Known)


def _branch(context: Context) -> DriverBranch | None:
    release = context.facts.driver.release
    if not isinstance(release, Known) or isinstance(context.facts.host.jetson_release, Known):
        return None
    if not is_windows_driver(context):
        return context.matrix.driver_branch(release.value)
    # Windows numbers on from a branch to the next: 474.44 is of R470. Where the newest one ends is not known.
    rows, number = context.matrix.driver_branches(), numbers(release.value)[:1]
    older = (row for row in rows[1:] if numbers(row.branch) <= number)
    return next(older, None) if number and number < numbers(rows[0].branch) else None


def _driven(context: Context) -> Iterator[tuple[DriverBranch, Judged]]:
    """Pair the driver branch with each GPU it should drive; with CUDA seen to start there is no doubt."""
    branch = _branch(context)
    if branch is None or not context.gpus or cuda_starts(context):
        return
    for item in judged_gpus(context):
        if item.architecture and not item.architecture.tegra:
            yield branch, item


def _undriven(context: Context, finding_id: str, item: Judged, why: str, problem: Problem) -> Finding:
    number, _, reason = why.partition(": ")
    gpu = f"{gpu_name(item.gpu)} (compute capability {item.capability})"
    citation = item.architecture.citations[0] if item.architecture else None
    evidence = (context.seen("driver.release"), Evidence(f"architectures {item.capability}", reason, citation=citation))
    message = f"Driver branch {number} does not drive {gpu}: {reason}."
    return Finding(finding_id, INCOMPATIBLE, ERROR, message, evidence, problem=problem)


def _unknown_row(what: str, citations: tuple[Citation, ...], *seen: Evidence) -> Finding:
    evidence = seen or tuple(Evidence("matrix", what, citation=citation) for citation in citations[:1])
    return Finding(
        "release-unknown",
        UNDETERMINED,
        ERROR,
        f"{what} is not in the matrix: what it works with is not known.",
        evidence,
        problem=Problem(),
    )

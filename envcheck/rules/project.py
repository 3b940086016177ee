"""What a project requires of a machine in its [tool.envcheck] table.

Releases, a driver, a compute capability.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.version import Version

from envcheck.model import (
    COMPATIBLE,
    NOTE,
    UNDETERMINED,
    Advise,
    Evidence,
    Finding,
    Fix,
    FollowRow,
    Gpu,
    Source,
    Unknown,
    at_least,
)
from envcheck.model.fixes import HideGpu, InstallDriver, InstallRequirements
from envcheck.model.versions import Requirement, name_of, read_requirement, within
from envcheck.rules.builds import Build, installed_builds
from envcheck.rules.context import Context, UndecidedError, once, rule
from envcheck.rules.gpu_releases import gpu_name, judged_gpus
from envcheck.rules.requirements import marker_holds


@once
def list_required(context: Context) -> tuple[str, ...]:
    """List the requirements of the project that are for this system and Python."""
    markers = {text: read_requirement(text).marker for text in context.demands.requires}
    return tuple(
        text for text, marker in markers.items() if not marker or marker_holds(context, marker)
    )


def is_installed(context: Context, text: str) -> bool:
    """Return whether an installed build meets a requirement."""
    requirement = read_requirement(text)
    return any(_meets(build, requirement, context) for build in installed_builds(context))


def _meets(build: Build, requirement: Requirement, context: Context) -> bool:
    name = requirement.name
    framework = context.matrix.framework_of(name)
    # tensorflow-cpu is what a project that requires tensorflow runs on where no GPU is asked for.
    is_match = build.distribution == name or (build.framework == framework == name)
    return is_match and requirement.admits(build.full_version, prereleases=True)


@rule("framework-missing", "dependency-conflict", goal="any")
def required_releases(context: Context) -> Iterator[Finding]:
    """Find requirements of the project that nothing installed meets."""
    if not context.demands.requires:
        return
    texts = list_required(context)
    if not context.judges_environment:
        for text in texts:
            yield context.report(
                f"The project requires {text}, and there is no Python environment to judge: none"
                " is active or belongs to this folder. Activate the project's environment, or name"
                " it with --env.",
                "python.executable",
                verdict=UNDETERMINED,
                finding_id="probe-failed",
            )
        return
    if texts or not context.names_releases:
        context.need(context.python.frameworks, "python.frameworks")
    if not texts and not installed_builds(context):
        yield context.report(
            "No project requirement applies to this system, and no framework is installed.",
            "python.frameworks",
            verdict=COMPATIBLE,
            severity=NOTE,
        )
    for text in texts:
        if not is_installed(context, text):
            yield _not_installed(context, text)


def _not_installed(context: Context, text: str) -> Finding:
    framework = context.matrix.framework_of(name_of(text))
    installed = [build for build in installed_builds(context) if build.framework == framework]
    has = "it is not"
    if installed:
        has = f"{' and '.join(build.label for build in installed)} is"
    labels = ", ".join(build.label for build in installed)
    name = "dependency-conflict" if installed else ""
    return context.report(
        f"The project requires {text}; {has} installed in the inspected environment.",
        _cite_demand(context, f"requires = {text}"),
        ("python.frameworks", labels or "none of it"),
        finding_id=name,
        cure=_choose_installation(context, text),
    )


def _choose_installation(context: Context, text: str) -> Fix:
    requirement = read_requirement(text)
    plain = requirement.plain
    public = re.sub(r"\+[\w.]+", "", requirement.specifier)
    versions = context.matrix.versions(context.matrix.framework_of(requirement.name))
    # which counts builds as one release
    if versions and not any(within(version, public) for version in versions):
        none = f"envcheck knows no release that {plain} allows; the newest is {versions[0]}."
        return Advise(f"Require a release that exists: {none}")
    if context.demands.obstacles:
        against = (
            "the release that pip would choose does not work here"
            f" ({', '.join(context.demands.obstacles)})"
        )
        return Advise(
            f"Let `envcheck plan '{plain}'` choose a release for this machine: {against}."
        )
    return InstallRequirements((plain,))


@rule("driver-too-old")
def required_driver(context: Context) -> Iterator[Finding]:
    """Find a driver that is older than the project requires.

    No driver at all is another finding.
    """
    floor, facts = context.demands.min_driver, context.driver
    release = context.need(facts.release, "driver.release") if floor else None
    # Jetson's comes with the system
    if floor and release is None and facts.cuda_driver_version.value:
        raise UndecidedError(
            "driver.release", Unknown("failed", "this machine's driver has no release number")
        )
    if release is None:
        return
    is_reached = at_least(release, floor)
    if is_reached is None:
        raise UndecidedError(
            "driver.release", Unknown("unparsable", f"the driver is only known as {release}")
        )
    if not is_reached:
        yield context.report(
            f"The project requires driver >= {floor}; this machine runs {release}.",
            _cite_demand(context, f"min-driver = {floor}"),
            "driver.release",
            cure=InstallDriver(floor),
        )


@rule("gpu-arch-too-old")
def required_capability(context: Context) -> Iterator[Finding]:
    """Find GPUs of a lower compute capability than the project requires."""
    floor = context.demands.min_compute_capability
    for gpu, capability, _ in judged_gpus(context) if floor else ():
        if Version(capability) < Version(floor):
            seen = context.seen("gpus", gpu.compute_capability)
            yield context.report(
                f"The project requires compute capability {floor} or higher;"
                f" {gpu_name(gpu)} has {capability}.",
                _cite_demand(context, f"min-compute-capability = {floor}"),
                seen,
                cure=HideGpu(),
            )


_GIB = 1 << 30


@rule("gpu-memory-exhausted")
def required_memory(context: Context) -> Iterator[Finding]:
    """Find that no GPU has as much free memory as is required."""
    floor = context.demands.min_memory
    gpus = [item.gpu for item in judged_gpus(context)] if floor else []
    if not gpus:
        return
    free = [_free_memory(context, gpu) for gpu in gpus]
    if max(free) < floor:
        best = gpus[free.index(max(free))]
        total = context.need(best.memory_bytes, "gpus") or 0
        yield context.report(
            f"{floor / _GIB:.1f} GiB of GPU memory are required; {gpu_name(best)} has"
            f" {max(free) / _GIB:.1f} of {total / _GIB:.1f} GiB free.",
            _cite_demand(context, f"memory = {floor / _GIB:.1f} GiB"),
            context.seen("gpus", best.memory_bytes),
            cure=FollowRow(),
        )


def _free_memory(context: Context, gpu: Gpu) -> int:
    total = context.need(gpu.memory_bytes, "gpus") or 0
    return total - (gpu.memory_used_bytes.value or 0)


def _cite_demand(context: Context, text: str) -> Evidence:
    return Evidence("tool.envcheck", text, Source("file", context.demands.location, text))

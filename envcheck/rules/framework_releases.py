"""Rules about the release itself: whether it exists here, for this Python, and as a GPU build."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import Version

from envcheck.model import ERROR, INCOMPATIBLE, WARNING, Evidence, Finding, Known, Problem, replace
from envcheck.model.releases import FrameworkRelease
from envcheck.rules.builds import Build
from envcheck.rules.context import Context
from envcheck.rules.dependencies import breaks_framework
from envcheck.rules.framework_state import Framework, has_no_gpu, is_conda_build, judged_frameworks
from envcheck.rules.gpu_releases import gpu_rows, has_gpu_build
from envcheck.rules.known_problems import problem_findings
from envcheck.rules.registry import rule
from envcheck.rules.targets import (
    LIBC,
    PLATFORM,
    PYTHON,
    REMOVED,
    Wanted,
    is_free_threaded,
    supports_python,
    wanted_releases,
)


@rule("python-unsupported", goal="any")
def python_unsupported(context: Context) -> Iterator[Finding]:
    """Find asked releases without a wheel for this Python."""
    for wanted in wanted_releases(context):
        if wanted.build and not wanted.build.installed:
            context.need(context.facts.python.version, "python.version")
        if wanted.obstacle != PYTHON:
            continue
        pythons = _pythons(wanted.near[:1])
        other = _other_release(context, wanted)
        yield Finding(
            "python-unsupported",
            INCOMPATIBLE,
            ERROR,
            f"{wanted.text} has no wheel for Python {_python(context)} here; {wanted.near[0].version} has wheels for "
            f"{_offered(context, wanted.near[0])}.",
            (
                context.seen("python.version"),
                Evidence(
                    f"{wanted.distribution} {wanted.near[0].version}",
                    f"Python {', '.join(pythons)}",
                    citation=wanted.near[0].citations[0],
                ),
            ),
            problem=Problem(
                framework=wanted.framework,
                requirements=(wanted.text.replace(" ", ""),),
                values=(("pythons", " ".join(pythons)), ("other_release", other)),
            ),
        )
    yield from problem_findings(context, "python-unsupported")


def _pythons(rows: tuple[FrameworkRelease, ...]) -> list[str]:
    return sorted({minor for row in rows for minor in row.pythons}, key=Version)


def _offered(context: Context, row: FrameworkRelease) -> str:
    """Name the Pythons a release has wheels for, and which builds of them where that is the point."""
    usual, free = ", ".join(_pythons((row,))), ", ".join(row.free_threaded_pythons)
    if not is_free_threaded(context):
        return usual
    return f"the usual builds of {usual}" + (f" and the free-threaded of {free}" if free else "")


def _python(context: Context) -> str:
    version = context.facts.python.version
    shown = version.value if isinstance(version, Known) else "?"
    implementation = context.facts.python.implementation
    if isinstance(implementation, Known) and implementation.value.lower() != "cpython":
        return f"{shown} ({implementation.value}; the wheels are for CPython)"
    return shown + (" (free-threaded)" if is_free_threaded(context) else "")


def _other_release(context: Context, wanted: Wanted) -> str:
    """Name the newest release of the same distribution that this Python can install; "" when there is none."""
    rows = context.matrix.releases(wanted.framework, context.platform)
    fitting = (
        row
        for row in rows
        if row.distribution == wanted.distribution and not row.yanked and supports_python(context, row)
    )
    found = next(fitting, None)
    return f"{found.distribution}=={found.version}" if found else ""


@rule("framework-package-removed", goal="any")
def framework_package_removed(context: Context) -> Iterator[Finding]:
    """Find requirements on a withdrawn distribution, which no longer brings its framework."""
    for wanted in wanted_releases(context):
        if wanted.obstacle != REMOVED or wanted.removed is None:
            continue
        row = wanted.removed
        last = row.last_versions.get(context.platform)
        instead = row.replacement if context.goal == "gpu" else row.replacement.partition("[")[0]
        until = f" Its last real release here is {last}." if last else ""
        yield Finding(
            "framework-package-removed",
            INCOMPATIBLE,
            ERROR,
            f"{wanted.text} cannot be installed. {row.reason}{until}",
            (
                context.seen("host.os", shown=f"{wanted.text} on {context.platform}"),
                Evidence(f"removed {row.name}", row.reason, citation=row.citations[0]),
            ),
            problem=Problem(framework=wanted.framework, requirements=(instead,)),
        )


@rule("platform-no-gpu-wheel", goal="any")
def platform_no_gpu_wheel(context: Context) -> Iterator[Finding]:
    """Find releases without a GPU wheel, or without any wheel, for this platform."""
    for wanted in wanted_releases(context):
        if wanted.obstacle in (PLATFORM, LIBC):
            where = "a system with musl instead of glibc" if wanted.obstacle == LIBC else context.platform
            yield _no_wheel(
                context, wanted.text, wanted.framework, f"{wanted.text} has no wheel for {where}.", wanted.near
            )
    for framework in judged_frameworks(context) if context.goal == "gpu" else ():
        build = framework.main
        if not is_conda_build(context, build) and _has_no_gpu_wheel(context, framework):
            message = f"{build.label} has no GPU wheel for {context.platform}: what is published there is a CPU build."
            rows = (build.release,) if build.release else ()
            found = _no_wheel(context, build.label, build.framework, message, rows)
            later = not _is_gpu_meant(context) and breaks_framework(context)  # what does not even start comes first
            yield replace(found, severity=WARNING) if later else found
    if context.goal == "gpu":
        yield from problem_findings(context, "platform-no-gpu-wheel")


def _is_gpu_meant(context: Context) -> bool:
    """Tell whether anything says that a GPU is there or wanted."""
    there = (context.facts.driver.release, context.facts.driver.cuda_driver_version, context.facts.toolkits.installs)
    asked = context.target.expect == "gpu" or bool(context.target.requirements)
    return asked or bool(context.gpus) or any(isinstance(fact, Known) and bool(fact.value) for fact in there)


def _has_no_gpu_wheel(context: Context, framework: Framework) -> bool:
    """Tell whether a framework is a CPU build and no GPU build of this release exists for this platform."""
    if has_gpu_build(context, framework.main):
        return False
    if not gpu_rows(context, framework.name):  # nor of any other release: whatever the files say, it is a CPU build
        return not _has_cuda(framework)
    return not context.need(framework.cuda_build, f"{framework.main.label}: CUDA build or not")


def _no_wheel(
    context: Context, label: str, framework: str, message: str, rows: tuple[FrameworkRelease, ...]
) -> Finding:
    cited = (
        rows[:1] or context.matrix.releases(framework, context.platform)[:1] or context.matrix.releases(framework)[:1]
    )
    return Finding(
        "platform-no-gpu-wheel",
        INCOMPATIBLE,
        ERROR,
        message,
        (
            context.seen("host.os", shown=f"{label} on {context.platform}"),
            *(
                Evidence(
                    f"{row.distribution} {row.version}",
                    f"{row.platform}, CUDA build: {row.cuda_build}",
                    citation=row.citations[0],
                )
                for row in cited
            ),
        ),
        problem=Problem(framework=framework),
    )


@rule("framework-cpu-build")
def framework_cpu_build(context: Context) -> Iterator[Finding]:
    """Find CPU-only builds beside a GPU, which they ignore without a word."""
    if has_no_gpu(context):
        return
    if not context.target.requirements:
        context.need(context.facts.python.frameworks, "python.frameworks")
    others = any(_has_cuda(framework) for framework in judged_frameworks(context))
    for framework in _cpu_frameworks(context):
        build = framework.main
        if framework.name == "jax" or not (has_gpu_build(context, build) or is_conda_build(context, build)):
            continue
        asked = any(wanted.framework == framework.name for wanted in wanted_releases(context))
        whose = "this machine's" if context.gpus else "a"
        yield Finding(
            "framework-cpu-build",
            INCOMPATIBLE,
            ERROR if asked or not others else WARNING,
            f"{build.label} is {_kind(build)}: it does not use {whose} GPU.",
            _cpu_evidence(context, build),
            problem=Problem(framework=framework.name, distribution=build.distribution),
        )


def _kind(build: Build) -> str:
    rocm = "rocm" in f"{build.distribution} {build.local}"
    return "a build for AMD GPUs (ROCm), without CUDA" if rocm else "a CPU-only build"


def _has_cuda(framework: Framework) -> bool:
    return isinstance(framework.cuda_build, Known) and framework.cuda_build.value


def _cpu_frameworks(context: Context) -> Iterator[Framework]:
    """Yield the judged frameworks without any CUDA build; an unknown one ends the rule as undetermined."""
    for framework in judged_frameworks(context):
        if not context.need(framework.cuda_build, f"{framework.main.label}: CUDA build or not"):
            yield framework


def _cpu_evidence(context: Context, build: Build) -> tuple[Evidence, ...]:
    seen = (context.seen("python.frameworks", build.cuda_build, f"{build.label}: no CUDA build"), context.seen("gpus"))
    if build.release is None:
        return seen
    return (*seen, Evidence(build.label, build.release.note or "its wheel here", citation=build.release.citations[0]))

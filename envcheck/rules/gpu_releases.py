"""Which GPU release to install instead of a build that cannot use the GPU here."""

from __future__ import annotations

from packaging.version import InvalidVersion, Version

from envcheck.frameworks import framework as known_framework
from envcheck.matrix.package_index import is_proposed, is_served
from envcheck.model import Known, major_minor
from envcheck.model.releases import FrameworkRelease
from envcheck.rules.builds import Build
from envcheck.rules.context import Context
from envcheck.rules.known_problems import blocks_gpu
from envcheck.rules.targets import supports_python


def gpu_rows(context: Context, framework: str) -> tuple[FrameworkRelease, ...]:
    """List the CUDA releases of a framework for this platform, newest first, whatever their distribution."""
    key = f"gpu_rows {framework}"
    if key not in context.memo:
        rows = context.matrix.releases(framework, context.platform)
        context.memo[key] = tuple(row for row in rows if row.cuda_build and not row.yanked)
    return tuple(context.memo[key])


def has_gpu_build(context: Context, build: Build) -> bool:
    """Tell whether this very release exists as a CUDA build for this platform, in any distribution or index."""
    same = context.matrix.builds(build.framework, context.platform, admits=build.version.__eq__)
    if any(row.cuda_build and not row.yanked for row in same):
        return True
    twin = known_framework(build.framework).gpu_twin
    if twin and build.distribution != twin:
        return bool(gpu_rows(context, build.framework))
    # Not a release of the matrix: it counts as its nearest elder does.
    is_served_unlisted = is_served(build.framework, build.version, context.platform)
    return build.release is None and (is_served_unlisted or _newest_has_gpu(context, build.framework))


def _newest_has_gpu(context: Context, framework: str) -> bool:
    newest = next(iter(context.matrix.versions(framework)), "")
    rows = context.matrix.builds(framework, context.platform, admits=newest.__eq__)
    return any(row.cuda_build and not row.yanked for row in rows)


def best_gpu_row(context: Context, framework: str, near: str) -> FrameworkRelease | None:
    """Choose a CUDA release for this Python and driver: of the same minor where there is one, else the newest."""
    rows, line = gpu_rows(context, framework), major_minor(near)
    same = [row for row in rows if row.version == near]
    same += [row for row in rows if major_minor(row.version) == line]
    fitting = (row for row in (*same, *rows) if supports_python(context, row) and driver_runs(context, row.cuda))
    return next((row for row in fitting if not blocks_gpu(context, row)), None)


def driver_runs(context: Context, cuda: str | None) -> bool:
    """Tell whether the driver reaches the floor of a CUDA version; an unknown driver is not held against it."""
    release = context.facts.driver.release
    if cuda is None or not isinstance(release, Known):
        return True
    toolkit = context.matrix.toolkit(cuda if "." in cuda else f"{cuda}.0")
    windows = context.os == "windows"
    if toolkit is None:
        return True
    floor = toolkit.minor_floor_windows if windows else toolkit.minor_floor_linux
    floor = floor or (toolkit.min_driver_windows if windows else toolkit.min_driver_linux)
    try:
        return floor is None or Version(release.value) >= Version(floor)
    except InvalidVersion:
        return True


def release_for_driver(context: Context, build: Build) -> str:
    """Name what of the same framework runs on the driver that is there; "" when nothing does."""
    if not isinstance(context.facts.driver.release, Known):
        return ""
    if build.framework == "torch":
        version, variant = torch_choice(context, build.version)
        return f"torch {version} for CUDA {variant}" if variant else ""
    row = best_gpu_row(context, build.framework, build.version)
    return gpu_requirement(context, row) if row is not None else ""


def gpu_requirement(context: Context, row: FrameworkRelease) -> str:
    """Write a requirement for a CUDA release with the extra that brings its CUDA libraries."""
    if row.framework == "jax":
        return _jax_requirement(context, row)
    extra = f"[{row.gpu_extra}]" if row.gpu_extra else ""
    return f"{row.distribution}{extra}=={row.version}"


def _jax_requirement(context: Context, plugin: FrameworkRelease) -> str:
    """Name jax itself: jax-cuda12-plugin 0.4.31 -> jax[cuda12]==0.4.31."""
    row = context.matrix.release("jax", plugin.version, context.platform, "jax")
    extra = next((name for name in (row.extras if row else ()) if name in plugin.distribution), "")
    return f"jax[{extra}]=={plugin.version}" if extra else f"{plugin.distribution}=={plugin.version}"


def torch_choice(context: Context, near: str) -> tuple[str, str]:
    """Choose release and CUDA variant for this Python and driver: `near` itself where it has one, else the newest."""
    rows = [row for row in context.matrix.builds("torch", context.platform) if _is_offered(context, row)]
    same = (row for row in rows if row.version == near)
    chosen = next(same, None) or next((row for row in rows if supports_python(context, row)), None)
    return (chosen.version, chosen.cuda or "") if chosen else ("", "")


def _is_offered(context: Context, row: FrameworkRelease) -> bool:
    """Tell whether a row is a CUDA build on PyTorch's own index that the driver runs."""
    return bool(row.local) and row.cuda_build and is_proposed(row) and driver_runs(context, row.cuda)

"""Which CUDA release of a framework to install, and which driver it needs."""

from __future__ import annotations

from functools import lru_cache

from packaging.version import InvalidVersion, Version

from envcheck.frameworks import framework as known_framework
from envcheck.matrix.package_index import is_proposed, is_served
from envcheck.matrix.query import Matrix
from envcheck.model import FrameworkRelease, Known, Toolkit, major_minor
from envcheck.rules.builds import Build, supports_python
from envcheck.rules.context import Context
from envcheck.rules.known_problems import blocks_gpu


def gpu_rows(context: Context, framework: str) -> tuple[FrameworkRelease, ...]:
    """List the CUDA releases of a framework for this platform, newest first, whatever their distribution."""
    return _gpu_rows(context.matrix, framework, context.platform)


@lru_cache(maxsize=64)
def _gpu_rows(matrix: Matrix, framework: str, platform: str) -> tuple[FrameworkRelease, ...]:
    return tuple(row for row in matrix.releases(framework, platform) if row.cuda_build and not row.yanked)


def has_gpu_build(context: Context, build: Build) -> bool:
    """Tell whether this very release exists as a CUDA build for this platform, in any distribution or index."""
    same = context.matrix.builds(build.framework, context.platform, admits=build.version.__eq__)
    if any(row.cuda_build and not row.yanked for row in same):
        return True
    twin = build.traits.gpu_twin
    if twin and build.distribution != twin:
        return bool(gpu_rows(context, build.framework))
    # Not a release of the matrix: it counts as the newest one before it.
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
    """Tell whether the driver reaches the floor of a CUDA version; an unknown driver counts as new enough."""
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
    if build.traits.index:
        version, variant = choose_variant(context, build.framework, build.version)
        return f"{build.distribution} {version} for CUDA {variant}" if variant else ""
    row = best_gpu_row(context, build.framework, build.version)
    return gpu_requirement(context, row) if row is not None else ""


def gpu_requirement(context: Context, row: FrameworkRelease) -> str:
    """Write a requirement for a CUDA release with the extra that brings its CUDA libraries."""
    main = known_framework(row.framework).main
    if main:
        return _requirement_of_plugin(context, row, main)
    extra = f"[{row.gpu_extra}]" if row.gpu_extra else ""
    return f"{row.distribution}{extra}=={row.version}"


def _requirement_of_plugin(context: Context, plugin: FrameworkRelease, main: str) -> str:
    """Name the framework itself: jax-cuda12-plugin 0.4.31 -> jax[cuda12]==0.4.31."""
    row = context.matrix.release(plugin.framework, plugin.version, context.platform, main)
    extra = next((name for name in (row.extras if row else ()) if name in plugin.distribution), "")
    return f"{main}[{extra}]=={plugin.version}" if extra else f"{plugin.distribution}=={plugin.version}"


def choose_variant(context: Context, framework: str, near: str) -> tuple[str, str]:
    """Choose release and CUDA variant for this Python and driver: `near` itself where it has one, else the newest."""
    rows = [row for row in context.matrix.builds(framework, context.platform) if _is_offered(context, row)]
    same = (row for row in rows if row.version == near)
    chosen = next(same, None) or next((row for row in rows if supports_python(context, row)), None)
    return (chosen.version, chosen.cuda or "") if chosen else ("", "")


def _is_offered(context: Context, row: FrameworkRelease) -> bool:
    """Tell whether a row is a CUDA build on PyTorch's own index that the driver runs."""
    return bool(row.local) and row.cuda_build and is_proposed(row) and driver_runs(context, row.cuda)


def is_windows_driver(context: Context) -> bool:
    """Tell whether the driver is the Windows one: on Windows, and in WSL."""
    return context.os == "windows" or isinstance(context.facts.host.wsl_version, Known)


def toolkit_of(context: Context, cuda: str) -> Toolkit | None:
    """Find the row of a CUDA version; a bare major ("12", as JAX names its builds) means the oldest of that major."""
    return context.matrix.resolve_toolkit(cuda)


def driver_floor(context: Context, toolkit: Toolkit) -> str | None:
    """Return the lowest driver that runs builds of a toolkit: under minor-version compatibility where that exists."""
    if is_windows_driver(context):
        return toolkit.minor_floor_windows or toolkit.min_driver_windows
    return toolkit.minor_floor_linux or toolkit.min_driver_linux


def full_driver(context: Context, toolkit: Toolkit) -> str | None:
    """Return the driver a toolkit was released with, from which on its PTX can be compiled."""
    return toolkit.min_driver_windows if is_windows_driver(context) else toolkit.min_driver_linux

"""Rules about the nvidia-* wheels that bring a framework its CUDA libraries."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from envcheck.host.data_files import read_data
from envcheck.matrix.rows import build_citation
from envcheck.model.facts import Absent, Known, Source, Unknown
from envcheck.model.findings import ERROR, INCOMPATIBLE, WARNING, Citation, Evidence, Finding, Fix
from envcheck.model.python_env import Distribution, LibraryLookup
from envcheck.rules.builds import Build
from envcheck.rules.context import Context, source_of
from envcheck.rules.fixes_python import install_steps, library_path_hook, uninstall_steps
from envcheck.rules.framework_state import Framework, has_no_gpu, is_conda_build, judged_frameworks
from envcheck.rules.gpu_releases import best_gpu_row, gpu_install, gpu_requirement, gpu_rows
from envcheck.rules.known_problems import problem_findings
from envcheck.rules.pins import pin_findings
from envcheck.rules.registry import rule

_IN_WHEEL = r"/(?:site|dist)-packages/nvidia/"


@rule("framework-cuda-extra-missing")
def framework_cuda_extra_missing(context: Context) -> Iterator[Finding]:
    """Find GPU wheels without the CUDA libraries that their extra brings."""
    if has_no_gpu(context):
        return
    for framework in judged_frameworks(context):
        if framework.name == "jax" and not gpu_rows(context, "jax"):
            continue
        if framework.name == "jax" and not context.need(framework.cuda_build, f"{framework.main.label}: CUDA plugin"):
            yield _no_plugin(context, framework)
            continue
        for build in framework.builds:
            yield from _without_libraries(context, framework, build)


def _no_plugin(context: Context, framework: Framework) -> Finding:
    build = framework.main
    row = best_gpu_row(context, "jax", build.version) or gpu_rows(context, "jax")[0]
    return Finding(
        "framework-cuda-extra-missing",
        INCOMPATIBLE,
        ERROR,
        f"{build.label} is installed without a CUDA plugin such as {row.distribution}, so JAX runs on the CPU only.",
        (
            context.seen("python.frameworks", build.cuda_build, f"{build.label}: no CUDA plugin"),
            Evidence(f"{row.distribution} {row.version}", "brings CUDA to JAX", citation=row.citations[0]),
        ),
        gpu_install(context, framework),
    )


def _without_libraries(context: Context, framework: Framework, build: Build) -> Iterator[Finding]:
    row = build.release
    if row is None or not row.cuda_wheels or is_conda_build(context, build):
        return
    if not build.installed:
        yield from _asked_without_extra(context, framework, build)
        return
    if not (isinstance(build.cuda_build, Known) and build.cuda_build.value):
        return
    context.need(build.libraries, f"{build.label}: CUDA libraries")
    missing = [item for item in _unfound(build) if _wheel_of(item) and not _has_wheel(context, _wheel_of(item))]
    if not missing:
        return
    wanted = _requirement(context, build)
    sonames = ", ".join(item.soname for item in missing[:4]) + (" and more" if len(missing) > 4 else "")
    yield Finding(
        "framework-cuda-extra-missing",
        INCOMPATIBLE,
        ERROR,
        f"{build.label} is installed without its CUDA libraries: {sonames} cannot be found, and the nvidia-* wheels "
        f"that {wanted} brings are not installed.",
        (
            *(Evidence(f"library {item.soname}", "not found", _looked(item)) for item in missing[:3]),
            Evidence(
                f"{build.distribution} {build.version}", ", ".join(row.cuda_wheels[:3]), citation=row.citations[0]
            ),
        ),
        Fix(f"Install {wanted}; no CUDA Toolkit is needed.", install_steps(context, wanted)),
    )


def _asked_without_extra(context: Context, framework: Framework, build: Build) -> Iterator[Finding]:
    extra = build.release.gpu_extra if build.release else None
    if not extra or set(framework.extras) & set(build.release.extras if build.release else ()):
        return
    if build.framework == "jax" and build.distribution != "jax":
        return
    row = best_gpu_row(context, build.framework, build.version)
    wanted = gpu_requirement(context, row) if row else f"{build.distribution}[{extra}]=={build.version}"
    yield Finding(
        "framework-cuda-extra-missing",
        INCOMPATIBLE,
        WARNING,
        f"{build.label} installed by itself comes without its CUDA libraries; its extra {extra} brings them.",
        (
            context.seen("python.distributions", shown="asked with --for, not installed"),
            Evidence(build.label, f"extra {extra}", citation=build.citations[0]),
        ),
        Fix(f"Install {wanted}.", install_steps(context, wanted)),
    )


def _requirement(context: Context, build: Build) -> str:
    return gpu_requirement(context, build.release) if build.release else build.distribution


def _unfound(build: Build) -> list[LibraryLookup]:
    """List the needed libraries that the loader does not find."""
    lookups = build.libraries.value if isinstance(build.libraries, Known) else ()
    return [item for item in lookups if item.mandatory and isinstance(item.found, Absent)]


def _looked(item: LibraryLookup) -> Source | None:
    return source_of(item.found)


def _wheel_of(item: LibraryLookup) -> str:
    """Name the wheel of a library without its CUDA suffix: libcublasLt.so.12 -> nvidia-cublas."""
    return str(_data()["libraries"].get(item.soname.partition(".so")[0], ""))


def _has_wheel(context: Context, stem: str) -> bool:
    return any(re.fullmatch(rf"{stem}(-cu\d+)?", name) for name in context.distributions)


@rule("cuda-wheel-not-found")
def cuda_wheel_not_found(context: Context) -> Iterator[Finding]:
    """Find CUDA wheels that are there, but which the framework's search path does not lead to."""
    for framework in judged_frameworks(context):
        for build in framework.builds:
            hidden = [item for item in _unfound(build) if any(re.search(_IN_WHEEL, path) for path in item.elsewhere)]
            if hidden:
                yield _hidden_wheels(context, framework, build, hidden)
    yield from problem_findings(context, "cuda-wheel-not-found", lambda build: isinstance(build.libraries, Unknown))


def _hidden_wheels(context: Context, framework: Framework, build: Build, hidden: list[LibraryLookup]) -> Finding:
    copies = [path for item in hidden for path in item.elsewhere if re.search(_IN_WHEEL, path)]
    folders = [posixpath.dirname(path) for path in copies]
    known = next(problem_findings(context, "cuda-wheel-not-found", lambda other: other is build), None)
    row = best_gpu_row(context, framework.name, build.version)
    other = f" Or install {gpu_requirement(context, row)}, which finds them by itself." if row and known else ""
    cited = tuple(item for item in known.evidence if item.citation) if known else _row_evidence(build)
    return Finding(
        "cuda-wheel-not-found",
        INCOMPATIBLE,
        ERROR,
        f"{build.label} does not find {', '.join(item.soname for item in hidden[:4])}, although the wheels that hold "
        f"them are installed: its own search path (RUNPATH) does not lead to {copies[0]}.",
        (
            *(
                Evidence(f"library {item.soname}", f"not found; lies at {item.elsewhere[0]}", _looked(item))
                for item in hidden[:3]
            ),
            *cited,
        ),
        Fix(
            f"Put the wheels' folders on the loader's path when the environment is activated.{other}",
            library_path_hook(context, folders),
        ),
    )


def _row_evidence(build: Build) -> tuple[Evidence, ...]:
    if build.release is None:
        return ()
    reaches = "reaches" if build.release.finds_cuda_wheels else "does not reach"
    return (Evidence(build.label, f"its RUNPATH {reaches} the wheels", citation=build.release.citations[0]),)


@rule("cuda-wheel-conflict")
def cuda_wheel_conflict(context: Context) -> Iterator[Finding]:
    """Find CUDA wheels that overwrite each other or that are not the versions a framework pins."""
    for stem in _data()["one_folder_for_all_majors"]:
        rivals = _rivals(context, stem)
        if len(rivals) > 1:
            yield _overwritten(context, stem, rivals)
    yield from pin_findings(context, "cuda-wheel-conflict")


def _rivals(context: Context, stem: str) -> list[Distribution]:
    """List the wheels of one library for several CUDA majors; empty placeholders (0.0.x) and other sonames aside."""
    found = [item for name, item in context.distributions.items() if re.fullmatch(rf"{stem}-cu\d+", name)]
    real = [item for item in found if not item.version.startswith("0.0.")]
    majors = {item.version.partition(".")[0] for item in real}
    return real if stem != "nvidia-cudnn" or len(majors) == 1 else []


def _overwritten(context: Context, stem: str, rivals: list[Distribution]) -> Finding:
    shown = " and ".join(f"{item.name} {item.version}" for item in rivals)
    folder = "nvidia/" + stem.partition("-")[2]
    needed = _asked_by_frameworks(context, rivals)
    kept = needed or [rivals[-1]]
    gone = [item.name for item in rivals if item not in kept]
    steps = uninstall_steps(context, *gone) + install_steps(
        context, *(f"{item.name}=={item.version}" for item in kept[:1]), force=True
    )
    apart = Fix("Put the frameworks that need different CUDA majors into environments of their own.")
    repair = Fix(f"Remove {', '.join(gone)}, then install {kept[0].name} again, whose files were overwritten.", steps)
    return Finding(
        "cuda-wheel-conflict",
        INCOMPATIBLE,
        ERROR,
        f"{shown} are both installed and share the folder {folder}: each overwrote files of the other, "
        f"so one framework gets the library of another CUDA major.",
        (
            context.seen("python.distributions", shown=shown),
            *_owners(context, rivals),
            Evidence("cuda wheels", folder, citation=_citation()),
        ),
        apart if len(needed) > 1 else repair,
    )


def _asked_by_frameworks(context: Context, rivals: list[Distribution]) -> list[Distribution]:
    wanted = {
        re.split(r"[^a-z0-9-]", line.lower().replace("_", "-"))[0]
        for name, item in context.distributions.items()
        if context.matrix.framework_of(name)
        for line in item.requires
    }
    return [item for item in rivals if item.name in wanted]


def _owners(context: Context, rivals: list[Distribution]) -> tuple[Evidence, ...]:
    fact, names = context.facts.python.duplicate_owners, {item.name for item in rivals}
    owned = fact.value if isinstance(fact, Known) else {}
    shared = next((path for path, owners in owned.items() if names & set(owners)), None)
    if shared is None or not isinstance(fact, Known):
        return ()
    return (Evidence("python.duplicate_owners", f"{shared}: {', '.join(owned[shared])}", fact.source),)


def _citation() -> Citation:
    return build_citation(_data()["citation"])


@lru_cache(maxsize=1)
def _data() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(read_data("cuda_wheels.json"))
    return loaded

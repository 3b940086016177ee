"""Rules about the nvidia-* wheels that bring a framework its CUDA libraries."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence

from envcheck.host.data_files import load_data
from envcheck.matrix.package_index import index_url
from envcheck.model import (
    AT_RUN,
    COMPATIBLE,
    WARNING,
    Advise,
    Citation,
    CudaWheels,
    Distribution,
    Evidence,
    Finding,
    Fix,
    FrameworkRelease,
    LibraryLookup,
    Unknown,
    major,
    numbers,
)
from envcheck.model.fixes import (
    ExposeCudaWheels,
    InstallCudaBuild,
    InstallCudaLibraries,
    ReplaceCudaWheels,
    StartActivated,
    UseNewerGlibc,
)
from envcheck.model.versions import can_be_met, name_of
from envcheck.rules.builds import Build, is_conda_build, unfound_libraries
from envcheck.rules.context import Context, Seen, cite, each, rule, show_fact
from envcheck.rules.cudnn import installed_version, is_served_by_system
from envcheck.rules.dependencies import pin_findings
from envcheck.rules.gpu_releases import (
    best_gpu_row,
    driver_runs,
    gpu_requirement,
    gpu_rows,
    has_cuda_wheels,
    problem_findings,
)
from envcheck.rules.targets import (
    JudgedFramework,
    judged_builds,
    judged_frameworks,
    wanted_releases,
)
from envcheck.rules.toolkit import name_some, system_toolkits, weigh


def _load_data() -> CudaWheels:
    return load_data("nvidia/cuda_wheels", CudaWheels)


def wheels_in_one_folder() -> tuple[str, ...]:
    """List the wheels, without CUDA suffix, whose builds for all CUDA majors lie in one folder."""
    return _load_data().one_folder_for_all_majors


def split_cuda_suffix(name: str) -> tuple[str, str]:
    """Split a wheel with all CUDA majors in one folder: ("nvidia-cudnn", "12").

    The CUDA of any other is "".
    """
    match = re.fullmatch(r"(.+?)-cu(\d+)", name)
    if match and match[1] in wheels_in_one_folder():
        return (match[1], match[2])
    return (name, "")


def wheels_citation() -> Citation:
    """Return the source of these names."""
    return _load_data().citation


_IN_WHEEL = r"/(?:site|dist)-packages/nvidia/"


@rule("framework-cuda-extra-missing")
def framework_cuda_extra_missing(context: Context) -> Iterator[Finding]:
    """Find GPU wheels without the CUDA libraries that their extra brings."""
    if context.lacks_gpu:
        return
    yield from each(
        judged_frameworks(context), lambda framework: _extra_missing(context, framework)
    )


def _extra_missing(context: Context, framework: JudgedFramework) -> Iterator[Finding]:
    by_plugin = bool(framework.traits.plugin_of_extra)
    if by_plugin and not gpu_rows(context, framework.name):
        return
    if by_plugin and not context.need(framework.cuda_build, f"{framework.main.label}: CUDA plugin"):
        yield _no_plugin(context, framework)
        return
    for build in framework.builds:
        yield from _without_libraries(context, framework, build)


def _no_plugin(context: Context, framework: JudgedFramework) -> Finding:
    build = framework.main
    row = best_gpu_row(context, build.framework, build.version)
    name = framework.traits.title
    row = row or gpu_rows(context, build.framework)[0]
    is_asked = any(item.framework == framework.name for item in wanted_releases(context))
    others = (item for item in judged_frameworks(context) if item.name != framework.name)
    is_aside = not is_asked and any(item.cuda_build.value for item in others)
    return context.report(
        f"{build.label} is installed without a CUDA plugin such as {row.distribution}, so {name}"
        " runs on the CPU only.",
        context.seen("python.frameworks", build.cuda_build, f"{build.label}: no CUDA plugin"),
        cite(row.label, f"brings CUDA to {name}", row),
        severity=WARNING if is_aside else "",
        cure=InstallCudaBuild(framework.name),
    )


def _without_libraries(
    context: Context, framework: JudgedFramework, build: Build
) -> Iterator[Finding]:
    row = build.release
    if row is None or not row.cuda_wheels or is_conda_build(context, build):
        return
    if not build.installed:
        yield from _target_without_extra(context, framework, build, row)
        return
    if not build.cuda_build.value:
        return
    # What a file builds is listed in full; a log or a report may name some of the wheels.
    if build.libraries == AT_RUN and not row.gpu_extra and has_cuda_wheels(context, build):
        yield from _some_missing(context, build, build.row.cuda_wheels if build.row else ())
        return
    lacking = _list_lacking(context, build)
    if lacking:
        reason = f"this machine has no {' and no '.join(lacking)}, and the nvidia-* wheels"
        names = ("python.distributions", "toolkits.installs", "cudnn")
        yield _missing_libraries(context, build, row, reason, *names)
        return
    context.need(build.libraries, f"{build.label}: CUDA libraries")
    missing = [item for item in unfound_libraries(build) if _lacks_wheel(context, build, item)]
    if missing:
        reason = f"{name_some(missing, 4)} cannot be found, and the nvidia-* wheels"
        looked = _show_libraries(missing, "not found")
        yield _missing_libraries(context, build, row, reason, *looked)


def _show_libraries(lookups: Sequence[LibraryLookup], shown: str) -> list[Evidence]:
    return [show_fact(f"library {item.soname}", item.found, shown) for item in lookups[:3]]


def _some_missing(context: Context, build: Build, wheels: tuple[str, ...]) -> Iterator[Finding]:
    """Report a build's CUDA wheels that are missing where others are there."""
    missing = tuple(wheel for wheel in wheels if name_of(wheel) not in context.distributions)
    if missing:
        verb = "which are" if len(missing) > 1 else "which is"
        yield context.report(
            f"{build.label} cannot use a GPU:"
            f" it requires {', '.join(missing[:4])}, {verb} not installed.",
            ("python.distributions", f"without {', '.join(map(name_of, missing[:4]))}"),
            cite(build.label, ", ".join(missing[:3]), build),
            cure=InstallCudaLibraries(
                build.framework, missing, index_url(build.framework, build.local), are_pinned=True
            ),
        )


def _list_lacking(context: Context, build: Build) -> tuple[str, ...]:
    """List the CUDA and cuDNN that neither wheels nor the system provide, by version.

    File names bear the major version: a toolkit or a cuDNN of another major does not serve it.
    """
    extra = build.row.gpu_extra if build.row else None
    is_read = context.python.distributions.value is not None
    is_open = isinstance(build.libraries, Unknown) and is_read
    if not extra or not is_open or has_cuda_wheels(context, build):
        return ()
    cuda, cudnn = (major(fact.value) for fact in (build.cuda, build.cudnn))
    toolkits = [
        context.need(item.version, f"version of {item.root}") for item in system_toolkits(context)
    ]
    lacking = []
    if cuda and not any(major(version) == cuda for version in toolkits):
        lacking.append(f"CUDA {cuda}")
    if not cudnn or (lacking and isinstance(context.facts.cudnn, Unknown)):
        return tuple(lacking)
    copies = context.need(context.facts.cudnn, "cudnn") or ()
    versions = [installed_version(item).value for item in copies if item.origin != "wheels"]
    if not any(version is None or major(version) == cudnn for version in versions):
        lacking.append(f"cuDNN {cudnn}")
    return tuple(lacking)


def _missing_libraries(
    context: Context, build: Build, row: FrameworkRelease, reason: str, *seen: Seen
) -> Finding:
    working = None
    if not driver_runs(context, build.cuda.value):
        working = best_gpu_row(context, build.framework, build.version)
    requirement = gpu_requirement(context, working or row)
    return context.report(
        f"{build.label} is installed without its CUDA libraries: {reason} that {requirement} brings"
        " are not installed.",
        *seen,
        cite(build.label, ", ".join(row.cuda_wheels[:3]), build),
        cure=InstallCudaLibraries(
            build.framework, (requirement,), index_url(build.framework, build.local)
        ),
    )


def _target_without_extra(
    context: Context, framework: JudgedFramework, build: Build, row: FrameworkRelease
) -> Iterator[Finding]:
    extra = row.gpu_extra
    if not extra or set(framework.extras) & set(row.extras):
        return
    if build.distribution != (build.traits.main or build.distribution):
        return
    best = best_gpu_row(context, build.framework, build.version)
    requirement = f"{build.distribution}[{extra}]=={build.version}"
    if best:
        requirement = gpu_requirement(context, best)
    yield context.report(
        f"{build.label} alone comes without its CUDA libraries; its extra {extra} installs them.",
        ("python.distributions", "requested with --for, not installed"),
        cite(build.label, f"extra {extra}", build),
        severity=WARNING,
        cure=InstallCudaLibraries(framework.name, (requirement,)),
    )


def _lacks_wheel(context: Context, build: Build, item: LibraryLookup) -> bool:
    """Return whether the wheel of a library is not installed.

    The one the release asks for, where that is known.
    """
    stem = _load_data().wheel_of(item.soname)
    if not stem or build.release is None:
        return False
    names = {
        name
        for name in map(name_of, build.release.cuda_wheels)
        if re.fullmatch(rf"{stem}(-cu\d+)?", name)
    }
    installed = context.need(context.python.distributions, "python.distributions") or ()
    if names and not build.local:
        return names.isdisjoint(item.name for item in installed)
    return not any(re.fullmatch(rf"{stem}(-cu\d+)?", item.name) for item in installed)


@rule("cuda-wheel-not-found")
def cuda_wheel_not_found(context: Context) -> Iterator[Finding]:
    """Find installed CUDA wheels that the framework's search path does not lead to."""
    for build in judged_builds(context):
        hidden = list(filter(_in_wheels, unfound_libraries(build)))
        activated = [item for item in build.lookups if item.mandatory and item.via == "activation"]
        if hidden:
            yield _hidden_wheels(context, build, hidden)
        elif activated:
            names = ", ".join(item.soname for item in activated[:4])
            yield context.report(
                f"{build.label} finds {names} only while its environment is activated: the"
                " activation puts the wheels' folders on the loader's path. A program started"
                " without it finds no GPU.",
                *_show_libraries(activated, "found once activated"),
                *_row_evidence(build),
                verdict=COMPATIBLE,
                severity=WARNING,
                cure=StartActivated(),
            )
    if context.environment.get("LD_LIBRARY_PATH"):
        return  # it may lead to them

    def is_open(build: Build) -> bool:
        return isinstance(build.libraries, Unknown) and not is_served_by_system(context, build)

    yield from problem_findings(context, "cuda-wheel-not-found", is_open)


def _in_wheels(item: LibraryLookup) -> list[str]:
    return [path for path in item.elsewhere if re.search(_IN_WHEEL, path)]


def _hidden_wheels(context: Context, build: Build, hidden: list[LibraryLookup]) -> Finding:
    copies = [path for item in hidden for path in _in_wheels(item)]
    folders = [posixpath.dirname(path) for path in copies]
    problem_finding = next(
        problem_findings(context, "cuda-wheel-not-found", lambda other: other is build), None
    )
    requirement, citations = "", _row_evidence(build)
    if problem_finding:
        row = best_gpu_row(context, build.framework, build.version)
        requirement = gpu_requirement(context, row) if row else ""
        citations = tuple(item for item in problem_finding.evidence if item.citation)
    return context.report(
        f"{build.label} does not find {', '.join(item.soname for item in hidden[:4])}, although the"
        " wheels that hold them are installed:"
        f" its own search path (RUNPATH) does not lead to {copies[0]}.",
        *(
            show_fact(f"library {item.soname}", item.found, f"not found; is at {item.elsewhere[0]}")
            for item in hidden[:3]
        ),
        *citations,
        severity=weigh(hidden),
        cure=_expose(build, [_in_wheels(item)[0] for item in hidden], folders, requirement),
    )


def _expose(
    build: Build, copies: list[str], folders: list[str], requirement: str
) -> ExposeCudaWheels:
    """Name the folders of hidden libraries, and one on the RUNPATH to link them into.

    That folder is as deep as theirs, because libraries look for others relative to their own
    folder.
    """
    lookups = (item for item in build.lookups if item.via == "runpath")
    found = (item.found.value or "" for item in lookups)
    depths = {path.count("/") for path in copies}
    reached = next(
        (path for path in found if re.search(_IN_WHEEL, path) and {path.count("/")} == depths), ""
    )
    links = tuple(copies) if reached else ()
    return ExposeCudaWheels(
        tuple(dict.fromkeys(folders)), links, posixpath.dirname(reached), requirement
    )


def _row_evidence(build: Build) -> tuple[Evidence, ...]:
    if build.release is None:
        return ()
    reaches = "reaches" if build.release.finds_cuda_wheels else "does not reach"
    return (cite(build.label, f"its RUNPATH {reaches} the wheels", build.release),)


_SEPARATE = Advise("Use separate environments for frameworks that need different CUDA majors.")


@rule("cuda-wheel-conflict", goal="any", installs=True)
def cuda_wheel_conflict(context: Context) -> Iterator[Finding]:
    """Find CUDA wheels that overwrite each other or that are not the versions a framework pins."""
    for stem in wheels_in_one_folder() if context.goal == "gpu" else ():
        rivals = _list_rivals(context, stem)
        if len(rivals) > 1:
            yield _report_overwritten(context, stem, rivals)
    yield from _requested_conflict(context)
    yield from pin_findings(context, "cuda-wheel-conflict")


def _requested_conflict(context: Context) -> Iterator[Finding]:
    """Find requested frameworks whose CUDA wheels cannot lie in one environment."""
    pins = [
        (build, wheel)
        for framework in judged_frameworks(context)
        for build, wheel in _requested_wheels(framework)
    ]
    for number, (build, first) in enumerate(pins):
        for other, second in pins[number + 1 :]:
            if other.framework != build.framework and is_wheel_clash(first, second):
                yield context.report(
                    f"{build.label} requires {first} and {other.label} {second}: one environment"
                    " cannot hold both.",
                    cite(build.label, first, build),
                    cite(other.label, second, other),
                    cure=_SEPARATE,
                )
                return


def _requested_wheels(framework: JudgedFramework) -> Iterator[tuple[Build, str]]:
    """Pair each requested build with the CUDA wheels that it brings.

    By its extra where it has one.
    """
    for build in framework.builds:
        row = build.release
        if (
            build.installed
            or row is None
            or not (build.traits.cuda.brings_libraries or framework.extras)
        ):
            continue
        is_part = bool(build.traits.main) and not build.traits.is_plugin(build.distribution)
        by_label = (
            f"{stem}-{build.local[:4]}"
            for stem in wheels_in_one_folder()
            if build.local.startswith("cu")
        )
        wheels = by_label if build.local else row.cuda_wheels
        for wheel in wheels:
            if not is_part and name_of(wheel).startswith("nvidia-"):
                yield (build, wheel)


def is_wheel_clash(first: str, second: str) -> bool:
    """Return whether two requirements ask for one folder in two CUDA majors or versions."""
    names = name_of(first), name_of(second)
    if names[0] != names[1]:
        stem = split_cuda_suffix(names[0])[0]
        return stem in wheels_in_one_folder() and stem == split_cuda_suffix(names[1])[0]
    bounds = (text[len(names[0]) :] for text in (first, second))
    return not can_be_met(",".join(filter(None, bounds)))


def _list_rivals(context: Context, stem: str) -> list[Distribution]:
    """List the wheels of one library for several CUDA majors.

    Empty placeholders (0.0.x) and other sonames aside.
    """
    start = f"{stem}-cu"
    copies = [
        item
        for name, item in context.distributions.items()
        if name.startswith(start) and name[len(start) :].isdecimal()
    ]
    real = [item for item in copies if any(numbers(item.version)[:2])]
    majors = {major(item.version) for item in real}
    return real if stem != "nvidia-cudnn" or len(majors) == 1 else []


def _report_overwritten(context: Context, stem: str, rivals: list[Distribution]) -> Finding:
    labels = " and ".join(item.label for item in rivals)
    folder = "nvidia/" + stem.partition("-")[2]
    frameworks = (name for name in context.distributions if context.matrix.framework_of(name))
    lines = (line for name in frameworks for line in context.distributions[name].requires)
    needed = set(map(name_of, lines))
    required = [item for item in rivals if item.name in needed]
    keep = required or [rivals[-1]]
    removed = tuple(item.name for item in rivals if item not in keep)
    cure: Fix = ReplaceCudaWheels(removed, (f"{keep[0].name}=={keep[0].version}",))
    if len(required) > 1:
        cure = _SEPARATE
    names = {item.name for item in rivals}
    owned = context.python.duplicate_owners.value or {}
    shared = next((path for path, owners in owned.items() if names & set(owners)), "")
    return context.report(
        f"{labels} are both installed and share the folder {folder}: each overwrote files of the"
        " other, so one framework gets the library of another CUDA major.",
        ("python.distributions", labels),
        *context.show_owners(shared),
        Evidence("cuda wheels", folder, citation=wheels_citation()),
        cure=cure,
    )


@rule("glibc-too-old", goal="any", installs=True)
def cuda_wheels_need_glibc(context: Context) -> Iterator[Finding]:
    """Find requested builds whose CUDA wheels exist for a newer C library only."""
    version = re.match(r"\d+\.\d+", context.host.libc_version.value or "")
    if not version or context.os != "linux":
        return
    for build in judged_builds(context):
        row = build.release
        # without its extra it brings none on the CPU
        is_left_out = row and row.gpu_extra and context.goal == "cpu"
        if row and not (build.installed or build.local or is_left_out):
            yield from _newer_glibc(context, build, row, version[0])


def _newer_glibc(
    context: Context, build: Build, row: FrameworkRelease, glibc: str
) -> Iterator[Finding]:
    data = _load_data().wheel_glibc
    for floor in data.rows:
        wheel = next((item for item in row.cuda_wheels if name_of(item) == floor.wheel), "")
        lowest = re.search(r"[>=]=(\d+(?:\.\d+)*)", wheel)
        if (
            lowest
            and numbers(lowest[1]) >= numbers(floor.first)
            and numbers(glibc) < numbers(floor.glibc)
        ):
            yield context.report(
                f"{build.label} asks for {wheel}, whose wheels need glibc {floor.glibc} or newer;"
                f" this system has glibc {glibc}.",
                "host.libc_version",
                Evidence("CUDA wheels", f"{wheel}: glibc {floor.glibc}", citation=data.citation),
                cure=UseNewerGlibc(floor.glibc),
            )
            return

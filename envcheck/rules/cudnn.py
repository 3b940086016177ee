"""Whether the cuDNN that a build loads is there, and is the one that it was built for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from packaging.version import Version

from envcheck.model import (
    AT_RUN,
    ERROR,
    WARNING,
    Absent,
    Advise,
    CudnnRelease,
    Evidence,
    Fact,
    Finding,
    Known,
    LibraryInstall,
    LibraryLookup,
    Unknown,
    dataclass,
    from_file,
    is_older,
    major,
    numbers,
)
from envcheck.model.fixes import BoundCudnn, InstallCudnn, InstallOlderCudnn, RemoveFromLibraryPath
from envcheck.model.versions import name_of, within
from envcheck.rules.builds import Build, brings_cuda, built_with
from envcheck.rules.context import (
    Context,
    UndecidedError,
    cite,
    describe,
    each,
    once,
    rule,
    show_fact,
    source_of,
)
from envcheck.rules.gpu_releases import JudgedGpu, judged_gpus
from envcheck.rules.targets import cuda_builds, judged_builds
from envcheck.rules.toolkit import (
    cudnn_lookup,
    in_environment,
    is_own,
    library_name,
    needed_by_cudnn,
    relies_on_system,
    weigh,
)

OLDER = "cudnn-too-old"
DROPPED = "cudnn-too-new"
OTHER_CUDA = "cudnn-wrong-cuda-build"
OTHER_MAJOR = "cudnn-wrong-major"


@dataclass
class Copy:
    """One cuDNN: its path, its version, the CUDA major that it was built for ("" unknown)."""

    path: str
    version: Fact[str]
    cuda_major: str = ""
    via: str = ""

    @property
    def evidence(self) -> Evidence:
        """Return the path and version of the copy, with the source of the version."""
        return show_fact(f"cuDNN in {self.path}", self.version)


def loaded_copy(context: Context, lookup: LibraryLookup) -> Copy | None:
    """Describe the cuDNN the loader finds for a build; None when it finds none."""
    path = context.need(lookup.found, f"where the loader finds {lookup.soname}")
    if path is None:
        return None
    install = _install_at(context, path)
    readings, cuda_major = [lookup.version], ""
    if install:
        readings.append(installed_version(install))
        cuda_major = install.cuda_major.value or ""
    if in_environment(path) and "/nvidia/cudnn/" in path:
        for wheel in wheel_copies(context):
            readings.append(wheel.version)
            cuda_major = cuda_major or wheel.cuda_major
    version = next(filter(_tells_minor, readings), lookup.version)
    return Copy(path, version, cuda_major, lookup.via)


def system_copies(context: Context) -> tuple[Copy, ...]:
    """List the copies outside Python packages whose library is there."""
    installs = context.need(context.facts.cudnn, "cudnn") or ()
    return tuple(
        Copy(
            item.library_path.value or item.root,
            installed_version(item),
            item.cuda_major.value or "",
        )
        for item in installs
        if item.origin != "wheels" and not isinstance(installed_version(item), Absent)
    )


def installed_version(install: LibraryInstall) -> Fact[str]:
    """Choose the most precise reading of a copy's version; absent when its library is not there."""
    if isinstance(install.library_path, Absent):
        return install.library_path
    readings = (install.library_version, install.package_version, install.header_version)
    versions = [fact for fact in readings if isinstance(fact, Known)]
    # A name such as libcudnn.so.9 states only the major; the package or the header may state more.
    return max(
        versions, key=lambda fact: min(len(numbers(fact.value)), 2), default=install.library_version
    )


def wheel_copies(context: Context) -> tuple[Copy, ...]:
    """Describe the cuDNN wheel of the inspected environment, if one is installed."""
    for name, item in context.distributions.items():
        if name.startswith("nvidia-cudnn-cu"):
            version = from_file(item.version, f"metadata of {name}", item.version)
            path = f"{item.location or 'site-packages'}/nvidia/cudnn/lib"
            return (Copy(path, version, name.rpartition("-cu")[2]),)
    return ()


def fault_of(context: Context, build: Build, copy: Copy) -> str:
    """Name what is wrong with a copy for a build by finding id; "" when nothing is."""
    cuda, version = build.cuda.value, copy.version.value
    expected = built_with(build)
    fault = version_fault(version, expected) if expected and version else ""
    if fault == OTHER_MAJOR:
        return fault
    if (
        cuda
        and copy.cuda_major
        and not in_environment(copy.path)
        and numbers(copy.cuda_major) != numbers(cuda)[:1]
    ):
        return OTHER_CUDA
    return fault or (DROPPED if version and dropped_gpus(context, version) else "")


def version_fault(version: str, expected: str) -> str:
    """Name what is wrong with a cuDNN for a build by its release alone; "" when nothing is."""
    if numbers(version)[:1] != numbers(expected)[:1]:
        return OTHER_MAJOR
    return OLDER if is_older(version, expected) else ""


def dropped_gpus(context: Context, version: str) -> tuple[JudgedGpu, ...]:
    """List the GPUs older than a cuDNN release serves.

    None where the release or the GPUs are not known.
    """
    row = context.matrix.cudnn(version)
    if row is None or row.compute_capability_min is None or not context.gpus:
        return ()
    lowest = numbers(row.compute_capability_min)
    return tuple(item for item in judged_gpus(context) if numbers(item.capability) < lowest)


def foreign_needs(build: Build) -> tuple[LibraryLookup, ...]:
    """List what the loaded cuDNN itself needs of CUDA and the loader finds nowhere."""
    return tuple(
        item
        for item in build.lookups
        if needed_by_cudnn(item)
        and library_name(item.soname) != "cudnn"
        and isinstance(item.found, Absent)
        and not item.elsewhere
    )


def _install_at(context: Context, path: str) -> LibraryInstall | None:
    folder = path.rsplit("/", 1)[0]
    for item in context.facts.cudnn.value or ():
        if (item.library_path.value or "").rsplit("/", 1)[0] == folder:
            return item
    return None


def _tells_minor(fact: Fact[str]) -> bool:
    return fact.value is not None and len(numbers(fact.value)) > 1


MISSING = "cudnn-missing"
SHADOWED = "cudnn-shadowed"


@rule(MISSING, OTHER_MAJOR, OLDER, DROPPED, OTHER_CUDA, SHADOWED)
def loaded_cudnn(context: Context) -> Iterator[Finding]:
    """Judge the cuDNN that each build loads.

    Whether it is there, fits the build, and is the right one of several.
    """
    yield from each(cuda_builds(context), lambda build: _judge(context, build))


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
        copies = system_copies(context)
        yield _none_fits(context, build, copies, lookup.soname, weigh([lookup]))


def _by_versions(context: Context, build: Build) -> Iterator[Finding]:
    """Judge by versions, for a machine of which only those are known."""
    expected = built_with(build)
    if brings_cuda(build) and not is_served_by_system(context, build):
        # Another major has another soname, so the loader ignores it.
        preferred = [copy for copy in _known_copies(context) if _on_library_path(context, copy)]
        loadable = [
            copy for copy in (*preferred, *wheel_copies(context)) if _may_be_loaded(copy, expected)
        ]
        if build.installed and loadable:
            yield from _judge_copy(context, build, loadable[0])
        return
    copies = system_copies(context)
    matches = [copy for copy in copies if _may_be_loaded(copy, expected)]
    for copy in matches if expected and not _has_toolkit_of(context, build) else ():
        if not _tells_minor(copy.version):
            open_minor = Unknown(
                "failed", f"only the major version of the cuDNN in {copy.path} is known"
            )
            raise UndecidedError("cudnn", open_minor)
    if not matches and expected is not None:
        yield _none_fits(
            context, build, copies, context.matrix.cudnn_soname(expected) or f"cuDNN {expected}"
        )
    elif matches and all(fault_of(context, build, copy) for copy in matches):
        yield from _judge_copy(context, build, matches[0])


def is_served_by_system(context: Context, build: Build) -> bool:
    """Return whether a build loads the system's CUDA and cuDNN, having no wheels."""
    wheels = build.row.cuda_wheels if build.row else ()
    has_wheels = build.libraries != AT_RUN or any(
        name_of(wheel) in context.distributions for wheel in wheels
    )
    if build.row is None or not wheels or (build.row.finds_cuda_wheels and has_wheels):
        return False
    cuda, cudnn = (major(fact.value) for fact in (build.cuda, build.cudnn))
    toolkits = [item for item in context.installs if item.origin != "wheels"]
    has_cuda = any(major(item.version.value) == cuda for item in toolkits)
    return has_cuda and any(major(copy.version.value) == cudnn for copy in _known_copies(context))


def _has_toolkit_of(context: Context, build: Build) -> bool:
    """Return whether a toolkit is as new as the build.

    The cuDNN beside it, of the same major, is as well.
    """
    cuda = build.cuda.value or ""
    versions = [item.version.value for item in context.installs]
    return any(version and not is_older(version, cuda) for version in versions)


def _may_be_loaded(copy: Copy, expected: str | None) -> bool:
    found = numbers(copy.version.value)[:1]
    return not expected or found in (numbers(expected)[:1], ())


def _known_copies(context: Context) -> tuple[Copy, ...]:
    if context.facts.cudnn.value:
        return system_copies(context)
    return ()


def _judge_copy(context: Context, build: Build, copy: Copy) -> Iterator[Finding]:
    """Judge the copy a build loads."""
    is_first = (
        brings_cuda(build) and not is_own(context, copy.path) and _on_library_path(context, copy)
    )
    if built_with(build) is not None:
        context.need(copy.version, f"version of the cuDNN in {copy.path}")
    fault = fault_of(context, build, copy) or (OTHER_CUDA if foreign_needs(build) else "")
    if fault:
        right = _right_copy(context, build, copy) or ("the build's own" if is_first else "")
        if right:
            yield _report_shadowed(context, build, copy, right, ERROR)
        else:
            yield _report_fault(context, build, copy, fault)
    elif is_first and built_with(build) is None:
        yield _report_shadowed(context, build, copy, "the build's own", WARNING)
    else:
        yield from _doubt_unlisted(context, build, copy)


def _right_copy(context: Context, build: Build, loaded_file: Copy) -> str:
    if "/" not in loaded_file.path and "\\" not in loaded_file.path:
        return ""  # only its name is known: it may be any of them
    wheels = () if in_environment(loaded_file.path) else wheel_copies(context)
    for copy in (*wheels, *_known_copies(context)):
        is_other = copy.path != loaded_file.path
        if is_other and copy.version.value and not fault_of(context, build, copy):
            return f"{copy.version.value} in {copy.path}"
    return ""


def _doubt_unlisted(context: Context, build: Build, copy: Copy) -> Iterator[Finding]:
    """Doubt a cuDNN newer than the one built with that the matrix does not list."""
    version, expected = copy.version.value, built_with(build)
    if (
        version
        and expected
        and is_older(expected, version)
        and context.matrix.cudnn(version) is None
    ):
        subject = f"cuDNN {version}, which {build.label} loads,"
        yield context.report_unlisted(
            subject, "whether it still supports these GPUs", copy.evidence
        )


def _none_fits(
    context: Context, build: Build, copies: tuple[Copy, ...], soname: str, severity: str = ""
) -> Finding:
    expected = built_with(build)
    cure = InstallCudnn(build.framework, build.distribution)
    alternatives = [copy for copy in copies if copy.version.value]
    if alternatives:
        versions = " and ".join(dict.fromkeys(describe(copy.version) for copy in alternatives))
        return context.report(
            f"{build.label} loads {soname} (built with cuDNN {expected});"
            f" this machine has cuDNN {versions}.",
            *(copy.evidence for copy in alternatives),
            *_cite_build(build),
            finding_id=OTHER_MAJOR,
            severity=severity,
            cure=cure,
        )
    return context.report(
        f"{build.label} loads {soname}, but this machine has no cuDNN that it can load.",
        "cudnn",
        *_cite_build(build),
        finding_id=MISSING,
        severity=severity,
        cure=cure,
    )


def _report_fault(context: Context, build: Build, copy: Copy, fault: str) -> Finding:
    expected, version = built_with(build), describe(copy.version)
    if fault == DROPPED:
        return _report_dropped(context, build, copy, str(copy.version.value))
    verb = "was compiled with" if fault == OLDER else "loads another major:"
    message = f"{build.label} {verb} cuDNN {expected} and would load {version} from {copy.path}."
    missing: tuple[LibraryLookup, ...] = ()
    if fault == OTHER_CUDA:
        missing, cuda = foreign_needs(build), build.cuda.value
        need = f" and needs {missing[0].soname}, which is not on this machine" if missing else ""
        message = (
            f"cuDNN {version} in {copy.path} was built for CUDA"
            f" {copy.cuda_major or 'of another major version'}{need};"
            f" {build.label} uses {f'CUDA {cuda}' if cuda else 'another CUDA'}."
        )
    return context.report(
        message,
        copy.evidence,
        *(Evidence(f"{item.soname} for cuDNN", "not found") for item in missing),
        *_cite_build(build),
        finding_id=fault,
        cure=InstallCudnn(build.framework, build.distribution),
    )


def _report_dropped(context: Context, build: Build, copy: Copy, version: str) -> Finding:
    row, gpus = context.matrix.cudnn(version), dropped_gpus(context, version)
    lowest = row.compute_capability_min if row else None
    names = " and ".join(dict.fromkeys(f"{item.name} ({item.capability})" for item in gpus))
    return context.report(
        f"{build.label} loads cuDNN {version}, which supports GPUs from compute capability {lowest}"
        f" on; this machine has {names}.",
        copy.evidence,
        ("gpus", names),
        cite(f"cuDNN {version}", f"from {lowest} on", row),
        finding_id=DROPPED,
        severity=ERROR if len(gpus) == len(context.gpus) else WARNING,
        cure=InstallOlderCudnn(build.framework, build.distribution, version, gpus[0].capability),
    )


def _report_shadowed(
    context: Context, build: Build, copy: Copy, right: str, severity: str
) -> Finding:
    expected = built_with(build)
    origin = f", built with cuDNN {expected}," if expected else ""
    path_variable = f" ({copy.via})" if copy.via else ""
    folder = copy.path.rpartition("/lib")[0] or copy.path
    return context.report(
        f"{build.label}{origin} loads cuDNN {describe(copy.version)} from"
        f" {copy.path}{path_variable} ahead of {right}.",
        copy.evidence,
        *_cite_build(build),
        finding_id=SHADOWED,
        severity=severity,
        cure=RemoveFromLibraryPath((folder,)),
    )


def _on_library_path(context: Context, copy: Copy) -> bool:
    if copy.via:
        return copy.via == "LD_LIBRARY_PATH"
    folders = list(filter(None, context.environment.get("LD_LIBRARY_PATH", "").split(":")))
    return any(
        folder.startswith("/") and (folder + "/").startswith(copy.path.rstrip("/") + "/")
        for folder in folders
    ) or (copy.path.rsplit("/", 1)[0] in folders)


def _cite_build(build: Build) -> tuple[Evidence, ...]:
    expected = built_with(build)
    row = build.release.cudnn if build.release else None
    if not expected:
        return ()
    cited = build if row == expected else None
    return (cite(build.label, f"built with cuDNN {expected}", cited, source_of(build.cudnn)),)


@rule("cudnn-shadowed", severity=WARNING)
def cudnn_header_of_another(context: Context) -> Iterator[Finding]:
    """Find a header of another cuDNN than the library beside it.

    One overwrote the other.
    """
    if not any(map(relies_on_system, cuda_builds(context))):
        return
    for copy in context.facts.cudnn.value or ():
        header, library = copy.header_version, copy.library_version
        if (
            copy.origin == "wheels"
            or not isinstance(header, Known)
            or not isinstance(library, Known)
        ):
            continue
        parts = min(len(numbers(header.value)), len(numbers(library.value)), 2)
        if numbers(header.value)[:parts] == numbers(library.value)[:parts]:
            continue
        yield context.report(
            f"In {copy.root} the cuDNN header is {header.value} but the library is {library.value}:"
            " code compiled there loads another cuDNN than it expects.",
            show_fact("cuDNN header", header),
            show_fact("cuDNN library", library),
            cure=Advise(
                f"Install header and library of one cuDNN release in {copy.root}, and remove the"
                " other."
            ),
        )


_CUDNN_WHEEL = re.compile(r"(nvidia-cudnn-cu(\d+))([<>=!~].*)?")
_MINORS = 100  # more than any major of cuDNN has had


@rule(DROPPED, severity=WARNING)
def requested_cudnn(context: Context) -> Iterator[Finding]:
    """Find requested builds that admit a cuDNN too new for a GPU.

    pip takes the newest.
    """
    for build in judged_builds(context):
        row = build.release
        for name, bound in (
            list_cudnn_caps(context, row.cuda_wheels) if row and not build.installed else ()
        ):
            first = bound.removeprefix("<")
            line = context.matrix.cudnn(first, name.rpartition("-cu")[2])
            lowest = numbers(line.compute_capability_min if line else None)
            dropped = (
                item.name for item in judged_gpus(context) if numbers(item.capability) < lowest
            )
            names = " and ".join(dict.fromkeys(dropped))
            yield context.report(
                f"{build.label} admits cuDNN {first} and newer, which do not support {names}.",
                ("gpus", names),
                cite(f"cuDNN {first}", f"does not support {names}", line),
                cure=BoundCudnn(build.framework, f"{name}{bound}"),
            )
            break


def list_cudnn_caps(context: Context, wheels: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Pair each cuDNN wheel with the bound that keeps a GPU: ("nvidia-cudnn-cu12", "<9.11")."""
    matches = (_CUDNN_WHEEL.fullmatch(wheel) for wheel in wheels if "==" not in wheel)
    caps = ((match[1], cudnn_cap(context, match[2], match[3] or "")) for match in matches if match)
    return tuple((name, cap) for name, cap in caps if cap)


@once
def cudnn_cap(context: Context, cuda_major: str, specifier: str) -> str:
    """Return "<9.11" where cuDNN 9.11 dropped a GPU and the specifier admits it, or ""."""
    try:
        capabilities = [Version(item.capability) for item in judged_gpus(context)]
    except UndecidedError:
        return ""  # which GPUs there are could not be told: the judgement says so
    # the first line that is asked for may serve none of them any more: no bound helps
    leaves_some = False
    for row in _cudnn_lines(context, cuda_major, specifier):
        lowest = row.compute_capability_min
        is_admitted = within(f"{row.version}.9999", specifier)
        if (
            lowest
            and is_admitted
            and any(capability < Version(lowest) for capability in capabilities)
        ):
            return f"<{row.version}" if leaves_some or not specifier else ""
        leaves_some = leaves_some or is_admitted
    return ""


def _cudnn_lines(context: Context, cuda_major: str, specifier: str) -> Iterator[CudnnRelease]:
    """Yield the lines of a specifier's cuDNN major for a CUDA major, oldest first."""
    match = re.search(r">=(\d+)", specifier)
    if match is None:
        return
    for minor in range(_MINORS):
        row = context.matrix.cudnn(f"{match[1]}.{minor}", cuda_major)
        if row:
            yield row

"""The copies of cuDNN on a machine as one build meets them, and what is wrong with a copy."""

from __future__ import annotations

from envcheck.model import (
    Absent,
    Evidence,
    Fact,
    Known,
    LibraryInstall,
    LibraryLookup,
    Source,
    dataclass,
    get_value,
    is_older,
    numbers,
)
from envcheck.rules.builds import Build
from envcheck.rules.context import Context, describe, source_of
from envcheck.rules.cuda_libraries import in_environment, library_name
from envcheck.rules.gpu_facts import Judged, judged_gpus

OLDER = "cudnn-too-old"
DROPPED = "cudnn-too-new"
OTHER_CUDA = "cudnn-wrong-cuda-build"
OTHER_MAJOR = "cudnn-wrong-major"


@dataclass(frozen=True)
class Copy:
    """One cuDNN: where it lies, its version, the CUDA major it was built for ("" not told)."""

    path: str
    version: Fact[str]
    cuda_major: str = ""
    via: str = ""

    @property
    def evidence(self) -> Evidence:
        """Show the copy with where its version was read."""
        return Evidence(f"cuDNN in {self.path}", describe(self.version), source_of(self.version))


def loaded_copy(context: Context, lookup: LibraryLookup) -> Copy | None:
    """Describe the cuDNN the loader finds for a build; None when it finds none."""
    path = context.need(lookup.found, f"where the loader finds {lookup.soname}")
    if path is None:
        return None
    install = _install_at(context, path)
    wheel = wheel_copy(context) if in_environment(path) and "/nvidia/cudnn/" in path else None
    readings = [lookup.version]
    readings += [installed_version(install)] if install else []
    readings += [wheel.version] if wheel else []
    version = next((fact for fact in readings if _tells_minor(fact)), lookup.version)
    cuda_major = (get_value(install.cuda_major) if install else None) or (wheel.cuda_major if wheel else "")
    return Copy(path, version, cuda_major, lookup.via)


def system_copies(context: Context) -> tuple[Copy, ...]:
    """List the copies outside Python packages whose library is there."""
    found = context.need(context.facts.cudnn, "cudnn") or ()
    return tuple(
        Copy(get_value(item.library_path) or item.root, installed_version(item), get_value(item.cuda_major) or "")
        for item in found
        if item.origin != "wheels" and not isinstance(installed_version(item), Absent)
    )


def installed_version(install: LibraryInstall) -> Fact[str]:
    """Choose the reading that tells most of a copy's version; absent when its library is not there."""
    if isinstance(install.library_path, Absent):
        return install.library_path
    readings = (install.library_version, install.package_version, install.header_version)
    known = [fact for fact in readings if isinstance(fact, Known)]
    # A name such as libcudnn.so.9 tells the major only: then the package or the header says more.
    return max(known, key=lambda fact: min(len(numbers(fact.value)), 2), default=install.library_version)


def wheel_copy(context: Context) -> Copy | None:
    """Describe the cuDNN wheel of the inspected environment, if one is installed."""
    for name, item in context.distributions.items():
        if name.startswith("nvidia-cudnn-cu"):
            version = Known(item.version, Source("file", f"metadata of {name}", item.version))
            return Copy(f"{item.location or 'site-packages'}/nvidia/cudnn/lib", version, name.rpartition("-cu")[2])
    return None


def built_with(build: Build) -> str | None:
    """Return the cuDNN a build was made with; its files often name the major only, its matrix row the minor."""
    told, row = get_value(build.cudnn), build.row.cudnn if build.row else None
    if row and (told is None or (len(numbers(told)) == 1 and numbers(row)[:1] == numbers(told))):
        return row
    return told


def fault_of(context: Context, build: Build, copy: Copy) -> str:
    """Name what is wrong with a copy for a build by finding id; "" when nothing is."""
    cuda, version = get_value(build.cuda), get_value(copy.version)
    needed = built_with(build)
    if needed and version and numbers(version)[:1] != numbers(needed)[:1]:
        return OTHER_MAJOR
    if cuda and copy.cuda_major and not in_environment(copy.path) and numbers(copy.cuda_major) != numbers(cuda)[:1]:
        return OTHER_CUDA
    if needed and version and is_older(version, needed):
        return OLDER
    return DROPPED if version and dropped_gpus(context, version) else ""


def dropped_gpus(context: Context, version: str) -> tuple[Judged, ...]:
    """List the GPUs older than a cuDNN release serves; none where the release or the GPUs are not known."""
    row = context.matrix.cudnn(version)
    if row is None or row.compute_capability_min is None or not isinstance(context.facts.gpus, Known):
        return ()
    lowest = numbers(row.compute_capability_min)
    return tuple(item for item in judged_gpus(context) if numbers(item.capability) < lowest)


def foreign_needs(build: Build) -> tuple[LibraryLookup, ...]:
    """List what the loaded cuDNN itself needs of CUDA and the loader finds nowhere."""
    lookups = build.libraries.value if isinstance(build.libraries, Known) else ()
    needed = (item for item in lookups if needed_by_cudnn(item) and library_name(item.soname) != "cudnn")
    return tuple(item for item in needed if isinstance(item.found, Absent) and not item.elsewhere)


def needed_by_cudnn(item: LibraryLookup) -> bool:
    """Tell whether a library is asked for by cuDNN and not by the build."""
    return item.needed_by.rsplit("/", 1)[-1].startswith("libcudnn")


def _install_at(context: Context, path: str) -> LibraryInstall | None:
    folder = path.rsplit("/", 1)[0]
    for item in get_value(context.facts.cudnn) or ():
        if (get_value(item.library_path) or "").rsplit("/", 1)[0] == folder:
            return item
    return None


def _tells_minor(fact: Fact[str]) -> bool:
    return isinstance(fact, Known) and len(numbers(fact.value)) > 1

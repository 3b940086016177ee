"""CUDA Toolkits and cuDNN: what a build loads of them, the paths, and what compiles for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from packaging.version import Version

from envcheck.host.data_files import load_data
from envcheck.model import (
    AT_RUN,
    ERROR,
    NOTE,
    WARNING,
    Absent,
    Advise,
    Citation,
    CudnnRelease,
    Evidence,
    Fact,
    Finding,
    Fix,
    Known,
    LibraryInstall,
    LibraryLookup,
    Toolkit,
    ToolkitInstall,
    Unknown,
    dataclass,
    from_file,
    is_older,
    major,
    major_minor,
    numbers,
)
from envcheck.model.fixes import (
    AddToLibraryPath,
    BoundCudnn,
    BuildWithToolkit,
    ChangeVariable,
    CompileForGpu,
    InstallCudnn,
    InstallLibdevice,
    InstallNvcc,
    InstallOlderCudnn,
    InstallTensorrt,
    InstallToolkit,
    InstallVisualStudio,
    NameLibdevice,
    RemoveFromLibraryPath,
    UseInstalledToolkit,
    UseNewerPtxas,
    UseOtherCompiler,
)
from envcheck.model.text import find_group
from envcheck.model.versions import name_of, within
from envcheck.rules.builds import (
    Build,
    brings_cuda,
    built_with,
    cuda_builds,
    installed_builds,
    is_from_conda,
    judged_builds,
    wanted_releases,
)
from envcheck.rules.catalogue import BUILD
from envcheck.rules.context import (
    Context,
    SourceBuild,
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

# The parts of a CUDA Toolkit that every CUDA build loads, and those that only some do.
_CUDA = ("cudart", "cublas", "cublasLt", "cufft", "curand", "cusolver", "cusolverMg", "cusparse")
_SOMETIMES = ("cupti", "nvrtc", "nvJitLink", "nvToolsExt")
_SITE = r"/(?:site|dist)-packages/"


def library_name(soname: str) -> str:
    """Cut a soname to its library: libcublasLt.so.12 -> cublasLt."""
    return find_group(r"^lib(\w+)\.so", soname)


def in_environment(path: str) -> bool:
    """Return whether a file came with a Python package."""
    return re.search(_SITE, path) is not None


def is_own(context: Context, path: str) -> bool:
    """Return whether a file lies in the inspected environment.

    In a package, or below a conda prefix.
    """
    prefix = context.python.prefix.value
    conda = context.python.kind.value == "conda"
    return in_environment(path) or (
        conda and prefix is not None and path.startswith(prefix.rstrip("/") + "/")
    )


def toolkit_lookups(build: Build) -> tuple[LibraryLookup, ...] | None:
    """List what a build loads of a CUDA Toolkit; None when that was not read."""
    if isinstance(build.libraries, Unknown):
        return None
    return tuple(filter(_of_toolkit, build.lookups))


def cudnn_lookup(build: Build) -> LibraryLookup | None:
    """Find the lookup of cuDNN itself among what a build loads, or of the part that it opens."""
    itself = (item for item in build.lookups if library_name(item.soname) == "cudnn")
    return next(itself, None) or next(filter(_is_part, build.lookups), None)


def _is_part(item: LibraryLookup) -> bool:
    return library_name(item.soname).startswith("cudnn_") and "libcudnn" not in item.needed_by


def name_some(lookups: Sequence[LibraryLookup], most: int) -> str:
    """Join the first names of a list: "libcudnn.so.9, libcublas.so.12 and more"."""
    names = ", ".join(item.soname for item in lookups[:most])
    return f"{names} and more" if len(lookups) > most else names


def weigh(missing: Iterable[LibraryLookup]) -> str:
    """Warn where only parts of cuDNN are missing, which many models do without."""
    return WARNING if all(map(_is_part, missing)) else ""


def _of_toolkit(item: LibraryLookup) -> bool:
    if needed_by_cudnn(item):
        return False
    return item.mandatory and library_name(item.soname) in (*_CUDA, *_SOMETIMES)


def needed_by_cudnn(item: LibraryLookup) -> bool:
    """Return whether a library is asked for by cuDNN and not by the build."""
    return item.needed_by.rsplit("/", 1)[-1].startswith("libcudnn")


def unresolved_lookups(
    context: Context, build: Build, lookups: tuple[LibraryLookup, ...]
) -> tuple[LibraryLookup, ...]:
    """List the libraries the loader does not find.

    One that could not be looked up ends the rule.
    """
    places = ((item, f"{build.label}: where the loader finds {item.soname}") for item in lookups)
    return tuple(item for item, name in places if context.need(item.found, name) is None)


def relies_on_system(build: Build) -> bool:
    """Return whether a build takes its CUDA from the system.

    It has no wheels of its own, or uses none of them.
    """
    if not brings_cuda(build):
        return True
    return any(
        item.found.value is not None and not in_environment(item.found.value)
        for item in build.lookups
        if _of_toolkit(item) or library_name(item.soname) == "cudnn"
    ) and not any(in_environment(path) for item in build.lookups for path in item.elsewhere)


def system_toolkits(context: Context) -> tuple[ToolkitInstall, ...]:
    """List the toolkits that are not wheels; raises UndecidedError."""
    installs = context.need(context.toolkits.installs, "toolkits.installs") or ()
    return tuple(item for item in installs if item.origin != "wheels")


def toolkit_holding(context: Context, path: str) -> ToolkitInstall | None:
    """Find the toolkit a file lies in."""
    holding = [item for item in context.installs if path.startswith(item.root.rstrip("/") + "/")]
    return max(holding, key=lambda item: len(item.root), default=None)


def loaded_sonames(context: Context, cuda: str) -> dict[str, str]:
    """Map the libraries every CUDA build loads to their sonames in one toolkit.

    Empty when it is not in the matrix.
    """
    return {
        name: soname for name, soname in context.matrix.cuda_sonames(cuda).items() if name in _CUDA
    }


def built_for_cuda(build: Build) -> tuple[Evidence, ...]:
    """Show which CUDA a build was made for.

    Its matrix row is cited only where it describes this very build.
    """
    cuda = build.cuda.value
    row = build.release.cuda if build.release else None
    if not cuda:
        return ()
    is_same = row is not None and numbers(row)[:2] == numbers(cuda)[:2]
    cited = build if is_same else None
    return (cite(build.label, f"built for CUDA {cuda}", cited, source_of(build.cuda)),)


@rule("toolkit-missing", "toolkit-wrong-version")
def toolkit_missing(context: Context) -> Iterator[Finding]:
    """Find CUDA libraries that a build needs, and no toolkit here or only other ones have."""
    yield from each(cuda_builds(context), lambda build: _missing_libraries(context, build))


def _missing_libraries(context: Context, build: Build) -> Iterator[Finding]:
    lookups = toolkit_lookups(build)
    if lookups is None:
        if not brings_cuda(build):
            yield from _judge_versions(context, build)
        return
    unresolved = unresolved_lookups(context, build, lookups)
    missing = [item.soname for item in unresolved if not item.elsewhere]
    # A build that has wheels of its own and uses the system for nothing lacks those wheels: the
    # rules of the Python layer say so.
    if missing and relies_on_system(build):
        installs = system_toolkits(context)
        is_there = any(
            set(missing) <= set(context.matrix.cuda_sonames(version).values())
            for version in [_need_version(context, item) for item in installs]
            if version
        )
        yield _report_missing(context, build, () if is_there else installs, missing)


def _need_version(context: Context, install: ToolkitInstall) -> str | None:
    return context.need(install.version, f"version of the CUDA Toolkit in {install.root}")


def _judge_versions(context: Context, build: Build) -> Iterator[Finding]:
    """Judge by versions, for a machine of which only those are known."""
    installs = system_toolkits(context)
    if not installs:
        yield _report_missing(context, build, (), ())
        return
    cuda = context.need(build.cuda, f"{build.label}: CUDA version")
    if cuda is None:
        return
    unlisted: list[ToolkitInstall] = []
    for install in installs:
        version = _need_version(context, install)
        serves = _serves(context, cuda, version) if version else False
        if serves:
            return
        if serves is None:
            unlisted.append(install)
    if unlisted:
        yield _report_unlisted(context, build, cuda, unlisted[0])
    else:
        yield _report_missing(context, build, installs, ())


def _serves(context: Context, cuda: str, version: str) -> bool | None:
    """Return whether a toolkit has the libraries a build for `cuda` loads.

    Return None when the matrix cannot tell.
    """
    if numbers(version)[:2] == numbers(cuda)[:2]:
        return True
    if len(numbers(cuda)) == 1:
        return numbers(version)[:1] == numbers(cuda)
    required = loaded_sonames(context, cuda)
    sonames = loaded_sonames(context, version)
    return required == sonames if required and sonames else None


def _report_unlisted(context: Context, build: Build, cuda: str, install: ToolkitInstall) -> Finding:
    version = str(install.version.value)
    if not loaded_sonames(context, cuda):
        subject = f"CUDA {cuda}"
    else:
        subject = f"CUDA Toolkit {version}"
    return context.report_unlisted(
        subject,
        f"whether {build.label} can load what CUDA {version} installs",
        toolkit_evidence(install),
    )


def _report_missing(
    context: Context, build: Build, others: tuple[ToolkitInstall, ...], sonames: Sequence[str]
) -> Finding:
    """Report that only other toolkits are here, or none."""
    cuda, named = build.cuda.value, ", ".join(sonames[:4])
    cure = InstallToolkit(cuda, build.framework, build.distribution) if cuda else None
    if others:
        versions = " and ".join(dict.fromkeys(describe(item.version) for item in others))
        loads = f" and loads {named}" if named else ""
        return context.report(
            f"{build.label} was built for CUDA {cuda or 'of another version'}{loads}; this machine"
            f" has CUDA {versions}.",
            *map(toolkit_evidence, others),
            *built_for_cuda(build),
            finding_id="toolkit-wrong-version",
            cure=cure,
        )
    needs = f"the CUDA {cuda} libraries" if cuda else "CUDA libraries"
    names = f" ({named})" if named else ""
    return context.report(
        f"{build.label} needs {needs} from the system; this machine has none{names}.",
        "toolkits.installs",
        *built_for_cuda(build),
        cure=cure,
    )


_ID = "toolkit-path-conflict"


@rule(_ID)
def toolkit_path_conflict(context: Context) -> Iterator[Finding]:
    """Find copies that the loader does not reach, and toolkits that disagree."""
    for build in cuda_builds(context):
        yield from _find_unreached(context, build)
        yield from _find_shadowed(context, build)
    yield from _home_nowhere(context)
    yield from _mixed_installs(context)
    yield from _two_compilers(context)


def _find_unreached(context: Context, build: Build) -> Iterator[Finding]:
    """Find libraries the loader does not find although a toolkit holds them."""
    lookups = toolkit_lookups(build) or ()
    cudnn = cudnn_lookup(build)
    missing = unresolved_lookups(context, build, (*lookups, *((cudnn,) if cudnn else ())))
    visible = [item for item in missing if any(not in_environment(path) for path in item.elsewhere)]
    if not visible or any(in_environment(path) for item in visible for path in item.elsewhere):
        return  # the wheels are there: why they are not found is for the rules about wheels
    lookup = visible[0]
    folders = tuple(
        dict.fromkeys(path.rpartition("/")[0] for item in visible for path in item.elsewhere[:1])
    )
    yield context.report(
        f"{build.label} loads {name_some(visible, 3)}; the loader does not look in {folders[0]},"
        " where it is.",
        show_fact(
            lookup.soname, lookup.found, f"not found by the loader, but at {lookup.elsewhere[0]}"
        ),
        *built_for_cuda(build),
        severity=weigh(visible),
        cure=AddToLibraryPath(folders),
    )


def _find_shadowed(context: Context, build: Build) -> Iterator[Finding]:
    """Find a toolkit on LD_LIBRARY_PATH that hides the libraries a build brings."""
    if not build.installed or not brings_cuda(build):
        return
    cuda = build.cuda.value
    for install, shown in _toolkits_ahead(context, build):
        version = install.version.value
        if version and cuda and not is_older(version, cuda):
            continue
        toolkit = f"CUDA {version}" if version else "the CUDA Toolkit"
        library = f"CUDA {cuda}" if cuda else "CUDA"
        folders = _list_folders_on_path(context, install.root)
        label = f"{build.distribution} {build.version}"
        yield context.report(
            f"LD_LIBRARY_PATH puts {toolkit} in {install.root} ahead of the {library} libraries"
            f" that {build.label} brings, so the loader mixes the two.",
            shown,
            toolkit_evidence(install),
            *built_for_cuda(build),
            severity=ERROR if version and cuda else WARNING,
            cure=RemoveFromLibraryPath(folders, install.root, label),
        )
        return


def _list_folders_on_path(context: Context, root: str) -> tuple[str, ...]:
    """List the folders of a toolkit that LD_LIBRARY_PATH names."""
    linked = root
    if context.toolkits.usr_local_cuda.value == root:
        linked = "/usr/local/cuda"
    folders = context.environment.get("LD_LIBRARY_PATH", "").split(":")
    return tuple(
        folder for folder in folders if f"{folder}/".startswith((f"{root}/", f"{linked}/"))
    )


def _toolkits_ahead(context: Context, build: Build) -> Iterator[tuple[ToolkitInstall, Evidence]]:
    lookups = toolkit_lookups(build)
    if lookups is None:
        yield from _same_major_on_library_path(context, build)
        return
    for item in lookups:
        path = item.found.value
        if path and _replaces_own(context, item, path):
            install = toolkit_holding(context, path) or ToolkitInstall(
                path.rpartition("/lib")[0], "path"
            )
            yield install, show_fact(item.soname, item.found, f"{path}, found by {item.via}")


def _replaces_own(context: Context, item: LibraryLookup, path: str) -> bool:
    """Return whether a library comes from elsewhere although the build's own copy is there."""
    if is_own(context, path) or item.via not in ("LD_LIBRARY_PATH", "preload"):
        return False
    has_own = any(is_own(context, place) for place in item.elsewhere)
    return has_own or any(name.startswith("nvidia-cuda-runtime") for name in context.distributions)


def _same_major_on_library_path(
    context: Context, build: Build
) -> Iterator[tuple[ToolkitInstall, Evidence]]:
    """Judge by the toolkits on LD_LIBRARY_PATH where the build's own lookups were not read."""
    roots = context.toolkits.roots_on_library_path.value or ()
    cuda = build.cuda.value
    for install in context.installs:
        major = numbers(install.version.value)[:1]
        if install.root in roots and cuda and major in ((), numbers(cuda)[:1]):
            yield install, context.seen("toolkits.roots_on_library_path", shown=install.root)


def _home_nowhere(context: Context) -> Iterator[Finding]:
    facts = context.toolkits
    if isinstance(facts.cuda_home, Known) and isinstance(facts.cuda_home_root, Absent):
        name = facts.cuda_home.source.where
        yield context.report(
            f"{name} names {facts.cuda_home.value}, which does not exist: builds that use it fail.",
            "toolkits.cuda_home",
            severity=WARNING,
            cure=ChangeVariable(name, "the folder of a CUDA Toolkit that is installed"),
        )


def _mixed_installs(context: Context) -> Iterator[Finding]:
    """Find folders whose nvcc and version file name different releases.

    Two toolkits in one place.
    """
    for install in context.installs:
        nvcc, file = install.nvcc_release, install.version_file
        if not isinstance(nvcc, Known) or not isinstance(file, Known):
            continue
        if numbers(nvcc.value)[:2] == numbers(file.value)[:2]:
            continue
        yield context.report(
            f"In {install.root} nvcc reports CUDA {nvcc.value}, the version file {file.value}: two"
            " toolkits are mixed.",
            show_fact(f"nvcc in {install.root}", nvcc),
            show_fact(f"version file in {install.root}", file),
            severity=WARNING,
            cure=Advise(
                "Install one toolkit into its own folder, and point PATH and CUDA_HOME at it."
            ),
        )


def _two_compilers(context: Context) -> Iterator[Finding]:
    """Find builds of CUDA code that take headers of one toolkit and nvcc of another."""
    facts = context.toolkits
    if facts.cuda_home.value:
        yield from _find_disagreements(
            context, facts.cuda_home_root, describe_home(context), WARNING
        )
    else:
        yield from _find_disagreements(context, facts.usr_local_cuda, "/usr/local/cuda", NOTE)


def _find_disagreements(
    context: Context, root: Fact[str], name: str, severity: str
) -> Iterator[Finding]:
    installs = {install.root: install for install in context.installs}
    active = installs.get(root.value or "")
    on_path = installs.get(context.toolkits.root_on_path.value or "")
    if active is None or on_path is None or active is on_path:
        return
    versions = (active.version.value, on_path.version.value)
    if None in versions or versions[0] == versions[1]:
        return
    meant, other = _order_toolkits(context, active, on_path)
    yield context.report(
        f"{name} is CUDA {versions[0]}, but nvcc on PATH is CUDA {versions[1]}{on_path.place}: "
        "CUDA code compiled here may mix them.",
        show_fact(name, root, active.root),
        toolkit_evidence(active),
        toolkit_evidence(on_path),
        severity=severity,
        cure=BuildWithToolkit(meant.root, other.folder),
    )


def _order_toolkits(
    context: Context, active: ToolkitInstall, on_path: ToolkitInstall
) -> tuple[ToolkitInstall, ToolkitInstall]:
    """Put the toolkit first that an installed build is for.

    Else the one of CUDA_HOME, else that of PATH.
    """
    is_set = context.toolkits.cuda_home.value is not None
    order = (active, on_path) if is_set else (on_path, active)
    built = {numbers(build.cuda.value)[:2] for build in cuda_builds(context)}
    is_second = [numbers(item.version.value)[:2] in built for item in order] == [False, True]
    return (order[1], order[0]) if is_second else order


def describe_home(context: Context) -> str:
    """Name the variable that sets the toolkit, with its value."""
    home = context.toolkits.cuda_home
    if isinstance(home, Known):
        return f"{home.source.where}={home.value}"
    return "CUDA_HOME"


def toolkit_evidence(install: ToolkitInstall) -> Evidence:
    """Show a toolkit with its version, and where that was read."""
    return show_fact(install.label, install.version)


_DATA_DIR = "--xla_gpu_cuda_data_dir="


@rule("libdevice-missing", severity=WARNING)
def libdevice_missing(context: Context) -> Iterator[Finding]:
    """Find TensorFlow builds for which XLA finds no libdevice.

    PyTorch needs none, JAX's wheels hold it.
    """
    if isinstance(context.toolkits.installs, Unknown):
        return
    if _DATA_DIR in context.environment.get("XLA_FLAGS", ""):
        return
    if any(name.startswith("nvidia-cuda-nvcc") for name in context.distributions):
        return
    for build in cuda_builds(context):
        if build.installed and build.traits.cuda.needs_libdevice:
            yield from _without_libdevice(context, build)


def _without_libdevice(context: Context, build: Build) -> Iterator[Finding]:
    holding = [item for item in context.installs if item.libdevice_path.value is not None]
    is_unknown = any(isinstance(item.libdevice_path, Unknown) for item in context.installs)
    # its builds look in the prefix they are installed in
    by_conda = is_from_conda(context, build.distribution)
    if any(
        _is_searched(context, item) or (by_conda and item.origin == "conda") for item in holding
    ):
        return
    if is_unknown and not holding:
        return
    cuda = build.cuda.value
    if holding:
        root = holding[0].root
        message = (
            f"XLA in {build.label} does not look for libdevice.10.bc"
            f" in {root}, the only place that has it."
        )
        path = holding[0].libdevice_path.value or ""
        cure: Fix | None = NameLibdevice(root, path)
    else:
        message = (
            f"XLA in {build.label} needs libdevice.10.bc to compile kernels; neither a wheel nor a"
            " toolkit provides it."
        )
        cure = InstallLibdevice(cuda) if cuda else None
    evidence = [
        Evidence(f"libdevice in {item.root}", describe(item.libdevice_path))
        for item in context.installs
    ]
    yield context.report(message, *evidence or ("toolkits.installs",), cure=cure)


def _is_searched(context: Context, install: ToolkitInstall) -> bool:
    """Return whether XLA searches a toolkit by default, such as /usr/local/cuda-X.Y."""
    facts = context.toolkits
    roots = {facts.usr_local_cuda.value, facts.cuda_home_root.value}
    return install.root in roots or install.origin in ("usr-local", "opt")


@rule("ptxas-problem", severity=WARNING)
def ptxas_problem(context: Context) -> Iterator[Finding]:
    """Find a ptxas that XLA would call and that does not know this machine's GPUs."""
    builds = [
        build for build in cuda_builds(context) if build.installed and build.traits.cuda.runs_ptxas
    ]
    install = _ptxas_install(context)
    version = install.version.value if install else None
    if not builds or install is None or version is None or not context.gpus:
        return
    for item in judged_gpus(context):
        if item.first_toolkit and is_older(version, item.first_toolkit):
            first, capability, build = item.first_toolkit, item.capability, builds[0]
            yield context.report(
                f"The ptxas that XLA calls is of CUDA {version}{install.place};"
                f" {item.label} needs one of CUDA {first} or newer.",
                show_fact("ptxas", install.ptxas_path),
                cite(
                    f"compute capability {capability}", f"from CUDA {first} on", item.architecture
                ),
                cure=UseNewerPtxas(first, capability, build.framework, build.distribution),
            )
            return


def _ptxas_install(context: Context) -> ToolkitInstall | None:
    """Find the toolkit whose ptxas XLA calls.

    The wheel's, else the one on PATH, else /usr/local/cuda's.
    """
    with_ptxas = [item for item in context.installs if item.ptxas_path.value]
    on_path = context.toolkits.ptxas_on_path.value
    searched = [
        *(item for item in with_ptxas if item.origin == "wheels"),
        *(item for item in with_ptxas if on_path and item.ptxas_path.value == on_path),
        *(item for item in with_ptxas if item.root == context.toolkits.usr_local_cuda.value),
    ]
    return searched[0] if searched else None


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


NO_CUDNN = "cudnn-missing"
SHADOWED = "cudnn-shadowed"


@rule(NO_CUDNN, OTHER_MAJOR, OLDER, DROPPED, OTHER_CUDA, SHADOWED)
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
        finding_id=NO_CUDNN,
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


TOO_NEW = "host-compiler-too-new"
TOO_OLD = "host-compiler-too-old"
_OVERRIDE = "-allow-unsupported-compiler"


@dataclass
class HostCompiler:
    """The compiler nvcc uses: gcc, clang or msvc, its version, and its path ("" unknown)."""

    kind: str
    version: str
    path: str
    fact: Fact[str]


@rule(TOO_NEW, TOO_OLD, severity=WARNING)
def nvcc_host_compiler(context: Context) -> Iterator[Finding]:
    """Find an nvcc whose host compiler is newer or older than it supports."""
    install, compiler = compiling_toolkit(context), host_compiler(context)
    if install is None or compiler is None:
        return
    cuda = describe(install.version)
    row = context.matrix.toolkit(cuda)
    if row is None:
        yield context.report_unlisted(
            f"CUDA Toolkit {cuda} in {install.root}",
            "whether its nvcc accepts this compiler",
            toolkit_evidence(install),
            severity=NOTE,
        )
        return
    kind, (lowest, highest) = compiler.kind, _find_limits(row, compiler.kind)
    # nvcc's headers compare as many numbers as the limit names: 12.4 is within "12".
    limit = numbers(highest)
    if highest and numbers(compiler.version)[: len(limit)] > limit:
        if _OVERRIDE in _read_flags(context):
            return
        finding_id, accepts = TOO_NEW, f"accepts {kind} up to {highest}"
    elif lowest and numbers(compiler.version) < numbers(lowest):
        finding_id, accepts = TOO_OLD, f"needs {kind} {lowest} or newer"
    else:
        return
    # where it calls clang, a GCC would do as well
    cure: Fix = UseOtherCompiler(
        cuda, row.gcc_max or "", row.gcc_min or "", compiler.version, kind == "clang"
    )
    if kind == "msvc":
        cure = InstallVisualStudio(highest)
    location = f" ({compiler.path})" if compiler.path else ""
    yield context.report(
        f"nvcc of CUDA {cuda}{install.place} {accepts}; it would use {kind}"
        f" {compiler.version}{location}. Only building CUDA extensions needs a compiler; running a"
        " framework does not.",
        show_fact("toolkits.nvcc_host_compiler_version", compiler.fact),
        toolkit_evidence(install),
        cite(f"CUDA Toolkit {cuda}", accepts, row),
        finding_id=finding_id,
        severity=ERROR if context.compiles else WARNING,
        cure=cure,
    )


def compiling_toolkit(context: Context) -> ToolkitInstall | None:
    """Find the toolkit CUDA code would be compiled with beside a framework.

    Return None where nothing asks for one, or its version is not known.
    """
    if not context.compiles and not any(cuda_builds(context)):
        return None
    facts, with_nvcc = context.toolkits, toolkits_with_nvcc(context)
    for root in (facts.cuda_home_root, facts.root_on_path, facts.usr_local_cuda):
        for item in with_nvcc:
            if item.root == root.value:
                return item if item.version.value else None
    return with_nvcc[0] if len(with_nvcc) == 1 and with_nvcc[0].version.value else None


def toolkits_with_nvcc(context: Context) -> list[ToolkitInstall]:
    """List the toolkits that may hold an nvcc; wheels hold parts of one."""
    return [
        item
        for item in context.installs
        if not isinstance(item.nvcc_path, Absent) and item.origin != "wheels"
    ]


def host_compiler(context: Context) -> HostCompiler | None:
    """Find the compiler nvcc uses; where that is unknown, the gcc on PATH."""
    facts = context.toolkits
    if isinstance(facts.nvcc_host_compiler_version, Known):
        path = facts.nvcc_host_compiler.value or ""
        version = facts.nvcc_host_compiler_version
        return HostCompiler(_kind_of(path), version.value, path, version)
    gcc = context.facts.compilers.gcc_version
    if isinstance(facts.nvcc_host_compiler, Absent) or not isinstance(gcc, Known):
        return None
    return HostCompiler("gcc", gcc.value, context.facts.compilers.gcc_path.value or "gcc", gcc)


def _kind_of(path: str) -> str:
    name = re.split(r"[/\\]", path)[-1].lower()
    if name.startswith("clang"):
        return "clang"
    return "msvc" if name in ("cl", "cl.exe") else "gcc"


def _find_limits(row: Toolkit, kind: str) -> tuple[str, str]:
    """Return the lowest and the highest compiler of a kind that nvcc accepts; "" for no bound.

    _MSC_VER becomes the version that cl prints: 1949 -> 19.49.
    """
    if kind == "msvc":
        lowest, _, highest = re.sub(r"(\d\d)(\d\d)", r"\1.\2", row.msvc or "").partition("..")
        return lowest, highest
    if kind == "clang":
        return "", row.clang_max or ""
    return row.gcc_min or "", row.gcc_max or ""


def _read_flags(context: Context) -> str:
    names = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")
    return " ".join(context.environment.get(name, "") for name in names)


@rule("tensorrt-missing", severity=NOTE)
def tensorrt_missing(context: Context) -> Iterator[Finding]:
    """Find builds whose TensorRT --for asks for and that is not there.

    Where nobody asks, it is noise.
    """
    is_requested = any("tensorrt" in wanted.extras for wanted in wanted_releases(context))
    for build in cuda_builds(context):
        if (
            is_requested
            and build.traits.cuda.has_tensorrt
            and not context.need(context.facts.tensorrt, "tensorrt")
        ):
            part = f"{build.traits.title}-TensorRT"
            yield context.report(
                f"TensorRT, requested with {build.label},"
                f" is not installed; everything except {part} works.",
                "tensorrt",
                *built_for_cuda(build),
                cure=InstallTensorrt(build.framework, build.version),
            )


_WRONG, _PATH, _MISSING = "toolkit-wrong-version", "toolkit-path-conflict", "toolkit-missing"
# Only who compiles CUDA code sets these.
_VARIABLES = (
    "CUDACXX", "CUDAHOSTCXX", "FORCE_CUDA", "NVCC_APPEND_FLAGS", "NVCC_CCBIN", "NVCC_PREPEND_FLAGS",
    "TORCH_CUDA_ARCH_LIST", "TORCH_EXTENSIONS_DIR",
)  # fmt: skip


@rule(_WRONG, _PATH, severity=NOTE)
def nvcc_of_another_major(context: Context) -> Iterator[Finding]:
    """Find an nvcc whose CUDA major PyTorch refuses, alone or beside a right one."""
    install = compiling_toolkit(context)
    version = describe(install.version) if install else ""
    if install is None or context.matrix.toolkit(version) is None:
        return
    for build in cuda_builds(context):
        cuda = build.cuda.value
        if not build.traits.cuda.hosts_extensions or not cuda or _same_major(cuda, version):
            continue
        finding_id, hint, others = _WRONG, "", list[ToolkitInstall]()
        cure: Fix = InstallToolkit(cuda, build.framework, build.distribution, compiles=True)
        for item in toolkits_with_nvcc(context):
            if _same_major(cuda, item.version.value or ""):
                finding_id, others = _PATH, [item]
                named = f"CUDA {item.version.value}{item.place}"
                hint = f" {named} would do, but is not the one found."
                cure = BuildWithToolkit(item.root, install.folder)
                if not item.folder:
                    cure = UseInstalledToolkit(item.root, compiles=True)
                break
        yield context.report(
            f"{build.label} is built for CUDA {cuda} and refuses to build extensions with nvcc of"
            f" CUDA {version}{install.place}; running it needs no nvcc.{hint}",
            *map(toolkit_evidence, [install, *others]),
            *built_for_cuda(build),
            finding_id=finding_id,
            severity=_choose_severity(context, NOTE),
            cure=cure,
        )


def _same_major(first: str, second: str) -> bool:
    return numbers(first)[:1] == numbers(second)[:1]


@rule(_MISSING, severity=NOTE, installs=True)
def nvcc_missing(context: Context) -> Iterator[Finding]:
    """Find PyTorch beside which CUDA code is built on a machine without nvcc."""
    facts = context.toolkits
    is_unknown = isinstance(facts.installs, Unknown) and not isinstance(facts.nvcc_on_path, Absent)
    if is_unknown or toolkits_with_nvcc(context):
        return
    hosts = [
        build
        for build in cuda_builds(context)
        if build.traits.cuda.hosts_extensions and build.cuda.value
    ]
    built = context.built or "CUDA code"
    if not hosts and context.compiles:
        yield context.report(
            f"{built} is built here, which needs nvcc; this machine has none.",
            "toolkits.installs",
            severity=ERROR,
            cure=Advise("Install the nvcc of a CUDA Toolkit, and set CUDA_HOME to its folder."),
            stops=BUILD,
        )
    if context.may_compile and not context.compiles:
        yield context.report(
            f"An extension is built here ({context.built}). If it contains CUDA code, that fails:"
            " this machine has no nvcc.",
            "toolkits.installs",
            severity=WARNING,
            cure=Advise("If it contains CUDA code, install the nvcc of a CUDA Toolkit."),
        )
    # much of a package that compiles when it is used works without
    reason, severity, stops = _compiled_when_used(context), NOTE, ""
    if context.compiles:
        reason, severity, stops = f"{built} is built here", ERROR, BUILD
    for build in hosts if reason else ():
        cuda = build.cuda.value or ""
        yield context.report(
            f"{reason}, which needs nvcc of a CUDA {major(cuda)} toolkit; this machine has none.",
            "toolkits.installs",
            *built_for_cuda(build),
            severity=severity,
            cure=InstallNvcc(cuda, build.framework, build.distribution),
            stops=stops,
        )


@rule("extension-build-mismatch", "dependency-conflict", installs=True)
def source_builds(context: Context) -> Iterator[Finding]:
    """Find packages compiled for another release of the framework, or for none."""
    if isinstance(context.python.frameworks, Unknown) or context.python.unread.value:
        return
    for item in context.sources:
        host = next(
            (build for build in installed_builds(context) if build.framework == item.framework),
            None,
        )
        if host is None and not item.built_for:
            yield _without_host(context, item)
        elif host is not None and item.built_for and major_minor(host.version) != item.built_for:
            yield context.report(
                f"{item.distribution} comes from a page of wheels for {item.framework}"
                f" {item.built_for}, but {host.label} is installed.",
                *built_for_cuda(host),
                cure=Advise(f"Use the page for {item.framework} {major_minor(host.version)}."),
            )
        elif host is not None and item.is_isolated and not item.built_for:
            yield _in_isolation(context, item, host)


def _without_host(context: Context, item: SourceBuild) -> Finding:
    """Report a package without its framework: an image holds none, another environment may."""
    name, framework = item.distribution, item.framework
    return context.report(
        f"{name} is compiled against {framework}, which no step before this one installs.",
        "python.frameworks",
        finding_id="dependency-conflict",
        severity=ERROR if context.host.container.value else WARNING,
        cure=Advise(
            f"Install {framework} in a step before it, and {name} with --no-build-isolation."
        ),
        stops=BUILD,
    )


def _in_isolation(context: Context, item: SourceBuild, host: Build) -> Finding:
    """Report a build that replaces the installed framework with the newest, or takes none."""
    newest = next(iter(context.matrix.versions(host.framework)), "")
    return context.report(
        f"{item.distribution} is compiled in an isolated environment, where it finds no"
        f" {host.distribution}, or another one than {host.label}.",
        ("python.frameworks", host.label),
        severity=WARNING if host.version == newest else ERROR,
        cure=Advise(f"Install {item.distribution} with --no-build-isolation."),
        stops=BUILD,
    )


@rule("gpu-arch-too-new", "gpu-arch-too-old", severity=WARNING)
def nvcc_knows_gpu(context: Context) -> Iterator[Finding]:
    """Find an nvcc that does not know this machine's GPU yet, or no longer."""
    install = compiling_toolkit(context) if is_compiling(context) else None
    if install is None or not context.gpus:
        return
    version, ids = describe(install.version), set[str]()
    for item in judged_gpus(context):
        if item.first_toolkit and is_older(version, item.first_toolkit):
            finding_id, support = "gpu-arch-too-new", f"from CUDA {item.first_toolkit} on"
        elif item.last_toolkit and is_older(item.last_toolkit, version):
            finding_id, support = "gpu-arch-too-old", f"up to CUDA {item.last_toolkit}"
        else:
            continue
        if finding_id in ids:
            continue
        ids.add(finding_id)
        yield context.report(
            f"nvcc of CUDA {version}{install.place}, which builds CUDA code here, cannot build"
            f" for {item.name}: compute capability {item.capability} is supported {support}.",
            toolkit_evidence(install),
            cite(f"compute capability {item.capability}", support, item.architecture),
            finding_id=finding_id,
            severity=_choose_severity(context, WARNING),
            cure=CompileForGpu(item.capability, is_newer=finding_id == "gpu-arch-too-new"),
        )


def is_compiling(context: Context) -> bool:
    """Return whether CUDA code is built on this machine.

    By request, settings, or installed packages.
    """
    is_requested = context.compiles or any(name in context.environment for name in _VARIABLES)
    facts = (context.python.extensions, context.toolkits.cuda_home)
    return (
        is_requested
        or any(fact.value is not None for fact in facts)
        or bool(_compiled_when_used(context))
    )


@dataclass
class BuiltWhenUsed:
    """The content of data/frameworks/built_when_used.json."""

    packages: tuple[str, ...]
    citation: Citation


def _compiled_when_used(context: Context) -> str:
    """Name a package that builds its CUDA code on use: "deepspeed 0.15.1 builds ..."."""
    for name in load_data("frameworks/built_when_used", BuiltWhenUsed).packages:
        if name in context.distributions:
            label = context.distributions[name].label
            return f"{label} builds its CUDA code when it is first used"
    return ""


def _choose_severity(context: Context, otherwise: str) -> str:
    if context.compiles:
        return ERROR
    return WARNING if is_compiling(context) else otherwise

"""CUDA Toolkits: what a build loads of them, and the paths that lead there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from envcheck.model import (
    ERROR,
    NOTE,
    WARNING,
    Absent,
    Advise,
    Evidence,
    Fact,
    Finding,
    Fix,
    Known,
    LibraryLookup,
    ToolkitInstall,
    Unknown,
    is_older,
    numbers,
)
from envcheck.model.fixes import (
    AddToLibraryPath,
    BuildWithToolkit,
    ChangeVariable,
    InstallLibdevice,
    InstallToolkit,
    NameLibdevice,
    RemoveFromLibraryPath,
    UseNewerPtxas,
)
from envcheck.model.text import find_group
from envcheck.rules.builds import Build, brings_cuda, is_from_conda
from envcheck.rules.context import Context, cite, describe, each, rule, show_fact, source_of
from envcheck.rules.gpu_releases import judged_gpus
from envcheck.rules.targets import cuda_builds

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

"""Whether PATH, CUDA_HOME, LD_LIBRARY_PATH and a toolkit's own files agree on which CUDA is meant."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.model import (
    ERROR,
    INCOMPATIBLE,
    NOTE,
    WARNING,
    Absent,
    Evidence,
    Fact,
    Finding,
    Known,
    LibraryLookup,
    Problem,
    ToolkitInstall,
    get_value,
    is_older,
    numbers,
)
from envcheck.rules.builds import Build
from envcheck.rules.context import Context, describe, source_of
from envcheck.rules.cuda_libraries import (
    brings_cuda,
    built_for_cuda,
    cuda_builds,
    cudnn_lookup,
    in_environment,
    is_own,
    toolkit_holding,
    toolkit_lookups,
    unfound,
)
from envcheck.rules.registry import rule

_ID = "toolkit-path-conflict"


@rule(_ID)
def toolkit_path_conflict(context: Context) -> Iterator[Finding]:
    """Find right copies that the loader passes by, and toolkits whose parts or paths disagree."""
    for build in cuda_builds(context):
        yield from _unreached(context, build)
        yield from _shadowed(context, build)
    yield from _home_nowhere(context)
    yield from _torn_installs(context)
    yield from _two_compilers(context)


def _unreached(context: Context, build: Build) -> Iterator[Finding]:
    """Find libraries the loader does not find although a toolkit holds them."""
    lookups = toolkit_lookups(build) or ()
    cudnn = cudnn_lookup(build)
    gone = unfound(context, build, (*lookups, *((cudnn,) if cudnn else ())))
    passed = [item for item in gone if any(not in_environment(path) for path in item.elsewhere)]
    if not passed or any(in_environment(path) for item in passed for path in item.elsewhere):
        return  # the wheels are there: that they are not found is a matter of the Python layer
    first = passed[0]
    folders = tuple(dict.fromkeys(path.rpartition("/")[0] for item in passed for path in item.elsewhere[:1]))
    names = ", ".join(item.soname for item in passed[:3]) + (" and more" if len(passed) > 3 else "")
    message = f"{build.label} loads {names}; the loader does not look in {folders[0]}, where it lies."
    advice = f"Let the environment's activation put {' and '.join(folders)} on LD_LIBRARY_PATH."
    seen = Evidence(first.soname, f"not found by the loader, but at {first.elsewhere[0]}", source_of(first.found))
    yield Finding(
        _ID,
        INCOMPATIBLE,
        ERROR,
        message,
        (seen, *built_for_cuda(build)),
        problem=Problem(advice=advice, folders=folders),
    )


def _shadowed(context: Context, build: Build) -> Iterator[Finding]:
    """Find a toolkit on LD_LIBRARY_PATH that the loader takes before the libraries a build brings."""
    if not build.installed or not brings_cuda(build):
        return
    cuda = get_value(build.cuda)
    for install, shown in _toolkits_ahead(context, build):
        version = get_value(install.version)
        if not version or not cuda or is_older(version, cuda):
            yield _ahead(build, install, shown)
            return


def _ahead(build: Build, install: ToolkitInstall, shown: Evidence) -> Finding:
    cuda, version = get_value(build.cuda), get_value(install.version)
    named, own = f"CUDA {version}" if version else "the CUDA Toolkit", f"CUDA {cuda}" if cuda else "CUDA"
    message = (
        f"LD_LIBRARY_PATH puts {named} in {install.root} ahead of the {own} libraries that {build.label} brings, "
        "so the loader mixes the two."
    )
    advice = (
        f"Take the folders of {install.root} out of LD_LIBRARY_PATH where it is set; {build.label} needs none of them."
    )
    severity = ERROR if version and cuda else WARNING
    evidence = (shown, _seen(install), *built_for_cuda(build))
    return Finding(_ID, INCOMPATIBLE, severity, message, evidence, problem=Problem(advice=advice))


def _toolkits_ahead(context: Context, build: Build) -> Iterator[tuple[ToolkitInstall, Evidence]]:
    lookups = toolkit_lookups(build)
    if lookups is None:
        yield from _same_major_on_library_path(context, build)
        return
    for item in lookups:
        path = get_value(item.found)
        if path and _replaces_own(context, item, path):
            install = toolkit_holding(context, path) or ToolkitInstall(path.rpartition("/lib")[0], "path")
            yield install, Evidence(item.soname, f"{path}, found by {item.via}", source_of(item.found))


def _replaces_own(context: Context, item: LibraryLookup, path: str) -> bool:
    """Tell whether a library comes from elsewhere although the build's own copy is there."""
    if is_own(context, path) or item.via not in ("LD_LIBRARY_PATH", "preload"):
        return False
    own = any(is_own(context, other) for other in item.elsewhere)
    return own or any(name.startswith("nvidia-cuda-runtime") for name in context.distributions)


def _same_major_on_library_path(context: Context, build: Build) -> Iterator[tuple[ToolkitInstall, Evidence]]:
    """Judge by the toolkits on LD_LIBRARY_PATH where the build's own lookups were not read."""
    roots, cuda = get_value(context.facts.toolkits.roots_on_library_path) or (), get_value(build.cuda)
    for install in get_value(context.facts.toolkits.installs) or ():
        major = numbers(get_value(install.version) or "")[:1]
        if install.root in roots and cuda and major in ((), numbers(cuda)[:1]):
            yield install, context.seen("toolkits.roots_on_library_path", shown=install.root)


def _home_nowhere(context: Context) -> Iterator[Finding]:
    facts = context.facts.toolkits
    if isinstance(facts.cuda_home, Known) and isinstance(facts.cuda_home_root, Absent):
        name = facts.cuda_home.source.where
        message = f"{name} names {facts.cuda_home.value}, which is not there: what is built or compiled with it fails."
        problem = Problem(advice=f"Unset {name}, or set it to a CUDA Toolkit that is installed.")
        yield Finding(_ID, INCOMPATIBLE, WARNING, message, (context.seen("toolkits.cuda_home"),), problem=problem)


def _torn_installs(context: Context) -> Iterator[Finding]:
    """Find folders whose nvcc and version file name different releases: two toolkits in one place."""
    for install in get_value(context.facts.toolkits.installs) or ():
        nvcc, file = install.nvcc_release, install.version_file
        if not isinstance(nvcc, Known) or not isinstance(file, Known):
            continue
        if numbers(nvcc.value)[:2] == numbers(file.value)[:2]:
            continue
        parts = (("nvcc", nvcc), ("version file", file))
        message = (
            f"In {install.root} nvcc says CUDA {nvcc.value}, the version file {file.value}: two toolkits are mixed."
        )
        advice = (
            "Install the one toolkit you mean into a folder of its own and point PATH and CUDA_HOME to that folder."
        )
        evidence = tuple(Evidence(f"{name} in {install.root}", fact.value, fact.source) for name, fact in parts)
        yield Finding(_ID, INCOMPATIBLE, WARNING, message, evidence, problem=Problem(advice=advice))


def _two_compilers(context: Context) -> Iterator[Finding]:
    """Find builds of CUDA code that take headers of one toolkit and nvcc of another."""
    facts = context.facts.toolkits
    if isinstance(facts.cuda_home, Known):
        yield from _disagree(context, facts.cuda_home_root, describe_home(context), WARNING)
    else:
        yield from _disagree(context, facts.usr_local_cuda, "/usr/local/cuda", NOTE)


def _disagree(context: Context, root: Fact[str], name: str, severity: str) -> Iterator[Finding]:
    installs = {install.root: install for install in get_value(context.facts.toolkits.installs) or ()}
    other = installs.get(get_value(root) or "")
    on_path = installs.get(get_value(context.facts.toolkits.root_on_path) or "")
    if other is None or on_path is None or other is on_path:
        return
    versions = (get_value(other.version), get_value(on_path.version))
    if None in versions or versions[0] == versions[1]:
        return
    message = (
        f"{name} is CUDA {versions[0]}, but nvcc on PATH is CUDA {versions[1]} ({on_path.root}): "
        "CUDA code compiled here may mix them."
    )
    problem = Problem(advice="Where CUDA code is compiled, let CUDA_HOME and PATH name the same toolkit.")
    evidence = (Evidence(name, other.root, source_of(root)), _seen(other), _seen(on_path))
    yield Finding(_ID, INCOMPATIBLE, severity, message, evidence, problem=problem)


def describe_home(context: Context) -> str:
    """Name the variable that sets the toolkit, with its value."""
    home = context.facts.toolkits.cuda_home
    return f"{home.source.where}={home.value}" if isinstance(home, Known) else "CUDA_HOME"


def _seen(install: ToolkitInstall) -> Evidence:
    return Evidence(f"CUDA Toolkit in {install.root}", describe(install.version), source_of(install.version))

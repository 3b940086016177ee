"""Whether the CUDA Toolkit libraries a build loads are on the machine at all."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.model import ERROR, INCOMPATIBLE, Evidence, Finding, Known, Problem, ToolkitInstall, get_value, numbers
from envcheck.rules.builds import Build
from envcheck.rules.context import Context, describe
from envcheck.rules.cuda_libraries import (
    brings_cuda,
    built_for_cuda,
    cuda_builds,
    loaded_sonames,
    relies_on_system,
    system_toolkits,
    toolkit_lookups,
    unfound,
    unknown_release,
)
from envcheck.rules.registry import rule


@rule("toolkit-missing")
def toolkit_missing(context: Context) -> Iterator[Finding]:
    """Find CUDA libraries that a build needs and that are nowhere."""
    for build in cuda_builds(context):
        missing = _missing_sonames(context, build)
        if missing is None:
            if not brings_cuda(build) and not system_toolkits(context):
                yield _missing(context, build, ())
        elif missing and not _of_another_version(context, missing):
            yield _missing(context, build, missing)


@rule("toolkit-wrong-version")
def toolkit_wrong_version(context: Context) -> Iterator[Finding]:
    """Find builds for whose CUDA version no toolkit is there, while others are."""
    for build in cuda_builds(context):
        missing = _missing_sonames(context, build)
        if missing is None:
            if not brings_cuda(build):
                yield from _judge_versions(context, build)
        elif missing and _of_another_version(context, missing):
            yield _wrong_version(build, system_toolkits(context) or (), missing)


def _missing_sonames(context: Context, build: Build) -> tuple[str, ...] | None:
    """List what the loader does not find and no copy is of; None when the build's libraries were not read.

    A build that has wheels of its own and uses the system for nothing lacks those wheels: the rules of the
    Python layer say so.
    """
    lookups = toolkit_lookups(build)
    if lookups is None:
        return None
    gone = unfound(context, build, lookups)
    return tuple(item.soname for item in gone if not item.elsewhere) if relies_on_system(build) else ()


def _of_another_version(context: Context, missing: tuple[str, ...]) -> bool:
    """Tell whether toolkits are there and none is of a version that has all of the missing libraries."""
    installs = system_toolkits(context) or ()
    versions = [context.need(item.version, f"version of the CUDA Toolkit in {item.root}") for item in installs]
    return bool(installs) and not any(
        set(missing) <= set(context.matrix.cuda_sonames(version).values()) for version in versions if version
    )


def _judge_versions(context: Context, build: Build) -> Iterator[Finding]:
    """Judge by versions, for a machine of which only those are known."""
    installs = system_toolkits(context)
    if not installs:
        return
    cuda = context.need(build.cuda, f"{build.label}: CUDA version")
    if cuda is None:
        return
    unlisted: list[ToolkitInstall] = []
    for install in installs:
        version = context.need(install.version, f"version of the CUDA Toolkit in {install.root}")
        serves = _serves(context, cuda, version) if version else False
        if serves:
            return
        if serves is None:
            unlisted.append(install)
    if unlisted:
        yield _unlisted(context, build, cuda, unlisted[0])
    else:
        yield _wrong_version(build, installs, ())


def _serves(context: Context, cuda: str, version: str) -> bool | None:
    """Tell whether a toolkit has the libraries a build for `cuda` loads; None when the matrix cannot tell."""
    if numbers(version)[:2] == numbers(cuda)[:2]:
        return True
    if len(numbers(cuda)) == 1:
        return numbers(version)[:1] == numbers(cuda)
    needed, there = loaded_sonames(context, cuda), loaded_sonames(context, version)
    return needed == there if needed and there else None


def _unlisted(context: Context, build: Build, cuda: str, install: ToolkitInstall) -> Finding:
    version = str(get_value(install.version))
    what = f"CUDA {cuda}" if not loaded_sonames(context, cuda) else f"CUDA Toolkit {version}"
    return unknown_release(what, f"whether {build.label} can load what CUDA {version} installs", _seen(install))


def _missing(context: Context, build: Build, sonames: tuple[str, ...]) -> Finding:
    cuda = get_value(build.cuda)
    needs = f"the CUDA {cuda} libraries" if cuda else "CUDA libraries"
    names = f" ({', '.join(sonames[:4])})" if sonames else ""
    message = f"{build.label} needs {needs} from the system and brings none; they are nowhere on this machine{names}."
    seen = context.seen("toolkits.installs")
    return Finding(
        "toolkit-missing", INCOMPATIBLE, ERROR, message, (seen, *built_for_cuda(build)), problem=_problem(build)
    )


def _wrong_version(build: Build, installs: tuple[ToolkitInstall, ...], missing: tuple[str, ...]) -> Finding:
    cuda = get_value(build.cuda)
    there = " and ".join(dict.fromkeys(describe(item.version) for item in installs))
    loads = f" and loads {', '.join(missing[:4])}" if missing else ""
    message = f"{build.label} was built for CUDA {cuda or 'of another version'}{loads}; this machine has CUDA {there}."
    evidence = (*map(_seen, installs), *built_for_cuda(build))
    return Finding("toolkit-wrong-version", INCOMPATIBLE, ERROR, message, evidence, problem=_problem(build))


def _problem(build: Build) -> Problem | None:
    cuda = get_value(build.cuda)
    return Problem(framework=build.framework, distribution=build.distribution, cuda=cuda) if cuda else None


def _seen(install: ToolkitInstall) -> Evidence:
    source = install.version.source if isinstance(install.version, Known) else None
    return Evidence(f"CUDA Toolkit in {install.root}", describe(install.version), source)

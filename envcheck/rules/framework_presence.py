"""Rules about whether a framework is there, once, and is what an import would find."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import InvalidVersion, Version

from envcheck.frameworks import framework as known_framework
from envcheck.frameworks import framework_names
from envcheck.model import (
    COMPATIBLE,
    ERROR,
    INCOMPATIBLE,
    NOTE,
    Absent,
    Distribution,
    Evidence,
    Finding,
    Known,
    Problem,
    Unknown,
)
from envcheck.rules.context import Context, UndecidedError
from envcheck.rules.framework_state import judged_frameworks
from envcheck.rules.known_problems import empty_wheels
from envcheck.rules.registry import rule
from envcheck.rules.requirements import canonical_name


@rule("framework-missing", goal="any")
def framework_missing(context: Context) -> Iterator[Finding]:
    """Tell when there is no framework to run, which matters once a GPU is expected."""
    if context.target.requirements:
        return
    context.need(context.facts.python.frameworks, "python.frameworks")
    if judged_frameworks(context):
        return
    empty = list(empty_wheels(context))
    yield from empty
    if empty:
        return
    _refuse_damaged(context)
    names = context.matrix.frameworks()
    expected = context.target.expect == "gpu"
    yield Finding(
        "framework-missing",
        INCOMPATIBLE if expected else COMPATIBLE,
        ERROR if expected else NOTE,
        f"None of {', '.join(names)} is installed in the inspected Python environment.",
        (context.seen("python.frameworks"), context.seen("python.executable")),
        problem=Problem(("none-installed",)),
    )


def _refuse_damaged(context: Context) -> None:
    """Raise for an environment that registers a framework whose files were not found: it is damaged, not empty."""
    installed = context.distributions.items()
    registered = [name for name, item in installed if context.matrix.framework_of(name) and item.scope != "conda"]
    if registered:
        detail = f"{registered[0]} is registered, but its package folder was not found"
        raise UndecidedError("python.frameworks", Unknown("conflict", detail))


@rule("framework-duplicate-dists", goal="any")
def framework_duplicate_dists(context: Context) -> Iterator[Finding]:
    """Find two distributions that own one module: they overwrite each other's files and the last one wins."""
    for module, owners in _module_owners(context).items():
        clashing = _without_stubs(context, owners)
        if len(clashing) < 2:
            continue
        shown = " and ".join(f"{item.name} {item.version}".strip() for item in clashing)
        names = tuple(item.name for item in clashing)
        yield Finding(
            "framework-duplicate-dists",
            INCOMPATIBLE,
            ERROR,
            f"{shown} both bring the module {module}: their files overwrite each other, and which build "
            f"remains depends on the order of installation.",
            (context.seen("python.distributions", shown=shown), *_duplicate_evidence(context, module)),
            problem=Problem(names=names, requirements=(_kept(context, clashing),)),
        )


def _module_owners(context: Context) -> dict[str, list[Distribution]]:
    owners: dict[str, list[Distribution]] = {}
    for name, item in context.distributions.items():
        module = context.matrix.module_of(name) if item.scope != "conda" else None  # conda's metapackages hold nothing
        if module and module != "jax_plugins":  # a namespace that plugins share
            owners.setdefault(module, []).append(item)
    return owners


def _without_stubs(context: Context, owners: list[Distribution]) -> list[Distribution]:
    """Drop the wheels that hold nothing and only require another of the owners."""
    names = {item.name for item in owners}
    return [item for item in owners if not (_requires(item) & names) and not _is_stub(context, item, names)]


def _requires(item: Distribution) -> set[str]:
    starts = (line.replace("(", " ").replace(";", " ").split() for line in item.requires)
    return {canonical_name(words[0].rstrip("=<>!~0123456789.")) for words in starts if words}


def _is_stub(context: Context, item: Distribution, names: set[str]) -> bool:
    framework = context.matrix.framework_of(item.name) or ""
    row = context.matrix.release(framework, item.version, context.platform, item.name) if item.version else None
    return row is not None and row.stub_for in names


def _kept(context: Context, clashing: list[Distribution]) -> str:
    """Choose what to install again: the framework's usual distribution, of the newest version among them."""
    usual = context.matrix.framework_of(clashing[0].name) or clashing[0].name
    twin = known_framework(usual).gpu_twin if usual in framework_names() and context.goal == "gpu" else ""
    for_gpu = next((item for item in clashing if item.name == twin), None)
    if for_gpu is not None:
        return f"{twin}=={for_gpu.version.partition('+')[0]}"
    try:
        newest = max(clashing, key=lambda item: Version(item.version))
    except InvalidVersion:
        return usual  # the newest release pip finds
    row = context.matrix.release(usual, newest.version, context.platform, usual)
    if row is None or (context.goal == "gpu" and not row.cuda_build):
        return f"{newest.name}=={newest.version.partition('+')[0]}"
    extra = f"[{row.gpu_extra}]" if row.gpu_extra and context.goal == "gpu" else ""
    return f"{usual}{extra}=={row.version}"


def _duplicate_evidence(context: Context, module: str) -> tuple[Evidence, ...]:
    fact = context.facts.python.duplicate_owners
    if isinstance(fact, Known) and module in fact.value:
        return (Evidence("python.duplicate_owners", f"{module}: {', '.join(fact.value[module])}", fact.source),)
    return ()


@rule("local-module-shadowing", goal="any")
def local_module_shadowing(context: Context) -> Iterator[Finding]:
    """Find a file or folder that is imported in a framework's place because of its name."""
    for framework in judged_frameworks(context):
        for build in framework.builds:
            shadow = build.facts.shadowed_by if build.facts else Absent()
            if isinstance(shadow, Known):
                yield Finding(
                    "local-module-shadowing",
                    INCOMPATIBLE,
                    ERROR,
                    f"{shadow.value} is imported in place of {build.label}, because it has the same name.",
                    (Evidence("python.frameworks", f"{framework.name}: {shadow.value}", shadow.source),),
                    problem=Problem(("read",), values=(("path", shadow.value),)),
                )

"""What has to go from an environment before a release comes: what pip would leave beside it, or in its place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib import import_module

from envcheck.model.facts import Known
from envcheck.model.machine import Distribution
from envcheck.model.plans import CONDA, IN_ENVIRONMENT, PIP, UV, Environment, PlannedRelease, Step
from envcheck.plan.paths import interpreter
from envcheck.rules.context import Context
from envcheck.rules.cuda_wheel_names import bare_wheel, sharing_wheels
from envcheck.rules.known_problems import name_of

_NAME = r"[a-z0-9][a-z0-9._-]*"
# Exits 0 where no distribution of these names is left; for every Python that a framework was made for.
_GONE = (
    "import os, re, sys; "
    "found = [n for p in sys.path if p.startswith(sys.prefix) and os.path.isdir(p) for n in os.listdir(p)]; "
    "found = [n.split('-')[0] for n in found if n.endswith(('.dist-info', '.egg-info'))]; "
    "left = {re.sub('[-_.]+', '-', n).lower() for n in found} & set(sys.argv[1:]); "
    "sys.exit('still there: ' + ' '.join(left) if left else 0)"
)


def removal_steps(context: Context, made: Environment, releases: Iterable[PlannedRelease]) -> tuple[Step, ...]:
    """Remove what is in the way of planned releases by the environment's installer; () where nothing is."""
    if made.installer == CONDA:
        from envcheck.plan.in_condas_way import removal_steps_of_conda  # for conda's environments alone

        return removal_steps_of_conda(context, made, tuple(releases))
    return uninstall_steps(made, (name for item in releases for name in in_the_way(context, item)))


def uninstall_steps(
    made: Environment, found: Iterable[str], purpose: str = "Remove what pip would leave in its place."
) -> tuple[Step, ...]:
    """Remove distributions by pip, or uv; () where there are none."""
    names = tuple(name for name in dict.fromkeys(found) if re.fullmatch(_NAME, name))
    installer, python = import_module(f"envcheck.plan.{UV if made.installer == UV else PIP}"), interpreter(made)
    argv = installer.uninstall_argv(python, names)
    return (removal_step(made, argv, names, purpose),) if names else ()


def removal_step(made: Environment, argv: tuple[str, ...], names: tuple[str, ...], purpose: str) -> Step:
    """Describe the removal of distributions from an environment that is there."""
    gone = (interpreter(made), "-c", _GONE, *names)
    return Step("remove", purpose, argv, verify=gone, environment=made.folder, lasting=IN_ENVIRONMENT)


def in_the_way(context: Context, release: PlannedRelease) -> tuple[str, ...]:
    """List the distributions that pip would leave beside or in place of a release.

    Of two that own one module, or lie in one folder, the files of both are damaged; and to pip 2.8.0+cpu meets ==2.8.0.
    """
    matrix, name, public = context.matrix, release.distribution, release.version.partition("+")[0]
    row = matrix.release(release.framework, public, context.platform, name)
    stays = (name, row.stub_for if row is not None else None)
    found = _own(context)
    same = [key for key in found if matrix.framework_of(key) == release.framework and key not in stays]
    owners = [key for key in same if matrix.module_of(key) == matrix.module_of(name)]
    there = found[name].version if name in found else ""
    is_other_build = there != release.version and there.partition("+")[0] == public
    plugins = [key for key in same if _is_other_plugin(found[key], release)]
    itself = (name,) if name in found and (owners or is_other_build) else ()
    return (*itself, *owners, *plugins, *_wheels_of_another_cuda(context, found, release))


def _own(context: Context) -> dict[str, Distribution]:
    """Return what lies in the environment itself: what a venv borrows from its base, it cannot remove."""
    kind = context.facts.python.kind
    borrowed = ("conda", "system") if isinstance(kind, Known) and kind.value == "venv" else ("conda",)
    return {key: item for key, item in context.distributions.items() if item.scope not in borrowed}


def _is_other_plugin(found: Distribution, release: PlannedRelease) -> bool:
    """Tell whether a plugin of jax is for another CUDA, or jax, than comes: jax-cuda12-pjrt beside jax[cuda13]."""
    plugin = re.match(r"jax-(cuda\d+)-", found.name)
    if plugin is None:
        return False
    return plugin[1] not in release.requirement if release.build == "gpu" else found.version != release.version


def _wheels_of_another_cuda(context: Context, found: dict[str, Distribution], release: PlannedRelease) -> Iterator[str]:
    """Yield nvidia wheels whose folder is that of wheels of another CUDA that come, and those whose files it has."""
    for name in _wheels(context, release):
        bare, cuda = bare_wheel(name)
        others = [key for key in found if bare_wheel(key)[0] == bare and key != name] if cuda else []
        yield from (*others, *((name,) if others and name in found else ()))


def _wheels(context: Context, release: PlannedRelease) -> list[str]:
    """List the nvidia wheels that a release brings, as far as the matrix knows."""
    public, _, label = release.version.partition("+")
    if release.build != "gpu":
        return []
    if label:  # its pins are not held, but their CUDA is told by the label: cu126
        return [f"{name}-{label[:4]}" for name in sharing_wheels()]
    rows = context.matrix.releases(release.framework, context.platform, admits=public.__eq__)
    plugin = re.search(r"\[(?:.*,)?(cuda\d+)", release.requirement)
    names = (release.distribution, f"jax-{plugin[1]}-plugin" if plugin else "")
    texts = [text for row in rows if row.distribution in names for text in row.cuda_wheels]
    return list(dict.fromkeys(name_of(text) for text in (*texts, *release.constraints)))

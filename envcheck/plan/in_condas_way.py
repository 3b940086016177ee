"""What has to go from conda's environment: conda's build before pip's comes, and pip's before conda's does."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.model.facts import Known
from envcheck.model.plans import Environment, PlannedRelease, Step
from envcheck.model.records import replaced
from envcheck.plan.in_the_way import in_the_way, removal_step, uninstall_steps
from envcheck.plan.paths import prefix
from envcheck.plan.plan_data import plan_data
from envcheck.rules.context import Context
from envcheck.rules.pins import requirements_of

_BY_PIP = "Remove what pip brought: conda would put its own files among them."
_BY_CONDA = "Remove conda's build, which pip would overwrite and conda go on listing."


def removal_steps_of_conda(
    context: Context, made: Environment, releases: tuple[PlannedRelease, ...]
) -> tuple[Step, ...]:
    """Remove planned frameworks that the other installer brought: neither knows of the other's files."""
    recorded = _recorded(context)
    if made.sets:
        pips = [name for item in releases for name in in_the_way(context, item) if name not in recorded]
        steps = uninstall_steps(made, pips)
    else:
        pips = [name for item in releases for name in _pips(context, item, recorded)]
        steps = uninstall_steps(made, pips, _BY_PIP)
    packages = plan_data()["conda_builds"]["packages"]
    held = {name for item in releases for name in packages[item.framework] if name in recorded}
    condas = tuple(sorted(held)) if made.sets or steps else ()
    # --force: what depends on it stays, for the framework comes again
    argv = ("conda", "remove", "-y", "-p", prefix(made), "--force", *condas)
    gone = replaced(removal_step(made, argv, condas, _BY_CONDA), id="remove-conda")
    return (*steps, *((gone,) if condas else ()))


def _recorded(context: Context) -> frozenset[str]:
    """Name what conda lists, also where pip has put another release in its place."""
    found = context.facts.python.distributions
    return (
        frozenset(item.name for item in found.value if item.installer == "conda")
        if isinstance(found, Known)
        else frozenset()
    )


def _pips(context: Context, release: PlannedRelease, recorded: frozenset[str]) -> Iterator[str]:
    """Yield a framework's distributions that pip brought, and what they need of others that conda does not list."""
    there = context.distributions
    queue = [
        name
        for name, item in there.items()
        if context.matrix.framework_of(name) == release.framework and item.installer != "conda"
    ]
    seen = set(queue)
    for name in queue:
        yield name
        needed = dict.fromkeys(each for each, *_ in requirements_of(context, there[name]) if each in there)
        new = [each for each in needed if each not in seen | recorded]
        seen.update(new)
        queue += new

"""Resolve plans on the package index.

Where the newest release cannot be installed, plan the next older ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TypeVar

from envcheck.actions import InstallPackages
from envcheck.host.protocol import Variables
from envcheck.model import (
    PIP,
    Environment,
    Plan,
    PlannedRelease,
    Rejected,
    RequestError,
    RequirementSet,
    Step,
    dataclass,
    replace,
)
from envcheck.model.versions import name_of, read_requirement
from envcheck.plan.candidates import python_minor
from envcheck.plan.passengers import (
    AskAll,
    Boarding,
    board,
    find_framework,
    is_passenger,
)
from envcheck.plan.requests import EVERY, find_near, join_words
from envcheck.plan.verify import UnreachableError, UnresolvableError, resolve, verify_plan
from envcheck.rules.context import Context

Found = TypeVar("Found")
Make = Callable[[frozenset[str]], Plan]  # plans without the releases that are refused

_OLDER = 5  # releases that are tried after one that does not resolve


@dataclass
class Resolver:
    """Asks the indexes that pip and uv are configured for, and those that a plan names."""

    environ: Variables
    seconds: float  # for everything that is asked; a plan is then printed as it is
    until: float  # when they end, on the clock time.monotonic
    channels: bool = False  # conda's channels are asked, too
    # what becomes of each plan before it is resolved
    finish: Callable[[Plan], Plan] = lambda plan: plan
    keeps: bool = False  # the environment is there, and what it keeps need not be on an index

    def board(self, texts: tuple[str, ...], context: Context) -> Boarding | Plan:
        """Read which framework unknown packages require.

        Where nothing tells, return the plan that says so.
        """
        ask = self._ask(context)
        return self._try_board(
            texts, context, lambda: board(texts, context, lambda text: ask((text,)))
        )

    def find_framework(self, texts: tuple[str, ...], context: Context) -> tuple[str, ...] | Plan:
        """Read which framework packages require together, or return the plan that says why not."""
        find = partial(find_framework, texts, context, self._ask(context))
        return self._try_board(texts, context, find)

    def _ask(self, context: Context) -> AskAll:
        glibc = context.host.libc_version.value or ""
        made = Environment("", PIP, python_minor(context), context.platform, machine_glibc=glibc)
        return lambda texts: _map_versions(
            resolve(made, RequirementSet(texts), self.environ, self.until - time.monotonic())
        )

    def _try_board(
        self, texts: tuple[str, ...], context: Context, find: Callable[[], Found]
    ) -> Found | Plan:
        try:
            return find()
        except UnresolvableError as error:
            text = error.requirements[0] if len(error.requirements) == 1 else join_words(texts)
            if "not found in the package registry" in error.reason and text in texts:
                near = find_near(text, context.matrix)
                meant = f" Did you mean {near}?" if near else ""
                raise RequestError(
                    f"the package index has no package named {text[:60]!r}.{meant}"
                ) from None
            why, finding = f"does not resolve: {error.reason}", _CONFLICT
        except UnreachableError as error:
            text = next((text for text in texts if is_passenger(text, context.matrix)), texts[0])
            why = _UNREAD.format(error=str(error).rstrip("."), name=name_of(text))
            finding = "release-unknown"
        rejected = (Rejected(text, finding, f"{why}."),)
        return Plan(context.goal, (), (), requirements=texts, system=context.os, rejected=rejected)

    def resolve(self, make: Make) -> Plan:
        """Return the newest plan that resolves, or the newest that may.

        Its `verified` says which. Without releases, it holds the reason why each one that was tried
        does not resolve.
        """
        refused: dict[str, Rejected] = {}
        while len(refused) <= _OLDER:
            plan = self.finish(make(frozenset(refused)))
            if not plan.releases:
                break
            try:
                plan = verify_plan(
                    plan, self.environ, self.seconds, until=self.until, channels=self.channels
                )
            except UnresolvableError as error:
                if self.keeps:
                    return replace(plan, verified=f"not resolved: {error}")
                release = _unresolved_release(plan, error)
                cause = self._find_cause(plan, release, error)
                if cause in refused:
                    break  # a conda build, which no name of a candidate leaves out
                refused[cause] = Rejected(
                    _label_of(release), _CONFLICT, f"does not resolve: {error.reason}"
                )
                continue
            if refused and time.monotonic() >= self.until:
                break  # nothing is known of an older one
            return _with_refused(with_exact_companions(plan), refused)
        if not refused:
            return plan
        return replace(make(frozenset((*refused, EVERY))), rejected=tuple(refused.values()))

    def _find_cause(self, plan: Plan, release: PlannedRelease, error: UnresolvableError) -> str:
        """Return what is refused.

        The releases of a companion that resolve with no framework, else this pair.

        The reason seldom names the companion: it is asked for alone. vllm==0.33.0 comes to vllm
        0.21.0 where what newer ones require has no wheel for this C library.
        """
        for text in release.companions:
            name, _, version = text.partition("==")
            if not version or text not in error.requirements:
                continue
            alone = RequirementSet((f"{name}<={version}",))
            try:
                pins = resolve(
                    plan.environments[0], alone, self.environ, self.until - time.monotonic()
                )
            except UnresolvableError:
                return text  # nor does an older one
            except UnreachableError:
                break
            newest = _map_versions(pins)[name_of(name)]
            if newest != version:
                return f"{name_of(name)}>{newest}"
        return _label_of(release)


_CONFLICT = "dependency-conflict"
_UNREAD = (
    "only the package index states which framework it needs, and that could not be read: {error}."
    " If you know the framework, plan that, as in `envcheck plan torch`, and install {name} into"
    " its environment when an index answers"
)


def _label_of(release: PlannedRelease) -> str:
    return " ".join((release.requirement, *release.companions))


def _unresolved_release(plan: Plan, error: UnresolvableError) -> PlannedRelease:
    """Return the release of a set that does not resolve.

    Of several the one that was asked for last.
    """
    named = [
        item
        for item in plan.releases
        if {item.requirement, *item.companions} & {*error.requirements}
    ]
    return (named or plan.releases)[-1]


def _with_refused(plan: Plan, refused: Mapping[str, Rejected]) -> Plan:
    """Say of the releases that newer ones of the same name did not resolve."""

    def complete(release: PlannedRelease) -> PlannedRelease:
        starts = (f"{release.distribution}=", f"{release.distribution}[")
        own = [item for item in refused.values() if item.requirement.startswith(starts)]
        if own:
            return replace(release, rejected=(*own, *release.rejected))
        return release

    if refused:
        return replace(plan, releases=tuple(map(complete, plan.releases)))
    return plan


def with_exact_companions(plan: Plan) -> Plan:
    """Name the release that was resolved for what the matrix holds no release of."""
    versions = _map_versions(
        pin for made in plan.environments for one in made.sets for pin in one.pins
    )
    exact: dict[str, str] = {}  # transformers>=5 -> transformers==5.1.0
    for text in (text for item in plan.releases for text in item.open_companions):
        version = versions.get(name_of(text))
        if version:
            exact[text] = replace(read_requirement(text), specifier=f"=={version}").plain
    return _replace_requirements(plan, exact) if exact else plan


def _map_versions(pins: Iterable[str]) -> dict[str, str]:
    """Map the names of pins to their versions, numpy==2.1.0 --hash=... -> 2.1.0.

    A pin to a file names none.
    """
    return dict(pin.partition(" ")[0].split("==") for pin in pins if " @ " not in pin)


def _replace_requirements(plan: Plan, exact: Mapping[str, str]) -> Plan:
    def written(texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(exact.get(text, text) for text in texts)

    def exact_set(item: RequirementSet) -> RequirementSet:
        return replace(item, requirements=written(item.requirements))

    def exact_step(step: Step) -> Step:
        action = step.action
        if isinstance(action, InstallPackages):
            step = replace(step, action=replace(action, requirements=written(action.requirements)))
        return step

    return replace(
        plan,
        releases=tuple(
            replace(
                item, companions=written(item.companions), constraints=written(item.constraints)
            )
            for item in plan.releases
        ),
        environments=tuple(
            replace(made, sets=tuple(map(exact_set, made.sets))) for made in plan.environments
        ),
        steps=tuple(map(exact_step, plan.steps)),
    )

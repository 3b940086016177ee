"""Judge remedies before they are printed.

Applied to the facts, does the same judge accept the result?
"""

from __future__ import annotations

from collections.abc import Sequence

from envcheck.actions import (
    CreateEnvironment,
    InstallPackages,
    ReinstallPackages,
    UninstallPackages,
)
from envcheck.matrix.package_index import is_index_label
from envcheck.model import (
    ERROR,
    INCOMPATIBLE,
    NOT_STATED,
    Action,
    Alternative,
    Distribution,
    Facts,
    Finding,
    Known,
    Remedy,
    Report,
    RequestError,
    Source,
    dataclass,
    replace,
)
from envcheck.model.versions import name_of, read_requirement
from envcheck.remedies import with_remedy
from envcheck.remedies.situation import Situation
from envcheck.rules import Context
from envcheck.rules.engine import find

# What the choice of a release or a build decides, so that another one may take it away.
RELEASE_FINDINGS = frozenset(
    {
        "cpu-missing-avx",
        "driver-too-old",
        "framework-cpu-build",
        "framework-cuda-extra-missing",
        "framework-duplicate-dists",
        "framework-package-removed",
        "glibc-too-old",
        "gpu-arch-too-new",
        "gpu-arch-too-old",
        "platform-no-gpu-wheel",
        "python-unsupported",
        "toolkit-missing",
        "toolkit-wrong-version",
    }
)
# Of these the libraries decide that come beside the release, in ways that are not followed here.
_OF_LIBRARIES = {"framework-cuda-extra-missing", "toolkit-missing", "toolkit-wrong-version"}
_Way = tuple[Action, ...]


def with_accepted_remedies(report: Report, situation: Situation) -> Report:
    """Keep the remedies that the judge accepts, one applied after the other.

    The first other way that it accepts takes the place of one that it refuses; without any, the
    reason stands there. One that another remedy would undo gives way to that one.
    """
    if not any(_list_package_actions(item.fix.actions) for item in report.findings if item.fix):
        return report
    trial = _Trial(situation.context, is_partial=situation.from_log)
    removals = [item.fix for item in report.findings if item.fix and _list_removed(item.fix)]
    findings = []
    for item in report.findings:
        remover = next((fix for fix in removals if _is_undone(item, fix)), None)
        findings.append(replace(item, fix=remover) if remover else trial.accept(item))
    return replace(report, findings=tuple(findings))


def _list_removed(fix: Remedy) -> set[str]:
    actions = (item for item in fix.actions if isinstance(item, UninstallPackages))
    return {name for item in actions for name in item.names}


def _is_undone(finding: Finding, remover: Remedy) -> bool:
    """Whether another remedy removes all that the remedy of a finding installs."""
    fix = finding.fix
    if fix is None or fix.actions == remover.actions:
        return False
    texts = [
        text
        for item in _list_package_actions(fix.actions)
        for text in getattr(item, "requirements", ())
    ]
    return bool(texts) and {name_of(text) for text in texts} <= _list_removed(remover)


def _list_package_actions(actions: Sequence[Action]) -> _Way:
    """List the actions that make an environment, conda's too, or change its packages.

    `conda install` is not followed: what a plan pins in it the planner judged by the rows of
    conda's builds, and of what is not pinned conda's solver decides, which no row states.
    """
    kinds = (CreateEnvironment, InstallPackages, ReinstallPackages, UninstallPackages)
    return tuple(item for item in actions if isinstance(item, kinds))


@dataclass
class _State:
    """An environment after some remedies, and what they asked for."""

    facts: Facts
    wanted: tuple[str, ...]


class _Trial:
    """Applies remedies to the facts of a machine, one after the other."""

    def __init__(self, context: Context, *, is_partial: bool) -> None:
        self._context = context
        self._is_partial = is_partial  # a log does not tell all that is installed
        self._state = _State(context.facts, context.target.requirements)
        self._errors = self._judge(self._state) or {}

    def accept(self, finding: Finding) -> Finding:
        """Return a finding with the first way that the judge accepts."""
        fix = finding.fix
        if fix is None or finding.caused_by is not None or not _list_package_actions(fix.actions):
            return finding
        ways = (Alternative(fix.summary, fix.actions), *fix.alternatives)
        tried = [(way, *self._try(way.actions)) for way in ways]
        accepted = [(way, state, errors) for way, state, errors, reason in tried if not reason]
        if not accepted:
            other = self._explain(tried[0][3])
            return replace(finding, fix=other) if other else finding
        first, self._state, self._errors = accepted[0]
        others = tuple(way for way, _, _ in accepted[1:])
        return replace(finding, fix=Remedy(first.summary, first.actions, others))

    def _try(
        self, actions: Sequence[Action]
    ) -> tuple[_State, dict[tuple[str, str], Finding], Finding | None]:
        """Return the state after actions, its errors, and the first one that they bring."""
        state = self._state
        for action in _list_package_actions(actions):
            state = _apply(self._context, state, action)
        errors = self._judge(state) if state != self._state else None
        if errors is None:
            return self._state, self._errors, None
        new = (item for key, item in errors.items() if key not in self._errors)
        return state, errors, next(new, None)

    def _judge(self, state: _State) -> dict[tuple[str, str], Finding] | None:
        """List the errors of a state that a release decides.

        Return None where what is asked for cannot be judged.
        """
        try:
            found, _ = find(self._asking(state), RELEASE_FINDINGS - _OF_LIBRARIES)
        except RequestError:
            return None
        errors = (item for item in found if item.severity == ERROR and item.verdict == INCOMPATIBLE)
        return {item.key: item for item in errors}

    def _asking(self, state: _State) -> Context:
        target = replace(self._context.target, requirements=state.wanted, expect=self._context.goal)
        return Context(state.facts, self._context.matrix, target)

    def _explain(self, refusal: Finding | None) -> Remedy | None:
        """Say why no way is left: by what to do about that, where it is no other installation.

        Return None where what is not stated might be the reason.
        """
        if refusal is None:
            return None
        own = with_remedy(refusal, Situation(self._asking(self._state))).fix
        if own is not None and not _list_package_actions(own.actions):
            return own
        if self._is_partial:
            return None
        return Remedy(f"No installation that works here is known: {refusal.message}")


def _apply(context: Context, state: _State, action: Action) -> _State:
    """Return the state of frameworks, and packages on top of them, after an action."""
    if isinstance(action, UninstallPackages):
        names = set(action.names)
        return _State(_remove_distributions(state.facts, names), _not_of(state.wanted, names))
    if isinstance(action, CreateEnvironment):
        return _State(_in_new_environment(state.facts, action.python), state.wanted)
    facts, wanted = state.facts, state.wanted
    for text in getattr(action, "requirements", ()):
        try:
            item = read_requirement(text)
        except RequestError:  # a file
            continue
        framework = context.matrix.framework_of(item.name)
        if not framework and not context.matrix.companion_of(item.name):
            continue
        label = getattr(action, "index", "").rpartition("/")[2]
        build = ""
        if framework and is_index_label(framework, label):
            build = f"+{label}"
        if build and not item.pin:
            continue  # which release an index of one build takes is not followed here
        pinned = item.pin and "+" not in item.specifier
        wanted = (*_not_of(wanted, {item.name}), text + build if pinned else text)
        facts = _with_release(facts, Distribution(item.name, item.pin or ""))
    return _State(facts, wanted)


def _not_of(texts: tuple[str, ...], names: set[str]) -> tuple[str, ...]:
    return tuple(text for text in texts if read_requirement(text).name not in names)


def _in_new_environment(facts: Facts, minor: str) -> Facts:
    """Return the facts with an environment that holds nothing, for the Python of `minor`."""
    source = Source("command", "the new environment")
    python = replace(
        facts.python,
        version=Known(minor, source) if minor else facts.python.version,
        distributions=Known((), source),
        frameworks=Known((), source),
    )
    return replace(facts, python=replace(python, duplicate_owners=NOT_STATED, imports=NOT_STATED))


def _remove_distributions(facts: Facts, names: set[str]) -> Facts:
    """Return the facts without some distributions."""
    python = facts.python
    if isinstance(python.distributions, Known):
        kept = tuple(item for item in python.distributions.value if item.name not in names)
        python = replace(python, distributions=Known(kept, python.distributions.source))
    if isinstance(python.frameworks, Known):
        builds = tuple(item for item in python.frameworks.value if item.distribution not in names)
        python = replace(python, frameworks=Known(builds, python.frameworks.source))
    return replace(facts, python=replace(python, duplicate_owners=NOT_STATED, imports=NOT_STATED))


def _with_release(facts: Facts, item: Distribution) -> Facts:
    """Return the facts with a release of a distribution, beside the others of the environment."""
    installed = facts.python.distributions
    if not isinstance(installed, Known):
        return facts
    own = next((each for each in installed.value if each.name == item.name), None)
    place = own or next((each for each in installed.value if each.scope == "environment"), None)
    location = place.location if place else ""
    if own is not None and item.version in ("", own.public):
        item = own
    if item is not own:
        facts = _remove_distributions(facts, {item.name})
    others = tuple(each for each in installed.value if each.name != item.name)
    item = replace(item, location=location, scope="environment", installer="pip")
    python = replace(facts.python, distributions=Known((*others, item), installed.source))
    return replace(facts, python=python)

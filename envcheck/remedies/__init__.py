"""The one place that says what to do: a remedy for each finding, from the facts of a machine and the finding's values.

`remedy_for` tries, in this order: the rows of data/advice/remedies.json for the very case, the function registered for
the finding, and the row of data/advice/remedies.json for the finding in general.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, TypeVar

from envcheck.matrix.companions import SourceInstall
from envcheck.model import Advise, Finding, Fix, FollowRow, Problem, Remedy, replace
from envcheck.remedies.situation import Situation
from envcheck.rules.context import Context

Build = Callable[[Situation, Problem], "Remedy | None"]

_REMEDIES: dict[str, Build] = {}
_WRITERS: dict[type[Fix], Callable[[Situation, Any], Remedy | None]] = {}
W = TypeVar("W", bound="Callable[..., Remedy | None]")
# Which module makes the remedy of which finding: only that one is loaded.
_MODULES = {
    "toolkit": (
        "extension-build-mismatch",
    ),
}  # fmt: skip
# What a release names goes before what a message says.
_RELEASE_FIRST = frozenset({"extension-build-mismatch", "keras-mismatch", "protobuf-conflict", "tensorrt-missing"})


def remedy(*finding_ids: str) -> Callable[[Build], Build]:
    """Register the function that makes the remedy of some findings."""

    def register(build: Build) -> Build:
        _REMEDIES.update(dict.fromkeys(finding_ids, build))
        return build

    return register


def writes(*kinds: type[Fix]) -> Callable[[W], W]:
    """Register the function that writes out some kinds of fixes.

    It stands in the module named as that of the records: `remedies/driver.py` writes `model/fixes/driver.py`.
    """

    def register(write: W) -> W:
        _WRITERS.update(dict.fromkeys(kinds, write))
        return write

    return register


def write_fix(fix: Fix, situation: Situation) -> Remedy | None:
    """Write a fix for a machine, without a look at its system; None where there is nothing to type or to say."""
    if isinstance(fix, Advise):
        return Remedy(fix.sentence)
    return find_writer(type(fix))(situation, fix)


def find_writer(kind: type[Fix]) -> Callable[[Situation, Any], Remedy | None]:
    """Return the function that writes out a kind of fixes; only its module is loaded."""
    if kind not in _WRITERS:
        _load(kind.__module__.rpartition(".")[2])
    return _WRITERS[kind]


def remedy_of(finding: Finding, fix: Fix, situation: Situation) -> Remedy | None:
    """Return the remedy that the fix of a finding becomes on a machine; None where nothing is known."""
    from envcheck.remedies.rows import build_general_remedy, build_special_remedy

    if isinstance(fix, FollowRow):
        cases = (fix.row,) if fix.row else ()
        problem = Problem(cases, finding.about.framework, values=fix.values)
        found = build_special_remedy(finding.id, problem, situation)
    else:
        problem = Problem(framework=finding.about.framework)
        found = write_fix(fix, situation)
    found = found or build_general_remedy(finding.id, problem, situation)
    return fit_to_system(found, situation.os) if found else None


def remedy_for(finding_id: str, problem: Problem, situation: Situation, fix: Fix | None = None) -> Remedy | None:
    """Return what to do about a finding, written for the system of the situation; None where nothing is known.

    What a message says goes before what a release names, and both before what is said of the finding in general.
    """
    if problem.advice and problem == Problem(advice=problem.advice):
        return Remedy(problem.advice)
    from envcheck.remedies.rows import build_general_remedy, build_special_remedy

    def build_remedy() -> Remedy | None:
        if fix is not None:
            return write_fix(fix, situation)
        build = _find_build(finding_id)
        return build(situation, problem) if build else None

    def find_special() -> Remedy | None:
        return build_special_remedy(finding_id, problem, situation)

    first, second = (build_remedy, find_special) if finding_id in _RELEASE_FIRST else (find_special, build_remedy)
    remedy_found = first() or second() or build_general_remedy(finding_id, problem, situation)
    return fit_to_system(remedy_found, situation.os) if remedy_found else None


def _find_build(finding_id: str) -> Build | None:
    """Return the function that makes the remedy of a finding; None where only rows do."""
    for name in (name for name, ids in _MODULES.items() if finding_id in ids):
        _load(name)
    return _REMEDIES.get(finding_id)


def _load(name: str) -> Any:
    return import_module(f"envcheck.remedies.{name}")  # explaining a log needs one of them, a plan mostly none


def find_install(context: Context, text: str, version: str, cuda: str | None) -> SourceInstall | None:
    """Choose how a package that is published as source only comes beside a torch; None where it does not."""
    found: SourceInstall | None = _load("toolkit").find_install(context, text, version, cuda)
    return found


def find_obstacle(context: Context, text: str, version: str, cuda: str | None) -> str:
    """Say why such a package cannot come beside a torch; "" where it can."""
    return str(_load("toolkit").find_obstacle(context, text, version, cuda))


def list_functions_by_module() -> dict[str, tuple[str, ...]]:
    """Load every module; name the findings whose remedies its functions make."""
    for name in _MODULES:
        _load(name)
    module_names = {name: f"envcheck.remedies.{name}" for name in _MODULES}
    return {
        name: tuple(key for key, build in _REMEDIES.items() if build.__module__ == module_names[name])
        for name in module_names
    }


def with_remedy(finding: Finding, situation: Situation) -> Finding:
    """Return a finding with its remedy; one that has a remedy of its own keeps it."""
    if finding.fix is not None:
        return finding
    if finding.cure is not None:
        fix = remedy_of(finding, finding.cure, situation)
    else:
        fix = remedy_for(finding.id, finding.problem, situation) if finding.problem is not None else None
    changed: Finding = replace(finding, fix=fix) if fix else finding
    return changed


def fit_to_system(fix: Remedy, system: str) -> Remedy:
    """Return a remedy as it can be typed on a system; what the system lacks is left out."""
    if system not in ("windows", "darwin"):
        return fix
    actions = tuple(item for item in fix.actions if item.runs_on(system))
    alternatives = [
        replace(alternative, summary=_name_variable(alternative.summary, system), actions=way_actions)
        for alternative in fix.alternatives
        if (way_actions := tuple(item for item in alternative.actions if item.runs_on(system)))
        or not alternative.actions
    ]
    summary = _name_variable(fix.summary, system)
    if fix.actions and not actions and alternatives:  # the first way is none there: another takes its place
        first = next((alternative for alternative in alternatives if alternative.actions), alternatives[0])
        actions, summary = first.actions, f"{summary} {first.summary}"
        alternatives.remove(first)
    changed: Remedy = replace(fix, summary=summary, actions=actions, alternatives=tuple(alternatives))
    return changed


def _name_variable(text: str, system: str) -> str:
    """Name the variable that Windows' loader reads."""
    return text.replace("LD_LIBRARY_PATH", "PATH") if system == "windows" else text


def list_findings_with_functions() -> Sequence[str]:
    """Name the findings whose remedies are functions."""
    return tuple(finding_id for ids in _MODULES.values() for finding_id in ids)


__all__ = ["Any", "Situation", "fit_to_system", "remedy", "remedy_for", "with_remedy"]

"""The one place that says what to do.

It writes the fix of a finding for the place where it is typed.

A record of `envcheck.model.fixes` is written by the function of its name (`UpdatePip`:
`update_pip`), or by the rows of data/advice/remedies.json that have its name. Other rows there say
what to do about messages of logs, and about findings of which nothing more is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from envcheck.model import Advise, Finding, Fix, FollowRow, Remedy, replace
from envcheck.remedies.situation import Situation

if TYPE_CHECKING:
    from envcheck.remedies.rows import RowValues

# What a release or a repository names goes before what a message says.
_NAMED_FIRST = frozenset(
    {
        "dependency-conflict",
        "extension-build-mismatch",
        "keras-mismatch",
        "protobuf-conflict",
        "tensorrt-missing",
    }
)


def write_fix(fix: Fix, situation: Situation) -> Remedy | None:
    """Write a fix for a machine, without a look at its system.

    Return None where there is nothing to type or to say.
    """
    if isinstance(fix, Advise):
        return Remedy(fix.sentence)
    return find_writer(type(fix))(situation, fix)


def find_writer(kind: type[Fix]) -> Callable[[Situation, Any], Remedy | None]:
    """Return the function of a record's name in the module of its subject; only that is loaded.

    A kind whose remedy depends on its fields alone has rows instead.
    """
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()
    own = getattr(_load(kind.subject), name, None)
    writer: Callable[[Situation, Any], Remedy | None] = own or _load("rows").write_row
    return writer


def remedy_of(finding: Finding, fix: Fix, situation: Situation) -> Remedy | None:
    """Return the remedy that the fix of a finding becomes on a machine.

    Return None where nothing is known.
    """
    from envcheck.remedies.rows import RuleValues, build_general_remedy, build_special_remedy

    row = fix if isinstance(fix, FollowRow) else FollowRow()
    values = RuleValues(row, finding.about.framework)
    if fix is row:
        found = build_special_remedy(finding.id, values, situation)
    else:
        found = write_fix(fix, situation)
    found = found or build_general_remedy(finding.id, values, situation)
    return fit_to_place(found, situation) if found else None


def remedy_of_message(
    finding_id: str, values: RowValues, fix: Fix | None, situation: Situation
) -> Remedy | None:
    """Return what to do about what a log states; None where nothing is known.

    What its messages say mostly goes before what it states by name, and both before what is said
    of any such finding.
    """
    from envcheck.remedies.rows import build_general_remedy, build_special_remedy

    def follow_message() -> Remedy | None:
        return build_special_remedy(finding_id, values, situation)

    def follow_fix() -> Remedy | None:
        return write_fix(fix, situation) if fix is not None else None

    is_named = finding_id in _NAMED_FIRST
    first, second = (follow_fix, follow_message) if is_named else (follow_message, follow_fix)
    found = first() or second() or build_general_remedy(finding_id, values, situation)
    return fit_to_place(found, situation) if found else None


def _load(name: str) -> Any:
    # explaining a log needs one of them, a plan mostly none
    return import_module(f"envcheck.remedies.{name}")


def with_remedy(finding: Finding, situation: Situation) -> Finding:
    """Return a finding with its remedy; one that has a remedy of its own keeps it."""
    if finding.fix is not None:
        return finding
    fix = None
    if finding.cure is not None:
        fix = remedy_of(finding, finding.cure, situation)
    return replace(finding, fix=fix) if fix else finding


def fit_to_place(fix: Remedy, situation: Situation) -> Remedy:
    """Return a remedy as it can be typed on a system, for the installer of the environment."""
    fix = fit_to_system(fix, situation.os)
    ways = [replace(way, actions=situation.fit(way.actions)) for way in fix.alternatives]
    return replace(fix, actions=situation.fit(fix.actions), alternatives=tuple(ways))


def fit_to_system(fix: Remedy, system: str) -> Remedy:
    """Return a remedy as it can be typed on a system; what the system lacks is left out."""
    if system not in ("windows", "darwin"):
        return fix
    actions = tuple(item for item in fix.actions if item.runs_on(system))
    alternatives = []
    for way in fix.alternatives:
        usable = tuple(item for item in way.actions if item.runs_on(system))
        if usable or not way.actions:
            words = _name_variable(way.summary, system)
            alternatives.append(replace(way, summary=words, actions=usable))
    summary = _name_variable(fix.summary, system)
    # the first way is none there: another takes its place
    if fix.actions and not actions and alternatives:
        first = next(
            (alternative for alternative in alternatives if alternative.actions), alternatives[0]
        )
        actions, summary = first.actions, f"{summary} {first.summary}"
        alternatives.remove(first)
    return replace(fix, summary=summary, actions=actions, alternatives=tuple(alternatives))


def _name_variable(text: str, system: str) -> str:
    """Name the variable that Windows' loader reads."""
    if system == "windows":
        return text.replace("LD_LIBRARY_PATH", "PATH")
    return text

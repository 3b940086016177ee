"""What an action, or a step, is typed, checked and undone by, and what a machine's findings say to do."""

from __future__ import annotations

from collections.abc import Iterable

from envcheck.actions import Action, RunCommand, typed_words
from envcheck.model import ENVIRONMENT, Finding, Report, Step, replace
from envcheck.remedies import with_remedy
from envcheck.remedies.situation import Situation
from envcheck.rules import Context, evaluate


def action_of(item: Action | Step) -> Action:
    """Return the action of a step, or the action itself."""
    return item.action if isinstance(item, Step) else item


def command_step(
    name: str,
    *words: str,
    purpose: str = "Do it.",
    scope: str = ENVIRONMENT,
    check: tuple[str, ...] = (),
    undo: tuple[str, ...] = (),
    lasting: str = "",
) -> Step:
    """Return a step that runs a command, as it stands."""
    command = RunCommand(words, purpose, scope, check_argv=check, undo_argv=undo, lasting=lasting)
    return Step(name, command)


def argv(item: Action | Step, system: str = "linux") -> tuple[str, ...]:
    """Return a command as its words, without the variables it runs with."""
    return action_of(item).command(system)


def words(item: Action | Step, system: str = "linux") -> tuple[str, ...]:
    """Return a command as its words, with the variables it runs with."""
    return typed_words(action_of(item), system)


def argvs(items: Iterable[Action | Step], system: str = "linux") -> list[tuple[str, ...]]:
    """Return commands as their words."""
    return [argv(item, system) for item in items]


def env(item: Action | Step) -> dict[str, str]:
    """Return the variables that a command runs with."""
    return action_of(item).variables()


def verify(item: Action | Step, system: str = "linux") -> tuple[str, ...]:
    """Return the command that shows that it worked."""
    return (item.checked(system) if isinstance(item, Step) else item.check(system)).argv


def unverified(item: Action | Step, system: str = "linux") -> str:
    """Return why no command shows that it worked."""
    return (item.checked(system) if isinstance(item, Step) else item.check(system)).reason


def undo(item: Action | Step, system: str = "linux") -> tuple[str, ...]:
    """Return the command that takes it back."""
    return action_of(item).undo(system).argv


def lasting(item: Action | Step, system: str = "linux") -> str:
    """Return why no command takes it back."""
    return action_of(item).undo(system).reason


def remedied(findings: Iterable[Finding], context: Context) -> list[Finding]:
    """Give findings the remedies for a machine."""
    situation = Situation(context)
    return [with_remedy(item, situation) for item in findings]


def judged(context: Context, *ids: str) -> Report:
    """Judge a machine, with remedies and without plans."""
    report = evaluate(context, frozenset(ids))
    changed: Report = replace(report, findings=tuple(remedied(report.findings, context)))
    return changed

"""A plan for people: what was chosen and why, what was passed over, and what to type."""

from __future__ import annotations

import re

from envcheck.actions import ActivateEnvironment, AskPerson, WriteFile
from envcheck.actions.shells import action_line, shell_line
from envcheck.model.actions import SYSTEM, Step
from envcheck.model.plans import Clash, Environment, Plan, PlannedRelease, Rejected
from envcheck.model.text import inert

_SHOWN = 6  # rejected releases before the rest is counted; -v shows all


def render_plan_text(plan: Plan, *, verbose: bool = False, run_for_you: bool = False) -> str:
    """Render a plan as text; `verbose` adds every rejected release, warning and undo.

    `run_for_you`: nobody types the commands, and of a file that one writes the name is told unless `verbose`.
    """
    lines = [*_heading(plan), *([""] if plan.releases or plan.blocked_by or plan.rejected else [])]
    for release in plan.releases:
        lines += _release(release, verbose=verbose)
    lines += _clashes(plan, verbose=verbose)
    if plan.blocked_by or not plan.releases:
        return "\n".join([*lines, *_blocked(plan, verbose=verbose)]) + "\n"
    lines += [f"note: {inert(note)}" for note in plan.notes]
    for step in plan.steps:
        lines += ["", *_step(plan, step, verbose=verbose, typed=verbose or not run_for_you)]
    if plan.verified:
        lines += ["", inert(plan.verified)]
    if not run_for_you:
        lines += [line for made in plan.environments for line in _use(plan, made)]
    return "\n".join(lines) + "\n"


def fitted(text: str, width: int) -> str:
    """Break a plan's lines at the width of a terminal; commands stay whole, so that they can be pasted."""
    lines, in_command = [], False
    for line in text.splitlines():
        in_command = in_command or line.lstrip().startswith(("$ ", "#    undo: ", "#    check: "))
        lines += [line] if in_command else _wrapped(line, max(width, 24))
        in_command = in_command and line.endswith("\\")
    return "\n".join(lines) + "\n"


def _wrapped(line: str, width: int) -> list[str]:
    import textwrap

    indent = "#    " if line.startswith("# ") else " " * (len(line) - len(line.lstrip()) + 2)
    found = textwrap.wrap(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return found or [""]


def is_windows(plan: Plan) -> bool:
    """Tell whether a plan's commands are typed on Windows."""
    return plan.system == "windows"


def _clashes(plan: Plan, *, verbose: bool) -> list[str]:
    """Name the pins that clash, the first of each two releases unless all are asked for."""
    pairs = {(item.first.partition(": ")[0], item.second.partition(": ")[0]): item for item in reversed(plan.clashes)}
    shown = plan.clashes if verbose else tuple(item for item in plan.clashes if item in pairs.values())
    lines = [f"Clash: {inert(item.first)} and {inert(item.second)}{_in_one_folder(item)}." for item in shown]
    left = len(plan.clashes) - len(shown)
    lines += [f"  and {left} more: -v shows them"] if left else []
    return [*lines, f"No one environment can hold them: {len(plan.environments)} are planned."] if lines else []


def _in_one_folder(clash: Clash) -> str:
    """Say how wheels of two names clash."""
    names = {re.split(r"[^\w.-]", pin.partition(": ")[2])[0] for pin in (clash.first, clash.second)}
    return ", which lie in one folder" if len(names) > 1 else ""


def _heading(plan: Plan) -> list[str]:
    wanted = " and ".join(plan.requirements)
    if plan.blocked_by or not plan.releases:
        return [f"NO PLAN  {_none(plan, wanted)}"]
    return [f"PLAN  {wanted} on the {plan.goal.upper()}: {', '.join(item.requirement for item in plan.releases)}"]


def _none(plan: Plan, wanted: str) -> str:
    """Say what there is no plan for, and whose fault that is."""
    where = f"on the {plan.goal.upper()}"
    if plan.blocked_by:
        return f"{wanted} {where}: the machine itself is in the way."
    if {item.finding for item in plan.rejected} == {"release-unknown"}:
        return f"No release of {wanted} is known here."
    if len(plan.requirements) > 1:
        return f"{wanted} {where}: not each has a release that works here."
    return f"No release of {wanted} works here {where}."


def _release(release: PlannedRelease, *, verbose: bool) -> list[str]:
    built = f", CUDA {release.cuda}" if release.cuda else ""
    built += f", cuDNN {release.cudnn}" if release.cudnn else ""
    lines = [f"{release.requirement}  ({release.build} build{built}) in {release.environment}"]
    lines += [f"  with: {', '.join(release.constraints)}"] if release.constraints else []
    lines += _rejected(release.rejected, "newer ones", verbose=verbose)
    told = (*release.doubts, *release.warnings)
    lines += [f"  {item.severity}: {item.id}: {inert(item.message)}" for item in told]
    if verbose:
        cited = dict.fromkeys(item.url_or_artifact for item in release.citations)
        lines += [f"  known: [{name}]" for name in cited]
    return lines


def _rejected(rejected: tuple[Rejected, ...], kind: str, *, verbose: bool) -> list[str]:
    """List what was passed over; where that is much the first for each reason, then the newest."""
    places = list(range(len(rejected)))
    if not verbose and len(rejected) > _SHOWN + 1:
        firsts = {rejected[place].finding: place for place in reversed(places)}
        places = sorted([*dict.fromkeys([*sorted(firsts.values()), *places])][:_SHOWN])
    lines = [f"  not {rejected[place].requirement}: {_why_not(rejected[place])}" for place in places]
    left = len(rejected) - len(places)
    return [*lines, f"  and {left} more {kind}: -v shows why not"] if left else lines


def _why_not(item: Rejected) -> str:
    """Tell the reason without the name of the release, which stands before it."""
    version = item.requirement.partition("==")[2]
    name = re.split(r"[\[=]", item.requirement)[0]
    return re.sub(rf"^(?:{re.escape(item.requirement)}|{name} {re.escape(version)}):? ", "", inert(item.why))


def _blocked(plan: Plan, *, verbose: bool) -> list[str]:
    lines = [f"error: {item.id}: {inert(item.message)}" for item in plan.blocked_by]
    lines += _rejected(plan.rejected, "releases", verbose=verbose)
    lines += [f"note: {inert(note)}" for note in plan.notes]
    lines += ["", "What would make it possible, the least effort first:"] if plan.changes else []
    for change in plan.changes:
        lines += [f"  {change.what}: {change.requirement}", f"    $ {shell_line(change.argv, plan.system)}"]
    if not plan.changes:
        lines += ["", "No single change of Python, driver, C library or build would make it possible."]
    return lines


def _step(plan: Plan, step: Step, *, verbose: bool, typed: bool) -> list[str]:
    scope = f" [{step.scope}: as an administrator]" if step.scope == SYSTEM else ""
    solves = f" (resolves {', '.join(step.resolves)})" if step.resolves else ""
    action = step.action
    lines = [f"# {plan.steps.index(step) + 1}. {_sentence(inert(action.purpose_on(plan.system)))}{scope}{solves}"]
    if isinstance(action, WriteFile) and not typed:
        lines.append(f"  {'adds' if action.appends else 'writes'} {len(action.lines)} lines: {inert(action.path)}")
    elif not isinstance(action, AskPerson):
        lines.append(f"$ {action_line(action, plan.system, folded=True)}")
    return lines + (_traces(plan, step) if verbose or step.scope == SYSTEM else [])


def _sentence(purpose: str) -> str:
    """Write what a command is for, which a fix says beside it, as the title of a step."""
    return f"{purpose[:1].upper()}{purpose[1:]}" + ("" if purpose.endswith((".", "!", "?")) else ".")


def _use(plan: Plan, made: Environment) -> list[str]:
    which = "it" if len(plan.environments) == 1 else inert(made.folder)
    activate = ActivateEnvironment(made.folder, made.installer)
    return ["", f"# To use {which}, in each shell:", f"$ {action_line(activate, plan.system)}"]


def _traces(plan: Plan, step: Step) -> list[str]:
    """Say how a step is seen to have worked and how it is taken back, or why neither."""
    check, undo = step.checked(plan.system), step.action.undo(plan.system)
    is_own_check = check.argv == step.action.command(plan.system)
    lines = [f"#    check: {shell_line(check.argv, plan.system)}"] if check.argv and not is_own_check else []
    lines += [f"#    not checked: {inert(check.reason)}"] if check.reason else []
    lines += [f"#    undo: {shell_line(undo.argv, plan.system)}"] if undo.argv else []
    return [*lines, *([f"#    not undone: {inert(undo.reason)}"] if undo.reason else [])]

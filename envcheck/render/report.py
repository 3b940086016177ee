"""Describe a report: the machine, what was found, and what to type."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from envcheck.actions import AskPerson, RunEnvcheck, changes_environment
from envcheck.diagnosis.overview import LEFT_TO_RUN, summarize_machine
from envcheck.model import (
    CHANGES_NOTHING,
    COMPATIBLE,
    ERROR,
    INCOMPATIBLE,
    NOTE,
    SYSTEM,
    UNDETERMINED,
    Facts,
    Finding,
    FrameworkBuild,
    Remedy,
    Report,
    replace,
)
from envcheck.model.text import counted
from envcheck.render.document import (
    ABSENT,
    ASKED,
    BROKEN,
    NEEDLESS,
    SOUND,
    UNREAD,
    WARNED,
    Command,
    Document,
    Layer,
    Line,
    Machine,
    Rule,
    Section,
    Shown,
    Step,
    Way,
    type_command,
)
from envcheck.rules.catalogue import UNREAD_FACTS, catalogue

if TYPE_CHECKING:
    from envcheck.model import Action, Snapshot
    from envcheck.model import Step as PlannedStep


def describe_report(
    report: Report,
    snapshot: Snapshot | None,
    *,
    verbose: bool = False,
    quiet: bool = False,
    file: str = "",
) -> Document:
    """Describe a report; `quiet` leaves verdict and cause, `verbose` adds the rest.

    `file` is what the findings are about where no evidence names a file.
    """
    system = report.system
    shown = [item for item in report.findings if _is_shown(item, verbose=verbose, quiet=quiet)]
    hidden = len(report.findings) - len(shown)
    unread = _list_unread(shown) if not verbose else []
    shown = [item for item in shown if item not in unread]
    if quiet or snapshot is None:
        machine = []
    else:
        machine = [*describe_machine(report, snapshot.facts)]
    if verbose and machine and report.matrix:
        machine.append(Layer("Matrix", f"data of {report.matrix}"))
    elif not verbose and any(item.severity != NOTE for item in shown):
        machine = [each for each in machine if each.wrong or each.name not in _BUILDING]
    obtained: tuple[Command, ...] = ()
    if report.obtained_by is not None and not quiet:
        obtained = (type_command(report.obtained_by, system, is_told=False),)
    is_alone = report.judged.machine and report.judged.environment is None and not report.asked
    joint = JointPlan(report, () if verbose else report.fix_command)
    return Document(
        "envcheck",
        report.verdict,
        report.headline,
        f"{report.verdict.upper()}  ",
        # a machine that is ready, and no environment that was seen to work
        NOTE if is_alone and report.verdict == COMPATIBLE else "",
        below=obtained,
        counts="" if quiet else _count_checks(report, hidden, len(unread)),
        sections=(Section((Machine(tuple(machine)),)),) if machine else (),
        findings=tuple(_show_all(shown, joint, verbose=verbose)),
        closing=joint.closing,
        steps=describe_steps(report),
        rules=list_rules(list_judged(report)),
        goal=report.goal,
        file=file,
        date=snapshot.taken_at if snapshot else "",
        is_verbose=verbose,
    )


_NAMED = 3  # environments that fit alike
_LONGEST_COMMAND = 4  # lines of a command, without -v
_MANY_COMMANDS = 5  # of one way: their summary says what they are for, without -v
_BUILDING = ("CUDA", "cuDNN", "Compiler")  # said only where they are the problem, without -v


def _show_all(found: list[Finding], joint: JointPlan, *, verbose: bool) -> Iterator[Shown]:
    said = set[str]()
    for item in found:
        shown = joint.show(item, is_brief=item.severity == NOTE and not verbose)
        if not verbose:
            ways = _shorten(shown.fix if shown.here is None else shown.here)
            if ways and ways[0].summary in said and not ways[0].commands:
                ways = (replace(ways[0], summary="the same.", kind="dim"), *ways[1:])
            said |= {way.summary for way in ways[:1] if not shown.is_brief}
            shown = replace(shown, here=ways)
        yield shown


def _shorten(ways: tuple[Way, ...]) -> tuple[Way, ...]:
    """Leave to -v how a second way goes beside a long one, scripts, and what says a thing twice."""
    short = []
    is_shown = is_long = False
    for way in ways:
        if way.commands and (is_long or (is_shown and len(way.commands) > 1)):
            summary = f"{way.summary.rstrip(':.')} (-v shows how)."
            short.append(replace(way, summary=summary, commands=()))
        else:
            said = _list_words(way.summary)
            commands = _leave_scripts(way.commands)
            is_long = len(commands) > 1
            is_clear = sum(bool(each.line) for each in commands) >= _MANY_COMMANDS
            commands = tuple(
                replace(each, purpose="")
                if each.line and (is_clear or said >= _list_words(each.purpose))
                else each
                for each in commands
            )
            short.append(replace(way, commands=commands))
        is_shown = is_shown or bool(way.commands)
    return tuple(short)


def _list_words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def _leave_scripts(commands: tuple[Command, ...]) -> tuple[Command, ...]:
    """Replace long scripts by a line that counts them."""
    kept: list[Command] = []
    scripts: list[Command] = []
    for command in commands:
        is_long = command.typed.count("\n") >= _LONGEST_COMMAND
        (scripts if is_long else kept).append(command)
    if not scripts:
        return commands
    lines = sum(command.typed.count("\n") + 1 for command in scripts)
    said = f"Then paste {len(scripts)} scripts"
    if len(scripts) == 1:
        said = (scripts[0].purpose or "Paste a script").rstrip(".")
    return (*kept, Command("", f"{said}: {lines} lines, which -v shows."))


def _is_shown(finding: Finding, *, verbose: bool, quiet: bool) -> bool:
    if quiet:
        return finding.primary or finding.verdict == UNDETERMINED
    return verbose or finding.caused_by is None


def _list_unread(shown: list[Finding]) -> list[Finding]:
    """List the notes of what could not be read, which decide nothing beside a problem."""
    if all(item.severity == NOTE for item in shown):
        return []
    return [item for item in shown if item.severity == NOTE and item.verdict == UNDETERMINED]


def describe_steps(report: Report) -> tuple[Step, ...]:
    """Describe the plan, each step with what it is for."""
    causes = (
        item for item in report.findings if item.severity != NOTE and item.verdict == INCOMPATIBLE
    )
    wrong = {item.id for item in causes if item.caused_by is None}
    steps = []
    for step in report.steps:
        why = f"{'for' if step.resolves[0] in wrong else 'advised by'} {', '.join(step.resolves)}"
        if step.scope == SYSTEM:
            about = f" {why}; changes the whole system"
        else:
            about = f" {why}"
        command = type_command(step.action, report.system, is_told=False)
        purpose = step.action.purpose_on(report.system)
        steps.append(Step(purpose, command if command.line else None, about))
    return tuple(steps)


def list_rules(ids: Iterable[str]) -> tuple[Rule, ...]:
    """List what may be found, in general, by ids."""
    entries = [catalogue().get(name) for name in dict.fromkeys(ids)]
    return tuple(
        Rule(entry.id, entry.layer, entry.headline, entry.means) for entry in entries if entry
    )


def list_judged(report: Report) -> Iterator[str]:
    """List the ids of what was found, then of what was looked for."""
    for item in report.findings:
        yield item.id
    yield from report.checked


def show_finding(finding: Finding, system: str) -> Shown:
    """Show a finding with its fix and its alternatives, for the shells of a system."""
    return Shown(
        finding.id,
        finding.verdict,
        finding.severity,
        finding.message,
        finding.evidence,
        show_fix(finding.fix, system),
        is_primary=finding.primary,
        is_cause=finding.is_the_cause,
        follows=finding.caused_by or "",
        layer=catalogue()[finding.id].layer,
        excuse=next(
            (item.shown for item in finding.evidence if item.fact == "tool.envcheck.ignore"), ""
        ),
    )


def show_fix(fix: Remedy | None, system: str) -> tuple[Way, ...]:
    """Show a fix with its commands, then what may be done instead."""
    if fix is None:
        return ()
    ways = [
        ("fix", fix.summary, fix.actions),
        *(("or", way.summary, way.actions) for way in fix.alternatives),
    ]
    return tuple(
        Way(word, text, tuple(type_command(item, system) for item in actions))
        for word, text, actions in ways
    )


class JointPlan:
    """Shows findings whose fixes are one plan.

    A command stands with the first finding that it resolves.

    `fix_command` takes the steps in the environment; `steps` are numbered where there are several
    to tell apart.
    """

    def __init__(
        self, report: Report, fix_command: tuple[str, ...] = (), *, is_numbered: bool = True
    ) -> None:
        self._system, self._fix_command = report.system, fix_command
        self._steps = report.steps if is_numbered and _has_several_fixes(report) else ()
        wrong = {item.id for item in report.findings if item.severity != NOTE}
        steps = [step for step in report.steps if wrong & {*step.resolves}]
        self._wrong_steps = len(steps)
        wanted = [step.action for step in steps]
        self._next = () if wanted else _list_next(report)
        self._ends_with_fix = bool(fix_command and wanted) and changes_environment(wanted[0])
        is_alone = len({step.resolves[0] for step in steps}) == 1
        self.closing = self._close([] if is_alone and not self._ends_with_fix else wanted)

    def _close(self, wanted: list[Action]) -> Section | None:
        """Show what to type first; None where nothing is wrong, or one finding shows it all."""
        if self._next:
            return Section(tuple(map(self._type, self._next)), Line("Next:"))
        if not wanted:
            return None
        if isinstance(wanted[0], AskPerson):
            return Section((Line(wanted[0].purpose_on(self._system), "Do this first: "),))
        action = RunEnvcheck(self._fix_command) if self._ends_with_fix else wanted[0]
        lead = "Type this first:"
        if self._ends_with_fix or len(wanted) == 1:
            lead = "Type this:"
        return Section((self._type(action),), Line(lead))

    def _type(self, action: Action, *, is_told: bool = False) -> Command:
        return type_command(action, self._system, is_told=is_told)

    def show(self, finding: Finding, *, is_brief: bool = False) -> Shown:
        """Show a finding; a brief one with no command but one that installs a framework."""
        shown = replace(show_finding(finding, self._system), is_brief=is_brief)
        if is_brief:
            installing = _list_installing((finding,))
            ways = (Way("", "", tuple(map(self._type, installing))),)
            # a later step while something is wrong, else the next one
            return replace(shown, here=ways, is_said=bool(installing))
        if self._steps:
            return replace(shown, here=self._share(finding, shown.fix))
        return shown

    def _share(self, finding: Finding, fix: tuple[Way, ...]) -> tuple[Way, ...]:
        """Return the fix with the commands not shown above, then the alternatives."""
        wanted = finding.caused_by or finding.id
        own = {
            number: step for number, step in enumerate(self._steps, 1) if wanted in step.resolves
        }
        label = "fix"
        if own and (len(own) < self._wrong_steps or finding.severity == NOTE):
            label += f" (step{'s' if len(own) > 1 else ''} {', '.join(map(str, own))})"
        if not fix:
            if own:
                return (Way(label, f"fixed together with {wanted}", kind="dim"),)
            return ()
        steps = [step for step in own.values() if step.resolves[0] == finding.id]
        steps = [step for step in steps if not isinstance(step.action, AskPerson)]
        if finding.fix is not None:  # another finding of this id has steps of its own
            steps = [step for step in steps if step.action in finding.fix.actions] or steps
        if (
            self._fix_command
            and not finding.caused_by
            and any(changes_environment(each.action) for each in own.values())
        ):
            by_person = [step for step in steps if not changes_environment(step.action)]
            steps = [step for step in by_person if step.action.lasting != CHANGES_NOTHING]
            commands = self._type_steps(steps, fix[0].summary)
            if not self._ends_with_fix:
                commands += (self._type(RunEnvcheck(self._fix_command)),)
            return (Way("fix", fix[0].summary, commands),)
        shared = Way(label, fix[0].summary, self._type_steps(steps, fix[0].summary))
        return (shared,) if finding.caused_by else (shared, *fix[1:])

    def _type_steps(self, steps: list[PlannedStep], summary: str) -> tuple[Command, ...]:
        """Write commands without a purpose that the summary says."""
        actions = [
            replace(step.action, purpose="") if step.purpose == summary else step.action
            for step in steps
        ]
        return tuple(self._type(action, is_told=True) for action in actions)


def _list_next(report: Report) -> tuple[RunEnvcheck, ...]:
    """List what to type where nothing is wrong: judge one environment, or install a framework."""
    alike = [item.path for item in report.judged.others if not item.problem]
    if alike and report.judged.environment is None:
        return tuple(RunEnvcheck(("doctor", "--env", path)) for path in alike[:_NAMED])
    return _list_installing(report.findings)


def _list_installing(findings: Iterable[Finding]) -> tuple[RunEnvcheck, ...]:
    """List the commands by which notes advise to install a framework."""
    notes = [item.fix for item in findings if item.severity == NOTE and item.fix]
    actions = [action for fix in notes for action in fix.actions]
    return tuple(item for item in actions if isinstance(item, RunEnvcheck) and item.installs)


def _has_several_fixes(report: Report) -> bool:
    """Whether there is something to number or to join."""
    causes = [item for item in report.findings if item.caused_by is None and item.severity != NOTE]
    fixes = [item.fix for item in causes if item.fix]
    return len(fixes) > 1 or any(fix.actions for fix in fixes)


_WORST_FIRST = (BROKEN, UNREAD, WARNED, SOUND)
_NOTHING = ("none", "no toolkit")  # what is said of a layer that is not there
_PARTS_OF_FACTS = (
    ("python.frameworks", "Frameworks"),
    ("python", "Python"),
    ("host", "Python"),
    ("toolkits", "CUDA"),
    ("compilers", "CUDA"),
    ("cudnn", "cuDNN"),
    ("driver", "Driver"),
)
# of the catalogue; any other: GPU
_PART_OF_LAYER = {"driver": "Driver", "toolkit": "CUDA", "python": "Python"}


def describe_machine(report: Report, facts: Facts) -> tuple[Layer, ...]:
    """Describe each layer with what is wrong with it."""
    builds = facts.python.frameworks.value or ()
    meets = {
        "Frameworks": _describe_requirements(builds),
        "CUDA": _describe_driver_limit(facts),
        "Driver": _describe_gpu_code(builds),
    }
    missed = {catalogue()[name].misses for name in report.checked}
    layers = []
    for name, text in summarize_machine(facts):
        concerned = [item for item in report.findings if name in _list_parts(item)]
        state, said = _find_state(concerned, text), text
        wrong = [
            item.id
            for item in concerned
            if item.caused_by is None and _finding_state(item) == state != SOUND
        ]
        if name == "Frameworks":
            asked = [one for one in report.asked if one.partition(" (")[0] not in text]
        else:
            asked = []
        if asked:
            there = "not installed" if text == "none" else text
            said = f"{there}; asked for: {', '.join(asked)}"
        if state == ABSENT and builds and name in missed:
            state = NEEDLESS  # the check looked, and missed nothing
        if name == "Frameworks" and report.asked and not builds and state in {SOUND, ABSENT}:
            state = ASKED
        layers.append(Layer(name, said, state, tuple(dict.fromkeys(wrong)), meets.get(name, ())))
    return tuple(layers)


def _list_parts(finding: Finding) -> set[str]:
    """List the parts of the machine that a finding is about."""
    entry = catalogue()[finding.id]
    if UNREAD_FACTS in entry.parts:
        facts = [item.fact for item in finding.evidence]
        return set(map(_part_of_fact, facts or [""]))
    return set(entry.parts) or {_PART_OF_LAYER.get(entry.layer, "GPU")}


def _part_of_fact(fact: str) -> str:
    return next((part for start, part in _PARTS_OF_FACTS if fact.startswith(start)), "GPU")


def _find_state(findings: list[Finding], text: str) -> str:
    states = {_finding_state(item) for item in findings}
    worst = next(state for state in _WORST_FIRST if state in states or state == SOUND)
    if worst == SOUND and text.startswith(("unknown", LEFT_TO_RUN)):
        return UNREAD
    return ABSENT if worst == SOUND and text in _NOTHING else worst


def _finding_state(finding: Finding) -> str:
    if finding.severity == NOTE:
        return SOUND
    if finding.verdict == UNDETERMINED:
        return UNREAD
    return BROKEN if finding.severity == ERROR else WARNED


def _describe_requirements(builds: tuple[FrameworkBuild, ...]) -> tuple[str, ...]:
    wanted = []
    for build in builds:
        parts = [("CUDA", build.cuda_version.value), ("cuDNN", build.cudnn_version.value)]
        shown = " and ".join(f"{name} {version}" for name, version in parts if version)
        if shown:
            wanted += [f"{build.distribution} was built for {shown}"]
    return tuple(wanted)


def _describe_driver_limit(facts: Facts) -> tuple[str, ...]:
    ceiling = facts.driver.cuda_driver_version.value
    return (f"the driver runs CUDA up to {ceiling}",) if ceiling else ()


def _describe_gpu_code(builds: tuple[FrameworkBuild, ...]) -> tuple[str, ...]:
    """Describe for which GPUs the frameworks hold code."""
    said = []
    for build in builds:
        named = build.compute_capabilities.value or ()
        found = [match for match in (re.search(r"(\d+)(\d)[a-z]?$", one) for one in named) if match]
        numbers = sorted({(int(match[1]), int(match[2])) for match in found})
        if numbers:
            shown = ", ".join(f"{major}.{minor}" for major, minor in numbers)
            said.append(f"{build.distribution} holds code for compute capability {shown}")
    return tuple(said)


def _count_checks(report: Report, hidden: int, unread: int) -> str:
    """Count the checks and what they found.

    What follows from another finding is no problem of its own.
    """
    roots = [item for item in report.findings if item.caused_by is None]
    states = [_finding_state(item) for item in roots]
    named = ((BROKEN, "problem"), (WARNED, "warning"), (UNREAD, "undetermined check"))
    counts = []
    for state, name in named:
        count = states.count(state)
        if count:
            counts.append(counted(count, name))
    found = ", ".join(counts) or "no problems"
    said = f"{counted(len(report.checked), 'check')}: {found}"
    if hidden:
        said += f" ({hidden} more follow{'' if hidden > 1 else 's'} from them: -v)"
    if unread:
        said += f" ({counted(unread, 'note')} on what is not known: -v)"
    return f"{said}."

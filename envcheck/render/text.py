"""Render a report as text: plain lines when piped; on a terminal wrapped, each with its mark and colour."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envcheck.actions import AskPerson, RunEnvcheck, action_line, changes_environment
from envcheck.diagnosis.overview import summarize_machine
from envcheck.model import (
    CHANGES_NOTHING,
    COMPATIBLE,
    ERROR,
    NOTE,
    UNDETERMINED,
    Evidence,
    Facts,
    Finding,
    FrameworkBuild,
    Remedy,
    Report,
    dataclass,
    inert,
    replace,
)
from envcheck.render.documents import (
    ABSENT,
    ASKED,
    BROKEN,
    NEEDLESS,
    SOUND,
    UNREAD,
    WARNED,
    Line,
    join_lines,
    print_lines,
)
from envcheck.rules.catalogue import catalogue

if TYPE_CHECKING:
    from envcheck.model import Action, Snapshot, Step


_WORST_FIRST = (BROKEN, UNREAD, WARNED, SOUND)
_NOTHING = ("none", "no toolkit")  # what the overview says of a layer that is not there
# The boxes, from what runs the user's program down to the metal, each with the label of its line in the overview.
_BOXES = (
    ("Python", "Python"),
    ("Framework", "Frameworks"),
    ("cuDNN", "cuDNN"),
    ("CUDA", "CUDA"),
    ("Driver", "Driver"),
    ("GPU", "GPU"),
)
_LABELS = dict(_BOXES)
# The check that decides whether an absent layer is missed, and the facts a box stands on.
_MISSED = {"CUDA": "toolkit-missing", "cuDNN": "cudnn-missing"}
_FACTS = (
    ("python.frameworks", "Framework"),
    ("python", "Python"),
    ("host", "Python"),
    ("toolkits", "CUDA"),
    ("compilers", "CUDA"),
    ("cudnn", "cuDNN"),
    ("driver", "Driver"),
)


@dataclass(frozen=True)
class Layer:
    """One box of the picture; `meets` says what it and the boxes below ask of each other."""

    name: str
    text: str
    state: str
    findings: tuple[Finding, ...]
    meets: tuple[str, ...] = ()


def layers(report: Report, facts: Facts) -> list[Layer]:
    """Return the boxes from Python down to the GPU, each with the findings that concern it."""
    said = dict(summarize_machine(facts))
    if report.asked and said["Frameworks"] == "none":
        said["Frameworks"] = f"not installed; asked for: {', '.join(report.asked)}"
    elif report.asked:
        said["Frameworks"] += f"; asked for: {', '.join(report.asked)}"
    meets = {
        "Framework": _describe_requirements(facts),
        "CUDA": _describe_driver_limit(facts),
        "Driver": _describe_gpu_code(facts),
    }
    boxes = []
    for name, label in _BOXES:
        concerned = tuple(item for item in report.findings if name in _boxes_of(item))
        state = _state(concerned, said[label])
        if state == ABSENT and _MISSED.get(name) in report.checked and _framework_builds(facts):
            state = NEEDLESS  # the check looked, and missed nothing
        if state == SOUND and report.asked and name == "Framework" and not _framework_builds(facts):
            state = ASKED
        boxes.append(Layer(name, said[label], state, concerned, meets.get(name, ())))
    return boxes


def _boxes_of(finding: Finding) -> set[str]:
    if finding.id == "probe-failed":  # it concerns whatever could not be read
        read = [next((box for fact, box in _FACTS if item.fact.startswith(fact)), "GPU") for item in finding.evidence]
        return set(read) or {"GPU"}
    if finding.id.startswith("cudnn-"):
        return {"cuDNN"}
    if finding.id.startswith(("framework-", "platform-no")) or finding.id in ("release-unknown", "keras-mismatch"):
        return {"Framework"}
    layer = catalogue()[finding.id].layer
    return {{"hardware": "GPU", "driver": "Driver", "toolkit": "CUDA", "python": "Python"}.get(layer, "GPU")}


def _state(findings: tuple[Finding, ...], text: str) -> str:
    states = {_finding_state(item) for item in findings}
    worst = next(state for state in _WORST_FIRST if state in states or state == SOUND)
    if worst == SOUND and text.startswith("unknown"):
        return UNREAD
    return ABSENT if worst == SOUND and text in _NOTHING else worst


def _finding_state(finding: Finding) -> str:
    if finding.severity == NOTE:
        return SOUND
    if finding.verdict == UNDETERMINED:
        return UNREAD
    return BROKEN if finding.severity == ERROR else WARNED


def _framework_builds(facts: Facts) -> tuple[FrameworkBuild, ...]:
    return facts.python.frameworks.value or ()


def _describe_requirements(facts: Facts) -> tuple[str, ...]:
    wanted = []
    for build in _framework_builds(facts):
        parts = [("CUDA", build.cuda_version.value), ("cuDNN", build.cudnn_version.value)]
        shown = " and ".join(f"{name} {version}" for name, version in parts if version)
        wanted += [f"{build.distribution} was built for {shown}"] if shown else []
    return tuple(wanted)


def _describe_driver_limit(facts: Facts) -> tuple[str, ...]:
    ceiling = facts.driver.cuda_driver_version.value
    return (f"the driver runs CUDA up to {ceiling}",) if ceiling else ()


def _describe_gpu_code(facts: Facts) -> tuple[str, ...]:
    """Describe for which GPUs the frameworks hold code."""
    said = []
    for build in _framework_builds(facts):
        named = build.compute_capabilities.value or ()
        found = [match for match in (re.search(r"(\d+)(\d)[a-z]?$", one) for one in named) if match]
        numbers = sorted({(int(match[1]), int(match[2])) for match in found})
        if numbers:
            shown = ", ".join(f"{major}.{minor}" for major, minor in numbers)
            said.append(f"{build.distribution} holds code for compute capability {shown}")
    return tuple(said)


def print_text(report: Report, snapshot: Snapshot, *, color: bool, verbose: bool, quiet: bool) -> None:
    """Print a report to stdout; `quiet` leaves the verdict and its cause, `verbose` adds evidence and notes."""
    print_lines(_lines(report, snapshot, verbose=verbose, quiet=quiet), color=color)


def render_text(report: Report, snapshot: Snapshot) -> str:
    """Render a report as the text that a pipe gets."""
    return join_lines(_lines(report, snapshot, verbose=False, quiet=False))


def _lines(report: Report, snapshot: Snapshot, *, verbose: bool, quiet: bool) -> list[Line]:
    """Put a bad verdict first, and a good one below what it is about; the last line is what to type."""
    shown = [finding for finding in report.findings if _is_shown(finding, verbose=verbose, quiet=quiet)]
    overview = [] if quiet else _overview_lines(report, snapshot.facts)
    overview += [("Matrix      ", f"data of {report.matrix}", "")] if verbose and overview and report.matrix else []
    counts = [] if quiet else [_count_line(report, len(report.findings) - len(shown))]
    verdict = [verdict_line(report)]
    if report.obtained_by is not None and not quiet:
        verdict += _format_command(report.obtained_by.purpose_on(report.system), report.obtained_by, report.system)
    verdict += counts
    is_good, between = report.verdict == COMPATIBLE, _BLANK[: len(overview)]
    lines = [*overview, *between, *verdict] if is_good else [*verdict, *between, *overview]
    if shown and shown[0].severity == NOTE and not verbose:
        lines += _BLANK
    steps, fix_command = numbered_steps(report), () if verbose else report.fix_command
    for finding in shown:
        lines += finding_lines(finding, report.system, verbose=verbose, steps=steps, fix_command=fix_command)
    return with_closing(lines, report, fix_command)


_BLANK: list[Line] = [("", "", "")]
_ABOUT = {"Machine": ("glibc-", "platform-", "cpu-", "os-"), "Compiler": ("host-compiler-",)}  # lines without a box


def _overview_lines(report: Report, facts: Facts) -> list[Line]:
    """Describe the machine, each line with what is wrong with it."""
    boxes = {_LABELS[box.name]: (box.state, box.findings) for box in layers(report, facts)}
    lines: list[Line] = []
    for label, text in summarize_machine(facts):
        about = tuple(item for item in report.findings if item.id.startswith(_ABOUT.get(label, ("-",))))
        state, findings = boxes.get(label) or (_state(about, text), about)
        wrong = [item.id for item in findings if item.caused_by is None and _finding_state(item) == state != SOUND]
        said = f" ({state}: {', '.join(dict.fromkeys(wrong))})" if wrong else ""
        lines.append((f"{label:<11} ", inert(text) + said, state))
    return lines


def with_closing(lines: list[Line], report: Report, fix_command: tuple[str, ...] = ()) -> list[Line]:
    """End with the command to type first; without one where nothing is wrong, or where it stands there already."""
    wrong = {item.id for item in report.findings if item.severity != NOTE}
    wanted = [step for step in report.steps if wrong & {*step.resolves}]
    if not wanted:
        return lines
    first, is_ask = wanted[0], isinstance(wanted[0].action, AskPerson)
    is_fix = bool(fix_command) and changes_environment(first.action)
    action = RunEnvcheck(fix_command) if is_fix else first.action
    closing: Line = (
        ("Do this first: ", inert(action.purpose_on(report.system)), "")
        if is_ask
        else command_line(action, report.system)
    )
    if is_fix:  # it is the same for each finding
        lines = [line for line in lines if line != closing]
    if closing[1] in lines[-1][1] if is_ask else closing == lines[-1]:
        return lines
    lead: Line = ("", "Type this:" if is_fix or len(wanted) == 1 else "Type this first:", "")
    return [*lines, *_BLANK, *([] if is_ask else [lead]), closing]


def numbered_steps(report: Report) -> tuple[Step, ...]:
    """List the steps of the plan that fixes a report; () if there is nothing to number or to join."""
    causes = (item for item in report.findings if item.caused_by is None and item.severity != NOTE)
    fixes = [item.fix for item in causes if item.fix]
    if len(fixes) < 2 and not any(fix.actions for fix in fixes):
        return ()
    return report.steps


def _installs_framework(action: Action, system: str) -> bool:
    return action.command(system)[:2] == ("envcheck", "install")


def _is_shown(finding: Finding, *, verbose: bool, quiet: bool) -> bool:
    if quiet:
        return finding.primary or finding.verdict == UNDETERMINED
    return verbose or finding.caused_by is None


def verdict_line(report: Report) -> Line:
    """Format the verdict and its headline."""
    return (f"{report.verdict.upper()}  ", inert(report.headline), report.verdict)


def finding_lines(
    finding: Finding,
    system: str,
    *,
    verbose: bool,
    steps: tuple[Step, ...] = (),
    fix_command: tuple[str, ...] = (),
) -> list[Line]:
    """Format one finding with its evidence and its fix, for the shells of `system`.

    `steps` are those of the plan that fixes the whole report; `fix_command` takes those in the environment.
    """
    kind = UNDETERMINED if finding.verdict == UNDETERMINED else finding.severity
    title = finding.id + (" (the cause)" if finding.is_the_cause else "")
    if finding.caused_by:
        title += f" (follows from {finding.caused_by})"
    if finding.severity == NOTE and not verbose:
        installs = [item for item in (finding.fix.actions if finding.fix else ()) if _installs_framework(item, system)]
        note = ("note: ", f"{title}: {inert(finding.message)}", NOTE)  # nothing else to do about it: one line
        return [note, *(line for item in installs for line in _format_command("", item, system))]
    lines: list[Line] = [("", "", ""), (f"{kind}: ", title, kind), ("  ", inert(finding.message), "")]
    evidence = finding.evidence if verbose else finding.evidence[:3]
    lines += [(_label(item), _format_evidence(item, verbose=verbose), "dim") for item in evidence]
    if steps:
        ways = finding.fix if finding.fix and finding.caused_by is None else None
        if (
            fix_command
            and ways
            and any(finding.id in step.resolves and changes_environment(step.action) for step in steps)
        ):
            return lines + _format_command_for_all(finding, ways, system, steps, fix_command)
        return lines + _format_steps(finding, system, steps) + (_format_alternatives(ways, system) if ways else [])
    return lines + (fix_lines(finding.fix, system) if finding.fix else [])


def fix_lines(fix: Remedy, system: str) -> list[Line]:
    """Format a fix with its commands and its alternatives, for the shells of `system`."""
    lines: list[Line] = [("  fix: ", inert(fix.summary), "")]
    for action in fix.actions:
        lines += _format_command(action.purpose_on(system), action, system)
    return lines + _format_alternatives(fix, system)


def _format_alternatives(fix: Remedy, system: str) -> list[Line]:
    lines: list[Line] = []
    for way in fix.alternatives:
        lines.append(("  or: ", inert(way.summary), ""))
        for action in way.actions:
            lines += _format_command(action.purpose_on(system), action, system)
    return lines


def _format_steps(finding: Finding, system: str, steps: tuple[Step, ...]) -> list[Line]:
    """Format the steps that resolve a finding; a step's command stands with the first finding that it resolves."""
    wanted = finding.caused_by or finding.id
    own = [(number, step) for number, step in enumerate(steps, 1) if wanted in step.resolves]
    counted = f"step{'s' if len(own) > 1 else ''} {', '.join(str(number) for number, _ in own)}"
    numbers = f" ({counted})" if own and len(steps) > 1 else ""
    if finding.fix is None:
        return [(f"  fix{numbers}: ", f"fixed together with {wanted}", "dim")] if own else []
    lines: list[Line] = [(f"  fix{numbers}: ", inert(finding.fix.summary), "")]
    for _, step in own:
        if step.resolves[0] == finding.id and not isinstance(step.action, AskPerson):
            said = step.purpose == finding.fix.summary
            action = replace(step.action, purpose="") if said else step.action
            lines += _format_command(action.purpose_on(system), step.action, system)
    return lines


def _format_command_for_all(
    finding: Finding, fix: Remedy, system: str, steps: tuple[Step, ...], fix_command: tuple[str, ...]
) -> list[Line]:
    """Format the one command that takes the steps in the environment, and the steps that a person takes."""
    lines: list[Line] = [("  fix: ", inert(fix.summary), "")]
    for step in steps:
        if step.resolves[0] == finding.id and not changes_environment(step.action) and not _only_shows(step.action):
            action = replace(step.action, purpose="") if step.purpose == fix.summary else step.action
            lines += _format_command(action.purpose_on(system), step.action, system)
    return [*lines, *_format_command("", RunEnvcheck(fix_command), system)]


def _only_shows(action: Action) -> bool:
    return isinstance(action, AskPerson) or action.lasting == CHANGES_NOTHING


def _format_command(purpose: str, action: Action, system: str) -> list[Line]:
    said: list[Line] = [("    # ", inert(purpose), "dim")] if purpose else []
    return [*said, command_line(action, system)]


def command_line(action: Action, system: str) -> Line:
    """Format a command as it is typed."""
    return ("    $ ", action_line(action, system, folded=True), "bold")


def _label(item: Evidence) -> str:
    return "  seen: " if item.citation is None else "  known: "  # on this machine; from the matrix


def _format_evidence(item: Evidence, *, verbose: bool) -> str:
    said = f"{item.fact}: {item.shown}"
    if item.source is not None and item.source.where:
        said += f" ({item.source.where if verbose else _shorten(item.source.where)})"
    if item.citation is not None:
        said += f" [{item.citation.url_or_artifact}]"
    return inert(said)


def _shorten(where: str) -> str:
    places = where.split(", ")
    return where if len(places) <= 3 else ", ".join(places[:2]) + f" and {len(places) - 2} more places"


def _count_line(report: Report, hidden: int) -> Line:
    said = f"{summarize_checks(report)}."
    if hidden:
        said += f" {hidden} finding{'s follow' if hidden > 1 else ' follows'} from the others: -v shows them."
    return ("", said, "dim")


def summarize_checks(report: Report) -> str:
    """Count the checks, and those that failed, warn or could not be decided."""
    worst: dict[str, str] = {}
    for item in report.findings:
        state = _finding_state(item)
        worst[item.id] = min(state, worst.get(item.id, state), key=_WORST_FIRST.index)
    counts = {state: list(worst.values()).count(state) for state in _WORST_FIRST}
    said = [f"{len(report.checked)} check{'' if len(report.checked) == 1 else 's'}", f"{counts[BROKEN]} failed"]
    if counts[WARNED]:
        said.append(f"{counts[WARNED]} warning{'' if counts[WARNED] == 1 else 's'}")
    return ", ".join([*said, *([f"{counts[UNREAD]} undetermined"] if counts[UNREAD] else [])])

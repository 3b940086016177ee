"""Conclude from a log, and from the machine's facts where they are given, to one root cause."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from envcheck.actions import Action, InstallPackages, RunEnvcheck, Show
from envcheck.diagnosis import with_remedies, with_steps
from envcheck.explain.facts import stated_facts
from envcheck.explain.log import Claim, Log, Strength, is_consequence, is_second_reading, rank_claims, root_of
from envcheck.explain.problem import ClaimValues, machine_situation, problem_of, situation_of
from envcheck.explain.reasons_cuda import architecture_claims, library_claims, version_claims
from envcheck.explain.reasons_driver import driver_claims, harmless_without_gpu, memory_claims
from envcheck.explain.reasons_python import pip_claims, python_claims, requirement_parts
from envcheck.explain.scan import Scan
from envcheck.explain.signatures import Event, signatures_by_name
from envcheck.explain.signatures import rivals as rival_rows
from envcheck.matrix.query import Matrix
from envcheck.model import (
    COMPATIBLE,
    ENVIRONMENT,
    ERROR,
    INCOMPATIBLE,
    NOTE,
    UNDETERMINED,
    WARNING,
    Alternative,
    Evidence,
    Facts,
    Finding,
    Remedy,
    Report,
    Source,
    dataclass,
    replace,
)
from envcheck.remedies import for_system, remedy_for
from envcheck.rules.catalogue import catalogue, rank_findings

if TYPE_CHECKING:
    from envcheck.rules.context import Target


NOISE = "benign-noise"


@dataclass(frozen=True)
class Reading:
    """Logs with the verdict on them."""

    report: Report
    scan: Scan
    files: tuple[str, ...]
    notes: tuple[str, ...] = ()  # what could not be read to its end
    with_machine: bool = False  # judged together with a machine's facts


def main_finding(report: Report) -> Finding | None:
    """Return the primary finding, else the first incompatibility."""
    found = [item for item in report.findings if item.primary]
    return next(iter(found or [item for item in report.findings if item.verdict == INCOMPATIBLE]), None)


def line_that_matters(reading: Reading) -> Event | None:
    """Return the message that the main finding rests on; None where it rests on the machine's facts alone."""
    finding = main_finding(reading.report)
    shown = _places(finding) if finding else ()
    by_place = {where(event): event for event in reversed(reading.scan.events)}
    return next((by_place[place] for place in shown if place in by_place), None)


def harmless_lines(reading: Reading) -> tuple[Event, ...]:
    """List the lines that mean nothing, each once: noise by nature, and what the judgement showed to be noise here."""
    findings = reading.report.findings
    said = {place for item in findings if item.id == NOISE for place in _places(item)}
    weighty = {place for item in findings if item.id != NOISE for place in _places(item)}
    known = signatures_by_name()
    kinds: dict[str, Event] = {}
    for event in reading.scan.events:
        noise = event.signature in known and known[event.signature].role == "noise"
        if where(event) not in weighty and (noise or where(event) in said):
            kinds.setdefault(where(event), event)
    return tuple(kinds.values())


def where(event: Event) -> str:
    """Name the place of a message as evidence names it: file:line."""
    return f"{event.file}:{event.line}"


def _places(finding: Finding) -> tuple[str, ...]:
    return tuple(item.source.where for item in finding.evidence if item.fact == "log" and item.source is not None)


_SHOWN = 6  # lines shown of one claim


def _shown(events: Iterable[Event]) -> tuple[Evidence, ...]:
    """Show the lines of the log that speak for something."""
    rows = islice(events, _SHOWN)
    return tuple(Evidence("log", event.text, Source("file", where(event), event.text)) for event in rows)


def finding_of(claim: Claim, root: Claim, fix: Remedy | None) -> Finding:
    """Turn a claim into a finding; what the root explains is linked to it, the rest is a warning beside it."""
    if claim is root:
        severity = ERROR if claim.severity == ERROR else WARNING
        return Finding(claim.id, INCOMPATIBLE, severity, claim.message, _shown(claim.events), fix)
    cause = root.id if is_consequence(claim, root) else None
    beside = WARNING if root.severity == ERROR else NOTE  # never above the root
    return Finding(claim.id, INCOMPATIBLE, beside, claim.message, _shown(claim.events), fix, caused_by=cause)


def rival_findings(root: Claim, known: Iterable[str], system: str) -> tuple[Finding, ...]:
    """Name each cause that fits the root's messages as well, with the command that tells them apart."""
    seen = set(known)
    return tuple(
        Finding(
            other,
            UNDETERMINED,
            WARNING,
            f"Fits the same lines. {catalogue()[other].headline}",
            (),
            _question(root, other, system),
        )
        for other in dict.fromkeys(root.rivals)
        if other not in seen
    )


def _question(root: Claim, other: str, system: str) -> Remedy | None:
    for row in rival_rows():
        forward = other in row.either and (root.id in row.or_ or not row.or_)
        if forward or (root.id in row.either and other in row.or_):
            look = Show(row.command, "tells the two apart", ENVIRONMENT, row.systems)
            return for_system(Remedy(row.tells, (look,)), system)
    return None


@dataclass(frozen=True)
class Machine:
    """What the rules found in the facts."""

    findings: tuple[Finding, ...]
    given: bool = False  # by a snapshot, not by the log alone
    checked: tuple[str, ...] = ()  # ids of the rules that ran

    def finding(self, finding_id: str) -> Finding | None:
        """Return the doctor's finding of an id."""
        return next((item for item in self.findings if item.id == finding_id), None)

    def claims(self, said: Sequence[Claim]) -> Iterator[Claim]:
        """Weigh what the rules found by how well it explains what the log says."""
        top = max(said, key=lambda claim: claim.strength, default=None)
        for item in self.findings:
            yield Claim(item.id, self._strength(item, said, top), item.message, (), item.severity)

    def _strength(self, item: Finding, said: Sequence[Claim], top: Claim | None) -> Strength:
        explained = {*catalogue()[item.id].explains, item.id}
        if top is not None and item.id != top.id and top.strength >= Strength.NAMED_PLACE and not self.given:
            return Strength.UNSUPPORTED
        if top is not None and top.id in explained and (item.severity == ERROR or item.id == top.id):
            return Strength.FINAL
        if item.severity != ERROR or item.caused_by:
            is_quiet = top is None or top.strength < Strength.UNUSED_GPU
            return Strength.UNUSED_GPU if is_quiet else Strength.UNSUPPORTED
        if any(claim.id in explained or item.id in claim.rivals for claim in said):
            return Strength.NOT_FOUND
        is_decided = top is not None and top.strength >= Strength.DECIDED
        return Strength.UNSUPPORTED if is_decided else Strength.PROBABLE


def machine_findings(log: Log, target: Target | None = None) -> Machine:
    """Run the rules where the facts, or the log itself, say something of the machine."""
    facts = stated_facts(log)
    if facts is None:
        return Machine(())
    from envcheck.explain.facts import target_of
    from envcheck.rules import Context, evaluate

    context = Context(facts, log.matrix, target_of(log, target))
    report = with_remedies(evaluate(context), machine_situation(log, context))
    found = tuple(item for item in report.findings if item.verdict == INCOMPATIBLE and item.severity != NOTE)
    return Machine(found, log.with_facts, report.checked)


_REASONS = (
    library_claims, version_claims, architecture_claims, pip_claims, memory_claims, driver_claims, python_claims,
)  # fmt: skip
_CRASHES = ("segfault", "aborted", "tf-native-failed", "ninja-failed", "dnn-library-not-found", "python-traceback")
# What a machine without a GPU, or one whose GPU works, may say about drivers and CUDA without anything being wrong.
_EXCUSED = (
    "driver-missing", "libcuda-not-on-path", "toolkit-missing", "cudnn-missing", "driver-not-in-container",
    "visible-devices-hidden", "framework-cuda-extra-missing", "driver-device-nodes", "toolkit-wrong-version",
)  # fmt: skip


def judge_log(
    events: Sequence[Event],
    matrix: Matrix,
    facts: Facts | None,
    target: Target | None = None,
) -> Report:
    """Name the root cause of what `events` report, with the lines that show it; `target` is what was to be done."""
    log = Log(events, matrix, facts)
    machine = machine_findings(log, target)
    claims = [*_direct(log), *(claim for reason in _REASONS for claim in reason(log))]
    excused: list[Claim] = []
    standing: list[Claim] = []
    for claim in claims:
        (excused if _is_excused(log, claim) else standing).append(claim)
    noise = tuple(dict.fromkeys((*_noise(log), *(event for claim in excused for event in claim.events))))
    ordered = rank_claims((*standing, *machine.claims(claims)))
    root = root_of(ordered)
    notes = [*(_noise_note(noise) or _healthy_note(log)), *_remedies(log)]
    if root is None:
        return replace(_without_cause(log, ordered, notes, has_noise=bool(noise)), system=log.os)
    found = [_finding(log, machine, claim, root) for claim in ordered if not is_second_reading(claim, root)]
    known = {finding.id for finding in found}
    system = next(filter(None, (ClaimValues(log, claim).system for claim in (root, *ordered))), "")
    ranked = rank_findings([*found, *rival_findings(root, known, system), *notes])
    headline = catalogue()[root.id].headline
    return with_steps(Report(INCOMPATIBLE, "gpu", headline, ranked, machine.checked, system=system))


def _finding(log: Log, machine: Machine, claim: Claim, root: Claim) -> Finding:
    """Make the finding of a claim, joined with what the doctor's rules say of the same cause."""
    problem, situation = problem_of(log, claim), situation_of(log, claim)
    own = finding_of(claim, root, remedy_for(claim.id, problem, situation))
    ruled = machine.finding(claim.id)
    if ruled is None:
        return replace(own, problem=problem)
    described = situation.plan_command(problem.framework) if _installs_framework(ruled.fix, log.matrix) else ()
    fix = _joined(ruled.fix, own.fix, described)
    joined: Finding = replace(own, evidence=(*own.evidence, *ruled.evidence), fix=fix, problem=ruled.problem)
    return joined


def _installs_framework(fix: Remedy | None, matrix: Matrix) -> bool:
    actions = fix.actions if fix else ()
    texts = (text for item in actions if isinstance(item, InstallPackages) for text in item.requirements)
    names = (parts[0] for text in texts if (parts := requirement_parts(text)) is not None)
    return any(matrix.framework_of(name) for name in names)


def _joined(ruled: Remedy | None, own: Remedy | None, described: tuple[Action, ...]) -> Remedy | None:
    """Return the remedy for what the facts show; that for what the log says stays where there is no other.

    The line that plans for the machine as the log describes it (`described`) stays in any case, as another way. So do
    the actions of the log's remedy where the facts' remedy is a sentence alone.
    """
    if ruled is None or own is None:
        return ruled or own
    asked = [item for item in (*own.actions, *described) if isinstance(item, RunEnvcheck)]
    given = {*ruled.actions, *(item for way in ruled.alternatives for item in way.actions)}
    planned = [item for item in asked if item.words[0] == "plan" and len(item.words) > 2 and item not in given]
    ways = [Alternative("Plan for the machine as the log describes it.", tuple(planned[:1]))] if planned else []
    steps = tuple(item for item in own.actions if item not in asked)
    if not ruled.actions and steps:
        ways.insert(0, Alternative(own.summary, steps))
    return replace(ruled, alternatives=(*ruled.alternatives, *ways)) if ways else ruled


def _without_cause(log: Log, claims: tuple[Claim, ...], notes: list[Finding], *, has_noise: bool) -> Report:
    symptoms = [Finding("probe-failed", UNDETERMINED, "error", claim.message, _shown(claim.events)) for claim in claims]
    asked = _unexplained(log)
    if symptoms or asked:
        return Report(
            UNDETERMINED, "gpu", "The log shows that something fails, not why.", (*symptoms, *asked, *notes), ()
        )
    if has_noise or log.is_healthy:
        return Report(COMPATIBLE, "gpu", "All that envcheck knows of this log is harmless.", tuple(notes), ())
    calm = log.of("smi-gpu-row", "smi-gpu-row-mode", "python-user-warning")
    if calm:
        message = "Nothing in this log says that anything fails."
        note = Finding(NOISE, COMPATIBLE, NOTE, message, _shown(calm))
        return Report(COMPATIBLE, "gpu", message, (note, *notes), ())
    return Report(UNDETERMINED, "gpu", "This log holds no message that envcheck knows.", tuple(notes), ())


def _unexplained(log: Log) -> tuple[Finding, ...]:
    known = signatures_by_name()
    shown = [
        item for item in log.events if known[item.signature].role == "symptom" and not known[item.signature].finding
    ]
    if log.is_healthy:  # a GPU that is used does not explain a crash
        shown = [item for item in shown if item.signature in _CRASHES]
    if not shown:
        return ()
    message = " ".join(dict.fromkeys(known[item.signature].means for item in shown))
    return (Finding("probe-failed", UNDETERMINED, ERROR, f"{message} The log does not say why.", _shown(shown)),)


def _direct(log: Log) -> Iterator[Claim]:
    """Make a claim of each message that points to one cause by itself."""
    known = signatures_by_name()
    for event in log.events:
        signature = known[event.signature]
        if signature.finding and signature.role in ("cause", "symptom"):
            message = _filled(signature.means, event) or event.text
            yield Claim(signature.finding, Strength.named(signature.strength), message, (event,), signature.severity)


def _filled(means: str, event: Event) -> str:
    for name, value in event.captures:
        means = means.replace("{" + name + "}", value)
    return means if "{" not in means else means.split("{", 1)[0].rstrip(" (:;,")


def _is_excused(log: Log, claim: Claim) -> bool:
    if claim.id == "ptxas-problem" and log.has("ptxas-not-on-windows"):
        return claim.strength < Strength.LIKELY
    if log.is_healthy and not log.has_no_gpu and any(map(_is_exception, claim.events)):
        return False  # one program uses the GPU, this one ended over what it says
    return harmless_without_gpu(log) and claim.id in _EXCUSED and claim.strength < Strength.LIKELY


def _is_exception(event: Event) -> bool:
    return re.match(r"\W*[\w.]*(?:Error|Exception): ", event.text) is not None


def _noise(log: Log) -> tuple[Event, ...]:
    known = signatures_by_name()
    return (*(event for event in log.events if known[event.signature].role == "noise"), *log.silenced)


def _noise_note(events: tuple[Event, ...]) -> list[Finding]:
    if not events:
        return []
    known = signatures_by_name()
    said = dict.fromkeys(known[event.signature].means for event in events if known[event.signature].role == "noise")
    message = "These lines are normal and mean no harm. " + " ".join(said)
    return [Finding(NOISE, COMPATIBLE, NOTE, message.strip(), _shown(events))]


def _healthy_note(log: Log) -> list[Finding]:
    known = signatures_by_name()
    shown = tuple(event for event in log.events if known[event.signature].role == "healthy")
    if not shown:
        return []
    return [Finding(NOISE, COMPATIBLE, NOTE, "The log shows a framework that uses a GPU.", _shown(shown))]


def _remedies(log: Log) -> list[Finding]:
    known = signatures_by_name()
    shown = [event for event in log.events if known[event.signature].role == "remedy"]
    if not shown:
        return []
    said = " ".join(dict.fromkeys(known[event.signature].means for event in shown))
    message = f"Do not follow a remedy that the log shows. {said}"
    return [Finding("toolkit-path-conflict", COMPATIBLE, NOTE, message, _shown(shown))]

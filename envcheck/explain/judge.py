"""Conclude from a log, and from the machine's facts where they are given, to one root cause."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from envcheck.actions import Action, InstallPackages, RunEnvcheck, Show
from envcheck.diagnosis import with_remedies, with_steps
from envcheck.explain.log import Claim, Log
from envcheck.explain.problem import Told, machine_situation, problem_of, situation_of
from envcheck.explain.reasons_cuda import architecture_claims, library_claims, version_claims
from envcheck.explain.reasons_driver import driver_claims, harmless_without_gpu, memory_claims
from envcheck.explain.reasons_python import pip_claims, python_claims, requirement_parts
from envcheck.explain.scan import Scan
from envcheck.explain.signatures import Event, signatures_by_name
from envcheck.explain.signatures import rivals as rival_rows
from envcheck.explain.stated import stated_facts
from envcheck.matrix.query import Matrix
from envcheck.model import (
    COMPATIBLE,
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
from envcheck.model.actions import ENVIRONMENT
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


_LEAST = 20  # lighter claims are symptoms that name no cause
_SHOWN = 6  # lines shown of one claim


def strongest(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """Join the claims of one cause and order them: heaviest first, then by the catalogue; never by the log's order."""
    grouped: dict[str, list[Claim]] = {}
    for claim in claims:
        grouped.setdefault(claim.id, []).append(claim)
    joined = map(_join, grouped.values())
    return tuple(sorted(joined, key=lambda claim: (-claim.weight, catalogue()[claim.id].rank)))


def _join(same: list[Claim]) -> Claim:
    """Join the claims of one cause under the heaviest; the first by its words where two weigh the same."""
    ordered = sorted(same, key=lambda claim: (-claim.weight, claim.message))
    first = ordered[0]
    events = tuple(dict.fromkeys(event for claim in ordered for event in claim.events))
    return Claim(first.id, first.weight, first.message, events, first.severity, first.rivals)


def root_of(claims: tuple[Claim, ...]) -> Claim | None:
    """Return the heaviest claim that names a cause."""
    return claims[0] if claims and claims[0].weight >= _LEAST else None


def consequence(claim: Claim, root: Claim) -> bool:
    """Tell whether a cause makes what another claim saw: by the catalogue, or as the lighter reading of one failure."""
    explained = claim.id in catalogue()[root.id].explains
    return explained or claim.weight < 60 or bool(set(claim.events) & set(root.events))


def second_reading(claim: Claim, root: Claim) -> bool:
    """Tell whether a claim only reads the root's own lines in a weaker way: it says nothing more."""
    lines = {(event.file, event.line) for event in root.events}
    return claim is not root and bool(claim.events) and all((event.file, event.line) in lines for event in claim.events)


def evidence(claim: Claim) -> tuple[Evidence, ...]:
    """Show the lines of the log that speak for a claim."""
    return tuple(
        Evidence("log", event.text, Source("file", f"{event.file}:{event.line}", event.text))
        for event in claim.events[:_SHOWN]
    )


def finding_of(claim: Claim, root: Claim, fix: Remedy | None) -> Finding:
    """Turn a claim into a finding; what the root explains is linked to it, the rest is a warning beside it."""
    if claim is root:
        severity = ERROR if claim.severity == ERROR else WARNING
        return Finding(claim.id, INCOMPATIBLE, severity, claim.message, evidence(claim), fix)
    cause = root.id if consequence(claim, root) else None
    beside = WARNING if root.severity == ERROR else NOTE  # never above the root
    return Finding(claim.id, INCOMPATIBLE, beside, claim.message, evidence(claim), fix, caused_by=cause)


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


_ALONE = 68  # what the machine's facts show, where the log does not speak of it
_EXPLAINS = 97  # ... where they explain what the log complains about
_WARNING = 40
_DECIDED = 70  # a message of this weight tells its cause by itself
_PLAIN = 85  # ... and of this one beyond what a log states about the machine in passing


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
        top = max(said, key=lambda claim: claim.weight, default=None)
        for item in self.findings:
            yield Claim(item.id, self._weight(item, said, top), item.message, (), item.severity)

    def _weight(self, item: Finding, said: Sequence[Claim], top: Claim | None) -> int:
        explained = {*catalogue()[item.id].explains, item.id}
        if top is not None and item.id != top.id and top.weight >= _PLAIN and not self.given:
            return 1
        if top is not None and top.id in explained and (item.severity == ERROR or item.id == top.id):
            return _EXPLAINS
        if item.severity != ERROR or item.caused_by:
            return _WARNING if top is None or top.weight < _WARNING else 1
        supported = any(claim.id in explained or item.id in claim.rivals for claim in said)
        if top is not None and top.weight >= _DECIDED and not supported:
            return 1
        return _ALONE + (12 if supported else 0)


def machine_findings(log: Log, target: Target | None = None) -> Machine:
    """Run the rules where the facts, or the log itself, say something of the machine."""
    facts = stated_facts(log)
    if facts is None:
        return Machine(())
    from envcheck.explain.asked import target_of
    from envcheck.rules import Context, evaluate

    context = Context(facts, log.matrix, target_of(log, target))
    report = with_remedies(evaluate(context), machine_situation(log, context))
    found = tuple(item for item in report.findings if item.verdict == INCOMPATIBLE and item.severity != NOTE)
    return Machine(found, log.with_facts, report.checked)


_REASONS = (
    library_claims, version_claims, architecture_claims, pip_claims, memory_claims, driver_claims, python_claims,
)  # fmt: skip
_EXCUSABLE = 75  # a heavier claim rests on a message that is no passing remark
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
    ordered = strongest((*standing, *machine.claims(claims)))
    root = root_of(ordered)
    notes = [*(_noise_note(noise) or _healthy_note(log)), *_remedies(log)]
    if root is None:
        return replace(_without_cause(log, ordered, notes, has_noise=bool(noise)), system=log.os)
    found = [_finding(log, machine, claim, root) for claim in ordered if not second_reading(claim, root)]
    known = {finding.id for finding in found}
    system = next(filter(None, (Told(log, claim).system for claim in (root, *ordered))), "")
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
    """Return the remedy for what the facts show; where it has no action, with those for what the log says.

    The line that plans for the machine as the log describes it (`described`) stays in any case, as another way.
    """
    if ruled is None or own is None:
        return ruled or own
    asked = [item for item in (*own.actions, *described) if isinstance(item, RunEnvcheck)]
    if not ruled.actions:
        steps = tuple(item for item in own.actions if item not in asked or item.words[0] != "doctor")
        return replace(ruled, actions=steps, alternatives=own.alternatives)
    given = {*ruled.actions, *(item for way in ruled.alternatives for item in way.actions)}
    planned = [item for item in asked if item.words[0] == "plan" and len(item.words) > 2 and item not in given]
    ways = (Alternative("Plan for the machine as the log describes it.", tuple(planned[:1])),) if planned else ()
    return replace(ruled, alternatives=(*ruled.alternatives, *ways)) if ways else ruled


def _without_cause(log: Log, claims: tuple[Claim, ...], notes: list[Finding], *, has_noise: bool) -> Report:
    symptoms = [Finding("probe-failed", UNDETERMINED, "error", claim.message, evidence(claim)) for claim in claims]
    asked = _unexplained(log)
    if symptoms or asked:
        return Report(
            UNDETERMINED, "gpu", "The log shows that something fails, not why.", (*symptoms, *asked, *notes), ()
        )
    if has_noise or log.is_healthy:
        return Report(COMPATIBLE, "gpu", "All that envcheck knows of this log is harmless.", tuple(notes), ())
    calm = log.of("smi-gpu-row", "smi-gpu-row-mode", "python-user-warning")
    if calm:
        claim = Claim(NOISE, 0, "Nothing in this log says that anything fails.", calm)
        note = Finding(NOISE, COMPATIBLE, NOTE, claim.message, evidence(claim))
        return Report(COMPATIBLE, "gpu", claim.message, (note, *notes), ())
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
    claim = Claim("probe-failed", 0, message, tuple(shown))
    return (Finding("probe-failed", UNDETERMINED, "error", f"{message} The log does not say why.", evidence(claim)),)


def _direct(log: Log) -> Iterator[Claim]:
    """Make a claim of each message that points to one cause by itself."""
    known = signatures_by_name()
    for event in log.events:
        signature = known[event.signature]
        if signature.finding and signature.role in ("cause", "symptom"):
            message = _filled(signature.means, event) or event.text
            yield Claim(signature.finding, signature.weight, message, (event,), signature.severity)


def _filled(means: str, event: Event) -> str:
    for name, value in event.captures:
        means = means.replace("{" + name + "}", value)
    return means if "{" not in means else means.split("{", 1)[0].rstrip(" (:;,")


def _is_excused(log: Log, claim: Claim) -> bool:
    if claim.id == "ptxas-problem" and log.has("ptxas-not-on-windows"):
        return claim.weight < _EXCUSABLE
    if log.is_healthy and not log.has_no_gpu and any(map(_is_exception, claim.events)):
        return False  # one program uses the GPU, this one ended over what it says
    return harmless_without_gpu(log) and claim.id in _EXCUSED and claim.weight < _EXCUSABLE


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
    claim = Claim(NOISE, 0, message, events)
    return [Finding(NOISE, COMPATIBLE, NOTE, message.strip(), evidence(claim))]


def _healthy_note(log: Log) -> list[Finding]:
    known = signatures_by_name()
    shown = tuple(event for event in log.events if known[event.signature].role == "healthy")
    if not shown:
        return []
    claim = Claim(NOISE, 0, "The log shows a framework that uses a GPU.", shown)
    return [Finding(NOISE, COMPATIBLE, NOTE, claim.message, evidence(claim))]


def _remedies(log: Log) -> list[Finding]:
    known = signatures_by_name()
    shown = [event for event in log.events if known[event.signature].role == "remedy"]
    if not shown:
        return []
    said = " ".join(dict.fromkeys(known[event.signature].means for event in shown))
    claim = Claim("toolkit-path-conflict", 0, f"Do not follow a remedy that the log shows. {said}", tuple(shown))
    return [Finding(claim.id, COMPATIBLE, NOTE, claim.message, evidence(claim))]

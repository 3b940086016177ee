"""Conclude from a log, and from the machine's facts where they are given, to one root cause."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from envcheck import rules
from envcheck.actions import Action, RunEnvcheck, Show
from envcheck.diagnosis import with_remedies, with_steps
from envcheck.explain.claim_values import (
    ClaimValues,
    is_known_distribution,
)
from envcheck.explain.cures import build_cure, names_of
from envcheck.explain.ending import Ending
from envcheck.explain.facts import MISSING_RELEASES, build_context
from envcheck.explain.last_words import judge_compiled, judge_raised, judge_stated
from envcheck.explain.log import (
    Claim,
    Log,
    Strength,
    draw_rows,
    fill_message,
    find_root,
    is_consequence,
    is_framework_module,
    is_second_reading,
    make_claim,
    rank_claims,
)
from envcheck.explain.placements import PLACED
from envcheck.explain.reasons_cuda import (
    architecture_claims,
    are_dropped,
    library_claims,
    version_claims,
)
from envcheck.explain.reasons_driver import driver_claims, memory_claims
from envcheck.explain.reasons_python import REFUSALS, pip_claims, python_claims
from envcheck.explain.refuted import with_unrefuted_remedies
from envcheck.explain.resolver import Clash, find_fitting_releases
from envcheck.explain.scan import Scan, scan
from envcheck.explain.signatures import Event, load_signatures, role_of, signatures_by_name
from envcheck.explain.signatures import load_rivals as rival_rows
from envcheck.explain.survival import (
    TRACEBACK_LINES,
    ends_program,
    expects_gpu_use,
    is_remark,
    is_survived,
    is_unused_gpu,
    weigh_what_failed_last,
)
from envcheck.explain.text import is_exception
from envcheck.matrix.query import Matrix
from envcheck.model import (
    COMPATIBLE,
    ENVIRONMENT,
    ERROR,
    INCOMPATIBLE,
    NOTE,
    OTHER_CAUSE,
    UNDETERMINED,
    WARNING,
    Alternative,
    Evidence,
    Facts,
    Finding,
    Fix,
    Remedy,
    Report,
    Source,
    dataclass,
    list_fields,
    replace,
)
from envcheck.model.fixes import InstallTogether
from envcheck.model.quoting import quote
from envcheck.model.versions import name_of
from envcheck.remedies import fit_to_place, fit_to_system, remedy_of_message, write_fix
from envcheck.remedies.situation import Situation
from envcheck.rules.catalogue import catalogue, rank_findings, shorten_message

if TYPE_CHECKING:
    from envcheck.rules.context import Target


NOISE = "benign-noise"


@dataclass
class Reading:
    """Logs with the verdict on them."""

    report: Report
    scan: Scan
    files: tuple[str, ...]
    notes: tuple[str, ...] = ()  # what could not be read to its end
    with_machine: bool = False  # judged together with a machine's facts

    @property
    def cause(self) -> Finding | None:
        """Return the primary finding, else the first incompatibility; None where none was found."""
        wrong = [item for item in self.report.findings if item.verdict == INCOMPATIBLE]
        return next(
            (item for item in self.report.findings if item.primary), next(iter(wrong), None)
        )

    @property
    def line(self) -> Event | None:
        """Return the message that the cause rests on.

        Return None where it rests on the machine's facts alone.
        """
        places = _list_places(self.cause) if self.cause else ()
        by_place = {event.place: event for event in reversed(self.scan.events)}
        return next((by_place[place] for place in places if place in by_place), None)

    @property
    def harmless(self) -> tuple[Event, ...]:
        """List the lines that mean nothing, each once.

        Noise by nature, and what the judgement showed to be noise here.
        """
        harmless: set[str] = set()
        others: set[str] = set()
        for item in self.report.findings:
            (harmless if item.id == NOISE else others).update(_list_places(item))
        events: dict[str, Event] = {}
        for event in self.scan.events:
            row = signatures_by_name().get(event.signature)
            is_noise = event.place in harmless or (row is not None and row.role == "noise")
            if is_noise and event.place not in others:
                events.setdefault(event.place, event)
        return tuple(events.values())


class LogJudge:
    """Judges scanned logs, together with a machine's facts if they are given."""

    def __init__(self, matrix: Matrix, facts: Facts | None, target: Target) -> None:
        self._matrix, self._facts, self._target = matrix, facts, target

    def __call__(self, scan: Scan, files: tuple[str, ...], notes: Sequence[str] = ()) -> Reading:
        """Judge one scan; `notes` say what could not be read to its end."""
        report = judge_log(scan.events, self._matrix, self._facts, self._target, scan.ending)
        shown = _quote_scan(scan)
        return Reading(report, shown, files, tuple(notes), with_machine=self._facts is not None)

    def read(self, sources: Sequence[tuple[str, Iterable[bytes]]], notes: Sequence[str]) -> Reading:
        """Scan logs, each a name and its bytes in blocks, and judge them.

        Reading them may add to `notes`.
        """
        scanned = scan(sources, load_signatures())
        return self(scanned, tuple(name for name, _ in sources), notes)


def _list_places(finding: Finding) -> tuple[str, ...]:
    return tuple(
        item.source.where
        for item in finding.evidence
        if item.fact == "log" and item.source is not None
    )


_QUOTED_LINES = 6  # lines shown of one claim


def _quote_events(events: Iterable[Event]) -> tuple[Evidence, ...]:
    """Show the lines of the log that speak for something."""
    rows = islice(events, _QUOTED_LINES)
    quoted: list[Evidence] = []
    for event in rows:
        text = quote(event.text)
        quoted.append(Evidence("log", text, Source("file", event.place, text)))
    return tuple(quoted)


def _quote_scan(scan: Scan) -> Scan:
    """Keep of the messages what may be shown: the report rests on what they say, no reader does."""
    events = []
    for event in scan.events:
        captures = tuple((name, quote(value)) for name, value in event.captures)
        text, worker = quote(event.text), quote(event.worker)
        events.append(replace(event, captures=captures, text=text, worker=worker))
    raised = scan.ending.raised
    if raised is not None:
        raised = replace(raised, message=quote(raised.message))
    ending = replace(scan.ending, raised=raised, failed=quote(scan.ending.failed), tail=())
    return replace(scan, events=tuple(events), ending=ending)


def build_finding(claim: Claim, root: Claim, fix: Remedy | None) -> Finding:
    """Turn a claim into a finding.

    What the root explains is linked to it, the rest is a warning beside it.
    """
    severity, cause = WARNING, None
    if claim is not root:
        if is_consequence(claim, root):
            cause = root.id
        if root.severity != ERROR:
            severity = NOTE  # never above the root
    elif claim.severity == ERROR:
        severity = ERROR
    quoted = _quote_events(claim.events)
    message = _quote_message(claim)
    return Finding(claim.id, INCOMPATIBLE, severity, message, quoted, fix, caused_by=cause)


def _quote_message(claim: Claim) -> str:
    """Return a claim's sentence; what a rule says of a machine that was read is no quotation."""
    return quote(claim.message) if claim.events else claim.message


def build_rival_findings(log: Log, root: Claim, known: set[str]) -> tuple[Finding, ...]:
    """Name each cause that also fits, with the command that distinguishes them."""
    if not log.in_wsl:
        known = {*known, "driver-wsl"}
    if log.capabilities and not are_dropped(log, log.capabilities):
        known = {*known, "gpu-arch-too-old"}
    return tuple(
        Finding(
            other,
            UNDETERMINED,
            WARNING,
            f"Fits the same lines. {catalogue()[other].headline}",
            (),
            _find_rival_check(root, other, log.system),
        )
        for other in dict.fromkeys(root.rivals)
        if other not in known
    )


def _find_rival_check(root: Claim, other: str, system: str) -> Remedy | None:
    for row in rival_rows():
        is_first = other in row.first and (root.id in row.second or not row.second)
        if is_first or (root.id in row.first and other in row.second):
            check = Show(row.command, "distinguishes the two causes", ENVIRONMENT, row.systems)
            return fit_to_system(Remedy(row.interpretation, (check,)), system)
    return None


@dataclass
class Machine:
    """What the rules found in the facts."""

    log: Log
    findings: tuple[Finding, ...] = ()
    checked: tuple[str, ...] = ()  # ids of the rules that ran

    def finding(self, finding_id: str) -> Finding | None:
        """Return the doctor's finding of an id."""
        return next((item for item in self.findings if item.id == finding_id), None)

    def decide(self, claim: Claim) -> Claim:
        """Give a claim the rival that the rules find, where they do not find its own cause."""
        if self.finding(claim.id) or claim.id in REFUSALS:
            return claim
        is_weak = claim.strength < Strength.NAMED_PLACE
        for item in filter(None, map(self.finding, claim.rivals)):
            # a cause that explains a weak claim stands above it without that
            is_above = is_weak and claim.id in catalogue()[item.id].explains
            if item.severity == ERROR and not is_above:
                return replace(claim, id=item.id, message=item.message)
        return claim

    def claims(self, log_claims: Sequence[Claim]) -> Iterator[Claim]:
        """Weigh what the rules found by how well it explains what the log says."""
        strongest = max(log_claims, key=lambda claim: claim.strength, default=_NO_CLAIM)
        for item in self.findings:
            is_only_stated = not (log_claims or self.log.has_facts)
            if self.log.is_healthy and (item.severity != ERROR or is_only_stated):
                continue  # the program went on
            severity = item.severity
            if strongest.id == item.id and strongest.severity == ERROR:
                severity = ERROR
            strength = self._strength(item, log_claims, strongest)
            yield Claim(item.id, strength, item.message, (), severity)

    def _strength(self, item: Finding, log_claims: Sequence[Claim], strongest: Claim) -> Strength:
        explained_ids = {*catalogue()[item.id].explains, item.id}
        is_error, is_same = item.severity == ERROR, item.id == strongest.id
        # pip found nothing to install, whatever state the driver is in
        is_refused = self.log.has_facts and self.log.has(*MISSING_RELEASES)
        is_refusal = is_refused and item.id in REFUSALS
        if is_error and is_refusal and not any(claim.id in REFUSALS for claim in log_claims):
            return Strength.REFUSED_PART
        is_decided = strongest.strength >= Strength.NAMED_PLACE and not self.log.has_facts
        if not is_same and is_decided:
            return Strength.UNSUPPORTED
        # of packages that overwrite each other a warning is enough
        is_of_packages = catalogue()[item.id].layer == "python"
        if strongest.id in explained_ids and (is_error or is_same or is_of_packages):
            return Strength.FINAL
        weak = Strength.PROBABLE
        limit = Strength.DECIDED
        if not is_error or item.caused_by:
            weak, limit = Strength.UNUSED_GPU, Strength.UNUSED_GPU
        elif any(claim.id in explained_ids or item.id in claim.rivals for claim in log_claims):
            return Strength.NOT_FOUND
        return weak if strongest.strength < limit else Strength.UNSUPPORTED


_NO_CLAIM = Claim("", Strength.UNSUPPORTED, "")


def judge_machine(log: Log, target: Target | None = None) -> Machine:
    """Run the rules where the facts, or the log itself, say something of the machine."""
    context = build_context(log, target)
    installed = context.python.frameworks.value or context.python.distributions.value
    asked = installed or context.target.requirements
    if not log.has_facts and not asked:
        return Machine(log)
    options = ClaimValues(log, _NO_CLAIM).list_plan_options()
    installer = "" if log.has_facts else log.installer
    situation = Situation(context, options, from_log=not log.has_facts, installer=installer)
    report = with_remedies(rules.evaluate(context), situation)
    findings = tuple(
        item for item in report.findings if item.verdict == INCOMPATIBLE and item.severity != NOTE
    )
    return Machine(log, findings, report.checked)


def list_direct_claims(log: Log) -> Iterator[Claim]:
    """Make a claim of each message that points to one cause by itself."""
    known = signatures_by_name()
    for event in log.events:
        signature = known[event.signature]
        entry = catalogue().get(event.values.get("own_id", ""))
        if entry is not None:  # of a report of envcheck's
            yield Claim(entry.id, Strength.FINAL, entry.headline, (event,))
        elif signature.finding and signature.role in ("cause", "symptom"):
            yield make_claim(signature, (event,), {})


_REASONS = (
    list_direct_claims, draw_rows, library_claims, version_claims, architecture_claims, pip_claims,
    memory_claims, driver_claims, python_claims,
)  # fmt: skip
_CRASHES = (
    "segfault", "aborted", "tf-native-failed", "ninja-failed", "dnn-library-not-found",
    "python-traceback",
)  # fmt: skip


def judge_log(
    events: Sequence[Event],
    matrix: Matrix,
    facts: Facts | None,
    target: Target | None = None,
    ending: Ending = Ending(),  # noqa: B008 - a value that never changes
) -> Report:
    """Name the root cause of what `events` report, with the lines that show it.

    `target` is what was to be done.

    `ending` says how the log ends; leave it out if the program is known to have failed.
    """
    log = Log(events, matrix, facts, ending)
    claims = [claim for reason in _REASONS for claim in reason(log)]
    claims = [_with_cause_there(log, claim) for claim in claims]
    machine = _leave_out_other_packages(log, judge_machine(log, target), claims)
    claims = list(map(machine.decide, claims))
    expects_gpu = expects_gpu_use(log, claims, target, ending)
    excused: list[Claim] = []
    standing: list[Claim] = []
    for claim in claims:
        if _is_excused(log, claim) or is_survived(
            claim, ending, expects_gpu=expects_gpu, uses_gpu=log.is_healthy
        ):
            excused.append(claim)
        else:
            standing.append(claim)
    # with facts, the rules know themselves whether a GPU is meant
    judges_gpu = expects_gpu or log.has_facts
    by_rules = [claim for claim in machine.claims(claims) if judges_gpu or not is_unused_gpu(claim)]
    ordered = rank_claims((*weigh_what_failed_last(standing, ending), *by_rules))
    root = find_root(ordered)
    is_name = root is not None and root.id == "dependency-conflict"
    lowest = Strength.UNUSED_GPU if is_name else Strength.AFTERMATH
    # a weak one points to what stands above it; a limit below it, with its value, says why
    if root is None or root.strength <= lowest or _states_limit(ending, root):
        ordered = rank_claims((*ordered, *_judge_last_words(log, expects_gpu=expects_gpu)))
    root = find_root(ordered)
    unused: tuple[Claim, ...] = ()
    if not (expects_gpu or log.is_healthy):
        unused = rank_claims(filter(is_remark, excused))
    noise = _list_noise(log, excused)
    notes = list(_build_notes(log, noise, unused))
    if root is not None:
        return _report_cause(log, machine, root, ordered, notes)
    harmless = ""
    if unused:
        harmless = _UNUSED_HEADLINE
    elif noise or log.is_healthy:
        harmless = _HARMLESS
        unmet = _build_unmet(log, machine, noise)
        if unmet is not None:
            notes.insert(0, unmet)
            harmless = (
                f"Nothing in this log fails, but what is installed does not fit: {unmet.message}"
            )
    symptoms = _select_symptoms(log, expects_gpu=expects_gpu)
    return _report_without_cause(log, ordered, notes, symptoms, harmless)


def _build_unmet(log: Log, machine: Machine, noise: Sequence[Event]) -> Finding | None:
    """Warn of the last requirement that pip found unmet, and installed all the same."""
    events = [item for item in noise if item.signature == _UNMET and "package" in item.values]
    if not events:
        return None
    text = textwrap.shorten(quote(events[-1].text), _LONGEST, placeholder=" ...")
    claim = Claim("dependency-conflict", Strength.USUAL, text, (events[-1],))
    found = _build_joined_finding(log, machine, claim, claim)
    return replace(found, severity=WARNING, verdict=COMPATIBLE)


def _report_cause(
    log: Log,
    machine: Machine,
    root: Claim,
    ordered: Iterable[Claim],
    notes: list[Finding],
) -> Report:
    """Report the root cause, what else was found, and what fits the root's lines as well."""
    findings = [
        _name_clash(log, _build_joined_finding(log, machine, claim, root))
        for claim in ordered
        if not is_second_reading(claim, root)
    ]
    known = {finding.id for finding in findings}
    ranked = rank_findings([*findings, *build_rival_findings(log, root, known), *notes])
    cause = next(item for item in ranked if item.id == root.id)
    verdict, headline = INCOMPATIBLE, f"{shorten_message(cause)}."
    if root.id == "program-error":
        verdict, headline = OTHER_CAUSE, _name_other_cause(cause)
    report = Report(verdict, "gpu", headline, ranked, machine.checked, system=log.system)
    return with_steps(with_unrefuted_remedies(log, report, ClaimValues(log, root).situation))


def _name_other_cause(cause: Finding) -> str:
    """Say that it is not the environment, and what else is at fault where a sentence is short."""
    general = catalogue()[cause.id].headline
    reason = shorten_message(cause)
    if general.startswith(reason):
        return general
    article, blank, rest = reason.partition(" ")
    if article in ("A", "An", "Another", "The"):
        reason = article.lower() + blank + rest
    return f"{general.partition(':')[0]}: {reason}."


def _name_clash(log: Log, finding: Finding) -> Finding:
    """Name the two requirements of which a resolver told, and the releases that fit."""
    clash = log.ending.clash
    if clash is None or finding.id != "dependency-conflict":
        return finding
    releases = find_fitting_releases(clash, log.matrix)
    fix = clash.remedy
    if clash.first.package == "python" and clash.tool.startswith("uv"):
        fix = finding.fix or fix  # uv's hint: no index has another Python
    elif releases and all(is_known_distribution(name_of(item), log.matrix) for item in releases):
        claim = Claim(finding.id, Strength.OPEN, clash.message)
        cure = InstallTogether(releases, clash.tool)
        fix = write_fix(cure, ClaimValues(log, claim).situation) or fix
    return replace(finding, message=quote(clash.message), fix=fix)


_LONGEST = 200  # characters of an error in a headline
_ANY_FAILURE = ("error-unknown", "python-traceback")  # messages that name nothing


def _judge_last_words(log: Log, *, expects_gpu: bool) -> Iterator[Claim]:
    """Judge what the program states or died of by itself, unless it went on."""
    ending = log.ending

    def is_last(number: int) -> bool:
        return not (ending.succeeds_after(number) or ending.is_quiet_after(number))

    raised, stated = ending.raised, ending.stated
    claim = judge_raised(raised, ending.file) if raised and is_last(raised.number) else None
    said: list[Claim] = []
    if stated and is_last(stated.number):
        said = list(judge_stated(stated, log, ending.file))
    if claim and any(item.id in claim.rivals for item in said):
        yield from said  # another line decides between the two
        return
    if claim is not None:
        yield claim
    if ending.raised or ending.failed or log.has("ninja-failed"):
        yield from judge_compiled(log)
    if stated and not _is_known_line(log, stated.number):
        for item in said:
            if expects_gpu or not is_unused_gpu(item) or is_exception(stated.text):
                yield item


def _states_limit(ending: Ending, root: Claim) -> bool:
    """Return whether a line behind those of the root names a limit and the value that breaks it."""
    last = max((event.last_line for event in root.events), default=0)
    stated = ending.stated if 0 < last < ending.end else None
    if stated is None or not (stated.found and stated.releases.startswith(">")):
        return False
    return last < stated.number


def _is_known_line(log: Log, number: int) -> bool:
    """Return whether a message that says what a line means was seen in it."""
    known = signatures_by_name()
    for event in (*log.events, *log.harmless_events):
        row = known[event.signature]
        says_it = row.finding or row.role not in ("context", "symptom")
        if says_it and number in (event.line, event.last_line) and row.name not in _ANY_FAILURE:
            return True
    return False


def _leave_out_other_packages(log: Log, machine: Machine, claims: Iterable[Claim]) -> Machine:
    """Leave out what the rules found of one package where the log says the same of another."""
    named: dict[str, set[str]] = {}
    for claim in claims:
        if machine.finding(claim.id):
            named[claim.id] = names_of(build_cure(ClaimValues(log, claim)))

    def is_of_others(item: Finding) -> bool:
        names, others = set(item.about.names), named.get(item.id)
        return bool(names and others and not names & others)

    findings = tuple(item for item in machine.findings if not is_of_others(item))
    return replace(machine, findings=findings)


def _build_joined_finding(log: Log, machine: Machine, claim: Claim, root: Claim) -> Finding:
    """Make the finding of a claim, joined with what the doctor's rules say of the same cause."""
    values = ClaimValues(log, claim)
    cure = build_cure(values)
    fix = remedy_of_message(claim.id, values, cure, values.situation)
    finding: Finding = replace(build_finding(claim, root, fix), cure=cure)
    rule_finding = machine.finding(claim.id)
    if rule_finding is None:
        return finding
    rule_fix = rule_finding.fix
    if log.has_facts:
        cure = rule_finding.cure
    else:
        cure = _complete_cure(rule_finding.cure, cure)
    if cure is not None and cure != rule_finding.cure:
        written = write_fix(cure, values.situation)
        rule_fix = fit_to_place(written, values.situation) if written else rule_fix
    merged = _merge_remedies(
        rule_fix,
        fix,
        values.situation.plan_command(values.framework),
        is_measured=log.has_facts,
    )
    evidence = (*finding.evidence, *rule_finding.evidence)
    return replace(finding, evidence=evidence, fix=merged, cure=cure, about=rule_finding.about)


def _complete_cure(cure: Fix | None, stated: Fix | None) -> Fix | None:
    """Add to the fix of a rule what only the log's messages tell."""
    if cure is None or type(stated) is not type(cure):
        return cure
    both = {name: getattr(cure, name) or getattr(stated, name) for name in list_fields(cure)}
    return replace(cure, **both)


def _merge_remedies(
    rule_fix: Remedy | None,
    log_fix: Remedy | None,
    plan_command: tuple[Action, ...],
    *,
    is_measured: bool,
) -> Remedy | None:
    """Return the remedy for what the facts show.

    That for what the log says stays where there is no other.

    The plan for the machine that the log describes (`plan_command`) always stays, as an
    alternative. So do the actions of the log's remedy where the facts' remedy has none.
    """
    if rule_fix is None or log_fix is None:
        return rule_fix or log_fix
    ways: list[Remedy | Alternative] = [rule_fix, *rule_fix.alternatives]
    known = [action for way in ways for action in way.actions]
    summaries = [way.summary for way in ways]
    more: list[Alternative] = []
    steps = tuple(item for item in log_fix.actions if not isinstance(item, RunEnvcheck))
    if steps and not rule_fix.actions:
        more.append(Alternative(log_fix.summary, steps))
    if not is_measured:
        more += [
            way for way in log_fix.alternatives if way.actions and way.summary not in summaries
        ]
    for item in (*log_fix.actions, *plan_command):
        if isinstance(item, RunEnvcheck) and item.plans_framework and item not in known:
            more.append(Alternative("Plan for the machine that the log describes.", (item,)))
            break
    return replace(rule_fix, alternatives=(*rule_fix.alternatives, *more))


_UNUSED, _UNMET = "No GPU is used", "pip-resolver-conflict"
_UNUSED_HEADLINE = f"{_UNUSED}, and nothing fails. If one is meant, add --expect gpu."
_HARMLESS = "Every message that envcheck knows in this log is harmless: nothing to repair."


def _report_without_cause(
    log: Log,
    claims: Sequence[Claim],
    notes: list[Finding],
    unclear: list[Event],
    headline: str,
) -> Report:
    """Report the failures without a cause.

    If there are none, that all is well, for which `headline` says why.
    """
    findings, last = list(notes), ""
    known, ending = signatures_by_name(), log.ending
    line = ending.failed_line
    if line and not (claims or unclear or _is_known_line(log, line)):
        unclear = [Event("error-unknown", (), ending.failed, ending.file, line, line)]
    if unclear:
        meanings = [
            quote(fill_message(known[item.signature].meaning, item.values) or item.text)
            for item in unclear
        ]
        last = _find_last_error(unclear, ending)
        shown = "Nothing that envcheck knows explains" if last else "The log does not show"
        what = "the last error." if last else "the cause."
        message = f"{' '.join(dict.fromkeys(meanings))} {shown} {what}"
        found = _with_next_step(log, _build_symptom(message, unclear), unclear)
        if ending.advice or found.fix is None:
            found = replace(found, fix=_say_what_helps(unclear, ending.advice))
        findings.insert(0, found)
    findings[:0] = [_build_symptom(_quote_message(claim), claim.events) for claim in claims]
    verdict = COMPATIBLE
    harmless = log.select("smi-gpu-row", "python-user-warning", PLACED)
    if claims or unclear:
        verdict, headline = UNDETERMINED, "The log shows a failure, but not its cause."
        if last:
            last = textwrap.shorten(quote(last), _LONGEST, placeholder=" ...")
            headline = f"The last error is none that envcheck knows: {last}"
        elif unclear and not ending.failed:
            headline = f"{meanings[0].rstrip('.')}: the log does not show the cause."
    elif harmless and not headline:
        headline = "Nothing in this log reports a failure: nothing to repair."
        findings.insert(0, _build_note(NOISE, headline, harmless))
    elif not headline and ending.achieved:
        done = textwrap.shorten(quote(ending.achieved), _LONGEST, placeholder=" ...")
        headline = f"Nothing in this log reports a failure; it ends well: {done}"
    elif not headline:
        verdict, headline = UNDETERMINED, "This log contains no message that envcheck knows."
    return Report(verdict, "gpu", headline, tuple(findings), (), system=log.os)


# Sample: RUN python setup.py bdist_wheel > /tmp/build.log 2>&1
_REDIRECTED = re.compile(r"(?:&>|>)\s*([\w./~-]+)(?:\s+2>&1)?")


def _say_what_helps(events: Iterable[Event], advice: str) -> Remedy:
    """Quote the tool's advice; else say which output shows the cause."""
    if advice:
        return Remedy(f"The tool itself says: {quote(advice)}")
    for event in events:
        if (written := _REDIRECTED.search(event.text)) and "2>&1" in event.text:
            name = quote(written[1])
            return Remedy(f"The command wrote what it printed to {name}: explain that file.")
    return Remedy(
        "If this is a part, explain the whole output of the command that failed; of several"
        " processes, that of the one that failed first."
    )


def _find_last_error(unclear: Sequence[Event], ending: Ending) -> str:
    """Return the error that comes last: the exception, where a message names what follows it."""
    raised, last = ending.raised, unclear[-1]
    is_aftermath = any(event.signature not in _ANY_FAILURE for event in unclear)
    if raised and (is_aftermath or raised.number >= last.line):
        return raised.text
    return "" if is_aftermath else last.text


def _with_next_step(log: Log, finding: Finding, events: Sequence[Event]) -> Finding:
    """Add what to run, and to explain in place of this log, to see the cause."""
    claim = Claim(finding.id, Strength.SYMPTOM, finding.message, tuple(events))
    values = ClaimValues(log, claim)
    return replace(finding, fix=remedy_of_message(claim.id, values, None, values.situation))


def _build_symptom(message: str, events: Iterable[Event]) -> Finding:
    return Finding("probe-failed", UNDETERMINED, ERROR, message, _quote_events(events))


def _select_symptoms(log: Log, *, expects_gpu: bool) -> list[Event]:
    """List the messages that show a failure without its cause, and were not survived."""
    known = signatures_by_name()
    remarks: set[int] = set()  # lines
    for item in log.events if not expects_gpu else ():
        kind = known[item.signature].without_gpu
        if kind:
            remarks.add(item.line)
        if kind == "caught":
            remarks.update(range(item.line - TRACEBACK_LINES + 1, item.line))
    for item in log.select("kernel-module-named"):
        if "nvidia" not in item.text.lower():
            remarks.add(item.line)
    return [
        item
        for item in log.events
        if known[item.signature].role == "symptom"
        and not known[item.signature].finding
        and item.line not in remarks
        and not log.ending.succeeds_after(item.last_line)
        # a GPU that is used does not explain a crash
        and (item.signature in _CRASHES or not log.is_healthy)
    ]


# Libraries that a system or a conda package brings: a wheel that lacks another one was built so.
_OF_OTHERS = r"lib(?:mkl|i?omp|gomp|numa|ibverbs|mpi|openblas|GL|X11|ffi|ssl|crypto|lzma|bz2)"


# What conda calls a part of the machine: the cause, the capture of what is required, its name.
_OF_MACHINE = {
    "__cuda": ("driver-too-old", "cuda_wanted", "a driver for CUDA"),
    "__glibc": ("glibc-too-old", "glibc_wanted", "glibc"),
}


def _name_lack_of_machine(claim: Claim, clash: Clash) -> Claim:
    """Name the part of the machine that a package requires newer than it is."""
    needs = clash.demanded
    has = clash.first if needs is clash.second else clash.second
    finding, capture, part = _OF_MACHINE[needs.package]
    wanted, there = (item.releases.partition(",")[0].lstrip("<>=") for item in (needs, has))
    message = f"{needs.requirer} needs {part} {wanted}, and this machine has {there}."
    event = replace(claim.events[0], captures=((capture, wanted),))
    strength = Strength.LIMIT_AND_VALUE
    return replace(claim, id=finding, strength=strength, message=message, events=(event,))


def _with_cause_there(log: Log, claim: Claim) -> Claim:
    """Name the cause that a message has where it stands, by the catalogue."""
    ending = log.ending
    clash = ending.clash
    if claim.id == "dependency-conflict" and clash and clash.first.package in _OF_MACHINE:
        return _name_lack_of_machine(claim, clash)
    weighed = _without_absent_driver(log, claim)
    of_keras = ending.raised is not None and ending.raised.owners[-1:] == ("keras",)
    if of_keras and claim.id == "framework-missing":
        message = f"Keras takes {ClaimValues(log, claim).framework} as its backend: not installed."
        weighed = replace(claim, message=message)
    for place, finding in catalogue()[weighed.id].there.items():
        is_wheel = place == "wheel" and _lacks_wheels_library(log, weighed)
        if not (is_wheel or place in log.situations):
            continue
        message = weighed.message
        if place == "build":
            module = ClaimValues(log, weighed).find_own_capture("module").partition(".")[0]
            message = (
                f"{module or 'What the build imports'} is not installed in the isolated build"
                " environment."
            )
        rivals = (weighed.id, *weighed.rivals)
        return replace(weighed, id=finding, message=message, rivals=rivals)
    return weighed


# Where these are read, no driver is there, unless something names its release.
_DRIVER_ABSENT = ("smi-not-found", "image-driver-not-detected", "nvidia-caps-missing", "lspci-none")


def _without_absent_driver(log: Log, claim: Claim) -> Claim:
    """Read CUDA's error 35, which says the same of no driver as of an old one."""
    absent = [
        event
        for event in log.select(*_DRIVER_ABSENT)
        if event.signature != "nvidia-caps-missing" or "o such file" in event.text
    ]
    is_driver_known = log.driver or log.values("driver_cuda", "cuda_api", "gpus_passed")
    if claim.id != "driver-too-old" or is_driver_known:
        return claim
    if any(event.signature not in _ERROR_35 for event in claim.events):
        return claim
    if not absent:
        return replace(claim, rivals=("driver-missing", *claim.rivals))
    message = "No NVIDIA driver is there: CUDA reports it as it reports one that is too old."
    events = (*claim.events, *absent)
    return replace(claim, id="driver-missing", message=message, events=events)


_ERROR_35 = ("devicequery-35", "driver-init-failure", "cuda-failure-number", "error-unknown")


def _lacks_wheels_library(log: Log, claim: Claim) -> bool:
    """Return whether the import of a framework's wheel lacks a library that it should bring."""
    missing = [event for event in claim.events if event.signature == "import-cannot-open"]
    raised = log.ending.raised
    if not (missing and raised) or log.os == "darwin":
        return False
    is_frameworks = is_framework_module("".join(raised.owners[-1:]))
    return is_frameworks and not re.search(_OF_OTHERS, missing[0].text)


def list_refuted(facts: Facts) -> tuple[str, ...]:
    """List what no words of a program on this machine can mean: it has the instructions."""
    has_avx = "avx" in (facts.host.cpu_flags.value or ())
    return ("cpu-missing-avx",) if has_avx else ()


def _is_excused(log: Log, claim: Claim) -> bool:
    modules = log.values("kernel_module", "kernel_module2", "kernel_module3", "kernel_module4")
    if modules and not any(
        "nvidia" in text.lower() for text in (*modules, *(event.text for event in claim.events))
    ):
        # it is another driver's module that fails
        return claim.id in ("driver-missing", "driver-secure-boot")
    ends = any(map(ends_program, claim.events))
    if any(event.signature == "jax-no-cuda-jaxlib" for event in claim.events):
        # JAX says so of a plugin that does not start, too
        return any("jax_plugins" in event.text for event in log.events)
    if claim.id == "ptxas-problem" and log.has("ptxas-not-on-windows"):
        return claim.strength < Strength.LIKELY
    if not is_unused_gpu(claim):
        return False
    if log.computes_on_gpu and not any(" -> " in event.text for event in claim.events):
        return not ends
    # one program uses the GPU, and another one ended over what it says
    is_other = log.is_healthy and not log.has_no_gpu and ends
    return (log.has_no_gpu or log.is_healthy) and not is_other and claim.strength < Strength.LIKELY


def _list_noise(log: Log, excused: Iterable[Claim]) -> tuple[Event, ...]:
    events = (event for claim in excused for event in claim.events)
    return tuple(dict.fromkeys((*_select_role(log.events, "noise"), *log.harmless_events, *events)))


def _build_notes(log: Log, noise: Sequence[Event], unused: Sequence[Claim]) -> Iterator[Finding]:
    """Say what is harmless, what not to follow, and that no GPU is used where none seems meant."""
    healthy = _select_role(log.events, "healthy")
    if noise:
        message = f"These lines are normal and harmless. {_join_meanings(noise, 'noise')}"
        yield _build_note(NOISE, message.strip(), noise)
    elif healthy:
        yield _build_note(NOISE, "The log shows a framework that uses a GPU.", healthy)
    advice = _select_role(log.events, "remedy")
    if advice:
        message = f"Do not follow the fix that the log suggests. {_join_meanings(advice, 'remedy')}"
        yield _build_note("toolkit-path-conflict", message, advice)
    for claim in unused[:1]:
        message = f"{_UNUSED}: {_quote_message(claim)} If one is meant, add --expect gpu."
        yield _build_note(NOISE, message, claim.events)


def _build_note(finding_id: str, message: str, events: Iterable[Event]) -> Finding:
    return Finding(finding_id, COMPATIBLE, NOTE, message, _quote_events(events))


def _select_role(events: Iterable[Event], role: str) -> tuple[Event, ...]:
    return tuple(event for event in events if role_of(event) == role)


def _join_meanings(events: Iterable[Event], role: str) -> str:
    known = signatures_by_name()
    meanings = (known[event.signature].meaning for event in _select_role(events, role))
    return " ".join(dict.fromkeys(meanings))

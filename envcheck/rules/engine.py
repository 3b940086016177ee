"""Run the rules over facts, judge releases on a machine, and make a report of the findings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from envcheck.host import plugins
from envcheck.model import (
    AT_RUN,
    COMPATIBLE,
    ERROR,
    INCOMPATIBLE,
    NOT_COLLECTED,
    NOT_STATED,
    NOTE,
    UNDETERMINED,
    WARNING,
    Evidence,
    Facts,
    Finding,
    Judged,
    Report,
    Source,
    Unknown,
    replace,
)
from envcheck.model.text import counted, shorten
from envcheck.rules import (  # noqa: F401 - importing these registers their rules
    compilers,
    cuda_wheels,
    cudnn,
    dependencies,
    driver,
    frameworks,
    gpu_architecture,
    hardware,
    linking,
    project,
    python,
    toolkit,
    variables,
)
from envcheck.rules.builds import Build
from envcheck.rules.catalogue import BUILD, catalogue, rank_findings, shorten_message, what_stops
from envcheck.rules.context import RULES, Check, Context, Rule, Target, UndecidedError, once, rule
from envcheck.rules.gpu_releases import cuda_starts
from envcheck.rules.python import DEATH
from envcheck.rules.targets import judged_builds, target_builds, wanted_releases


def evaluate(context: Context, only: frozenset[str] = frozenset()) -> Report:
    """Judge a machine; `only` limits the checks to some finding ids.

    Raises RequestError for a requirement.
    """
    findings, checked = find(context, only)
    return conclude(context, findings, checked)


def find(
    context: Context,
    only: frozenset[str] = frozenset(),
    commands: Sequence[Context] = (),
    *,
    is_only_built: bool = False,
) -> tuple[list[Finding], set[str]]:
    """Return what a report is made of: the findings, not yet ranked, and the ids that were decided.

    `commands` are what was installed before, each asked for in the environment as it was then: of
    those is decided whether they can be installed. Of what `is_only_built` and never runs, no more
    is decided.
    """
    wanted_releases(context)  # one that cannot be judged is the caller's error, not a broken check
    run = _Run(context, only)
    for command in (*commands, *([context] if is_only_built else [])):
        run.decide_installation(command)
    if not is_only_built:
        for item in _list_asked_rules(context):
            run.decide(item)
    undecided = run.undecided()
    found = variables.weigh_rescues(context, _without_repeats(run.findings, undecided))
    findings = [*found, *undecided, *_list_left_out()]
    if not context.python.imports.value or (only and DEATH not in only):
        return findings, run.checked
    from envcheck.rules.imports import tried_imports, weigh_imports  # 1 ms

    if not tried_imports(context):
        return findings, run.checked
    return weigh_imports(context, findings), {*run.checked, DEATH}


@once
def _list_asked_rules(context: Context) -> list[Rule]:
    """List the rules that decide for a context's goal, in the order of the catalogue."""
    usable = sorted(_list_usable_rules(), key=lambda rule: _rank(rule.ids[0]))
    return [item for item in usable if item.goal == "any" or context.goal == "gpu"]


def _list_usable_rules() -> list[Rule]:
    """List the rules; one of a plugin decides only ids that the plugin declares."""
    known = catalogue()  # loads the plugins, which register theirs
    usable = [item for item in RULES if not item.plugin]
    for item in (item for item in RULES if item.plugin):
        foreign = [
            name for name in item.ids if name not in known or known[name].plugin != item.plugin
        ]
        if foreign:
            reason = plugins.PluginError(
                f"a rule decides {foreign[0]}, which its FINDINGS do not declare"
            )
            plugins.note_failure(f"{plugins.RULES}: {item.plugin}", reason)
        else:
            usable.append(item)
    return usable


def _list_left_out() -> list[Finding]:
    """Note each plugin that could not be used, in one line."""
    return [
        Finding("plugin-failed", UNDETERMINED, NOTE, f"The plugin `{name}` is left out: {reason}.")
        for name, reason in plugins.list_failures()
    ]


_BELOW_FRAMEWORKS = ("hardware", "driver", "runtime")  # layers


@once
def _ask(
    context: Context, check: Check, silenced: tuple[str, ...]
) -> tuple[list[Finding], Exception | None]:
    """Return what a rule of envcheck finds, and what stopped it.

    The ids of a `last` rule are `silenced` by an error that says why.
    """
    findings: list[Finding] = []
    try:
        findings.extend(check(context))
        if findings and silenced and is_explained(context, silenced):
            return [], None
    except Exception as error:  # noqa: BLE001 - `decide` reports it
        # its frames would hold every object that the rule saw
        return ([] if silenced else findings), error.with_traceback(None)
    return findings, None


def is_explained(context: Context, ids: tuple[str, ...]) -> bool:
    """Return whether another rule finds an error that leaves a `last` rule of some ids no say.

    Raises what keeps such a rule from deciding.
    """
    silencing = {*ids}
    for entry in catalogue().values():
        keeps_from_starting = entry.stops == "gpu" and entry.layer in _BELOW_FRAMEWORKS
        if keeps_from_starting or not set(ids).isdisjoint(entry.explains):
            silencing.add(entry.id)
    answers = [
        _ask(context, other.check, ())
        for other in _list_asked_rules(context)
        if not other.last and not other.plugin and silencing.issuperset(other.ids)
    ]
    if any(_is_error(finding) for findings, _ in answers for finding in findings):
        return True
    for error in filter(None, (error for _, error in answers)):
        raise error
    return False


def _ask_plugin(context: Context, item: Rule) -> tuple[list[Finding], Exception | None]:
    """Return what a plugin's rule finds, or what stopped it.

    Such a rule is asked for every context anew.
    """
    try:
        return plugins.call(lambda: _check_findings(context, item)), None
    except Exception as error:  # noqa: BLE001 - `decide` reports it
        return [], error


def _check_findings(context: Context, item: Rule) -> list[Finding]:
    """Ask a plugin's rule; raises PluginError for what no report can hold."""
    findings = list(item.check(context))
    for found in findings:
        texts = (
            found.verdict,
            found.severity,
            found.message,
            *(each.shown for each in found.evidence),
        )
        if found.id not in item.ids or not all(isinstance(text, str) for text in texts):
            raise plugins.PluginError(
                f"a finding {found.id!r:.60} is none of {', '.join(item.ids)}, or holds no text"
            )
        if found.verdict not in _VERDICTS or found.severity not in _SEVERITIES:
            raise plugins.PluginError(
                f"{found.verdict!r:.40} and {found.severity!r:.40} are no verdict and severity"
            )
    return findings


def _rank(finding_id: str) -> int:
    return catalogue()[finding_id].rank


_VERDICTS, _SEVERITIES = (COMPATIBLE, INCOMPATIBLE, UNDETERMINED), (ERROR, WARNING, NOTE)


class _Run:
    """One pass over the rules.

    Their findings, the ids that they decided, and what kept others from deciding.
    """

    def __init__(self, context: Context, only: frozenset[str]) -> None:
        self.context, self.only = context, only
        self.findings: list[Finding] = []
        self.checked: set[str] = set()
        # reason, severity: (fact, finding id)
        self._blocked: dict[tuple[Unknown, str], list[tuple[str, str]]] = {}

    def decide_installation(self, command: Context) -> None:
        """Ask of what one command installs whether it can be installed."""
        final, self.context = self.context, command
        for item in _list_asked_rules(command):
            if item.installs:
                self.decide(item)
        self.context = final

    def decide(self, item: Rule) -> None:
        """Ask a rule about the wanted ids.

        A broken rule must not take the report with it.
        """
        if not self.only:
            ids = item.ids
        else:
            ids = tuple(name for name in item.ids if name in self.only)
        if not ids:
            return
        if item.plugin:
            findings, error = _ask_plugin(self.context, item)
        else:
            findings, error = _ask(self.context, item.check, item.ids if item.last else ())
        for finding in findings:
            if not self.only or finding.id in self.only or finding.id not in item.ids:
                self.findings.append(finding)
        if error is None:
            self.checked.update(ids)
        elif isinstance(error, UndecidedError):
            # a check that can only note something says nothing where it cannot tell
            if item.severity != NOTE:
                # One that can only warn warns: what no answer could have made incompatible decides
                # no verdict.
                self._block(error.unknown, self._weigh(item, error), error.name, ids)
        elif item.plugin:
            plugins.note_failure(f"{plugins.RULES}: {item.plugin}", error)
        else:
            reason = Unknown("crashed", f"the check itself failed: {type(error).__name__}: {error}")
            self._block(reason, item.severity, f"rule {item.ids[0]}", ids)

    def _weigh(self, item: Rule, error: UndecidedError) -> str:
        """Return how much it weighs that a rule could not decide.

        What shows at run is a note, unless it decides.
        """
        is_left_open = error.unknown == AT_RUN and error.name != self.context.decisive
        if is_left_open or error.unknown == NOT_COLLECTED:
            return NOTE
        return item.severity

    def _block(self, reason: Unknown, severity: str, fact: str, ids: tuple[str, ...]) -> None:
        self._blocked.setdefault((reason, severity), []).extend((fact, name) for name in ids)

    def undecided(self) -> list[Finding]:
        """Say once for each reason which facts could not be read, and which checks waited for them.

        An id that another rule found to be wrong waits for nothing.
        """
        found = {item.id for item in self.findings if _is_error(item)}
        waiting = {
            key: [(fact, name) for fact, name in names if name not in found]
            for key, names in self._blocked.items()
        }
        return [
            _report_unreadable(reason, NOTE if found and reason == AT_RUN else severity, names)
            for (reason, severity), names in waiting.items()
            if names
        ]


def conclude(context: Context, findings: Sequence[Finding], checked: Iterable[str]) -> Report:
    """Rank findings, the rules' and others', and draw the verdict from them.

    `checked` are the ids decided; the report lists them in the order of the catalogue.
    """
    decided = tuple(sorted({*checked}, key=_rank))
    ranked = rank_findings(list(findings))
    verdict = _choose_verdict(ranked, decided)
    if verdict == COMPATIBLE and context.has_rival_environments and not context.names_releases:
        verdict = UNDETERMINED  # each of them may be the one that fails
    headline = write_headline(verdict, _reported_goal(context), context, ranked)
    requested = tuple(
        _describe_requested(build) for build in target_builds(context) if not build.installed
    )
    return Report(
        verdict,
        _reported_goal(context),
        headline,
        ranked,
        decided,
        requested,
        system=context.os,
        wanted=_target_options(context.target),
        judged=_describe_judged(context),
        matrix=f"{context.matrix.checked}, {context.matrix.origin}".rstrip(", "),
    )


def _reported_goal(context: Context) -> str:
    """Return what the verdict is about.

    A GPU of another vendor, too, of which only the CPU's side was judged.
    """
    return "gpu" if context.asks_other_vendor else context.goal


def _target_options(target: Target) -> tuple[str, ...]:
    expected = () if target.expect == "auto" else ("--expect", target.expect)
    return (*expected, *(argument for text in target.requirements for argument in ("--for", text)))


def _describe_requested(build: Build) -> str:
    cuda = build.cuda.value
    return f"{build.label} (CUDA {cuda})" if cuda else build.label


def _without_repeats(findings: list[Finding], undecided: list[Finding]) -> list[Finding]:
    """Leave out notes about a program that did not answer if a check waited for the same answer."""
    texts = {item.shown for finding in undecided for item in finding.evidence}
    return [
        item
        for item in findings
        if item.id != "probe-failed" or item.evidence[0].shown not in texts
    ]


def _report_unreadable(reason: Unknown, severity: str, names: list[tuple[str, str]]) -> Finding:
    facts = list(dict.fromkeys(fact for fact, _ in names))
    checks = sorted({check for _, check in names}, key=_rank)
    facts_text = shorten(facts, 4)
    undecided = ", ".join(checks)
    if reason == AT_RUN:
        waiting = Evidence("not decided before", undecided)
        evidence = (*(Evidence(fact, reason.detail) for fact in facts), waiting)
        message = f"Shows only when the environment runs: {facts_text}."
        return Finding("probe-failed", UNDETERMINED, severity, message, evidence)
    message = (
        f"Could not read {facts_text}: {reason.detail} ({reason.why})."
        f" Not decided for that reason: {undecided}."
    )
    source = Source("file", reason.tried[0]) if len(reason.tried) == 1 else None
    evidence = tuple(Evidence(fact, f"{reason.why}: {reason.detail}", source) for fact in facts)
    return Finding("probe-failed", UNDETERMINED, severity, message, evidence)


def _choose_verdict(findings: tuple[Finding, ...], checked: Sequence[str]) -> str:
    if any(map(_is_error, findings)):
        return INCOMPATIBLE
    if not checked or any(
        item.verdict == UNDETERMINED and item.severity == ERROR for item in findings
    ):
        return UNDETERMINED
    return COMPATIBLE


def _is_error(finding: Finding) -> bool:
    return finding.severity == ERROR and finding.verdict == INCOMPATIBLE


def _describe_judged(context: Context) -> Judged:
    facts = context.python
    prefix = (facts.prefix.value or "") if context.judges_environment else None
    return Judged(environment=prefix, chosen_by=facts.chosen_by, others=facts.others)


_ASKED = (
    "driver.smi_exit_code",
    "driver.nvml_result",
    "driver.cuda_init_result",
    "compilers.gcc_version",
    "compilers.gxx_version",
    "compilers.clang_version",
    "toolkits.nvcc_host_compiler_version",
)
_MISMATCH = 18  # of NVML: driver-library-mismatch says it
_NO_ANSWER = ("timeout", "crashed", "denied", "unparsable")


@rule("probe-failed", severity=NOTE, goal="any")
def tools_that_did_not_answer(context: Context) -> Iterator[Finding]:
    """Report each program that hung, crashed, was denied or printed unreadable output."""
    facts = {name: context.fact(name) for name in _ASKED}
    facts |= {f"nvcc of {item.root}": item.nvcc_release for item in context.installs}
    by_reason: dict[Unknown, list[str]] = {}
    for name, fact in facts.items():
        if isinstance(fact, Unknown) and fact.why in _NO_ANSWER:
            by_reason.setdefault(fact, []).append(name)
    for reason, names in by_reason.items():
        # the driver's own tools hang although CUDA starts
        of_driver = any(name.startswith("driver.") for name in names)
        hangs = reason.why == "timeout" and of_driver and cuda_starts(context)
        also = ""
        if hangs:
            also = " CUDA starts, but what monitors or schedules the GPUs will hang, too."
        yield context.report(
            f"Could not read {', '.join(names)}: {reason.detail} ({reason.why}).{also}",
            *(Evidence(name, f"{reason.why}: {reason.detail}") for name in names),
            verdict=UNDETERMINED,
            severity=WARNING if hangs else "",
        )


@rule("probe-failed", severity=NOTE, goal="any", installs=True)
def unread_installations(context: Context) -> Iterator[Finding]:
    """Report what else may be installed and could not be read."""
    for part in context.python.unread.value or ():
        evidence = Evidence("python.unread", f"failed: {part.reason}", Source("file", part.place))
        yield context.report(f"{part.reason}.", evidence, verdict=UNDETERMINED)


@rule("probe-failed", severity=NOTE)
def nvml_refuses_while_cuda_starts(context: Context) -> Iterator[Finding]:
    """Report an NVML error other than a mismatch where CUDA works."""
    nvml = context.driver.nvml_result.value
    if nvml is not None and nvml not in (0, _MISMATCH) and cuda_starts(context):
        yield context.report(
            f"The driver's management library (NVML) does not start (result {nvml}), although"
            " CUDA does. The memory and the processes of each GPU,"
            " which only NVML reports, could not be read.",
            "driver.nvml_result",
            "driver.cuda_init_result",
            verdict=UNDETERMINED,
        )


_NO_FRAMEWORK = "framework-missing"  # a machine without a framework has nothing wrong with it


class Judgement:
    """Whether a release works on a machine.

    What is wrong with the machine itself stands in the report alone.
    """

    def __init__(self, context: Context, judge: ReleaseJudge, only: frozenset[str]) -> None:
        """Judge the machine with the release; the judge knows the machine without it."""
        self._context, self._judge = context, judge
        self._found, self._checked = find(context, only)

    @cached_property
    def report(self) -> Report:
        """Return the report on the machine with the release."""
        return conclude(self._context, self._found, self._checked)

    @cached_property
    def _findings(self) -> tuple[Finding, ...]:
        return rank_findings(self._found)

    @cached_property
    def _errors(self) -> tuple[Finding, ...]:
        errors = [
            item for item in self._findings if item.severity == ERROR and not is_unstated(item)
        ]
        if not errors:
            return ()
        machine_errors = {item.key for item in self._judge.machine_findings}
        return tuple(item for item in errors if item.key not in machine_errors)

    @cached_property
    def errors(self) -> tuple[Finding, ...]:
        """List the reasons why the release does not work."""
        return tuple(item for item in self._errors if item.verdict != UNDETERMINED)

    @cached_property
    def doubts(self) -> tuple[Finding, ...]:
        """List the reasons why that is undetermined."""
        return tuple(item for item in self._errors if item.verdict == UNDETERMINED)

    @cached_property
    def warnings(self) -> tuple[Finding, ...]:
        """List the warnings, and the notes on what is undetermined."""
        items = (
            item for item in self._findings if item.severity != ERROR and not is_unstated(item)
        )
        return tuple(
            item for item in items if item.severity != NOTE or item.verdict == UNDETERMINED
        )

    @property
    def verdict(self) -> str:
        """Return COMPATIBLE, INCOMPATIBLE or UNDETERMINED."""
        if self.errors:
            return INCOMPATIBLE
        if self.doubts:
            return UNDETERMINED
        return COMPATIBLE


class ReleaseJudge:
    """Judges many releases on one machine, whose own findings are worked out once."""

    def __init__(self, context: Context, only: frozenset[str] = frozenset()) -> None:
        """Take the machine, and the finding ids to which the checks are limited; empty: all."""
        self.context, self._only = context, only
        self._machines: dict[tuple[int, bool], Context] = {}  # by the identity of the facts

    @cached_property
    def machine_findings(self) -> tuple[Finding, ...]:
        """List what is wrong with the machine whichever release is chosen."""
        findings = rank_findings(find(self._asking(()), self._only)[0])
        return tuple(
            item for item in findings if item.id != _NO_FRAMEWORK and not is_unstated(item)
        )

    def judge(
        self,
        requirements: tuple[str, ...],
        facts: Facts | None = None,
        *,
        only: frozenset[str] = frozenset(),
    ) -> Judgement:
        """Judge the release that requirements ask for together.

        `facts` describe the machine with what it brings.

        `only` limits the checks of this release alone. Raises RequestError for a requirement that
        cannot be judged.
        """
        return Judgement(self._asking(requirements, facts), self, only or self._only)

    def _asking(self, requirements: tuple[str, ...], facts: Facts | None = None) -> Context:
        facts = facts or self.context.facts
        key = id(facts), bool(requirements)
        if key not in self._machines:
            target = replace(
                self.context.target, expect=self.context.goal, requirements=requirements
            )
            self._machines[key] = Context(facts, self.context.matrix, target)
        return self._machines[key].with_requirements(requirements)


def judge_release(context: Context, only: frozenset[str] = frozenset()) -> Judgement:
    """Judge the releases that a context's target asks for.

    `only` limits the checks to some finding ids.

    Raises RequestError for a requirement that cannot be judged.
    """
    return Judgement(context, ReleaseJudge(context, only), only)


def is_unstated(finding: Finding) -> bool:
    """Return whether a check waits for a fact that the description of a machine leaves open."""
    return finding.id == "probe-failed" and all(
        NOT_STATED.detail in item.shown for item in finding.evidence
    )


_WORK = {"gpu": "GPU deep learning", "cpu": "deep learning on the CPU"}
# What a finding stops -> what its subject cannot do.
_FAILURES = {
    "import": "cannot start",
    "use": "cannot compute",
    "gpu": "cannot use the GPU",
    "compute": "cannot compute on the GPU",
}
_FAILS = "will not work here"
# Words that begin a sentence of the catalogue with a capital only because they begin it.
_PLAIN_WORDS = frozenset(
    [
        "A",
        "An",
        "Another",
        "Installed",
        "No",
        "None",
        "Other",
        "Packages",
        "Several",
        "The",
        "There",
        "This",
        "Two",
    ]
)


def write_headline(verdict: str, goal: str, context: Context, findings: tuple[Finding, ...]) -> str:
    """Write one sentence; `goal` is gpu or cpu, `findings` are ranked with the cause first."""
    builds = judged_builds(context)
    if verdict == INCOMPATIBLE:
        errors = [item for item in findings if item.severity == ERROR and item.caused_by is None]
        return _write_failure(goal, context, builds, errors)
    if verdict == COMPATIBLE:
        is_warned = any(item.severity == WARNING for item in findings)
        return _write_success(goal, context, builds, ", with warnings" if is_warned else "")
    alone = "" if context.judges_environment else f"; {_explain_no_environment(context)}"
    if not builds:
        return f"Could not determine whether {_WORK[goal]} works here{alone}."
    subject = f"{_name_builds(context, builds)} {_inflect(builds)}"
    return f"Could not determine whether {subject} {_name_place(goal, context)}{alone}."


def _write_success(goal: str, context: Context, builds: tuple[Build, ...], warned: str) -> str:
    place = _name_place(goal, context)
    labels = _name_builds(context, builds)
    if any(not build.installed for build in builds):
        return f"{labels} will work {place}{warned}, once installed."
    if builds:
        return f"{labels} {_inflect(builds)} {place}{warned}."
    lacking = "no framework is installed"
    if not context.judges_environment:
        lacking = _explain_no_environment(context)
    return f"Ready for deep learning {place}{warned}; {lacking}."


def _explain_no_environment(context: Context) -> str:
    if any(not item.problem for item in context.python.others):
        return "several environments fit, and none was judged: name one with --env"
    return "no Python environment was judged"


def _write_failure(
    goal: str, context: Context, builds: tuple[Build, ...], errors: list[Finding]
) -> str:
    """Say what the first error stops, why, and how many errors stand beside it."""
    cause = errors[0]
    more = len(errors) - 1
    others = ""
    if more:
        others = f" ({counted(more, 'more problem')})"
    reason = shorten_message(cause)
    subject = _name_subject(context, builds, cause)
    asked = tuple(item.package.label for item in wanted_releases(context) if item.package)
    if (
        cause.stops == BUILD
        or (subject and subject in reason)
        or (asked and reason.startswith(asked))
    ):
        return f"{reason}{others}."
    failure = _FAILURES.get(what_stops(cause), _FAILS)
    if not subject:
        subject, failure = _WORK[goal][0].upper() + _WORK[goal][1:], _FAILS
    if reason.partition(" ")[0] in _PLAIN_WORDS:
        reason = reason[0].lower() + reason[1:]
    return f"{subject} {failure}: {reason}{others}."


def _name_subject(context: Context, builds: tuple[Build, ...], cause: Finding) -> str:
    """Name the package that a cause stops, or all frameworks; "" where there is none."""
    words = set(re.findall(r"[\w-]+", cause.message))
    concerned = tuple(
        item
        for item in builds
        if item.framework == cause.about.framework or {item.framework, item.distribution} & words
    )
    package = context.distributions.get(cause.about.distribution)
    if package is not None and not concerned:
        return package.label
    return _name_builds(context, concerned or builds)


def _frameworks(builds: tuple[Build, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(build.framework for build in builds))


def _inflect(builds: tuple[Build, ...]) -> str:
    return "works" if len(_frameworks(builds)) == 1 else "work"


def _name_builds(context: Context, builds: tuple[Build, ...]) -> str:
    """Name each framework once: JAX by its own release and not by those of its parts."""
    labels = []
    for framework in _frameworks(builds):
        first = next(build for build in builds if build.framework == framework)
        package = context.distributions.get(framework) if first.installed else None
        labels.append(package.label if package else first.label)
    return " and ".join(labels)


def _name_place(goal: str, context: Context) -> str:
    """Name the GPUs and the driver, or the CPU: "on 2 x NVIDIA A100, driver 550.54.15"."""
    if goal == "cpu":
        return "on the CPU"
    names = [gpu.name.value or "an unnamed GPU" for gpu in context.facts.gpus.value or ()]
    if not names:
        return "on the GPU"
    counts = Counter(names).items()
    gpus = " and ".join(f"{count} x {name}" if count > 1 else name for name, count in counts)
    release = context.driver.release.value
    return f"on {gpus}, driver {release}" if release else f"on {gpus}"

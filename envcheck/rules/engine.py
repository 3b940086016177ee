"""Run the rules over a snapshot's facts and make one report of what they say."""

from __future__ import annotations

from collections.abc import Sequence

from envcheck.model import (
    COMPATIBLE,
    ERROR,
    INCOMPATIBLE,
    UNDETERMINED,
    WARNING,
    Evidence,
    Finding,
    Report,
    Unknown,
    get_value,
)
from envcheck.rules import register_rules
from envcheck.rules.builds import Build
from envcheck.rules.catalogue import catalogue
from envcheck.rules.context import Context, Target, UndecidedError
from envcheck.rules.ranking import rank_findings
from envcheck.rules.registry import RULES, Rule
from envcheck.rules.targets import target_builds, wanted_releases


def evaluate(context: Context, only: frozenset[str] = frozenset()) -> Report:
    """Judge a machine; `only` limits the checks to some finding ids. Raises TargetError for a requirement."""
    register_rules()
    wanted_releases(context)  # one that cannot be judged is the caller's error, not a broken check
    findings: list[Finding] = []
    blocked: dict[Unknown, list[tuple[str, str]]] = {}
    checked: list[str] = []
    for item in sorted(RULES, key=lambda rule: catalogue()[rule.id].rank):
        if (only and item.id not in only) or (item.goal == "gpu" and context.goal == "cpu"):
            continue
        _run(item, context, findings, blocked, checked)
    unread = [_unread(reason, names) for reason, names in blocked.items()]
    return conclude(context, [*_not_said_twice(findings, unread), *unread], checked)


def conclude(context: Context, findings: Sequence[Finding], checked: Sequence[str]) -> Report:
    """Rank findings, the rules' and others', and draw the verdict from them; `checked` are the ids decided."""
    ranked = rank_findings(list(findings))
    verdict = _verdict(ranked, checked)
    headline = _headline(verdict, context, ranked)
    asked = tuple(_asked(build) for build in target_builds(context) if not build.installed)
    return Report(
        verdict,
        context.goal,
        headline,
        ranked,
        tuple(dict.fromkeys(checked)),
        asked,
        system=context.os,
        wanted=_wanted(context.target),
    )


def _wanted(target: Target) -> tuple[str, ...]:
    expected = () if target.expect == "auto" else ("--expect", target.expect)
    return (*expected, *(word for text in target.requirements for word in ("--for", text)))


def _asked(build: Build) -> str:
    cuda = get_value(build.cuda)
    return f"{build.label} (CUDA {cuda})" if cuda else build.label


def _run(
    item: Rule,
    context: Context,
    findings: list[Finding],
    blocked: dict[Unknown, list[tuple[str, str]]],
    checked: list[str],
) -> None:
    try:
        for name in item.needs:
            context.need(context.fact(name), name)
        findings.extend(item.check(context))
        checked.append(item.id)
    except UndecidedError as undecided:
        blocked.setdefault(undecided.unknown, []).append((undecided.name, item.id))
    except Exception as error:  # noqa: BLE001 - the guard: one broken check must not take the report with it
        reason = Unknown("crashed", f"the check itself failed: {type(error).__name__}: {error}")
        blocked.setdefault(reason, []).append((f"rule {item.id}", item.id))


def _not_said_twice(findings: list[Finding], unread: list[Finding]) -> list[Finding]:
    """Leave out the notes about a program that did not answer where a check waited for that very answer."""
    said = {item.shown for finding in unread for item in finding.evidence}
    return [item for item in findings if item.id != "probe-failed" or item.evidence[0].shown not in said]


def _unread(reason: Unknown, names: list[tuple[str, str]]) -> Finding:
    facts = list(dict.fromkeys(fact for fact, _ in names))
    checks = list(dict.fromkeys(check for _, check in names))
    shown = ", ".join(facts[:4]) + (f" and {len(facts) - 4} more" if len(facts) > 4 else "")
    undecided = ", ".join(checks)
    message = f"Could not read {shown}: {reason.detail} ({reason.why}). Not decided for that reason: {undecided}."
    evidence = tuple(Evidence(fact, f"{reason.why}: {reason.detail}") for fact in facts)
    return Finding("probe-failed", UNDETERMINED, ERROR, message, evidence)


def _verdict(findings: tuple[Finding, ...], checked: Sequence[str]) -> str:
    errors = [finding for finding in findings if finding.severity == ERROR]
    if any(finding.verdict == INCOMPATIBLE for finding in errors):
        return INCOMPATIBLE
    if not checked or any(finding.verdict == UNDETERMINED for finding in errors):
        return UNDETERMINED
    return COMPATIBLE


def _headline(verdict: str, context: Context, findings: tuple[Finding, ...]) -> str:
    work = "GPU deep learning" if context.goal == "gpu" else "Deep learning on the CPU"
    if verdict == INCOMPATIBLE:
        return f"{work} will not work here."
    if verdict == UNDETERMINED:
        return f"{work}: whether it works here could not be told."
    warned = ", with warnings." if any(finding.severity == WARNING for finding in findings) else "."
    if any(finding.id == "framework-missing" for finding in findings):
        return f"This machine is ready for {work[0].lower() if context.goal == 'cpu' else work[0]}{work[1:]}{warned}"
    return f"{work} works here{warned}"

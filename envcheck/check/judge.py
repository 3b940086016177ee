"""Judge a machine for a project.

The rules, the project's own requirements, and what it ignores for now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, datetime, timezone
from typing import Any

from envcheck.check.config import Config, ConfigError, Ignored, parse_config
from envcheck.diagnosis import with_remedies, with_steps
from envcheck.diagnosis.planned import plan_to_meet
from envcheck.matrix.query import Matrix
from envcheck.model import (
    COMPATIBLE,
    ERROR,
    INCOMPATIBLE,
    NOTE,
    UNDETERMINED,
    Evidence,
    Facts,
    Finding,
    Report,
    RequestError,
    Unknown,
    dataclass,
)
from envcheck.model.versions import read_requirement
from envcheck.remedies.situation import Situation
from envcheck.rules import conclude, evaluate
from envcheck.rules.catalogue import catalogue
from envcheck.rules.context import Context, Demands, Target
from envcheck.rules.engine import judge_release
from envcheck.rules.project import is_installed, list_required
from envcheck.rules.targets import check_requirements


@dataclass
class Gate:
    """What a project requires today, and the matrix that judges it."""

    config: Config
    matrix: Matrix
    path: str
    today: date

    def judge(
        self, facts: Facts, inspected: tuple[str, ...], exists: Callable[[str], bool] | None = None
    ) -> Report:
        """Judge a machine for the project.

        `exists` tells which folders are there, on the machine that is judged.
        """
        context = Context(facts, self.matrix, Target(self.config.expect, self.config.requires))
        return judge_project(
            context, self.config, self.path, self.today, inspected=inspected, exists=exists
        )

    def ignored(self) -> tuple[str, ...]:
        """List the finding ids that the project ignores today."""
        return tuple(item.id for item in self.config.ignored if item.until >= self.today)

    def expired(self) -> tuple[tuple[str, date], ...]:
        """List the finding ids that count again, each with the last day on which it was ignored."""
        return tuple(
            (item.id, item.until) for item in self.config.ignored if item.until < self.today
        )


def make_gate(config: Config, path: str, matrix: Matrix) -> Gate:
    """Return the gate of a configuration; raises RequestError for what no release can meet."""
    check_requirements(config.requires, matrix)
    return Gate(config, matrix, path, datetime.now(timezone.utc).date())


def load_gate(text: str | None, path: str, matrix: Matrix) -> Gate:
    """Read the configuration of a project; None: it has none. Raises ConfigError."""
    try:
        config = Config() if text is None else parse_config(text)
        return make_gate(config, path, matrix)
    except (ConfigError, RequestError) as error:
        raise ConfigError(f"{path}: {error}") from None


IGNORED = "tool.envcheck.ignore"


def judge_project(
    context: Context,
    config: Config,
    location: str,
    today: date,
    *,
    inspected: tuple[str, ...] = (),
    exists: Callable[[str], bool] | None = None,
) -> Report:
    """Return the report a project is gated on.

    An ignored finding is told as a note and does not count.

    `inspected` are the options that say what was looked at. `exists` tells which folders are there,
    on the machine that is judged.
    """
    demands = Demands(
        config.requires,
        config.min_driver,
        config.min_compute_capability,
        location,
        min_memory=config.min_memory,
        gpus=config.gpus,
    )
    demanding = _with_target(context, demands=demands, requirements=())
    is_read = not isinstance(context.python.frameworks, Unknown)
    required = list_required(demanding)
    missing = tuple(text for text in required if is_read and not is_installed(context, text))
    present = tuple(text for text in required if text not in missing)
    # What pip would choose for a missing requirement is not what the project asks for: any release
    # it admits may do.
    plan = None
    if missing:
        ids = {
            finding.id for finding in evaluate(_with_target(context, requirements=present)).findings
        }
        found_ids = (finding.id for finding in judge_release(context).errors)
        obstacles = tuple(dict.fromkeys(item for item in found_ids if item not in ids))
        plan = plan_to_meet(
            context, tuple(read_requirement(text).plain for text in missing), obstacles
        )
        demands = replace(demands, obstacles=obstacles)
    installed = _with_target(context, demands=demands, requirements=present)
    found = evaluate(installed)
    planned = tuple(
        replace(item, fix=plan) if is_of_project(item) else item for item in found.findings
    )
    report = with_remedies(replace(found, findings=planned), Situation(installed), strictly=True)
    final = apply_ignores(report.findings, config.ignored, today)
    report = count_ignored(conclude(installed, final, report.checked))
    return with_steps(replace(report, inspected=inspected), exists=exists)


def _with_target(context: Context, **changes: Any) -> Context:
    return Context(context.facts, context.matrix, replace(context.target, **changes))


def is_of_project(finding: Finding) -> bool:
    """Return whether a finding is about a release that the project requires."""
    return any(
        item.fact == "tool.envcheck" and item.shown.startswith("requires")
        for item in finding.evidence
    )


def apply_ignores(
    findings: Sequence[Finding], ignored: Sequence[Ignored], today: date
) -> list[Finding]:
    """Make each finding that is ignored today, or follows from one, a note that says so.

    An error that stops an import counts all the same: nothing runs then.
    """
    return [_apply_ignores(item, findings, ignored, today) for item in findings]


def _apply_ignores(
    finding: Finding, findings: Sequence[Finding], ignored: Sequence[Ignored], today: date
) -> Finding:
    causes = _causes(finding, findings)
    for item in ignored:
        if item.id in causes and item.until >= today:
            if stops_import(finding):
                kept = Evidence(IGNORED, f"{item.reason}; it counts: it stops an import")
                return replace(finding, evidence=(*finding.evidence, kept))
            until = f"until {item.until}" if item.until < date.max else "by the project"
            reason = Evidence(IGNORED, f"{until}: {item.reason}")
            message = f"Ignored {until} ({item.reason}): {finding.message}"
            verdict = COMPATIBLE
            if finding.verdict == UNDETERMINED:
                verdict = finding.verdict
            evidence = (reason, *finding.evidence)
            note = replace(
                finding, verdict=verdict, severity=NOTE, message=message, evidence=evidence
            )
            return replace(note, fix=None, cure=None)
    return finding


def stops_import(finding: Finding) -> bool:
    """Return whether nothing runs because of a finding: then it counts even if it is ignored."""
    is_error = finding.severity == ERROR and finding.verdict == INCOMPATIBLE
    if not is_error or is_of_project(finding):
        return False
    return (finding.stops or catalogue()[finding.id].stops) == "import"


def count_ignored(report: Report) -> Report:
    """Say in the headline how many findings the project ignores."""
    count = sum(
        any(each.fact == IGNORED for each in item.evidence) and item.severity == NOTE
        for item in report.findings
    )
    if not count:
        return report
    what = "1 finding is" if count == 1 else f"{count} findings are"
    return replace(report, headline=f"{report.headline} {what} ignored.")


def _causes(finding: Finding, findings: Sequence[Finding]) -> list[str]:
    """Name a finding and what it follows from, however far."""
    causes = {item.id: item.caused_by for item in findings if item.caused_by}
    names = [finding.id, *([finding.caused_by] if finding.caused_by else [])]
    while (cause := causes.get(names[-1])) and cause not in names:
        names.append(cause)
    return names

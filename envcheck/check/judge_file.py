"""Judge an environment before it is built: the rules on what its file decides, and what only a file shows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from envcheck.check.base_image import is_for_gpu
from envcheck.check.blueprint import Blueprint, Line
from envcheck.check.config import Config
from envcheck.check.file_findings import of_the_file, of_the_stage
from envcheck.check.image_libraries import WITHOUT_EXTRA, in_the_image
from envcheck.check.judge import ignored_for_now
from envcheck.check.planned import planned_facts
from envcheck.check.same_module import of_one_module
from envcheck.matrix.query import Matrix
from envcheck.model.facts import Known, Source
from envcheck.model.findings import INCOMPATIBLE, NOTE, UNDETERMINED, Evidence, Finding, Report
from envcheck.rules import Context, Target, conclude, evaluate

_NOT_LED_TO = "cuda-wheel-not-found"  # where the file sets the loader's path, to which folders shows when it runs
# What a file can decide; the rest (driver, GPUs, the loader) shows when the environment runs.
DECIDABLE = frozenset({
    "cudnn-missing", "cudnn-too-old", "cudnn-wrong-cuda-build", "cudnn-wrong-major", "framework-cpu-build",
    "framework-package-removed", "glibc-too-old", "platform-no-gpu-wheel", "python-unsupported", "release-unknown",
    "toolkit-missing", "toolkit-wrong-version", WITHOUT_EXTRA, _NOT_LED_TO,
})  # fmt: skip
TOGETHER = frozenset({"cuda-wheel-conflict"})


@dataclass
class _Told:
    """What the judgements of a file's environments said so far."""

    findings: list[Finding] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)

    def add(self, findings: Iterable[Finding], checked: Iterable[str]) -> None:
        self.findings += findings
        self.checked += checked

    def take(self, checks: Iterable[tuple[str, list[Finding]]]) -> None:
        """Add what the file itself shows; what it leaves open ("") decides nothing."""
        for finding_id, found in checks:
            self.add(found, (finding_id,) if finding_id else ())


def judge_blueprints(
    blueprints: Sequence[Blueprint], matrix: Matrix, config: Config, where: str, today: date
) -> Report:
    """Return one report on the environments a file builds; one that decides nothing is undetermined."""
    told = _Told()
    contexts = []
    required = _requiring(blueprints, matrix)
    for item in blueprints:
        if item.kind == "stage":
            told.take(of_the_stage(item, config.expect))
            continue
        if item not in required and not (item.asks_gpu or item.compiles):
            continue  # the database beside them
        wanted = _demands(item, matrix, config if item in required else Config(), where)
        contexts.append(_judged(item, matrix, wanted, config.expect, told))
    asking = [context for context in contexts if context.goal == "gpu"]
    found = _once([_later(finding) for finding in told.findings])
    kept = [ignored_for_now(finding, found, config, today) for finding in found]
    report = conclude((asking or contexts)[0], kept, told.checked)
    return replace(report, headline=_headline(report, blueprints[0].path.split(" (")[0]))


def _once(findings: Sequence[Finding]) -> list[Finding]:
    """Leave out what was told before: the same of the same line, and one note of what the file leaves open."""
    notes = {(item.id, item.message): item for item in reversed(findings) if item.severity == NOTE}
    kept = (item for item in findings if item.severity != NOTE or notes[item.id, item.message] is item)
    return list(dict.fromkeys(kept))


def _headline(report: Report, path: str) -> str:
    """Say no more than a file can show: that an environment works is seen when it runs."""
    work = "GPU deep learning" if report.goal == "gpu" else "deep learning on the CPU"
    if report.verdict == INCOMPATIBLE:
        return f"What {path} builds is not fit for {work}."
    if report.verdict == UNDETERMINED and report.checked:
        return f"Whether what {path} builds is fit for {work}, the file does not tell."
    if report.verdict == UNDETERMINED:
        return f"{path} names no framework that could be judged."
    return f"Nothing in {path} stands against {work}; the driver and the GPU show when it runs."


def _requiring(blueprints: Sequence[Blueprint], matrix: Matrix) -> list[Blueprint]:
    """Choose the environments that the project's own requirements are for."""
    final = [item for item in blueprints if item.kind != "stage"]
    for_them = [
        item
        for item in final
        if any(_framework(line, matrix) for line in item.requirements) or (item.image and is_for_gpu(item.image))
    ]
    return for_them or final[:1]


def _demands(blueprint: Blueprint, matrix: Matrix, config: Config, where: str) -> list[Line]:
    """List the frameworks the file installs, and those the project requires besides."""
    wanted = [line for line in blueprint.requirements if _framework(line, matrix) and line.index != "other"]
    brought = blueprint.image.frameworks if blueprint.image else ()
    named = {_framework(line, matrix) for line in (*wanted, *(Line(text, "") for text in brought))}
    required = [Line(text, where) for text in config.requires]
    return wanted + [line for line in required if _framework(line, matrix) not in named]


def _judged(blueprint: Blueprint, matrix: Matrix, wanted: list[Line], expect: str, told: _Told) -> Context:
    goal, facts = _goal(blueprint, wanted, expect), planned_facts(blueprint)
    decidable = DECIDABLE - {_NOT_LED_TO} if blueprint.loader_path else DECIDABLE
    if isinstance(facts.python.pip_version, Known):  # most files say nothing of it, and nobody waits for it
        decidable |= {"pip-too-old"}
    for line in wanted:
        alone = Context(facts, matrix, Target(_goal_of(line, wanted, goal), (line.text,)))
        report = evaluate(alone, decidable)
        meant = (in_the_image(finding, line, alone, blueprint) for finding in report.findings)
        told.add([_placed(finding, line, blueprint) for finding in meant if finding], report.checked)
    context = Context(facts, matrix, Target(goal, tuple(line.text for line in wanted)))
    if len(wanted) > 1:
        report = evaluate(context, TOGETHER)
        told.add(report.findings, report.checked)
        told.add(of_one_module(wanted, context), ("framework-duplicate-dists",))
    told.take(of_the_file(blueprint, wanted, goal))
    return context


def _framework(line: Line, matrix: Matrix) -> str:
    try:
        requirement = Requirement(line.text)
    except InvalidRequirement:
        return ""
    name = canonicalize_name(requirement.name)
    removed = matrix.removed_distribution(name)
    return "" if requirement.url else matrix.framework_of(name) or (removed.framework if removed else "")


def _goal(blueprint: Blueprint, wanted: list[Line], expect: str) -> str:
    """Say what the environment is for: a GPU where anything in the file asks for one."""
    if expect != "auto":
        return expect
    by_name = any(
        line.index == "cuda" or re.search(r"cuda|-gpu|\+cu\d", line.text)
        for line in (*wanted, *blueprint.conda, *blueprint.added)
    )
    by_image = blueprint.image is not None and is_for_gpu(blueprint.image)
    return "gpu" if by_image or blueprint.asks_gpu or blueprint.wants_gpu or by_name else "cpu"


def _goal_of(line: Line, wanted: list[Line], goal: str) -> str:
    """Take tensorflow-cpu beside another framework at its word: the GPU is left to that one."""
    beside = any(other is not line and "-cpu" not in other.text and other.index != "cpu" for other in wanted)
    return "cpu" if "-cpu" in line.text and beside else goal


def _placed(finding: Finding, line: Line, blueprint: Blueprint) -> Finding:
    """Say where the requirement stands, and of what is built what the rules say of a machine."""
    asked = Evidence("requirement", line.text, Source("file", line.where, line.text))
    what = "the image" if blueprint.image is not None else "the environment"
    message = finding.message.replace("on this machine", f"in {what}").replace("this machine", what)
    return replace(finding, message=message, evidence=(asked, *finding.evidence))


def _later(finding: Finding) -> Finding:
    """Tell as a note what the file leaves open, but for the CUDA that a framework takes from its image."""
    left_open = finding.verdict == UNDETERMINED and finding.id == "probe-failed"
    decisive = any(item.fact.startswith("toolkits") for item in finding.evidence)
    return replace(finding, severity=NOTE) if left_open and not decisive else finding

"""Judge an environment before it is built: the rules on what its file decides, and what only a file shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from envcheck.check.base_image import conventions
from envcheck.check.blueprint import Blueprint, Line
from envcheck.check.config import Config
from envcheck.check.planned import planned_facts
from envcheck.matrix.query import Matrix
from envcheck.model.facts import Source
from envcheck.model.findings import ERROR, INCOMPATIBLE, NOTE, UNDETERMINED, Evidence, Finding, Fix, Report
from envcheck.rules import Context, Target, conclude, evaluate

# What a file can decide; the rest (driver, GPUs, the loader) shows when the environment runs.
DECIDABLE = frozenset({
    "cudnn-missing", "cudnn-too-old", "cudnn-wrong-cuda-build", "cudnn-wrong-major", "framework-cpu-build",
    "framework-package-removed", "glibc-too-old", "platform-no-gpu-wheel", "python-unsupported", "release-unknown",
    "toolkit-missing", "toolkit-wrong-version",
})  # fmt: skip
TOGETHER = frozenset({"cuda-wheel-conflict", "framework-duplicate-dists"})


@dataclass
class _Told:
    """What the judgements of a file's environments said so far."""

    findings: list[Finding] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)

    def add(self, findings: Iterable[Finding], checked: Iterable[str]) -> None:
        self.findings += findings
        self.checked += checked


def judge_blueprints(blueprints: Sequence[Blueprint], matrix: Matrix, config: Config, where: str) -> Report:
    """Return one report on the environments a file builds; one that decides nothing is undetermined."""
    told = _Told()
    contexts = [
        _judged(item, matrix, _demands(item, matrix, config, where), config.expect, told) for item in blueprints
    ]
    asking = [context for context in contexts if context.goal == "gpu"]
    report = conclude((asking or contexts)[0], [_later(finding) for finding in told.findings], told.checked)
    return replace(report, headline=_headline(report, blueprints[0].path.split(" ")[0]))


def _headline(report: Report, path: str) -> str:
    """Say no more than a file can show: that an environment works is seen when it runs."""
    work = "GPU deep learning" if report.goal == "gpu" else "deep learning on the CPU"
    if report.verdict == INCOMPATIBLE:
        return f"What {path} builds is not fit for {work}."
    if report.verdict == UNDETERMINED:
        return f"{path} names no framework that could be judged."
    return f"Nothing in {path} stands against {work}; the driver and the GPU show when it runs."


def _demands(blueprint: Blueprint, matrix: Matrix, config: Config, where: str) -> list[Line]:
    """List the frameworks the file installs, and those the project requires besides."""
    wanted = [line for line in blueprint.requirements if _framework(line, matrix)]
    named = {_framework(line, matrix) for line in wanted}
    required = [Line(text, where) for text in config.requires]
    return wanted + [line for line in required if _framework(line, matrix) not in named]


def _judged(blueprint: Blueprint, matrix: Matrix, wanted: list[Line], expect: str, told: _Told) -> Context:
    goal, facts = _goal(blueprint, wanted, expect), planned_facts(blueprint)
    for line in wanted:
        report = evaluate(Context(facts, matrix, Target(goal, (line.text,))), DECIDABLE)
        told.add([_placed(finding, line) for finding in report.findings], report.checked)
    context = Context(facts, matrix, Target(goal, tuple(line.text for line in wanted)))
    if len(wanted) > 1:
        report = evaluate(context, TOGETHER)
        told.add(report.findings, report.checked)
    for finding_id, found in _of_the_file(blueprint, wanted, goal):
        told.add(found, (finding_id,))
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
    by_name = any("cuda" in line.text or "-gpu" in line.text for line in (*wanted, *blueprint.conda))
    with_cuda = blueprint.image is not None and bool(blueprint.image.cuda)
    return "gpu" if with_cuda or blueprint.asks_gpu or by_name else "cpu"


def _placed(finding: Finding, line: Line) -> Finding:
    asked = Evidence("requirement", line.text, Source("file", line.where, line.text))
    return replace(finding, evidence=(asked, *finding.evidence))


def _later(finding: Finding) -> Finding:
    """Tell as a note what the file leaves open."""
    open_question = finding.verdict == UNDETERMINED and finding.id == "probe-failed"
    return replace(finding, severity=NOTE) if open_question else finding


def _of_the_file(blueprint: Blueprint, wanted: list[Line], goal: str) -> Iterator[tuple[str, list[Finding]]]:
    image = blueprint.image
    if goal == "gpu" and wanted:
        yield "framework-cpu-build", [_cpu_wheels(line) for line in wanted if line in blueprint.cpu_index]
    if goal == "gpu" and image is not None and image.cuda and image.flavor != "devel":
        yield "toolkit-missing", [_no_compiler(line, blueprint) for line in _compiling(blueprint)[:1]]
    if blueprint.asks_gpu or blueprint.lacks_gpu:
        yield "driver-not-in-container", [_no_request(line) for line in (blueprint.lacks_gpu,) if line]
    if blueprint.unread:
        yield "probe-failed", [_unread(line) for line in blueprint.unread]


def _compiling(blueprint: Blueprint) -> tuple[Line, ...]:
    sources = conventions()["compiles_cuda"]
    named = (line for line in blueprint.requirements if _name(line) in sources)
    return (*blueprint.compiles, *named)


def _name(line: Line) -> str:
    try:
        return str(canonicalize_name(Requirement(line.text).name))
    except InvalidRequirement:
        return ""


def _cpu_wheels(line: Line) -> Finding:
    message = (
        f"{line.text} is installed from an index that has wheels for the CPU alone; this environment is for a GPU."
    )
    seen = Evidence("requirement", line.text, Source("file", line.where, line.text))
    fix = Fix("Name PyTorch's index of the CUDA variant you want (…/whl/cu126), or none: its usual wheels bring CUDA.")
    return Finding("framework-cpu-build", INCOMPATIBLE, ERROR, message, (seen,), fix)


def _no_compiler(line: Line, blueprint: Blueprint) -> Finding:
    image = blueprint.image
    assert image is not None  # noqa: S101 - asked by the caller
    message = f"{line.text} compiles CUDA code, and {image.reference} has no nvcc: only its devel variant has."
    seen = (
        Evidence("what compiles", line.text, Source("file", line.where, line.text)),
        Evidence("base image", image.reference, Source("file", image.where, image.reference)),
    )
    devel = image.reference.replace(f"-{image.flavor}", "-devel")
    fix = Fix(f"Build in a stage FROM {devel}, and copy the result into the {image.flavor} image.")
    return Finding("toolkit-missing", INCOMPATIBLE, ERROR, message, seen, fix)


def _no_request(line: Line) -> Finding:
    message = f"{line.text} has a CUDA image and asks for no GPU: its container will see none."
    seen = Evidence("compose service", line.text, Source("file", line.where, line.text))
    return Finding(
        "driver-not-in-container", INCOMPATIBLE, ERROR, message, (seen,), Fix("Add `gpus: all` to the service.")
    )


def _unread(line: Line) -> Finding:
    message = f"{line.text} is not beside the file, so what it installs is not judged."
    return Finding(
        "probe-failed", UNDETERMINED, NOTE, message, (Evidence("file", line.text, Source("file", line.where)),)
    )

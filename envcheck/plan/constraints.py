"""What has to be kept within bounds beside a release: broken neighbours, and CUDA wheels that dropped the GPU."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from packaging.version import Version

from envcheck.matrix.versions import within
from envcheck.model.facts import Known
from envcheck.model.findings import Finding
from envcheck.model.plans import PlannedRelease
from envcheck.model.releases import CudnnRelease, FrameworkRelease, KnownProblem
from envcheck.plan.candidates import Candidate
from envcheck.plan.cuda_source import NONE, OWN, CudaSource
from envcheck.plan.plan_data import plan_data
from envcheck.rules.context import Context, UndecidedError
from envcheck.rules.gpu_facts import judged_gpus
from envcheck.rules.known_problems import name_of

_METAL = "tensorflow-metal"
_MINORS = 100  # more than any major of cuDNN has had
_CUDNN = re.compile(r"(nvidia-cudnn-cu(\d+))([<>=!~].*)?")


def constraints(context: Context, candidate: Candidate, source: CudaSource) -> tuple[str, ...]:
    """List the requirements to install beside a release, each from a row of the matrix."""
    known: dict[str, tuple[str, ...]] = context.memo.setdefault("constraints", {})
    if candidate.requirement not in known:
        known[candidate.requirement] = _worked_out(context, candidate, source)
    return known[candidate.requirement]


def _worked_out(context: Context, candidate: Candidate, source: CudaSource) -> tuple[str, ...]:
    found = [*_known_problems(context, candidate), *source.requirements]
    caps = _cudnn_caps(context, candidate, source)
    kept = [item for item in found if name_of(item) not in caps]
    return tuple(dict.fromkeys([*candidate.beside, *kept, *caps.values(), *_metal(context, candidate)]))


def source_only(context: Context, candidate: Candidate) -> tuple[str, ...]:
    """List the dependencies of a release that exist as source distributions only."""
    return tuple(name for entry in _source_rows(context, candidate) for name in entry["names"])


def _source_rows(context: Context, candidate: Candidate) -> Iterator[dict[str, Any]]:
    row, minor = candidate.row, python_minor(context)
    for entry in plan_data()["source_only"]["rows"]:
        of_it = row.distribution in entry["distributions"] and within(row.version, entry["specifier"])
        if of_it and within(minor, entry.get("pythons", "")):
            yield entry


def python_minor(context: Context) -> str:
    """Return the planned Python's minor version: 3.11."""
    version = context.facts.python.version
    return ".".join(version.value.split(".")[:2]) if isinstance(version, Known) else ""


def is_resolved(context: Context, candidate: Candidate, finding: Finding) -> bool:
    """Tell whether the constraints of a release, or what is built for it, take away what a finding warns of."""
    taken = {problem.id for problem, _ in _bounding_problems(context, candidate)}
    taken |= {entry["answers"] for entry in _source_rows(context, candidate) if "answers" in entry}
    return any(item.fact.removeprefix("problems ") in taken for item in finding.evidence)


def _known_problems(context: Context, candidate: Candidate) -> Iterator[str]:
    for _, constraint in _bounding_problems(context, candidate):
        if not name_of(constraint).startswith("nvidia-"):
            yield constraint


def _bounding_problems(context: Context, candidate: Candidate) -> Iterator[tuple[KnownProblem, str]]:
    """Pair each known problem that hangs on a neighbour's version with what bounds it."""
    for row in (candidate.row, candidate.cuda_row):
        for stage in ("run", "advice"):
            for problem in context.matrix.problems(row.distribution, row.version, stage):
                if problem.condition and _applies(context, problem):
                    names = (item for item in problem.fix.split() if name_of(item) != row.distribution)
                    yield from ((problem, item) for item in names)


def _applies(context: Context, problem: KnownProblem) -> bool:
    here = not problem.platforms or context.platform in problem.platforms
    return here and within(python_minor(context), problem.pythons)


def _cudnn_caps(context: Context, candidate: Candidate, source: CudaSource) -> dict[str, str]:
    """Bound the cuDNN wheel where the newest one that may be resolved no longer serves the GPUs."""
    wheels = () if source.kind == NONE else candidate.cuda_row.cuda_wheels if source.kind == OWN else ()
    caps: dict[str, str] = {}
    for wheel in (*wheels, *source.requirements):
        match = _CUDNN.fullmatch(wheel)
        if match and "==" not in wheel:
            cap = cudnn_cap(context, match[2], match[3] or "")
            if cap:
                bounds = f"{match[3]},{cap}" if wheel in source.requirements else cap
                caps[match[1]] = f"{match[1]}{bounds}"
    return {**_capped_by_problems(context, candidate, source, caps), **caps}


def _capped_by_problems(
    context: Context, candidate: Candidate, source: CudaSource, caps: dict[str, str]
) -> dict[str, str]:
    """Take a bound on an nvidia wheel from a known problem, such as metadata without a cap on cuDNN."""
    found: dict[str, str] = {}
    if source.kind != OWN:
        return found
    row = candidate.cuda_row
    for problem in context.matrix.problems(row.distribution, row.version, "run"):
        for item in problem.fix.split():
            if name_of(item).startswith("nvidia-") and name_of(item) not in caps and _applies(context, problem):
                found[name_of(item)] = item
    return found


def cudnn_cap(context: Context, cuda_major: str, specifier: str) -> str:
    """Return "<9.11" where a GPU was dropped by cuDNN 9.11 and the specifier would admit it; "" where none was."""
    try:
        capabilities = [Version(item.capability) for item in judged_gpus(context)]
    except UndecidedError:
        return ""  # which GPUs there are could not be told: the judgement says so
    leaves_some = False  # the first line that is asked for may serve none of them any more: no bound helps
    for row in _cudnn_lines(context, cuda_major, specifier):
        lowest, admitted = row.compute_capability_min, within(f"{row.version}.9999", specifier)
        if lowest and admitted and any(capability < Version(lowest) for capability in capabilities):
            return f"<{row.version}" if leaves_some or not specifier else ""
        leaves_some = leaves_some or admitted
    return ""


def _cudnn_lines(context: Context, cuda_major: str, specifier: str) -> Iterator[CudnnRelease]:
    """Yield the lines of the cuDNN major a specifier begins with, as built for a CUDA major, oldest first."""
    first = re.match(r">=(\d+)", specifier)
    minors = range(_MINORS) if first else ()
    rows = (context.matrix.cudnn(f"{first[1] if first else ''}.{minor}", cuda_major) for minor in minors)
    yield from (row for row in rows if row)


def _metal(context: Context, candidate: Candidate) -> Iterator[str]:
    """Yield the plugin that gives TensorFlow the GPU of an Apple machine, where one was made for the release."""
    if candidate.row.framework == "tensorflow":
        yield from (f"{row.distribution}=={row.version}" for row in _companions(context, candidate.row.version)[:1])


def beside(context: Context, releases: Iterable[PlannedRelease]) -> list[FrameworkRelease]:
    """List the rows of the plugins that planned releases of TensorFlow have beside them."""
    versions = [item.version for item in releases if item.framework == "tensorflow"]
    return [row for version in versions for row in _companions(context, version)[:1]]


def newest_with_metal(context: Context) -> str:
    """Name the newest TensorFlow that a plugin for Apple's GPU goes with here; "" where there is none."""
    versions = context.matrix.versions("tensorflow") if context.platform == "macosx_arm64" else ()
    return next((version for version in versions if _companions(context, version)), "")


def _companions(context: Context, tensorflow: str) -> list[FrameworkRelease]:
    rows = context.matrix.companions_of(tensorflow, context.platform) if context.platform == "macosx_arm64" else ()
    return [row for row in rows if row.distribution == _METAL and python_minor(context) in row.pythons]

"""The layer picture: what stands on what, what meets what, and where it breaks."""

from __future__ import annotations

from envcheck.model.facts import Known, value_of
from envcheck.model.findings import ERROR, NOTE, UNDETERMINED, Finding, Report
from envcheck.model.records import dataclass
from envcheck.model.snapshot import Facts
from envcheck.rules.overview import overview

BROKEN, WARNED, UNREAD, SOUND, ABSENT = "error", "warning", "undetermined", "ok", "not there"
_WORST_FIRST = (BROKEN, UNREAD, WARNED, SOUND)
_NOTHING = ("none", "no toolkit")  # what the overview says of a layer that is not there
# The boxes, from what the user wants down to the metal, each with the label of its line in the overview.
_BOXES = (("Framework", "Frameworks"), ("Python", "Python"), ("cuDNN", "cuDNN"), ("CUDA", "CUDA"))
_BASE = (("Driver", "Driver"), ("GPU", "GPU"))


@dataclass(frozen=True)
class Layer:
    """One box of the picture; `meets` says what it asks of the box below."""

    name: str
    text: str
    state: str
    findings: tuple[Finding, ...]
    meets: str = ""


def layers(report: Report, facts: Facts) -> list[Layer]:
    """Return the boxes from the framework down to the GPU, each with the findings that concern it."""
    said = dict(overview(facts))
    meets = {"Framework": _wanted(facts), "CUDA": _floor(facts)}
    boxes = []
    for name, label in _BOXES + _BASE:
        concerned = tuple(item for item in report.findings if _box(item) == name)
        boxes.append(Layer(name, said[label], _state(concerned, said[label]), concerned, meets.get(name, "")))
    return boxes


def _box(finding: Finding) -> str:
    from envcheck.rules.catalogue import catalogue

    if finding.id.startswith("cudnn-"):
        return "cuDNN"
    if finding.id.startswith(("framework-", "platform-no")) or finding.id in ("release-unknown", "keras-mismatch"):
        return "Framework"
    layer = catalogue()[finding.id].layer
    return {"hardware": "GPU", "driver": "Driver", "toolkit": "CUDA", "python": "Python"}.get(layer, "GPU")


def _state(findings: tuple[Finding, ...], text: str) -> str:
    states = {_one(item) for item in findings}
    worst = next(state for state in _WORST_FIRST if state in states or state == SOUND)
    return ABSENT if worst == SOUND and text in _NOTHING else worst


def _one(finding: Finding) -> str:
    if finding.severity == NOTE:
        return SOUND
    if finding.verdict == UNDETERMINED:
        return UNREAD
    return BROKEN if finding.severity == ERROR else WARNED


def _wanted(facts: Facts) -> str:
    builds = facts.python.frameworks.value if isinstance(facts.python.frameworks, Known) else ()
    wanted = []
    for build in builds:
        parts = [("CUDA", value_of(build.cuda_version)), ("cuDNN", value_of(build.cudnn_version))]
        shown = " and ".join(f"{name} {version}" for name, version in parts if version)
        wanted += [f"{build.distribution} wants {shown}"] if shown else []
    return "; ".join(wanted)


def _floor(facts: Facts) -> str:
    ceiling = value_of(facts.driver.cuda_driver_version)
    return f"the driver runs CUDA up to {ceiling}" if ceiling else ""

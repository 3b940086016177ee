"""The layer picture: what stands on what, what meets what, and where it breaks."""

from __future__ import annotations

import re

from envcheck.model.facts import Known, value_of
from envcheck.model.findings import ERROR, NOTE, UNDETERMINED, Finding, Report
from envcheck.model.machine import Facts, FrameworkBuild
from envcheck.model.records import dataclass
from envcheck.rules.overview import overview

BROKEN, WARNED, UNREAD, SOUND, ABSENT, NEEDLESS = "error", "warning", "undetermined", "ok", "not there", "not needed"
_ASKED = "asked for"  # judged, and not installed
_WORST_FIRST = (BROKEN, UNREAD, WARNED, SOUND)
_NOTHING = ("none", "no toolkit")  # what the overview says of a layer that is not there
# The boxes, from what runs the user's program down to the metal, each with the label of its line in the overview.
_BOXES = (
    ("Python", "Python"),
    ("Framework", "Frameworks"),
    ("cuDNN", "cuDNN"),
    ("CUDA", "CUDA"),
    ("Driver", "Driver"),
    ("GPU", "GPU"),
)
# The check that decides whether an absent layer is missed, and the facts a box stands on.
_MISSED = {"CUDA": "toolkit-missing", "cuDNN": "cudnn-missing"}
_FACTS = (
    ("python.frameworks", "Framework"),
    ("python", "Python"),
    ("host", "Python"),
    ("toolkits", "CUDA"),
    ("compilers", "CUDA"),
    ("cudnn", "cuDNN"),
    ("driver", "Driver"),
)


@dataclass(frozen=True)
class Layer:
    """One box of the picture; `meets` says what it and the boxes below ask of each other."""

    name: str
    text: str
    state: str
    findings: tuple[Finding, ...]
    meets: tuple[str, ...] = ()


def layers(report: Report, facts: Facts) -> list[Layer]:
    """Return the boxes from Python down to the GPU, each with the findings that concern it."""
    said = dict(overview(facts))
    if report.asked and said["Frameworks"] == "none":
        said["Frameworks"] = f"not installed; asked for: {', '.join(report.asked)}"
    elif report.asked:
        said["Frameworks"] += f"; asked for: {', '.join(report.asked)}"
    meets = {"Framework": _wanted(facts), "CUDA": _ceiling(facts), "Driver": _code(facts)}
    boxes = []
    for name, label in _BOXES:
        concerned = tuple(item for item in report.findings if name in _boxes(item))
        state = _state(concerned, said[label])
        if state == ABSENT and _MISSED.get(name) in report.checked and _builds(facts):
            state = NEEDLESS  # the check looked, and missed nothing
        if state == SOUND and report.asked and name == "Framework" and not _builds(facts):
            state = _ASKED
        boxes.append(Layer(name, said[label], state, concerned, meets.get(name, ())))
    return boxes


def _boxes(finding: Finding) -> set[str]:
    from envcheck.rules.catalogue import catalogue

    if finding.id == "probe-failed":  # it concerns whatever could not be read
        read = [next((box for fact, box in _FACTS if item.fact.startswith(fact)), "GPU") for item in finding.evidence]
        return set(read) or {"GPU"}
    if finding.id.startswith("cudnn-"):
        return {"cuDNN"}
    if finding.id.startswith(("framework-", "platform-no")) or finding.id in ("release-unknown", "keras-mismatch"):
        return {"Framework"}
    layer = catalogue()[finding.id].layer
    return {{"hardware": "GPU", "driver": "Driver", "toolkit": "CUDA", "python": "Python"}.get(layer, "GPU")}


def _state(findings: tuple[Finding, ...], text: str) -> str:
    states = {_one(item) for item in findings}
    worst = next(state for state in _WORST_FIRST if state in states or state == SOUND)
    if worst == SOUND and text.startswith("unknown"):
        return UNREAD
    return ABSENT if worst == SOUND and text in _NOTHING else worst


def _one(finding: Finding) -> str:
    if finding.severity == NOTE:
        return SOUND
    if finding.verdict == UNDETERMINED:
        return UNREAD
    return BROKEN if finding.severity == ERROR else WARNED


def _builds(facts: Facts) -> tuple[FrameworkBuild, ...]:
    return facts.python.frameworks.value if isinstance(facts.python.frameworks, Known) else ()


def _wanted(facts: Facts) -> tuple[str, ...]:
    wanted = []
    for build in _builds(facts):
        parts = [("CUDA", value_of(build.cuda_version)), ("cuDNN", value_of(build.cudnn_version))]
        shown = " and ".join(f"{name} {version}" for name, version in parts if version)
        wanted += [f"{build.distribution} was built for {shown}"] if shown else []
    return tuple(wanted)


def _ceiling(facts: Facts) -> tuple[str, ...]:
    ceiling = value_of(facts.driver.cuda_driver_version)
    return (f"the driver runs CUDA up to {ceiling}",) if ceiling else ()


def _code(facts: Facts) -> tuple[str, ...]:
    """Say for which GPUs the frameworks hold code."""
    said = []
    for build in _builds(facts):
        named = value_of(build.compute_capabilities) or ()
        found = [match for match in (re.search(r"(\d+)(\d)[a-z]?$", one) for one in named) if match]
        numbers = sorted({(int(match[1]), int(match[2])) for match in found})
        if numbers:
            shown = ", ".join(f"{major}.{minor}" for major, minor in numbers)
            said.append(f"{build.distribution} holds code for compute capability {shown}")
    return tuple(said)

"""Write the first sentence of a report: what works where, or what stops it."""

from __future__ import annotations

import re
from collections import Counter

from envcheck.model import COMPATIBLE, ERROR, INCOMPATIBLE, WARNING, Finding
from envcheck.model.text import counted
from envcheck.rules.builds import Build
from envcheck.rules.catalogue import BUILD, catalogue, what_stops
from envcheck.rules.context import Context
from envcheck.rules.targets import judged_builds, wanted_releases

_WORK = {"gpu": "GPU deep learning", "cpu": "deep learning on the CPU"}
# What a finding stops -> what its subject cannot do.
_FAILURES = {
    "import": "cannot start",
    "use": "cannot compute",
    "gpu": "cannot use the GPU",
    "compute": "cannot compute on the GPU",
}
_FAILS = "will not work here"
_LONGEST = 150  # characters of a reason that still reads as a headline
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


def shorten_message(cause: Finding) -> str:
    """Return the first sentence of a message, its first clause, or what the id means in general."""
    first = re.split(r"(?<=[\w)'\"`])\. (?=[A-Z])", cause.message)[0].rstrip(".")
    plain = re.sub(r" \([^()]*\)", "", first)
    for text in (first, plain, plain.partition(": ")[0]):
        if len(text) <= _LONGEST:
            return text
    return catalogue()[cause.id].headline.rstrip(".")


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
    driver = context.driver.release.value
    return f"on {gpus}, driver {driver}" if driver else f"on {gpus}"

"""Turn the packages that a file pins into facts of the machine that it builds, and judge those by the rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from envcheck.check.blueprint import Line
from envcheck.check.packages import CONFLICT, Environment, Held, name_of_line
from envcheck.frameworks import identity
from envcheck.model import (
    ERROR,
    INCOMPATIBLE,
    Distribution,
    Evidence,
    Facts,
    Finding,
    FrameworkBuild,
    Known,
    Problem,
    Source,
    dataclass,
    replace,
)
from envcheck.model.specifiers import within
from envcheck.rules import Context, Target
from envcheck.rules.builds import required_frameworks
from envcheck.rules.judgement import judge_release

# The findings on a package that lies beside a framework; the rules for these are asked.
BESIDE = frozenset({"numpy-abi", "protobuf-conflict", "keras-mismatch", CONFLICT})


@dataclass(frozen=True)
class Pin:
    """One release that a line names."""

    name: str
    version: str
    line: Line


def list_pins(environment: Environment, lines: Sequence[Line]) -> list[Pin]:
    """List what the last command to name it pins, without frameworks and what the matrix knows to lie on them."""
    last: dict[str, list[Pin]] = {}
    for line in lines:
        pin = _pin_of(line)
        if pin is None or environment.context.matrix.framework_of(pin.name):
            continue
        same_command = [item for item in last.get(pin.name, []) if item.line.command == line.command]
        last[pin.name] = [*same_command, pin]
    return [pins[0] for pins in last.values() if len({pin.version for pin in pins}) == 1]


def find_broken_pins(environment: Environment, pins: Sequence[Pin]) -> Iterator[Finding]:
    """Find the pinned packages that keep a framework of the file from being installed or from working.

    What one command installs, pip resolves together: it refuses a pin that the framework's metadata excludes. A later
    command lays its pin over the framework; an earlier one's is replaced by what the framework requires.
    """
    for held in environment.frameworks.values():
        beside = []
        for pin in pins:
            specifier = held.row.requires.get(pin.name, "")
            fits = not specifier or within(pin.version, specifier)
            if not fits and _may_fit(held, pin, specifier):
                continue
            is_together = _is_of_one_command(environment, held, pin)
            if not fits and is_together and _pin_of(held.line):
                if not _is_judged_by_itself(environment.context, pin, held):
                    yield _refused(held, pin, specifier)
            elif fits or (not is_together and pin.line.command > held.line.command):
                beside.append(pin)
        if beside:
            yield from _judge_beside(environment, held, beside)


def _pin_of(line: Line) -> Pin | None:
    """Return the one release that a line admits, wherever it is installed; None for other lines."""
    try:
        requirement = Requirement(line.text)
    except InvalidRequirement:
        return None
    specifiers = list(requirement.specifier)
    if requirement.marker or requirement.url or len(specifiers) != 1 or specifiers[0].operator != "==":
        return None
    try:
        Version(specifiers[0].version)
    except InvalidVersion:  # numpy==1.26.*
        return None
    return Pin(name_of_line(line), specifiers[0].version, line)


def _is_of_one_command(environment: Environment, held: Held, pin: Pin) -> bool:
    is_of_image = environment.image is not None and held.line.location == environment.image.location
    return held.line.command == pin.line.command and pin.line.is_resolved and not is_of_image


def _may_fit(held: Held, pin: Pin, specifier: str) -> bool:
    """Tell whether the wheel for another Python than the one that the matrix read may take an older release."""
    if not identity(held.row.framework).has_floors_by_python:
        return False
    ceilings = ",".join(bound for bound in specifier.split(",") if not bound.strip().startswith(">"))
    return not ceilings or within(pin.version, ceilings)


def _is_judged_by_itself(context: Context, pin: Pin, held: Held) -> bool:
    """Tell whether the pinned release states which releases of the framework it goes with, as Keras 3 does."""
    section = context.matrix.companion_of(pin.name)
    rows = context.matrix.releases(section, context.platform, pin.version.__eq__) if section else ()
    return any(held.row.framework in required_frameworks(row, (held.row.framework,)) for row in rows)


def _refused(held: Held, pin: Pin, specifier: str) -> Finding:
    row, needed = held.row, f"{pin.name}{specifier}"
    message = f"{held.label} requires {needed}, but {pin.line.text} stands beside it: pip refuses both."
    matrix = Evidence("matrix", needed, citation=row.citations[0] if row.citations else None)
    problem = Problem(("unmet-requirements",), requirements=(f"{row.distribution}=={row.version}", needed))
    return Finding(CONFLICT, INCOMPATIBLE, ERROR, message, (*_at(pin, held), matrix), problem=problem)


def _at(*places: Pin | Held) -> tuple[Evidence, ...]:
    lines = [place.line for place in places]
    return tuple(Evidence("requirement", line.text, Source("file", line.location, line.text)) for line in lines)


def _judge_beside(environment: Environment, held: Held, pins: Sequence[Pin]) -> Iterator[Finding]:
    """Ask the rules of what is installed about one framework with the pins beside it."""
    context = environment.context
    facts = _as_installed(context.facts, held, pins)
    report = judge_release(Context(facts, context.matrix, Target(context.goal)), BESIDE).report
    for finding in report.findings:
        named = [pin for pin in pins if f"{pin.name} {pin.version}" in finding.message]
        if named and finding.verdict == INCOMPATIBLE:
            cited = tuple(item for item in finding.evidence if item.citation)
            yield replace(finding, primary=False, evidence=(*_at(*named, held), *cited))


def _as_installed(facts: Facts, held: Held, pins: Sequence[Pin]) -> Facts:
    row, source = held.row, Source("file", held.line.location, held.line.text)
    build = FrameworkBuild(row.framework, row.distribution, row.build_version)
    installed = [Distribution(row.distribution, row.build_version)]
    installed += [Distribution(pin.name, pin.version) for pin in pins]
    python = replace(facts.python, distributions=Known(tuple(installed), source), frameworks=Known((build,), source))
    return replace(facts, python=python)

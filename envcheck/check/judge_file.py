"""Judge what a file will build before it is built.

The rules judge the machine that it describes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from envcheck.check.blueprint import Blueprint, Line, Names, Reader, is_for_gpu
from envcheck.check.build_files import read_blueprints
from envcheck.check.config import Config, ConfigError
from envcheck.check.environment import Environment, Place, is_of_interest
from envcheck.check.file_remedies import with_file_remedy
from envcheck.check.judge import Gate, apply_ignores, count_ignored
from envcheck.check.selection import PYTHONS, Selection
from envcheck.diagnosis import with_steps
from envcheck.diagnosis.planned import describe_host
from envcheck.matrix.query import Matrix
from envcheck.model import (
    COMPATIBLE,
    ERROR,
    INCOMPATIBLE,
    NOTE,
    UNDETERMINED,
    WARNING,
    Evidence,
    Facts,
    Finding,
    Report,
    RequestError,
    Source,
)
from envcheck.model.versions import matches
from envcheck.remedies import with_remedy
from envcheck.remedies.situation import Situation
from envcheck.rules import Context, Target, conclude
from envcheck.rules.catalogue import catalogue
from envcheck.rules.described_machine import Description
from envcheck.rules.engine import find
from envcheck.rules.targets import is_for_gpu_alone

PROJECT = -1  # stands for the command that installs what a project requires besides
UNSTATED = Description()
_STATED = "the stated one is"


def judge_text(
    text: str,
    file: str,
    reader: Reader,
    gate: Gate,
    *,
    driver: str = "",
    gpus: Names = (),
    selection: Selection | None = None,
) -> tuple[Report, Facts]:
    """Judge what the text of a file builds; return the report and what the file states.

    Raises FileError.

    `driver` and `gpus` are of the machines that run it. Without them, it is judged for each that
    the project names, or its minima count. `selection` is what of a project or a lock file is
    installed.
    """
    blueprints = read_blueprints(text, file, reader, selection)

    def judge_on(driver: str, gpus: Names, name: str = "") -> tuple[Report, Facts]:
        try:
            stated = _state_machine(driver, gpus, gate.config)
            report, environments = judge_blueprints(blueprints, gate, *stated)
        except RequestError as error:
            if not name:
                raise
            raise ConfigError(f"{gate.path}: tool.envcheck.machines.{name}: {error}") from None
        return report, environments[0].final_facts()

    machines = gate.config.machines
    if driver or gpus or not machines:
        return judge_on(driver, gpus)
    judged = {name: judge_on(each.driver, each.gpus, name)[0] for name, each in machines.items()}
    facts = _compose(blueprints, gate, UNSTATED)[0].final_facts()
    return _join(judged, _name_file(blueprints)), facts


def _state_machine(driver: str, gpus: Names, config: Config) -> tuple[Description, str]:
    """Describe a machine, with the fact of it that is left open and decides the answer."""
    capabilities = (config.min_compute_capability,) if config.min_compute_capability else ()
    host = describe_host(driver or config.min_driver, gpus or capabilities)
    decisive = ""
    if driver and not host.gpus:
        decisive = "gpus"
    elif gpus and not host.driver:
        decisive = "driver.release"
    return host, decisive


def _join(judged: Mapping[str, Report], file: str) -> Report:
    """Join the answers for several machines: the worst verdict, and whose each finding is."""
    verdicts = {name: report.verdict for name, report in judged.items()}
    worst = min(verdicts.values(), key=(INCOMPATIBLE, UNDETERMINED, COMPATIBLE).index)
    names = [name for name, verdict in verdicts.items() if verdict == worst]
    report = judged[names[0]]
    others = [name for name, verdict in verdicts.items() if verdict == COMPATIBLE]
    headline = f"{_list_names(names)}: {report.headline}"
    if worst == INCOMPATIBLE:
        cause = _name_in(report.headline.removeprefix(f"{file}: "), names[:1])
        headline = f"{file}: {cause}"
        headline += f" No problem on {_list_names(others)}." if others else ""
    found: dict[tuple[str, str], tuple[Finding, list[str]]] = {}
    for name in sorted(judged, key=lambda name: name not in names):
        for item in judged[name].findings:
            found.setdefault((item.id, item.message), (item, []))[1].append(name)
    findings: list[Finding] = []
    for item, holders in found.values():
        message = item.message
        if len(holders) < len(judged) or _STATED in message:
            message = _name_in(message, holders)
        is_primary = item.primary and not findings
        findings.append(replace(item, message=message, primary=is_primary))
    findings.sort(key=lambda item: (ERROR, WARNING, NOTE).index(item.severity))
    checked = {name for each in judged.values() for name in each.checked}
    in_order = tuple(sorted(checked, key=lambda name: catalogue()[name].rank))
    joined = replace(
        report, headline=headline, findings=tuple(findings), checked=in_order, steps=()
    )
    return with_steps(joined)


def _name_in(message: str, names: Sequence[str]) -> str:
    """Write whose driver it is: "needs driver 580; the stated one is 570" -> "node-a has 570"."""
    has = f"{_list_names(names)} {'have' if len(names) > 1 else 'has'}"
    stated = message.replace(_STATED, has)
    return stated if stated != message else f"{_list_names(names)}: {message}"


def _list_names(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _name_file(blueprints: Sequence[Blueprint]) -> str:
    return blueprints[0].path.split(" (")[0]


def judge_blueprints(
    blueprints: Sequence[Blueprint], gate: Gate, host: Description = UNSTATED, decisive: str = ""
) -> tuple[Report, list[Environment]]:
    """Return one report on the environments a file builds, and these.

    One that decides nothing is undetermined.
    """
    environments = _compose(blueprints, gate, host)
    has_framework = any(item.holds_framework for item in environments)
    findings, checked = [], set[str]()
    for environment in environments:
        is_decisive = environment.holds_framework or not has_framework
        context = _context(environment, decisive, is_decisive=is_decisive)
        found, ids = find(
            context, commands=environment.commands, is_only_built=environment.is_stage
        )
        findings += [
            _complete(finding, environment, context)
            for finding in {(item.id, item.message): item for item in found}.values()
        ]
        checked |= ids
    unique: dict[object, Finding] = {}
    for item in findings:
        is_said_once = item.severity == NOTE or item.verdict == UNDETERMINED
        unique.setdefault((item.id, item.message) if is_said_once else item, item)
    final = apply_ignores([*unique.values()], gate.config.ignored, gate.today)
    is_empty = not has_framework and not any(item.unread or item.refused for item in environments)
    if is_empty and not any(finding.verdict == INCOMPATIBLE for finding in final):
        # That nothing is to be judged is one sentence, the headline.
        final = [item for item in final if item.id != "probe-failed"]
    judged = [item for item in environments if not item.is_stage]
    main = next((item for item in judged if item.goal == "gpu"), judged[0])
    report = with_steps(
        conclude(Context(main.final_facts(), gate.matrix, Target(main.goal)), final, checked)
    )
    if is_empty and report.verdict != INCOMPATIBLE:
        report = replace(report, verdict=UNDETERMINED)
    headline = _headline(report, _name_file(blueprints), _unchecked(host), main)
    if decisive and report.verdict == UNDETERMINED:
        headline += f" State the {'GPU' if decisive == 'gpus' else 'driver'}, too."
    of_file = replace(report, headline=headline, judged=replace(report.judged, machine=False))
    return count_ignored(of_file), judged


def _compose(blueprints: Sequence[Blueprint], gate: Gate, host: Description) -> list[Environment]:
    """Compose the environments to judge.

    Those with frameworks or for GPUs, not the database beside them.
    """
    matrix, config = gate.matrix, gate.config
    requiring = _project_environments(blueprints, matrix)
    environments = []
    for item in blueprints:
        is_stage = item.kind == "stage"
        if not is_stage and item not in requiring and not (item.asks_gpu or item.compiles):
            continue
        requires = config.requires if item in requiring else ()
        asked = tuple(Line(text, gate.path, command=PROJECT) for text in requires)
        goal = _goal(item, asked, _expect(config, host), matrix)
        goal = "gpu" if is_stage and config.expect != "cpu" else goal
        asked = () if is_stage else asked
        environments.append(_build_environment(item, matrix, goal, host, asked))
    return environments


def _build_environment(
    blueprint: Blueprint, matrix: Matrix, goal: str, host: Description, asked: tuple[Line, ...]
) -> Environment:
    """Build an environment; where no Python that it admits serves it, the lowest of those shows it.

    One that admits a Python which has wheels of all that it lists is left open.
    """

    def build(blueprint: Blueprint) -> Environment:
        environment = Environment(blueprint, matrix, goal, host)
        environment.require(asked)
        return environment

    on_any, admitted = build(blueprint), blueprint.pythons
    if admitted is None or blueprint.python is not None or on_any.refused:
        return on_any
    lowest = None
    for python in PYTHONS:
        if any(matches(f"{python}.{patch}", admitted.text) for patch in (0, 99)):
            on_one = build(replace(blueprint, python=replace(admitted, text=python)))
            if not on_one.refused:
                return on_any
            lowest = lowest or on_one
    return lowest or on_any


def _context(environment: Environment, decisive: str, *, is_decisive: bool) -> Context:
    compiled, possible = environment.list_compiled()
    target = Target(
        environment.goal,
        (*environment.required, *environment.refused),
        compiles=bool(compiled),
        may_compile=bool(possible),
        built=(compiled or possible or (Line("", ""),))[0].text,
        decisive=decisive,
    )
    return Context(environment.final_facts(is_decisive=is_decisive), environment.matrix, target)


def _complete(finding: Finding, environment: Environment, context: Context) -> Finding:
    """Say where the lines stand that a finding is about, and what to write there."""
    places = environment.find_places(finding)
    placed = _with_places(
        finding, places, "the image" if environment.image.is_named else "the environment"
    )
    return with_file_remedy(with_remedy(placed, Situation(context)), places, environment, context)


def _expect(config: Config, host: Description) -> str:
    if config.expect == "auto" and (host.driver or host.gpus):
        return "gpu"
    return config.expect


def _unchecked(host: Description) -> str:
    """Say what of the machine that runs the build was not stated."""
    unstated = [name for name, value in (("driver", host.driver), ("GPU", host.gpus)) if not value]
    verb = "are" if len(unstated) > 1 else "is"
    if unstated:
        return f"The {' and the '.join(unstated)} {verb} checked when it runs."
    return ""


def _headline(report: Report, path: str, unchecked: str, environment: Environment) -> str:
    """Say no more than a file can show: that an environment works is seen when it runs."""
    work = "GPU deep learning" if report.goal == "gpu" else "deep learning on the CPU"
    if report.verdict == INCOMPATIBLE:
        return f"{path}: {report.headline}"
    unlisted = [item for item in report.findings if item.id == "release-unknown"]
    if report.verdict == UNDETERMINED and unlisted:
        sentence = unlisted[0].message.partition(". ")[0].rstrip(".")
        return f"{path}: {sentence}."
    if report.verdict == UNDETERMINED and environment.holds_framework:
        return f"{path} does not show whether its build works for {work}."
    if report.verdict == UNDETERMINED:
        return f"{path} names no framework that envcheck can judge."
    return f"{path} has no problem for {work}. {unchecked}".rstrip()


def _project_environments(blueprints: Sequence[Blueprint], matrix: Matrix) -> list[Blueprint]:
    """Choose the environments that the project's own requirements are for."""
    final = [item for item in blueprints if item.kind != "stage"]
    matches = [
        item
        for item in final
        if any(is_of_interest(line, matrix) for line in item.requirements) or is_for_gpu(item.image)
    ]
    return matches or final[:1]


def _goal(blueprint: Blueprint, asked: Sequence[Line], expect: str, matrix: Matrix) -> str:
    """Say what the environment is for: a GPU where anything in the file asks for one."""
    if expect != "auto":
        return expect
    lines = [
        line
        for line in blueprint.requirements
        if is_of_interest(line, matrix) and line.index != "other"
    ]
    by_name = any(
        line.index == "cuda" or re.search(r"cuda|-gpu|[+-]cu\d", line.text)
        for line in (*lines, *asked, *blueprint.conda, *blueprint.cuda_steps)
    )
    image = blueprint.image
    if any(line.text.startswith("cpuonly") for line in blueprint.conda) and not is_for_gpu(image):
        return "cpu"
    stated = (*lines, *asked, *(Line(text, image.location) for text in image.packages))
    named = filter(None, (line.requirement for line in stated))
    by_package = any(is_for_gpu_alone(matrix, item.name, item.specifier) for item in named)
    is_asked = blueprint.asks_gpu or blueprint.toolkit
    return "gpu" if is_for_gpu(image) or is_asked or by_name or by_package else "cpu"


def _with_places(finding: Finding, places: Sequence[Place], subject: str) -> Finding:
    """Say of what is built what the rules say of a machine, and show the lines."""
    message = finding.message.replace("this machine runs", _STATED)
    message = re.sub(
        r"(?:on )?[Tt]his (?:machine|Python)\b", lambda match: _rename(match[0], subject), message
    )
    for place in places:
        if place.owner and finding.verdict == INCOMPATIBLE and place.label in message:
            message = _name_owner(message, place)
    lines = tuple(
        Evidence(place.kind, place.text, Source("file", place.line.location, place.line.text))
        for place in places
    )
    return replace(finding, message=message, evidence=(*lines, *finding.evidence))


def _name_owner(message: str, place: Place) -> str:
    if message.startswith(f"{place.label} "):
        return message.replace(place.label, f"{place.owner} brings {place.label}, which", 1)
    return f"{message} {place.owner} brings it."


def _rename(words: str, subject: str) -> str:
    named = subject if "machine" in words else f"the Python of {subject}"
    if words.startswith("on "):
        return f"in {named}"
    return named[0].upper() + named[1:] if words[0] == "T" else named

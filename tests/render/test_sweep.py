"""Whatever can be printed on Windows or macOS can be typed there: every remedy, fix and plan, and their words."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import pytest

from envcheck.actions import Action, WriteFile, shell_line, windows_line
from envcheck.diagnosis import with_steps
from envcheck.model import Alternative, Finding, FollowRow, Plan, Remedy, Report, Step
from envcheck.remedies import fit_to_system, write_fix
from envcheck.remedies.rows import RemedyRow, RuleValues, fill_row
from envcheck.remedies.situation import Situation
from tests.cases.judged import FOLDER as CASES
from tests.cases.judged import judge, read_cases
from tests.hosts.test_hosts import NAMES, diagnosed, recording
from tests.plan.machines import machine, planned
from tests.remedies.fixes import kinds_of_fixes, samples
from tests.remedies.rows import list_rows_by_finding
from tests.render.windows_shells import ReadError, cmd_words, powershell_words
from tests.rules.factory_machine import UNREAD, context, known

SYSTEMS = ("windows", "darwin")
FRAMEWORKS = ("tensorflow", "torch", "jax")
PROGRAMS = {  # what a Windows or a Mac has, or what a fix has just had installed
    "windows": "cd cmake cmd conda docker envcheck ffmpeg git kubectl mim move ninja nvcc nvidia-smi pip poetry powershell py "
    "python reg Rscript set taskkill tf_upgrade_v2 uv vllm wandb wevtutil where.exe winget wsl.exe",
    "darwin": "cd cmake conda df docker env envcheck export ffmpeg find git kill kubectl ln mim mkdir mv ninja pip poetry printenv printf "
    "ps python python3 python3.9 python3.12 rm rmdir Rscript sh source tail test tf_upgrade_v2 ulimit uname unset uv vllm wandb",
}
STRANGE = {
    "windows": r"\bsudo\b|\bexport \w|LD_LIBRARY_PATH|\$\(|\$\{|\bchmod\b|\bapt(?:-get)?\b|\bdmesg\b|(?<!-)\brm -"
    r"|mkdir -p|&&|(?<![\w.])~/|python3? -c '|/bin/activate|\bsource \w",
    "darwin": r"\bapt(?:-get)?\b|\bdmesg\b|\bsystemctl\b|\bmodprobe\b|\bLD_LIBRARY_PATH=|\bwinget\b"
    r"|\breg add\b",
}
WISHES = (
    ("windows", "tensorflow==2.10.*", machine("3.10", "551.61", "8.6", "win_amd64")),
    ("windows", "tensorflow==2.20.*", machine("3.12", "551.61", "8.6", "win_amd64")),
    ("windows", "tensorflow", machine("3.12", platform="win_amd64")),
    ("windows", "torch", machine("3.12", "580.65", "8.6", "win_amd64")),
    ("windows", "torch", machine("3.12", "452.39", "8.6", "win_amd64")),
    ("windows", "jax", machine("3.12", "580.65", "8.6", "win_amd64")),
    ("darwin", "tensorflow", machine("3.12", platform="macosx_arm64")),
    ("darwin", "jax", machine("3.12", platform="macosx_arm64")),
    ("darwin", "torch", machine("3.12", platform="macosx_arm64")),
)
# What they speak of is on Linux alone: the rules read kernel modules and device nodes there.
LINUX_ALONE = (
    "LoadDriver", "OpenDeviceNode", "ReleaseFromVirtualMachine",
)  # fmt: skip
# a variable and a blank are for cmd alone
FOLDERS = {"pip": "my envs/x", "uv": "my envs/x", "conda": "envs/x"}


class Typed(NamedTuple):
    """A command as it is typed on a system: where it comes from, what it is for, and the variables it runs with."""

    where: str
    argv: tuple[str, ...]
    purpose: str = ""
    variables: Mapping[str, str] = {}
    writes_file: bool = False  # printed in another way than as one command of its words


def _of_report(where: str, report: Report) -> Iterator[Typed]:
    for finding in report.findings:
        ways: list[Remedy | Alternative] = (
            [finding.fix, *finding.fix.alternatives] if finding.fix else []
        )
        for way in ways:
            yield Typed(where, (), way.summary if way.actions else "")
            yield from (
                _of_action(f"{where} {finding.id}", action, report.system) for action in way.actions
            )
    yield from _of_steps(where, report.steps, report.system)


def _of_action(where: str, action: Action, system: str) -> Typed:
    writes = isinstance(action, WriteFile)
    return Typed(
        where, action.command(system), action.purpose_on(system), action.variables(), writes
    )


def _of_steps(where: str, steps: tuple[Step, ...], system: str) -> Iterator[Typed]:
    for step in steps:
        typed = _of_action(f"{where} {step.id}", step.action, system)
        yield typed
        for argv in filter(None, (step.checked(system).argv, step.action.undo(system).argv)):
            yield Typed(typed.where, argv, typed.purpose)


def _of_plan(where: str, plan: Plan) -> Iterator[Typed]:
    yield from _of_steps(where, plan.steps, plan.system)
    yield from (Typed(where, change.argv) for change in plan.changes)


@cache
def fixes(system: str) -> tuple[Report, ...]:
    """Return a report for each row and function of the remedies, as it is printed on a system."""
    situation = Situation(context(host={"os": known(system), "distribution_id": UNREAD}))
    every = (row for found in list_rows_by_finding().values() for row in found)
    rows = [row for row in every if not set(SYSTEMS) & set(row.when) - {system}]
    found = [fit_to_system(_of_row(row, situation), system) for row in rows]
    asked_for = (
        kind
        for kind in kinds_of_fixes()
        if kind is not FollowRow and kind.__name__ not in LINUX_ALONE
    )
    written = (fix for kind in asked_for for fix in samples(kind))
    found += [
        fit_to_system(remedy, system) for fix in written if (remedy := write_fix(fix, situation))
    ]
    findings = (Finding("os-limit", "incompatible", "error", "", fix=fix) for fix in found)
    return tuple(
        with_steps(Report("incompatible", "gpu", "", (item,), (), system=system))
        for item in findings
    )


def _of_row(row: RemedyRow, situation: Situation) -> Remedy:
    # a word, number and requirement; the program that keeps a lock file
    sample = {"locker": "uv"}
    values = RuleValues(
        FollowRow(values=tuple((name, sample.get(name, "8")) for name in row.shown))
    )
    found = fill_row(row, values, situation)
    assert found is not None, row
    return found


@cache
def typed(system: str) -> tuple[Typed, ...]:
    """Return whatever is typed on a system."""
    return tuple(_typed(system))


def _typed(system: str) -> Iterator[Typed]:
    for report in fixes(system):
        yield from (
            item._replace(where=f"remedy {item.where}")
            for item in _of_report("", report)
            if item.argv
        )
    for name in NAMES:
        if f'"{system}"' in json.dumps(recording(name)) and diagnosed(name).system == system:
            yield from _of_report(name, diagnosed(name))
    for case in _cases():
        report = judge(case).report
        yield from _of_report(case["id"], report) if report.system == system else ()
    for of, wanted, on in WISHES:
        for installer in ("pip", "uv", "conda") if of == system else ():
            plan = planned(wanted, on=on, installer=installer, folder=FOLDERS[installer])
            assert plan.system == system
            yield from _of_plan(f"{wanted} {installer}", plan)


def _cases() -> Iterator[Mapping[str, Any]]:
    for name in ("composed", "reported"):
        for case in read_cases(CASES / f"{name}.jsonl"):
            if re.search(r"[A-Z]:\\|\.dll\b|macosx_|macOS|darwin", case["log"]):
                yield case


def _problems(item: Typed, system: str) -> Iterator[str]:
    argv, said = item.argv, re.search(STRANGE[system], item.purpose)
    if said:
        yield f"{said.group()} in the words {item.purpose!r}"
    if argv and argv[0] not in PROGRAMS[system].split() and not re.search(r"[\\/]", argv[0]):
        yield f"{argv[0]} is no program there"
    strange = re.search(STRANGE[system], " ".join(argv))
    if strange:
        yield f"{strange.group()} in {argv}"
    if argv:
        yield from _misread_on_windows(item) if system == "windows" else _misread_by_sh(item)


def _misread_by_sh(item: Typed) -> Iterator[str]:
    line = shell_line(item.argv, "darwin")
    meant = [word.replace("~", "$HOME") for word in item.argv]
    if "$" not in line and shlex.split(line) != meant and not item.writes_file:
        yield f"sh reads {line} otherwise"


def _misread_on_windows(item: Typed) -> Iterator[str]:
    argv, line = item.argv, windows_line(item.argv, item.variables)
    meant = [argv[0].replace("/", "\\"), *argv[1:]]
    # PowerShell's stands beside it
    for read in (cmd_words,) if argv[0] == "set" else (cmd_words, powershell_words):
        try:
            words = read(line)
            if item.variables:
                assert words[:2] == ["cmd", "/c"]
                words = cmd_words(words[2].rpartition("&& ")[2])
        except ReadError as error:
            yield str(error)
            continue
        if words != meant:
            yield f"{read.__name__} makes {words} of {line}"


@pytest.mark.parametrize("system", SYSTEMS)
def test_only_what_can_be_typed_there_is_printed(system: str) -> None:
    found = typed(system)
    assert len(found) > 300
    wrong = [(item.where, problem) for item in found for problem in _problems(item, system)]
    assert not wrong, "\n".join(f"{where}: {problem}" for where, problem in wrong)


def test_powershell_is_told_how_to_set_what_cmd_sets() -> None:
    settings = [item for item in typed("windows") if item.argv[:1] == ("set",)]
    assert settings
    for item in settings:
        assert "$env:" in item.purpose or "Env:" in item.purpose, item

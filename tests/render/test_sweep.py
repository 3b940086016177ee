"""Whatever can be printed on Windows or macOS can be typed there: every remedy, fix and plan, and their words."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest

from envcheck.host.data_files import read_data
from envcheck.model import Command, Finding, Fix, Report, Way
from envcheck.model.plans import Plan, Step
from envcheck.model.writing import read_writing
from envcheck.plan.remedy import remedied
from envcheck.plan.repair import repair_plan
from envcheck.render.shells import shell_line, windows_line
from envcheck.rules import Context, Target
from envcheck.rules.fixes_shell import fitted
from envcheck.smoke import verdict
from tests.cases.judged import FOLDER as CASES
from tests.cases.judged import judge, read_cases
from tests.hosts.test_hosts import FOLDER as HOSTS
from tests.hosts.test_hosts import NAMES, judged, matrix, recording, snapshot_of
from tests.plan.machines import machine, planned
from tests.render.windows_shells import ReadError, cmd_words, powershell_words

SYSTEMS = ("windows", "darwin")
PROGRAMS = {  # what a Windows or a Mac has, or what a fix has just had installed
    "windows": "cd cmake cmd conda docker envcheck kubectl mim move ninja nvcc nvidia-smi pip powershell py python reg "
    "Rscript set taskkill tf_upgrade_v2 uv vllm wevtutil where.exe winget wsl.exe",
    "darwin": "cd cmake conda df docker env envcheck export find kill kubectl mim mv ninja pip printenv printf ps "
    "python python3 python3.9 python3.12 rm Rscript sh source tf_upgrade_v2 unset ulimit uv vllm",
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
FOLDERS = {"pip": "my envs/x", "uv": "my envs/x", "conda": "envs/x"}  # a variable and a blank are for cmd alone
Typed = tuple[str, Command, Mapping[str, str]]  # where it comes from, the command, its variables


def _of_report(where: str, report: Report) -> Iterator[Typed]:
    for finding in report.findings:
        fix = finding.fix
        ways: list[Fix | Way] = [fix, *fix.alternatives] if fix else []
        for way in ways:
            yield where, Command((), purpose=way.summary if way.commands else ""), {}
            yield from ((f"{where} {finding.id}", command, {}) for command in way.commands)
    yield from _of_steps(where, repair_plan(report).steps)


def _of_steps(where: str, steps: tuple[Step, ...]) -> Iterator[Typed]:
    for step in steps:
        for argv in filter(None, (step.argv, step.verify, step.undo)):
            yield f"{where} {step.id}", Command(argv, purpose=step.purpose), step.env if argv == step.argv else {}


def _of_plan(where: str, plan: Plan) -> Iterator[Typed]:
    yield from _of_steps(where, plan.steps)
    yield from ((where, Command(change.argv), {}) for change in plan.changes)


def _command(item: Mapping[str, Any]) -> Command:
    return Command(
        tuple(item.get("argv", ("sudo", "apt-get", "install", "x"))), purpose=item.get("purpose", "")
    )  # sudo: what apt and dnf install


@cache
def fixes(system: str) -> tuple[Report, ...]:
    """Return a report for each remedy and each fix of the smoke test, as it is printed on a system."""
    rows = json.loads(read_data("remedies.json"))["remedies"]
    ways = [(way["summary"], way.get("commands", ())) for row in rows for way in (row, *row.get("alternatives", ()))]
    made = [Fix(said, tuple(map(_command, items))) for said, items in ways if any("argv" in item for item in items)]
    findings = (Finding("os-limit", "incompatible", "error", "", fix=fix) for fix in (*made, *verdict.FIXES.values()))
    return tuple(fitted(Report("incompatible", "gpu", "", (item,), ()), system) for item in findings)


@cache
def typed(system: str) -> tuple[Typed, ...]:
    """Return whatever is typed on a system."""
    return tuple(_typed(system))


def _typed(system: str) -> Iterator[Typed]:
    for report in fixes(system):
        yield from ((f"remedy {item[0]}", *item[1:]) for item in _of_report("", report) if item[1].argv)
    for name in NAMES:
        if f'"{system}"' in (HOSTS / name / "host.json").read_text(encoding="utf-8") and judged(name).system == system:
            target = recording(name).get("target", {})
            context = Context(
                snapshot_of(name).facts, matrix(), Target(target.get("expect", "auto"), tuple(target.get("for", ())))
            )
            yield from _of_report(name, remedied(judged(name), context))
    for case in _cases():
        report = judge(case).report
        yield from _of_report(case["id"], report) if report.system == system else ()
    for of, wanted, on in WISHES:
        for installer in ("pip", "uv", "conda") if of == system else ():
            yield from _of_plan(
                f"{wanted} {installer}", planned(wanted, on=on, installer=installer, folder=FOLDERS[installer])
            )


def _cases() -> Iterator[Mapping[str, Any]]:
    for name in ("composed", "reported"):
        for case in read_cases(CASES / f"{name}.jsonl"):
            if re.search(r"[A-Z]:\\|\.dll\b|macosx_|macOS|darwin", case["log"]):
                yield case


def _problems(command: Command, env: Mapping[str, str], system: str) -> Iterator[str]:
    argv, said = command.argv, re.search(STRANGE[system], command.purpose)
    if said:
        yield f"{said.group()} in the words {command.purpose!r}"
    if argv and argv[0] not in PROGRAMS[system].split() and not re.search(r"[\\/]", argv[0]):
        yield f"{argv[0]} is no program there"
    strange = re.search(STRANGE[system], " ".join(argv))
    if strange:
        yield f"{strange.group()} in {argv}"
    if argv:
        yield from _misread_on_windows(argv, env) if system == "windows" else _misread_by_sh(argv)


def _misread_by_sh(argv: tuple[str, ...]) -> Iterator[str]:
    line = shell_line(argv, "darwin")
    meant = [word.replace("~", "$HOME") for word in argv]
    if "$" not in line and shlex.split(line) != meant and read_writing(argv) is None:
        yield f"sh reads {line} otherwise"


def _misread_on_windows(argv: tuple[str, ...], env: Mapping[str, str]) -> Iterator[str]:
    line = windows_line(argv, env)
    meant = [argv[0].replace("/", "\\"), *argv[1:]]
    for read in (cmd_words,) if argv[0] == "set" else (cmd_words, powershell_words):  # PowerShell's stands beside it
        try:
            words = read(line)
            if env:
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
    wrong = [(where, problem) for where, command, env in found for problem in _problems(command, env, system)]
    assert not wrong, "\n".join(f"{where}: {problem}" for where, problem in dict(wrong).items())


def test_powershell_is_told_how_to_set_what_cmd_sets() -> None:
    for where, command, _ in typed("windows"):
        if command.argv[:1] == ("set",):
            assert "$env:" in command.purpose or "Env:" in command.purpose, (where, command)

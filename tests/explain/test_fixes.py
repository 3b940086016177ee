"""What a log captured stands in the fix; every command can be typed; nothing hostile gets into one."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from functools import cache
from pathlib import Path

import pytest

from envcheck.actions import Action, action_line
from envcheck.diagnosis import diagnose
from envcheck.explain.cures import CURES
from envcheck.explain.judge import judge_log
from envcheck.model import Alternative, Remedy
from envcheck.plan.requests import read_requests
from envcheck.rules import Context, catalogue
from envcheck.rules.described_machine import Description, check_description, planned_facts
from tests.cases.case_facts import matrix
from tests.cases.judged import judge_text, judged_cases
from tests.hosts.test_hosts import snapshot_of
from tests.remedies.rows import list_rows_by_finding
from tests.typed import argv, lasting, undo, unverified, verify

# A finding, a composed log, and what the fix must say: in its sentence or a command.
TOLD = [
    json.loads(line)
    for line in (Path(__file__).parent / "fixes.jsonl").read_text(encoding="utf-8").splitlines()
]


def fix_of(finding: str, log: str) -> Remedy:
    found = next(item for item in judge_text(log).report.findings if item.id == finding)
    assert found.fix is not None
    return found.fix


def shown(fix: Remedy) -> str:
    ways: tuple[Remedy | Alternative, ...] = (fix, *fix.alternatives)
    lines = [f"{action_line(action)}  # {action.purpose}" for way in ways for action in way.actions]
    return "\n".join([*(way.summary for way in ways), *lines])


@pytest.mark.parametrize(
    "row", TOLD, ids=[f"{number}-{row['finding']}" for number, row in enumerate(TOLD)]
)
def test_a_fix_says_what_the_log_told(row: dict[str, str]) -> None:
    assert row["said"] in shown(fix_of(row["finding"], row["log"]))


def test_each_cause_whose_fix_holds_values_of_the_log_is_in_the_table() -> None:
    others = {"python", "smoked"}  # of the situation, and of a smoke test
    filled = {
        name
        for name, rows in list_rows_by_finding().items()
        if {one for row in rows for one in row.shown} - others
    }
    # One fix for any log, or one of two by who holds the GPU; an import and a smoke test state the
    # last.
    without_values = {
        "driver-nouveau",
        "driver-secure-boot",
        "import-failed",
        "smoke-failed",
    }
    assert (filled | set(CURES)) - {row["finding"] for row in TOLD} == without_values


@cache
def all_actions() -> tuple[Action, ...]:
    """List every action that is printed for the project's cases, each once."""
    reports = [item.report for name in ("reported", "composed") for item in judged_cases(name)]
    fixes = [finding.fix for report in reports for finding in report.findings if finding.fix]
    ways: list[Remedy | Alternative] = [*fixes, *(way for fix in fixes for way in fix.alternatives)]
    return tuple(dict.fromkeys(action for way in ways for action in way.actions))


def test_every_command_parses_in_a_shell() -> None:
    script = "\n".join(action_line(action) for action in all_actions())
    assert len(all_actions()) > 200
    checked = subprocess.run(
        ["sh", "-n"], input=script, text=True, check=False, capture_output=True
    )
    assert (checked.returncode, checked.stderr) == (0, "")


def test_every_action_says_how_it_is_checked_and_undone() -> None:
    assert [item for item in all_actions() if not (verify(item) or unverified(item))] == []
    assert [item for item in all_actions() if not (undo(item) or lasting(item))] == []


def test_every_line_for_the_planner_is_accepted() -> None:
    lines = {
        argv(action)[2:] for action in all_actions() if argv(action)[:2] == ("envcheck", "plan")
    }
    assert lines
    for line in lines:
        options: dict[str, list[str]] = {}
        for name, value in zip(line[1::2], line[2::2]):
            options.setdefault(name.removeprefix("--"), []).append(value)
        assert set(options) <= {"python", "driver", "gpu", "glibc", "platform", "expect"}
        one = {
            name: options.get(name, [""])[0] for name in ("python", "driver", "glibc", "platform")
        }
        said = Description(gpus=tuple(options.get("gpu", ())), **one)
        check_description(said)
        assert read_requests(line[:1], matrix())
        planned_facts(None, said, matrix(), expects_gpu=False)


def test_every_cause_of_the_cases_has_a_fix() -> None:
    found = {finding.id: finding for name in ("reported", "composed") for item in judged_cases(name)
             for finding in item.report.findings if finding.primary}  # fmt: skip
    assert {name for name, finding in found.items() if finding.fix is None} == set()


HOSTILE = ("$(reboot)", "`reboot`", "x;reboot", "--break", "a\x1b[31m", "a'b", "../../etc|sh")
TEMPLATES = (
    "ImportError: cannot import name 'nn' from 'torch' (/home/u/{}/torch.py)",
    "ERROR: No matching distribution found for tensorflow-gpu=={}",
    "ImportError: /v/site-packages/{}/_C.so: undefined symbol: _ZN3c106Symbol14fromQualStringERKSs",
    "LD_LIBRARY_PATH=/usr/local/cuda/{}\nPyTorch was compiled against (8, 3, 2) but linked against (8, 0, 3)",
    "CUDA_VISIBLE_DEVICES={}\nRuntimeError: No CUDA GPUs are available",
    "{} with CUDA capability sm_120 is not compatible with the current PyTorch installation.",
    "tokenizers>={} is required for a normal functioning of this module",
    "ImportError: /usr/{}/libgomp.so.1: cannot allocate memory in static TLS block",
    "Python version: {}\nTesla K80 with CUDA capability sm_37 is not compatible with the current PyTorch installation.",
    "MIG-{}\nRuntimeError: No CUDA GPUs are available",
)


@pytest.mark.parametrize("template", TEMPLATES)
def test_nothing_hostile_enters_a_command(template: str) -> None:
    for text in HOSTILE:
        for finding in judge_text(template.format(text)).report.findings:
            for action in finding.fix.actions if finding.fix else ():
                words = "\n".join(argv(action))
                assert "reboot" not in words.replace("sudo\nreboot", "")
                assert not re.search(r"^--break|\x1b|a'b|etc\|sh", words, re.MULTILINE)


def test_headlines_are_plain_sentences() -> None:
    for entry in catalogue().values():
        assert re.fullmatch(r"[A-Zcp][^.!?]*(?:libdevice\.10\.bc[^.]*)?\.", entry.headline), (
            entry.headline
        )
        assert 18 <= len(entry.headline) <= 100


def test_with_the_machine_the_doctors_commands_come_first() -> None:
    context = Context(snapshot_of("torch-cpu-beside-gpu").facts, matrix())
    doctors = diagnose(context).findings[0]
    log = judge_text("AssertionError: Torch not compiled with CUDA enabled")
    report = judge_log(log.events, matrix(), context.facts)
    assert report.findings[0].id == doctors.id == "framework-cpu-build"
    assert report.findings[0].fix == doctors.fix
    assert any(
        "torch==2.8.0" in argv(action) for action in (doctors.fix.actions if doctors.fix else ())
    )
    assert report.findings[0].fix != log.report.findings[0].fix


@pytest.mark.parametrize(
    "log",
    [
        "evil-helper>=1.0 is required for a normal functioning of this module",
        "ModuleNotFoundError: No module named 'evil_helper'",
        "ImportError: /v/site-packages/evil_helper/_C.so: undefined symbol: _ZN3c106Symbol14fromQualStringERKSs",
    ],
)
def test_a_name_out_of_a_log_alone_is_not_installed(log: str) -> None:
    fixes = [finding.fix for finding in judge_text(log).report.findings if finding.fix]
    commands = [argv(action) for fix in fixes for action in fix.actions]
    assert commands
    assert not [words for words in commands if "install" in words and "evil" in " ".join(words)]


def test_a_log_that_tells_the_whole_machine_is_planned_for() -> None:
    """The doctor's plan, and the line that plans for the machine as the log describes it."""
    lines = (
        "PyTorch version: 2.3.0+cpu", "OS: Ubuntu 22.04.4 LTS (x86_64)", "Libc version: glibc-2.35",
        "Python version: 3.10.14 (main, May  6 2024, 19:42:50) [GCC 11.2.0] (64-bit runtime)",
        "GPU models and configuration: GPU 0: NVIDIA GeForce RTX 3090", "Nvidia driver version: 535.171.04",
        "[pip3] torch==2.3.0+cpu", "AssertionError: Torch not compiled with CUDA enabled",
    )  # fmt: skip
    report = judge_log(judge_text("\n".join(lines)).events, matrix(), None)
    (cause,) = [item for item in report.findings if item.primary]
    assert cause.fix is not None
    assert [shlex.join(argv(action)[1:]) for action in cause.fix.actions] == [
        "-m pip uninstall -y torch", "-m pip install --only-binary=:all: torch==2.3.0",
    ]  # fmt: skip
    (line,) = cause.fix.alternatives[-1].actions
    assert shlex.join(argv(line)).startswith(
        "envcheck plan torch --python 3.10 --driver 535.171.04 --glibc 2.35 --gpu "
    )


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (
            "RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch installation.",
            "-m pip install --upgrade --index-url https://download.pytorch.org/whl/cu130 torch",
        ),
        (
            "[pip3] torch==2.5.1+cpu\nNvidia driver version: 475.14\nAssertionError: Torch not compiled with CUDA",
            "-m pip install --force-reinstall --index-url https://download.pytorch.org/whl/cu118 torch==2.5.1",
        ),
    ],
)
def test_a_log_is_answered_with_pips_own_command_and_its_index(log: str, line: str) -> None:
    report = judge_text(log).report
    actions = [
        action
        for finding in report.findings
        if finding.primary and finding.fix
        for action in finding.fix.actions
    ]
    assert line in [shlex.join(argv(action)[1:]) for action in actions]
    assert [action for action in actions if argv(action)[:2] == ("envcheck", "plan")] == []

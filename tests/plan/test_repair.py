"""The plan that mends a report."""

from __future__ import annotations

import pytest

from envcheck.model import Command, Finding, Fix, Report, replace
from envcheck.plan.repair import _OF_A_RUN, repair_plan, steps_for
from envcheck.render.report_text import finding_lines
from envcheck.rules import register_rules
from envcheck.rules.catalogue import catalogue
from envcheck.rules.registry import RULES
from tests.hosts.test_hosts import NAMES
from tests.hosts.test_hosts import judged as report_of

PIP = ("/e/bin/python", "-m", "pip", "install")


def finding(name: str, *commands: tuple[str, ...], caused_by: str | None = None, severity: str = "error") -> Finding:
    fix = Fix(f"Mend {name}.", tuple(Command(argv) for argv in commands))
    return Finding(name, "incompatible", severity, f"{name} is wrong.", fix=fix, caused_by=caused_by)


def report(*findings: Finding) -> Report:
    return Report("incompatible", "gpu", "No.", findings, ())


def test_pip_does_together_what_it_can() -> None:
    plan = repair_plan(
        report(
            finding("numpy-abi", (*PIP, "numpy<2", "torch==2.2.2")),
            finding("keras-mismatch", (*PIP, "keras<3", "numpy<3")),
            finding("framework-cpu-build", (*PIP, "torch==2.3", "--index-url", "https://own.example/cu118")),
        )
    )
    assert [step.argv for step in plan.steps] == [
        (*PIP, "numpy<2", "torch==2.2.2", "keras<3"),
        (*PIP, "torch==2.3", "--index-url", "https://own.example/cu118"),
    ]
    assert plan.steps[0].resolves == ("numpy-abi", "keras-mismatch")
    assert plan.steps[0].verify == ("envcheck", "doctor", "--only", "numpy-abi,keras-mismatch")
    assert [step.id for step in plan.steps] == ["step-1", "step-2"]


def test_the_same_command_is_one_step_and_consequences_have_none_of_their_own() -> None:
    reboot = ("sudo", "reboot")
    cause = finding("driver-missing", ("sudo", "apt-get", "install", "nvidia-driver"), reboot)
    result = finding("libcuda-not-on-path", ("ldconfig",), caused_by="driver-missing")
    other = finding("driver-too-old", reboot)
    plan = repair_plan(report(cause, result, other))
    assert [step.argv[-1] for step in plan.steps] == ["nvidia-driver", "reboot"]
    assert steps_for(plan, result) == ("step-1", "step-2")
    assert steps_for(plan, other) == ("step-2",)


def test_a_new_environment_is_undone_by_removing_it() -> None:
    plan = repair_plan(report(finding("numpy-abi", ("/usr/bin/python3", "-m", "venv", ".venv"))))
    assert plan.steps[0].undo == ("rm", "-rf", "--", ".venv")


def test_the_doctor_looks_again_at_what_it_looked_at() -> None:
    asked = replace(
        report(finding("numpy-abi", (*PIP, "numpy<2"))),
        inspected=("--env", "my env"),
        wanted=("--expect", "gpu", "--for", "torch>=2"),
    )
    (step,) = repair_plan(asked).steps
    options = ("--env", "my env", "--expect", "gpu", "--for", "torch>=2")
    assert step.verify == ("envcheck", "doctor", *options, "--only", "numpy-abi")


@pytest.mark.parametrize(
    "create",
    [("python3.12", "-m", "venv", "new"), ("conda", "create", "-y", "-p", "new", "--override-channels", "python=3.12")],
)
def test_the_doctor_looks_at_the_environment_that_was_made(create: tuple[str, ...]) -> None:
    asked = replace(
        report(finding("python-unsupported", create, ("new/bin/python", "-m", "pip", "install", "jax"))),
        inspected=("--python", "old/bin/python"),
    )
    made, last = repair_plan(asked).steps
    assert (made.verify, made.undo) == (("new/bin/python", "--version"), ("rm", "-rf", "--", "new"))
    assert last.verify == ("envcheck", "doctor", "--env", "new", "--only", "python-unsupported")


def test_what_no_rule_decides_is_checked_by_the_steps_own_check() -> None:
    register_rules()
    assert set(catalogue()) - {rule.id for rule in RULES} == _OF_A_RUN
    (step,) = repair_plan(report(finding("gpu-memory-exhausted", ("sudo", "modprobe", "nvidia_uvm")))).steps
    assert step.verify == ("test", "-d", "/sys/module/nvidia_uvm")


def test_on_windows_by_what_both_of_its_shells_start() -> None:
    made = replace(report(finding("numpy-abi", ("py", "-3.12", "-m", "venv", "envs/new"))), system="windows")
    assert repair_plan(made).steps[0].undo == ("cmd", "/c", "rmdir", "/s", "/q", "envs\\new")


def test_the_text_shows_a_shared_step_once() -> None:
    first, second = finding("a-first", (*PIP, "numpy<2")), finding("b-second", (*PIP, "keras<3"))
    third = finding("c-third", ("true",))
    steps = repair_plan(report(first, second, third)).steps
    shown = [
        "".join(line[:2])
        for item in (first, second, third)
        for line in finding_lines(item, "linux", verbose=False, steps=steps)
    ]
    assert [line for line in shown if "fix" in line] == [
        "  fix (step 1): Mend a-first.",
        "  fix (step 1): Mend b-second.",
        "  fix (step 2): Mend c-third.",
    ]
    assert sum("pip install" in line for line in shown) == 1


def test_every_cause_with_a_fix_names_its_steps_on_every_recorded_machine() -> None:
    for name in NAMES:
        found = report_of(name)
        plan = repair_plan(found)
        for item in found.findings:
            if item.fix and item.caused_by is None:
                assert steps_for(plan, item), (name, item.id)
        assert len({step.argv or step.resolves for step in plan.steps}) == len(plan.steps)

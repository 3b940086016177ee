"""The plan that mends a report."""

from __future__ import annotations

import pytest

from envcheck.actions import (
    Action,
    AddLoaderFolder,
    CreateEnvironment,
    InstallPackages,
    InstallSystemPackages,
    LoadModule,
    Reboot,
    Show,
)
from envcheck.diagnosis import with_steps
from envcheck.diagnosis.repair import _RUN_FINDINGS
from envcheck.model import Alternative, Finding, Remedy, Report, replace
from envcheck.render.report import describe_report
from envcheck.render.text import render_text
from envcheck.rules import RULES
from envcheck.rules.catalogue import catalogue
from tests.hosts.test_hosts import NAMES, diagnosed
from tests.typed import argv, undo, verify

PY = "/e/bin/python"


def pip(*requirements: str, index: str = "") -> InstallPackages:
    return InstallPackages(requirements, PY, index=index)


def finding(
    name: str, *actions: Action, caused_by: str | None = None, severity: str = "error"
) -> Finding:
    fix = Remedy(f"Mend {name}.", actions)
    return Finding(
        name, "incompatible", severity, f"{name} is wrong.", fix=fix, caused_by=caused_by
    )


def report(*findings: Finding) -> Report:
    return Report("incompatible", "gpu", "No.", findings, ())


def test_pip_does_together_what_it_can() -> None:
    found = with_steps(
        report(
            finding("numpy-abi", pip("numpy<2", "torch==2.2.2")),
            finding("keras-mismatch", pip("keras<3", "numpy<3")),
            finding("framework-cpu-build", pip("torch==2.3", index="https://own.example/cu118")),
        )
    )
    assert [argv(step)[3:] for step in found.steps] == [
        ("install", "numpy<2", "torch==2.2.2", "keras<3"),
        ("install", "--index-url", "https://own.example/cu118", "torch==2.3"),
    ]
    assert found.steps[0].resolves == ("numpy-abi", "keras-mismatch")
    assert verify(found.steps[0]) == ("envcheck", "doctor", "--only", "numpy-abi,keras-mismatch")
    assert [step.id for step in found.steps] == ["step-1", "step-2"]


def test_the_same_command_is_one_step_and_consequences_have_none_of_their_own() -> None:
    packages = InstallSystemPackages("apt-get", ("nvidia-driver",))
    cause = finding("driver-missing", packages, Reboot())
    result = finding(
        "libcuda-not-on-path", AddLoaderFolder("/usr/lib/nvidia"), caused_by="driver-missing"
    )
    other = finding("driver-too-old", Reboot())
    found = with_steps(report(cause, result, other))
    assert [argv(step)[-1] for step in found.steps] == ["nvidia-driver", "reboot"]
    assert found.steps_for(result) == ("step-1", "step-2")
    assert found.steps_for(other) == ("step-2",)


def test_the_doctor_looks_again_at_what_it_looked_at() -> None:
    asked = replace(
        report(finding("numpy-abi", pip("numpy<2"))),
        inspected=("--env", "my env"),
        wanted=("--expect", "gpu", "--for", "torch>=2"),
    )
    (step,) = with_steps(asked).steps
    options = ("--env", "my env", "--expect", "gpu", "--for", "torch>=2")
    assert verify(step) == ("envcheck", "doctor", *options, "--only", "numpy-abi")


@pytest.mark.parametrize("installer", ["pip", "conda"])
def test_the_doctor_looks_at_the_environment_that_was_made(installer: str) -> None:
    create = CreateEnvironment(
        "new", installer, "3.12", packages=("python=3.12",) if installer == "conda" else ()
    )
    install = InstallPackages(("jax",), "new/bin/python")
    asked = replace(
        report(finding("python-unsupported", create, install)),
        inspected=("--python", "old/bin/python"),
    )
    made, last = with_steps(asked).steps
    assert verify(made)[0] == "new/bin/python"
    assert undo(made) == ("rm", "-rf", "--", "new")
    assert verify(last) == ("envcheck", "doctor", "--env", "new", "--only", "python-unsupported")


def test_what_no_rule_decides_is_checked_by_the_steps_own_check() -> None:
    decided = {name for rule in RULES for name in rule.ids}
    # that one's rule decides only what a program demands of the machine
    assert set(catalogue()) - decided == _RUN_FINDINGS - {"gpu-memory-exhausted"}
    (step,) = with_steps(report(finding("gpu-memory-exhausted", LoadModule("nvidia_uvm")))).steps
    assert verify(step) == ("test", "-d", "/sys/module/nvidia_uvm")


def test_on_windows_by_what_both_of_its_shells_start() -> None:
    made = with_steps(report(finding("numpy-abi", CreateEnvironment("envs/new", python="3.12"))))
    assert undo(made.steps[0], "windows") == ("cmd", "/c", "rmdir", "/s", "/q", "envs\\new")


def test_the_text_shows_a_shared_step_once() -> None:
    first, second = finding("numpy-abi", pip("numpy<2")), finding("keras-mismatch", pip("keras<3"))
    third = finding("env-mixed", Show(("true",)))
    planned = with_steps(report(first, second, third))
    shown = render_text(replace(describe_report(planned, None), closing=None)).splitlines()
    assert [line for line in shown if "fix" in line] == [
        "  fix (step 1): Mend numpy-abi.",
        "  fix (step 1): Mend keras-mismatch.",
        "  fix (step 2): Mend env-mixed.",
    ]
    assert sum("pip install" in line for line in shown) == 1


def test_every_cause_with_a_fix_names_its_steps_on_every_recorded_machine() -> None:
    for name in NAMES:
        found = diagnosed(name)
        for item in found.findings:
            if item.fix and item.caused_by is None:
                assert found.steps_for(item), (name, item.id)
        assert len({argv(step) or step.resolves for step in found.steps}) == len(found.steps)


@pytest.mark.parametrize("installer", ["pip", "conda"])
def test_no_step_makes_an_environment_over_one_that_is_there(installer: str) -> None:
    create, beside = (
        CreateEnvironment(".venv", installer, "3.12"),
        CreateEnvironment(".venv-3.12", installer, "3.12"),
    )
    packages = InstallPackages(("jax",), ".venv/bin/python")
    other = Alternative("Or so.", (beside, packages))
    fix = Remedy("Install it.", (create, packages), (other,))
    found = replace(
        report(finding("numpy-abi")), findings=(replace(finding("numpy-abi"), fix=fix),)
    )
    told = with_steps(found, exists={".venv", ".venv-2"}.__contains__)
    assert told.findings[0].fix == Remedy(
        "Install it. .venv already exists and stays as it is: the new environment is .venv-3.",
        (replace(create, folder=".venv-3"), replace(packages, python=".venv-3/bin/python")),
        (Alternative("Or so.", (beside, replace(packages, python=".venv-3/bin/python"))),),
    )
    assert not any(".venv/bin/python" in argv(step) or ".venv" in argv(step) for step in told.steps)
    assert with_steps(found, exists=".other".__eq__).findings[0].fix == fix

"""What a project demands, held against composed machines."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from envcheck.check.config import Config, Ignored
from envcheck.check.judge import Gate, apply_ignores, judge_project
from envcheck.model import NO_ENVIRONMENT, Finding, Report, Unknown
from envcheck.rules import Context, Target
from tests.hosts.test_hosts import snapshot_of
from tests.rules.factory_machine import matrix
from tests.scenarios.machine import RTX4090, Machine, context_of, torch
from tests.typed import argv

TODAY = date(2026, 11, 21)
SERVER = Machine()
NEWEST = Machine(driver="580.65.06", cuda=13000)  # runs what pip would install today


def judged(config: Config, *builds: object, machine: Machine = SERVER, **python: object) -> Report:
    target = Target(config.expect, config.requires)
    context = context_of(machine, *builds, target=target, python=dict(python))  # type: ignore[arg-type]
    return judge_project(context, config, "pyproject.toml", TODAY)


def primary(report: Report) -> Finding:
    assert report.findings, report
    assert report.findings[0].primary
    return report.findings[0]


def test_what_is_required_and_installed_passes() -> None:
    report = judged(Config(("torch>=2.5",), "gpu", "525.60", "7.5"), torch())
    assert report.verdict == "compatible", report.findings


def test_a_required_framework_that_is_not_installed_fails_with_its_command() -> None:
    report = judged(Config(("torch>=2.5",)), machine=NEWEST)
    assert report.verdict == "incompatible"
    found = primary(report)
    assert found.id == "framework-missing"
    assert found.evidence[0].source is not None
    assert found.evidence[0].source.where == "pyproject.toml"
    assert found.fix is not None
    assert argv(found.fix.actions[-1])[-1].startswith("torch==")


def test_without_an_environment_a_requirement_on_packages_is_undetermined() -> None:
    report = judged(Config(("torch>=2.5",)), machine=NEWEST, chosen_by=NO_ENVIRONMENT)
    assert report.verdict == "undetermined"
    assert report.headline.endswith("no Python environment was judged.")
    assert report.findings[0].id == "probe-failed"
    assert "name it with --env" in report.findings[0].message
    assert (
        judged(Config(min_driver="525.60"), machine=NEWEST, chosen_by=NO_ENVIRONMENT).verdict
        == "compatible"
    )


@pytest.mark.parametrize("text", ["torch>=2.4,<2.2", "torch>=999"])
def test_no_command_installs_a_release_that_there_is_not(text: str) -> None:
    found = primary(judged(Config((text,)), machine=NEWEST))
    assert found.fix is not None
    assert "envcheck knows no release that torch" in found.fix.summary
    assert found.fix.actions == ()


def test_another_release_than_the_required_one_is_a_broken_pin() -> None:
    found = primary(judged(Config(("torch>=2.8",)), torch(), machine=NEWEST))
    assert found.id == "dependency-conflict"
    assert "torch 2.7.1+cu126 is installed" in found.message


def test_a_requirement_for_another_system_is_left_out() -> None:
    report = judged(Config(("tensorflow>=2.15; sys_platform == 'win32'", "torch")), torch())
    assert report.verdict == "compatible", report.findings


def test_the_driver_floor_is_the_projects_own() -> None:
    config = Config(("torch",), min_driver="560")
    found = primary(judged(config, torch()))
    assert (found.id, found.message) == (
        "driver-too-old",
        "The project requires driver >= 560; this machine runs 550.163.01.",
    )


def test_the_compute_capability_floor_is_asked_of_every_gpu() -> None:
    config = Config(("torch",), min_compute_capability="8.6")
    cards = Machine(cards=(RTX4090, SERVER.cards[0]))
    found = primary(judged(config, torch(), machine=cards))
    assert found.id == "gpu-arch-too-old"
    assert "NVIDIA A100-SXM4-40GB has 8.0" in found.message
    assert judged(config, torch(), machine=Machine(cards=(RTX4090,))).verdict == "compatible"


def test_floors_do_not_count_where_cpu_work_is_expected() -> None:
    report = judged(Config(("torch",), "cpu", "600", "9.0"), torch())
    assert report.verdict == "compatible", report.findings


def test_a_floor_that_cannot_be_compared_is_undetermined() -> None:
    report = judged(
        Config(("torch",), min_driver="550.163.05"), torch(), machine=Machine(driver="550.163")
    )
    assert report.verdict == "undetermined"
    assert any("only known as 550.163" in item.message for item in report.findings)


def test_an_unread_environment_is_undetermined() -> None:
    report = judged(Config(("torch",)), machine=NEWEST, frameworks=Unknown("timeout", "composed"))
    assert report.verdict == "undetermined"
    assert not any(item.id == "framework-missing" for item in report.findings)


def ignoring(until: date) -> Config:
    return Config(
        ("torch",), min_driver="560", ignored=(Ignored("driver-too-old", "new one ordered", until),)
    )


def test_an_ignored_finding_is_told_and_does_not_count_until_its_date() -> None:
    for until in (TODAY, date(2027, 1, 1)):
        report = judged(ignoring(until), torch())
        assert report.verdict == "compatible", report.findings
        told = next(item for item in report.findings if item.id == "driver-too-old")
        assert told.severity == "note"
        assert told.message.startswith(f"Ignored until {until} (new one ordered): ")
        assert not gate(ignoring(until)).expired()


def gate(config: Config) -> Gate:
    return Gate(config, matrix(), "pyproject.toml", TODAY)


def test_after_its_date_it_counts_again() -> None:
    config = ignoring(date(2026, 11, 20))
    assert judged(config, torch()).verdict == "incompatible"
    assert gate(config).expired() == (("driver-too-old", date(2026, 11, 20)),)


def test_what_is_ignored_is_counted_in_the_headline() -> None:
    report = judged(ignoring(date.max), torch())
    assert report.headline.endswith(". 1 finding is ignored.")
    told = next(item for item in report.findings if item.id == "driver-too-old")
    assert told.message.startswith("Ignored by the project (new one ordered): ")
    assert "ignored" not in judged(Config(("torch",)), torch()).headline


def test_an_error_that_stops_an_import_is_not_ignored() -> None:
    config = Config(ignored=(Ignored("numpy-abi", "it worked once", TODAY),))
    stopping = Finding("numpy-abi", "incompatible", "error", "NumPy does not fit.")
    (kept,) = apply_ignores([stopping], config.ignored, TODAY)
    assert (kept.severity, kept.verdict) == ("error", "incompatible")
    assert "it counts: it stops an import" in kept.evidence[-1].shown
    warned = replace(stopping, severity="warning")
    assert apply_ignores([warned], config.ignored, TODAY)[0].severity == "note"


def test_ignoring_another_id_changes_nothing() -> None:
    config = replace(
        ignoring(date(2027, 1, 1)), ignored=(Ignored("env-mixed", "why not", date(2027, 1, 1)),)
    )
    assert judged(config, torch()).verdict == "incompatible"


OLD = Machine(driver="470.256.02", cuda=11040)  # runs CUDA 11 wheels, not today's


def test_a_missing_requirement_is_not_judged_by_its_newest_release() -> None:
    report = judged(Config(("torch>=1.10",), "gpu"), machine=OLD)
    assert [
        item.id
        for item in report.findings
        if item.severity == "error" and item.verdict == "incompatible"
    ] == ["framework-missing"]
    found = primary(report)
    assert found.fix is not None
    assert found.fix.summary.endswith("as `envcheck plan 'torch>=1.10'` selects.")
    assert "torch==2.7.1+cu118" in argv(found.fix.actions[-1])


def test_where_no_plan_is_possible_the_planner_says_why() -> None:
    found = primary(judged(Config(("torch>=2.8",), "gpu"), machine=OLD))
    assert found.fix is not None
    assert found.fix.summary.startswith(
        "Let `envcheck plan 'torch>=2.8'` choose a release for this machine"
    )
    assert "driver-too-old" in found.fix.summary
    assert not found.fix.actions


def test_the_rest_is_judged_beside_a_missing_requirement() -> None:
    report = judged(
        Config(("torch>=2", "jax[cuda12]>=0.4.30; python_version>='3.9'"), "gpu"),
        torch(),
        machine=OLD,
    )
    ids = {item.id: item.message for item in report.findings}
    assert "torch 2.7.1+cu126" in ids["driver-too-old"]
    assert "it is not installed" in ids["framework-missing"]


def test_where_no_requirement_applies_only_the_floors_count() -> None:
    config = Config(("tensorflow; sys_platform == 'win32'",), "gpu")
    report = judged(config, machine=NEWEST)
    assert report.verdict == "compatible"
    assert (
        report.headline
        == "Ready for deep learning on NVIDIA A100-SXM4-40GB, driver 580.65.06; no framework is"
        " installed."
    )
    assert [item.message for item in report.findings if item.id == "framework-missing"] == [
        "No project requirement applies to this system, and no framework is installed."
    ]
    assert judged(replace(config, min_driver="600"), machine=NEWEST).verdict == "incompatible"


def test_what_follows_from_an_ignored_cause_is_ignored_with_it() -> None:
    config = Config(ignored=(Ignored("gpu-absent", "why not", TODAY),))
    chain = [Finding(name, "incompatible", "error", "", caused_by=cause) for name, cause in
             (("gpu-absent", None), ("driver-missing", "gpu-absent"), ("driver-too-old", "driver-missing"), ("disk-full", None))]  # fmt: skip
    kept = apply_ignores(chain, config.ignored, TODAY)
    assert [item.severity for item in kept] == ["note", "note", "note", "error"]


def test_an_ignored_finding_has_no_fix_and_what_was_not_read_may_be_ignored_too() -> None:
    assert all(
        item.fix is None
        for item in judged(ignoring(TODAY), torch()).findings
        if item.severity == "note"
    )
    unread = Config(("torch",), ignored=(Ignored("probe-failed", "no pip there", TODAY),))
    report = judged(unread, machine=NEWEST, frameworks=Unknown("timeout", "composed"))
    assert report.verdict == "compatible"
    assert all(
        item.message.startswith("Ignored until")
        for item in report.findings
        if item.id == "probe-failed"
    )


@pytest.mark.parametrize(
    "name", ["jetson-orin-torch-for-cuda-13", "wsl-healthy", "windows-torch-with-cuda"]
)
def test_a_floor_above_all_drivers_is_never_passed_in_silence(name: str) -> None:
    context = Context(snapshot_of(name).facts, matrix(), Target("gpu"))
    for config in (Config((), "gpu", "999.1"), Config((), "gpu", "", "99.0")):
        report = judge_project(context, config, "pyproject.toml", TODAY)
        said = {item.id for item in report.findings if item.severity == "error"}
        assert said & {"driver-too-old", "gpu-arch-too-old", "probe-failed"}, report.findings

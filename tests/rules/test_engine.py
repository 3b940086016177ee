"""The engine: unknown needs, crashed checks, verdicts and the ranking of causes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from envcheck.matrix.load import load_matrix
from envcheck.model import (
    ERROR,
    INCOMPATIBLE,
    NOTE,
    UNDETERMINED,
    WARNING,
    Absent,
    DriverFacts,
    Facts,
    Finding,
    Gpu,
    Known,
    Source,
    Unknown,
)
from envcheck.rules import Context, Target, engine
from envcheck.rules.engine import evaluate
from envcheck.rules.ranking import rank_findings
from envcheck.rules.registry import Check, Rule

HERE = Source("file", "/sys")
HANGS = Unknown("timeout", "no answer within 2.0 s", ("/usr/bin/nvidia-smi",))
WITH_GPU = Facts(gpus=Known((Gpu(),), HERE), driver=DriverFacts(release=HANGS))
WITHOUT_GPU = Facts(gpus=Absent(("/sys/bus/pci/devices",)))


def finding(finding_id: str, severity: str = ERROR, verdict: str = INCOMPATIBLE) -> Finding:
    return Finding(finding_id, verdict, severity, "It is so.")


def says(*findings: Finding) -> Check:
    def check(context: Context) -> Iterator[Finding]:
        yield from findings

    return check


def context(facts: Facts = WITH_GPU, expect: str = "auto") -> Context:
    return Context(facts, load_matrix(), Target(expect))


@pytest.fixture
def only_rules(monkeypatch: pytest.MonkeyPatch) -> list[Rule]:
    rules: list[Rule] = []
    monkeypatch.setattr(engine, "RULES", rules)
    return rules


def test_an_unknown_need_makes_the_check_undetermined(only_rules: list[Rule]) -> None:
    only_rules.append(Rule("driver-too-old", ("driver.release",), "gpu", says(finding("driver-too-old"))))
    only_rules.append(Rule("driver-missing", ("driver.release",), "gpu", says()))
    report = evaluate(context())
    assert report.verdict == UNDETERMINED
    assert [item.id for item in report.findings] == ["probe-failed"]
    message = report.findings[0].message
    assert "no answer within 2.0 s" in message
    assert "driver-missing, driver-too-old" in message
    assert report.findings[0].evidence[0].fact == "driver.release"
    assert not report.findings[0].primary


def test_an_absent_need_lets_the_check_run(only_rules: list[Rule]) -> None:
    only_rules.append(Rule("gpu-absent", ("gpus",), "any", says(finding("gpu-absent", NOTE))))
    report = evaluate(context(WITHOUT_GPU))
    assert (report.verdict, report.goal, report.checked) == ("compatible", "cpu", ("gpu-absent",))


def test_a_crashed_check_does_not_take_the_report_with_it(only_rules: list[Rule]) -> None:
    def crash(context: Context) -> Iterator[Finding]:
        yield finding("driver-too-old", WARNING)
        raise ZeroDivisionError("x / 0")

    only_rules.append(Rule("driver-too-old", (), "gpu", crash))
    only_rules.append(Rule("gpu-absent", (), "any", says()))
    report = evaluate(context())
    assert report.verdict == UNDETERMINED
    assert {item.id for item in report.findings} == {"probe-failed", "driver-too-old"}
    assert "ZeroDivisionError" in report.findings[1].message


def test_nothing_checked_is_never_compatible(only_rules: list[Rule]) -> None:
    assert only_rules == []
    assert evaluate(context()).verdict == UNDETERMINED
    only_rules.append(Rule("driver-too-old", (), "gpu", says()))
    assert evaluate(context(WITHOUT_GPU)).verdict == UNDETERMINED


def test_gpu_checks_are_left_out_where_no_gpu_is_expected(only_rules: list[Rule]) -> None:
    only_rules.append(Rule("driver-too-old", (), "gpu", says(finding("driver-too-old"))))
    only_rules.append(Rule("python-32bit", (), "any", says()))
    assert evaluate(context(WITH_GPU, "cpu")).verdict == "compatible"
    assert evaluate(context(WITHOUT_GPU, "gpu")).verdict == "incompatible"
    assert evaluate(context(Facts(), "auto")).goal == "gpu", "GPUs that could not be read may be there"


def test_only_limits_the_checks(only_rules: list[Rule]) -> None:
    only_rules.append(Rule("driver-too-old", (), "gpu", says(finding("driver-too-old"))))
    only_rules.append(Rule("numpy-abi", (), "any", says()))
    report = evaluate(context(), frozenset({"numpy-abi"}))
    assert (report.verdict, report.checked) == ("compatible", ("numpy-abi",))


def test_the_cause_is_primary_and_its_consequence_ranks_below() -> None:
    ranked = rank_findings([finding("libcuda-not-on-path"), finding("driver-nouveau"), finding("driver-missing")])
    assert [(item.id, item.primary, item.caused_by) for item in ranked] == [
        ("driver-nouveau", True, None),
        ("driver-missing", False, "driver-nouveau"),
        ("libcuda-not-on-path", False, "driver-missing"),
    ]


def test_a_warning_does_not_explain_an_error() -> None:
    ranked = rank_findings([finding("driver-nouveau", WARNING), finding("driver-missing")])
    assert [(item.id, item.primary, item.caused_by) for item in ranked] == [
        ("driver-missing", True, None),
        ("driver-nouveau", False, None),
    ]


def test_what_could_not_be_read_is_never_the_cause() -> None:
    ranked = rank_findings([finding("probe-failed", ERROR, UNDETERMINED), finding("host-compiler-too-old", WARNING)])
    assert [(item.id, item.primary) for item in ranked] == [("host-compiler-too-old", True), ("probe-failed", False)]
    assert not any(item.primary for item in rank_findings([finding("gpu-absent", NOTE)]))

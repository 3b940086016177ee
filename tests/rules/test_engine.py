"""The engine: unknown needs, crashed checks, verdicts and the ranking of causes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from envcheck.matrix.load import load_matrix
from envcheck.model import (
    ERROR,
    INCOMPATIBLE,
    NOT_COLLECTED,
    NOTE,
    UNDETERMINED,
    WARNING,
    Absent,
    DriverFacts,
    Evidence,
    Facts,
    Finding,
    Gpu,
    Known,
    Source,
    Unknown,
    replace,
)
from envcheck.rules import Context, Target, engine
from envcheck.rules import context as registry
from envcheck.rules.catalogue import rank_findings
from envcheck.rules.context import Check, Rule, once
from envcheck.rules.engine import evaluate

HERE = Source("file", "/sys")
HANGS = Unknown("timeout", "no answer within 2.0 s", ("/usr/bin/nvidia-smi",))
WITH_GPU = Facts(gpus=Known((Gpu(),), HERE), driver=DriverFacts(release=HANGS))
WITHOUT_GPU = Facts(gpus=Absent(("/sys/bus/pci/devices",)))


Add = Callable[..., Callable[[Callable[..., Iterator[Finding]]], Check]]


def finding(finding_id: str, severity: str = ERROR, verdict: str = INCOMPATIBLE) -> Finding:
    return Finding(finding_id, verdict, severity, "It is so.")


def says(*findings: Finding) -> Check:
    def check(context: Context, *values: object) -> Iterator[Finding]:
        yield from findings

    return check


def meets_unknown(*findings: Finding) -> Check:
    def check(context: Context) -> Iterator[Finding]:
        yield from findings
        context.need(context.facts.driver.release, "driver.release")

    return check


def context(facts: Facts = WITH_GPU, expect: str = "auto") -> Context:
    return Context(facts, load_matrix(), Target(expect))


@pytest.fixture
def add(monkeypatch: pytest.MonkeyPatch) -> Add:
    """Leave out the rules of the product; return what registers others."""
    rules: list[Rule] = []
    monkeypatch.setattr(engine, "RULES", rules)
    monkeypatch.setattr(registry, "RULES", rules)
    return registry.rule


def test_an_unknown_need_makes_the_check_undetermined(add: Add) -> None:
    add("driver-too-old", needs=("driver.release",))(says(finding("driver-too-old")))
    add("driver-missing", needs=("driver.release",))(says())
    report = evaluate(context())
    assert report.verdict == UNDETERMINED
    assert [item.id for item in report.findings] == ["probe-failed"]
    message = report.findings[0].message
    assert "no answer within 2.0 s" in message
    assert "driver-missing, driver-too-old" in message
    assert report.findings[0].evidence[0].fact == "driver.release"
    assert not report.findings[0].primary


def test_an_absent_need_lets_the_check_run(add: Add) -> None:
    add("gpu-absent", needs=("gpus",), goal="any")(says(finding("gpu-absent", NOTE)))
    report = evaluate(context(WITHOUT_GPU))
    assert (report.verdict, report.goal, report.checked) == ("compatible", "cpu", ("gpu-absent",))


def test_a_crashed_check_does_not_take_the_report_with_it(add: Add) -> None:
    def crash(context: Context) -> Iterator[Finding]:
        yield finding("driver-too-old", WARNING)
        raise ZeroDivisionError("x / 0")

    add("driver-too-old")(crash)
    add("gpu-absent", goal="any")(says())
    report = evaluate(context())
    assert report.verdict == UNDETERMINED
    assert {item.id for item in report.findings} == {"probe-failed", "driver-too-old"}
    assert "ZeroDivisionError" in report.findings[1].message


def test_nothing_checked_is_never_compatible(add: Add) -> None:
    assert evaluate(context()).verdict == UNDETERMINED
    add("driver-too-old")(says())
    assert evaluate(context(WITHOUT_GPU)).verdict == UNDETERMINED


def test_gpu_checks_are_left_out_where_no_gpu_is_expected(add: Add) -> None:
    add("driver-too-old")(says(finding("driver-too-old")))
    add("python-32bit", goal="any")(says())
    assert evaluate(context(WITH_GPU, "cpu")).verdict == "compatible"
    assert evaluate(context(WITHOUT_GPU, "gpu")).verdict == "incompatible"
    assert evaluate(context(Facts(), "auto")).goal == "gpu", (
        "GPUs that could not be read may be there"
    )


def test_only_limits_the_checks(add: Add) -> None:
    add("driver-too-old")(says(finding("driver-too-old")))
    add("numpy-abi", goal="any")(says())
    report = evaluate(context(), frozenset({"numpy-abi"}))
    assert (report.verdict, report.checked) == ("compatible", ("numpy-abi",))


def test_needs_arrive_as_plain_values(add: Add) -> None:
    arrived: list[object] = []

    @add("driver-missing", needs=("gpus", "driver.release"))
    def check(
        context: Context, gpus: tuple[Gpu, ...] | None, release: str | None
    ) -> Iterator[Finding]:
        arrived.extend((gpus, release))
        yield from ()

    facts = replace(WITH_GPU, driver=DriverFacts(release=Absent(("nvidia-smi",))))
    assert evaluate(context(facts)).checked == ("driver-missing",)
    assert arrived == [(Gpu(),), None]
    assert list(check(context(facts))) == []
    assert arrived[2:] == [(Gpu(),), None], "called by its name, it asks for the same values"


def test_one_rule_decides_several_ids(add: Add) -> None:
    add("cudnn-missing", "cudnn-too-old")(
        says(finding("cudnn-too-old"), finding("release-unknown", NOTE))
    )
    report = evaluate(context())
    assert report.checked == ("cudnn-missing", "cudnn-too-old")
    assert [item.id for item in report.findings] == ["cudnn-too-old", "release-unknown"]


def test_only_leaves_out_the_other_ids_of_a_rule(add: Add) -> None:
    both = finding("cudnn-missing"), finding("cudnn-too-old"), finding("release-unknown", NOTE)
    add("cudnn-missing", "cudnn-too-old")(says(*both))
    report = evaluate(context(), frozenset({"cudnn-missing"}))
    assert report.checked == ("cudnn-missing",)
    assert [item.id for item in report.findings] == ["cudnn-missing", "release-unknown"]


def test_every_id_of_a_rule_is_undecided_where_a_fact_is_unknown(add: Add) -> None:
    add("cudnn-too-old", "cudnn-missing", needs=("driver.release",))(says())
    add("driver-missing")(says())
    report = evaluate(context())
    assert (report.verdict, report.checked) == (UNDETERMINED, ("driver-missing",))
    assert report.findings[0].message.endswith(
        "Not decided for that reason: cudnn-missing, cudnn-too-old."
    )
    assert (
        evaluate(context(), frozenset({"cudnn-missing"}))
        .findings[0]
        .message.endswith(": cudnn-missing.")
    )


def test_a_finding_takes_the_id_and_the_severity_of_its_rule(add: Add) -> None:
    plain, own = (
        context().report("Plain."),
        context().report("Own.", finding_id="mig-config", severity=ERROR),
    )
    add("os-limit", "mig-config", severity=WARNING)(says(plain, own))
    found = {item.message: (item.id, item.severity) for item in evaluate(context()).findings}
    assert found == {"Plain.": ("os-limit", WARNING), "Own.": ("mig-config", ERROR)}


def test_evidence_is_a_fact_by_its_name_in_other_words_or_as_it_is() -> None:
    judged = context()
    own = Evidence("a table", "a cell")
    found = judged.report("Said.", "driver.release", ("gpus", "none of them"), own)
    release, gpus, last = found.evidence
    assert release == judged.seen("driver.release")
    assert (gpus.fact, gpus.shown) == ("gpus", "none of them")
    assert gpus.source == judged.seen("gpus").source
    assert last is own
    assert (found.verdict, found.stops, found.cure) == (INCOMPATIBLE, "", None)


def test_a_note_never_makes_a_machine_undetermined(add: Add) -> None:
    add("driver-missing")(says())
    add("driver-too-old", severity=NOTE, needs=("driver.release",))(
        says(finding("driver-too-old", NOTE))
    )
    add("os-limit", severity=NOTE)(meets_unknown(finding("os-limit", NOTE)))
    report = evaluate(context())
    assert (report.verdict, report.checked) == ("compatible", ("driver-missing",))
    assert [item.id for item in report.findings] == ["os-limit"], (
        "what it found before it met the fact stays"
    )


def test_a_crashed_note_is_a_note(add: Add) -> None:
    def crash(context: Context) -> Iterator[Finding]:
        raise ZeroDivisionError("x / 0")

    add("driver-missing")(says())
    add("os-limit", severity=NOTE)(crash)
    report = evaluate(context())
    assert report.verdict == "compatible"
    assert [(item.id, item.severity) for item in report.findings] == [("probe-failed", NOTE)]


def test_what_an_older_collector_did_not_collect_is_a_note(add: Add) -> None:
    add("driver-missing")(says())
    add("driver-too-old", needs=("driver.release",))(says())
    report = evaluate(context(replace(WITH_GPU, driver=DriverFacts(release=NOT_COLLECTED))))
    assert (report.verdict, report.checked) == ("compatible", ("driver-missing",))
    assert [(item.id, item.severity) for item in report.findings] == [("probe-failed", NOTE)]


def test_an_answer_is_kept_for_its_context_and_its_arguments_alone() -> None:
    asked: list[tuple[str, int]] = []

    @once
    def answer(context: Context, number: int) -> str:
        asked.append((context.goal, number))
        return f"{context.goal} {number}"

    gpu, cpu = context(expect="gpu"), context(expect="cpu")
    assert [answer(gpu, 1), answer(gpu, 1), answer(gpu, 2), answer(cpu, 1)] == [
        "gpu 1",
        "gpu 1",
        "gpu 2",
        "cpu 1",
    ]
    assert asked == [("gpu", 1), ("gpu", 2), ("cpu", 1)]


def test_the_cause_is_primary_and_its_consequence_ranks_below() -> None:
    ranked = rank_findings(
        [finding("libcuda-not-on-path"), finding("driver-nouveau"), finding("driver-missing")]
    )
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
    ranked = rank_findings(
        [finding("probe-failed", ERROR, UNDETERMINED), finding("host-compiler-too-old", WARNING)]
    )
    assert [(item.id, item.primary) for item in ranked] == [
        ("host-compiler-too-old", True),
        ("probe-failed", False),
    ]
    assert not any(item.primary for item in rank_findings([finding("gpu-absent", NOTE)]))

"""A fact that could not be read accuses nothing else: one known fact at a time is unread, over all recordings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest

from envcheck.model import COMPATIBLE, ERROR, INCOMPATIBLE, WARNING, Finding, Known, Report, Unknown
from envcheck.rules import RULES, Context, evaluate
from envcheck.rules.context import Rule
from tests.hosts.test_hosts import NAMES, context_of, judged, snapshot_of
from tests.rules.unread import UNREAD, list_variants, name_of_fact

# (the fact that is unread, the finding that is new): why it may be said.
ACCEPTED = {
    (
        "driver.kernel_module_version",
        "driver-missing",
    ): "It says that nothing which was read explains cuInit.",
    (
        "driver.device_nodes.accessible",
        "driver-missing",
    ): "It says that nothing which was read explains cuInit.",
    ("host.wsl_version", "driver-missing"): "It says that nothing which was read explains cuInit.",
    (
        "host.secure_boot",
        "driver-missing",
    ): "The module is not loaded; that Secure Boot refuses it is not known.",
    (
        "driver.module_file_signed",
        "driver-missing",
    ): "The module is not loaded; that Secure Boot refuses it is not known.",
    (
        "driver.module_file",
        "driver-missing",
    ): "No driver is loaded; that one lies on the disk is not known.",
    (
        "gpus.kernel_driver",
        "driver-missing",
    ): "No NVIDIA driver is loaded; which other one is, is not known.",
    ("other_gpus", "gpu-absent"): "There is no NVIDIA GPU; that there is another one is not known.",
    (
        "host.environment",
        "driver-not-in-container",
    ): "The container has no GPU; that a variable asks for none is not known.",
    (
        "python.bits",
        "platform-no-gpu-wheel",
    ): "There is no wheel for this architecture, whatever the bits.",
    ("host.os", "release-unknown"): "It is undetermined.",
}


def errors(report: Report) -> set[str]:
    return {finding.id for finding in report.findings if finding.severity == ERROR}


@cache
def new_errors() -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for name in NAMES:
        usual = judged(name)
        for path, facts in list_variants(snapshot_of(name).facts):
            report = evaluate(context_of(name, facts))
            accused = errors(report) - errors(usual) - {"probe-failed"}
            found.update((name_of_fact(path), finding) for finding in accused)
            found.update(
                [(path, name)]
                if usual.verdict == COMPATIBLE and report.verdict == INCOMPATIBLE
                else []
            )
    return found


@pytest.mark.timeout(300)
def test_a_fact_that_is_unread_accuses_nothing_else() -> None:
    assert set(new_errors()) == set(ACCEPTED), "each new error is mended, or accepted with a reason"


@pytest.mark.parametrize(
    ("severity", "verdict"), [(ERROR, "undetermined"), (WARNING, "compatible")]
)
def test_a_rule_that_can_only_warn_decides_no_verdict(
    severity: str, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = next(name for name in NAMES if judged(name).verdict == COMPATIBLE)

    def cannot_tell(context: Context) -> Iterator[Finding]:
        context.need(UNREAD, "host.kernel_release")
        yield from ()

    monkeypatch.setattr(
        "envcheck.rules.engine.RULES",
        [*RULES, Rule(("env-mixed",), severity, (), "any", cannot_tell)],
    )
    report = evaluate(context_of(name))
    (failed,) = [item for item in report.findings if item.id == "probe-failed"]
    assert (failed.severity, report.verdict) == (severity, verdict)


def test_every_fact_of_a_machine_is_varied() -> None:
    facts = snapshot_of("a100-driver-525-runs-cuda-12.6").facts
    varied = dict(list_variants(facts))
    assert isinstance(facts.gpus, Known)
    assert isinstance(varied["gpus"].gpus, Unknown)
    assert isinstance(varied["gpus.value[0].name"].gpus, Known)
    assert varied["gpus.value[0].name"].gpus.value[0].name == UNREAD
    assert len(varied) > 30

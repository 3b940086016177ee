"""The same situation has the same remedy: what the doctor says of a machine, explain says of a log with its facts."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

import pytest

from envcheck.diagnosis import diagnose
from envcheck.explain.facts import build_context, state_facts
from envcheck.explain.log import Log, Strength
from envcheck.explain.signatures import (
    conclusions_by_name,
    load_driver_errors,
    load_signatures,
    signatures_by_name,
)
from envcheck.model import INCOMPATIBLE, NOTE, Facts, Finding, Remedy, Report
from envcheck.rules import RULES, catalogue
from tests.cases.case_facts import matrix
from tests.cases.judged import judge_text, judged_cases
from tests.hosts.test_hosts import NAMES, context_of, diagnosed
from tests.structure import modules

# Findings that one side alone can state, and why.
OF_RULES_ALONE = {
    "gpu-degraded": "explain states the fault of a log itself, and no log shows the driver's flags",
    "install-interrupted": "only the environment's folder holds what an installation left",
    "probe-failed": "a log has no probes; explain uses the id for what no message explains",
    "release-unknown": "only the matrix tells that a release is missing in it",
}
OF_LOGS_ALONE = {
    "benign-noise": "lines that mean no harm",
    "build-isolation": "what a build imports shows only when it runs",
    "build-tools-missing": "a compiler is needed only where something is compiled",
    "device-placement": "what a program asks of a device shows only when it runs",
    "disk-full": "which disk a program fills shows only when it runs",
    "engine-mismatch": "which engine file a program loads shows only when it does",
    "multi-gpu-p2p-nccl": "whether GPUs reach each other shows only when they try",
    "import-failed": "the doctor's own import states it, and explain finds its cause",
    "program-error": "the program itself is wrong",
    "smoke-failed": "a smoke test states it",
    "wheel-incomplete": "that a wheel was published so is told by the loader's words beside its owner",
}
# Both can state these, and no comparison holds.
NOT_COMPARED = {
    "install-damaged": "a log names the file, rarely the release to reinstall, which the doctor reads",
    "gpu-memory-exhausted": "a rule states it of what `require` asks for alone",
    "library-missing": "a log names FFmpeg's libraries so, the doctor those that a framework loads",
    "tensorrt-missing": "a note of the doctor, which explain leaves to the messages",
}
# What both state of one package: that of the recorded machine.
OF_ONE_PACKAGE = {
    "extension-build-mismatch": "/opt/site-packages/flash_attn_2_cuda.so: undefined symbol: _ZN3c104cuda9SetDeviceEi"
}


def test_every_finding_is_stated_by_both_sides_or_listed_with_a_reason() -> None:
    by_rules = {name for item in RULES for name in item.ids}
    both = by_rules & ids_of_logs()
    assert by_rules - both == set(OF_RULES_ALONE), (
        "add a log's signature, or a row to OF_RULES_ALONE with the reason"
    )
    # of the engine itself
    assert set(catalogue()) - by_rules - {"plugin-failed"} == set(OF_LOGS_ALONE)
    assert both - set(NOT_COMPARED) == set(situations()) - set(NOT_COMPARED)


def ids_of_logs() -> set[str]:
    """List the findings that a signature, a driver's error or what messages mean together names."""
    named = {item.finding for item in load_signatures() if item.role in ("cause", "symptom")}
    named |= {item.finding for item in conclusions_by_name().values()}
    named |= set(load_driver_errors().values())
    reasons = [
        module
        for module in modules().values()
        if module.name.startswith("envcheck.explain.reasons_")
    ]
    assert reasons
    texts = {
        node.value
        for module in reasons
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant)
    }
    return {name for name in catalogue() if name in named | texts}


@cache
def situations() -> dict[str, tuple[str, ...]]:
    """Map each finding that a rule states as wrong to the recorded machines on which it does."""
    found: dict[str, tuple[str, ...]] = {}
    for name in NAMES:
        for finding_id in dict.fromkeys(item.id for item in wrong(diagnosed(name))):
            if finding_id in ids_of_logs():
                found[finding_id] = (*found.get(finding_id, ()), name)
    return found


def wrong(report: Report) -> Iterator[Finding]:
    return (
        item for item in report.findings if item.verdict == INCOMPATIBLE and item.severity != NOTE
    )


@cache
def logs() -> dict[str, str]:
    """Return a log for each finding that ends in it: one line where one is enough, else the shortest recorded log."""
    lines: dict[str, set[tuple[int, int, str]]] = {}
    whole: dict[str, set[tuple[int, int, str]]] = {}
    for item in (
        item for name in ("composed", "reported", "unseen") for item in judged_cases(name)
    ):
        whole.setdefault(item.primary, set()).add((0, len(item.case["log"]), item.case["log"]))
        for event in item.events:
            signature = signatures_by_name()[event.signature]
            if signature.finding and signature.strength:
                strength = Strength.named(signature.strength)
                lines.setdefault(signature.finding, set()).add(
                    (-strength, len(event.text), event.text)
                )
    found = dict(OF_ONE_PACKAGE)
    for name in ids_of_logs() - set(found):
        tried = [*sorted(lines.get(name, ()))[:40], *sorted(whole.get(name, ()))]
        ending = (text for *_, text in tried if judge_text(text).primary == name)
        if text := next(ending, ""):
            found[name] = text
    return found


@pytest.mark.parametrize(
    "finding_id",
    sorted({name for item in RULES for name in item.ids} - set(OF_RULES_ALONE) - set(NOT_COMPARED)),
)
def test_doctor_and_explain_give_the_same_remedy(finding_id: str) -> None:
    assert finding_id in logs(), f"no log states {finding_id}: see OF_RULES_ALONE"
    log = logs()[finding_id]
    for name in situations()[finding_id]:
        context = context_of(name)
        explained = judge_text(log, context.facts, target=context.target).report
        assert remedy(explained, finding_id) == remedy(diagnosed(name), finding_id), name


def test_a_log_that_states_the_facts_has_the_doctors_remedy() -> None:
    compared = set()
    for name in NAMES:
        item = judge_text(stated_by_a_log(context_of(name).facts))
        log = Log(item.events, matrix(), None)
        facts = state_facts(log)
        deciding = (facts.driver.release, facts.gpus, facts.toolkits.installs)
        if not facts.python.frameworks.value or not any(fact.value for fact in deciding):
            continue  # nothing says that a GPU is meant
        report = diagnose(build_context(log))
        for finding in wrong(report):
            compared.add(finding.id)
            assert remedy(item.report, finding.id) == remedy(report, finding.id), (name, finding.id)
    assert {"driver-too-old", "framework-cpu-build", "cuda-wheel-conflict"} <= compared


def stated_by_a_log(facts: Facts) -> str:
    """Write what a log can state of a machine, as pip, nvidia-smi, TensorFlow and PyTorch's collect_env print it."""
    python, driver, host = facts.python, facts.driver, facts.host
    cuda = driver.cuda_driver_version.value
    release = driver.release.value
    rows = [
        f"Python {python.version.value}",
        f"OS: {host.distribution_id.value} {host.distribution_version.value} (x86_64)",
        f"Libc version: glibc-{host.libc_version.value}",
        f"| NVIDIA-SMI {release}    Driver Version: {release}    CUDA Version: {cuda}    |",
    ]
    wheels = (item for item in python.distributions.value or () if item.name.startswith("nvidia-"))
    rows += [f"{item.distribution:25} {item.version}" for item in python.frameworks.value or ()]
    rows += [f"{item.name:25} {item.version}" for item in wheels]
    for number, gpu in enumerate(facts.gpus.value or ()):
        major, _, minor = (gpu.compute_capability.value or "None").partition(".")
        name = gpu.name.value
        rows.append(
            f"Found device {number} with properties: name: {name} major: {major} minor: {minor}"
        )
    return "\n".join(row for row in rows if "None" not in row) + "\n"


def remedy(report: Report, finding_id: str) -> Remedy | None:
    """Return the typed remedy of a finding, without the other ways, which a log may add to."""
    found = next(item for item in wrong(report) if item.id == finding_id)
    return Remedy(found.fix.summary, found.fix.actions) if found.fix else None

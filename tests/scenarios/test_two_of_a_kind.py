"""Two frameworks or two GPUs: the one that is fine hides nothing of the other, whichever comes first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from envcheck.model import Absent, Distribution, Facts, FrameworkBuild, Known, Report
from envcheck.rules import Context, Target, evaluate
from tests.hosts.test_hosts import NAMES, judged, matrix, recording, snapshot_of
from tests.rules.factory_machine import gpu, known

SITE = "/srv/fine"
EVERY_GPU = known(tuple(f"sm_{number}" for number in (37, 50, 60, 61, 70, 75, 80, 86, 89, 90, 120)))
BUILT: dict[str, Any] = {
    "libraries": known(()),
    "shadowed_by": Absent(()),
    "cuda_build": known(True),
}
# Builds that bring all they need, and have code for every GPU.
FINE = (
    FrameworkBuild(
        "torch",
        "torch",
        "2.7.1+cu118",
        SITE,
        cuda_version=known("11.8"),
        compute_capabilities=EVERY_GPU,
        **BUILT,
    ),
    FrameworkBuild(
        "tensorflow",
        "tensorflow",
        "2.15.1",
        SITE,
        cuda_version=known("12.2"),
        compute_capabilities=EVERY_GPU,
        **BUILT,
    ),
)
A100 = gpu("NVIDIA A100-SXM4-80GB", "8.0", 7)
# One finding for all that it concerns, named together or by one of them.
OF_THE_WHOLE = ("probe-failed", "msvc-runtime-missing")
# Where another GPU that works makes a difference: it would contradict what was
# read, that CUDA does not start because the driver drives none of the GPUs.
OF_ALL_GPUS = {"k80-with-driver-550", "rtx5090-with-driver-560"}


def beside_a_fine_framework(name: str, *, first: bool) -> Facts | None:
    """Install another framework beside those of a recording; None where it has both already, or none."""
    facts = snapshot_of(name).facts
    python = facts.python
    if python.frameworks.value is None:
        return None
    there = python.frameworks.value
    fine = next(
        (build for build in FINE if build.framework not in {item.framework for item in there}), None
    )
    if fine is None:
        return None
    installed = python.distributions
    if isinstance(installed, Known):
        own = Distribution(fine.distribution, fine.version.partition("+")[0], SITE, installer="pip")
        installed = known((*installed.value, own))
    builds = known((fine, *there) if first else (*there, fine))
    return replace(facts, python=replace(python, frameworks=builds, distributions=installed))


def beside_a_fine_gpu(name: str, *, first: bool) -> Facts | None:
    """Put an A100 into the machine of a recording that has a GPU."""
    facts = snapshot_of(name).facts
    if facts.gpus.value is None or not facts.gpus.value:
        return None
    return replace(
        facts, gpus=known((A100, *facts.gpus.value) if first else (*facts.gpus.value, A100))
    )


def judged_as(name: str, facts: Facts) -> Report:
    target = recording(name).get("target", {})
    return evaluate(
        Context(facts, matrix(), Target(target.get("expect", "auto"), tuple(target.get("for", ()))))
    )


def told(report: Report) -> Counter[tuple[str, str, str]]:
    return Counter((item.id, item.verdict, item.severity) for item in report.findings)


def said(report: Report) -> set[tuple[str, str]]:
    """Return the findings with their words."""
    return {(item.id, "" if item.id in OF_THE_WHOLE else item.message) for item in report.findings}


def frameworks() -> Iterator[tuple[str, Report, Report]]:
    """Yield each recording with a fine framework before and behind its own."""
    for name in NAMES:
        first, last = (beside_a_fine_framework(name, first=place) for place in (True, False))
        if first is not None and last is not None:
            yield name, judged_as(name, first), judged_as(name, last)


def gpus() -> Iterator[tuple[str, Report, Report]]:
    """Yield each recording with a fine GPU before and behind its own."""
    for name in NAMES:
        first, last = (beside_a_fine_gpu(name, first=place) for place in (True, False))
        if first is not None and last is not None:
            yield name, judged_as(name, first), judged_as(name, last)


def test_a_framework_that_is_fine_hides_no_finding_of_another() -> None:
    found = list(frameworks())
    assert len(found) > 60
    hidden = {name: said(judged(name)) - said(report) for name, report, _ in found}
    # A build for CUDA beside it asks for an NVIDIA GPU, which `gpu-absent` says instead.
    del hidden["instinct-expected-with-torch-cpu"]
    assert {name: lost for name, lost in hidden.items() if lost} == {}


def test_the_order_of_frameworks_changes_no_finding() -> None:
    assert {
        name: told(first) - told(last)
        for name, first, last in frameworks()
        if told(first) != told(last)
    } == {}


def test_a_gpu_that_is_fine_hides_no_finding_of_another() -> None:
    found = list(gpus())
    assert len(found) > 60
    hidden = {
        name: {item.id for item in judged(name).findings} - {item.id for item in report.findings}
        for name, report, _ in found
    }
    assert {name for name, lost in hidden.items() if lost} == OF_ALL_GPUS


def test_the_order_of_gpus_changes_no_finding() -> None:
    assert {
        name: told(first) - told(last) for name, first, last in gpus() if told(first) != told(last)
    } == {}

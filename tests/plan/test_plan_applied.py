"""The doctor's plan, applied to the machine it is for, takes its findings away and brings no new error.

The steps are played (`applied.py`, `applied_system.py`), not run: bench/ runs real ones.
"""

from __future__ import annotations

from functools import cache

from envcheck.diagnosis import diagnose
from envcheck.model import ERROR, INCOMPATIBLE, NOTE, Finding, Report, Step
from envcheck.rules import Context, Target, catalogue, evaluate
from tests.hosts.test_hosts import NAMES
from tests.hosts.test_hosts import context_of as recorded
from tests.plan.applied import Applied, NotAppliedError
from tests.scenarios.machine import context_of, torch
from tests.scenarios.test_causes import CAUSES, TORCH_128

SCENARIO = "scenario-"
MACHINES = (*NAMES, *(SCENARIO + name for name in CAUSES))

# What a person does, or what shows only where it is done: no command here ends it.
NOT_PLAYED = {
    "cudnn-shadowed", "driver-device-nodes", "driver-library-mismatch", "driver-not-in-container", "driver-nouveau",
    "driver-too-old", "driver-wsl", "forward-compat-misused", "framework-missing", "gpu-absent",
    "gpu-arch-too-new", "gpu-degraded", "gpu-hardware-fault", "gpu-memory-held", "host-compiler-too-new", "host-compiler-too-old",
    "libcuda-not-on-path", "local-module-shadowing", "mig-config", "msvc-runtime-missing", "os-limit",
    "platform-no-gpu-wheel", "python-32bit", "python-wrong-arch", "toolkit-path-conflict", "toolkit-wrong-version",
    "tensorrt-missing", "visible-devices-hidden", "cpu-missing-avx", "cudnn-too-old", "cudnn-wrong-cuda-build",
    "cudnn-wrong-major", "environment-variable", "gpu-not-nvidia", "install-interrupted", "library-missing",
}  # fmt: skip
# Nothing but a log, a run or a missing answer leads to these.
NEVER_FIRST = {
    "benign-noise", "build-isolation", "build-tools-missing", "device-placement", "disk-full", "engine-mismatch",
    "wheel-incomplete", "gpu-memory-exhausted", "import-failed", "multi-gpu-p2p-nccl", "plugin-failed",
    "probe-failed", "program-error", "release-unknown", "smoke-failed", "tensorrt-missing",
}  # fmt: skip


def context(name: str) -> Context:
    if name in NAMES:
        return recorded(name)
    cause = name.removeprefix(SCENARIO)
    build = TORCH_128 if cause.startswith("blackwell") else torch()
    return context_of(CAUSES[cause][0], build, target=Target())


@cache
def proposed(name: str) -> tuple[Context, Report]:
    here = context(name)
    return here, diagnose(here)


def resolved(report: Report) -> set[str]:
    return {cause for step in report.steps for cause in step.resolves}


def wrong(report: Report) -> list[Finding]:
    return [
        item for item in report.findings if item.verdict == INCOMPATIBLE and item.severity != NOTE
    ]


def takes(machine: Applied, step: Step) -> bool:
    """Take a step, unless nothing here plays it."""
    try:
        machine.take(step)
    except NotAppliedError:
        return False
    return True


@cache
def after(name: str) -> tuple[Report, frozenset[str]]:
    """Play a machine's plan; return what the doctor says then, and which findings a step could not be played for."""
    here, report = proposed(name)
    said = " ".join(item.fix.summary for item in wrong(report) if item.fix)
    machine = Applied(here.facts, here.matrix, here.platform, said)
    left = set[str]()
    for step in report.steps:
        left |= set() if takes(machine, step) else set(step.resolves)
    facts = machine.done()
    if left >= resolved(report):
        return report, frozenset(left)
    return evaluate(Context(facts, here.matrix, Target(report.goal))), frozenset(left)


def test_the_plan_takes_the_findings_away_and_brings_no_error() -> None:
    stayed, came = {}, {}
    for name in MACHINES:
        _, report = proposed(name)
        again, unplayed = after(name)
        played = resolved(report) - unplayed
        stayed[name] = played & {item.id for item in wrong(again)}
        before = {item.id for item in report.findings} | unplayed
        errors = [item for item in again.findings if item.severity == ERROR and played]
        came[name] = [item.message for item in errors if item.id not in before]
    assert {name: ids for name, ids in stayed.items() if ids} == {}
    assert {name: messages for name, messages in came.items() if messages} == {}


def test_each_finding_names_steps_and_each_step_a_finding() -> None:
    for name in MACHINES:
        _, report = proposed(name)
        steps = {step.id for step in report.steps}
        for item in wrong(report):
            named = report.steps_for(item)
            assert named, f"{name}: {item.id} has no step"
            assert set(named) <= steps
        found = {item.id for item in report.findings}
        assert all(
            step.resolves and set(step.resolves) <= found and step.purpose for step in report.steps
        ), name


def test_every_finding_of_a_machine_is_first_somewhere() -> None:
    first = {item.id for name in MACHINES for item in proposed(name)[1].findings if item.primary}
    assert set(catalogue()) - first == NEVER_FIRST


def test_most_findings_are_seen_to_go() -> None:
    gone = {item for name in MACHINES for item in resolved(proposed(name)[1]) - after(name)[1]}
    unplayed = {item for name in MACHINES for item in after(name)[1]} - {"release-unknown"}
    assert unplayed == NOT_PLAYED
    assert gone >= {
        "cuda-wheel-conflict", "cuda-wheel-not-found", "cudnn-missing", "cudnn-too-new", "cudnn-too-old",
        "cudnn-wrong-cuda-build", "cudnn-wrong-major", "dependency-conflict", "driver-device-nodes",
        "driver-library-mismatch", "driver-missing", "driver-nouveau", "driver-secure-boot", "driver-too-old",
        "env-mixed", "extension-build-mismatch", "fabric-manager", "framework-cpu-build",
        "framework-cuda-extra-missing",
        "framework-duplicate-dists", "framework-package-removed", "glibc-too-old", "gpu-arch-too-new",
        "gpu-arch-too-old", "gpu-memory-held", "keras-mismatch", "libcuda-not-on-path", "libdevice-missing",
        "libstdcxx-mismatch", "numpy-abi", "pip-too-old", "platform-no-gpu-wheel", "protobuf-conflict",
        "ptxas-problem", "python-unsupported", "toolkit-missing", "toolkit-wrong-version", "visible-devices-hidden",
    }  # fmt: skip

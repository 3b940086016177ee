"""One request, one answer: the doctor, the plan, the check and the agent's tools say the same of a requirement.

Machines are the recordings, each without its frameworks. Requests are drawn by a seed: pins, ranges, wildcards, bare
names, extras, labels, unknown packages and releases, and texts that are none.
"""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path

import pytest

from envcheck import api
from envcheck.cli import mcp
from envcheck.frameworks import identity
from envcheck.model import (
    ERROR,
    INCOMPATIBLE,
    UNDETERMINED,
    Absent,
    FrameworkRelease,
    Known,
    Plan,
    Report,
    Snapshot,
    Source,
    UserError,
    encode,
    replace,
)
from envcheck.rules import Context
from envcheck.rules.builds import rows_by_extra
from envcheck.rules.described_machine import Description, planned_facts
from tests.hosts.test_hosts import NAMES, matrix, snapshot_of

REFUSED, WORKS, FAILS, BLOCKED = "refused", "works", "fails", "blocked"
REQUESTS = (
    *(
        "torch",
        "torch>=2.6",
        "torch==2.6.*",
        "torch==2.6.0",
        "torch==2.7.1+cu118",
        "torch<2",
        "Torch~=2.4",
    ),
    *(
        "tensorflow",
        "tensorflow>=2.15,<2.18",
        "tensorflow[and-cuda]",
        "tensorflow[and-cuda]==2.16.*",
        "tensorflow-cpu",
    ),
    *(
        "jax[cuda12]",
        "jax[cuda12]>=0.7",
        "jax==0.4.30",
        "jax",
        "vllm",
        "vllm>=0.5",
        "torchvision==0.20.*",
    ),
    *("onnxruntime-gpu>=1.18", "torch>=99", "torch==2.6.77", "tensorflow[nosuch]"),
)
NO_REQUESTS = (
    "nosuchpackage",
    "torch=2.6",
    "torch>=",
    "torch @ https://example.org/x.whl",
    "torch\0",
    "(" * 99,
)


def is_planned_for(name: str) -> bool:
    """Return whether a plan knows the Python that it is for, and names releases: not for other vendors' GPUs."""
    facts = snapshot_of(name).facts
    return isinstance(facts.python.version, Known) and not facts.other_gpus.value


@cache
def machines() -> tuple[str, ...]:
    """List the recordings that a plan can be for: not in every process that collects this."""
    return tuple(name for name in NAMES if is_planned_for(name))


@cache
def without_frameworks(name: str) -> Snapshot:
    snapshot, source = snapshot_of(name), Source("command", "python")
    python = snapshot.facts.python
    python = replace(
        python, frameworks=Absent(("the environment",)), distributions=Known((), source)
    )
    return replace(snapshot, facts=replace(snapshot.facts, python=python))


def errors_of(report: Report) -> set[str]:
    return {
        item.id
        for item in report.findings
        if item.severity == ERROR and item.verdict == INCOMPATIBLE
    }


# By the identity of a machine, which `without_frameworks` keeps, and by what is asked.
ALONE: dict[int, set[str]] = {}
PLANS: dict[tuple[int, str], Plan | None] = {}


def errors_alone(machine: Snapshot) -> set[str]:
    """List the errors of a machine of which nothing is asked."""
    if id(machine) not in ALONE:
        ALONE[id(machine)] = errors_of(api.doctor(snapshot=machine).report)
    return ALONE[id(machine)]


def plan_of(machine: Snapshot, text: str) -> Plan | None:
    """Plan a requirement; None where it is refused."""
    key = (id(machine), text)
    if key not in PLANS:
        try:
            PLANS[key] = api.plan(text, snapshot=machine).plan
        except UserError:
            PLANS[key] = None
    return PLANS[key]


def mended_by_plan(machine: Snapshot, text: str) -> set[str]:
    """List the findings that steps of the plan resolve: the machine alone, of which nothing is asked, has none."""
    plan = plan_of(machine, text)
    return set(plan.resolves) if plan else set()


def ask_doctor(machine: Snapshot, text: str) -> str:
    """Say what the doctor holds against a requirement, and neither against the machine alone nor mended by a step."""
    try:
        report = api.doctor(snapshot=machine, requirements=text).report
    except UserError:
        return REFUSED
    of_machine = errors_alone(machine) | mended_by_plan(machine, text)
    unknown = any(item.id == "release-unknown" and text in item.message for item in report.findings)
    return FAILS if errors_of(report) - of_machine or not report.asked or unknown else WORKS


def ask_plan(machine: Snapshot, text: str) -> str:
    plan = plan_of(machine, text)
    if plan is None:
        return REFUSED
    if plan.blocked_by:
        return "blocked"
    return WORKS if plan.releases else FAILS


def ask_check(machine: Snapshot, text: str, folder: Path) -> str:
    """Return whether the check knows a release that it would install for what a project requires."""
    config = folder / "pyproject.toml"
    config.write_text(f"[tool.envcheck]\nrequires = [{json.dumps(text)}]\n")
    try:
        report = api.check(config, snapshot=machine).report
    except UserError:
        return REFUSED
    fixes = [item.fix for item in report.findings if item.id == "framework-missing" and item.fix]
    planned = [fix for fix in fixes if fix.actions and "`envcheck plan" in fix.summary]
    with_other_python = any("--python" in fix.summary for fix in planned)
    return WORKS if planned and not with_other_python else FAILS


def ask_agent(machine: Snapshot, text: str, folder: Path) -> str:
    file = folder / "machine.json"
    file.write_text(json.dumps({"schema": "envcheck/snapshot/1", **encode(machine)}))
    try:
        answer = mcp.answer("doctor", requirements=[text], snapshot="machine.json", as_json=True)
    except UserError:
        return REFUSED
    return str(answer["verdict"])


@pytest.mark.parametrize("text", NO_REQUESTS)
def test_what_is_no_request_is_refused_by_all(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    machine = without_frameworks("a100-driver-525-runs-cuda-12.6")
    answers = [
        ask_doctor(machine, text),
        ask_plan(machine, text),
        ask_agent(machine, text, tmp_path),
    ]
    assert [*answers, ask_check(machine, text, tmp_path)] == [REFUSED] * 4


def test_an_agent_is_answered_as_a_person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    machine = without_frameworks("a100-driver-525-runs-cuda-12.6")
    for text in ("torch>=2.6", "torch>=99", "torch==2.15.0"):
        report = api.doctor(snapshot=machine, requirements=text).report
        assert ask_agent(machine, text, tmp_path) == report.verdict


@pytest.mark.parametrize("text", ["tensorflow[and-cuda]", "tensorflow[and-cuda]==2.16.*"])
def test_cuda_of_an_extra_gets_one_answer_without_a_gpu(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    without_gpu = {
        name: without_frameworks(name)
        for name in machines()
        if Context(without_frameworks(name).facts, matrix()).goal == "cpu"
    }
    wrong = []
    for name, machine in without_gpu.items():
        answers = {
            ask_doctor(machine, text),
            ask_plan(machine, text),
            ask_check(machine, text, tmp_path),
        }
        if BLOCKED not in answers and len(answers) > 1:
            wrong.append((name, answers))
    assert without_gpu
    assert not wrong


UNREAD = [
    part
    for name in matrix().judged()
    if not identity(name).cuda.compiles_kernels
    for build in matrix().builds(name)
    for part in rows_by_extra(build)
    if part.cuda_build and not part.compute_capabilities
]


def test_builds_whose_code_nobody_read_are_few() -> None:
    """Those of PyTorch's own index, which was not read, and of TensorFlow for macOS."""
    places = {(build.framework, build.platform) for build in UNREAD}
    assert places == {
        ("torch", "win_amd64"),
        ("torch", "linux_aarch64"),
        ("tensorflow", "macosx_x86_64"),
    }


@pytest.mark.parametrize(
    "build",
    UNREAD,
    ids=lambda build: f"{build.distribution}-{build.build_version}-{build.platform}",
)
def test_a_build_whose_code_nobody_read_is_undetermined_for_all(build: FrameworkRelease) -> None:
    """No build takes the code of another platform, nor is one taken for the sake of its CUDA.

    TensorFlow for macOS also lacks the CUDA of the system: the doctor says that first.
    """
    text = f"{build.distribution}=={build.build_version}"
    is_torch = build.framework == "torch"
    driver, gpu = ("610.47.04", "9.0") if is_torch else ("", "6.1")
    glibc = "2.39" if build.platform.startswith("linux") else ""
    described = Description(build.pythons[-1], driver, (gpu,), glibc, build.platform)
    facts = planned_facts(None, described, matrix(), expects_gpu=True)
    machine = replace(snapshot_of("a100-driver-525-runs-cuda-12.6"), facts=facts)
    report = api.doctor(snapshot=machine, requirements=text, expect="gpu").report
    planned = api.plan(text, snapshot=machine, expect="gpu")
    unread = [item for item in report.findings if item.id == "release-unknown"]
    assert [item.severity for item in unread] == [ERROR]
    assert report.verdict == (UNDETERMINED if is_torch else INCOMPATIBLE)
    assert (planned.plan.releases, planned.verdict) == ((), UNDETERMINED)
    assert [(item.finding, item.why) for item in planned.plan.rejected] == [
        ("release-unknown", unread[0].message)
    ]


def test_a_package_that_compiles_its_kernels_holds_no_code_to_read() -> None:
    machine = without_frameworks("a100-driver-525-runs-cuda-12.6")
    (release,) = api.plan("numba-cuda", snapshot=machine).plan.releases
    assert (release.requirement, release.warnings) == ("numba-cuda[cu12]==0.30.4", ())


@pytest.mark.parametrize("seed", range(6))
def test_a_requirement_gets_one_answer(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    choose, wrong = random.Random(seed), []
    for _ in range(4):
        name, text = choose.choice(machines()), choose.choice(REQUESTS)
        machine = without_frameworks(name)
        if text.startswith("jax[") and Context(machine.facts, matrix()).goal != "gpu":
            continue  # the doctor judges jax and its plugin, the plan the jaxlib beside them, too
        planned = ask_plan(machine, text)
        if planned == BLOCKED:
            continue
        answers = {ask_doctor(machine, text), planned, ask_check(machine, text, tmp_path)}
        if len(answers) > 1:
            wrong.append((name, text, answers))
    assert not wrong

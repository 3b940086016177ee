"""One judge: `doctor --for`, `plan`, `check` and `matrix query` give the same answer on a release.

Random machines and requests are drawn here by a seed; bench/one_judge.py draws as many as it is
told."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date
from functools import cache
from itertools import product

import pytest

from envcheck.check.blueprint import Blueprint, Line
from envcheck.check.config import Config
from envcheck.check.environment import Environment
from envcheck.check.judge import Gate
from envcheck.check.judge_file import UNSTATED, judge_blueprints
from envcheck.diagnosis import diagnose
from envcheck.frameworks import framework_names
from envcheck.matrix import Matrix, load_matrix
from envcheck.model import (
    COMPATIBLE,
    ERROR,
    INCOMPATIBLE,
    UNDETERMINED,
    Facts,
    Finding,
    FrameworkRelease,
    ToolkitFacts,
    replace,
)
from envcheck.plan.build import build_plan
from envcheck.plan.candidates import candidates
from envcheck.plan.choose import Judge, judge_candidate
from envcheck.plan.requests import read_requests
from envcheck.rules import Context, Target, catalogue
from envcheck.rules.described_machine import Description, capabilities, planned_facts
from envcheck.rules.engine import is_unstated, judge_release
from envcheck.rules.matrix_question import Question, RowJudge, find_releases
from tests.hosts.test_hosts import NAMES, snapshot_of

TODAY = date(2026, 11, 22)
RELEASES = 6  # of each framework, evenly over its history, are asked about on each machine
# What a plan installs beside a release: the rest of the machine stays as it is.
INSTALLED_BY_PLAN = {
    "cuda-wheel-not-found",
    "cudnn-missing",
    "toolkit-missing",
    "toolkit-wrong-version",
}
# Old and new drivers and GPUs on each system with CUDA builds.
DESCRIBED = [
    Description(python, driver, (gpu,), "2.35" if platform.startswith("linux") else "", platform)
    for platform, (python, driver, gpu) in product(
        ("linux_x86_64", "linux_aarch64", "win_amd64"),
        (
            ("3.7", "418.87", "7.0"),
            ("3.9", "470.57.02", "3.7"),
            ("3.10", "535.104.05", "8.9"),
            ("3.12", "550.54.15", "9.0"),
            ("3.12", "580.65.06", "6.1"),
            ("3.13", "580.65.06", "12.0"),
            ("3.14t", "580.65.06", "8.6"),
            ("3.11", "560", "7.5"),
        ),
    )
]
Said = set[tuple[str, str]]  # ids and messages


@cache
def matrix() -> Matrix:
    return load_matrix()


def builds(platform: str, goal: str, start: int) -> Iterator[FrameworkRelease]:
    """Yield builds of every framework, evenly over its history; those of PyTorch's own index are among them."""
    for name in framework_names():
        rows = [
            row for row in matrix().builds(name, platform) if not row.stub_for and not row.yanked
        ]
        rows = [row for row in rows if row.cuda_build or goal == "cpu"]
        step = max(1, len(rows) // RELEASES)
        yield from rows[start % step :: step]


def named(row: FrameworkRelease) -> str:
    return f"{row.distribution}=={row.build_version}"


def against(findings: tuple[Finding, ...]) -> tuple[str, Said]:
    """Return the verdict of findings with the errors behind it, without what nobody stated."""
    errors = [item for item in findings if item.severity == ERROR and not is_unstated(item)]
    wrong = {(item.id, item.message) for item in errors if item.verdict == INCOMPATIBLE}
    return (INCOMPATIBLE if wrong else UNDETERMINED if errors else COMPATIBLE), wrong


def ask_doctor(facts: Facts, goal: str, requirement: str) -> tuple[str, Said]:
    """Ask what the doctor finds, before it plans remedies: those take most of the time."""
    return against(
        judge_release(Context(facts, matrix(), Target(goal, (requirement,)))).report.findings
    )


def compare_plan(facts: Facts, goal: str, row: FrameworkRelease) -> Iterator[str]:
    """Compare the plan's judgement of a build with what the doctor says of the same requirement."""
    judge = Judge(Context(facts, matrix(), Target(goal)))
    (request,) = read_requests((named(row),), matrix())
    candidate = next((item for item in candidates(judge.context, request) if item.row == row), None)
    if candidate is None:
        return
    planned = judge_candidate(judge, candidate, "")
    machine = {(item.id, item.message) for item in judge.machine_findings()}
    found = (
        set[tuple[str, str]]().union(
            *(ask_doctor(facts, goal, text)[1] for text in candidate.targets)
        )
        - machine
    )
    left = {
        name
        for name, _ in found
        if name not in INSTALLED_BY_PLAN and catalogue()[name].layer != "toolkit"
    }
    if bool(planned.errors) != bool(left):
        yield f"{named(row)}: plan {[item.id for item in planned.errors]}, doctor {sorted(found)}"


def compare_check(platform: str, python: str, row: FrameworkRelease) -> Iterator[str]:
    """Compare what the check of a file says of a line with what the doctor says on the facts of the file."""
    line = Line(named(row), "requirements.txt:1")
    system = {"linux_x86_64": "linux/amd64", "linux_aarch64": "linux/arm64"}.get(platform)
    if system is None or python.endswith("t"):
        return
    file = Blueprint(
        "requirements.txt",
        "requirements",
        python=Line(python, "a.txt:1"),
        platform=system,
        requirements=(line,),
    )
    report = judge_blueprints((file,), Gate(Config(expect="gpu"), matrix(), "", TODAY))[0]
    checked = {
        item.id
        for item in report.findings
        if item.verdict == INCOMPATIBLE and item.severity == ERROR
    }
    doctor = {
        name
        for name, _ in ask_doctor(
            Environment(file, matrix(), "gpu", UNSTATED).base, "gpu", named(row)
        )[1]
    }
    # What is asked for without its libraries is warned of; once installed, it is an error where the
    # system has none.
    if checked - {"framework-cuda-extra-missing"} != doctor:
        yield f"{named(row)}: check {sorted(checked)}, doctor {sorted(doctor)}"


@pytest.mark.parametrize("number", range(0, len(DESCRIBED), 3))
def test_the_four_agree_on_a_described_machine(number: int) -> None:
    machine = DESCRIBED[number]
    facts = planned_facts(None, machine, matrix(), expects_gpu=True)
    disk = Facts()  # the question says nothing of it
    unstated = replace(facts, toolkits=ToolkitFacts(), cudnn=disk.cudnn, tensorrt=disk.tensorrt)
    (capability,) = capabilities(facts)
    question = Question(machine.python, machine.driver, capability, machine.platform)
    listed = {named(item.release): item.fit for item in find_releases(RowJudge(matrix(), question))}
    disagreements = []
    for row in builds(machine.platform, "gpu", number):
        verdict, said = ask_doctor(unstated, "gpu", named(row))
        if listed.get(named(row), INCOMPATIBLE) != verdict:
            disagreements.append(
                f"{named(row)}: query {listed.get(named(row))}, doctor {verdict} {sorted(said)}"
            )
        disagreements += compare_plan(facts, "gpu", row)
        disagreements += compare_check(machine.platform, machine.python, row)
    assert disagreements == []


@pytest.mark.parametrize("name", NAMES[::14])
def test_the_four_agree_on_a_recorded_machine(name: str) -> None:
    facts = planned_facts(snapshot_of(name).facts, Description(), matrix(), expects_gpu=False)
    context, driver, python = Context(facts, matrix()), facts.driver.release, facts.python.version
    is_gpu = context.goal == "gpu"
    question = Question(
        ".".join(python.value.split(".")[:2]) if python.value is not None else "",
        driver.value if is_gpu and driver.value is not None else "",
        "".join(capabilities(facts)[:1]) if is_gpu else "",
        context.platform,
    )
    listed = {named(item.release) for item in find_releases(RowJudge(matrix(), question))}
    disagreements = []
    for row in builds(context.platform, context.goal, NAMES.index(name)):
        verdict, said = ask_doctor(facts, context.goal, named(row))
        # the question states less than the machine holds
        if named(row) not in listed and verdict != INCOMPATIBLE:
            disagreements.append(f"{named(row)}: not in the query, doctor {verdict} {sorted(said)}")
        disagreements += compare_plan(facts, context.goal, row)
    assert disagreements == []


DRIVERS: tuple[str, ...] = (
    "",
    "390.48",
    "418.87",
    "450.80.02",
    "470",
    "515.43.04",
    "525.60.13",
    "535.104.05",
)
DRIVERS += ("550.54.15", "560.35.03", "570.26", "575", "580.65.06", "580", "590.48.01", "620")
CAPABILITIES = (
    "3.5",
    "3.7",
    "5.0",
    "5.2",
    "6.0",
    "6.1",
    "7.0",
    "7.5",
    "8.0",
    "8.6",
    "8.7",
    "8.9",
    "9.0",
    "10.0",
    "12.0",
)
GPUS = (*CAPABILITIES, "V100", "H100", "RTX 3090", "RTX 5090")
PYTHONS = ("3.6", "3.7", "3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.14t")
PLATFORMS = ("linux_x86_64", "linux_x86_64", "linux_x86_64", "linux_aarch64", "win_amd64")
GLIBCS = ("2.17", "2.26", "2.27", "2.28", "2.31", "2.35", "2.39")


def draw_case(generator: random.Random) -> tuple[Description, FrameworkRelease]:
    """Draw a machine with GPUs, and a build that is asked for."""
    platform = generator.choice(PLATFORMS)
    gpus = tuple(generator.sample(GPUS, generator.choice((1, 1, 1, 2))))
    glibc = generator.choice(GLIBCS) if platform.startswith("linux") else ""
    machine = Description(
        generator.choice(PYTHONS), generator.choice(DRIVERS), gpus, glibc, platform
    )
    name = generator.choice(framework_names())
    rows = [
        row
        for row in matrix().builds(name, platform)
        if row.cuda_build and not row.stub_for and not row.yanked
    ]
    rows = rows or [
        row for row in matrix().builds("torch", platform) if row.cuda_build and not row.yanked
    ]
    usable = [row for row in rows if machine.python.rstrip("t") in row.pythons]
    return machine, generator.choice(usable if usable and generator.random() < 0.8 else rows)


def compare_all(machine: Description, row: FrameworkRelease) -> list[str]:
    """List where the four disagree on a build: the commands are asked of the machine as each of them can state it."""
    facts = planned_facts(None, machine, matrix(), expects_gpu=True)
    disagreements = [
        *compare_plan(facts, "gpu", row),
        *compare_check(machine.platform, machine.python, row),
    ]
    if len(machine.gpus) > 1:
        return disagreements  # the question is about one GPU, by its capabilities
    disk = Facts()  # the question says nothing of it, or of the C library
    unstated = replace(facts, toolkits=ToolkitFacts(), cudnn=disk.cudnn, tensorrt=disk.tensorrt)
    unstated = replace(
        unstated, host=replace(unstated.host, libc_version=Facts().host.libc_version)
    )
    capability = "".join(capabilities(facts)[:1])
    question = Question(machine.python, machine.driver, capability, machine.platform, row.framework)
    judge = RowJudge(matrix(), question)
    listed = {named(item.release): item.fit for item in find_releases(judge)}
    verdict, said = ask_doctor(unstated, "gpu", named(row))
    if listed.get(named(row), INCOMPATIBLE) != verdict:
        disagreements.append(
            f"{named(row)}: query {listed.get(named(row))}, doctor {verdict} {sorted(said)}"
        )
    return disagreements


@pytest.mark.parametrize("seed", range(4))
def test_the_four_agree_on_random_machines_and_requests(seed: int) -> None:
    generator = random.Random(seed)
    cases = [draw_case(generator) for _ in range(10)]
    found = {f"{machine}": compare_all(machine, row) for machine, row in cases}
    assert {machine: texts for machine, texts in found.items() if texts} == {}


def test_remedies_leave_what_was_found() -> None:
    generator = random.Random(4)
    for machine, row in (draw_case(generator) for _ in range(10)):
        facts = planned_facts(None, machine, matrix(), expects_gpu=True)
        whole = diagnose(Context(facts, matrix(), Target("gpu", (named(row),))))
        assert against(whole.findings) == ask_doctor(facts, "gpu", named(row))


V100 = Description("3.12", "580.65.06", ("V100",), "2.35", "linux_x86_64")
A100 = Description("3.12", "580.65.06", ("A100",), "2.35", "linux_x86_64")


@pytest.mark.parametrize("text", ["tensorflow[and-cuda]==2.20.*", "jax[cuda12]"])
def test_a_cudnn_that_dropped_the_gpu_is_bounded_by_plan_and_doctor(text: str) -> None:
    facts = planned_facts(None, V100, matrix(), expects_gpu=True)
    report = diagnose(Context(facts, matrix(), Target("gpu", (text,))))
    (finding,) = [item for item in report.findings if item.id == "cudnn-too-new"]
    assert finding.severity == "warning"
    assert finding.fix is not None
    assert "nvidia-cudnn-cu12<9.11" in finding.fix.summary
    plan = build_plan(facts, matrix(), read_requests((text,), matrix()))
    assert "nvidia-cudnn-cu12<9.11" in plan.releases[0].constraints
    assert [item.id for item in plan.releases[0].warnings if item.id == "cudnn-too-new"] == []


@pytest.mark.parametrize(
    ("texts", "clashes"),
    [
        (("torch==2.13.0", "tensorflow[and-cuda]==2.20.*"), True),  # CUDA 13 and 12
        (("torch==2.6.0", "tensorflow[and-cuda]==2.18.*"), True),  # two exact pins
        (("torch==2.9.1", "tensorflow[and-cuda]==2.20.*"), False),
        (("torch==2.13.0", "jax[cuda13]"), False),
        (("torch==2.13.0", "tensorflow==2.20.*"), False),  # without its extra it brings no CUDA
    ],
)
def test_two_requests_clash_for_doctor_as_for_plan(texts: tuple[str, ...], clashes: bool) -> None:
    facts = planned_facts(None, A100, matrix(), expects_gpu=True)
    report = diagnose(Context(facts, matrix(), Target("gpu", texts)))
    assert ("cuda-wheel-conflict" in {item.id for item in report.findings}) is clashes
    if "[" in "".join(texts):
        plan = build_plan(facts, matrix(), read_requests(texts, matrix()))
        assert bool(plan.clashes) is clashes

"""The doctor's plan is the planner's: the same releases by the same commands, for the environment that is there."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from envcheck.cli.group import run
from envcheck.diagnosis import diagnose
from envcheck.diagnosis.planned import with_planned_remedies
from envcheck.model import (
    ERROR,
    INCOMPATIBLE,
    Absent,
    Distribution,
    Facts,
    Finding,
    Known,
    Report,
    Source,
    replace,
)
from envcheck.remedies.situation import Situation
from envcheck.render.json_contracts import render_snapshot
from envcheck.rules import Context, Target
from tests.hosts.test_hosts import NAMES, context_of, diagnosed, snapshot_of
from tests.plan.machines import matrix
from tests.typed import argv, judged, lasting, undo, unverified, verify

SEEN = Source("file", "composed")


@cache
def unplanned(name: str) -> Report:
    return judged(context_of(name))


def changed(name: str) -> list[Finding]:
    return [
        new for old, new in zip(unplanned(name).findings, diagnosed(name).findings) if old != new
    ]


@cache
# not while tests are collected: every process would judge all machines
def changed_names() -> tuple[str, ...]:
    return tuple(name for name in NAMES if changed(name))


def commands(name: str, facts: Facts | None = None) -> list[str]:
    report = diagnosed(name) if facts is None else diagnose(context_of(name, facts))
    return [shlex.join(argv(step)) for step in report.steps]


def with_python(name: str, **facts: object) -> Facts:
    read = snapshot_of(name).facts
    return replace(read, python=replace(read.python, **facts))


def test_the_doctors_commands_are_those_of_the_plan_it_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in changed_names():
        fix = changed(name)[0].fix
        assert fix is not None, name
        asked = shlex.split(fix.summary.partition("`envcheck plan ")[2].partition("`")[0])
        saved = tmp_path / "machine.json"
        saved.write_text(render_snapshot(snapshot_of(name)), encoding="utf-8")
        here = [] if "into a new environment" in fix.summary else ["--installer", "pip"]
        machine = ["--expect", diagnosed(name).goal, *here, "--snapshot", str(saved)]
        assert run(["plan", *asked, *machine, "--format", "json"]) == 0, name
        plan = json.loads(capsys.readouterr().out)
        assert all(item["requirement"] in fix.summary for item in plan["releases"]), name
        wanted = [step["argv"] for step in plan["steps"] if step["id"].startswith("install")]
        own = [
            list(argv(command)) for command in fix.actions if "--only-binary=:all:" in argv(command)
        ]
        assert [argv[1:] for argv in own] == [argv[1:] for argv in wanted], name


def test_each_cause_names_the_steps_that_take_it_away() -> None:
    for name in changed_names():
        report = diagnosed(name)
        ids = {step.id for step in report.steps}
        for finding in report.findings:
            if (
                finding.severity == ERROR
                and finding.verdict == INCOMPATIBLE
                and finding in changed(name)
            ):
                assert report.steps_for(finding), name
                assert set(report.steps_for(finding)) <= ids, name
        for step in report.steps:
            assert not argv(step) or (
                (verify(step) or unverified(step)) and (undo(step) or lasting(step))
            ), (
                name,
                step,
            )


def test_the_kinds_of_causes_are_covered() -> None:
    causes = {item.id for name in changed_names() for item in changed(name)}
    assert causes >= {
        "framework-cpu-build",
        "framework-cuda-extra-missing",
        "framework-duplicate-dists",
        "framework-package-removed",
        "driver-too-old",
        "gpu-arch-too-old",
        "gpu-arch-too-new",
        "python-unsupported",
        "platform-no-gpu-wheel",
        "glibc-too-old",
        "toolkit-missing",
        "toolkit-wrong-version",
    }


def test_a_build_that_pip_takes_for_the_right_one_goes_first() -> None:
    assert commands("torch-cpu-beside-gpu") == [
        "/usr/bin/python3 -m pip uninstall -y torch",
        "/usr/bin/python3 -m pip install --only-binary=:all: torch==2.8.0",
    ]


def test_two_owners_of_one_module_both_go() -> None:
    first = commands("tensorflow-beside-tensorflow-cpu")[0]
    assert first == "/usr/bin/python3 -m pip uninstall -y tensorflow tensorflow-cpu"


def test_the_installed_release_stays_where_it_can() -> None:
    told = commands("tensorflow-without-cuda-extra")
    assert told == [
        "/usr/bin/python3 -m pip install --only-binary=:all: 'tensorflow[and-cuda]==2.20.0' 'setuptools<82'"
    ]


def test_another_release_comes_before_another_driver_which_is_still_named() -> None:
    (cause, *_) = diagnosed("driver-470-for-cuda-12").findings
    assert cause.id == "driver-too-old"
    assert cause.fix is not None
    assert cause.fix.summary.startswith(
        "Install tensorflow==2.13.1 and its dependencies, as `envcheck plan tensorflow`"
    )
    (other,) = cause.fix.alternatives
    assert other.summary == "Install NVIDIA driver 525.60.13 or newer, then restart."
    assert argv(other.actions[-1]) == ("sudo", "reboot")
    assert not any("apt-get" in line for line in commands("driver-470-for-cuda-12"))


def test_another_python_is_an_environment_of_its_own() -> None:
    assert commands("python-3.13-for-tensorflow-2.18") == [
        "python3.12 -m venv .venv-3.12",
        ".venv-3.12/bin/python -m pip install --only-binary=:all: 'tensorflow[and-cuda]==2.18.1' 'setuptools<82'",
    ]


def test_a_system_that_refuses_packages_gets_a_new_environment() -> None:
    facts = with_python(
        "torch-cpu-beside-gpu",
        kind=Known("system", SEEN),
        externally_managed=Known(value=True, source=SEEN),
    )
    assert commands("torch-cpu-beside-gpu", facts) == [
        "/usr/bin/python3 -m venv .venv",
        ".venv/bin/python -m pip install --only-binary=:all: torch==2.8.0",
    ]


def test_loader_paths_need_an_environment_that_is_activated() -> None:
    told = commands("toolkit-missing", with_python("toolkit-missing", kind=Known("system", SEEN)))
    assert told[0] == "/opt/venv/bin/python -m venv .venv"
    assert ".venv/bin/envcheck-cuda.sh" in told[-1] or ".venv/bin/activate" in told[-1]


def test_an_environment_without_pip_gets_it_first() -> None:
    told = commands(
        "tensorflow-without-cuda-extra",
        with_python("tensorflow-without-cuda-extra", pip_version=Absent(("pip",))),
    )
    assert told[0] == "/usr/bin/python3 -m ensurepip --upgrade"


def test_a_build_of_condas_is_replaced_by_conda() -> None:
    read = snapshot_of("torch-cpu-beside-gpu").facts.python
    assert read.distributions.value is not None
    assert read.prefix.value is not None
    condas = tuple(
        replace(item, installer="conda") if item.name == "torch" else item
        for item in read.distributions.value
    )
    facts = with_python(
        "torch-cpu-beside-gpu", distributions=Known(condas, SEEN), kind=Known("conda", SEEN)
    )
    assert commands("torch-cpu-beside-gpu", facts) == [
        f"conda install -y -p {read.prefix.value} --override-channels -c conda-forge python=3.11 'pytorch=2.8.0=cuda*'"
    ]


def test_a_plugin_for_another_cuda_goes() -> None:
    read = snapshot_of("jax-without-plugin").facts.python
    assert read.distributions.value is not None
    other = Distribution("jax-cuda13-plugin", "0.6.2")
    facts = with_python(
        "jax-without-plugin", distributions=Known((*read.distributions.value, other), SEEN)
    )
    told = commands("jax-without-plugin", facts)
    assert "/usr/bin/python3 -m pip uninstall -y jax-cuda13-plugin" in told


def beside_torch(name: str) -> Facts:
    """Put a CPU build of torch into a machine's environment."""
    facts, torch = snapshot_of(name).facts, snapshot_of("torch-cpu-beside-gpu").facts.python
    assert facts.python.frameworks.value is not None
    assert torch.frameworks.value is not None
    both = Known((*facts.python.frameworks.value, *torch.frameworks.value), SEEN)
    return replace(facts, python=replace(facts.python, frameworks=both))


def test_a_framework_that_is_well_stays_as_it_is() -> None:
    report = diagnose(Context(beside_torch("tensorflow-with-cuda-extra"), matrix(), Target()))
    (finding,) = [item for item in report.findings if item.id == "framework-cpu-build"]
    assert finding.fix is not None
    assert finding.fix.summary.startswith(
        "Install torch==2.8.0 and its dependencies, as `envcheck plan torch==2.8.0 ten"
    )
    removal, installation = report.steps[:2]
    assert argv(removal)[-1] == "torch"  # 2.8.0+cpu meets ==2.8.0
    assert {"torch==2.8.0", "tensorflow[and-cuda]==2.20.0"} <= set(argv(installation))


def test_a_machine_that_is_well_loads_no_planner_and_no_remedy(tmp_path: Path) -> None:
    saved = tmp_path / "machine.json"
    saved.write_text(render_snapshot(snapshot_of("torch-wheels-need-no-toolkit")), encoding="utf-8")
    code = (
        "import sys; from envcheck.cli.group import run; "
        f"assert run(['doctor', '--snapshot', {str(saved)!r}]) == 0; "
        "assert not [name for name in sys.modules if name.startswith(('envcheck.plan', 'envcheck.remedies'))]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_doctor_prints_the_plan_in_text_and_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "machine.json"
    saved.write_text(render_snapshot(snapshot_of("torch-cpu-beside-gpu")), encoding="utf-8")
    assert run(["doctor", "--snapshot", str(saved)]) == 1
    out = capsys.readouterr().out
    assert (
        "fix: Install torch==2.8.0 and its dependencies, as `envcheck plan torch==2.8.0` selects."
        in out
    )
    assert "$ /usr/bin/python3 -m pip install --only-binary=:all: torch==2.8.0" in out
    assert run(["doctor", "--snapshot", str(saved), "--format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    (finding,) = [item for item in document["findings"] if item["id"] == "framework-cpu-build"]
    assert (
        finding["resolved_by"]
        == [step["id"] for step in document["plan"]["steps"]]
        == ["step-1", "step-2"]
    )


def test_what_another_release_cannot_help_keeps_its_remedy() -> None:
    for name in (
        "no-driver",
        "gpu-lost-from-bus",
        "k80-with-driver-550",
        "no-gpu-expected",
        "tensorflow-2.14-with-numpy-2",
    ):
        assert not changed(name), name


def test_a_version_no_requirement_can_name_keeps_its_own_remedy() -> None:
    read = snapshot_of("torch-cpu-beside-gpu").facts.python
    assert read.frameworks.value is not None
    odd = tuple(replace(item, version="2.8.0 (custom)") for item in read.frameworks.value)
    facts = with_python("torch-cpu-beside-gpu", frameworks=Known(odd, SEEN))
    told = commands("torch-cpu-beside-gpu", facts)
    assert not [line for line in told if "custom" in line]


def test_a_matrix_that_holds_no_requirement_keeps_its_own_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refusing(*_: object) -> object:
        raise ValueError("numpy; id")

    monkeypatch.setattr("envcheck.diagnosis.planned.plan_of", refusing)
    context = Context(snapshot_of("torch-cpu-beside-gpu").facts, matrix(), Target())
    report = judged(context)
    assert with_planned_remedies(report, Situation(context)) == report


def test_what_follows_from_something_else_is_no_cause() -> None:
    """Without a driver no release would do better: the driver comes first."""
    context = Context(snapshot_of("torch-cpu-beside-gpu").facts, matrix(), Target())
    report = judged(context)
    (finding,) = [item for item in report.findings if item.id == "framework-cpu-build"]
    followed = replace(report, findings=(replace(finding, caused_by="driver-missing"),))
    assert with_planned_remedies(followed, Situation(context)) == followed


@pytest.mark.parametrize("prefix", ["/srv/x; id", "-rf", "/srv/$(id)", "/srv/a\nb", "`id`"])
def test_a_hostile_prefix_gets_into_no_command(prefix: str) -> None:
    facts = with_python("toolkit-missing", prefix=Known(prefix, SEEN))
    told = commands("toolkit-missing", facts)
    assert told
    assert not [line for line in told if prefix in line]
    assert any(".venv/bin/activate" in line for line in told)


def test_in_a_container_the_newer_driver_stays_as_advice_for_the_host() -> None:
    facts = snapshot_of("driver-470-for-cuda-12").facts
    boxed = replace(facts, host=replace(facts.host, container=Known("docker", SEEN)))
    report = diagnose(Context(boxed, matrix(), context_of("driver-470-for-cuda-12").target))
    (cause,) = [item for item in report.findings if item.id == "driver-too-old"]
    assert cause.fix is not None
    assert cause.fix.summary.startswith("Install tensorflow==2.13.1")
    (other,) = cause.fix.alternatives
    assert "on the host, not in the container" in other.summary

"""A remedy is applied to the facts and judged by the same judge before it is printed."""

from __future__ import annotations

import pytest

from envcheck.actions import CreateEnvironment, InstallPackages, UninstallPackages
from envcheck.diagnosis import diagnose
from envcheck.diagnosis.acceptance import with_accepted_remedies
from envcheck.model import ERROR, INCOMPATIBLE, Absent, Finding, Remedy, Report, replace
from envcheck.remedies.situation import Situation
from tests.hosts.test_hosts import snapshot_of
from tests.rules.factory_python import build, context, distribution, facts, known


def commands(report: Report) -> list[tuple[str, ...]]:
    return [step.action.command() for step in report.steps]


def test_no_index_is_proposed_whose_builds_the_judge_refuses() -> None:
    """A Jetson: the builds for CUDA 12.8 have no code for its GPU."""
    machine = snapshot_of("jetson-orin-torch-for-cuda-13").facts
    report = diagnose(context(machine, "torch==2.9.1"))
    first = report.findings[0]
    assert first.id == "framework-cpu-build"
    assert first.fix is not None
    assert "a container image of its L4T release" in first.fix.summary
    assert not any("download.pytorch.org" in " ".join(line) for line in commands(report))


def test_what_another_remedy_removes_is_not_installed() -> None:
    """Two TensorFlows, both without what they require: the one that goes is not reinstalled."""
    needs = ("numpy<2.0,>=1.16.0", "astor>=0.6.0")
    installed = (
        distribution("tensorflow", "1.15.0", requires=needs),
        distribution("tensorflow-gpu", "1.10.0", requires=needs),
    )
    machine = facts(
        build("tensorflow", "1.15.0"),
        distributions=installed,
        version=known("3.6.9"),
        abi_tag=known("cp36m"),
        gpus=Absent(),
    )
    report = diagnose(context(machine))
    assert {item.id for item in report.findings} >= {
        "framework-duplicate-dists",
        "dependency-conflict",
    }
    pip = [item.action for item in report.steps if isinstance(item.action, InstallPackages)]
    assert [item.requirements for item in pip] == [("tensorflow==1.15.0",)]
    assert isinstance(report.steps[0].action, UninstallPackages)


def test_a_gpu_package_gives_way_to_no_cpu_package() -> None:
    """Without a GPU here, the build for GPUs still stays: it computes on a CPU, too."""
    installed = (distribution("onnxruntime", "1.22.0"), distribution("onnxruntime-gpu", "1.20.0"))
    machine = facts(
        build("onnxruntime", "1.22.0", cuda_build=known(value=False)),
        distributions=installed,
        gpus=Absent(),
    )
    report = diagnose(context(machine))
    pip = [item.action for item in report.steps if isinstance(item.action, InstallPackages)]
    assert [item.requirements for item in pip] == [("onnxruntime-gpu==1.20.0",)]


def test_the_framework_that_packages_require_is_installed() -> None:
    """An environment with flax and without jax is not sent to PyTorch."""
    installed = (distribution("flax", "0.11.2", requires=("jax>=0.6.0",)),)
    report = diagnose(context(facts(distributions=installed)))
    assert [step.action.command()[:3] for step in report.steps] == [("envcheck", "install", "jax")]


@pytest.mark.parametrize("installer", ["pip", "conda"])
def test_a_new_environment_is_judged_with_its_own_python(installer: str) -> None:
    """PyTorch 2.9 has no build for Python 3.8, whatever the environment that is there has."""
    machine = facts(build("torch", "2.8.0"), distributions=(distribution("torch", "2.8.0"),))
    finding = Finding("python-unsupported", INCOMPATIBLE, ERROR, "too old")

    def judged(minor: str) -> Remedy | None:
        install = InstallPackages(("torch==2.9.0",), ".venv-new/bin/python")
        create = CreateEnvironment(".venv-new", installer, python=minor)
        fix = Remedy("Make one.", (create, install))
        report = Report(INCOMPATIBLE, "", "", (replace(finding, fix=fix),), ())
        return with_accepted_remedies(report, Situation(context(machine))).findings[0].fix

    refused, accepted = judged("3.8"), judged("3.12")
    assert refused is not None
    assert "Python 3.8" in refused.summary
    assert accepted is not None
    assert len(accepted.actions) == 2

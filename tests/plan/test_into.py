"""Plans for an environment that is there: what is well stays, what is in the way goes, what is asked for is found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from packaging.version import Version

from envcheck.actions import ReinstallPackages
from envcheck.model import (
    Distribution,
    Facts,
    FileFault,
    FrameworkBuild,
    Known,
    Plan,
    PlannedRelease,
    Source,
    replace,
)
from envcheck.plan.build import EnvironmentUpdate
from envcheck.plan.existing_environment import OccupiedError, conflicts, plan_update
from envcheck.plan.requests import PlanOptions, read_requests
from envcheck.rules import Context, Target
from envcheck.rules.dependencies import broken_pins
from tests.hosts.test_hosts import snapshot_of
from tests.plan.machines import matrix
from tests.typed import argv, verify

SEEN = Source("file", "composed")
TENSORFLOW = "recorded-tensorflow-cpu-2.15"  # Python 3.11, tensorflow-cpu 2.15.1
TORCH = "recorded-torch-cpu-2.13"  # 2.13.0+cpu
GPU_TENSORFLOW = "tensorflow-with-cuda-extra"  # 2.20.0 on a GPU


def facts_of(name: str, *more: Distribution, without: tuple[str, ...] = ()) -> Facts:
    """Return a recorded machine's facts, with further distributions (composed)."""
    facts = snapshot_of(name).facts
    python = facts.python
    assert python.distributions.value is not None
    assert python.frameworks.value is not None
    gone = (*without, *(item.name for item in more))
    kept = tuple(item for item in python.distributions.value if item.name not in gone)
    builds = tuple(item for item in python.frameworks.value if item.distribution not in gone)
    builds += tuple(
        FrameworkBuild(
            framework, item.name, item.version, cuda_build=Known(value=False, source=SEEN)
        )
        for item in more
        if (framework := matrix().framework_of(item.name))
    )
    changed = replace(
        python, distributions=Known((*kept, *more), SEEN), frameworks=Known(builds, SEEN)
    )
    return replace(facts, python=changed)


def into(
    facts: Facts, *texts: str, expect: str = "auto", installer: str = "pip", upgrade: bool = False
) -> EnvironmentUpdate:
    options = PlanOptions(expect, installer, "env", upgrade=upgrade)
    return plan_update(facts, matrix(), read_requests(texts, matrix()), options)


def plan_of(found: EnvironmentUpdate) -> Plan:
    assert found.plan is not None
    return found.plan


@pytest.mark.parametrize(
    ("path", "kind", "again"),
    [
        ("wrapt/__init__.py", "missing", [("wrapt==1.14.2",)]),
        ("wrapt/_wrappers.so", "optional", []),
    ],
)
def test_only_what_keeps_an_import_from_working_is_reinstalled(
    path: str, kind: str, again: list[tuple[str, ...]]
) -> None:
    facts = facts_of(TENSORFLOW)
    faults = Known((FileFault("wrapt", "1.14.2", path, kind),), SEEN)
    damaged = replace(facts, python=replace(facts.python, file_faults=faults))
    actions = [step.action for step in plan_of(into(damaged, "tensorflow>=2.16")).steps]
    assert [each.requirements for each in actions if isinstance(each, ReinstallPackages)] == again


def argv_of(plan: Plan, step: str) -> tuple[str, ...]:
    (found,) = [argv(item) for item in plan.steps if item.id == step]
    return found


@pytest.mark.parametrize(
    "asked", ["tensorflow", "tensorflow-cpu>=2.15", "tensorflow==2.15.*", "tensorflow==2.15.1"]
)
def test_what_is_there_and_well_is_left_alone(asked: str) -> None:
    found = into(facts_of(TENSORFLOW), asked)
    assert found.is_satisfied
    assert [item.label for item in found.unchanged] == ["tensorflow-cpu 2.15.1"]


@pytest.mark.parametrize("asked", ["torch==2.13.0", "torch==2.13.0+cpu", "torch>=2.4"])
def test_a_label_is_the_same_release(asked: str) -> None:
    assert into(facts_of(TORCH), asked).is_satisfied


def test_an_upgrade_brings_the_newest_release_that_works_here() -> None:
    found = into(facts_of(TENSORFLOW), "tensorflow", upgrade=True)
    assert not found.is_satisfied
    (release,) = plan_of(found).releases
    assert release.distribution == "tensorflow-cpu"  # the name that is there stays
    assert Version(release.version) > Version("2.15.1")
    assert "--upgrade" in argv_of(plan_of(found), "install")


def test_what_is_the_newest_already_is_left_alone_by_an_upgrade() -> None:
    (release,) = plan_of(into(facts_of(TORCH), "torch", upgrade=True)).releases
    assert Version(release.version) > Version("2.13.0")
    newest = facts_of(TORCH, Distribution("torch", release.version))
    found = into(newest, "torch", upgrade=True)
    assert found.is_satisfied
    assert [item.version for item in found.unchanged] == [release.version]
    assert "no newer release works here" in " ".join(found.plan.notes)
    # one that does not work is no reason to stay
    broken = facts_of(TENSORFLOW, Distribution("tensorflow-cpu", "2.21.0"))
    assert not into(broken, "tensorflow", upgrade=True).is_satisfied


def test_an_upgrade_keeps_within_what_is_asked_for_and_leaves_others_alone() -> None:
    (release,) = plan_of(into(facts_of(TENSORFLOW), "tensorflow<2.17", upgrade=True)).releases
    assert release.version.startswith("2.16.")
    held = Distribution("jax", "0.4.30"), Distribution("jaxlib", "0.4.30")
    found = into(facts_of(TORCH, *held), "torch", upgrade=True)
    assert [item.framework for item in found.unchanged] == ["jax"]


def test_jax_is_there_by_its_own_name() -> None:
    found = into(facts_of("recorded-jax-cpu-0.12"), "jax")
    assert found.is_satisfied
    assert found.unchanged[0].distribution == "jax"


@pytest.mark.parametrize("asked", ["tensorflow>=2.16", "tensorflow-cpu==2.15.0"])
def test_another_release_is_a_change(asked: str) -> None:
    assert plan_of(into(facts_of(TENSORFLOW), asked)).releases


def test_a_framework_that_is_well_stays_and_is_held_by_every_command() -> None:
    found = into(facts_of(TORCH), "tensorflow")
    plan = plan_of(found)
    assert [item.framework for item in plan.releases] == ["tensorflow"]
    assert argv_of(plan, "install")[-1] == "torch==2.13.0+cpu"
    assert plan.notes == ("torch 2.13.0+cpu is installed and works, so it stays unchanged.",)
    assert [item.label for item in found.unchanged] == ["torch 2.13.0+cpu"]


def test_the_newest_release_that_goes_with_what_stays_is_taken() -> None:
    """What tensorflow 2.20 needs of cuDNN is for CUDA 12: newer torch is for 13."""
    facts = facts_of(GPU_TENSORFLOW)
    driver = replace(
        facts.driver, release=Known("580.65.06", SEEN), cuda_driver_version=Known("13.0", SEEN)
    )
    plan = plan_of(into(replace(facts, driver=driver), "torch<2.16"))
    assert plan.releases[0].cuda is not None
    assert plan.releases[0].cuda.startswith("12.")
    assert any(item.finding == "cuda-wheel-conflict" for item in plan.releases[0].rejected)
    assert argv_of(plan, "install")[-1] == "tensorflow[and-cuda]==2.20.0"


def test_the_whole_line_of_releases_is_gone_down_for_one_that_goes_with_what_stays() -> None:
    facts = facts_of(
        TENSORFLOW, Distribution("tensorflow-cpu", "2.15.1", requires=("ml-dtypes~=0.3.1",))
    )
    (jax,) = plan_of(into(facts, "jax")).releases
    assert jax.version == "0.4.34"
    assert "ml-dtypes>=0.4.0" in jax.rejected[-1].why


def test_what_cannot_go_together_is_refused_with_the_pins_that_clash() -> None:
    facts = facts_of(
        TENSORFLOW, Distribution("tensorflow-cpu", "2.15.1", requires=("ml-dtypes~=0.3.1",))
    )
    with pytest.raises(OccupiedError) as told:
        into(facts, "jax>=0.5")
    assert "tensorflow-cpu 2.15.1: ml-dtypes~=0.3.1, and jax==0.10.2: ml-dtypes>=0.5.0." in str(
        told.value
    )
    assert "(--env env-jax)" in str(told.value)
    assert "`envcheck install 'jax>=0.5' tensorflow --env env`" in str(told.value)


def test_what_is_named_may_change_where_it_must() -> None:
    facts = facts_of(
        TENSORFLOW, Distribution("tensorflow-cpu", "2.15.1", requires=("ml-dtypes~=0.3.1",))
    )
    plan = plan_of(into(facts, "jax>=0.5", "tensorflow"))
    assert {item.framework for item in plan.releases} == {"jax", "tensorflow"}
    assert plan.notes == ()


def test_what_does_not_work_is_not_built_upon() -> None:
    with pytest.raises(
        OccupiedError,
        match=r"env holds tensorflow-cpu 2\.14\.0, which does not work: .*install torch ten",
    ):
        into(facts_of("tensorflow-2.14-with-numpy-2"), "torch", expect="cpu")


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_two_that_own_one_module_both_go_first(installer: str) -> None:
    plan = plan_of(
        into(facts_of("tensorflow-beside-tensorflow-cpu"), "tensorflow", installer=installer)
    )
    assert [step.id for step in plan.steps][:3] == ["create-environment", "remove", "install"]
    assert argv_of(plan, "remove")[-2:] == ("tensorflow", "tensorflow-cpu")
    assert argv_of(plan, "remove")[0] == ("uv" if installer == "uv" else "env/bin/python")


def test_a_build_that_the_installer_takes_for_the_right_one_goes_first() -> None:
    assert (
        argv_of(plan_of(into(facts_of("torch-cpu-beside-gpu"), "torch==2.8.0")), "remove")[-1]
        == "torch"
    )


def test_a_name_that_others_require_stays() -> None:
    facts = facts_of(TENSORFLOW, Distribution("tensorflow", "2.15.1"), without=("tensorflow-cpu",))
    plan = plan_of(into(facts, "tensorflow==2.16.*"))
    assert plan.releases[0].distribution == "tensorflow"
    assert not [step for step in plan.steps if step.id == "remove"]
    # without its extra it brings no CUDA that must be found
    assert not plan.environments[0].library_folders


def release(framework: str, requirement: str, build: str = "gpu") -> PlannedRelease:
    name, _, version = requirement.partition("==")
    return PlannedRelease(framework, name.partition("[")[0], version, requirement, build)


def the_way(facts: Facts, planned: PlannedRelease) -> tuple[str, ...]:
    return conflicts(Context(facts, matrix(), Target("gpu")), planned)


def test_wheels_of_another_cuda_that_a_framework_left_behind_go() -> None:
    """Both lie in nvidia/cudnn/lib: removed last, either takes the other's files away."""
    left = Distribution("nvidia-cudnn-cu13", "9.20.0.48")
    facts = facts_of(TENSORFLOW, left, Distribution("nvidia-cuda-runtime-cu11", "11.8.89"))
    assert the_way(facts, release("tensorflow", "tensorflow[and-cuda]==2.20.0"))[-1:] == (
        "nvidia-cudnn-cu13",
    )
    both = facts_of(TENSORFLOW, left, Distribution("nvidia-cudnn-cu12", "9.3.0.75"))
    assert set(the_way(both, release("torch", "torch==2.8.0"))) == {
        "nvidia-cudnn-cu12",
        "nvidia-cudnn-cu13",
    }
    assert "nvidia-cudnn-cu13" in the_way(facts, release("torch", "torch==2.8.0+cu126"))
    assert "nvidia-cudnn-cu13" in the_way(facts, release("jax", "jax[cuda12]==0.10.0"))
    assert the_way(facts, release("torch", "torch==2.8.0", "cpu")) == ()


def test_a_plugin_of_another_jax_goes() -> None:
    facts = facts_of(TENSORFLOW, Distribution("jax-cuda13-plugin", "0.9.0"))
    assert the_way(facts, release("jax", "jax==0.10.0", "cpu")) == ("jax-cuda13-plugin",)
    assert the_way(facts, release("jax", "jax==0.9.0", "cpu")) == ()


def test_what_a_venv_borrows_is_not_its_to_remove() -> None:
    facts = facts_of(TENSORFLOW, Distribution("tensorflow", "2.14.0", scope="system"))
    venv = replace(facts, python=replace(facts.python, kind=Known("venv", SEEN)))
    assert "tensorflow" not in the_way(venv, release("tensorflow", "tensorflow-cpu==2.15.1", "cpu"))


def test_what_was_broken_before_is_not_held_against_a_step() -> None:
    broken = Distribution("mine", "1.0", requires=("requests<2", "nowhere", "six; extra == 'x'"))
    facts = facts_of(TORCH, broken, Distribution("requests", "2.32.0"))
    told = [(item.name, item.specifier) for item in broken_pins(Context(facts, matrix()))]
    assert told == [("requests", "<2"), ("nowhere", "")]
    (step,) = [item for item in plan_of(into(facts, "jax")).steps if item.id == "install"]
    assert verify(step) == ()


def test_that_something_is_gone_is_asked_of_the_environment(tmp_path: Path) -> None:
    plan = plan_of(into(facts_of("torch-cpu-beside-gpu"), "torch==2.8.0"))
    (step,) = [item for item in plan.steps if item.id == "remove"]
    for names, code in ((verify(step)[3:], 0), (("pip", "pytest"), 1)):
        asked = (
            sys.executable,
            "-I",
            *verify(step)[1:3],
            *(names if names[0] != "torch" else ("surely-not-here",)),
        )
        assert (
            subprocess.run(asked, check=False, timeout=30, capture_output=True).returncode == code
        )

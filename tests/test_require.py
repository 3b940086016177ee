"""`envcheck.require`: what a program asks before it works, and the recipes of its page."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import envcheck
from envcheck import api
from envcheck.model import PASSED, Snapshot
from tests.documented_outputs import FENCED, ROOT
from tests.hosts.test_hosts import snapshot_of

PAGE = ROOT / "docs/reference/require.md"
RECIPES = {
    block["title"]: block["body"]
    for block in FENCED.finditer(PAGE.read_text(encoding="utf-8"))
    if block["title"]
}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Snapshot]:
    """Let a recorded machine stand in for this one."""

    def stand_in(name: str) -> Snapshot:
        snapshot: Snapshot = snapshot_of(name)
        monkeypatch.setattr(api, "read_machine", lambda *_, **__: snapshot)
        return snapshot

    return stand_in


@pytest.fixture
def without_gpu(machine: Callable[[str], Snapshot]) -> None:
    machine("torch-cpu-beside-gpu")


def test_what_is_there_is_answered_as_a_report(machine: Callable[[str], Snapshot]) -> None:
    machine("torch-wheels-need-no-toolkit")
    result = envcheck.require(gpu=True)
    assert (result.ok, result.cause) == (True, None)
    result.raise_for_verdict()
    lines = repr(result).splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("<DoctorResult compatible: ")


def test_what_is_not_there_is_raised_with_cause_and_commands(without_gpu: None) -> None:
    with pytest.raises(envcheck.EnvironmentProblem) as caught:
        envcheck.require(gpu=True)
    problem = caught.value
    assert problem.cause is not None
    assert problem.cause.id == "framework-cpu-build"
    assert "is a CPU-only build" in str(problem)
    assert problem.commands == problem.result.commands != ()
    assert f"    $ {problem.commands[0]}" in str(problem).splitlines()


def test_a_release_that_is_not_there_is_installed_into_the_python_that_asks(
    machine: Callable[[str], Snapshot],
) -> None:
    machine("wsl-healthy")
    with pytest.raises(envcheck.EnvironmentProblem, match=r"requires onnxruntime-gpu>=1\.20") as it:
        envcheck.require(onnxruntime_gpu=">=1.20")
    assert it.value.cause is not None
    assert it.value.cause.id == "framework-missing"


@pytest.mark.parametrize(
    ("memory", "suffices"), [("16 GiB", True), ("23GiB", True), ("40 GB", False), (10**11, False)]
)
def test_memory_must_be_free_on_a_gpu(
    memory: str | int, suffices: bool, machine: Callable[[str], Snapshot]
) -> None:
    machine("wsl-healthy")
    if suffices:
        assert envcheck.require(memory=memory).ok
        return
    with pytest.raises(envcheck.EnvironmentProblem, match="of GPU memory are required; ") as it:
        envcheck.require(memory=memory)
    assert it.value.cause is not None
    assert it.value.cause.id == "gpu-memory-exhausted"


def test_what_the_program_has_imported_is_proven(
    machine: Callable[[str], Snapshot], monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = machine("torch-wheels-need-no-toolkit")
    (build,) = snapshot.facts.python.frameworks.value or ()
    monkeypatch.setitem(sys.modules, build.framework, ModuleType(build.framework))
    tests = envcheck.require().snapshot.facts.python.imports.value or ()
    assert [(item.module, item.outcome) for item in tests] == [(build.framework, PASSED)]


def test_no_program_is_started_and_no_framework_imported() -> None:
    code = """
import subprocess, sys
def refuse(*_, **__): raise AssertionError("a program was started")
subprocess.Popen.__init__ = refuse
import envcheck
try: envcheck.require()
except envcheck.EnvironmentProblem as problem: print(problem)
print({"torch", "tensorflow", "jax", "numpy"} & {*sys.modules})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("set()\n")


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"torch": "2.6"}, "give a specifier, such as '>=2.6'"),
        ({"memory": "lots"}, "give a size, such as '16 GiB'"),
        ({"torch": ">=x"}, "torch>=x"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(envcheck.UserError, match=sentence):
        envcheck.require(**asked)


def test_tab_completes_the_api_alone() -> None:
    assert dir(envcheck) == sorted([*envcheck.__all__, "__version__"])


def test_a_plan_of_nothing_is_one_sentence() -> None:
    with pytest.raises(envcheck.UserError, match="name what to plan"):
        envcheck.plan([])
    words = {"platform": "linux_x86_64", "python": "3.11", "driver": "550", "gpu": "L4"}
    plan = envcheck.plan(["jax"], **words)  # type: ignore[arg-type]
    assert plan.commands[1].endswith("-m pip install --only-binary=:all: 'jax[cuda12]==0.10.2'")


class StandIn:
    """Stands in for classes of Lightning, Transformers and Ray; the frameworks are not installed here."""

    def __init__(self, **given: Any) -> None:
        self.given = given


def run_recipe(name: str, monkeypatch: pytest.MonkeyPatch, **names: Any) -> dict[str, Any]:
    module = ModuleType(name)
    vars(module).update(names)
    monkeypatch.setitem(sys.modules, name, module)
    found: dict[str, Any] = {}
    exec(compile(RECIPES[name], name, "exec"), found)
    return found


def test_lightning_stops_in_setup(without_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    found = run_recipe("lightning", monkeypatch, Callback=StandIn, Trainer=StandIn)
    (callback,) = found["trainer"].given["callbacks"]
    with pytest.raises(envcheck.EnvironmentProblem):
        callback.setup(found["trainer"], None, "fit")


def test_the_trainer_stops_before_the_first_step(
    without_gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = run_recipe("transformers", monkeypatch, TrainerCallback=StandIn, Trainer=StandIn)
    (callback,) = found["trainer"].given["callbacks"]
    with pytest.raises(envcheck.EnvironmentProblem):
        callback.on_train_begin(None, None, None, model=None)


def test_each_worker_of_ray_asks(
    machine: Callable[[str], Snapshot], monkeypatch: pytest.MonkeyPatch
) -> None:
    def remote(**_: Any) -> Callable[[Callable[[], str]], Any]:
        return lambda work: SimpleNamespace(remote=work)

    machine("torch-wheels-need-no-toolkit")
    found = run_recipe("ray", monkeypatch, remote=remote, get=lambda result: result)
    assert found["result"] == "trained"
    machine("torch-cpu-beside-gpu")
    with pytest.raises(envcheck.EnvironmentProblem):
        run_recipe("ray", monkeypatch, remote=remote, get=lambda result: result)


@pytest.mark.needs("sh")
def test_a_slurm_job_ends_before_it_trains(tmp_path: Path) -> None:
    srun = tmp_path / "srun"  # a stand-in: it runs its command once, here
    srun.write_text('#!/bin/sh\n[ "$1" = --ntasks-per-node=1 ] && shift\nexec "$@"\n')
    srun.chmod(0o755)
    (tmp_path / "python").symlink_to(sys.executable)
    script = tmp_path / "job.sh"
    script.write_text(RECIPES["slurm"])
    (tmp_path / "train.py").write_text("print('trained')")
    hidden = {"PATH": f"{tmp_path}:/usr/bin:/bin", "PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run(
        ["sh", str(script)],
        env=hidden,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1  # nothing here has a GPU, nor a framework
    assert "EnvironmentProblem: " in done.stderr
    assert "trained" not in done.stdout


def test_a_healthcheck_fails_with_the_cause() -> None:
    words = json.loads(RECIPES["healthcheck"].partition("CMD ")[2])
    assert words[0] == "python"
    done = subprocess.run([sys.executable, *words[1:]], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "EnvironmentProblem: " in done.stderr


def test_pytest_skips_with_the_cause(tmp_path: Path) -> None:
    ast.parse(RECIPES["conftest"])
    (tmp_path / "conftest.py").write_text(RECIPES["conftest"])
    marked = "import pytest\n\n\n@pytest.mark.gpu\ndef test_gpu():\n    pass\n\n\ndef test_cpu():\n    pass\n"
    (tmp_path / "test_it.py").write_text(marked)
    words = [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", "--require-gpu"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 passed, 1 skipped" in done.stdout
    assert "this machine has no NVIDIA GPU" in done.stdout.replace("\n", " ")

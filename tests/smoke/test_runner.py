"""Every way a framework can end, through the real runner and a real process; the framework is a stand-in."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import envcheck
from envcheck.frameworks import identities
from envcheck.host.limits import Limits
from envcheck.host.system import has_avx
from envcheck.model import replace
from envcheck.smoke.devices import CPU_DEVICE, Device
from envcheck.smoke.runner import Task, default_limits, list_jobs, run_job, script_of
from envcheck.smoke.session import DRIVER, Job, Run, Subject
from tests.fakes.build import build_libraries
from tests.fakes.standin_env import make_standin_env
from tests.needs import find_python
from tests.smoke.standin import GPUS, ON_CPU, TORCH, UUIDS, on_gpus, run

CHILDREN = Path(envcheck.__file__).parent / "smoke" / "children"
pytestmark = pytest.mark.needs("linux")


def last(found: Run) -> tuple[str, str, str, str]:
    result = found.results[-1]
    return result.check, result.device, result.outcome, result.finding


def test_a_framework_that_works_passes() -> None:
    heard: list[str] = []
    (found,) = run(heard=heard)
    assert found.outcome == "passed"
    assert [(result.check, result.outcome) for result in found.results] == [
        ("import", "passed"),
        ("devices", "passed"),
        ("matmul", "passed"),
    ]
    assert found.results[-1].ran_on == "CPU:0"
    assert heard == [
        f"{found.job.title}: {step}" for step in ("import ", "devices ", "matmul CPU:0")
    ]
    assert found.peak_memory
    assert 0 < found.peak_memory < 1 << 30
    assert found.told
    assert found.told == {
        "name": "torch",
        "version": "0.0.1+standin",
        "seconds": found.told["seconds"],
        "cuda_build": True,
    }


@pytest.mark.parametrize(
    ("how", "outcome", "finding", "words"),
    [
        ("segfault", "crashed", "smoke-failed", "SIGSEGV"),
        ("illegal-instruction", "crashed", "cpu-missing-avx", "SIGILL"),
        ("abort", "crashed", "smoke-failed", "SIGABRT"),
        ("killed", "out-of-memory", "os-limit", "SIGKILL"),
        ("exit", "crashed", "smoke-failed", "exit status 7"),
        ("wrong", "failed", "smoke-failed", "gave [[23.0, 28.0]"),
        ("out-of-memory", "out-of-memory", "smoke-failed", "CUDA out of memory"),
        ("closed-descriptors", "crashed", "smoke-failed", "exit status 1"),
    ],
)
def test_a_framework_that_fails_is_told_by_its_kind(
    how: str, outcome: str, finding: str, words: str
) -> None:
    if has_avx() and finding == "cpu-missing-avx":
        finding = "smoke-failed"
    (found,) = run({"TORCH": how})
    assert last(found) == ("matmul", "CPU:0", outcome, finding)
    assert words in found.results[-1].message
    assert found.outcome == outcome


def test_the_last_words_of_a_crash_are_kept() -> None:
    (found,) = run({"TORCH": "segfault"})
    words = found.results[-1].error.splitlines()
    assert words[0] == "stand-in: about to die of segfault"
    assert [line.rpartition(" in ")[2] for line in words[1:]] == ["misbehave", "matmul", "product"]


def test_a_framework_that_hangs_is_ended_with_its_children() -> None:
    own = f"3663.{os.getpid()}"
    # enough to get there on a busy machine
    (found,) = run({"TORCH": "hang", "SLEEP": own}, seconds=5.0)
    assert last(found) == ("matmul", "CPU:0", "hung", "smoke-failed")
    said = found.results[-1].error.splitlines()
    # down to our own call
    assert [line.rpartition(" in ")[2] for line in said] == ["misbehave", "matmul", "product"]
    assert "torch/__init__.py" in said[0]
    assert re.search(r"it was in misbehave \(.*torch/__init__.py:\d+\)$", found.results[-1].message)
    listed = subprocess.run(
        ["ps", "-eo", "args"], capture_output=True, text=True, check=True
    ).stdout
    assert f"sleep {own}" not in listed


def test_a_framework_that_fills_the_memory_is_ended() -> None:
    (found,) = run({"TORCH": "memory"}, memory=300 << 20)
    assert last(found) == ("matmul", "CPU:0", "out-of-memory", "os-limit")
    assert found.peak_memory
    assert found.peak_memory > 300 << 20
    assert "300 MiB" in found.results[-1].message


@pytest.mark.parametrize("how", ["chatter", "noisy-descriptor"])
def test_noise_changes_nothing(how: str) -> None:
    (found,) = run({"TORCH": how})
    assert found.outcome == "passed"
    assert [result.check for result in found.results] == ["import", "devices", "matmul"]


def test_an_import_error_ends_the_run() -> None:
    (found,) = run({"TORCH": "import-error"})
    assert last(found) == ("import", "", "error", "smoke-failed")
    assert "libcudnn.so.9" in found.results[-1].error


def test_only_the_gpu_that_lies_fails() -> None:
    cpu, first, second, together = on_gpus(TORCH="wrong", TORCH_GPU=GPUS[1].uuid)
    assert [cpu.outcome, first.outcome, second.outcome, together.outcome] == [
        "passed",
        "passed",
        "failed",
        "failed",
    ]
    assert [(result.device, result.finding) for result in second.bad] == [
        ("GPU:0", "gpu-hardware-fault")
    ]
    assert [result.device for result in together.bad] == ["GPU:1"]


def test_the_other_gpus_are_tested_when_one_dies() -> None:
    cpu, first, second, together = on_gpus(TORCH="segfault", TORCH_GPU=GPUS[0].uuid)
    assert [cpu.outcome, first.outcome, second.outcome] == ["passed", "crashed", "passed"]
    assert together.outcome == "crashed"


def test_a_gpu_is_named_by_its_number_where_its_uuid_finds_none() -> None:
    numbered = tuple(replace(gpu, numbers=str(at)) for at, gpu in enumerate(GPUS))
    jobs = list_jobs((TORCH,), numbered, "quick", cpu=True)
    found = run({"TORCH": "no-uuids"}, jobs)
    assert [(item.outcome, item.job.device.visible) for item in found] == [
        ("passed", "-1"),
        ("passed", "0"),
        ("passed", "1"),
        ("passed", "0,1"),
    ]
    by_uuid = run({"TORCH": "cpu-build"}, jobs[1:2])
    assert [(item.outcome, item.job.device.visible) for item in by_uuid] == [("failed", UUIDS[0])]


def test_a_result_on_the_wrong_device_is_a_failure() -> None:
    _, first, second, _ = on_gpus(TORCH="misplaced", TORCH_GPU=GPUS[0].uuid)
    assert last(first) == ("matmul", "GPU:0", "failed", "device-placement")
    assert first.results[-1].ran_on == "CPU:0"
    assert "was asked to run on GPU:0 and ran on CPU:0" in first.results[-1].message
    assert second.outcome == "passed"


def test_a_gpu_out_of_memory_points_to_the_memory() -> None:
    _, first, _, _ = on_gpus(TORCH="out-of-memory", TORCH_GPU=GPUS[0].uuid)
    assert last(first) == ("matmul", "GPU:0", "out-of-memory", "gpu-memory-exhausted")


def test_a_cpu_build_is_named_where_a_gpu_is_tested() -> None:
    cpu, first, _, _ = on_gpus(TORCH="cpu-build")
    assert cpu.outcome == "passed"
    assert [(item.check, item.outcome, item.finding) for item in first.bad] == [
        ("devices", "failed", "framework-cpu-build")
    ]


def test_a_python_that_cannot_start_is_told() -> None:
    task = Task("/no/such/python", "quick", "/tmp", {}, Limits(5.0))
    found = run_job(task, Job(TORCH, CPU_DEVICE), lambda *_: None)
    assert (found.outcome, found.results[0].check) == ("error", "start")
    assert "/no/such/python could not be started" in found.results[0].message


@pytest.mark.parametrize(
    "name", [*(item.name for item in identities() if item.smoke.has_test), DRIVER]
)
def test_each_subject_has_a_script_for_each_level(name: str) -> None:
    for version in ("1.15", "2.15") if name == "tensorflow" else ("",):
        subject = Subject(name, version)
        script = CHILDREN / f"{script_of(subject)}.py"
        tree = ast.parse(script.read_text(encoding="utf-8"))
        defined = {
            node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))
        }
        imported = {
            item.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for item in node.names
        }
        assert defined >= ({"run", "full", "bench"} if name == DRIVER else {"Engine"})
        if subject.framework and subject.framework.smoke.takes_memory_at_start:
            assert "share" in defined | imported


@pytest.mark.needs("c-compiler")
def test_the_card_tells_its_clocks_through_the_driver(tmp_path: Path) -> None:
    code = "import sys; sys.path.append(sys.argv[1]); import smoke_card as card; print([card.memory(), card.attributes()])"

    def ask(libraries: Path) -> str:
        environment = {
            "LD_LIBRARY_PATH": str(libraries),
            "STANDIN_GPUS": "1",
            "STANDIN_CUDA": "12040",
        }
        argv = [sys.executable, "-I", "-c", code, str(CHILDREN)]
        return subprocess.run(
            argv, env=environment, capture_output=True, text=True, check=True
        ).stdout

    # The stand-in libcuda has an A100's clocks and, like a driver of old, no primary context to ask
    # for memory.
    told = ask(build_libraries())
    assert "None, {'clock_khz': 1410000, 'processors': 108," in told
    assert "'memory_clock_khz': 1215000, 'bus_bits': 5120" in told
    (tmp_path / "libcuda.so.1").write_text("no library", encoding="utf-8")
    assert ask(tmp_path) == "[None, {}]\n"


@pytest.mark.parametrize(
    ("device", "given", "platforms"),
    [
        (CPU_DEVICE, "cuda", "cpu"),
        (GPUS[0], "cuda", "cuda,cpu"),
        (GPUS[0], "cuda,cpu", "cuda,cpu"),
        (GPUS[0], "", ""),
    ],
)
def test_jax_always_has_the_cpu(device: Device, given: str, platforms: str) -> None:
    from envcheck.smoke.runner import _environment

    task = Task("python", "quick", "/tmp", {"JAX_PLATFORMS": given}, Limits(1.0))
    made = _environment(task, Job(Subject("jax"), device))
    assert made["JAX_PLATFORMS"] == platforms
    assert made["CUDA_VISIBLE_DEVICES"] == device.visible
    assert made["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


@pytest.mark.needs("python-3.6")
def test_the_harness_runs_on_python_3_6(tmp_path: Path) -> None:
    made = make_standin_env(tmp_path / "env", find_python("3.6"))
    task = Task(str(made), "quick", str(tmp_path), dict(os.environ), default_limits("quick"))
    found = run_job(task, ON_CPU[0], lambda *_: None)
    assert found.outcome == "passed", found.bad


def test_limits_leave_the_machine_some_memory() -> None:
    limits = default_limits("quick")
    assert limits.seconds == 180.0
    assert limits.memory
    assert limits.memory > 1 << 28
    assert default_limits("full", 7.0, 5).seconds == 7.0
    assert default_limits("full", 7.0, 5).memory == 5

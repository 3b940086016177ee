"""Real frameworks, where the tester names their environments, and TensorFlow with a stand-in GPU that can lie."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from envcheck.host.limits import Limits
from envcheck.smoke.devices import CPU_DEVICE
from envcheck.smoke.placements import EXECUTED, PLACER
from envcheck.smoke.runner import Task, list_jobs, run_job, run_jobs
from envcheck.smoke.session import Job, Run, Subject
from tests.fakes.tensorflow_env import make_tensorflow_env
from tests.needs import framework_python
from tests.patience import PATIENCE
from tests.smoke.children import CHILDREN
from tests.smoke.standin import GPUS

FRAMEWORKS = {
    "tf115": Subject("tensorflow", "1.15"),
    "tf210": Subject("tensorflow", "2.10"),
    "tf215": Subject("tensorflow", "2.15"),
    "tf221": Subject("tensorflow", "2.21"),
    "torch": Subject("torch", "2"),
    "jax": Subject("jax", "0"),
    "onnxruntime": Subject("onnxruntime", "1"),
}
# What the full level does on a machine without a GPU, where two CPU devices stand for two GPUs.
ON_TWO = {
    "towers on CPU:0 and CPU:1",
    "asynchronous towers on CPU:0 and CPU:1",
    "model split over CPU:0, CPU:1",
    "copy from CPU:0",
    "all-reduce over CPU:0, CPU:1",
    "gradients over CPU:0, CPU:1",
}
# PyTorch has one CPU, which stands for both; NCCL's place takes gloo.
ON_ONE_TWICE = {
    "towers on CPU:0 and CPU:0",
    "asynchronous towers on CPU:0 and CPU:0",
    "model split over CPU:0, CPU:0",
    "all-reduce over CPU:0, CPU:0",
    "gradients over CPU:0, CPU:0",
}
# ONNX Runtime has one CPU, too, and computes forwards only.
FORWARDS = {
    "towers on CPU:0 and CPU:0",
    "asynchronous towers on CPU:0 and CPU:0",
    "model split over CPU:0, CPU:0",
}


def task(
    python: str, folder: str, level: str = "quick", seconds: float = PATIENCE, **told: str
) -> Task:
    environment = {**os.environ, **{f"STANDIN_TF_{name}": value for name, value in told.items()}}
    return Task(python, level, folder, environment, Limits(seconds, 4 << 30))


def on_cpu(release: str, level: str) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        job = Job(FRAMEWORKS[release], CPU_DEVICE)
        return run_job(task(framework_python(release), folder, level), job, lambda *_: None)


@pytest.mark.parametrize(
    "release", [pytest.param(name, marks=pytest.mark.needs(name)) for name in FRAMEWORKS]
)
def test_a_real_framework_computes_on_the_cpu_and_says_where(release: str) -> None:
    found = on_cpu(release, "quick")
    assert found.outcome == "passed", found.bad
    assert ("matmul", "CPU:0") in [(item.check, item.ran_on) for item in found.results]
    if release.startswith("tf"):
        (placed,) = [
            item
            for item in found.results
            if (item.check, item.device) == ("matmul placement", "CPU:0")
        ]
        assert placed.outcome == "passed", "the placement log was not understood"
        wanted = {PLACER} if release == "tf115" else {PLACER, EXECUTED}
        assert wanted <= {item.by for item in found.placements if item.computes}


@pytest.mark.parametrize(
    "release", [pytest.param(name, marks=pytest.mark.needs(name)) for name in FRAMEWORKS]
)
def test_a_real_framework_passes_the_full_level(release: str) -> None:
    found = on_cpu(release, "full")
    assert found.outcome == "passed", found.bad
    done = {item.check for item in found.results if item.outcome == "passed"}
    assert {"matmul 2048 float32", "matmul 512 float16", "convolution", "jit"} <= done
    assert done >= {"torch": ON_ONE_TWICE, "onnxruntime": FORWARDS}.get(release, ON_TWO)


@pytest.fixture(scope="module")
def tensorflow() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        yield str(make_tensorflow_env(framework_python("tf215"), Path(folder) / "env"))


def on_standin(python: str, seconds: float = PATIENCE, gpus: int = 2, **told: str) -> list[Run]:
    with tempfile.TemporaryDirectory() as folder:
        jobs = list_jobs((FRAMEWORKS["tf215"],), GPUS[:gpus], "quick", cpu=False)
        return list(run_jobs(task(python, folder, seconds=seconds, **told), jobs, lambda *_: None))


@pytest.mark.needs("tf215", "c-compiler")
def test_a_stand_in_gpu_that_lies_is_the_only_one_to_fail(tensorflow: str) -> None:
    first, second, together = on_standin(tensorflow, WRONG="1")
    assert [first.outcome, second.outcome, together.outcome] == ["passed", "failed", "failed"]
    assert {
        item.device for item in first.placements if item.check == "matmul" and item.computes
    } == {"CPU:0", "GPU:0"}
    assert {(item.device, item.finding) for item in second.bad} == {("GPU:0", "gpu-hardware-fault")}
    assert {item.device for item in together.bad} == {"GPU:1"}
    assert "gave [[23.0, 29.0], [50.0, 65.0]]" in second.bad[0].message


@pytest.mark.needs("tf215", "c-compiler")
@pytest.mark.parametrize("how", ["FULL", "STUCK"])
def test_a_stand_in_gpu_that_hangs_tensorflow_is_caught_by_the_limit(
    tensorflow: str, how: str
) -> None:
    (found,) = on_standin(tensorflow, seconds=12.0, gpus=1, **{how: "0"})
    assert found.outcome == "hung"
    assert [(item.check, item.device) for item in found.bad] == [("matmul", "GPU:0")]
    assert "within 12 s" in found.bad[0].message


@pytest.mark.needs("jax")
def test_jax_adds_up_over_all_devices() -> None:
    code = f"""
import os, sys
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
sys.path.append({str(CHILDREN)!r})
import jax
import check_jax
engine = check_jax.Engine()
engine.load()
targets = ["CPU:0", "CPU:1"]
print(engine.reduce(targets)[0], engine.gradients([[0.5, 1.0, -0.25, 0.125]] * 16, targets))
"""
    argv = [framework_python("jax"), "-I", "-c", code]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    whole = "[22.0, 44.0, -11.0, 5.5]"
    assert said.strip() == f"[3.0, 3.0] ([{whole}, {whole}], {whole})"

"""`envcheck smoke --framework driver` on a stand-in GPU host: no NVIDIA software, no GPU, nothing installed."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from tests.fakes.gpu_host import run_on_gpu_host
from tests.fakes.machine import FakeGpu, GpuHost

pytestmark = pytest.mark.needs("stand-in-host")

HOST = GpuHost(
    gpus=(
        FakeGpu(name="Stand-in GPU 0"),
        FakeGpu(
            name="Stand-in GPU 1",
            pci="0000:0a:00.0",
            uuid="GPU-00000000-0000-0000-0000-000000000002",
        ),
    )
)


def smoke(*options: str, **told: str) -> tuple[int, Any]:
    argv = [
        sys.executable,
        "-m",
        "envcheck",
        "smoke",
        "--framework",
        "driver",
        "--format",
        "json",
        *options,
    ]
    done = run_on_gpu_host(HOST, argv, {f"STANDIN_{name}": value for name, value in told.items()})
    return done.returncode, json.loads(done.stdout)


def outcomes(report: Any) -> dict[str, str]:
    return {run["device"]["label"]: run["outcome"] for run in report["runs"]}


def test_every_gpu_multiplies_without_any_framework() -> None:
    code, report = smoke()
    assert (code, set(outcomes(report).values())) == (0, {"passed"})
    assert "Stand-in GPU 1" in json.dumps(report)  # the output says itself that no GPU computed


def test_a_gpu_that_lies_fails_and_the_other_passes() -> None:
    code, report = smoke(GPU1_WRONG="1")
    assert code == 4
    assert list(outcomes(report).values()) == ["passed", "failed", "failed"]
    assert "gpu-hardware-fault" in json.dumps(report)


def test_a_gpu_that_hangs_is_ended_and_the_other_tested() -> None:
    code, report = smoke("--timeout", "2", "--gpu", "0", "--gpu", "1", GPU0_LAUNCH_HANG="60")
    assert code == 4
    assert list(outcomes(report).values()) == ["hung", "passed", "hung"]

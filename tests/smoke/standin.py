"""Run smoke jobs of the stand-in PyTorch through the real runner, in a real environment made once."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from envcheck.host.limits import Limits
from envcheck.smoke.devices import CPU_DEVICE, GPU, Device
from envcheck.smoke.runner import OnStep, Task, list_jobs, run_jobs
from envcheck.smoke.session import Job, Run, Subject
from tests.fakes.standin_env import VERSION, make_standin_env
from tests.patience import PATIENCE

TORCH = Subject("torch", VERSION)
UUIDS = tuple(f"GPU-00000000-0000-0000-0000-00000000000{number}" for number in (1, 2))
GPUS = tuple(Device(GPU, f"GPU {at}", uuid, 1, "stand-in", uuid) for at, uuid in enumerate(UUIDS))
ON_CPU = (Job(TORCH, CPU_DEVICE),)


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="standin-torch-")  # goes with the test run


@functools.cache
def standin_python() -> str:
    """Return the Python of an environment with the stand-in PyTorch."""
    return str(make_standin_env(Path(_folder().name) / "env"))


def run(
    told: Mapping[str, str] | None = None,
    jobs: tuple[Job, ...] = ON_CPU,
    *,
    seconds: float = PATIENCE,
    memory: int = 1 << 30,
    heard: list[str] | None = None,
    begins: OnStep | None = None,
) -> list[Run]:
    """Run jobs with the stand-in told to misbehave; `heard` or `begins` gets the steps."""
    environment = {
        **os.environ,
        **{f"STANDIN_{name}": value for name, value in (told or {}).items()},
    }
    said = heard if heard is not None else []
    with tempfile.TemporaryDirectory() as folder:
        task = Task(standin_python(), "quick", folder, environment, Limits(seconds, memory))
        listen = begins or (
            lambda job, check, device: said.append(f"{job.title}: {check} {device}")
        )
        return list(run_jobs(task, jobs, listen))


def on_gpus(**told: str) -> list[Run]:
    """Run the CPU, both stand-in GPUs and both at once."""
    return run(told, list_jobs((TORCH,), GPUS, "quick", cpu=True))

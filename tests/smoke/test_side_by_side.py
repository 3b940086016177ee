"""Several processes at once, on a machine with many processors; the framework is a stand-in."""

from __future__ import annotations

import time

import pytest

from envcheck.host.limits import Limits
from envcheck.smoke import runner
from envcheck.smoke.runner import Task, list_jobs
from envcheck.smoke.session import Job, Run, Subject
from tests.smoke.standin import GPUS, TORCH, on_gpus

pytestmark = pytest.mark.needs("linux")


def test_on_many_processors_jobs_run_side_by_side_and_come_in_their_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 16)
    found = on_gpus(TORCH="wrong", TORCH_GPU=GPUS[1].uuid)
    assert [each.job.device.label for each in found] == ["CPU", "GPU 0", "GPU 1", "all 2 GPUs"]
    assert [each.outcome for each in found] == ["passed", "passed", "failed", "failed"]


def test_no_two_processes_share_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 32)
    busy: list[set[str]] = []
    together: list[int] = []

    def compute(task: Task, job: Job, heard: object) -> Run:
        mine = set(job.device.visible.split(",")) - {"-1"}
        assert not any(mine & others for others in busy), f"{job.title} meets another process"
        busy.append(mine)
        together.append(len(busy))
        time.sleep(0.02)
        busy.remove(mine)
        return Run(job, "passed", ())

    monkeypatch.setattr(runner, "run_job", compute)
    jobs = list_jobs((Subject("tensorflow", "2.15"), TORCH, Subject("jax")), GPUS, "full", cpu=True)
    task = Task("python", "full", "/tmp", {}, Limits(1.0))
    assert [run.job for run in runner.run_jobs(task, jobs, lambda *_: None)] == list(jobs)
    assert max(together) > 1

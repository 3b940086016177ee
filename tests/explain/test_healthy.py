"""No log of a program that works raises an alarm, with or without a GPU; --expect gpu still does."""

from __future__ import annotations

import pytest

from envcheck.model import COMPATIBLE, INCOMPATIBLE, NOTE
from envcheck.rules.context import Target
from tests.cases.judged import FOLDER, UNDETERMINED, judge_text


def read_logs() -> dict[str, str]:
    """Read healthy.txt: real output where the name says so, else written after what the programs print."""
    parts = (FOLDER / "healthy.txt").read_text(encoding="utf-8").split("##### ")[1:]
    return {name: log for name, _, log in (part.partition("\n") for part in parts)}


LOGS = read_logs()


def test_there_are_logs_of_many_kinds() -> None:
    assert len(LOGS) >= 90
    assert sum(name.startswith("real-") for name in LOGS) >= 15


@pytest.mark.parametrize("name", LOGS)
def test_no_healthy_log_raises_an_alarm(name: str) -> None:
    report = judge_text(LOGS[name]).report
    assert [(item.id, item.severity) for item in report.findings if item.severity != NOTE] == []
    assert report.verdict in (COMPATIBLE, UNDETERMINED)


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("torch-cpu-train", "framework-cpu-build"),
        ("ci-green-cpu", "framework-cpu-build"),
        ("tf24-linux-cpu", "driver-missing"),
        ("real-tf-2.20-cuda-on-cpu", "driver-missing"),
    ],
)
def test_a_gpu_that_was_expected_is_missed(name: str, cause: str) -> None:
    judged = judge_text(LOGS[name], target=Target("gpu"))
    assert judged.report.verdict == INCOMPATIBLE
    assert judged.primary == cause


CPU_START = LOGS["tf24-linux-cpu"]


@pytest.mark.parametrize(
    "more",
    [
        # a GPU is there
        "| NVIDIA-SMI 535.161.07    Driver Version: 535.161.07   CUDA Version: 12.2     |",
        ">>> tf.config.list_physical_devices('GPU')\n[]",  # somebody asks for it
        "AssertionError: Torch not compiled with CUDA enabled",  # a program needs it
    ],
)
def test_an_unused_gpu_counts_where_one_is_there_or_sought(more: str) -> None:
    assert judge_text(CPU_START).report.verdict == COMPATIBLE
    assert judge_text(CPU_START + more).report.verdict == INCOMPATIBLE


def test_with_the_cpu_expected_only_failures_count() -> None:
    start = "".join(CPU_START.splitlines(keepends=True)[:6])  # ends in the remarks
    assert judge_text(start).report.verdict == INCOMPATIBLE
    assert judge_text(start, target=Target("cpu")).report.verdict == COMPATIBLE
    failed = (
        start
        + "ImportError: libcublas.so.11: cannot open shared object file: No such file or directory"
    )
    assert judge_text(failed, target=Target("cpu")).report.verdict == INCOMPATIBLE


def test_the_label_of_a_cpu_build_never_hides_what_failed() -> None:
    log = "torch 2.2.2+cpu\nTraceback (most recent call last):\nModuleNotFoundError: No module named 'einops'\n"
    assert judge_text(log).primary == "dependency-conflict"

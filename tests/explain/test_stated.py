"""A remedy fits what the log states of driver, place and tool. Every log here is composed."""

from __future__ import annotations

import pytest

from envcheck.actions import action_line
from envcheck.model import COMPATIBLE, Finding
from tests.cases.judged import judge_text

NCCL = (
    "gpu01:77:77 [0] NCCL INFO cudaDriverVersion 12020\n"
    "NCCL version 2.27.3+cuda12.9\n"
    "gpu01:77:90 [0] NCCL INFO comm 0x5 rank 0 nranks 2 cudaDev 0 busId 1000 - Init COMPLETE\n"
)


def find_cause(log: str) -> Finding:
    """Return the finding that a log ends in."""
    return next(item for item in judge_text(log).report.findings if item.primary)


def list_lines(finding: Finding) -> str:
    """Return all that is typed for a finding."""
    ways = (finding.fix, *finding.fix.alternatives) if finding.fix else ()
    return "\n".join(action_line(action) for way in ways for action in way.actions)


@pytest.mark.parametrize(
    "log",
    [
        NCCL + "epoch 1: loss 2.0\n",
        # a build that the stated driver does not reach by the rules, and that runs all the same
        f"PyTorch 2.9.0+cu130\nDriver Version: 535.161.08\n{NCCL}epoch 1: loss 2.0\n",
        "node:1:1 [0] NCCL INFO cuMem export requires CUDA 12.4 or newer, driver supports 12.2\n",
    ],
    ids=["init", "forward-compatible", "sentence"],
)
def test_what_nccl_informs_of_is_no_cause(log: str) -> None:
    assert judge_text(log).report.verdict == COMPATIBLE


def test_a_run_that_fails_over_its_driver_is_still_told() -> None:
    failed = "The NVIDIA driver on your system is too old (found version 11040)."
    assert find_cause(f"{NCCL}RuntimeError: {failed}\n").id == "driver-too-old"


OLD = "CUDA error: CUDA driver version is insufficient for CUDA runtime version\n"


@pytest.mark.parametrize(
    ("more", "finding"),
    [
        ("", "driver-too-old"),
        ("bash: nvidia-smi: command not found\n", "driver-missing"),
        ("ls: cannot access '/dev/nvidia*': No such file or directory\n", "driver-missing"),
        ("WARNING: The NVIDIA Driver was not detected.\n", "driver-not-in-container"),
        ("root@3f2a1b9c4d5e:/app# nvidia-smi: command not found\n", "driver-not-in-container"),
        ("Driver Version: 470.57\nbash: nvidia-smi: command not found\n", "driver-too-old"),
    ],
)
def test_error_35_says_the_same_of_no_driver(more: str, finding: str) -> None:
    assert find_cause(more + OLD).id == finding


def test_a_build_of_its_own_is_said_to_lack_what_it_imports() -> None:
    finding = find_cause(
        "Collecting flash-attn\n  error: subprocess-exited-with-error\n"
        "  × Getting requirements to build wheel did not run successfully.\n"
        "      ModuleNotFoundError: No module named 'torch'\n"
    )
    assert finding.id == "build-isolation"
    assert finding.message == "torch is not installed in the isolated build environment."


def test_an_mps_daemon_is_restarted_by_its_own_user() -> None:
    finding = find_cause("RuntimeError: CUDA error: MPS client failed to connect to the MPS server\n")
    assert finding.fix is not None
    assert "of the user that runs the program" in finding.fix.summary
    assert list_lines(finding).startswith("ps -o user,pid,args -C nvidia-cuda-mps-control")

"""Packages without a framework, whose built files are on an index of their own, plan by their own names."""

from __future__ import annotations

from typing import Any

import pytest

from envcheck import api
from envcheck.cli.group import run

LINUX: Any = {"platform": "linux_x86_64", "python": "3.12", "glibc": "2.39", "gpu": "L4"}


@pytest.mark.parametrize(
    ("name", "driver", "requirement", "index"),
    [
        ("tensorrt", "580.95.05", "tensorrt-cu13==", "https://pypi.nvidia.com"),
        ("tensorrt==10.*", "550.54.14", "tensorrt-cu12==10.", "https://pypi.nvidia.com"),
        (
            "llama-cpp-python",
            "580.95.05",
            "llama-cpp-python==",
            "https://abetlen.github.io/llama-cpp-python/whl/cu132",
        ),
        (
            "llama-cpp-python",
            "535.104.05",
            "llama-cpp-python==",
            "https://abetlen.github.io/llama-cpp-python/whl/cu125",
        ),
    ],
)
def test_the_newest_file_whose_cuda_the_driver_runs(
    name: str, driver: str, requirement: str, index: str
) -> None:
    found = api.plan(name, driver=driver, **LINUX)
    (wanted,) = found.plan.environments[0].sets
    assert wanted.requirements[0].startswith(requirement)
    assert wanted.options == ("--extra-index-url", index)
    assert "It was not read" in found.plan.releases[0].doubts[0].message
    assert found.verdict == "undetermined", "for which GPUs it has code is not known"


@pytest.mark.parametrize(
    ("changed", "finding"),
    [
        ({"driver": "470.57.02", "python": "3.14"}, "python-unsupported"),
        ({"driver": "450.51.06"}, "driver-too-old"),
        ({"driver": "580.95.05", "glibc": "2.12"}, "glibc-too-old"),
        ({"platform": "macosx_arm64", "glibc": "", "gpu": ""}, "platform-no-gpu-wheel"),
        ({"gpu": "none"}, "gpu-absent"),
    ],
)
def test_what_keeps_it_from_a_machine_is_said(changed: dict[str, str], finding: str) -> None:
    name = "llama-cpp-python" if finding == "driver-too-old" else "tensorrt"
    found = api.plan(name, **{**LINUX, **changed})
    assert found.verdict == "incompatible"
    assert finding in {item.finding for item in found.plan.rejected}


def test_a_gpu_of_another_vendor_is_undetermined_and_its_builds_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = [
        "plan",
        "torch",
        "tensorflow",
        "--platform",
        "linux_x86_64",
        "--python",
        "3.12",
        "--gpu",
    ]
    assert run([*asked, "Radeon RX 7900 XTX"]) == 3
    out = capsys.readouterr().out
    assert "the GPU is AMD Radeon RX 7900 XTX" in out
    assert "PyTorch for ROCm is on https://download.pytorch.org/whl/" in out
    assert "TensorFlow for ROCm is on https://repo.radeon.com/rocm/manylinux" in out
    assert run([*asked, "Arc B580"]) == 3
    assert "PyTorch for XPU" in capsys.readouterr().out


def test_a_refusal_names_how_far_back_the_matrix_reads() -> None:
    refused = api.plan("ctranslate2", driver="470.57.02", **LINUX).plan
    assert (
        "None of the 14 releases of ctranslate2 known since 4.5.0 works here; older ones were not read."
        in refused.notes
    )
    pinned = api.plan("ctranslate2>=4.6", driver="470.57.02", **LINUX).plan
    assert not [note for note in pinned.notes if note.startswith("None of the")]


def test_a_release_older_than_the_matrix_is_undetermined() -> None:
    found = api.plan("vllm==0.5.0", driver="580.95.05", **LINUX)
    assert found.verdict == "undetermined"
    assert (
        "vllm 0.5.0 is not in the matrix, which begins at vllm 0.6.5"
        in found.plan.releases[0].doubts[0].message
    )

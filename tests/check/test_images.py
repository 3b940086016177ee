"""What a framework takes from its base image and from its index; every file is composed, no image is read."""

from __future__ import annotations

import pytest

from envcheck.check.config import Config
from tests.check.test_files import judged, told

GPU = Config(expect="gpu")
UBUNTU = "nvidia/cuda:12.3.2-{}ubuntu22.04"


@pytest.mark.parametrize(
    ("image", "release", "lacks"),
    [
        (UBUNTU.format("cudnn9-runtime-"), "tensorflow==2.17.0", "has no cuDNN 8."),
        (UBUNTU.format("runtime-"), "tensorflow==2.17.0", "has no cuDNN 8."),
        (UBUNTU.format("base-"), "tensorflow==2.17.0", "has no CUDA 12 and no cuDNN 8."),
        ("python:3.11-slim-bookworm", "tensorflow==2.17.0", "has no CUDA 12 and no cuDNN 8."),
        ("nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04", "tensorflow==2.15.1", "has no cuDNN 8."),
        (UBUNTU.format("cudnn9-runtime-"), "tensorflow[and-cuda]==2.17.0", ""),
        ("nvidia/cuda:12.2.2-cudnn8-runtime-ubuntu22.04", "tensorflow==2.15.1", ""),
        ("nvidia/cuda:12.6.3-cudnn-runtime-ubuntu22.04", "tensorflow==2.20.0", ""),
        ("team/base:gpu", "tensorflow==2.17.0", ""),
        (UBUNTU.format("runtime-"), "nvidia-cudnn-cu12==8.9.7.29 tensorflow==2.17.0", ""),
        (UBUNTU.format("runtime-"), "torch==2.4.0", ""),
    ],
)
def test_a_release_without_its_extra_takes_its_libraries_from_the_image(image: str, release: str, lacks: str) -> None:
    report = judged(f"FROM {image}\nRUN pip install '{release}'\n".replace("9 t", "9' 't"), config=GPU)
    found = [item for item in report.findings if item.id == "framework-cuda-extra-missing"]
    assert [item.message[-len(lacks) :] for item in found] == ([lacks] if lacks else [])
    assert (report.verdict == "incompatible") == bool(lacks), report.findings
    if lacks:
        assert image in found[0].message
        assert found[0].fix is not None
        assert "tensorflow[and-cuda]" in found[0].fix.summary


def test_an_image_is_mended_by_another_image() -> None:
    report = judged(f"FROM {UBUNTU.format('runtime-')}\nRUN pip install tensorflow-gpu==2.10\n")
    fixes = {item.fix for item in report.findings if item.id in {"toolkit-wrong-version", "cudnn-missing"}}
    (fix,) = fixes
    assert fix is not None
    assert fix.summary.startswith(
        "Use a base image with CUDA 11.2 and cuDNN 8, or a release of tensorflow that was built for CUDA 12.3."
    )
    assert fix.actions == ()


@pytest.mark.parametrize(
    ("index", "goal", "counted"),
    [
        ("https://download.pytorch.org/whl/cu124", "gpu", ["torch"]),
        ("https://download.pytorch.org/whl/cpu", "cpu", ["torch"]),
        ("https://download.pytorch.org/whl/rocm6.1", "cpu", []),
        ("https://pypi.example/simple", "cpu", ["torch"]),
    ],
)
def test_an_index_tells_what_its_wheels_are_for(index: str, goal: str, counted: list[str]) -> None:
    lines = (
        f"RUN pip install torch==2.4.0 --index-url {index}",
        f"ENV PIP_INDEX_URL={index}\nRUN pip install torch==2.4.0",
    )
    for line in lines:
        report = judged(f"FROM python:3.11-slim-bookworm\n{line}\n")
        assert report.goal == goal
        assert bool(report.checked) == bool(counted)
        strange = [item for item in report.findings if "other vendors' GPUs" in item.message]
        assert bool(strange) != bool(counted)


def test_a_step_that_installs_cuda_asks_for_a_gpu() -> None:
    report = judged("FROM ubuntu:22.04\nRUN apt-get install -y cuda-toolkit-12-4\nRUN pip install torch==2.4.0\n")
    assert (report.goal, report.verdict) == ("gpu", "compatible")


def test_a_build_for_the_cpu_beside_one_for_the_gpu_is_meant() -> None:
    text = "torch==2.3.1+cu118\ntensorflow-cpu==2.15.0\n"
    both = judged(text, "requirements.txt")
    assert (both.goal, both.verdict) == ("gpu", "compatible"), both.findings
    alone = judged(f"FROM {UBUNTU.format('runtime-')}\nRUN pip install tensorflow-cpu==2.15.0\n")
    assert ("framework-cpu-build", "Dockerfile:2") in told(alone)
    open_ends = [item.message for item in both.findings if item.id == "probe-failed"]
    assert len(open_ends) == len(set(open_ends)) == 1
    assert "snapshot" not in open_ends[0]


BIONIC = "FROM nvidia/cuda:10.1-cudnn7-runtime-ubuntu18.04\nRUN apt-get update && apt-get install -y python3-pip\n"


@pytest.mark.parametrize(
    ("before", "found"),
    [
        ("", ["pip-too-old"]),
        ("RUN pip3 install --upgrade pip\n", []),
        ("RUN python3 -m pip install 'pip>=20,<22'\n", []),
        ("RUN curl https://bootstrap.pypa.io/pip/3.6/get-pip.py | python3\n", []),
        ("RUN pip3 install pip-tools\n", ["pip-too-old"]),
    ],
    ids=["as it is", "renewed", "pinned", "another", "a namesake"],
)
def test_the_systems_pip_may_not_know_a_wheels_tag(before: str, found: list[str]) -> None:
    report = judged(f"{BIONIC}{before}RUN pip3 install tensorflow==2.3.0\n")
    assert [item.id for item in report.findings if item.severity == "error"] == found
    old = judged(f"{BIONIC}RUN uv pip install tensorflow==2.3.0\n")
    assert told(old) == []
    jammy = judged("FROM ubuntu:22.04\nRUN apt-get install -y python3-pip && pip install torch==2.4.0\n")
    assert "pip-too-old" in jammy.checked
    assert told(jammy) == []

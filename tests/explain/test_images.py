"""A container image tells what is in it where it was run or built from, and nothing where it is only spoken of."""

from __future__ import annotations

import pytest

from envcheck.matrix.images import parse_framework
from tests.cases.judged import judge_text

BANNER = "| NVIDIA-SMI 510.108.03   Driver Version: 510.108.03   CUDA Version: 11.6     |\n"
ASKED = 'root@1f0c44aa90be:/workspace# python -c "import torch; print(torch.cuda.is_available())"\nFalse\n'
IMAGE = "pytorch/pytorch:2.4.0-cuda12.4-cudnn9-runtime"


@pytest.mark.parametrize(
    "line",
    [
        f"guest@box:~$ docker run --gpus all -it --rm {IMAGE} bash",
        f"$ sudo docker run --gpus all --rm -v /data:/data docker.io/{IMAGE}",
        f"podman run --device nvidia.com/gpu=all {IMAGE} python train.py",
        f"Unable to find image '{IMAGE}' locally",
        f"Status: Downloaded newer image for {IMAGE}",
        f"Step 1/7 : FROM {IMAGE}",
        f"FROM --platform=linux/amd64 {IMAGE} AS base",
        f"    image: {IMAGE}",
        f'  - image: "{IMAGE}"',
        f"$ docker run --rm nvidia/cuda:11.6.2-base-ubuntu20.04 nvidia-smi\n$ docker run -it {IMAGE}",
    ],
)
def test_an_image_that_was_run_meets_the_driver(line: str) -> None:
    judged = judge_text(f"{BANNER}{line}\n{ASKED}")
    assert judged.primary == "driver-too-old"
    (finding,) = [item for item in judged.report.findings if item.primary]
    assert "torch 2.4.0 was built with CUDA 12.4" in finding.message


@pytest.mark.parametrize(
    "line",
    [
        f"I do not use {IMAGE}, only what the system has.",
        f"Would docker run with {IMAGE} help?",
        f"The same happened with the image: {IMAGE} last week",
        f"$ docker run --gpus all {IMAGE} nvidia-smi",
        f"$ docker run -it {IMAGE}\n$ docker run -it pytorch/pytorch:1.12.1-cuda11.3-cudnn8-runtime",
        "$ docker run -it pytorch/pytorch:latest",
        "$ docker run -it mirror.example/pytorch/pytorch-of-mine:2.4.0-cuda12.4-cudnn9-runtime",
        f"$ docker run -it {IMAGE}\nPyTorch version: 1.12.1+cu113",
    ],
)
def test_an_image_that_decides_nothing_blames_no_driver(line: str) -> None:
    assert judge_text(f"{BANNER}{line}\n{ASKED}").primary != "driver-too-old"


def test_a_driver_that_is_new_enough_is_not_blamed() -> None:
    text = BANNER.replace("510.108.03", "550.54.15").replace("11.6", "12.4")
    assert judge_text(f"{text}$ docker run -it {IMAGE}\n{ASKED}").primary != "driver-too-old"


def test_an_image_without_cuda_is_a_build_for_the_cpu() -> None:
    text = BANNER.replace("510.108.03", "550.54.15").replace("11.6", "12.4")
    text += "|   0  NVIDIA A10                     On  |   00000000:00:1E.0 Off |                    0 |\n"
    text += "$ docker run --gpus all -it tensorflow/tensorflow:2.15.0 bash\n"
    text += ">>> tf.config.list_physical_devices('GPU')\n[]\n"
    assert judge_text(text).primary == "framework-cpu-build"


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        (IMAGE, ("torch", "2.4.0", "12.4")),
        ("tensorflow/tensorflow:2.15.0-gpu", ("tensorflow", "2.15.0", "")),
        ("tensorflow/tensorflow:1.14.0-gpu-jupyter", ("tensorflow-gpu", "1.14.0", "")),
        ("tensorflow/tensorflow:2.15.0", ("tensorflow", "2.15.0", "cpu")),
        ("nvidia/cuda:12.4.1-cudnn-devel-ubuntu22.04", None),
        ("pytorch/pytorch", None),
    ],
)
def test_the_name_of_an_image_tells_its_framework(
    reference: str, told: tuple[str, str, str] | None
) -> None:
    assert parse_framework(reference) == told

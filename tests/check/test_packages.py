"""Packages on top of a framework in files to build: what must be said of each was written down before it was judged."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from envcheck import api
from envcheck.check.blueprint import FileError
from envcheck.check.build_files import read_blueprints
from envcheck.check.config import Config
from envcheck.check.judge import Gate
from envcheck.check.judge_file import UNSTATED, judge_text
from envcheck.model import SCHEMA_VERSION, Snapshot
from envcheck.render.report import describe_report
from envcheck.render.text import render_text
from envcheck.rules.described_machine import Description
from tests.check.test_files import CUDA_124, TODAY, judged, told
from tests.rules.factory_machine import matrix

RUNTIME = f"FROM {CUDA_124}\n"  # Python 3.10
TORCH_28 = "FROM pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime\n"
SLIM = "FROM python:3.12-slim-bookworm\nENV NVIDIA_VISIBLE_DEVICES=all\n"
PLAIN = Config()
OLD = Description(driver="570", gpus=("A100",))
BAD, GOOD, OPEN = "incompatible", "compatible", "undetermined"
FLOOR = r"needs driver >= 580\.65\.06"


def said(
    text: str,
    host: Description = UNSTATED,
    file: str = "Dockerfile",
    config: Config = PLAIN,
    beside: Mapping[str, str] = MappingProxyType({}),
    *,
    verbose: bool = False,
) -> tuple[str, str]:
    """Return the verdict on a file and the text of its report, on one line."""
    gate = Gate(config, matrix(), "pyproject.toml", TODAY)
    report, facts = judge_text(text, file, beside.get, gate, driver=host.driver, gpus=host.gpus)
    snapshot = Snapshot(SCHEMA_VERSION, "0", "not built yet", "", facts)
    document = describe_report(report, snapshot, verbose=verbose)
    return report.verdict, " ".join(render_text(document).split())


def tells(says: str, report: str) -> bool:
    """Return whether a report holds an id and the words after it; the cause stands in its first line."""
    finding, _, words = says.partition(" .*")
    return bool(re.search(finding, report) and re.search(words, report))


@pytest.mark.parametrize(
    ("text", "verdict", "says"),
    [
        (
            RUNTIME + "RUN pip install vllm\n",
            BAD,
            (r"vllm 0\.31\.0 brings torch 2\.13\.0", FLOOR, "torch==2.10.0 vllm=="),
        ),
        (
            TORCH_28 + "RUN pip install vllm\n",
            BAD,
            (FLOOR, r"replaces torch 2\.8\.0 by torch 2\.", "vllm==0.11.0"),
        ),
        (
            SLIM + "RUN uv pip install --system 'vllm==0.20.*'\n",
            BAD,
            (r"vllm 0\.20\.2", r"torch 2\.11\.0", FLOOR),
        ),
        (SLIM + "RUN uv add vllm==0.33.0\n", BAD, (r"vllm 0\.33\.0", FLOOR)),
        (
            "FROM vllm/vllm-openai:v0.11.0\nRUN pip install -U vllm\n",
            BAD,
            (r"replaces torch 2\.8\.0 by torch", FLOOR),
        ),
        (
            SLIM
            + "RUN pip install torch==2.8.0 --index-url https://download.pytorch.org/whl/cu126\nRUN pip install vllm\n",
            BAD,
            (r"replaces torch 2\.8\.0\+cu126", FLOOR),
        ),
        (
            SLIM + "RUN pip install 'onnxruntime-gpu[cuda,cudnn]'\n",
            BAD,
            (r"onnxruntime-gpu 1\.\d+", FLOOR),
        ),
        (TORCH_28 + "RUN pip install vllm==0.11.0\n", GOOD, ()),
        (
            SLIM
            + "RUN pip install torch torchvision --index-url https://download.pytorch.org/whl/cu126\n",
            GOOD,
            (),
        ),
        (
            SLIM + "RUN uv pip install --system --torch-backend cu126 torch xformers==0.0.35\n",
            GOOD,
            (),
        ),
        (SLIM + "RUN pip install vllm==0.99.0\n", OPEN, ("does not list vllm==0.99.0",)),
    ],
)
def test_what_wheels_need_of_the_stated_driver(
    text: str, verdict: str, says: tuple[str, ...]
) -> None:
    found, report = said(text, OLD)
    assert found == verdict, report
    assert [item for item in says if not re.search(item, report)] == [], report
    assert ("error:" in report) == (verdict == BAD)


def test_without_a_driver_what_the_wheels_need_is_a_warning_where_the_image_needs_less() -> None:
    verdict, report = said(RUNTIME + "RUN pip install vllm\n")
    assert verdict == GOOD
    assert re.search(
        r"warning: driver-too-old .* built for CUDA 13\.0, so it needs driver >= 580\.65\.06",
        report,
    )
    assert "vllm (not pinned: judged as vllm 0.31.0)" in report
    assert "vllm 0.31.0 brings torch 2.13.0" in said(RUNTIME + "RUN pip install vllm\n", OLD)[1]
    assert "note: driver-too-old" in said(SLIM + "RUN pip install vllm\n")[1], (
        "nothing else says which driver is there"
    )
    assert (
        "driver-too-old"
        not in said(RUNTIME + "RUN pip install vllm\n", Description(driver="580"))[1]
    )


@pytest.mark.parametrize(
    ("lines", "severity", "verdict"),
    [
        ("FROM python:3.11\nRUN pip install onnxruntime\n", "error", BAD),
        (
            "FROM nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04\nRUN pip install onnxruntime\n",
            "error",
            BAD,
        ),
        ("FROM python:3.11\nRUN pip install torch onnxruntime\n", "warning", GOOD),
        ("FROM tensorflow/tensorflow:2.15.0-gpu\nRUN pip install onnxruntime\n", "warning", GOOD),
        ("FROM nvcr.io/nvidia/nemo:24.05\nRUN pip install onnxruntime\n", "warning", GOOD),
        # Its name says that it is for a GPU, and not what is in it: nothing that was read uses one.
        ("FROM registry.example/base:gpu\nRUN pip install onnxruntime\n", "", OPEN),
    ],
)
def test_a_build_for_the_cpu_beside_a_framework_for_the_gpu_is_a_warning(
    lines: str, severity: str, verdict: str
) -> None:
    found, report = said(lines, config=Config(expect="gpu"))
    assert (found, f"{severity or 'error'}: framework-cpu-build" in report) == (
        verdict,
        bool(severity),
    ), report
    asked, report = said(lines, config=Config(expect="gpu", requires=("onnxruntime",)))
    assert (asked, "error: framework-cpu-build" in report) == (BAD, True), (
        "the project requires it for the GPU"
    )


def test_a_package_for_another_cuda_is_warned_of_as_on_a_machine() -> None:
    verdict, report = said("xformers\n", file="requirements.txt")
    assert verdict == GOOD
    assert re.search(
        r"xformers 0\.0\.35 was built for CUDA 12, and torch 2\.15\.0 for CUDA 13\S*: it does not",
        report,
    )


def test_the_minimum_of_the_project_stands_for_the_driver() -> None:
    text = RUNTIME + "RUN pip install vllm\n"
    assert re.search(FLOOR, said(text, config=Config(min_driver="535.54"))[1])
    assert said(text, config=Config(min_driver="580"))[0] == GOOD


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "torch==2.8.0\nxformers==0.0.35\n",
            (r"xformers 0\.0\.35 requires torch>=2\.10", r"xformers==0\.0\.32\.post2"),
        ),
        (
            "torch==2.8.0\ntorchvision==0.22.0\n",
            (r"torchvision 0\.22\.0 requires torch==2\.7\.0", "torchvision==0.23.0"),
        ),
        ("tensorflow==2.20.0\ntensorflow-text==2.18.1\n", (r"tensorflow-text==2\.20",)),
    ],
)
def test_requirements_that_do_not_go_together(text: str, says: tuple[str, ...]) -> None:
    verdict, report = said(text, file="requirements.txt")
    assert verdict == BAD, report
    assert [item for item in says if not re.search(item, report)] == [], report


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("FROM python:3.12-alpine\nRUN pip install vllm\n", "platform-no-gpu-wheel"),
        ("FROM python:3.9-slim-bookworm\nRUN pip install vllm==0.33.0\n", "python-unsupported"),
        (
            "FROM centos:7\nRUN yum install -y python3.11 && pip install vllm==0.33.0\n",
            "glibc-too-old",
        ),
        (SLIM + "RUN pip install cudf-cu12 cudf-cu13\n", "framework-duplicate-dists"),
        ("FROM vllm/vllm-openai:v0.11.0\nRUN pip install torch==2.9.0\n", "dependency-conflict"),
    ],
)
def test_what_keeps_a_package_from_the_image(text: str, finding: str) -> None:
    assert finding in [name for name, _ in told(judged(text))]


@pytest.mark.parametrize(
    ("package", "gpu", "says"),
    [
        ("vllm==0.20.2", "V100", r"V100 has .* 7\.0.* torch 2\.11\.0"),
        ("vllm==0.8.5", "RTX 5090", r"12\.0.* torch 2\.6\.0"),
    ],
)
def test_the_stated_gpu_is_judged_by_the_code_of_what_is_brought(
    package: str, gpu: str, says: str
) -> None:
    verdict, report = said(
        f"{SLIM}RUN pip install {package}\n", replace(OLD, driver="580", gpus=(gpu,))
    )
    assert verdict == BAD
    assert tells(says, report), report


def test_a_family_of_one_release_is_fine_in_every_kind_of_file() -> None:
    pins = "torch==2.8.0\ntorchvision==0.23.0\ntorchaudio==2.8.0\n"
    assert said(pins, replace(OLD, gpus=("L4",)), "requirements.txt")[0] == GOOD
    compose = "services:\n  llm:\n    build: .\n    gpus: all\n"
    verdict, report = said(
        compose, OLD, "compose.yml", beside={"Dockerfile": RUNTIME + "RUN pip install vllm\n"}
    )
    assert (verdict, bool(re.search(FLOOR, report))) == (BAD, True)
    conda = "dependencies:\n  - python=3.12\n  - pip\n  - pip:\n    - vllm==0.33.0\n"
    assert said(conda, OLD, "environment.yml")[0] == BAD


def test_the_file_that_a_project_built_is_named_where_the_image_has_no_compiler() -> None:
    text = (
        RUNTIME + "RUN pip install torch==2.8.0\nRUN pip install flash-attn --no-build-isolation\n"
    )
    _, report = said(text)
    assert re.search(
        r"the image has none.* Install the file that its project built.*torch2\.8cxx11abiTRUE-cp310-cp310-linux_x86_64",
        report,
    )


@pytest.mark.parametrize(
    ("image", "package", "says"),
    [
        ("nvidia/cuda:12.6.3-runtime-ubuntu22.04", "cupy-cuda12x", "COMPATIBLE"),
        (
            "nvidia/cuda:12.6.3-runtime-ubuntu22.04",
            "cupy-cuda13x",
            r"has no CUDA 13.*write `cupy-cuda13x\[ctk\]==",
        ),
        ("python:3.12-slim-bookworm", "cupy-cuda12x", r"has no CUDA 12.*cupy-cuda12x\[ctk\]=="),
    ],
)
def test_what_takes_cuda_from_the_image_needs_that_major(
    image: str, package: str, says: str
) -> None:
    _, report = said(f"FROM {image}\nENV NVIDIA_VISIBLE_DEVICES=all\nRUN pip install {package}\n")
    assert tells(says, report), report


@pytest.mark.parametrize(
    ("steps", "finding", "says"),
    [
        ("RUN pip install torch==2.8.0\nRUN pip install flash-attn --no-build-isolation\n", "", ""),
        (
            "RUN pip install torch==2.8.0\nRUN pip install flash-attn\n",
            "extension-build-mismatch",
            "--no-build-isolation",
        ),
        (
            "RUN pip install flash-attn --no-build-isolation\n",
            "dependency-conflict",
            "no step before this one installs",
        ),
        (
            "RUN pip install torch==2.13.0\nRUN pip install flash-attn --no-build-isolation\n",
            "toolkit-wrong-version",
            r"torch 2\.13\.0 is built for CUDA 13\.0 and refuses .*install `torch==2\.1\S+cu126 --index-url \S+/cu126`",
        ),
        (
            "RUN pip install torch==2.9.1\nRUN pip install torch-scatter -f https://data.pyg.org/whl/torch-2.8.0+cu128.html\n",
            "extension-build-mismatch",
            r"wheels for torch 2\.8, but torch 2\.9\.1",
        ),
    ],
)
def test_what_is_compiled_needs_the_framework_and_its_compiler(
    steps: str, finding: str, says: str
) -> None:
    text = RUNTIME.replace("runtime", "devel") + steps
    # which is a warning
    counted = [name for name, _ in told(judged(text)) if name != "driver-too-old"]
    assert counted == ([finding] if finding else [])
    assert re.search(says, said(text)[1])


UV_LOCK = """version = 1
requires-python = ">=3.12"

[[package]]
name = "torch"
version = "2.14.0"
source = { registry = "https://download.pytorch.org/whl/cpu" }
resolution-markers = ["sys_platform == 'darwin'"]

[[package]]
name = "torch"
version = "2.14.0+cu130"
source = { registry = "https://download.pytorch.org/whl/cu130" }
resolution-markers = ["platform_machine == 'x86_64' and sys_platform == 'linux'", "sys_platform == 'win32'"]

[[package]]
name = "vllm"
version = "0.33.0"
source = { registry = "https://index.example/simple" }
"""
PROJECT = """[project]
name = "a"
requires-python = ">=3.12"
dependencies = [
    "vllm==0.33.0",
]
"""


@pytest.mark.parametrize(
    ("step", "beside", "line"),
    [
        ("uv sync", {"pyproject.toml": PROJECT}, "pyproject.toml:5"),
        ("uv sync --frozen", {"uv.lock": UV_LOCK, "pyproject.toml": PROJECT}, "uv.lock:11"),
        ("poetry install", {"poetry.lock": UV_LOCK}, "poetry.lock:11"),
    ],
)
def test_a_project_is_installed_from_its_lock_file_or_its_dependencies(
    step: str, beside: dict[str, str], line: str
) -> None:
    text = f"{SLIM}COPY . /app\nWORKDIR /app\nRUN {step}\n"
    verdict, report = said(text, OLD, beside=beside)
    assert verdict == BAD
    assert line in report, report
    assert re.search(FLOOR, report)
    name, content = next(iter(beside.items()))
    assert said(content, OLD, name)[0] == BAD, "judged by itself"


def test_a_lock_file_of_two_megabytes_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels = "".join(
        f'\n[[package]]\nname = "p{number}"\nversion = "1.0"\n# {"x" * 900}\n'
        for number in range(2000)
    )
    (tmp_path / "uv.lock").write_text(UV_LOCK + wheels, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    report = api.check(file="uv.lock", driver="570").report
    assert report.verdict == BAD
    assert any("uv.lock:11" in str(item.evidence) for item in report.findings)
    with pytest.raises(FileError, match="locks more than 20000 packages"):
        read_blueprints("[[package]]\n" * 20_001, "uv.lock", dict[str, str]().get)


def test_a_label_names_the_build_of_a_package_beside_its_framework() -> None:
    pins = "torch=={}\ntorchvision==0.22.0+cu128\n"
    assert said(pins.format("2.7.0+cu128"), file="requirements.txt")[0] == GOOD
    _, report = said(pins.format("2.7.0+cu118"), file="requirements.txt")
    assert (
        "torchvision 0.22.0+cu128 was built for CUDA 12.8, but torch 2.7.0+cu118 is installed"
        in report
    )


def test_builds_that_an_extra_chooses_are_not_judged() -> None:
    markers = (
        f"resolution-markers = {text}" for text in re.findall(r"resolution-markers = (.*)", UV_LOCK)
    )
    conflicting = UV_LOCK.replace(
        "version = 1", "version = 1\nconflicts = [[{ package = 'a', extra = 'cpu' }]]", 1
    )
    for marker in markers:
        conflicting = conflicting.replace(marker, "")
    conflicting += """
[[package]]
name = "a"
source = { virtual = "." }
[package.optional-dependencies]
cpu = [{ name = "torch", version = "2.14.0" }]
gpu = [{ name = "torch", version = "2.14.0+cu130" }]
"""
    _, report = said(conflicting, OLD, "uv.lock")
    gap = "An extra or a group brings torch==2.14.0 or torch==2.14.0+cu130: name it with --extra"
    assert gap in report


@pytest.mark.parametrize(
    "steps",
    [
        "RUN conda install -y pytorch pytorch-cuda=12.4\nRUN pip install flash-attn --no-build-isolation\n",
        "RUN pip install 'torch @ https://h.example/t.whl'\nRUN pip install flash-attn --no-build-isolation\n",
        "COPY . /app\nRUN pip install -e /app\nRUN pip install flash-attn --no-build-isolation\n",
    ],
)
def test_a_framework_that_the_file_does_not_show_is_not_missed(steps: str) -> None:
    assert told(judged(RUNTIME.replace("runtime", "devel") + steps)) == []


def test_what_a_lock_file_names_is_not_compiled() -> None:
    lock = UV_LOCK + '\n[[package]]\nname = "flash-attn"\nversion = "2.8.3"\n'
    _, report = said(
        f"{SLIM}COPY . /app\nRUN uv sync\n", Description(driver="580"), beside={"uv.lock": lock}
    )
    assert "flash-attn" not in report


VISION = "RUN pip install --no-deps torchvision==0.16.0\n"
SLIM_311 = SLIM.replace("3.12", "3.11")
TORCH_21, TORCH_26 = (
    f"{SLIM_311}RUN pip install torch=={release}.0\n" for release in ("2.1", "2.6")
)
OWN_CUDNN = "RUN pip uninstall -y nvidia-cudnn-cu12"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            TORCH_26 + VISION,
            r"extension-build-mismatch .* requires torch==2\.1\.0, but torch 2\.6\.0 .* built for",
        ),
        (TORCH_21 + VISION, ""),  # made for each other
        (TORCH_26 + VISION + "RUN pip uninstall -y torchvision\n", ""),
        (
            TORCH_26 + f"{OWN_CUDNN}\n",
            r"framework-cuda-extra-missing .*Do not uninstall `nvidia-cudnn-cu12` \(.*:4",
        ),
        (TORCH_26 + f"{OWN_CUDNN} && pip install nvidia-cudnn-cu12==9.1.0.70\n", ""),
        (TORCH_26 + "RUN pip uninstall -y torch\nRUN pip install torch==2.7.1\n", ""),
        (
            SLIM + "RUN pip install torch==2.1.0\n",
            r"python-unsupported .*no wheel for Python 3\.12",
        ),
        (
            RUNTIME + "RUN pip install torch==2.10.0\nENV LD_LIBRARY_PATH=/usr/local/cuda/lib64\n",
            r"toolkit-path-conflict .*puts CUDA 12\.4 in /usr/local/cuda-12\.4 ahead.*Leave out `LD_LIBRARY_PATH",
        ),
        (
            TORCH_26 + "ENV CUDA_VISIBLE_DEVICES=-1\n",
            r"visible-devices-hidden .*'-1' hides every GPU.*:4",
        ),
        (TORCH_26 + "ENV CUDA_VISIBLE_DEVICES=0\n", ""),
    ],
)
def test_commands_and_variables_leave_the_machine_that_they_would_build(
    text: str, says: str
) -> None:
    found, report = said(text)
    assert found == (BAD if says else GOOD), report
    assert tells(says, report), report
    assert len(re.findall(r"(?<!\()error: ", report)) == bool(says), report


@pytest.mark.parametrize(
    ("host", "verdict", "says"),
    [
        (UNSTATED, GOOD, "The driver and the GPU are checked when it runs"),
        (Description(driver="570"), OPEN, "GPU deep learning. State the GPU, too."),
        (Description(gpus=("A100",)), OPEN, "GPU deep learning. State the driver, too."),
        (OLD, GOOD, "has no problem"),
    ],
)
def test_a_machine_that_is_described_by_half_decides_nothing(
    host: Description, verdict: str, says: str
) -> None:
    found, report = said(TORCH_26, host)
    assert found == verdict, report
    assert says in report


def test_a_service_without_a_framework_leaves_the_one_with_it_decided() -> None:
    smi = "services: {smi: {image: 'nvidia/cuda:12.4.1-base-ubuntu22.04', gpus: all}}\n"
    train = "{image: 'pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime', gpus: all}"
    assert said(smi, file="compose.yaml")[0] == OPEN
    assert said(smi.replace("smi:", f"train: {train}, smi:"), file="compose.yaml")[0] == GOOD


def test_what_is_open_until_it_runs_is_said_so_and_once() -> None:
    dockerfile = SLIM + "RUN pip install torch==2.1.0\n"
    _, report = said(dockerfile)
    assert "Driver decided when it runs" in report
    assert "GPU decided when it runs" in report
    assert "unknown" not in report
    assert report.count("In Dockerfile:1, write `python:3.11` in place of `python:3.12`.") == 1
    assert report.endswith("1 problem (1 note on what is not known: -v).")
    assert "Shows only when the environment runs: " in said(dockerfile, verbose=True)[1]
    assert "Not decided before" not in report


@pytest.mark.parametrize(
    ("image", "release", "verdict", "says"),
    [
        # loads what the image has
        ("12.1.1-cudnn8-devel-ubuntu22.04", "tensorflow[and-cuda]==2.16.1", GOOD, ""),
        (
            "12.1.1-cudnn8-base-ubuntu22.04",
            "tensorflow[and-cuda]==2.16.1",
            BAD,
            "cuda-wheel-not-found",
        ),
        ("11.8.0-cudnn8-devel-ubuntu22.04", "tensorflow==2.13.1", GOOD, ""),
        (
            "11.2.2-cudnn8-devel-ubuntu20.04",
            "tensorflow==2.13.1",
            OPEN,
            "only the major version of the cuDNN",
        ),
        (
            "12.4.1-cudnn-devel-ubuntu22.04",
            "tensorflow==2.20.0",
            BAD,
            "cudnn-too-old .*would load 9.1.0",
        ),
    ],
)
def test_what_finds_no_wheels_takes_the_cuda_and_cudnn_of_the_image(
    image: str, release: str, verdict: str, says: str
) -> None:
    found, report = said(f"FROM nvidia/cuda:{image}\nRUN pip install '{release}'\n")
    assert found == verdict, report
    assert tells(says, report), report


# CUDA 12.2; 470 is enough for GPUs of data centres alone
NGC = "FROM nvcr.io/nvidia/pytorch:23.10-py3\n"


@pytest.mark.parametrize(
    ("text", "host", "verdict", "says"),
    [
        (NGC, UNSTATED, GOOD, r"torch 2\.1\.0a0\+32f93b1 \(CUDA 12\.2\)"),
        (
            NGC,
            Description(driver="470.256.02", gpus=("RTX 3090",)),
            BAD,
            r"driver-too-old .*needs driver >= 525",
        ),
        # its notes name 470.57 among the drivers that its cuda-compat serves, and not 418.40
        (NGC, Description(driver="470.256.02", gpus=("T4",)), GOOD, r"torch 2\.1\.0a0"),
        (NGC, Description(driver="418.226.00", gpus=("T4",)), BAD, r"driver-too-old .*>= 525"),
        (
            "FROM nvcr.io/nvidia/pytorch:29.10-py3\n",
            UNSTATED,
            OPEN,
            "does not say what the image contains",
        ),
        (
            NGC.replace("pytorch:23.10-py3", "tensorflow:23.10-tf2-py3"),
            UNSTATED,
            GOOD,
            r"tensorflow 2\.13\.0",
        ),
        (
            'FROM ubuntu:20.04\nRUN PIP="python -m pip --no-cache-dir install" && \\\n  $PIP torch==2.6.0\n',
            UNSTATED,
            BAD,
            "torch==2.6.0 has no wheel for Python 3.8",
        ),
    ],
)
def test_monthly_images_and_commands_in_variables_are_read(
    text: str, host: Description, verdict: str, says: str
) -> None:
    found, report = said(text, host)
    assert found == verdict, report
    assert tells(says, report), report


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("torch==2.13.0 ; python_version >= '3.9'\n", BAD),  # as poetry export and uv write it
        ("torch==2.13.0 ; python_version < '3.6'\n", OPEN),
        ("torch==2.13.0 ; sys_platform == 'win32'\n", OPEN),
        ("torch==2.7.1+cu126\ntorch>=2.4\n", GOOD),  # one command: the pin speaks for both
        ("torch>=2.4\ntorch<2.8\n", GOOD),
    ],
)
def test_a_line_counts_where_one_python_takes_it_and_two_on_a_package_are_one(
    text: str, verdict: str
) -> None:
    assert (
        said(text, Description(driver="550.67", gpus=("A100",)), "requirements.txt")[0] == verdict
    )


@pytest.mark.parametrize(
    ("month", "steps", "expected", "constrained"),
    [
        ("24.05", "RUN pip install torch==2.3.0", "torch==2.3.0 replaces torch 2.4.0a0+", False),
        ("25.03", "RUN pip install torch==2.7.0", "torch==2.7.0 replaces torch 2.7.0a0+", True),
        ("25.03", "ENV PIP_CONSTRAINT=\nRUN pip install torch==2.7.0", "replaces torch", False),
        ("25.03", "RUN pip install vllm==0.9.1", "so installing it replaces torch 2.7.0a0+", True),
        ("25.03", "RUN pip install torch", "", False),
    ],
)
def test_what_replaces_the_build_of_nvidias_image_is_said_with_the_pins_that_pip_keeps_to(
    month: str, steps: str, expected: str, constrained: bool
) -> None:
    text = f"FROM nvcr.io/nvidia/pytorch:{month}-py3\n{steps}\n"
    verdict, report = said(text, Description(driver="570.86", gpus=("A100",)))
    assert verdict == GOOD
    assert expected in report
    assert ("NVIDIA's build" in report) == bool(expected)
    assert ("PIP_CONSTRAINT names /etc/pip/constraint.txt" in report) == constrained


@pytest.mark.parametrize(
    ("month", "steps", "replaced"),
    [
        ("24.05-tf2", "'tensorflow[and-cuda]==2.16.2'", "tensorflow 2.15.0, NVIDIA's build,"),
        ("25.02-tf2", "tensorflow==2.18.0", "tensorflow, NVIDIA's build,"),  # no document states it
        ("25.02-tf2", "'tensorflow>=2.15'", ""),  # it is there
        ("25.02-tf2", "keras", ""),  # what is wrong with some releases is not held against all
    ],
)
def test_what_replaces_nvidias_tensorflow_is_said(month: str, steps: str, replaced: str) -> None:
    text = f"FROM nvcr.io/nvidia/tensorflow:{month}-py3\nRUN pip install {steps}\n"
    verdict, report = said(text, Description(driver="570.86", gpus=("A100",)))
    assert verdict == GOOD
    assert f"replaces {replaced}" in report if replaced else "replaces" not in report


def test_nvidias_build_is_replaced_once() -> None:
    text = "FROM nvcr.io/nvidia/pytorch:24.05-py3\nRUN pip install torch==2.8.0\nRUN pip install torch==2.7.0\n"
    _, report = said(text, Description(driver="570.86", gpus=("A100",)))
    assert report.count("NVIDIA's build") == 1


@pytest.mark.parametrize(
    ("month", "gpu", "driver", "expected"),
    [
        # Its libcuda may serve: no document names drivers.
        ("25.10", "A100", "535.104.05", "undetermined"),
        ("25.10", "RTX 4090", "535.104.05", "incompatible"),  # it is for data-centre GPUs
        ("25.10", "A100", "580.65.06", "compatible"),
        # The notes name 470.57, 525.85, 535.86 and 545.23.
        ("24.05", "A100", "470.57.02", "compatible"),
        ("24.05", "A100", "470.42.01", "incompatible"),
        ("24.05", "A100", "515.65.01", "incompatible"),
        ("24.05", "RTX 3090", "470.57.02", "incompatible"),
    ],
)
def test_the_libcuda_of_nvidias_image_serves_data_centre_gpus_alone(
    month: str, gpu: str, driver: str, expected: str
) -> None:
    text = f"FROM nvcr.io/nvidia/pytorch:{month}-py3\n"
    verdict, report = said(text, Description(driver=driver, gpus=(gpu,)))
    assert verdict == expected
    assert ("brings a newer libcuda" in report) == (expected == "undetermined")


@pytest.mark.parametrize(
    ("text", "verdict", "says"),
    [
        ("tensorflow[and-cuda]==2.15.0\n", BAD, r"write `tensorflow\[and-cuda\]==2\.15\.1`"),
        (
            "tensorflow[and-cuda]==2.15.1\nkeras==3.0.0\n",
            BAD,
            r"fix: In \S+:2, write `keras==2\.15\.0` in place of `keras==3\.0\.0`\.",
        ),
        ("vllm==0.6.3\ntorch==2.5.1\n", OPEN, r"from before 0\.6\.5"),
        # its name states its CUDA; the release is older than most of the matrix
        ("cupy-cuda12x==12.0.0\nnumpy==1.26.4\n", OPEN, "which CUDA Toolkit and cuDNN the machine"),
        # what an extra brings is pinned, by the release that has it
        (
            "jax[cuda12]==0.4.30\njax-cuda12-plugin==0.4.23\n",
            BAD,
            r"write `jax-cuda12-plugin<=0\.4\.30,>=0\.4\.30`",
        ),
        ("jax[cuda12]==0.4.30\njax-cuda12-plugin==0.4.30\n", GOOD, ""),
        ("torch=2.4.0\n", OPEN, r"`torch=2\.4\.0` is no requirement: pip pins a release with `==`"),
        ("onnxruntime==1.17.3\nnumpy==2.1.0\n", BAD, r"write `numpy<2,>=1\.26\.0`"),
        ("onnxruntime==1.19.2\nnumpy==2.1.0\n", GOOD, ""),
    ],
)
def test_what_pip_would_do_with_the_lines_of_a_file(text: str, verdict: str, says: str) -> None:
    goal = "cpu" if text.startswith("onnx") else "gpu"
    found, report = said(text, file="requirements.txt", config=Config(expect=goal))
    assert found == verdict, report
    assert re.search(says, report), report


def test_a_setup_py_is_read_and_not_run() -> None:
    text = "from setuptools import setup\nsetup(install_requires=['torch==2.5.1'])\n"
    found, report = said(text, file="setup.py", config=Config(expect="gpu"))
    assert found == GOOD, report
    assert "torch 2.5.1 is built for CUDA 12.4" in report
    with pytest.raises(FileError, match=r"setup\.py states no list of requirements"):
        said("from setuptools import setup\nsetup()\n", file="setup.py")

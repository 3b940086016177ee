"""What a framework takes from its base image and from its index; every file is composed, no image is read."""

from __future__ import annotations

import pytest

from envcheck.check.blueprint import parse_image
from envcheck.check.config import Config
from tests.check.test_files import CUDA_124, facts_of_file, judged, told, undecided

GPU = Config(expect="gpu")
UBUNTU = "nvidia/cuda:12.3.2-{}ubuntu22.04"


@pytest.mark.parametrize(
    ("image", "release", "lacks"),
    [
        (UBUNTU.format("cudnn9-runtime-"), "tensorflow==2.17.0", "the image has no cuDNN 8, and"),
        (UBUNTU.format("runtime-"), "tensorflow==2.17.0", "the image has no cuDNN 8, and"),
        (
            UBUNTU.format("base-"),
            "tensorflow==2.17.0",
            "the image has no CUDA 12 and no cuDNN 8, and",
        ),
        (
            "python:3.11-slim-bookworm",
            "tensorflow==2.17.0",
            "the image has no CUDA 12 and no cuDNN 8, and",
        ),
        (
            "nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04",
            "tensorflow==2.15.1",
            "the image has no cuDNN 8, and",
        ),
        (UBUNTU.format("cudnn9-runtime-"), "tensorflow[and-cuda]==2.17.0", ""),
        ("nvidia/cuda:12.2.2-cudnn8-runtime-ubuntu22.04", "tensorflow==2.15.1", ""),
        ("nvidia/cuda:12.6.3-cudnn-runtime-ubuntu22.04", "tensorflow==2.20.0", ""),
        ("team/base:gpu", "tensorflow==2.17.0", ""),
        (UBUNTU.format("runtime-"), "nvidia-cudnn-cu12==8.9.7.29 tensorflow==2.17.0", ""),
        (UBUNTU.format("runtime-"), "torch==2.4.0", ""),
    ],
)
def test_a_release_without_its_extra_takes_its_libraries_from_the_image(
    image: str, release: str, lacks: str
) -> None:
    report = judged(
        f"FROM {image}\nRUN pip install '{release}'\n".replace("9 t", "9' 't"), config=GPU
    )
    found = [item for item in report.findings if item.id == "framework-cuda-extra-missing"]
    assert [lacks in item.message for item in found] == ([True] if lacks else [])
    assert (report.verdict == "incompatible") == bool(lacks), report.findings
    if lacks:
        assert found[0].fix is not None
        assert "tensorflow[and-cuda]" in found[0].fix.summary


def test_an_image_is_mended_by_another_image() -> None:
    report = judged(f"FROM {UBUNTU.format('runtime-')}\nRUN pip install tensorflow-gpu==2.10\n")
    fixes = {
        item.fix
        for item in report.findings
        if item.id in {"toolkit-wrong-version", "cudnn-missing"}
    }
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
        assert (report.verdict == "undetermined") != bool(counted)
        strange = [item for item in report.findings if "other vendors' GPUs" in item.message]
        assert bool(strange) != bool(counted)


def test_a_step_that_installs_cuda_asks_for_a_gpu() -> None:
    report = judged(
        "FROM ubuntu:22.04\nRUN apt-get install -y cuda-toolkit-12-4\nRUN pip install torch==2.4.0\n"
    )
    assert (report.goal, report.verdict) == ("gpu", "compatible")


def test_a_build_for_the_cpu_beside_one_for_the_gpu_is_meant() -> None:
    text = "torch==2.3.1+cu118\ntensorflow-cpu==2.15.0\n"
    both = judged(text, "requirements.txt")
    assert (both.goal, both.verdict) == ("gpu", "compatible"), both.findings
    alone = judged(f"FROM {UBUNTU.format('runtime-')}\nRUN pip install tensorflow-cpu==2.15.0\n")
    assert ("framework-cpu-build", "Dockerfile:2") in told(alone)
    assert ("framework-cpu-build", "requirements.txt:2") in told(both), (
        "the doctor warns of it, too"
    )
    (open_end,) = [item.message for item in both.findings if item.id == "probe-failed"]
    assert open_end.startswith("Shows only when the environment runs: ")
    assert "snapshot" not in open_end


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
    jammy = judged(
        "FROM ubuntu:22.04\nRUN apt-get install -y python3-pip && pip install torch==2.4.0\n"
    )
    assert "pip-too-old" in jammy.checked
    assert told(jammy) == []


TORCH = "pytorch/pytorch:2.4.0-cuda12.4-cudnn9-{}"
JUPYTER = "quay.io/jupyter/pytorch-notebook:{}"
RAPIDS = "rapidsai/base:24.10-cuda12.5-py3.11"


@pytest.mark.parametrize(
    ("image", "frameworks", "cuda", "python"),
    [
        (TORCH.format("runtime"), ("torch==2.4.0",), "12.4", ""),
        (JUPYTER.format("cuda12-python-3.11.9"), ("torch",), "", "3.11"),
        (JUPYTER.format("cuda12-pytorch-2.4.1"), ("torch==2.4.1",), "", ""),
        (JUPYTER.format("x86_64-python-3.12"), ("torch-cpu",), "", "3.12"),
        ("jupyter/tensorflow-notebook:tensorflow-2.14.0", ("tensorflow-cpu==2.14.0",), "", ""),
        ("quay.io/jupyter/tensorflow-notebook:cuda-latest", ("tensorflow",), "", ""),
        (RAPIDS, (), "12.5", "3.11"),
        ("nvcr.io/nvidia/rapidsai/notebooks:25.12-cuda13-py3.13", (), "13", "3.13"),
        ("rapidsai/rapidsai:22.12-cuda11.5-runtime-ubuntu20.04-py3.9", (), "11.5", "3.9"),
    ],
)
def test_tags_of_images_with_frameworks_are_read(
    image: str, frameworks: tuple[str, ...], cuda: str, python: str
) -> None:
    found = parse_image(image, "Dockerfile:1")
    assert (found.frameworks, found.cuda, found.python) == (frameworks, cuda, python)
    assert not found.refuses_pip


NGC, AZURE = "nvcr.io/nvidia/{}", "mcr.microsoft.com/{}"
GCP, AWS = (
    "gcr.io/deeplearning-platform-release/{}",
    "763104351884.dkr.ecr.us-east-1.amazonaws.com/{}",
)


@pytest.mark.parametrize(
    ("image", "frameworks", "cuda", "python"),
    [
        (NGC.format("pytorch:21.06-py3"), ("torch",), "11.3", "3.8"),
        (NGC.format("pytorch:19.05-py3"), ("torch",), "10.1", "3.6"),  # conda's, not Ubuntu's
        (NGC.format("pytorch:25.10-py3-igpu"), ("torch==2.9.0a0+145a3a7bda",), "13.0", "3.12"),
        (NGC.format("tensorflow:22.11-tf2-py3"), ("tensorflow",), "11.8", "3.8"),
        (NGC.format("tensorflow:19.05-py3"), ("tensorflow",), "10.1", "3.5"),
        (NGC.format("jax:24.04-maxtext-py3"), ("jax",), "12.4", "3.10"),
        (NGC.format("nemo:24.05.01"), ("torch",), "", ""),
        (NGC.format("physicsnemo/physicsnemo:25.06"), ("torch",), "", ""),
        (NGC.format("merlin/merlin-tensorflow-training:22.03"), ("tensorflow",), "", ""),
        (NGC.format("merlin/merlin-pytorch:23.06"), ("torch",), "", ""),
        (NGC.format("tritonserver:23.05-py3-sdk"), (), "12.1", ""),
        ("tensorflow/tensorflow:1.15.0-gpu-py3", ("tensorflow==1.15.0",), "", ""),
        ("tensorflow/tensorflow:latest-gpu-jupyter", ("tensorflow",), "", ""),
        ("tensorflow/tensorflow:nightly", ("tensorflow-cpu",), "", ""),
        ("pytorch/pytorch:latest", ("torch",), "", ""),
        ("pytorch/pytorch:1.0-cuda10.0-cudnn7-devel", ("torch==1.0",), "10.0", ""),
        ("pytorch/torchserve:latest-gpu", ("torch",), "", ""),
        ("pytorch/torchserve:0.9.0-cpu", ("torch-cpu",), "", ""),
        ("vllm/vllm-openai:latest", ("torch",), "", ""),
        ("lmsysorg/sglang:v0.5.2-cu129-b200", ("torch",), "12.9", ""),
        ("deepspeed/deepspeed:latest_torch111", ("torch",), "", ""),
        ("huggingface/transformers-pytorch-deepspeed-latest-gpu", ("torch",), "", ""),
        ("huggingface/transformers-tensorflow-cpu:4.9.1", ("tensorflow-cpu",), "", ""),
        (
            AZURE.format("aifx/acpt/stable-ubuntu2004-cu117-py38-torch1131:biweekly.202406.1"),
            ("torch==1.13.1",),
            "11.7",
            "3.8",
        ),
        (
            AZURE.format("azureml/curated/acpt-pytorch-1.11-py38-cuda11.3-gpu"),
            ("torch==1.11",),
            "11.3",
            "3.8",
        ),
        (AZURE.format("azureml/openmpi4.1.0-cuda11.1-cudnn8-ubuntu20.04"), (), "11.1", ""),
        (
            AWS.format("pytorch-training:2.6.0-gpu-py312-cu126-ubuntu22.04-sagemaker"),
            ("torch==2.6.0",),
            "12.6",
            "3.12",
        ),
        (AWS.format("tensorflow-inference:2.11.0-cpu"), ("tensorflow-cpu==2.11.0",), "", ""),
        (GCP.format("tf2-gpu.2-8"), ("tensorflow",), "", ""),
        (GCP.format("pytorch-cpu.1-13"), ("torch-cpu",), "", ""),
        ("team/train:torch2.1.0-cu121-py310-ubuntu22.04", ("torch==2.1.0",), "12.1", "3.10"),
        ("docker.m.daocloud.io/vllm/vllm-openai:latest", ("torch",), "", ""),
        ("team/pytorch-cuda:1.13.0-11.6.0", ("torch==1.13.0",), "", ""),
    ],
)
def test_each_family_of_images_states_what_it_holds(
    image: str, frameworks: tuple[str, ...], cuda: str, python: str
) -> None:
    found = parse_image(image, "Dockerfile:1")
    assert (found.frameworks, found.cuda, found.python) == (frameworks, cuda, python)
    assert found.source
    assert judged(f"FROM {image}\n").verdict == ("compatible" if frameworks else "undetermined")


@pytest.mark.parametrize(
    ("image", "holds"),
    [
        ("rocm/pytorch:latest", "builds for AMD GPUs"),
        ("tensorflow/serving:2.8.0-gpu", "a server in C++"),
        (NGC.format("mxnet:22.10-py3"), "a framework that envcheck does not judge"),
        ("team/x:maca.ai3-torch2.6-py310", "other vendors' GPUs"),
        ("rocm/pytorch:latest\nRUN pip install torch", "builds for AMD GPUs"),
    ],
)
def test_an_image_without_a_framework_to_judge_says_what_it_holds(image: str, holds: str) -> None:
    report = judged(f"FROM {image}\n")
    assert report.verdict == "undetermined"
    assert holds in undecided(report)[0]


def test_the_words_of_a_name_that_only_look_like_a_framework_state_none() -> None:
    for name in ("team/torchbearer:1", "team/pytorchvideo:2", "team/base:gpu", "team/py-tf:1"):
        assert not parse_image(name, "Dockerfile:1").frameworks, name


@pytest.mark.parametrize(
    ("text", "frameworks"),
    [
        (f"FROM {TORCH.format('runtime')}\n", [("torch", "2.4.0", "12.4", "9")]),
        ("FROM tensorflow/tensorflow:2.15.0\n", [("tensorflow", "2.15.0", None, None)]),
        (
            f"FROM {CUDA_124}\nRUN pip install torch==2.6.0 numpy==1\n",
            [("torch", "2.6.0", None, None)],
        ),
        # the newest
        (f"FROM {CUDA_124}\nRUN pip install torch\n", [("torch", "2.14.1", None, None)]),
        (f"FROM {JUPYTER.format('cuda12-latest')}\n", [("torch", "", None, None)]),
        (f"FROM {CUDA_124}\n", None),
    ],
)
def test_the_frameworks_that_a_file_states_are_shown(
    text: str, frameworks: list[tuple[str, ...]] | None
) -> None:
    found = facts_of_file(text).python.frameworks.value
    shown = found and [
        (item.distribution, item.version, item.cuda_version.value, item.cudnn_version.value)
        for item in found
    ]
    assert shown == frameworks


def test_the_framework_in_an_image_is_judged() -> None:
    report = judged(f"FROM {TORCH.format('runtime')}\nRUN pip install transformers\n")
    assert (report.verdict, report.goal, told(report)) == ("compatible", "gpu", [])
    assert {"framework-cpu-build", "release-unknown"} <= set(report.checked)
    assert (
        judged(f"FROM {TORCH.format('runtime').replace('2.4.0', '2.99.0')}\n").verdict
        == "undetermined"
    )


def test_the_devel_variant_of_an_image_has_the_toolkit() -> None:
    assert "12.4" in str(facts_of_file(f"FROM {TORCH.format('devel')}\n").toolkits.installs.value)
    assert (
        told(
            judged(
                f"FROM {TORCH.format('devel')}\nRUN pip install --no-build-isolation flash-attn\n"
            )
        )
        == []
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "FROM team/pytorch:nightly\nENV NVIDIA_VISIBLE_DEVICES=all\n",
            "does not say what its torch is built for",
        ),
        (f"FROM {RAPIDS}\nRUN pip install polars\n", "names no framework"),
        (
            f"FROM {CUDA_124}\nRUN conda install pytorch\n",
            "conda chooses the build of pytorch when it installs",
        ),
        (f"FROM {CUDA_124}\nRUN python setup.py build\n", "names no framework"),
    ],
)
def test_without_a_release_that_was_judged_nothing_is_called_compatible(
    text: str, why: str
) -> None:
    report = judged(text)
    assert report.verdict == "undetermined"
    assert why in undecided(report)[0]
    shown = (
        "names no framework that envcheck can judge."
        if why.startswith("names")
        else "does not show whether"
    )
    assert report.headline.startswith(f"Dockerfile {shown}")


def test_an_image_for_the_cpu_names_the_tags_for_a_gpu() -> None:
    (finding,) = [
        item
        for item in judged(f"FROM {JUPYTER.format('latest')}\n", config=GPU).findings
        if item.fix
    ]
    assert (finding.id, finding.fix and finding.fix.summary) == (
        "framework-cpu-build",
        "Use a tag that begins with cuda.",
    )


# -- pip that refuses (PEP 668) --

NOBLE = "nvidia/cuda:12.6.3-cudnn-runtime-ubuntu24.04"
APT = "RUN apt-get update && apt-get install -y python3-pip python3-venv\n"


@pytest.mark.parametrize(
    "image",
    [
        "debian:12",
        "debian:bookworm-slim",
        "debian:trixie",
        "ubuntu:24.04",
        "ubuntu:25.10",
        "ubuntu",
        "debian:latest",
        NOBLE,
    ],
)
@pytest.mark.parametrize(
    "command",
    [
        "pip3 install torch==2.6.0",
        "python3 -m pip install --user torch",
        "sudo pip install -r r.txt",
    ],
)
def test_the_pip_of_an_externally_managed_python_refuses(image: str, command: str) -> None:
    report = judged(f"FROM {image}\n{APT}RUN {command}\n")
    assert ("env-mixed", "Dockerfile:3") in told(report)
    assert report.verdict == "incompatible"


@pytest.mark.parametrize(
    "steps",
    [
        "RUN pip3 install --break-system-packages torch",
        "RUN python3 -m playwright install",
        "ENV PIP_BREAK_SYSTEM_PACKAGES=1\nRUN pip3 install torch",
        "ARG PIP_BREAK_SYSTEM_PACKAGES=1\nRUN pip3 install torch",
        "RUN PIP_BREAK_SYSTEM_PACKAGES=1 pip3 install torch",
        "RUN pip3 config set global.break-system-packages true\nRUN pip3 install torch",
        "RUN rm /usr/lib/python3.*/EXTERNALLY-MANAGED && pip3 install torch",
        "COPY pip.conf /etc/pip.conf\nRUN pip3 install torch",
        "RUN python3 -m venv /opt/venv && /opt/venv/bin/pip install torch",
        "RUN python3 -m venv /v && . /v/bin/activate && pip install torch",
        "RUN <<EOF\npython3 -m venv /v\nsource /v/bin/activate\npip install torch\nEOF",
        "RUN python3 -m venv /opt/venv\nENV PATH=/opt/venv/bin:$PATH\nRUN pip install torch",
        'ENV VIRTUAL_ENV=/opt/v\nENV PATH="$VIRTUAL_ENV/bin:$PATH"\nRUN pip install torch',
        "RUN pip3 install --target /packages torch",
        "RUN curl -LO https://x/Miniconda3.sh && sh Miniconda3.sh -b\nRUN pip install torch",
        "RUN pip3 download torch",
        "COPY --from=python:3.12 /usr/local /usr/local\nRUN pip install torch",
        'SHELL ["conda", "run", "-n", "x", "/bin/sh", "-c"]\nRUN pip install torch',
        "RUN uv pip install --system --break-system-packages torch",
    ],
)
def test_what_makes_pip_install_is_no_refusal(steps: str) -> None:
    assert "env-mixed" not in {name for name, _ in told(judged(f"FROM {NOBLE}\n{APT}{steps}\n"))}


@pytest.mark.parametrize(
    "image",
    ["ubuntu:22.04", "debian:11", "python:3.12-bookworm", "python:3.12", CUDA_124, "alpine:3.18"],
)
def test_a_python_that_is_not_externally_managed_installs(image: str) -> None:
    assert "env-mixed" not in {
        name for name, _ in told(judged(f"FROM {image}\nRUN pip3 install torch==2.6.0\n"))
    }


def test_a_stage_is_refused_as_the_image_is() -> None:
    build = f"FROM {NOBLE} AS build\nRUN pip3 wheel -w /w x && pip3 install torch\n"
    text = f"{build}FROM {CUDA_124}\nCOPY --from=build /w /w\n"
    assert ("env-mixed", "Dockerfile:2") in told(judged(text))


def test_a_toolkit_whose_release_nobody_states_is_not_missing() -> None:
    """NVIDIA's images hold nvcc; of 24.01 no document that was read names the release of CUDA."""
    line = "RUN pip install --no-build-isolation flash-attn==2.4.1\n"
    for image in (NGC.format("pytorch:24.01-py3"), "pytorch/pytorch:latest"):
        report = judged(f"FROM {image}\n{line}")
        assert "toolkit-missing" not in {name for name, _ in told(report)}, report


@pytest.mark.parametrize(
    ("image", "release", "expected"),
    [
        ("nvcr.io/nvidia/l4t-base:r35.3.1", "torch==2.1.0", "platform-no-gpu-wheel"),
        # its wheels for aarch64 are for servers
        ("nvcr.io/nvidia/l4t-jetpack:r36.3.0", "torch==2.9.0", "framework-cpu-build"),
    ],
)
def test_an_image_for_jetson_needs_nvidias_own_builds(
    image: str, release: str, expected: str
) -> None:
    report = judged(f"FROM {image}\nRUN pip install {release}\n")
    found = report.findings[0]
    assert (found.id, report.verdict) == (expected, "incompatible")
    assert found.fix is not None
    assert "the package index has no build for a Jetson" in found.fix.summary
    assert not found.fix.alternatives


def test_nvidias_images_of_a_framework_for_jetson_hold_it() -> None:
    text = "FROM nvcr.io/nvidia/l4t-pytorch:r35.2.1-pth2.0-py3\nRUN pip install transformers\n"
    report = judged(text)
    assert report.verdict == "compatible", report.findings
    facts = facts_of_file(text)
    assert facts.host.jetson_release.value == "R35.2.1"
    assert facts.host.architecture.value == "aarch64"

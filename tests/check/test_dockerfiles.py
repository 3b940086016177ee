"""Odd and hostile Dockerfiles; every one is composed."""

from __future__ import annotations

import pytest

from envcheck.check.build_files import read_blueprints
from envcheck.model import COMPATIBLE
from envcheck.plan.data import images_for
from envcheck.render.plan import render_dockerfile
from tests.check.test_files import (
    CUDA_112,
    CUDA_124,
    blueprints,
    facts_of_file,
    judged,
    told,
    undecided,
)
from tests.plan.machines import machine, planned
from tests.work import assert_linear

GONE = "tensorflow-gpu==2.12"  # a withdrawn release: it is told wherever it is read


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"FROM --platform=$BUILDPLATFORM {CUDA_124} AS x\nRUN pip install {GONE}\n", 2),
        (f"\ufeffFROM {CUDA_124}\nRUN pip install {GONE}\n", 2),
        (f"from {CUDA_124} as a\nrun pip install {GONE}\nfrom a\nrun true\n", 2),
        (f"FROM {CUDA_124}\r\nENV A=1\r\nRUN pip install \\\r\n  {GONE}\r\n", 3),
        (f"# escape=`\nFROM {CUDA_124}\nRUN pip install `\n  {GONE}\n", 3),
        (f"FROM {CUDA_124}\nRUN apt-get update && \\\n# why\n\n  pip install {GONE}\n", 2),
        (f"FROM {CUDA_124}\nRUN <<A && <<B\npip install torch==2.4.0\nA\npip install {GONE}\nB\n", 5),
        (f"FROM {CUDA_124}\nRUN <<-'EOF'\n\t# don't\n\tpip install {GONE}\n\tEOF\nRUN true\n", 4),
        (f"FROM {CUDA_124}\nRUN <<EOF\npip install {GONE}\n", 3),
        (f"FROM {CUDA_124}\nCOPY <<EOF /r.txt\nFROM alpine\n{GONE}\nEOF\nRUN pip install -r /r.txt\n", 4),
        (f"FROM {CUDA_124}\nARG TF=2.12\nENV X tensorflow-gpu\nRUN pip install $X==${{TF:-1}}\n", 4),
        (f"ARG TF=2.12\nFROM {CUDA_124}\nARG TF\nRUN pip install tensorflow-gpu==$TF\n", 4),
        (f"FROM {CUDA_124}\nRUN bash -euxc 'pip install {GONE}'\n", 2),
        (f'FROM {CUDA_124}\nRUN ["bash", "-c", "pip install {GONE}"]\n', 2),
        (f"FROM {CUDA_124}\nRUN if true; then pip install {GONE} > log 2>&1; fi\n", 2),
        (f"FROM {CUDA_124}\nRUN pip --no-cache-dir install git+https://x/y#egg=z {GONE}\n", 2),
        (f"FROM {CUDA_124}\nRUN uv venv /v && /v/bin/pip install {GONE}\nFROM x\nCOPY --from=0 /venv /venv\n", 2),
    ],
)  # fmt: skip
def test_an_installation_is_found_with_its_line(text: str, line: int) -> None:
    assert ("framework-package-removed", f"Dockerfile:{line}") in told(judged(text))


@pytest.mark.parametrize(
    "step",
    [
        f"ONBUILD RUN pip install {GONE}",
        f"RUN pip uninstall -y {GONE}",
        f'RUN echo "pip install {GONE}"',
        f"RUN true # pip install {GONE}",
        f"RUN python3 <<EOF\npip install {GONE}\nEOF",
        f"RUN <<EOF\n#!/usr/bin/env python3\npip install {GONE}\nEOF",
        "RUN pip install -r",
        "RUN nvcc --version",
        'RUN ["pip", ',
    ],
)
def test_what_installs_nothing_is_undetermined(step: str) -> None:
    report = judged(f"FROM {CUDA_124}\n{step}\n")
    assert (report.verdict, told(report)) == ("undetermined", [])
    assert "names no framework that envcheck can judge" in undecided(report)[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "FROM registry.example/base:gpu\n",
            "The name registry.example/base:gpu does not say",
        ),
        ("FROM nvidia/cuda:latest\n", "The name nvidia/cuda:latest does not say"),
        ("ARG V\nFROM nvidia/cuda:${V}-base\n", "The name nvidia/cuda:${V}-base does not say"),
        (
            f"FROM {CUDA_124}\nARG TF\nRUN pip install tensorflow==$TF\n",
            "tensorflow==$TF is unknown until",
        ),
        (
            f"FROM {CUDA_124}\nRUN CU=$(cat cu) && pip install torch --index-url https://x/whl/cu$CU\n",
            "The index https://x/whl/cu${OUTPUT_OF_COMMAND} is unknown until the build",
        ),
        (
            f"FROM {CUDA_124}\nRUN poetry install\n",
            "`poetry install` installs from the project's own files",
        ),
        (f"FROM {CUDA_124}\nRUN pip install -e .\n", ". is a separate project"),
        (f"FROM {CUDA_124}\nRUN pip install -r gone.txt\n", "gone.txt was not found"),
        (f"FROM {CUDA_124}\nRUN conda env create -f gone.yml\n", "gone.yml was not found"),
    ],
)
def test_what_the_file_leaves_open_is_said(text: str, said: str) -> None:
    report = judged(text)
    assert (report.verdict, report.goal) == ("undetermined", "gpu")
    assert any(said in item.message for item in report.findings if item.verdict == "undetermined")


@pytest.mark.parametrize(
    "text",
    [
        "FROM nvcr.io/nvidia/nemo:23.03\nRUN pip install tensorflow==2.10.1\n",
        "ARG V\nFROM nvidia/cuda:$V\nRUN pip install tensorflow==2.10.1\n",
        "FROM nvidia/cuda:11.2.2-base\nRUN apt install libcudnn8 cuda-libraries-11 && pip install tensorflow==2.8.0\n",
    ],
)
def test_no_cuda_is_missed_where_the_name_does_not_tell(text: str) -> None:
    report = judged(text)
    assert report.verdict == "undetermined"
    assert (
        report.headline == "Dockerfile does not show whether its build works for GPU deep learning."
    )
    assert told(report) == []
    assert all(
        "which CUDA Toolkit and cuDNN" in item or "is not read" in item
        for item in undecided(report)
    )
    assert undecided(report)


@pytest.mark.parametrize(
    "step",
    [
        "RUN pip install torch==2.4.0 --extra-index-url https://download.pytorch.org/whl/cpu",
        "RUN pip install torch==2.4.0+cpu -f https://download.pytorch.org/whl/torch_stable.html",
        "ENV PIP_INDEX_URL=https://download.pytorch.org/whl/cpu\nRUN pip install torch==2.4.0",
        "RUN PIP_INDEX_URL=https://download.pytorch.org/whl/cpu pip install torch==2.4.0",
        "RUN conda install -y pytorch cpuonly -c pytorch",
    ],
)
def test_wheels_for_the_cpu_are_told_however_they_are_asked_for(step: str) -> None:
    assert [name for name, _ in told(judged(f"FROM {CUDA_124}\n{step}\n"))] == [
        "framework-cpu-build"
    ]


def test_a_plain_jax_has_no_cuda() -> None:
    assert told(judged(f"FROM {CUDA_124}\nRUN pip install jax==0.4.30\n")) == [
        ("framework-cuda-extra-missing", "Dockerfile:2")
    ]
    assert told(judged(f"FROM {CUDA_124}\nRUN pip install 'jax[cuda12]==0.4.30'\n")) == []


def test_images_that_hold_a_framework() -> None:
    assert (
        judged("FROM tensorflow/tensorflow:2.15.0-gpu\nRUN pip install pandas\n").verdict
        == "compatible"
    )
    text = "FROM tensorflow/tensorflow:2.15.0\nENV NVIDIA_VISIBLE_DEVICES=all\n"
    report = judged(text)
    assert told(report) == [("framework-cpu-build", "Dockerfile:1")]
    assert (
        report.findings[0].message
        == "tensorflow 2.15.0 is a CPU-only build: it does not use a GPU."
    )
    assert report.findings[0].fix is not None
    assert report.findings[0].fix.summary == "Use the tag that ends in -gpu."


def test_what_may_be_cuda_code_is_a_warning() -> None:
    report = judged(f"FROM {CUDA_124}\nRUN python setup.py install\n")
    assert told(report) == [("toolkit-missing", "Dockerfile:2")]
    assert [item.severity for item in report.findings if item.id == "toolkit-missing"] == [
        "warning"
    ]
    assert report.verdict == "undetermined", "no framework is named"
    links = "-f https://data.pyg.org/whl/torch-2.4.0+cu124.html"
    assert (
        told(judged(f"FROM {CUDA_124}\nRUN pip install torch==2.4.0 torch-scatter {links}\n")) == []
    )


def test_each_stage_compiles_on_its_own_image() -> None:
    devel = CUDA_124.replace("runtime", "devel")
    wheel = "RUN pip install torch==2.8.0 && pip wheel --no-build-isolation -w /wheels flash-attn\n"
    text = f"FROM {{}} AS build\n{wheel}FROM {{}}\nCOPY --from=build /wheels /wheels\n"
    assert told(judged(text.format(devel, CUDA_124))) == []
    assert told(judged(text.format(CUDA_124, devel))) == [("toolkit-missing", "Dockerfile:2")]
    assert told(
        judged(
            "FROM python:3.11-slim-bookworm\nENV NVIDIA_VISIBLE_DEVICES=all\nRUN pip install flash-attn\n"
        )
    )


def test_what_fails_while_the_image_is_built_comes_first_and_follows_from_nothing_later() -> None:
    report = judged(
        f"FROM {CUDA_124}\nRUN pip install torch==2.3.0 flash-attn tensorflow==2.21.0\n"
    )
    first, second, *others = [item for item in report.findings if item.severity == "error"]
    assert (first.id, first.primary) == ("toolkit-missing", True)
    assert "which no step before this one installs" in second.message
    assert {first.caused_by, second.caused_by} == {None}
    assert "cuda-wheel-conflict" in {item.id for item in others}
    assert report.headline.startswith("Dockerfile: flash-attn is built here, which needs nvcc")


def test_a_release_that_the_matrix_does_not_list_is_said_once_for_all_stages() -> None:
    step = "RUN pip install onnxruntime-gpu==1.20.99\n"
    report = judged(
        f"FROM {CUDA_124} AS build\n{step}FROM {CUDA_124}\nCOPY --from=build /opt/venv /opt/venv\n"
    )
    assert [item.id for item in report.findings if item.severity == "error"] == ["release-unknown"]
    assert report.headline.startswith(
        "Dockerfile: The compatibility matrix does not list onnxruntime-gpu==1.20.99"
    )


def test_a_named_platform_is_the_one_judged() -> None:
    text = "FROM --platform=linux/{} ubuntu:22.04\nENV NVIDIA_VISIBLE_DEVICES=all\nRUN pip install tensorflow==2.10.1\n"
    machines = [judged(text.format(name)) for name in ("amd64", "arm64")]
    ids = [{name for name, _ in told(report)} for report in machines]
    assert ids[0] != ids[1], ids


@pytest.mark.parametrize(
    ("copy", "name", "kept"),
    [
        ("COPY requirements.txt /tmp/r.txt", "/tmp/r.txt", "requirements.txt"),
        (
            "COPY requirements/ /app/requirements/",
            "/app/requirements/gpu.txt",
            "requirements/gpu.txt",
        ),
        ("COPY . /app", "/app/deep/gpu.txt", "deep/gpu.txt"),
        ("WORKDIR /app\nCOPY a.txt b.txt ./", "b.txt", "b.txt"),
    ],
)
def test_a_copied_file_is_read_from_where_it_was_copied(copy: str, name: str, kept: str) -> None:
    read = {kept: f"# pins\n{GONE}\n"}
    from envcheck.check.build_files import read_blueprints

    found = read_blueprints(
        f"FROM {CUDA_124}\n{copy}\nRUN pip3 install -r {name}\n", "Dockerfile", read.get
    )
    assert [(line.text, line.location) for line in found[0].requirements] == [(GONE, f"{kept}:2")]


def test_a_mounted_file_is_read() -> None:
    mount = "--mount=type=bind,source=requirements.txt,target=/tmp/r.txt --mount=type=cache,target=/root/.cache"
    text = f"FROM {CUDA_112}\nRUN {mount} pip install -r /tmp/r.txt\n"
    found = blueprints(text, requirements__txt=GONE)
    assert [line.location for line in found[0].requirements] == ["requirements.txt:1"]


def of_many_lines(count: int) -> str:
    steps = "".join(
        f"RUN apt-get install -y lib{n} && \\\n    pip install 'p{n}>=1' \\\n    q{n}\n"
        for n in range(count)
    )
    return f"FROM {CUDA_124}\n{steps}RUN pip install {GONE}\n"


def test_ten_thousand_lines_are_read_and_a_line_costs_the_same_in_a_long_file() -> None:
    assert blueprints(of_many_lines(3400))[0].requirements[-1].location == "Dockerfile:10202"
    assert_linear(lambda count: blueprints(of_many_lines(count)), 100)


@pytest.mark.parametrize(
    ("step", "filling", "size"),
    [
        ("RUN ", "(", 50_000),
        ("RUN pip install ", "[", 50_000),
        ("RUN [", "[", 50_000),
        ("ENV A=", "$", 50_000),
        ("RUN pip install ", "${A", 2000),
        ("FROM ", "a/", 20_000),
        ("RUN bash -c '", "''", 5000),
        ("RUN pip install -r /", "a/", 2000),
    ],
)
def test_a_hostile_line_of_twice_the_length_is_twice_the_work(
    step: str, filling: str, size: int
) -> None:
    judged(f"FROM x\n{step}{filling * size}\n")
    assert_linear(lambda count: judged(f"FROM x\n{step}{filling * count}\n"), 500)


@pytest.mark.parametrize(
    ("hook", "missed"),
    [
        ("", True),
        ("ENV LD_LIBRARY_PATH=/venv/lib\n", False),
        ("RUN <<EOF\necho 'LD_LIBRARY_PATH=/venv/lib' >> /venv/bin/activate\nEOF\n", False),
    ],
)
def test_a_file_that_sets_the_loaders_path_may_lead_to_the_wheels(hook: str, missed: bool) -> None:
    text = f"FROM python:3.12-slim\n{hook}RUN pip install 'tensorflow[and-cuda]==2.21.0'\n"
    assert ("cuda-wheel-not-found" in {name for name, _ in told(judged(text))}) is missed


def test_a_planned_image_is_fit_for_what_it_is_planned_for() -> None:
    plan = planned("tensorflow==2.21.*", on=machine("3.12", "580.65.06", "8.0"))
    assert judged(render_dockerfile(plan, images_for(plan.environments[0]))).verdict == COMPATIBLE


@pytest.mark.parametrize(
    "text",
    [
        'ARG TAG="22.04"\nFROM ubuntu:${TAG}\nARG V=2.4.0 W=1\nRUN pip install torch==$V\n',
        "FROM ubuntu:${TAG:-22.04}\nARG V\nENV V=${V:-2.4.0}\nRUN pip install torch==$V\n",
        "ARG A=22\nARG B=$A.04\nFROM ubuntu:${B} AS a\nARG V=2.4.0\nFROM a\nRUN pip install torch==$V\n",
        "ARG V=1.0\nFROM ubuntu:22.04\nARG V=2.4.0\nRUN pip install torch==$V\n",
        "FROM ubuntu:22.04\nENV V=2.4.0\nARG V=2.6.0\nRUN pip install torch==$V\n",
        "FROM ubuntu:22.04\nARG V=v2.4.0-rc1\nRUN W=${V#v} && pip install torch==${W%-rc*}\n",
        "FROM ubuntu:22.04\nARG V=2_4_0\nRUN pip install torch==${V//_/.}\n",
        "FROM ubuntu:22.04\nRUN export V=2.4.0; pip install torch==${V}\n",
        "FROM ubuntu:22.04\nRUN <<EOF\nV=2.4.0\npip install torch==$V\nEOF\n",
        "FROM ubuntu:22.04\nARG EXTRA=\nRUN pip install torch$EXTRA==2.4.0\n",
        "FROM --platform=$TARGETPLATFORM ubuntu:22.04\nRUN pip install torch==2.4.0\n",
    ],
)
def test_defaults_of_arguments_and_variables_are_filled_in(text: str) -> None:
    (blueprint,) = blueprints(text)
    assert (blueprint.image.reference, [line.text for line in blueprint.requirements]) == (
        "ubuntu:22.04",
        ["torch==2.4.0"],
    )
    assert blueprint.platform in {"", "linux/amd64"}
    assert blueprint.gaps == ()


@pytest.mark.parametrize(
    "step",
    [
        "COPY --chown=<<EOF\nhello\nEOF",
        "COPY <<EOF\nhello\nEOF",
        "COPY",
        "ADD --from=x",
        "RUN <<EOF",
        "RUN <<",
        "ARG",
        "ENV =",
        "SHELL",
    ],
)
def test_a_malformed_instruction_is_no_error_of_ours(step: str) -> None:
    assert judged(f"FROM {CUDA_124}\n{step}\n").verdict == "undetermined"


SETUP = "#!/bin/bash\nset -e\nV=2.3.1\nbash /setup/more.sh\npip install torch==$V\n"


def test_scripts_of_the_build_context_are_read_and_the_others_are_listed() -> None:
    files = {"docker/setup.sh": SETUP, "docker/more.sh": "pip install torchvision==0.18.1\n"}
    text = (
        f"FROM {CUDA_124}\nCOPY docker/ /setup/\nRUN chmod +x /setup/setup.sh && /setup/setup.sh\n"
    )
    (found,) = read_blueprints(text, "Dockerfile", files.get)
    assert [(line.text, line.location) for line in found.requirements] == [
        ("torchvision==0.18.1", "docker/more.sh:1"),
        ("torch==2.3.1", "docker/setup.sh:5"),
    ]
    assert not found.gaps
    (unread,) = blueprints(
        f"FROM {CUDA_124}\nRUN git clone https://x/y && cd y && python tools/install.py\n"
    )
    assert [(line.text, line.location) for line in unread.gaps] == [
        ("`python tools/install.py` was not read: it may install packages.", "Dockerfile:2")
    ]


@pytest.mark.parametrize(
    "command",
    [
        "python3 -m uv pip install torch==2.3.1",
        "conda run -n train pip install torch==2.3.1",
        "conda run --no-capture-output -n train python -m pip install torch==2.3.1",
        "poetry run pip install torch==2.3.1",
    ],
)
def test_what_runs_pip_elsewhere_installs(command: str) -> None:
    (found,) = blueprints(f"FROM {CUDA_124}\nRUN {command}\n")
    assert [line.text for line in found.requirements] == ["torch==2.3.1"]


def test_packages_of_the_system_state_their_cuda() -> None:
    steps = "apt-get install -y cuda-toolkit-12-4 libcudnn9-cuda-12=9.1.0.70-1"
    facts = facts_of_file(f"FROM ubuntu:22.04\nRUN {steps}\n")
    assert [item.version.value for item in facts.toolkits.installs.value or ()] == ["12.4"]
    kept = f"FROM {CUDA_124}\nRUN ln -s /usr/local/cuda/lib64 /cuda && apt-key adv x/cuda/3bf.pub\n"
    assert "12.4" in str(facts_of_file(kept).toolkits.installs.value)


@pytest.mark.parametrize(
    ("lines", "python"),
    [
        ("ENV PATH=/opt/conda/bin:$PATH", None),
        ("RUN curl -O https://x/Miniconda3-py38_4.12.0-Linux-x86_64.sh", "3.8"),
        ("RUN conda create -y -n train python=3.9", "3.9"),
        ("RUN pyenv install 3.10.4", "3.10"),
        ("ENV UV_PYTHON=3.12", "3.12"),
        ("RUN python3 -m venv /v", "3.6"),
    ],
)
def test_another_python_goes_before_that_of_the_image(lines: str, python: str | None) -> None:
    assert facts_of_file(f"FROM ubuntu:18.04\n{lines}\n").python.version.value == python


def test_a_release_from_before_the_matrix_is_no_missing_wheel() -> None:
    """Pip takes onnxruntime 1.10.0 for Python 3.6: the matrix begins at 1.16.0."""
    alone = judged("FROM ubuntu:18.04\nRUN pip3 install onnxruntime\n")
    assert (alone.verdict, told(alone)) == ("undetermined", [("release-unknown", "Dockerfile:2")])
    beside = judged("FROM ubuntu:18.04\nRUN pip3 install torch==1.10.1 onnxruntime\n")
    assert beside.verdict == "compatible"
    (note,) = [item for item in beside.findings if item.id == "release-unknown"]
    assert note.severity == "note"
    assert "onnxruntime means a release for Python 3.6 from before 1.16.0" in note.message


def test_conda_removes_what_it_installed() -> None:
    (found,) = blueprints(
        f"FROM {CUDA_124}\nRUN conda install pytorch=2.1 && conda remove pytorch\n"
    )
    assert not found.conda


def test_the_channel_of_pytorch_gives_the_build_that_the_pinned_toolkit_asks_for() -> None:
    def build(channels: str) -> object:
        line = f"RUN conda install pytorch=1.12.1 cudatoolkit=11.3 {channels}"
        frameworks = facts_of_file(f"FROM continuumio/miniconda3\n{line}\n").python.frameworks
        return (frameworks.value or ())[0].cuda_build.value

    assert build("-c pytorch") is True
    assert build("-c conda-forge") is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "pyproject.toml",
            '[project]\ndependencies = ["torch==2.3.1"]\n[project.optional-dependencies]\ngpu = ["cupy-cuda12x"]\n',
        ),
        (
            "setup.cfg",
            "[options]\ninstall_requires =\n  torch==2.3.1\n[options.extras_require]\ngpu = cupy-cuda12x\n",
        ),
        (
            "setup.py",
            "R = ['torch==2.3.1']\nsetup(name='x', install_requires=R, extras_require={'gpu': ['cupy-cuda12x']})\n",
        ),
    ],
)
def test_a_project_of_the_build_context_is_read(name: str, text: str) -> None:
    (found,) = read_blueprints(
        f"FROM {CUDA_124}\nCOPY . /app\nWORKDIR /app\nRUN pip install -e .[gpu]\n",
        "Dockerfile",
        {name: text}.get,
    )
    assert [line.text for line in found.requirements][-2:] == ["torch==2.3.1", "cupy-cuda12x"]
    assert not found.gaps
    code = "setup(install_requires=open('r.txt').read().split())\n"
    (unread,) = read_blueprints(
        f"FROM {CUDA_124}\nRUN pip install .\n", "Dockerfile", {"setup.py": code}.get
    )
    assert [line.text for line in unread.gaps] == [
        ". is a separate project; its dependencies are not judged."
    ]

"""What a file will build, judged before it is built; every file here is composed."""

from __future__ import annotations

from datetime import date

import pytest
import yaml

from envcheck.check.blueprint import Blueprint, FileError, parse_image
from envcheck.check.build_files import read_blueprints
from envcheck.check.config import Config, Ignored
from envcheck.check.environment import Environment
from envcheck.check.judge import Gate
from envcheck.check.judge_file import UNSTATED, judge_blueprints
from envcheck.model import Facts, Report
from tests.rules.factory_machine import matrix

TODAY = date(2026, 11, 21)
CUDA_112 = "nvidia/cuda:11.2.2-cudnn8-runtime-ubuntu20.04"
CUDA_124 = "nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04"


def blueprints(text: str, name: str = "Dockerfile", **beside: str) -> tuple[Blueprint, ...]:
    return read_blueprints(
        text, name, {key.replace("__", "."): value for key, value in beside.items()}.get
    )


def judged(
    text: str, name: str = "Dockerfile", config: Config | None = None, **beside: str
) -> Report:
    gate = Gate(config or Config(), matrix(), "pyproject.toml", TODAY)
    return judge_blueprints(blueprints(text, name, **beside), gate)[0]


def told(report: Report) -> list[tuple[str, str]]:
    """List the ids of what is wrong, with where the first evidence was read."""
    counted = [
        item for item in report.findings if item.severity != "note" and item.id != "probe-failed"
    ]
    return [
        (item.id, item.evidence[0].source.where if item.evidence[0].source else "")
        for item in counted
    ]


def undecided(report: Report) -> list[str]:
    """List why the report is undetermined: its headline, where that says all."""
    reasons = (item for item in report.findings if item.id == "probe-failed")
    found = [item.message for item in reasons if item.severity == "error"]
    return found or [report.headline] * (report.verdict == "undetermined")


def facts_of_file(text: str) -> Facts:
    return Environment(blueprints(text)[0], matrix(), "gpu", UNSTATED).final_facts()


@pytest.mark.parametrize(
    ("reference", "parts"),
    [
        (CUDA_124, ("12.4.1", "9.1.0", "runtime", "2.35", "3.10")),
        (CUDA_112, ("11.2.2", "8", "runtime", "2.31", "3.8")),
        ("nvcr.io/nvidia/cuda:12.4.1-devel-rockylinux8", ("12.4.1", "", "devel", "2.28", "3.6")),
        ("nvidia/cuda:10.0-base-ubuntu18.04", ("10.0", "", "base", "2.27", "3.6")),
        ("pytorch/pytorch:2.4.0-cuda12.1-cudnn9-devel", ("12.1", "9", "devel", "", "")),
        ("python:3.9-slim-bookworm", ("", "", "", "2.36", "3.9")),
        ("docker.io/library/python:3.12.4", ("", "", "", "", "3.12")),
        ("ubuntu:22.04@sha256:0000", ("", "", "", "2.35", "3.10")),
        ("library/ubuntu:22.04", ("", "", "", "2.35", "3.10")),
        ("debian:bullseye-slim", ("", "", "", "2.31", "3.9")),
        ("registry.example:5000/team/base", ("", "", "", "", "")),
    ],
)
def test_an_image_is_known_by_its_name(reference: str, parts: tuple[str, ...]) -> None:
    image = parse_image(reference, "Dockerfile:1")
    assert (image.cuda, image.cudnn, image.flavor, image.glibc, image.python) == parts


def test_an_old_tensorflow_needs_the_cuda_of_its_build_in_the_image() -> None:
    wrong = judged(f"FROM {CUDA_124}\nRUN pip install tensorflow==2.10.1\n")
    assert wrong.verdict == "incompatible"
    assert ("toolkit-wrong-version", "Dockerfile:2") in told(wrong)
    right = judged(
        f"FROM {CUDA_112}\nRUN apt-get install -y python3.9 && pip install tensorflow==2.10.1\n"
    )
    assert (right.verdict, told(right)) == ("compatible", [])
    assert right.headline == (
        "Dockerfile has no problem for GPU deep learning. The driver and the GPU are checked when it runs."
    )


def test_a_framework_that_brings_cuda_does_not_care_for_the_images() -> None:
    report = judged(f"FROM {CUDA_112}\nRUN pip install 'torch==2.4.0'\n")
    assert report.verdict == "compatible", report.findings


def test_cpu_wheels_in_a_cuda_image() -> None:
    index = "--index-url https://download.pytorch.org/whl/cpu"
    report = judged(f"FROM {CUDA_124}\nRUN pip install torch==2.4.0 {index}\n")
    assert told(report) == [("framework-cpu-build", "Dockerfile:2")]
    assert told(judged(f"FROM {CUDA_124}\nRUN uv pip install tensorflow-cpu==2.15.0")) == [
        ("framework-cpu-build", "Dockerfile:2")
    ]
    on_cpu = judged(f"FROM python:3.11-slim-bookworm\nRUN pip install torch==2.4.0 {index}\n")
    assert (on_cpu.verdict, on_cpu.goal) == ("compatible", "cpu")


def test_an_option_of_pip_is_no_step_that_brings_cuda() -> None:
    step = "RUN pip install --global-option=--cuda_ext apex\nRUN pip install tensorflow==2.10.1\n"
    report = judged(f"FROM {CUDA_124}\n{step}")
    assert ("toolkit-wrong-version", "Dockerfile:3") in told(report)


def test_a_removed_package_is_named_with_its_line() -> None:
    report = judged(
        "FROM ubuntu:22.04\nENV A=1\nRUN python3 -m pip install \\\n   tensorflow-gpu==2.12\n"
    )
    assert told(report) == [("framework-package-removed", "Dockerfile:3")]


WHEELS = "https://download.pytorch.org/whl"


@pytest.mark.parametrize(
    ("before", "options", "is_found"),
    [
        ("FROM python:3.11-slim\n", "", False),
        ("FROM python:3.11-slim\n", f" --index-url {WHEELS}/cu118", False),
        ("FROM python:3.11-slim\n", f" --extra-index-url {WHEELS}/cu121", True),
        (
            "FROM python:3.11-slim\n",
            f" --index-url {WHEELS}/cu118 --extra-index-url {WHEELS}/cu121",
            True,
        ),
        ("FROM python:3.11-slim\n", f" -f {WHEELS}/torch_stable.html", True),
        (f"FROM python:3.11-slim\nENV PIP_EXTRA_INDEX_URL={WHEELS}/cu121\n", "", True),
        ("FROM python:3.11-slim\nRUN pip config set global.index-url https://a/b\n", "", True),
        ("FROM python:3.11-slim\nCOPY pip.conf /etc/pip.conf\n", "", True),
        ("FROM ghcr.io/company/base\n", "", True),  # which may name an index
    ],
)
def test_a_build_with_a_label_is_on_no_index_but_its_own(
    before: str, options: str, *, is_found: bool
) -> None:
    report = judged(f"{before}RUN pip install torch==2.5.1+cu121{options}\n")
    found = [item for item in report.findings if item.id == "python-unsupported"]
    assert [item.fix.summary for item in found if item.fix] == [
        f"Name their index: `--extra-index-url {WHEELS}/cu121`."
    ] * (not is_found)
    assert (report.verdict == "incompatible") != is_found


def test_a_requirements_file_may_leave_its_index_to_the_command() -> None:
    text = "torch==2.5.1+cu121\n"
    assert judged(text, "requirements.txt").verdict == "compatible"
    other = judged(f"--index-url {WHEELS}/cu118\n{text}", "requirements.txt")
    assert told(other) == [("python-unsupported", "requirements.txt:2")]


def test_a_python_without_wheels_and_an_old_libc() -> None:
    old = judged("FROM python:3.13-slim-bookworm\nRUN pip install tensorflow==2.10.1\n")
    assert ("python-unsupported", "Dockerfile:2") in told(old)
    system = judged("FROM centos:7\nRUN yum install -y python3 && pip3 install torch==2.1.0\n")
    assert ("python-unsupported", "Dockerfile:2") in told(system)
    libc = judged("FROM centos:7\nRUN yum install -y python3.11 && pip install torch==2.7.1\n")
    assert ("glibc-too-old", "Dockerfile:2") in told(libc)


@pytest.mark.parametrize(
    "step",
    [
        "RUN pip install flash-attn",
        "RUN cd ext && python setup.py install",
        "RUN nvcc -o a a.cu",
        "RUN <<EOF\nset -e\npip install causal-conv1d\nEOF",
        'RUN ["/usr/bin/pip", "install", "pycuda"]',
    ],
)
def test_what_compiles_needs_the_devel_image(step: str) -> None:
    assert told(judged(f"FROM {CUDA_124}\n{step}\n"))[0][0] == "toolkit-missing"
    on_devel = told(judged(f"FROM {CUDA_124.replace('runtime', 'devel')}\n{step}\n"))
    assert "toolkit-missing" not in [name for name, _ in on_devel]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("3.5;7.0;8.0", ["gpu-arch-too-old"]),
        ("7.0 8.0+PTX 12.0", ["gpu-arch-too-new"]),
        ("7.0 8.0 9.0+PTX", []),
        ("Ampere", []),
    ],
)
def test_the_toolkit_must_know_the_gpus_that_are_built_for(asked: str, found: list[str]) -> None:
    devel = CUDA_124.replace("runtime", "devel")
    report = judged(
        f'FROM {devel}\nENV TORCH_CUDA_ARCH_LIST="{asked}"\nRUN pip install torch==2.5.1\n'
    )
    warned = [item for item in report.findings if item.id.startswith("gpu-arch")]
    assert [(item.id, item.severity) for item in warned] == [(name, "warning") for name in found]
    if found:
        assert warned[0].fix is not None
        assert told(report) == [(found[0], "Dockerfile:2")]


def extension(*classes: str) -> str:
    calls = "".join(f"    {name}('a', ['a.cu']),\n" for name in classes)
    return f"from torch.utils.cpp_extension import *\nsetup(ext_modules=[\n{calls}])\n"


@pytest.mark.parametrize(
    ("setup", "severity"),
    [
        (extension("CUDAExtension"), "error"),
        # it may take the second where there is no CUDA
        (extension("CUDAExtension", "CppExtension"), "warning"),
        (extension("CppExtension"), ""),
        ("setup(name='a')\n", ""),
    ],
)
def test_the_setup_py_of_an_installed_folder_says_whether_cuda_code_is_built(
    setup: str, severity: str
) -> None:
    text = f"FROM {CUDA_124}\nENV TORCH_CUDA_ARCH_LIST=8.0\nRUN pip install ./ops\n"
    report = judge_blueprints(
        read_blueprints(text, "Dockerfile", {"ops/setup.py": setup}.get),
        Gate(Config(), matrix(), "pyproject.toml", TODAY),
    )[0]
    found = [item for item in report.findings if item.id == "toolkit-missing"]
    assert [item.severity for item in found] == [severity] * bool(severity)
    if severity:
        assert "CUDAExtension in ops/setup.py" in found[0].message
    if severity == "error":
        assert told(report)[0] == ("toolkit-missing", "ops/setup.py:3")


@pytest.mark.parametrize("project", ["[build-system]\n", "[project]\nname = 'a'\n"])
def test_a_setup_py_beside_a_pyproject_is_read_for_cuda_code(project: str) -> None:
    files = {"ops/setup.py": extension("CUDAExtension"), "ops/pyproject.toml": project}
    text = f"FROM {CUDA_124}\nRUN pip install ./ops\n"
    gate = Gate(Config(), matrix(), "pyproject.toml", TODAY)
    report = judge_blueprints(read_blueprints(text, "Dockerfile", files.get), gate)[0]
    assert told(report)[0] == ("toolkit-missing", "ops/setup.py:3")


def test_the_last_stage_counts_with_those_it_starts_from() -> None:
    text = f"""ARG TAG=12.4.1-devel-ubuntu22.04
FROM nvidia/cuda:$TAG AS build
RUN pip install torch==2.8.0 && pip install --no-build-isolation flash-attn
FROM {CUDA_124} AS base
RUN pip install tensorflow-gpu==2.12
FROM base
COPY --from=build /x /x
"""
    assert told(judged(text)) == [("framework-package-removed", "Dockerfile:5")]


def test_requirement_files_are_read_where_they_lie_beside() -> None:
    text = (
        f"FROM {CUDA_124}\nCOPY requirements.txt /app/\nRUN pip install -r /app/requirements.txt\n"
    )
    report = judged(
        text,
        requirements__txt="# pins\n-r more.txt\n",
        more__txt="tensorflow==2.10.1 \\\n  --hash=sha256:0\n",
    )
    assert ("toolkit-wrong-version", "more.txt:1") in told(report)
    absent = judged(text)
    assert absent.verdict == "undetermined"
    (reason,) = undecided(absent)
    assert "requirements.txt was not found" in reason
    assert "Not decided for that reason: framework-missing, framework-cpu-build" in reason


def test_a_requirements_file_that_includes_itself_ends() -> None:
    assert [
        line.text
        for line in blueprints("torch\n-r a.txt\n", "a.txt", a__txt="torch\n-r a.txt\n")[
            0
        ].requirements
    ] == ["torch"]


COMPOSE = """services:
  train:
    image: nvidia/cuda:12.4.1-runtime-ubuntu22.04
"""


@pytest.mark.parametrize(
    "request_line",
    [
        "    gpus: all",
        "    runtime: nvidia",
        "    deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 1, capabilities: [gpu]}]}}}",
        "    devices: ['nvidia.com/gpu=all']",
    ],
)
def test_a_compose_service_must_ask_for_gpus(request_line: str) -> None:
    assert told(judged(COMPOSE, "compose.yml")) == [("driver-not-in-container", "compose.yml:2")]
    assert told(judged(COMPOSE + request_line + "\n", "compose.yml")) == []


@pytest.mark.parametrize(
    ("image", "is_for_gpu"),
    [
        ("vllm/vllm-openai:v0.6.4", True),  # its name states no CUDA
        ("pytorch/pytorch:2.4.0-cuda12.4-cudnn9-runtime", True),
        ("tensorflow/tensorflow:2.15.0", False),
        ("nginx:1.27", False),
    ],
)
def test_an_image_for_gpus_needs_a_request_in_its_service(image: str, is_for_gpu: bool) -> None:
    text = f"services:\n  a:\n    image: {image}\n    command: [run]\n"
    found = [item.id for item in judged(text, "compose.yml").findings if item.severity == "error"]
    assert ("driver-not-in-container" in found) == is_for_gpu


def test_a_compose_service_is_judged_by_its_dockerfile() -> None:
    text = "services:\n  a:\n    build: {context: ., dockerfile: a.Dockerfile}\n    gpus: all\n"
    report = judged(
        text, "compose.yml", a__Dockerfile=f"FROM {CUDA_124}\nRUN pip install tensorflow==2.10.1\n"
    )
    assert ("toolkit-wrong-version", "a.Dockerfile:2") in told(report)


def test_conda_pins_are_what_the_wheels_find() -> None:
    text = "dependencies:\n  - python=3.9\n  - cudatoolkit={}\n  - cudnn=8.1\n  - pip:\n    - tensorflow==2.10.1\n"
    assert told(judged(text.format("11.2"), "environment.yml", Config(expect="gpu"))) == []
    wrong = judged(text.format("10.1"), "environment.yml", Config(expect="gpu"))
    assert ("toolkit-wrong-version", "environment.yml:6") in told(wrong)


def test_what_the_project_requires_is_judged_with_the_file() -> None:
    report = judged(f"FROM {CUDA_124}\n", config=Config(("tensorflow==2.10.1",)))
    assert ("toolkit-wrong-version", "pyproject.toml") in told(report)


def test_a_file_that_names_no_framework_is_undetermined() -> None:
    report = judged("requests\nnumpy<2\n", "requirements.txt")
    assert report.verdict == "undetermined"
    assert "names no framework" in undecided(report)[0]


LAUGHS = "a0: &a0 [x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)
MERGES = "services: {}\nm0: &m0 {k: 1}\n" + "".join(
    f"m{n}: &m{n}\n  <<: [{', '.join([f'*m{n - 1}'] * 9)}]\n" for n in range(1, 12)
)


@pytest.fixture(params=["CSafeLoader", "SafeLoader"])
def yaml_loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read YAML with libyaml, and without."""
    assert hasattr(yaml, "CSafeLoader")
    if request.param == "SafeLoader":
        monkeypatch.delattr(yaml, "CSafeLoader")


@pytest.mark.usefixtures("yaml_loader")
@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("hello\n", "Dockerfile", "no FROM instruction"),
        ("a: [1", "compose.yml", "is not YAML"),
        ("- 1\n", "environment.yml", "contains no mapping"),
        ("services: 3\n", "compose.yml", "has no services"),
        (LAUGHS, "environment.yml", "aliases"),
        (MERGES, "compose.yml", "aliases"),
        ("a: &a [*a]\n", "environment.yml", "aliases"),
        ("FROM\n", "Dockerfile", "FROM names no image"),
        ("a: !!bool x", "environment.yml", "is not YAML"),
        ("a: !!timestamp x", "environment.yml", "is not YAML"),
        ("a: !!int ''", "environment.yml", "is not YAML"),
        ("a: *b", "environment.yml", "is not YAML"),
    ],
)
def test_a_file_of_another_kind_is_told(text: str, name: str, said: str) -> None:
    with pytest.raises(FileError) as raised:
        blueprints(text, name)
    assert said in str(raised.value)


DEEP = 30_000  # levels: libyaml's composer recurses for each, until the stack ends


@pytest.mark.parametrize(
    ("spec", "python"),
    [
        ("python=3.10", "3.10"),
        ("python ==3.10.12", "3.10"),
        ("python=3.10.12=h955ad1f_0_cpython", "3.10"),
        ("python>=3.10", None),
        ("python-dateutil=2.9", None),
    ],
)
def test_conda_spec_states_the_python(spec: str, python: str | None) -> None:
    stated = blueprints(f'dependencies: ["{spec}"]\n', "environment.yml")[0].python
    assert (stated.text if stated else None) == python


@pytest.mark.usefixtures("yaml_loader")
@pytest.mark.parametrize("name", ["environment.yml", "compose.yaml"])
@pytest.mark.parametrize(
    "nested",
    [
        "[" * DEEP,
        "a: " + "[" * DEEP + "]" * DEEP,
        "{a: " * DEEP,
        "a:\n  " + "- " * DEEP,
        "? " * DEEP,
        "".join(f"{' ' * level}a:\n" for level in range(2000)),
    ],
    ids=["flow", "closed-flow", "flow-mapping", "sequences", "keys", "mappings"],
)
def test_yaml_that_nests_too_deeply_is_refused(nested: str, name: str) -> None:
    with pytest.raises(FileError) as raised:
        blueprints(nested + ("\nservices: {}" if name == "compose.yaml" else ""), name)
    assert str(raised.value) == f"{name} nests its YAML deeper than 100 levels"


@pytest.mark.usefixtures("yaml_loader")
def test_yaml_of_a_hundred_levels_is_read() -> None:
    text = "dependencies: [python=3.11]\na: " + "[" * 99 + "]" * 99
    assert blueprints(text, "environment.yml")[0].conda[0].text == "python=3.11"


@pytest.mark.parametrize(
    "word", ["'open", "a;b|c&&d", "$(rm -rf /)", "`x`", "\\", "[", '["a"', "pip install", "--x=y"]
)
def test_no_shell_line_breaks_the_reader(word: str) -> None:
    assert (
        judged(f"FROM {CUDA_124}\nRUN {word} pip install torch==2.4.0\nRUN {word}\n").goal == "gpu"
    )


def test_what_the_project_ignores_does_not_count_in_a_file_either() -> None:
    text = f"FROM {CUDA_124}\nRUN pip install tensorflow==2.10.1\n"
    ids = ("toolkit-wrong-version", "cudnn-wrong-major")
    config = Config(ignored=tuple(Ignored(name, "a test of it", TODAY) for name in ids))
    report = judged(text, config=config)
    assert report.verdict == "compatible"
    assert any(
        item.message.startswith("Ignored until 2026-11-21 (a test of it): ")
        for item in report.findings
    )

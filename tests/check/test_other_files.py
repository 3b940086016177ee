"""Requirements files, environment.yml and compose files as they come; every one is composed."""

from __future__ import annotations

import pytest

from envcheck.check.blueprint import FileError
from envcheck.check.build_files import read_blueprints
from envcheck.check.config import Config
from envcheck.check.judge import Gate
from envcheck.check.judge_file import judge_blueprints
from envcheck.check.selection import Selection
from envcheck.diagnosis.planned import describe_host
from envcheck.rules.catalogue import catalogue
from tests.check.test_files import CUDA_124, TODAY, blueprints, judged, told, undecided
from tests.rules.factory_machine import matrix
from tests.work import assert_linear

GPU = Config(expect="gpu")
CPU_INDEX = "https://download.pytorch.org/whl/cpu"


def read(text: str, name: str, **beside: str) -> list[tuple[str, str]]:
    return [(line.text, line.location) for line in blueprints(text, name, **beside)[0].requirements]


def test_a_requirements_file_as_pip_freeze_and_pip_compile_write_it() -> None:
    text = (
        "\ufeff# by pip-compile\r\n--index-url https://x/simple\r\n-c limits.txt\r\n-e .\r\n"
        "torch==2.4.0 ; python_version >= '3.8' \\\r\n    --hash=sha256:0 \\\r\n    --hash=sha256:1\r\n"
        "x @ https://example/x.whl\r\n./local\r\n--find-links page.html\r\n-r gone.txt\r\nlast \\"
    )
    found = blueprints(
        text, "requirements.txt", limits__txt="torch<3 # why\n-r no\nx==1; a\nlast>=1"
    )[0]
    assert [(line.text, line.location) for line in found.requirements] == [
        ('torch<3,==2.4.0; python_version >= "3.8"', "requirements.txt:5"),
        ("x @ https://example/x.whl", "requirements.txt:8"),
        ("last>=1", "requirements.txt:12"),
    ]
    assert all(line.links for line in found.requirements)
    assert [(line.text.split()[0], line.location) for line in found.gaps] == [
        ("gone.txt", "requirements.txt:11"),
        (".", "requirements.txt:4"),  # projects of which no file says what they require
        ("./local", "requirements.txt:9"),
    ]


def test_a_project_that_a_requirements_file_names_is_read_too() -> None:
    project = (
        "[project]\nname='x'\ndependencies=['torch==2.4.0']\noptional-dependencies.gpu=['vllm']"
    )
    assert read("-e .[gpu]", "requirements.txt", pyproject__toml=project) == [
        ("torch==2.4.0", "pyproject.toml:3"),
        ("vllm", "pyproject.toml:4"),
    ]
    circle = "[project]\nname='x'\ndynamic=['dependencies']\n[tool.setuptools.dynamic]\ndependencies={file='requirements.txt'}"
    assert read("-e .\ntorch", "requirements.txt", pyproject__toml=circle)[-1][0] == "torch"


def test_an_included_file_is_named_from_where_the_first_is() -> None:
    read = {"deps/more.txt": "torch==2.4.0\n"}
    found = read_blueprints("-r more.txt\n", "deps/all.txt", read.get)[0]
    assert [line.location for line in found.requirements] == ["deps/more.txt:1"]


def test_a_requirements_file_does_not_tell_which_cuda_there_will_be() -> None:
    report = judged("tensorflow==2.10.1\n", "requirements.txt", GPU)
    assert report.verdict == "undetermined"
    (reason,) = undecided(report)
    assert "the file does not say which CUDA Toolkit and cuDNN the machine has" in reason
    assert (
        "Not decided for that reason: toolkit-missing, toolkit-wrong-version, cudnn-missing"
        in reason
    )
    # it brings its CUDA
    assert judged("torch==2.4.0\n", "requirements.txt", GPU).verdict == "compatible"


@pytest.mark.parametrize("option", ["-i ", "--index-url ", "--index-url=", "--extra-index-url "])
def test_an_index_for_the_cpu_speaks_of_pytorch_alone(option: str) -> None:
    report = judged(
        f"{option}{CPU_INDEX}\ntorch==2.4.0\njax[cuda12]==0.4.30\n", "requirements.txt", GPU
    )
    assert told(report) == [("framework-cpu-build", "requirements.txt:2")]


ENVIRONMENT = f"""name: x
channels: [pytorch, nvidia]
dependencies:
  - python=3.9
  - nvidia::cudatoolkit=11.2  # [linux]
  - cudnn=8.1
  - pip
  - pip:
    - --extra-index-url {CPU_INDEX}
    - -r more.txt
    - torch==2.4.0
"""


def test_the_pip_list_of_an_environment_is_a_requirements_file() -> None:
    assert read(ENVIRONMENT, "environment.yml", more__txt="jax==0.4.30\n") == [
        ("jax==0.4.30", "more.txt:1"),
        ("torch==2.4.0", "environment.yml:11"),
    ]
    assert ("framework-cpu-build", "environment.yml:11") in told(
        judged(ENVIRONMENT, "environment.yml", GPU)
    )
    assert blueprints(ENVIRONMENT, "environment.yml")[0].conda[1].text == "cudatoolkit=11.2"


def test_cpuonly_of_conda() -> None:
    text = "dependencies:\n  - pytorch=2.4\n  - cpuonly\n"
    assert told(judged(text, "environment.yml", GPU)) == [
        ("framework-cpu-build", "environment.yml:3")
    ]
    assert judged(text, "environment.yml").verdict == "compatible", "with the CPU alone"


def test_a_dockerfile_reads_the_environment_it_creates() -> None:
    text = "FROM continuumio/miniconda3\nCOPY environment.yml /x/\nRUN conda env create -f /x/environment.yml\n"
    report = judged(text, environment__yml=ENVIRONMENT)
    assert ("framework-cpu-build", "environment.yml:11") in told(report)


COMPOSE = f"""x-gpu: &gpu
  deploy: {{resources: {{reservations: {{devices: [{{driver: cdi, device_ids: ["nvidia.com/gpu=all"]}}]}}}}}}
services:
  pretrain:
    image: "nvidia/cuda:${{TAG:-12.4.1}}-runtime-ubuntu22.04"
    profiles: [gpu]
  train:
    <<: *gpu
    image: {CUDA_124}
  tune:
    extends: {{service: train}}
  db: {{image: "postgres:16"}}
"""


def test_anchors_extensions_and_variables_of_a_compose_file() -> None:
    found = blueprints(COMPOSE, "compose.yml")
    cuda = [(item.path, item.image.cuda, item.asks_gpu is not None) for item in found]
    assert cuda == [
        ("compose.yml (pretrain)", "12.4.1", False),
        ("compose.yml (train)", "12.4.1", True),
        ("compose.yml (tune)", "12.4.1", True),
        ("compose.yml (db)", "", False),
    ]
    assert told(judged(COMPOSE, "compose.yml")) == [("driver-not-in-container", "compose.yml:4")]
    by_file = blueprints(COMPOSE, "compose.yml", __env="# x\nTAG=11.8.0\n")
    assert by_file[0].image.cuda == "11.8.0"


def test_the_projects_demands_are_not_for_the_database() -> None:
    report = judged(
        COMPOSE.replace("pretrain", "other"), "compose.yml", Config(("tensorflow==2.10.1",))
    )
    where = {item.evidence[1].source.where for item in report.findings if item.id == "toolkit-wrong-version"
             and item.evidence[1].source}  # fmt: skip
    assert where == {"compose.yml:5", "compose.yml:9"}


BUILD = """services:
  a:
    build:
      context: ./app
      dockerfile: deep/Dockerfile
      target: gpu
      args: [TF=2.12, OPEN]
    gpus: all
"""
DEEP = f"ARG TF=2.11\nFROM {CUDA_124} AS gpu\nARG TF\nRUN pip install -r r.txt tensorflow-gpu==$TF\nFROM alpine:3.19\n"


def test_a_service_is_built_in_its_context_with_its_arguments_and_target() -> None:
    files = {"app/deep/Dockerfile": DEEP, "app/r.txt": "torch==2.4.0\n"}
    found = read_blueprints(BUILD, "compose.yml", files.get)
    assert [(line.text, line.location) for line in found[0].requirements] == [
        ("torch==2.4.0", "app/r.txt:1"),  # as the command names them
        ("tensorflow-gpu==2.12", "app/deep/Dockerfile:4"),
    ]
    inline = "services:\n  a:\n    build:\n      dockerfile_inline: |\n        FROM x\n        RUN pip install jax\n"
    assert [
        line.text for line in read_blueprints(inline, "compose.yml", lambda _: None)[0].requirements
    ] == ["jax"]
    gone = judged(BUILD, "compose.yml")
    assert any("app/deep/Dockerfile was not found" in item.message for item in gone.findings)


@pytest.mark.parametrize(
    "text",
    [
        "services: {a: {extends: a, image: x}}",
        "services: {a: {extends: {service: b}}, b: {extends: a}}",
        "services: {a: {extends: {file: b.yml, service: c}, image: x}}",
        "services: {a: {build: 3}}",
        "services: {a: {image: 3, deploy: 4, devices: 5}}",
        "services: {a: {image: x, deploy: {resources: {reservations: {devices: [3, {capabilities: 4}]}}}}}",
        "services: {a: {build: {args: {A: [1], B: '${C}'}, context: /etc}}}",
    ],
)
def test_an_odd_service_is_undetermined(text: str) -> None:
    assert (
        judged(text.replace("services:", "services:\n  ", 1), "compose.yml").verdict
        == "undetermined"
    )


def of_many_entries(count: int) -> str:
    return "dependencies:\n" + "".join(
        f"  - package-{number}=1.{number}\n" for number in range(count)
    )


def test_ten_thousand_entries_are_read_and_an_entry_costs_the_same_in_a_long_file() -> None:
    assert (
        blueprints(of_many_entries(10_000), "environment.yml")[0].conda[-1].location
        == "environment.yml:10001"
    )
    assert_linear(lambda count: blueprints(of_many_entries(count), "environment.yml"), 100)


def test_a_database_beside_the_environment_is_no_open_question() -> None:
    train = "  train:\n    image: pytorch/pytorch:2.4.0-cuda12.4-cudnn9-runtime\n    gpus: all\n"
    report = judged(f"services:\n  db:\n    image: postgres:16\n{train}", "compose.yml")
    assert (report.verdict, told(report), undecided(report)) == ("compatible", [], [])
    alone = judged("services:\n  db:\n    image: postgres:16\n", "compose.yml")
    assert alone.verdict == "undetermined"
    assert "postgres:16 does not say what the image contains" in alone.findings[0].message
    asked = judged(f"services:\n  own:\n    image: team/own\n    gpus: all\n{train}", "compose.yml")
    assert [
        "The name team/own does not say what the image contains" in item
        for item in undecided(asked)
    ] == [True]


def test_constraints_choose_the_release() -> None:
    pins = "# by hand\ntensorflow-gpu==2.12.0 ; python_version > '3'\nnumpy<2\n"
    listed = judged("-c pins.txt\ntensorflow-gpu\n", "requirements.txt", pins__txt=pins)
    assert "tensorflow-gpu==2.12.0 cannot be installed" in listed.findings[0].message
    image = "FROM python:3.11-slim-bookworm\n"
    for step in (
        "COPY pins.txt /\nRUN pip install tensorflow-gpu -c /pins.txt",
        "RUN pip install --constraint=pins.txt tensorflow-gpu",
    ):
        run = judged(f"{image}{step}\n", pins__txt=pins)
        assert "tensorflow-gpu==2.12.0 cannot be installed" in run.findings[0].message
    gone = judged(f"{image}RUN pip install torch -c gone.txt\n")
    assert [item.message for item in gone.findings if "gone.txt" in item.message]


def test_two_requirements_of_one_module_overwrite_each_other() -> None:
    both = judged("tensorflow~=2.15.0\ntensorflow-cpu==2.15.0\n", "requirements.txt")
    assert told(both) == [("framework-duplicate-dists", "requirements.txt:1")]
    apart = "tensorflow==2.15.0; sys_platform == 'linux'\ntensorflow-cpu==2.15.0; sys_platform == 'win32'\n"
    assert judged(apart, "requirements.txt").verdict == "compatible"
    jax = judged("jax==0.4.30\njaxlib==0.4.30\njax-cuda12-plugin==0.4.30\n", "requirements.txt")
    assert "framework-duplicate-dists" not in {item.id for item in jax.findings}


LOCKED = (
    "jax 0.4.35",
    "jaxlib 0.4.34",
    "jax-cuda12-pjrt 0.4.35",
    "jax-cuda12-plugin 0.4.35",
    *(
        f"nvidia-{name}-cu12 {version}"
        for name, version in (
            ("cublas", "12.6.4.1"),
            ("cuda-cupti", "12.6.80"),
            ("cuda-nvcc", "12.6.85"),
            ("cuda-runtime", "12.6.77"),
            ("cudnn", "9.5.1.17"),
            ("cufft", "11.3.0.4"),
            ("cusolver", "11.7.1.2"),
            ("cusparse", "12.5.4.2"),
            ("nccl", "2.23.4"),
            ("nvjitlink", "12.6.85"),
        )
    ),
)


def poetry_lock(packages: tuple[str, ...]) -> str:
    rows = (item.split() for item in packages)
    return "".join(
        f'[[package]]\nname = "{name}"\nversion = "{version}"\noptional = false\n\n'
        for name, version in rows
    )


def test_a_lock_with_the_runtime_that_a_plugin_requires_is_decided() -> None:
    report = judged(poetry_lock(LOCKED), "poetry.lock")
    assert report.verdict == "compatible", report
    other = [item.replace("pjrt 0.4.35", "pjrt 0.4.33") for item in LOCKED]
    report = judged(poetry_lock(tuple(other)), "poetry.lock")
    assert [name for name, _ in told(report)] == ["dependency-conflict"]
    assert "jax-cuda12-pjrt==0.4.33" in report.findings[0].message


def test_the_checks_are_in_the_order_of_the_catalogue() -> None:
    ids = judged("torch==2.4.0\n", "requirements.txt", GPU).checked
    assert len(ids) > 20
    assert [*ids] == [name for name in catalogue() if name in ids]


def test_what_comes_from_an_address_is_said_not_to_be_judged() -> None:
    report = judged(
        "torch @ https://example/torch-2.3.0-cp310-cp310-linux_x86_64.whl\n", "requirements.txt"
    )
    assert report.verdict == "undetermined"
    assert [
        "torch comes from a URL, which is not judged" in item for item in undecided(report)
    ] == [True]


def test_files_that_include_each_other_are_read_once() -> None:
    def include(count: int) -> dict[str, str]:
        everyone = "\n".join(f"-r f{other}.txt" for other in range(count))
        return {f"f{number}__txt": f"{everyone}\np{number}\n" for number in range(count)}

    (blueprint,) = blueprints("-r f0.txt\n-r f0.txt\n", "requirements.txt", **include(15))
    assert sorted(line.text for line in blueprint.requirements) == sorted(
        f"p{number}" for number in range(15)
    )


PIXI = """version: 6
environments:
  default:
    channels: [{url: https://conda.anaconda.org/conda-forge/}]
    packages:
      linux-64:
      - conda: https://conda.anaconda.org/conda-forge/linux-64/python-3.12.7-hc5c86c4_0_cpython.conda
      - conda: https://conda.anaconda.org/conda-forge/linux-64/pytorch-2.5.1-BUILD_generic_py312h1_0.conda
      - pypi: https://index.example/packages/torchvision-0.16.0-cp312-cp312-manylinux1_x86_64.whl
packages:
- conda: https://conda.anaconda.org/conda-forge/linux-64/python-3.12.7-hc5c86c4_0_cpython.conda
- conda: https://conda.anaconda.org/conda-forge/linux-64/pytorch-2.5.1-BUILD_generic_py312h1_0.conda
- conda: https://conda.anaconda.org/conda-forge/osx-arm64/pytorch-2.4.0-cpu_generic_py312h1_0.conda
- pypi: https://index.example/packages/torchvision-0.16.0-cp312-cp312-manylinux1_x86_64.whl
  name: torchvision
  version: 0.16.0
"""
CONDA_LOCK = """version: 1
package:
- {name: pytorch, version: 2.5.1, manager: conda, platform: osx-arm64, url: "https://c/pytorch-2.5.1-cpu_1.conda"}
- {name: pytorch, version: 2.5.1, manager: conda, platform: linux-64, url: "https://c/pytorch-2.5.1-BUILD_h1_0.conda"}
- {name: numpy, version: 1.26.4, manager: pip, platform: linux-64, url: "https://p/numpy-1.26.4.whl"}
"""


@pytest.mark.parametrize(("text", "name"), [(PIXI, "pixi.lock"), (CONDA_LOCK, "conda-lock.yml")])
def test_locks_of_conda_state_the_build_for_linux(text: str, name: str) -> None:
    for build, expected in (("cuda126", []), ("cpu", ["framework-cpu-build"])):
        locked = text.replace("BUILD", build)
        (blueprint,) = blueprints(locked, name)
        assert f"pytorch=2.5.1={build}" in [line.text.partition("_")[0] for line in blueprint.conda]
        report = judged(locked, name, Config(expect="gpu"))
        assert [item.id for item in report.findings if item.severity == "error" and item.verdict == "incompatible"
                and item.id.startswith("framework")] == expected  # fmt: skip
        beside = judged(
            f"FROM python:3.12-slim-bookworm\nRUN {name.partition('.')[0]} install\n",
            config=Config(expect="gpu"),
            **{name.replace(".", "__"): locked},
        )
        assert beside.verdict == report.verdict


# Composed in the shapes of published locks: pixi's versions 6 and 7, conda-lock's version 1.
FORGE = "https://conda.anaconda.org/conda-forge/linux-64/"
PY312 = FORGE + "python-3.12.7-hc5c86c4_0_cpython.conda"
PY314 = FORGE + "python-3.14.0-h1_100_cp314.conda"
TORCH_CUDA = FORGE + "pytorch-2.5.1-cuda126_mkl_py312h1_306.conda"
TORCH_CPU = FORGE + "pytorch-2.5.1-cpu_mkl_py312h1_106.conda"
TORCH_OWN = (
    "https://conda.anaconda.org/pytorch/linux-64/pytorch-2.3.0-py3.12_cuda12.1_cudnn8.9.2_0.tar.bz2"
)
TORCHVISION = FORGE + "torchvision-0.21.0-cuda126_py312_h1_0.conda"
TENSORFLOW = FORGE + "tensorflow-2.17.0-cuda120py312h1_203.conda"
JAX = (FORGE + "jaxlib-0.6.2-cuda126py312h1_200.conda", FORGE + "jax-0.6.2-py_0.conda")
TORCH_PIP = "https://p/torch-2.5.1-cp312-cp312-manylinux1_x86_64.whl"
TORCHVISION_PIP = "https://p/torchvision-0.17.0-cp312-cp312-manylinux1_x86_64.whl"


def in_pixi(urls: tuple[str, ...]) -> str:
    """Write a lock in the shape of pixi's version 6."""
    named, listed = [], []
    for url in urls:
        kind = "pypi" if url.endswith(".whl") else "conda"
        name, version, *_ = url.rpartition("/")[2].split("-")
        named.append(f"      - {kind}: {url}")
        listed.append(f"- {kind}: {url}")
        if kind == "pypi":
            listed += [f"  name: {name}", f"  version: {version}"]
    head = ["version: 6", "environments:", "  default:", "    packages:", "      linux-64:"]
    return "\n".join([*head, *named, "packages:", *listed, ""])


def in_conda_lock(urls: tuple[str, ...]) -> str:
    """Write a lock in the shape of conda-lock's version 1."""
    lines = ["version: 1", "metadata:", "  platforms: [linux-64]", "package:"]
    for url in urls:
        name, version, *_ = url.rpartition("/")[2].split("-")
        manager = "pip" if url.endswith(".whl") else "conda"
        lines += [f"- name: {name}", f"  version: {version}", f"  manager: {manager}"]
        lines += ["  platform: linux-64", f"  url: {url}"]
    return "\n".join([*lines, ""])


@pytest.mark.parametrize("name", ["pixi.lock", "conda-lock.yml"])
@pytest.mark.parametrize(
    ("urls", "driver", "found"),
    [
        ((PY312, TORCH_CPU), "580.65.06", "framework-cpu-build"),
        ((PY312, TORCH_CUDA), "470.57.02", "driver-too-old"),
        ((PY314, TORCH_CUDA), "580.65.06", "python-unsupported"),
        ((PY312, TORCH_OWN), "470.57.02", "driver-too-old"),
        ((PY312, TENSORFLOW), "470.57.02", "driver-too-old"),
        ((PY312, TORCH_PIP, TORCHVISION_PIP), "580.65.06", "dependency-conflict"),
        ((PY312, TORCH_CUDA), "580.65.06", ""),
        ((PY312, TORCH_OWN), "550.54.15", ""),
        # conda-forge builds torchvision again for each release of PyTorch
        ((PY312, TORCH_CUDA, TORCHVISION), "550.54.15", ""),
        ((PY312, TORCH_PIP), "550.54.15", ""),
        ((PY312, TENSORFLOW), "550.54.15", ""),
        ((PY312, *JAX), "580.65.06", ""),
    ],
)
def test_composed_faults_of_condas_locks_are_named_at_their_line(
    name: str, urls: tuple[str, ...], driver: str, found: str
) -> None:
    text = in_pixi(urls) if name == "pixi.lock" else in_conda_lock(urls)
    gate = Gate(Config(), matrix(), "pyproject.toml", TODAY)
    host = describe_host(driver, ("A100",))
    report = judge_blueprints(blueprints(text, name), gate, host)[0]
    errors = [item for item in report.findings if item.severity == "error"]
    assert [item.id for item in errors] == [*filter(None, [found])]
    shown = [item.source.where for each in errors for item in each.evidence if item.source]
    numbers = [int(place.rpartition(":")[2]) for place in shown if place.startswith(name)]
    lines = text.splitlines()
    entries = [" ".join(lines[number - 1 : number + 5]) for number in numbers]
    assert not found or any(urls[-1].rpartition("/")[2] in entry for entry in entries)


def test_pixi_names_machines_and_the_one_with_a_driver_is_judged() -> None:
    entry = "      {}:\n      - conda: {}\n"
    text = (
        "version: 7\nplatforms:\n- name: linux-64\n- name: trainer\n  subdir: linux-64\n"
        "  virtual-packages:\n  - __cuda=12\nenvironments:\n  default:\n    packages:\n"
        + entry.format("linux-64", TORCH_CPU)
        + entry.format("trainer", TORCH_CUDA)
        + f"packages:\n- conda: {TORCH_CPU}\n- conda: {TORCH_CUDA}\n"
    )
    (blueprint,) = blueprints(text, "pixi.lock")
    assert [line.spec[2] for line in blueprint.conda] == ["cuda126_mkl_py312h1_306"]


def test_an_index_of_an_extra_is_not_that_of_the_project() -> None:
    text = """[project]
dependencies = ["torch==2.6.0"]
[tool.uv.sources]
torch = [{ index = "cpu", extra = "cpu" }]
[[tool.uv.index]]
name = "cpu"
url = "https://download.pytorch.org/whl/cpu"
explicit = true
"""
    (blueprint,) = blueprints(text, "pyproject.toml")
    assert [(line.text, line.index) for line in blueprint.requirements] == [("torch==2.6.0", "")]


UV_LOCK = """version = 1
revision = 3
conflicts = [[{ package = "app", extra = "cpu" }, { package = "app", extra = "cuda" }]]

[[package]]
name = "app"
source = { editable = "." }
dependencies = [{ name = "lib" }]

[package.optional-dependencies]
cpu = [{ name = "torch", version = "2.7.1+cpu", marker = "extra == 'extra-3-app-cpu'" }]
cuda = [
    { name = "torch", version = "2.7.1+cu128", marker = "extra == 'extra-3-app-cuda'" },
    { name = "onnxruntime-gpu" },
]

[[package]]
name = "lib"
version = "1.0"
source = { registry = "https://index.example/simple" }
dependencies = [{ name = "pywin", marker = "sys_platform == 'win32'" }]

[[package]]
name = "onnxruntime-gpu"
version = "1.22.0"
source = { registry = "https://index.example/simple" }

[[package]]
name = "pywin"
version = "1.0"
source = { registry = "https://index.example/simple" }

[[package]]
name = "torch"
version = "2.7.1+cpu"
source = { registry = "https://download.pytorch.org/whl/cpu" }

[[package]]
name = "torch"
version = "2.7.1+cu128"
source = { registry = "https://download.pytorch.org/whl/cu128" }
"""


@pytest.mark.parametrize(
    ("command", "locked"),
    [
        ("uv sync", ["lib==1.0"]),
        ("uv sync --extra cpu", ["lib==1.0", "torch==2.7.1+cpu"]),
        (
            "uv sync --frozen --extra cuda",
            ["lib==1.0", "onnxruntime-gpu==1.22.0", "torch==2.7.1+cu128"],
        ),
    ],
)
def test_extras_and_markers_choose_as_uv_does(command: str, locked: list[str]) -> None:
    text = f"FROM {CUDA_124}\nCOPY . .\nRUN {command}\n"
    (found,) = read_blueprints(text, "Dockerfile", {"uv.lock": UV_LOCK}.get)
    assert [line.text for line in found.requirements] == locked
    assert not found.gaps


def test_what_poetry_locks_as_optional_is_left_out() -> None:
    text = """[[package]]
name = "torch"
version = "2.7.1"
optional = true

[[package]]
name = "numpy"
version = "2.1.0"
optional = false

[extras]
gpu = ["torch"]
"""
    (bare,) = read_blueprints(text, "poetry.lock", lambda _: None)
    assert [line.text for line in bare.requirements] == ["numpy==2.1.0"]
    steps = f"FROM {CUDA_124}\nRUN poetry install --extras gpu --no-root\n"
    (asked,) = read_blueprints(steps, "Dockerfile", {"poetry.lock": text}.get)
    assert [line.text for line in asked.requirements] == ["torch==2.7.1", "numpy==2.1.0"]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("uv tool install vllm", "vllm"),
        ("pipx install torch", "torch"),
        ("pixi global install jax", "jax"),
        ("easy_install torch", "torch"),
        ("apt-get install -y python3-torch", "torch"),
        ("uvx --with torch pytest", "torch"),
    ],
)
def test_another_installer_that_is_asked_for_a_framework_is_listed_with_its_line(
    command: str, name: str
) -> None:
    steps = f"FROM {CUDA_124}\nRUN {command}\nRUN echo add torch; git clone https://x/torch\n"
    (found,) = blueprints(steps)
    assert [(line.text, line.location) for line in found.gaps] == [
        (f"`{command}` was not read: it names {name}.", "Dockerfile:2")
    ]


@pytest.mark.parametrize(
    ("command", "texts", "conda"),
    [
        ("poetry add 'torch==2.13.0'", ["torch==2.13.0"], []),
        ("pdm add torch", ["torch"], []),
        ("pipenv install torch --index https://download.pytorch.org/whl/cpu", ["torch"], []),
        ("pixi add pytorch-gpu", [], ["pytorch-gpu"]),
        ("pixi add --pypi torch", ["torch"], []),
        ("for p in torch jax; do pip install $p; done", ["torch", "jax"], []),
    ],
)
def test_what_adds_to_a_project_installs_it(
    command: str, texts: list[str], conda: list[str]
) -> None:
    (found,) = blueprints(f"FROM {CUDA_124}\nRUN {command}\n")
    assert [line.text for line in found.requirements] == texts
    assert [line.text for line in found.conda] == conda
    assert not found.gaps


GROUPS = UV_LOCK.replace(
    '[[package]]\nname = "lib"',
    '[package.dev-dependencies]\ndev = [{ name = "pywin" }]\n'
    'gpu = [{ name = "torch", version = "2.7.1+cu128" }]\n\n[[package]]\nname = "lib"',
    1,
)


@pytest.mark.parametrize(
    ("command", "locked"),
    [
        ("uv sync", ["lib==1.0", "pywin==1.0"]),
        ("uv sync --no-dev", ["lib==1.0"]),
        ("uv sync --no-default-groups --group gpu", ["lib==1.0", "torch==2.7.1+cu128"]),
        ("uv sync --only-group gpu", ["torch==2.7.1+cu128"]),
        ("uv sync --all-groups", ["lib==1.0", "pywin==1.0", "torch==2.7.1+cu128"]),
        ("uv sync --no-group dev --all-extras", ["lib==1.0", "onnxruntime-gpu==1.22.0"]),
    ],
)
def test_groups_choose_as_uv_does(command: str, locked: list[str]) -> None:
    (found,) = read_blueprints(f"FROM {CUDA_124}\nRUN {command}\n", "D", {"uv.lock": GROUPS}.get)
    assert [line.text for line in found.requirements] == locked


def _grouped(head: str, name: str, groups: str) -> str:
    return f'{head}[[package]]\nname = "{name}"\nversion = "2.7.1"\ngroups = {groups}\n\n'


@pytest.mark.parametrize(
    ("command", "locked"),
    [
        ("poetry install", ["torch==2.7.1", "jax==2.7.1"]),
        ("poetry install --only main", ["torch==2.7.1"]),
        ("poetry install --without dev", ["torch==2.7.1"]),
        ("pdm sync --prod", ["torch==2.7.1"]),
        ("pdm install -G gpu", ["torch==2.7.1", "jax==2.7.1", "cupy==2.7.1"]),
        ("pdm install", ["torch==2.7.1", "jax==2.7.1"]),
    ],
)
def test_groups_choose_as_poetry_and_pdm_do(command: str, locked: list[str]) -> None:
    main = "main" if command.startswith("poetry") else "default"
    text = _grouped("", "torch", f'["{main}"]') + _grouped("", "jax", '["dev"]')
    files = {"poetry.lock": text}
    if main == "default":
        more = _grouped('[metadata]\nlock_version = "4.5.0"\n', "cupy", '["gpu"]')
        files = {"pdm.lock": text + more}
    (found,) = read_blueprints(f"FROM {CUDA_124}\nRUN {command}\n", "D", files.get)
    assert [line.text for line in found.requirements] == locked


PIPFILE_LOCK = """{
    "_meta": {"sources": [{"name": "pytorch", "url": "https://download.pytorch.org/whl/cpu"}]},
    "default": {
        "torch": {
            "index": "pytorch",
            "markers": "python_version >= '3.9'",
            "version": "==2.7.1+cpu"
        },
        "mine": {"path": "."}
    },
    "develop": {
        "jax": {"version": "==0.5.0"}
    }
}
"""


def test_pipfile_lock_is_read_with_the_line_of_each_package() -> None:
    assert read(PIPFILE_LOCK, "Pipfile.lock") == [
        ("torch==2.7.1+cpu ; python_version >= '3.9'", "Pipfile.lock:4")
    ]
    steps = f"FROM {CUDA_124}\nRUN pipenv sync --dev\n"
    (found,) = read_blueprints(steps, "D", {"Pipfile.lock": PIPFILE_LOCK}.get)
    assert [line.text.partition(" ")[0] for line in found.requirements] == [
        "torch==2.7.1+cpu",
        "jax==0.5.0",
    ]
    assert found.requirements[0].index == "cpu"
    with pytest.raises(FileError, match="is not JSON"):
        read('{"default": [', "Pipfile.lock")


def test_the_source_of_an_extra_or_a_group_is_taken_with_it() -> None:
    text = """[project]
dependencies = ["torch==2.6.0"]
[dependency-groups]
gpu = ["torchvision"]
[tool.uv.sources]
torch = [{ index = "cpu", extra = "cpu" }, { index = "cuda", marker = "sys_platform == 'win32'" }]
torchvision = [{ index = "cuda", group = "gpu" }]
[[tool.uv.index]]
name = "cpu"
url = "https://download.pytorch.org/whl/cpu"
explicit = true
[[tool.uv.index]]
name = "cuda"
url = "https://download.pytorch.org/whl/cu126"
explicit = true
"""
    for selection, expected in (
        (Selection(), [("torch==2.6.0", "")]),
        (Selection(("cpu",)), [("torch==2.6.0", "cpu")]),
        (Selection((), ("gpu",)), [("torch==2.6.0", ""), ("torchvision", "cuda")]),
    ):
        (found,) = read_blueprints(text, "pyproject.toml", lambda _: None, selection)
        assert [(line.text, line.index) for line in found.requirements] == expected


def test_an_extra_may_name_other_extras_of_its_project() -> None:
    text = """[project]
name = "My.App"
dependencies = []
[project.optional-dependencies]
all = ["my-app[gpu,all]", "numpy"]
gpu = ["torch"]
"""
    (found,) = read_blueprints(text, "pyproject.toml", lambda _: None, Selection(("all",)))
    assert [line.text for line in found.requirements] == ["numpy", "torch"]


def test_the_label_of_a_build_may_stand_in_the_names_of_its_files_alone() -> None:
    text = """[[package]]
name = "torch"
version = "2.14.1"
files = [
    {file = "torch-2.14.1+cu126-cp311-cp311-manylinux_2_28_x86_64.whl", hash = "sha256:0"},
    {file = "torch-2.14.1-cp311-none-macosx_11_0_arm64.whl", hash = "sha256:1"},
]
"""
    assert read(text, "pdm.lock") == [
        ("torch==2.14.1+cu126", "pdm.lock:2")
    ]  # as PDM 2.29 writes it
    both = text.replace("torch-2.14.1-", "torch-2.14.1%2Bcpu-")
    assert read(both, "pdm.lock") == [("torch==2.14.1", "pdm.lock:2")]


def test_a_project_without_a_name_in_a_lock_is_walked_too() -> None:
    text = UV_LOCK.replace('name = "app"\n', "", 1)
    (found,) = read_blueprints(text, "uv.lock", lambda _: None, Selection(("cpu",)))
    assert [line.text for line in found.requirements] == ["lib==1.0"]


def test_a_broken_project_beside_a_requirements_file_is_named_and_the_rest_is_judged() -> None:
    (found,) = blueprints("torch\n-e .\n", "requirements.txt", pyproject__toml="[project\n")
    assert [line.text for line in found.requirements] == ["torch"]
    assert found.gaps[0].location == "requirements.txt:2"


POETRY = """[tool.poetry.dependencies]
python = ">=3.9,<3.12"
torch = { version = "2.3.1+cu121", source = "pytorch" }
torchvision = [
  { version = "~0.18", python = ">=3.9" },
  { url = "https://example.com/v.whl", markers = "sys_platform == 'win32' or os_name == 'nt'" },
]
numpy = "^1.24, !=1.25.0"
jax = { version = "*", extras = ["cuda12"], optional = true }
local = { path = "../local" }
[tool.poetry.extras]
gpu = ["jax"]
[tool.poetry.group.serve.dependencies]
onnxruntime = "^0.0.3 || ^1.2"
[[tool.poetry.source]]
name = "pytorch"
url = "https://download.pytorch.org/whl/cu121"
priority = "explicit"
"""


@pytest.mark.parametrize(
    ("selection", "more"),
    [
        (Selection(), []),
        (Selection(("gpu",)), [("jax[cuda12]", 9)]),
        (Selection((), ("serve",)), [("onnxruntime", 14)]),
    ],
)
def test_poetrys_tables_are_read(selection: Selection, more: list[tuple[str, int]]) -> None:
    (found,) = read_blueprints(POETRY, "pyproject.toml", lambda _: None, selection)
    assert found.pythons is not None
    assert (found.pythons.text, found.pythons.location) == ("<3.12,>=3.9", "pyproject.toml:2")
    markers = "(sys_platform == 'win32' or os_name == 'nt')"
    assert [(line.text, line.location) for line in found.requirements] == [
        (text, f"pyproject.toml:{number}")
        for text, number in [
            ("torch==2.3.1+cu121", 3),
            ("torchvision>=0.18,<0.19 ; python_version >= '3.9'", 4),
            (f"torchvision @ https://example.com/v.whl ; {markers}", 4),
            ("numpy>=1.24,<2,!=1.25.0", 8),
            *more,
        ]
    ]
    assert [line.label for line in found.requirements] == ["cu121", *[""] * (3 + len(more))]


def test_only_a_group_of_poetry_leaves_the_project_out() -> None:
    (found,) = read_blueprints(
        POETRY, "pyproject.toml", lambda _: None, Selection((), ("serve",), is_only=True)
    )
    assert [line.text for line in found.requirements] == ["onnxruntime"]


def test_poetry_2_names_the_source_of_what_the_project_requires() -> None:
    text = f"""[project]
dependencies = ["torch (>=2.4,<3)"]
{POETRY.replace('version = "2.3.1+cu121", ', "")}"""
    (found,) = read_blueprints(text, "pyproject.toml", lambda _: None)
    first = found.requirements[0]
    assert (first.text, first.label) == ("torch (>=2.4,<3)", "cu121")


def test_a_range_of_poetry_that_excludes_its_neighbour_is_an_error() -> None:
    report = judged(
        '[tool.poetry.dependencies]\npython = "^3.9"\ntorch = "^2.1"\ntorchvision = "0.15.2"\n',
        "pyproject.toml",
    )
    assert report.verdict == "incompatible"
    assert [item.id for item in report.findings if item.severity == "error"] == [
        "dependency-conflict"
    ]


def test_an_index_of_pdm_or_uv_is_asked_for_what_it_holds() -> None:
    for tool, row, expected in (
        ("pdm.source", 'include_packages = ["torch*"]', "cuda"),
        ("pdm.source", 'include_packages = ["other"]', ""),
        ("uv.index", "", "cuda"),
        ("uv.index", "explicit = true", ""),
    ):
        text = f"""[project]
dependencies = ["torch"]
[[tool.{tool}]]
name = "pytorch"
url = "https://download.pytorch.org/whl/cu126"
{row}
"""
        (found,) = blueprints(text, "pyproject.toml")
        assert [line.index for line in found.requirements] == [expected]


def test_pipfile_is_read() -> None:
    text = """[[source]]
url = "https://example.com/simple"
verify_ssl = true
name = "pypi"
[packages]
torch = {version = "==2.4.0", sys_platform = "== 'linux'"}
[dev-packages]
torchvision = "*"
[requires]
python_version = "3.11"
"""
    (found,) = blueprints(text, "Pipfile")
    assert found.python is not None
    assert found.python.text == "3.11"
    assert [line.text for line in found.requirements] == ["torch==2.4.0 ; sys_platform == 'linux'"]
    assert judged(text, "Pipfile").verdict == "compatible"


def test_what_a_pyproject_leaves_to_setup_py_is_read_there() -> None:
    setup = (
        'setup(install_requires=["torch==1.7.1", "torchvision==0.8.2"], python_requires=">=3.10")\n'
    )
    beside = {"setup.py": setup}
    text = '[build-system]\nrequires = ["setuptools"]\n'
    (found,) = read_blueprints(text, "pyproject.toml", beside.get)
    assert [line.location for line in found.requirements] == ["setup.py:1", "setup.py:1"]
    assert not found.gaps
    # an older release of a package beside it, which is not judged, hides no Python
    report = judged(setup, "setup.py")
    assert report.verdict == "incompatible"
    assert "python-unsupported" in {item.id for item in report.findings}


@pytest.mark.parametrize(
    ("lines", "found", "summary"),
    [
        (  # the released wheels of bitsandbytes were for CUDA alone then
            "--index-url https://download.pytorch.org/whl/cpu\ntorch==2.6.0\nbitsandbytes==0.45.3",
            "framework-cpu-build",
            "Use PyTorch's index for a CUDA variant",
        ),
        ("torch==2.6.0\nbitsandbytes==0.49.1", "", ""),  # one for macOS, too
        (
            "jax==0.6.2\njaxlib==0.5.3",
            "dependency-conflict",
            "In r.txt:2, write `jaxlib<=0.6.2,>=0.6.2` in place of `jaxlib==0.5.3`.",
        ),
        (  # nobody has published this onnxruntime-gpu; it would lie over the other all the same
            "onnxruntime==1.20.1\nonnxruntime-gpu==1.20.1",
            "framework-duplicate-dists",
            "Leave out `onnxruntime==1.20.1` (r.txt:1).",
        ),
        (
            "--index-url https://download.pytorch.org/whl/cpu\ntorch==2.8.0+cpu\ntorchvision==0.22.1",
            "dependency-conflict",
            "In r.txt:3, write `torchvision==0.23.0` in place of `torchvision==0.22.1`.",
        ),
    ],
)
def test_the_remedy_of_a_file_is_an_edit_of_the_line_at_fault(
    lines: str, found: str, summary: str
) -> None:
    report = judged(lines, "r.txt")
    first = report.findings[0]
    if not found:
        assert report.verdict == "compatible"
        return
    assert (first.id, first.primary) == (found, True)
    assert first.fix is not None
    assert first.fix.summary.startswith(summary)


def test_one_edit_for_one_line() -> None:
    part = judged("jax==0.4.35\njaxlib==0.4.30", "r.txt")  # ==0.4.34 is of its extra alone
    assert told(part) == [("dependency-conflict", "r.txt:1")]
    unlisted = judged("onnxruntime-gpu==1.20.1", "r.txt").findings[0]
    assert (unlisted.id, unlisted.verdict) == ("release-unknown", "undetermined")
    assert unlisted.fix is not None
    assert unlisted.fix.summary.startswith("In r.txt:1, write `onnxruntime-gpu==1.20.2`")


@pytest.mark.parametrize(
    ("python", "spec", "written"),
    [
        ("3.11", "tensorflow-gpu=1.15", "3.7"),  # two Pythons after the wheels' newest
        ("3.9", "jax=0.5.0", "3.12"),  # below those of its metadata
        ("3.9", "jaxlib=0.5.0=cuda*", "3.12"),
        ("3.12", "pytorch=2.1.2", ""),  # conda-forge has built it for one more than the wheels
        ("3.13", "pytorch=2.1.2", "3.12"),
        ("3.13", "pytorch=2.4.1", ""),
        ("3.10", "pytorch=2.1.2", ""),
    ],
)
def test_conda_has_no_build_far_from_the_pythons_of_the_wheels(
    python: str, spec: str, written: str
) -> None:
    report = judged(f"dependencies:\n  - python={python}\n  - {spec}\n", "environment.yml")
    found = [item for item in report.findings if item.id == "python-unsupported"]
    assert [item.fix.summary for item in found if item.fix] == [
        f"In environment.yml:2, write `python={written}` in place of `python={python}`."
        for _ in filter(None, [written])
    ]
    assert report.verdict == ("incompatible" if written else "compatible")


CONDA_ENVIRONMENT = """channels: [pytorch, nvidia]
dependencies:
  - python=3.11
  - pytorch={pytorch}
  - torchvision={torchvision}
  - pytorch-cuda=12.1
  - numpy=1.26.4
"""


@pytest.mark.parametrize(
    ("pytorch", "torchvision", "pip", "fix"),
    [
        ("2.3.1", "0.18.1", "", ""),
        ("2.3.1", "0.18.0", "", ""),  # conda-forge's goes with each patch of 2.3
        ("2.3", "0.18", "", ""),
        ("2.3.1", "0.16.1", "", "In environment.yml:5, write `torchvision=0.18.1` in place of"),
        ("2.2.2", "0.17.2", "torch==2.4.1", "Leave out `torch==2.4.1` (environment.yml:9), by"),
        ("2.2.2", "0.17.2", "torch", ""),
    ],
)
def test_what_conda_installs_is_judged_beside_what_pip_does(
    pytorch: str, torchvision: str, pip: str, fix: str
) -> None:
    text = CONDA_ENVIRONMENT.format(pytorch=pytorch, torchvision=torchvision)
    text += f"  - pip:\n    - {pip}\n" if pip else ""
    report = judged(text, "environment.yml")
    errors = [item for item in report.findings if item.severity == "error"]
    assert [item.id for item in errors] == (["extension-build-mismatch"] if fix else [])
    assert all(item.fix and item.fix.summary.startswith(fix) for item in errors)


@pytest.mark.parametrize(
    ("channels", "specs", "driver", "found"),
    [
        ("pytorch, nvidia", "pytorch=2.4.1 pytorch-cuda=12.4", "470.57.02", "driver-too-old"),
        ("pytorch, nvidia", "pytorch=2.4.1 pytorch-cuda=11.8", "470.57.02", ""),
        ("conda-forge", "pytorch=2.4.1=cuda120_py310h1_0", "470.57.02", "driver-too-old"),
        ("conda-forge", "pytorch=2.4.1=cuda118_py310h1_0", "470.57.02", ""),
        ("conda-forge", "pytorch=2.4.1=cpu_generic_py310h1_0", "550", "framework-cpu-build"),
        ("conda-forge", "pytorch=*=cpu*", "550", "framework-cpu-build"),
        ("conda-forge", "'pytorch[version=2.4.1,build=cuda120*]'", "470.57.02", "driver-too-old"),
        # 2.7.1 was built for CUDA 12 alone, 2.5.1 for 11, too
        ("conda-forge", "pytorch-gpu=2.7.1", "470.57.02", "driver-too-old"),
        ("conda-forge", "pytorch=2.7.1", "470.57.02", "framework-cpu-build"),
        ("conda-forge", "pytorch=2.5.1", "470.57.02", ""),
        ("conda-forge", "pytorch=2.7.1 cuda-version=11.8", "550", "framework-cpu-build"),
        ("conda-forge", "pytorch=2.5.1 cuda-version=11.8", "550", ""),
        ("pytorch, conda-forge", "pytorch=2.7.1", "550", ""),  # PyTorch's channel ended at 2.5
        ("conda-forge, pytorch", "pytorch=2.2.2 cudatoolkit=11.8", "550", ""),
    ],
)
def test_conda_builds_are_judged_by_channel_build_and_driver(
    channels: str, specs: str, driver: str, found: str
) -> None:
    listed = "".join(f"\n  - {spec}" for spec in ("python=3.10", *specs.split()))
    text = f"channels: [{channels}]\ndependencies:{listed}\n"
    gate = Gate(Config(), matrix(), "pyproject.toml", TODAY)
    host = describe_host(driver, ("A100",))
    report = judge_blueprints(blueprints(text, "environment.yml"), gate, host)[0]
    assert [item.id for item in report.findings if item.severity == "error"] == [
        *filter(None, [found])
    ]
    assert report.verdict == ("incompatible" if found else "compatible")


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("micromamba install -y -c conda-forge pytorch=2.5.1", "incompatible"),
        ("CONDA_OVERRIDE_CUDA=12.4 micromamba install -y -c conda-forge pytorch=2.5.1", ""),
        ("export CONDA_OVERRIDE_CUDA=12 && conda install -c conda-forge pytorch=2.5.1", ""),
        ("CONDA_OVERRIDE_CUDA=11.4 conda install -c conda-forge pytorch=2.7.1", "incompatible"),
        ("conda install -c conda-forge pytorch=2.5.1=cuda*", "undetermined"),
        ("conda install -c conda-forge pytorch-gpu=2.5.1", "undetermined"),
        ("conda install -c pytorch -c nvidia pytorch=2.5.1 pytorch-cuda=12.4", ""),
    ],
)
def test_while_an_image_is_built_conda_sees_no_driver(command: str, verdict: str) -> None:
    text = f"FROM nvidia/cuda:12.4.1-base-ubuntu22.04\nRUN {command}\n"
    report = judged(text, config=Config(expect="gpu"))
    assert report.verdict == (verdict or "compatible")
    texts = [f"{item.message} {item.fix and item.fix.summary}" for item in report.findings]
    assert any("CONDA_OVERRIDE_CUDA" in text for text in texts) == bool(verdict)
    stated = text.replace("RUN", "ENV CONDA_OVERRIDE_CUDA=12.4\nRUN")
    assert judged(stated, config=Config(expect="gpu")).verdict == "compatible" or "11.4" in text


def test_the_package_of_conda_for_gpus_needs_no_release() -> None:
    text = "channels: [conda-forge]\ndependencies: [python=3.11, pytorch-gpu]\n"
    assert judged(text, "environment.yml", Config(expect="gpu")).verdict == "compatible"


def test_a_constraint_counts_where_another_package_brings_what_it_bounds() -> None:
    for bound, package, verdict in (
        ("keras==2.15.0", "tensorflow==2.16.2", "incompatible"),
        ("keras==3.3.3", "tensorflow==2.16.2", "compatible"),
        ("numpy>=2", "tensorflow==2.15.1", "incompatible"),
        ("keras==2.15.0", "torch==2.4.0", "compatible"),
    ):
        files = {"constraints.txt": f"{bound}\n", "requirements.txt": f"{package}\n"}
        report = judged(
            f"-c constraints.txt\n{package}\n", "requirements.txt", None, **_named(files)
        )
        assert report.verdict == verdict
        image = "FROM python:3.11-slim-bookworm\nCOPY . .\nRUN pip install -c constraints.txt -r requirements.txt\n"
        assert judged(image, "Dockerfile", None, **_named(files)).verdict == verdict


def _named(files: dict[str, str]) -> dict[str, str]:
    return {name.replace(".", "__"): text for name, text in files.items()}


def test_an_upgrade_replaces_nvidias_build() -> None:
    image = "FROM nvcr.io/nvidia/pytorch:24.05-py3\nRUN pip install -U torch\n"
    messages = [item.message for item in judged(image).findings if item.severity == "warning"]
    assert any("NVIDIA's build" in message for message in messages)


def test_the_image_of_tensorflow_holds_the_cuda_of_its_build() -> None:
    image = "FROM tensorflow/tensorflow:2.14.0-gpu-jupyter\nRUN pip install tensorflow=={}\n"
    assert judged(image.format("2.14.1")).verdict == "compatible"
    report = judged(image.format("2.16.1"))
    assert [item.id for item in report.findings if item.severity == "error"] == [
        "framework-cuda-extra-missing"
    ]


def test_a_package_of_unknown_releases_brings_its_framework() -> None:
    text = "pytorch-lightning==1.9\ntorchmetrics\n"
    assert judged(text, "requirements.txt").verdict == "compatible"
    assert judged("lightning\ntorch==2.1.0\n", "requirements.txt").verdict == "compatible"
    report = judged("FROM python:3.6-slim\nRUN pip install --no-deps lightning\n")
    assert report.verdict == "undetermined"


def test_values_of_any_type_in_tables_end_nothing() -> None:
    for text in (
        '[[tool.uv.index]]\npriority = [1]\ninclude_packages = 3\n[project]\ndependencies = ["torch"]\n',
        "[tool.poetry.dependencies]\ntorch = [3, {version = [1], extras = 2, python = 3}]\n",
        "[tool.poetry]\ngroup = 3\nextras = {a = 3}\ndependencies = [1]\n",
    ):
        judged(text, "pyproject.toml")
    assert judged("torchvision===.19.0\n", "requirements.txt").verdict == "undetermined"


PIXI = """[workspace]
channels = ["conda-forge"]
platforms = ["linux-64"]
[dependencies]
python = "3.11.*"
{}
{}"""
DRIVER = '[system-requirements]\ncuda = "12"\n'


@pytest.mark.parametrize(
    ("stated", "more", "verdict", "found"),
    [
        ('pytorch-gpu = "2.5.*"', DRIVER, "compatible", ""),
        # pixi solves as if there were no driver, and pytorch-gpu requires one
        ('pytorch-gpu = "2.5.*"', "", "incompatible", "framework-cpu-build"),
        ('pytorch = {version = "2.5.*", build = "cuda*"}', DRIVER, "compatible", ""),
        (
            "[pypi-dependencies]\ntorch = '==2.5.1'\ntorchvision = '==0.19.0'",
            "",
            "incompatible",
            "dependency-conflict",
        ),
    ],
)
def test_the_tables_of_pixi(stated: str, more: str, verdict: str, found: str) -> None:
    report = judged(PIXI.format(stated, more), "pixi.toml", GPU)
    assert report.verdict == verdict, report.findings
    errors = [item.id for item in report.findings if item.severity == "error"]
    assert errors == [found] * bool(found)
    if found == "framework-cpu-build":
        assert report.findings[0].fix is not None
        assert '`[system-requirements] cuda = "12"`' in report.findings[0].fix.summary


def test_pixis_tables_in_a_pyproject() -> None:
    text = PIXI.format('pytorch-gpu = "2.5.*"', "")
    inside = text.replace("[workspace]", "[tool.pixi.workspace]")
    inside = inside.replace("[dependencies]", "[tool.pixi.dependencies]")
    report = judged('[project]\nname = "a"\n' + inside, "pyproject.toml", GPU)
    assert [item.id for item in report.findings if item.severity == "error"] == [
        "framework-cpu-build"
    ]

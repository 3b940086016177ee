"""Build information of frameworks; the files are members of published wheels."""

from __future__ import annotations

from pathlib import Path

import pytest

from envcheck.frameworks import Framework
from envcheck.frameworks.installed import (
    cuda_names,
    cudnn_required,
    literals,
    opened_names,
    parse_conda_build,
    parse_library_version,
)
from envcheck.frameworks.jax import parse_local_version
from envcheck.frameworks.tensorflow import parse_build_info
from envcheck.frameworks.torch import parse_version_file
from envcheck.model import Absent, Source
from tests.known import known

BUILDS = Path(__file__).parent / "data" / "builds"
MODERN = ["sm_60", "sm_70", "sm_80", "sm_89", "compute_90"]


def text(name: str) -> str:
    return (BUILDS / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "is_cuda", "cuda", "cudnn", "capabilities"),
    [
        ("tensorflow-gpu-1.12.0", True, "", "", None),
        ("tensorflow-gpu-1.13.2", True, "", "", None),
        ("tensorflow-gpu-1.14.0", True, "10.0", "7", None),
        ("tensorflow-gpu-1.15.5", True, "10", "7", None),
        ("tensorflow-2.0.0", False, "", "", None),
        ("tensorflow-gpu-2.0.0", True, "10", "7", None),
        ("tensorflow-2.1.4", True, "10.1", "7", None),
        ("tensorflow-2.2.3", True, "10", "7", None),
        (
            "tensorflow-2.3.4",
            True,
            "10.1",
            "7",
            ["sm_35", "sm_37", "sm_52", "sm_60", "sm_61", "compute_70"],
        ),
        (
            "tensorflow-2.3.0-win",
            True,
            "10.1",
            "7",
            ["sm_35", "sm_37", "sm_52", "sm_60", "sm_61", "compute_70"],
        ),
        (
            "tensorflow-2.4.4",
            True,
            "11.0",
            "8",
            ["sm_35", "sm_50", "sm_60", "sm_70", "sm_75", "compute_80"],
        ),
        (
            "tensorflow-2.10.1",
            True,
            "11.2",
            "8",
            ["sm_35", "sm_50", "sm_60", "sm_70", "sm_75", "compute_80"],
        ),
        (
            "tensorflow-2.10.1-win",
            True,
            "11.2",
            "8",
            ["sm_35", "sm_50", "sm_60", "sm_70", "sm_75", "compute_80"],
        ),
        (
            "tensorflow-2.15.1",
            True,
            "12.2",
            "8",
            ["sm_50", "sm_60", "sm_70", "sm_75", "compute_80"],
        ),
        ("tensorflow-cpu-2.15.1", False, "", "", None),
        ("tensorflow-2.21.0", True, "12.5.1", "9", MODERN),
    ],
)
def test_build_info(
    name: str, is_cuda: bool, cuda: str, cudnn: str, capabilities: list[str] | None
) -> None:
    info = parse_build_info(text(name + "-build_info"))
    assert info["is_cuda_build"] is is_cuda
    assert (info["cuda_version"], info["cudnn_version"]) == (cuda, cudnn)
    assert info.get("cuda_compute_capabilities") == capabilities


@pytest.mark.parametrize(
    ("name", "version", "cuda"),
    [
        ("torch-1.0.0", "1.0.0", "9.0.176"),
        ("torch-1.13.1", "1.13.1+cu117", "11.7"),
        ("torch-2.7.0", "2.7.0+cu126", "12.6"),
        ("torch-2.13.0+cpu", "2.13.0+cpu", None),
        ("torch-2.15.0", "2.15.0+cu132", "13.2"),
    ],
)
def test_torch_version_file(name: str, version: str, cuda: str | None) -> None:
    names = parse_version_file(text(name + "-version"))
    assert (names["__version__"], names["cuda"]) == (version, cuda)


def test_build_info_source_is_never_run(tmp_path: Path) -> None:
    evil = f"import os\nos.mkdir({str(tmp_path / 'ran')!r})\nx = os.mkdir({str(tmp_path / 'ran')!r})\ny = 1\n"
    assert literals(evil)["y"] == 1
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "bad", ["", "(", "build_info = f(x)", "build_info = 3", "build_info = [1, 2]", "\x00"]
)
def test_other_files_have_no_build_info(bad: str) -> None:
    assert "is_cuda_build" not in parse_build_info(bad)
    assert "cuda" not in parse_version_file(bad)


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        ("cuda112py39h4e9e4d0_0", {"cuda": "11.2"}),
        ("cuda102py37hc804c4d_0", {"cuda": "10.2"}),
        ("cuda92py36h7df1f0a_0", {"cuda": "9.2"}),
        ("cuda126_mkl_py312h1763f6d_301", {"cuda": "12.6"}),
        ("py3.11_cuda12.1_cudnn8.9.2_0", {"cuda": "12.1", "cudnn": "8.9.2"}),
        ("py3.8_cuda10.2_cudnn7.6.5_0", {"cuda": "10.2", "cudnn": "7.6.5"}),
        ("gpu_py37h57d29ca_0", {"cuda": ""}),
        ("mkl_py38hd9fbd2f_0", {"cpu": "mkl_py38hd9fbd2f_0"}),
        ("py3.9_cpu_0", {"cpu": "py3.9_cpu_0"}),
        ("cpu_generic_py311h_1", {"cpu": "cpu_generic_py311h_1"}),
        ("py312h7e5086c_0", {}),
        ("", {}),
    ],
)
def test_conda_build_strings(build: str, expected: dict[str, str]) -> None:
    assert parse_conda_build(build) == expected


def test_jax_versions() -> None:
    assert parse_local_version("0.4.13+cuda12.cudnn89") == ("12", "8.9")
    assert parse_local_version("0.3.25+cuda11.cudnn805") == ("11", "8.0.5")
    assert parse_local_version("0.1.75+cuda111") == ("11.1", "")
    assert parse_local_version("0.12.0") == (None, "")
    extra = 'nvidia-cudnn-cu13<10.0,>=9.12.0.46; sys_platform == "linux" and extra == "with-cuda"'
    assert cudnn_required(("jax-cuda13-pjrt==0.11.2", extra), ">=") == ("9.12.0.46", extra)
    assert cudnn_required(("numpy>=2",), ">=") == ("", "")


def test_library_names() -> None:
    needed = (
        "libcudart.so.12",
        "libcuda.so.1",
        "libnvidia-ml.so.1",
        "libnccl.so.2",
        "libc10.so",
        "libcudnn.so.9",
    )
    assert cuda_names(needed) == ("libcudart.so.12", "libnccl.so.2", "libcudnn.so.9")
    where = Source("file", "x")
    assert known(parse_library_version("/x/libcudart.so.12.4.127", where)) == "12.4.127"
    assert known(parse_library_version("/x/libcudart-9335f6a2.so.10.2", where)) == "10.2"
    assert isinstance(parse_library_version("/x/libcudart.so", where), Absent)


def test_names_follow_from_the_cuda_version() -> None:
    framework = Framework(
        "any", {"files": {"opens": ["cudart", "cusolver", "cudnn"], "opens_optionally": ["nccl"]}}
    )
    assert opened_names(framework, "12.5.1", "9") == (
        ("libcudart.so.12", True), ("libcusolver.so.11", True), ("libcudnn.so.9", True), ("libnccl.so.2", False),
    )  # fmt: skip
    assert [name for name, _ in opened_names(framework, "11.0", "8")][1] == "libcusolver.so.10"
    assert [name for name, _ in opened_names(framework, "11.2", "8")][1] == "libcusolver.so.11"
    assert opened_names(framework, "10.1", "7.6")[0] == ("libcudart.so.10.1", True)
    assert opened_names(framework, "99.1", "9") == ()
    assert opened_names(framework, "", "") == ()

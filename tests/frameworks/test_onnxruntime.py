"""ONNX Runtime: composed installed copies, rows that were read from published wheels, and models that it runs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from envcheck.frameworks import framework
from envcheck.host.limits import Limits
from envcheck.host.local import LocalHost
from envcheck.model import FrameworkBuild
from envcheck.probes.environment_choice import PythonSelection
from envcheck.probes.python import collect_python
from envcheck.smoke.devices import CPU_DEVICE, GPU, Device
from envcheck.smoke.runner import Task, run_job
from envcheck.smoke.session import Job, Subject
from tests.known import known
from tests.matrix.documents import document
from tests.needs import framework_python
from tests.probes.framework_stand_ins import cuda_library, library, metadata
from tests.probes.pythons import make_venv
from tests.smoke.children import CHILDREN, import_child

GPU_INFO = "package_name = 'onnxruntime-gpu'\n__version__ = '1.26.0'\ncuda_version = '12.8'\n"
CPU_INFO = "package_name = 'onnxruntime'\n__version__ = '1.26.0'\n"
EXTRA = 'Requires-Dist: nvidia-cudnn-cu12~=9.0; extra == "cudnn"'


def install(site: Path, name: str, info: str = "", *needed: str, requires: str = "") -> Path:
    """Install a stand-in whose CUDA provider, where something is needed, is a real ELF file."""
    capi = site / "onnxruntime/capi"
    capi.mkdir(parents=True, exist_ok=True)
    (site / "onnxruntime/__init__.py").touch()
    if info:
        (capi / "build_and_package_info.py").write_text(info, encoding="utf-8")
    metadata(site, name, "1.26.0", "onnxruntime", requires=requires)
    if needed:
        stubs = [cuda_library(site / "stubs", soname) for soname in needed]
        library(capi / "libonnxruntime_providers_cuda.so", *map(str, stubs))
    return capi


def builds(venv: Path) -> tuple[FrameworkBuild, ...]:
    return known(collect_python(LocalHost(), PythonSelection(env=str(venv))).frameworks)


@pytest.mark.needs("linux", "c-compiler")
def test_the_provider_tells_for_which_cuda_it_was_built(tmp_path: Path) -> None:
    site = make_venv(tmp_path / "v")
    install(site, "onnxruntime-gpu", "", "libcublasLt.so.11", "libcudnn.so.8", "libcudart.so.11.0")
    (build,) = builds(tmp_path / "v")
    assert (build.framework, build.distribution) == ("onnxruntime", "onnxruntime-gpu")
    assert [fact.value for fact in (build.cuda_build, build.cuda_version, build.cudnn_version)] == [
        True,
        "11",
        "8",
    ]
    assert [each.soname for each in known(build.libraries)] == [
        "libcublasLt.so.11",
        "libcudnn.so.8",
        "libcudart.so.11.0",
    ]
    assert not any(each.found.value is not None for each in known(build.libraries))


@pytest.mark.needs("linux", "c-compiler")
def test_its_own_text_tells_the_whole_version_and_its_extra_the_cudnn(tmp_path: Path) -> None:
    site = make_venv(tmp_path / "v")
    install(site, "onnxruntime-gpu", GPU_INFO, "libcudart.so.12", requires=EXTRA)
    (build,) = builds(tmp_path / "v")
    assert (build.cuda_version.value, build.cudnn_version.value) == ("12.8", "9")
    found = {each.soname: each.mandatory for each in known(build.libraries)}
    assert found == {"libcudart.so.12": True, "libcudnn.so.9": False}


@pytest.mark.needs("linux", "c-compiler")
@pytest.mark.parametrize(("last", "is_gpu"), [(GPU_INFO, True), (CPU_INFO, False)])
def test_of_two_in_one_folder_the_one_installed_last_is_told(
    tmp_path: Path, last: str, is_gpu: bool
) -> None:
    site = make_venv(tmp_path / "v")
    install(site, "onnxruntime-gpu", GPU_INFO, "libcudart.so.12")
    install(site, "onnxruntime", last)
    (build,) = builds(tmp_path / "v")
    assert build.distribution == ("onnxruntime-gpu" if is_gpu else "onnxruntime")
    assert build.cuda_build.value is is_gpu


@pytest.mark.needs("linux")
def test_what_has_no_provider_is_a_build_for_the_cpu(tmp_path: Path) -> None:
    site = make_venv(tmp_path / "v")
    install(site, "onnxruntime", CPU_INFO)
    (build,) = builds(tmp_path / "v")
    assert build.cuda_build.value is False
    (site / "onnxruntime/capi/build_and_package_info.py").unlink()
    (site / "onnxruntime/capi").rmdir()
    (damaged,) = builds(tmp_path / "v")
    assert "capi is missing" in getattr(damaged.cuda_build, "detail", "")


# -- rows of the matrix, read from published wheels --


def row(
    version: str, platform: str = "linux_x86_64", distribution: str = "onnxruntime-gpu"
) -> dict[str, Any]:
    rows: list[dict[str, Any]] = document()["releases"]["onnxruntime"][version]
    return next(
        item
        for item in rows
        if (item["distribution"], item["platform"]) == (distribution, platform)
    )


@pytest.mark.parametrize(
    ("version", "platform", "cuda", "cudnn", "tier"),
    [
        # its provider needs libcudart.so.11.0 and libcudnn.so.8
        ("1.18.1", "linux_x86_64", "11", "8", "tier2"),
        ("1.18.1", "win_amd64", "11.8", "8", "tier1"),  # version_info.py
        ("1.20.2", "linux_x86_64", "12", "9", "tier2"),
        ("1.26.0", "linux_x86_64", "12.8", "9", "tier1"),  # build_and_package_info.py
        ("1.31.1", "linux_aarch64", "13.0", "9", "tier1"),
    ],
)
def test_rows_say_for_which_cuda_and_how_that_is_known(
    version: str, platform: str, cuda: str, cudnn: str, tier: str
) -> None:
    found = row(version, platform)
    assert (found["cuda_build"], found["cuda"], found["cudnn"]) == (True, cuda, cudnn)
    assert found["proof"].get("cuda", found["proof"]["*"]) == tier
    assert found["compute_capabilities"]


def test_rows_name_the_extras_that_bring_cuda() -> None:
    found = row("1.23.2")
    assert (found["extras"], found["gpu_extra"], found["finds_cuda_wheels"]) == (
        ["cuda", "cudnn"],
        "cuda,cudnn",
        False,
    )
    assert "nvidia-cudnn-cu12~=9.0" in found["cuda_wheels"]
    assert "preload_dlls()" in found["note"]
    assert "gpu_extra" not in row("1.20.2")
    assert row("1.32.0", distribution="onnxruntime")["cuda_build"] is False


@pytest.mark.parametrize(
    ("needed", "cells"),
    [
        (
            ["libcudart.so.11.0", "libcudnn.so.8", "libnvinfer.so.8"],
            {"cuda": "11", "cudnn": "8", "tensorrt": "8"},
        ),
        (["cudart64_110.dll", "cudnn64_8.dll"], {"cuda": "11", "cudnn": "8"}),
        (
            ["cudart64_12.dll", "cudnn64_9.dll", "nvinfer_10.dll"],
            {"cuda": "12", "cudnn": "9", "tensorrt": "10"},
        ),
        (["libcublas.so.13", "libnvinfer_plugin.so.10"], {}),
    ],
)
def test_majors_follow_from_what_providers_need(needed: list[str], cells: dict[str, str]) -> None:
    assert framework("onnxruntime").binary_cells({"provider": {"needed": needed}}) == cells


# -- models, and the real one --


def test_the_line_that_lists_gpus_holds_the_model_of_the_smoke_test(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = import_child(monkeypatch, "check_onnxruntime").product_model(1, 1, 1).hex()
    assert f"bytes.fromhex('{model}')" in framework("onnxruntime").plans.gpu_listing


@pytest.mark.needs("onnxruntime")
def test_the_models_are_what_onnx_runtime_reads() -> None:
    code = f"""
import json, sys
sys.path.append({str(CHILDREN)!r})
import numpy as np, onnxruntime as ort
import check_onnxruntime as check
engine = check.Engine()
engine.load()
shapes = []
for kind in ("float32", "float16"):
    session = ort.InferenceSession(check.product_model(200, 3, 129, kind), providers=[check.CPU])
    shapes += [[each.name, each.type, each.shape] for each in (*session.get_inputs(), *session.get_outputs())]
found, place = engine.product("CPU:0", check.LEFT, check.RIGHT)
print(json.dumps([shapes, found.tolist(), place]))
"""
    argv = [framework_python("onnxruntime"), "-I", "-c", code]
    said = subprocess.run(argv, capture_output=True, text=True, timeout=50, check=True).stdout
    shapes, found, place = json.loads(said)
    assert shapes[:3] == [
        ["a", "tensor(float)", [200, 3]],
        ["b", "tensor(float)", [3, 129]],
        ["c", "tensor(float)", [200, 129]],
    ]
    assert {kind for _, kind, _ in shapes[3:]} == {"tensor(float16)"}
    assert (found, place) == ([[22.0, 28.0], [49.0, 64.0]], "CPU:0")


@pytest.mark.needs("onnxruntime")
def test_a_build_without_the_provider_is_named_where_a_gpu_is_tested(tmp_path: Path) -> None:
    task = Task(framework_python("onnxruntime"), "quick", str(tmp_path), {}, Limits(55.0, 4 << 30))
    gpu = run_job(task, Job(Subject("onnxruntime"), Device(GPU, "GPU 0", "0", 1)), lambda *_: None)
    assert [(item.check, item.outcome, item.finding) for item in gpu.bad] == [
        ("devices", "failed", "framework-cpu-build")
    ]
    cpu = run_job(task, Job(Subject("onnxruntime"), CPU_DEVICE), lambda *_: None)
    assert (cpu.outcome, [item.ran_on for item in cpu.results][-1]) == ("passed", "CPU:0")


def test_a_profile_tells_where_nodes_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    place_of = import_child(monkeypatch, "check_onnxruntime").place_of

    def ran(*nodes: tuple[str, str]) -> list[dict[str, Any]]:
        events = [
            {"cat": "Node", "args": {"op_name": name, "provider": f"{who}ExecutionProvider"}}
            for name, who in nodes
        ]
        return [{"cat": "Session"}, {"cat": "Node", "args": {}}, *events]

    assert place_of(ran(("MatMul", "CUDA"), ("Cast", "CPU")), "GPU:1") == "GPU:1"
    assert place_of(ran(("MatMul", "CPU")), "GPU:0") == "CPU:0"
    assert place_of(ran(("MatMul", "CUDA"), ("Conv", "CPU")), "GPU:0") == "CPU:0+GPU:0"
    assert place_of(ran(("MatMul", "Tensorrt")), "GPU:0") == "TensorrtExecutionProvider"
    assert place_of([], "CPU:0") == "no device its profile names"

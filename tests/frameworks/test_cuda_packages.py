"""Packages that compute with CUDA by themselves: what is planned, what an installed copy is for, what a test says."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from envcheck.host.local import LocalHost
from envcheck.model import Absent, FrameworkBuild, RequestError
from envcheck.probes.environment_choice import PythonSelection
from envcheck.probes.python import collect_python
from envcheck.rules import Context, Target, evaluate
from envcheck.rules.described_machine import Description
from tests.frameworks.test_onnxruntime import builds
from tests.known import known
from tests.plan.machines import chosen, machine, matrix, planned
from tests.probes.framework_stand_ins import cuda_library, library, metadata
from tests.probes.pythons import make_venv
from tests.rules.factory_machine import driver as driver_facts
from tests.rules.factory_toolkit import SITE, findings, lookup, torch
from tests.rules.factory_toolkit import known as known_fact
from tests.rules.factory_toolkit import machine as judged_machine
from tests.smoke.children import Heard, import_child

NEW, OLD = "580.95.05", "570.195.03"  # drivers that run CUDA 13, and CUDA 12 at most


@pytest.mark.parametrize(
    ("text", "on", "requirement"),
    [
        ("cupy", machine("3.12", NEW, "8.9"), "cupy-cuda13x[ctk]==14.2.0"),
        ("cupy", machine("3.12", OLD, "8.9"), "cupy-cuda12x[ctk]==14.2.0"),
        ("cupy", machine("3.12", NEW, "7.0"), "cupy-cuda12x[ctk]==14.2.0"),  # CUDA 13 dropped Volta
        ("cupy", machine("3.12", "470.256.02", "7.5"), "cupy-cuda11x==13.6.0"),
        ("cupy<14", machine("3.12", NEW, "8.9"), "cupy-cuda13x==13.6.0"),
        ("cupy-cuda12x", machine("3.14", NEW, "8.9", "linux_aarch64"), "cupy-cuda12x[ctk]==14.2.0"),
        ("cupy", machine("3.13", "580.88", "8.6", "win_amd64"), "cupy-cuda13x[ctk]==14.2.0"),
        ("cudf", machine("3.12", NEW, "8.9"), "cudf-cu13==26.10.2"),
        ("cudf", machine("3.12", NEW, "7.0"), "cudf-cu12==26.10.2"),
        ("cuml", machine("3.12", OLD, "8.9"), "cuml-cu12==26.10.0"),
        ("ctranslate2", machine("3.12", OLD, "8.9"), "ctranslate2==4.8.5"),
        ("numba-cuda", machine("3.14", NEW, "8.9"), "numba-cuda[cu13]==0.30.4"),
        ("numba-cuda", machine("3.12", OLD, "8.9"), "numba-cuda[cu12]==0.30.4"),
        ("numba-cuda", machine("3.12", NEW, "7.0"), "numba-cuda[cu12]==0.30.4"),
        ("numba-cuda[cu12]", machine("3.12", NEW, "8.9"), "numba-cuda[cu12]==0.30.4"),
    ],
)
def test_the_distribution_is_the_one_for_the_driver_and_the_gpu(
    text: str, on: Description, requirement: str
) -> None:
    assert chosen(planned(text, on=on)).requirement == requirement


@pytest.mark.parametrize(
    ("text", "on", "reason"),
    [
        ("cupy-cuda13x", machine("3.12", OLD, "8.9"), "needs driver >= 580.65.06"),
        (
            "cudf-cu12",
            machine("3.12", NEW, "6.0"),
            "the documents of cudf-cu12 26.10.2 ask for 7.0 or newer",
        ),
        ("numba-cuda[cu13]", machine("3.12", OLD, "8.9"), "needs driver >= 580.65.06"),
        ("cupy", machine("3.12"), "CuPy computes on NVIDIA GPUs only."),
        ("cupy", machine("3.7", NEW, "8.9"), "Python"),
    ],
)
def test_what_cannot_be_has_its_reason(text: str, on: Description, reason: str) -> None:
    plan = planned(text, on=on)
    assert not plan.releases
    assert reason in plan.rejected[0].why


@pytest.mark.parametrize(
    ("texts", "requirements"),
    [
        # it names what NumPy 2.5 removed
        (("numba-cuda",), ("numba-cuda[cu12]==0.30.4", "numpy<2.5")),
        (("numba-cuda<0.30.4",), ("numba-cuda[cu12]==0.30.3", "numba<0.66")),
        # opened by name
        (("cupy<14",), ("cupy-cuda12x==13.6.0", "nvidia-cublas-cu12", "nvidia-cuda-nvrtc-cu12")),
        (("ctranslate2",), ("ctranslate2==4.8.5", "nvidia-cublas-cu12")),
        (
            ("ctranslate2<4.6.3",),
            ("ctranslate2==4.6.2", "nvidia-cublas-cu12", "nvidia-cudnn-cu12==9.*"),
        ),
        (
            ("torch", "cupy"),
            ("cupy-cuda12x[ctk]==14.2.0", "cuda-toolkit==12.6.*"),
        ),  # what torch pins
    ],
)
def test_what_else_must_be_there_comes_with_it(
    texts: tuple[str, ...], requirements: tuple[str, ...]
) -> None:
    (made,) = planned(*texts, on=machine("3.12", OLD, "8.9")).environments
    assert made.sets[-1].requirements[: len(requirements)] == requirements
    assert bool(made.library_folders) is not requirements[0].startswith(
        ("cupy-cuda12x[ctk]", "numba-cuda")
    )


def install(site: Path, name: str, needed: str, requires: str = "") -> None:
    """Install a stand-in of CuPy, over what is there, whose library needs a real ELF file."""
    (site / "cupy").mkdir(exist_ok=True)
    (site / "cupy/__init__.py").touch()
    metadata(site, name, "14.2.0", "cupy", requires=requires)
    stub = cuda_library(site / "stubs", needed)
    library(site / "cupy_backends/cuda/libs/cublas.cpython-312-x86_64-linux-gnu.so", str(stub))


def lookups(build: FrameworkBuild) -> dict[str, bool]:
    return {
        item.soname: item.found.value is not None
        for item in known(build.libraries)
        if item.mandatory
    }


def test_what_is_judged_alone_is_refused_by_its_name() -> None:
    with pytest.raises(
        RequestError,
        match=r"plans no release of tensorrt.*pip install tensorrt-cu13 where .*pypi\.nvidia\.com",
    ):
        planned("tensorrt", on=machine("3.12", NEW, "8.9"))


def test_what_has_an_index_by_cuda_and_needs_no_framework_is_refused_with_that_index_and_its_build() -> (
    None
):
    index = r"llama-cpp-python==0\.3\.35 --extra-index-url https://abetlen\.github\.io/llama-cpp-python/whl/cu132\."
    with pytest.raises(
        RequestError, match=rf"{index} `CMAKE_ARGS=-DGGML_CUDA=on pip install llama-cpp-python`"
    ):
        planned("llama-cpp-python", on=machine("3.12", NEW, "8.9"))


def test_an_installed_numba_cuda_is_for_cuda_and_does_not_say_which(tmp_path: Path) -> None:
    site = make_venv(tmp_path / "v")
    metadata(site, "numba-cuda", "0.30.4", "numba_cuda")
    (build,) = builds(tmp_path / "v")
    assert (build.framework, build.cuda_build.value, build.cuda_version.value) == (
        "numba-cuda",
        True,
        None,
    )


@pytest.mark.needs("linux", "c-compiler")
def test_its_file_says_for_which_cuda_it_is_and_of_two_which_came_last(tmp_path: Path) -> None:
    site = make_venv(tmp_path / "v")
    install(site, "cupy-cuda13x", "libcublas.so.13")
    (build,) = builds(tmp_path / "v")
    assert (build.framework, build.distribution, build.cuda_version.value) == (
        "cupy",
        "cupy-cuda13x",
        "13",
    )
    assert lookups(build) == {"libcublas.so.13": False, "libnvrtc.so.13": False}
    install(site, "cupy-cuda12x", "libcublas.so.12")
    (build,) = builds(tmp_path / "v")
    assert (build.distribution, build.cuda_version.value) == ("cupy-cuda12x", "12")


@pytest.mark.needs("linux", "c-compiler")
@pytest.mark.parametrize("requires", ["", "Requires-Dist: cuda-pathfinder==1.*,>=1.3.4"])
def test_only_what_has_cuda_pathfinder_finds_nvidias_wheels(tmp_path: Path, requires: str) -> None:
    site = make_venv(tmp_path / "v")
    install(site, "cupy-cuda12x", "libcublas.so.12", requires)
    cuda_library(site / "nvidia/cublas/lib", "libcublas.so.12")
    cuda_library(site / "nvidia/cuda_nvrtc/lib", "libnvrtc.so.12")
    (build,) = builds(tmp_path / "v")
    assert set(lookups(build).values()) == {bool(requires)}


@pytest.mark.needs("linux", "c-compiler")
@pytest.mark.parametrize(
    ("release", "renamed", "part"),
    [
        ("4.4.0", "libcudnn-463fd6d5.so.8.9.7", "libcudnn_ops_infer.so.8"),
        ("4.5.0", "libcudnn-74a4c495.so.9.1.0", "libcudnn_ops.so.9"),
        ("4.8.5", "", ""),
    ],
)
def test_a_cudnn_beside_the_file_opens_its_parts_by_name(
    tmp_path: Path, release: str, renamed: str, part: str
) -> None:
    site = make_venv(tmp_path / "v")
    (site / "ctranslate2").mkdir()
    metadata(site, "ctranslate2", release, "ctranslate2")
    beside = [str(cuda_library(site / "ctranslate2.libs", renamed))] if renamed else []
    library(site / f"ctranslate2.libs/libctranslate2-bc15bf3f.so.{release}", *beside)
    (build,) = builds(tmp_path / "v")
    assert lookups(build) == {"libcublas.so.12": False, **({part: False} if part else {})}
    assert build.cudnn_version.value == (part.rpartition(".")[2] or None)


HIDDEN = f"{SITE}/nvidia/cudnn/lib/libcudnn_ops.so.9"


@pytest.mark.parametrize(
    ("found", "elsewhere", "expected"),
    [
        ("", (), [("cudnn-missing", "warning")]),
        ("", (HIDDEN,), [("cuda-wheel-not-found", "warning")]),
        (HIDDEN, (), []),
    ],
)
def test_the_parts_of_cudnn_are_found_by_the_loader(
    found: str, elsewhere: Any, expected: list[tuple[str, str]]
) -> None:
    needed = lookup("libcudnn_ops.so.9", found, *elsewhere, version=known_fact("9"))
    given = FrameworkBuild(
        "ctranslate2",
        "ctranslate2",
        "4.5.0",
        SITE,
        cuda_build=known_fact(True),
        libraries=known_fact((needed,)),
    )
    ids = ("cudnn-missing", "cuda-wheel-not-found", "cudnn-wrong-major")
    report = [item for each in ids for item in findings(judged_machine(given), each)]
    assert [(item.id, item.severity) for item in report] == expected


@pytest.mark.needs("linux")
def test_a_copy_without_its_libraries_is_damaged(tmp_path: Path) -> None:
    site = make_venv(tmp_path / "v")
    (site / "cupy").mkdir()
    metadata(site, "cupy-cuda12x", "14.2.0", "cupy")
    (build,) = known(
        collect_python(LocalHost(), PythonSelection(env=str(tmp_path / "v"))).frameworks
    )
    assert "none of its libraries is there" in getattr(build.cuda_build, "detail", "")


@pytest.mark.parametrize(
    ("driver", "kept"), [(OLD, "cupy-cuda12x==14.2.0"), (NEW, "cupy-cuda13x==14.2.0")]
)
def test_of_two_the_one_for_the_driver_is_kept(driver: str, kept: str) -> None:
    both = judged_machine(distributions=dict.fromkeys(("cupy-cuda12x", "cupy-cuda13x"), "14.2.0"))
    (found,) = findings(replace(both, driver=driver_facts(driver)), "framework-duplicate-dists")
    assert found.fix is not None
    assert found.fix.summary.endswith(f"then install only {kept}.")


class CudaRuntimeError(RuntimeError):
    """What CuPy raises."""


class Array:
    """A matrix on a stand-in GPU."""

    def __init__(self, rows: Any, device: int = 0) -> None:
        self.rows, self.device = rows, SimpleNamespace(id=device)

    def __matmul__(self, other: Array) -> Array:
        """Multiply."""
        columns = list(zip(*other.rows))
        return Array(
            [[sum(a * b for a, b in zip(row, column)) for column in columns] for row in self.rows]
        )

    def get(self) -> Any:
        """Copy to the host."""
        return SimpleNamespace(tolist=lambda: self.rows)


class FakeDevice:
    """A context that selects a GPU."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __enter__(self) -> None:
        """Select it."""

    def __exit__(self, *_: object) -> None:
        """Select the one before."""


def cupy(monkeypatch: pytest.MonkeyPatch, gpus: int, error: str = "") -> Any:
    """Put a stand-in of CuPy in place, and return the engine that tests it."""

    def count() -> int:
        if error:
            raise CudaRuntimeError(error)
        return gpus

    runtime = SimpleNamespace(
        CUDARuntimeError=CudaRuntimeError,
        getDeviceCount=count,
        driverGetVersion=lambda: 0,
        getDeviceProperties=lambda _: {"name": b"stand-in"},
    )
    made = SimpleNamespace(
        __version__="14.2.0",
        cuda=SimpleNamespace(runtime=runtime, Device=FakeDevice),
        asarray=lambda rows, _: Array(rows),
    )
    monkeypatch.setitem(sys.modules, "cupy", made)
    return import_child(monkeypatch, "check_cupy").Engine()


def test_it_multiplies_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard("0", "quick")
    assert cupy(monkeypatch, 1).run(heard.report) is not None
    assert heard.outcomes == {"import": "passed", "devices": "passed", "matmul": "passed"}
    assert heard.results["matmul"]["ran_on"] == "GPU:0"


def test_without_a_gpu_it_says_what_cupy_says_and_claims_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = (
        "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version"
    )
    heard = Heard("cpu", "quick")
    assert cupy(monkeypatch, 0, said).run(heard.report) is None
    assert heard.outcomes == {"import": "skipped"}
    assert heard.results["import"]["message"].endswith(f"{said} (no NVIDIA driver is loaded)")


@pytest.mark.parametrize(("others", "severity"), [((), "error"), ((torch("2.5.1"),), "warning")])
def test_without_a_gpu_it_has_nothing_to_compute_on(
    others: tuple[FrameworkBuild, ...], severity: str
) -> None:
    cupy = FrameworkBuild("cupy", "cupy-cuda12x", "14.2.0", SITE, cuda_build=known_fact(True))
    facts = replace(judged_machine(*others, cupy), gpus=Absent(("/sys/bus/pci/devices",)))
    report = evaluate(Context(facts, matrix(), Target("auto")), frozenset({"gpu-absent"}))
    assert [(item.severity, item.message) for item in report.findings] == [
        (
            severity,
            "cupy-cuda12x 14.2.0 can compute on NVIDIA GPUs only, and this machine has none.",
        )
    ]

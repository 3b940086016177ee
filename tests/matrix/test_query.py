"""Query the matrix; a missing row is None, never a neighbour."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from envcheck.frameworks import all_frameworks, framework_names
from envcheck.matrix import Matrix, load_matrix
from tests.matrix.documents import Document, changed_copy

MATRIX = load_matrix()
LINUX = "linux_x86_64"


def test_release_of_the_usual_distribution() -> None:
    row = MATRIX.release("tensorflow", "2.15.1", LINUX)
    assert row
    assert (row.distribution, row.cuda, row.cudnn, row.gpu_extra) == (
        "tensorflow",
        "12.2",
        "8.9",
        "and-cuda",
    )
    assert row.pythons == ("3.9", "3.10", "3.11")
    assert row.compute_capabilities == ("sm_50", "sm_60", "sm_70", "sm_75", "compute_80")
    assert "nvidia-cudnn-cu12==8.9.4.25" in row.cuda_wheels
    assert row.finds_cuda_wheels
    assert row.proof["cuda"] == "tier1"
    assert row.proof["finds_cuda_wheels"] == "tier2"
    assert row.citations[0].url_or_artifact.startswith("tensorflow-2.15.1-cp")
    assert "sha256 " in row.citations[0].locator


def test_trailing_zeros_do_not_matter() -> None:
    assert MATRIX.release("tensorflow", "2.15", LINUX) == MATRIX.release(
        "tensorflow", "2.15.0", LINUX
    )
    assert MATRIX.release("jax", "0.12.0.0", LINUX) == MATRIX.release("jax", "0.12.0", LINUX)


@pytest.mark.parametrize(
    ("framework", "version", "platform", "distribution"),
    [
        ("tensorflow", "2.99.0", LINUX, None),
        ("tensorflow", "2.15.1", "win32", None),
        ("tensorflow", "2.15.1", LINUX, "tensorflow-gpu"),
        ("torch", "1.12.0+cu113", LINUX, None),
        ("mxnet", "1.9.1", LINUX, None),
        ("tensorflow", "", LINUX, None),
    ],
)
def test_what_the_matrix_lacks_is_none(
    framework: str, version: str, platform: str, distribution: str | None
) -> None:
    assert MATRIX.release(framework, version, platform, distribution) is None


def test_cells_that_do_not_apply() -> None:
    row = MATRIX.release("tensorflow", "2.0.0", LINUX)
    assert row
    assert (row.cuda_build, row.cuda, row.cudnn, row.compute_capabilities, row.gpu_extra) == (
        False,
        None,
        None,
        (),
        None,
    )


def test_gpu_distribution_by_name() -> None:
    row = MATRIX.release("tensorflow", "2.0.0", LINUX, "tensorflow-gpu")
    assert row
    assert (row.cuda, row.cudnn) == ("10.0", "7.4")


def test_wheels_for_any_platform_answer_for_each() -> None:
    row = MATRIX.release("jax", "0.7.2", "macosx_arm64")
    assert row
    assert (row.platform, row.extras) == ("any", ("cuda12", "cuda13"))


def test_releases_come_newest_first() -> None:
    versions = [row.version for row in MATRIX.releases("tensorflow", LINUX)]
    assert versions[0] == "2.21.0"
    assert versions.index("2.10.1") < versions.index("2.9.3")
    assert len(MATRIX.releases("tensorflow")) > len(versions)
    assert MATRIX.releases("mxnet") == ()


def test_distributions() -> None:
    assert MATRIX.judged() == framework_names()
    assert set(MATRIX.frameworks()) == {
        item.name for item in all_frameworks() if item.wheels.distributions
    }
    assert MATRIX.distributions("tensorflow")[:2] == ("tensorflow", "tensorflow-gpu")
    assert MATRIX.distributions("mxnet") == ()
    assert MATRIX.framework_of("jax-cuda12-plugin") == "jax"
    assert MATRIX.framework_of("numpy") == ""
    assert MATRIX.module_of("tensorflow-cpu") == "tensorflow"
    assert MATRIX.module_of("jaxlib") == "jaxlib"
    assert MATRIX.module_of("numpy") == ""
    assert MATRIX.checked >= "2026-11-20"


def test_removed_distribution() -> None:
    row = MATRIX.removed_distribution("tensorflow-gpu")
    assert row
    assert (row.last_versions["win_amd64"], row.replacement) == ("2.10.1", "tensorflow[and-cuda]")
    assert MATRIX.removed_distribution("tensorflow") is None


def test_toolkit_accepts_a_patch_level() -> None:
    row = MATRIX.toolkit("12.6.77")
    assert row
    assert (row.version, row.min_driver_linux, row.minor_floor_linux, row.gcc_max) == (
        "12.6",
        "560.28.03",
        "525.60.13",
        "13",
    )
    assert MATRIX.toolkit("12.7") is None
    assert MATRIX.toolkit("12") is None


def test_sonames() -> None:
    assert MATRIX.cuda_sonames("11.8")["cudart"] == "libcudart.so.11.0"
    assert MATRIX.cuda_sonames("11.0.3")["cusolver"] == "libcusolver.so.10"
    assert MATRIX.cuda_sonames("12.5.1")["nvJitLink"] == "libnvJitLink.so.12"
    assert MATRIX.cuda_sonames("10.1")["cublas"] == "libcublas.so.10"
    assert MATRIX.cuda_sonames("9.0")["cudart"] == "libcudart.so.9.0"
    assert "nvJitLink" not in MATRIX.cuda_sonames("11.8")
    assert MATRIX.cuda_sonames("12.7") == {}
    holding = [
        row.version for row in MATRIX.toolkits() if row.sonames.get("cudart") == "libcudart.so.11.0"
    ]
    assert MATRIX.toolkits_with("cudart", "libcudart.so.11.0") == tuple(holding)
    assert (holding[0], holding[-1]) == ("11.8", "11.0")
    assert MATRIX.toolkits_with("cudart", "libcudart.so.99") == ()
    assert MATRIX.cudnn_soname("8.9.7.29") == "libcudnn.so.8"
    assert MATRIX.cudnn_soname("99.0") is None


def test_driver_branch() -> None:
    row = MATRIX.driver_branch("550.163.01")
    assert row
    assert (row.branch, row.cuda, row.compute_capability_min) == ("550", "12.4", "5.0")
    assert MATRIX.driver_branch("551.61") is None
    kept = MATRIX.driver_branch("470.256.02")
    assert kept
    assert kept.compute_capability_min == "3.0"


def test_cudnn_per_cuda_major_and_joined() -> None:
    joined = MATRIX.cudnn("9.12.0.46")
    for_13 = MATRIX.cudnn("9.12", "13")
    assert joined
    assert for_13
    assert (joined.cuda_major, joined.cuda[0], joined.cuda[-1], joined.min_driver) == (
        None,
        "12.0",
        "13.0",
        "525.60.13",
    )
    assert (for_13.cuda_major, for_13.cuda, for_13.min_driver) == ("13", ("13.0",), "580.65.06")
    assert MATRIX.cudnn("9.12", "11") is None
    assert MATRIX.cudnn("9.999") is None


@pytest.mark.parametrize(
    ("version", "oldest"), [("8.7", "3.0"), ("8.8", "5.0"), ("9.10.2.21", "5.0"), ("9.11", "7.5")]
)
def test_cudnn_drops_architectures(version: str, oldest: str) -> None:
    row = MATRIX.cudnn(version)
    assert row
    assert row.compute_capability_min == oldest


def test_architecture() -> None:
    ada = MATRIX.architecture("8.9")
    assert ada
    assert (ada.name, ada.first_toolkit, ada.last_toolkit, ada.kernel_module) == (
        "Ada",
        "11.8",
        None,
        "either",
    )
    pascal = MATRIX.architecture("6.1")
    assert pascal
    assert (pascal.last_toolkit, pascal.last_driver_branch, pascal.kernel_module) == (
        "12.9",
        "580",
        "proprietary",
    )
    assert MATRIX.architecture("9.9") is None


def problem_ids(distribution: str, version: str, stage: str = "run") -> set[str]:
    return {row.id for row in MATRIX.problems(distribution, version, stage)}


def test_problems_by_release_and_stage() -> None:
    assert problem_ids("tensorflow", "2.16.1") == {"tf-2.16.1-runpath", "tf-2.6-2.20-setuptools-82"}
    assert "tf-2.16.1-runpath" not in problem_ids("tensorflow", "2.16.2")
    assert problem_ids("tensorflow", "2.15.0", "install") >= {"tf-2.15.0-and-cuda"}
    assert "tf-2.21-tensorboard" in problem_ids("tensorflow", "2.21.0", "advice")
    assert problem_ids("numpy", "2.0.0") == set()
    assert problem_ids("tensorflow", "not a version") == set()


def test_problem_is_about_the_distribution_asked_for() -> None:
    rows = MATRIX.problems("tensorflow-cpu", "2.9.0")
    protobuf = next(row for row in rows if row.finding == "protobuf-conflict")
    assert (protobuf.distribution, protobuf.condition, protobuf.fix) == (
        "tensorflow-cpu",
        "protobuf>=3.21",
        "protobuf<3.20",
    )


DELETIONS: list[tuple[Callable[[Document], object], Callable[[Matrix], object]]] = [
    (
        lambda d: d["releases"]["tensorflow"].pop("2.21.0"),
        lambda m: m.release("tensorflow", "2.21.0", LINUX),
    ),
    (lambda d: d["toolkits"].pop("12.6"), lambda m: m.toolkit("12.6.77")),
    (lambda d: d["toolkits"].pop("12.6"), lambda m: m.cuda_sonames("12.6") or None),
    (lambda d: d["toolkits"].clear(), lambda m: m.toolkits() or None),
    (lambda d: d["drivers"].pop("550"), lambda m: m.driver_branch("550.163.01")),
    (lambda d: d["cudnn"].pop("9.1"), lambda m: m.cudnn("9.1.0.70")),
    (lambda d: d["cudnn"].pop("9.1"), lambda m: m.cudnn_soname("9.1.0.70")),
    (lambda d: d["architectures"].pop("8.9"), lambda m: m.architecture("8.9")),
    (
        lambda d: d["removed"].pop("tensorflow-gpu"),
        lambda m: m.removed_distribution("tensorflow-gpu"),
    ),
]


@pytest.mark.parametrize(("delete", "ask"), DELETIONS)
def test_a_deleted_row_is_none(
    delete: Callable[[Document], object], ask: Callable[[Matrix], object]
) -> None:
    assert ask(MATRIX) is not None
    document = changed_copy()
    delete(document)
    assert ask(Matrix(document)) is None

"""Machine code, PTX and GPUs: what serves what, and what the matrix rows decide."""

from __future__ import annotations

import re
from typing import Any

import pytest

from envcheck.actions import action_line
from envcheck.model import ERROR, INCOMPATIBLE, NOTE, UNDETERMINED, WARNING, Distribution
from envcheck.model.fixes import AvoidReportedFailure
from envcheck.rules.context import UndecidedError
from envcheck.rules.gpu_architecture import cuda_of_ptx
from envcheck.rules.gpu_releases import JIT, NATIVE, NONE, coverage, parse_target
from tests.rules.factory_machine import NONE as ABSENT
from tests.rules.factory_machine import UNREAD, build, context, gpu, known, only, run

TEGRA = ("5.3", "6.2", "7.2", "8.7")
NEW, OLD = "gpu-arch-too-new", "gpu-arch-too-old"
HOPPER = ("NVIDIA H100 80GB HBM3", "9.0")
BLACKWELL = ("NVIDIA GeForce RTX 5090", "12.0")


@pytest.mark.parametrize(
    ("targets", "capability", "served"),
    [
        (("sm_86",), "8.9", NATIVE),
        (("sm_89",), "9.0", NONE),
        (("sm_80",), "8.6", NATIVE),
        (("sm_86",), "8.0", NONE),
        (("sm_90a",), "9.0", NATIVE),
        (("sm_100a",), "10.3", NONE),
        (("sm_100f",), "10.3", NATIVE),
        (("sm_120",), "12.1", NATIVE),
        (("compute_70",), "12.0", JIT),
        (("compute_90a",), "12.0", NONE),
        (("compute_100f",), "12.0", NONE),
        (("compute_90",), "8.9", NONE),
        (("sm_80",), "8.7", NONE),
        (("sm_87",), "8.7", NATIVE),
        (("sm_87",), "8.9", NONE),
        (("compute_80",), "8.7", JIT),
        (("sm_70", "compute_70"), "7.5", NATIVE),
    ],
)
def test_what_serves_what(targets: tuple[str, ...], capability: str, served: str) -> None:
    parsed = [target for target in map(parse_target, targets) if target]
    assert coverage(parsed, capability, TEGRA.__contains__) == served


def test_targets_are_read_strictly() -> None:
    assert parse_target("sm_120") == parse_target("sm_120")
    assert parse_target("sm_ab") is None
    assert parse_target("8.6") is None


def torch(capabilities: Any, cuda: str = "12.6") -> Any:
    return build(
        "9.9.9", cuda_build=known(True), cuda_version=known(cuda), compute_capabilities=capabilities
    )


def test_native_code_is_no_finding() -> None:
    judged = context(
        gpu("NVIDIA GeForce RTX 4090", "8.9"), builds=(torch(known(("sm_80", "sm_86"))),)
    )
    assert run(NEW, judged) == []
    assert run(OLD, judged) == []


def test_a_gpu_newer_than_the_build() -> None:
    found = only(NEW, context(gpu(*BLACKWELL), builds=(build("2.6.0"),)))
    assert (found.verdict, found.severity) == (INCOMPATIBLE, ERROR)
    assert found.fix is not None
    assert "torch 2.8.0" in found.fix.summary
    assert [bool(item.citation) for item in found.evidence] == [False, True, True]


def test_a_gpu_the_build_dropped() -> None:
    judged = context(gpu("Tesla V100-SXM2-16GB", "7.0"), builds=(build("2.12.0"),))
    found = only(OLD, judged)
    assert found.severity == ERROR
    assert found.fix is not None
    assert "the newest build with machine code for compute capability 7.0" in found.fix.summary
    assert "/cu126 torch==" in action_line(found.fix.actions[-1])
    assert run(NEW, judged) == []


def test_only_ptx_is_a_slow_start() -> None:
    found = only(NEW, context(gpu(*HOPPER), builds=(build("2.15.0", "tensorflow"),)))
    assert found.severity == WARNING
    assert "first start is slow" in found.message


def test_known_trouble_with_ptx_is_told() -> None:
    found = only(NEW, context(gpu(*BLACKWELL), builds=(build("2.19.0", "tensorflow"),)))
    assert (
        "CUDA_ERROR_INVALID_PTX and CUDA_ERROR_INVALID_HANDLE as soon as it computes"
        in found.message
    )
    assert isinstance(found.cure, AvoidReportedFailure)
    assert "nvcr.io/nvidia/tensorflow" in found.cure.sentence


def test_an_embedded_gpu_is_not_called_newer_than_code_for_later_ones() -> None:
    found = only(NEW, context(gpu("Orin", "8.7"), builds=(build("2.20.0", "tensorflow"),)))
    assert "which is not served by tensorflow 2.20.0" in found.message
    assert "Machine code for cards does not run on embedded parts such as Jetson" in found.message


def test_ptx_does_not_help_where_it_is_forbidden() -> None:
    host = {"environment": known({"CUDA_DISABLE_PTX_JIT": "1"})}
    assert (
        only(
            NEW, context(gpu(*HOPPER), host=host, builds=(build("2.15.0", "tensorflow"),))
        ).severity
        == ERROR
    )


@pytest.mark.parametrize(
    ("version", "card"),
    [
        ("2.10.1", ("NVIDIA A100", "8.0")),
        ("2.15.0", ("RTX 4090", "8.9")),
        ("2.20.0", HOPPER),
        ("2.16.1", HOPPER),
    ],
)
def test_what_tensorflow_calls_compute_is_machine_code_too(
    version: str, card: tuple[str, str]
) -> None:
    assert run(NEW, context(gpu(*card), builds=(build(version, "tensorflow"),))) == []


def test_ptx_does_not_help_where_the_cuda_libraries_are_too_old() -> None:
    found = only(
        NEW, context(gpu("GeForce RTX 3090", "8.6"), builds=(build("2.3.0", "tensorflow"),))
    )
    assert found.severity == ERROR
    assert "CUDA 10.1" in found.message


def test_the_toolkit_decides_where_the_targets_are_not_known() -> None:
    old = torch(UNREAD, "10.2")
    assert only(NEW, context(gpu("GeForce RTX 3090", "8.6"), builds=(old,))).severity == ERROR
    dropped = torch(UNREAD, "12.6")
    assert only(OLD, context(gpu("Tesla K80", "3.7"), builds=(dropped,))).severity == ERROR
    same_major = torch(UNREAD, "13.0")
    assert "12.9" in only(OLD, context(gpu("Tesla V100", "7.0"), builds=(same_major,))).message


def test_targets_not_known_of_a_fitting_toolkit_are_a_note() -> None:
    found = run(NEW, context(gpu(), builds=(torch(UNREAD),)))
    assert [(item.id, item.verdict, item.severity) for item in found] == [
        ("release-unknown", UNDETERMINED, NOTE)
    ]


def test_targets_not_known_of_a_doubtful_toolkit_are_undetermined() -> None:
    with pytest.raises(UndecidedError, match="has code for"):
        run(NEW, context(gpu(*BLACKWELL), builds=(torch(UNREAD, "12.6"),)))
    with pytest.raises(UndecidedError, match="has code for"):
        run(
            NEW,
            context(gpu(), builds=(build("9.9.9", cuda_build=known(True), cuda_version=ABSENT),)),
        )
    with pytest.raises(UndecidedError, match="has code for"):
        run(NEW, context(gpu(), builds=(torch(ABSENT, "12.6"),), without=("toolkits", "12.6")))


def test_a_served_gpu_beside_makes_it_a_warning() -> None:
    judged = context(gpu(), gpu(*BLACKWELL, index=1), builds=(build("2.6.0"),))
    assert only(NEW, judged).severity == WARNING


def test_a_jetson_needs_its_own_code() -> None:
    found = only(NEW, context(gpu("Orin", "8.7"), builds=(build("2.12.0"),)))
    assert found.severity == ERROR
    assert run(OLD, context(gpu("Orin", "8.7"), builds=(build("2.12.0"),))) == []


def test_a_deleted_architecture_row_is_release_unknown() -> None:
    found = run(NEW, context(gpu(), builds=(build(),), without=("architectures", "8.0")))
    assert [(item.id, item.severity) for item in found] == [("release-unknown", ERROR)]


def test_cpu_builds_are_not_judged() -> None:
    assert (
        run(NEW, context(gpu(*BLACKWELL), builds=(build("2.6.0", cuda_build=known(False)),))) == []
    )


def test_a_capability_comes_from_the_product_where_no_driver_told_it() -> None:
    named = gpu("RTX 3090", compute_capability=UNREAD)
    assert only(NEW, context(named, builds=(build("1.7.0"),))).severity == ERROR
    with pytest.raises(UndecidedError, match="compute_capability"):
        run(NEW, context(gpu("Nobody's card", compute_capability=UNREAD), builds=(build("1.7.0"),)))
    with pytest.raises(UndecidedError, match="compute_capability"):
        run(NEW, context(gpu(name=UNREAD, compute_capability=UNREAD), builds=(build(),)))
    by_id = gpu(pci_id=known("2b85"), compute_capability=UNREAD)
    assert only(NEW, context(by_id, builds=(build("2.6.0"),)))
    assert run(NEW, context(gpu(capability=None), builds=(build("2.6.0"),))) == []


def with_package(name: str, version: str, *gpus: Any, torch: str) -> Any:
    beside = (Distribution("torch", torch), Distribution(name, version))
    return context(*gpus, builds=(build(torch),), distributions=beside)


@pytest.mark.parametrize(
    ("name", "version", "card", "torch", "found"),
    [
        ("vllm", "0.33.0", ("Tesla V100", "7.0"), "2.10.0+cu126", (OLD, ERROR)),
        ("vllm", "0.33.0", ("Tesla T4", "7.5"), "2.14.0", None),
        ("xformers", "0.0.35", ("Tesla P100", "6.0"), "2.10.0+cu126", (OLD, ERROR)),
        ("xformers", "0.0.35", BLACKWELL, "2.10.0", None),  # PTX of it is compiled
        # the matrix does not hold it
        ("xformers", "0.0.1", ("Tesla P100", "6.0"), "2.10.0+cu126", None),
    ],
)
def test_a_package_without_code_for_a_gpu_that_its_framework_serves(
    name: str, version: str, card: tuple[str, str], torch: str, found: tuple[str, str] | None
) -> None:
    judged = with_package(name, version, gpu(*card), torch=torch)
    items = [
        (item.id, item.severity) for finding_id in (OLD, NEW) for item in run(finding_id, judged)
    ]
    assert items == [found] * (found is not None)


def test_a_package_is_not_blamed_where_its_framework_lacks_the_code_too() -> None:
    finding = only(OLD, with_package("vllm", "0.33.0", gpu("Tesla V100", "7.0"), torch="2.14.0"))
    assert "torch 2.14.0" in finding.message


def test_the_release_of_a_package_with_code_for_the_gpu_is_named() -> None:
    judged = with_package("xformers", "0.0.35", gpu("Tesla P100", "6.0"), torch="2.10.0+cu126")
    fix = only(OLD, judged).fix
    assert fix is not None
    assert re.match(
        r"Install xformers==0\.0\.\S+, with the releases that it requires: ", fix.summary
    )


def test_no_release_left_is_said() -> None:
    fix = only(OLD, context(gpu("GeForce GTX 580", "2.0"), builds=(build("2.12.0"),))).fix
    assert fix is not None
    assert "No torch wheel" in fix.summary


@pytest.mark.parametrize(
    ("framework", "version", "cuda"),
    [
        ("tensorflow", "2.16.2", ""),
        ("tensorflow", "2.17.0", "12.3"),
        ("tensorflow", "2.18.1", "12.3"),
        ("tensorflow", "2.19.0", "12.5"),
        ("torch", "2.19.0", ""),
    ],
)
def test_some_kernels_of_some_releases_are_ptx_alone(
    framework: str, version: str, cuda: str
) -> None:
    assert cuda_of_ptx(framework, version) == cuda

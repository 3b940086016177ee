"""Is the cuDNN a build loads there, of its major, new enough, for this GPU, for its CUDA, and the one meant?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from envcheck.model import Absent, FrameworkBuild
from tests.rules.factory_toolkit import (
    HANGS,
    NONE,
    SITE,
    cudnn,
    findings,
    judged,
    known,
    lookup,
    machine,
    tensorflow,
    torch,
)
from tests.typed import argv

IDS = (
    "cudnn-missing",
    "cudnn-wrong-major",
    "cudnn-too-old",
    "cudnn-too-new",
    "cudnn-wrong-cuda-build",
    "cudnn-shadowed",
)
UNLISTED = ("release-unknown", "undetermined", "error")
UNREAD = ("probe-failed", "undetermined", "error")
WHEEL = f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9"


def error(name: str) -> list[tuple[str, str, str]]:
    return [(f"cudnn-{name}", "incompatible", "error")]


def loads(version: str, path: str = "/usr/lib/libcudnn.so.8", **more: Any) -> Any:
    """Return TensorFlow 2.13.1 (CUDA 11.8, cuDNN 8.6) that loads this cuDNN."""
    soname = f"libcudnn.so.{version.partition('.')[0]}"
    told = known(version) if version.count(".") else HANGS
    return tensorflow("2.13.1", lookup(soname, path, version=told, **more))


def test_none_at_all() -> None:
    gone = tensorflow("2.13.1", lookup("libcudnn.so.8"))
    assert judged(machine(gone), *IDS) == error("missing")
    assert judged(machine(tensorflow("2.13.1")), *IDS) == error("missing")


def test_nothing_needs_it() -> None:
    assert judged(machine(), *IDS) == []
    assert judged(machine(tensorflow("2.13.1", lookup("libcudart.so.11.0"))), *IDS) == []
    assert judged(machine(tensorflow("2.13.1", cuda_build=known(False))), *IDS) == []
    assert judged(machine(torch()), *IDS) == []
    unknown = tensorflow("2.99.0", cuda_build=known(True))
    assert judged(machine(unknown), *IDS) == [], "no version to compare with: other rules say that"


def test_a_link_that_leads_nowhere_is_none() -> None:
    dangling = replace(
        cudnn("8.9.2"), library_path=Absent(("/usr/lib/libcudnn.so.8 -> libcudnn.so.8.9.2",))
    )
    gone = tensorflow("2.13.1", lookup("libcudnn.so.8"))
    assert judged(machine(gone, copies=(dangling,)), *IDS) == error("missing")


def test_unreached_and_wheel_copies_are_not_missing() -> None:
    assert (
        judged(
            machine(
                tensorflow("2.13.1", lookup("libcudnn.so.8", "", "/opt/cuda/lib64/libcudnn.so.8"))
            ),
            *IDS,
        )
        == []
    )
    assert judged(machine(torch("2.5.1", lookup("libcudnn.so.9"))), *IDS) == [], (
        "its wheel is missing"
    )


def test_another_major() -> None:
    gone = tensorflow("2.13.1", lookup("libcudnn.so.8"))
    assert judged(machine(gone, copies=(cudnn("9.1.0"),)), *IDS) == error("wrong-major")
    assert judged(machine(tensorflow("2.13.1"), copies=(cudnn("7.6.5"),)), *IDS) == error(
        "wrong-major"
    )


@pytest.mark.parametrize(
    ("version", "expected"), [("8.5.0", "too-old"), ("8.6.0", ""), ("8.9.7", "")]
)
def test_the_minor_it_was_compiled_with(version: str, expected: str) -> None:
    wanted = error(expected) if expected else []
    assert judged(machine(loads(version)), *IDS) == wanted
    assert judged(machine(tensorflow("2.13.1"), copies=(cudnn(version),)), *IDS) == wanted


def test_the_row_tells_the_minor_where_the_files_tell_the_major() -> None:
    build = replace(
        loads("8.2.4"), cudnn_version=known("8"), cuda_build=known(True), cuda_version=known("11.8")
    )
    assert judged(machine(build), *IDS) == error("too-old")


def test_a_version_that_could_not_be_read() -> None:
    assert judged(machine(loads("8")), *IDS) == [UNREAD]
    assert judged(machine(tensorflow("2.13.1"), copies=HANGS), *IDS) == [UNREAD]
    hangs = tensorflow("2.13.1", replace(lookup("libcudnn.so.8"), found=HANGS))
    assert judged(machine(hangs), *IDS) == [UNREAD]


def test_the_package_tells_what_the_file_name_does_not() -> None:
    copy = cudnn(
        "8", package_version=known("8.2.4.15-1"), library_path=known("/usr/lib/libcudnn.so.8.2.4")
    )
    assert judged(machine(loads("8"), copies=(copy,)), *IDS) == error("too-old")


@pytest.mark.parametrize(
    ("version", "capability", "expected"),
    [("9.10.2", "7.0", ""), ("9.11.0", "7.0", "too-new"), ("9.11.0", "7.5", "")],
)
def test_a_cudnn_that_dropped_the_gpu(version: str, capability: str, expected: str) -> None:
    build = torch("2.5.1", lookup("libcudnn.so.9", WHEEL, version=known(version), via="runpath"))
    assert judged(machine(build, capability=capability), *IDS) == (
        error(expected) if expected else []
    )


def test_one_of_two_gpus_dropped_is_a_warning() -> None:
    facts = machine(torch("2.5.1", lookup("libcudnn.so.9", WHEEL, version=known("9.11.0"))))
    old, new = machine(capability="7.0").gpus, machine(capability="9.0").gpus
    both = known((*getattr(old, "value", ()), *getattr(new, "value", ())))
    assert judged(replace(facts, gpus=both), *IDS) == [("cudnn-too-new", "incompatible", "warning")]


def test_a_cudnn_for_another_cuda() -> None:
    copy = cudnn("8.9.7", cuda="12")
    assert judged(
        machine(loads("8.9.7", "/usr/lib/libcudnn.so.8.9.7"), copies=(copy,)), *IDS
    ) == error("wrong-cuda-build")
    assert judged(machine(tensorflow("2.13.1"), copies=(copy,)), *IDS) == error("wrong-cuda-build")
    assert judged(machine(tensorflow("2.13.1"), copies=(cudnn("8.9.7", cuda="11"),)), *IDS) == []


def test_what_cudnn_itself_asks_for_tells_its_cuda() -> None:
    own = lookup("libcudnn.so.8", "/usr/lib/libcudnn.so.8.9.7", version=known("8.9.7"))
    foreign = lookup("libcublasLt.so.12", needed_by="/usr/lib/libcudnn.so.8.9.7")
    assert judged(machine(tensorflow("2.13.1", own, foreign)), *IDS) == error("wrong-cuda-build")
    there = replace(foreign, found=known("/usr/lib/libcublasLt.so.12"))
    assert judged(machine(tensorflow("2.13.1", own, there)), *IDS) == []


def test_a_right_copy_behind_a_wrong_one() -> None:
    build = torch(
        "2.5.1",
        lookup(
            "libcudnn.so.9",
            "/opt/c/lib/libcudnn.so.9.0.0",
            WHEEL,
            version=known("9.0.0"),
            via="LD_LIBRARY_PATH",
        ),
    )
    assert judged(machine(build, distributions={"nvidia-cudnn-cu12": "9.1.0.70"}), *IDS) == error(
        "shadowed"
    )
    assert judged(machine(build), *IDS) == error("shadowed"), "torch brings its own"
    right = cudnn("8.9.7", "/opt/right", cuda="11")
    assert judged(machine(loads("8.2.4"), copies=(right,)), *IDS) == error("shadowed")


def test_another_major_is_no_right_copy_and_shadows_nothing() -> None:
    assert judged(machine(loads("8.2.4"), copies=(cudnn("9.1.0", "/opt/nine"),)), *IDS) == error(
        "too-old"
    )
    ahead = {"LD_LIBRARY_PATH": "/opt/c/lib"}
    assert (
        judged(machine(torch(), copies=(cudnn("8.0.3", "/opt/c"),), environment=ahead), *IDS) == []
    )
    assert judged(
        machine(torch(), copies=(cudnn("9.0.0", "/opt/c"),), environment=ahead), *IDS
    ) == error("shadowed")


def test_a_newer_copy_ahead_is_fine() -> None:
    build = torch(
        "2.5.1",
        lookup(
            "libcudnn.so.9",
            "/opt/c/lib/libcudnn.so.9.5.0",
            WHEEL,
            version=known("9.5.0"),
            via="LD_LIBRARY_PATH",
        ),
    )
    assert judged(machine(build), *IDS) == []


@pytest.mark.parametrize(
    ("folder", "expected"), [("/opt/c/lib", "warning"), ("/opt/other/lib", "")]
)
def test_a_copy_ahead_of_a_bundled_one_of_unknown_version(folder: str, expected: str) -> None:
    facts = machine(
        torch("1.12.0"), copies=(cudnn("8.0.3", "/opt/c"),), environment={"LD_LIBRARY_PATH": folder}
    )
    wanted = [("cudnn-shadowed", "incompatible", expected)] if expected else []
    assert judged(facts, *IDS) == wanted


def test_a_cudnn_newer_than_the_matrix() -> None:
    build = torch("2.5.1", lookup("libcudnn.so.9", WHEEL, version=known("9.5.1")))
    assert judged(machine(build), *IDS) == []
    assert judged(machine(build), *IDS, without=("cudnn", "9.5")) == [UNLISTED]


def test_a_wheel_tells_its_version() -> None:
    build = torch("2.5.1", lookup("libcudnn.so.9", WHEEL, version=HANGS))
    assert judged(machine(build, distributions={"nvidia-cudnn-cu12": "9.0.0.312"}), *IDS) == error(
        "too-old"
    )


@pytest.mark.parametrize(
    ("kind", "word"), [("venv", "nvidia-cudnn-cu11>=8.6,<9"), ("conda", "cudnn=8.6")]
)
def test_the_fix(kind: str, word: str) -> None:
    found = findings(machine(tensorflow("2.13.1"), copies=NONE, kind=kind), *IDS)[0]
    assert found.fix is not None
    assert word in {part for command in found.fix.actions for part in argv(command)}
    old = findings(machine(tensorflow("2.1.0")), *IDS)[0]
    assert old.fix is not None
    assert not any("nvidia-cudnn" in part for action in old.fix.actions for part in argv(action)), (
        "none for CUDA 10"
    )


@pytest.mark.parametrize(
    ("wheel", "capability", "expected"),
    [
        ("9.14.0.64", "6.1", error("too-new")),  # the last for Pascal is 9.10
        ("9.10.2.21", "6.1", []),
        ("9.14.0.64", "8.6", []),
        ("8.9.2.26", "6.1", []),  # bears another name: the loader passes it by
    ],
)
def test_the_wheel_stands_for_what_was_not_read(wheel: str, capability: str, expected: Any) -> None:
    build = torch("2.7.1+cu126")
    facts = machine(build, distributions={"nvidia-cudnn-cu12": wheel}, capability=capability)
    assert judged(facts, *IDS) == expected


def test_another_cuda_is_wrong_even_where_the_release_is_not_known() -> None:
    build = FrameworkBuild(
        "jax", "jaxlib", "0.4.11+cuda11.cudnn86", SITE, cudnn_version=known("8.6")
    )
    facts = machine(build, copies=(cudnn("8.9.2.26", cuda="12"),))
    assert judged(facts, *IDS) == error("wrong-cuda-build")
    unsaid = replace(build, version="0.4.11+cuda11", cudnn_version=HANGS)
    assert judged(machine(unsaid, copies=(cudnn("8.9.2.26", cuda="12"),)), *IDS) == error(
        "wrong-cuda-build"
    )
    assert judged(machine(unsaid), *IDS) == []

"""Rules about a release: does it exist here, for this Python, as a GPU build."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from envcheck.model import NOT_STATED, Absent, DriverFacts, Fact, Facts, Unknown
from envcheck.rules import evaluate
from tests.rules.factory_python import (
    UNREADABLE,
    build,
    context,
    distribution,
    edited_matrix,
    facts,
    findings,
    found,
    known,
    without_release,
)
from tests.typed import argvs

UNDECIDED = [("probe-failed", "error")]
WINDOWS: dict[str, Any] = {"host": {"os": known("windows")}, "architecture": known("AMD64")}
ARM: dict[str, Any] = {"host": {"architecture": known("aarch64")}, "architecture": known("aarch64")}


def with_driver(given: Facts, release: str) -> Facts:
    return replace(given, driver=DriverFacts(release=known(release)))


def commands(rule_id: str, given: Facts, *requirements: str) -> list[str]:
    judged = context(given, *requirements)
    fix = findings(rule_id, judged)[0].fix
    assert fix is not None
    return [" ".join(words) for words in argvs(fix.actions, judged.os)]


def test_python_unsupported() -> None:
    newer = facts(version=known("3.13.1"))
    report = findings("python-unsupported", context(newer, "tensorflow==2.18.0"))
    assert [(item.id, item.severity) for item in report] == [("python-unsupported", "error")]
    assert "3.9, 3.10, 3.11, 3.12" in report[0].message
    assert commands("python-unsupported", newer, "tensorflow==2.18.0") == [
        "python3.12 -m venv .venv-3.12",
        ".venv-3.12/bin/python -m pip install tensorflow==2.18.0",
    ]
    assert (
        found("python-unsupported", context(facts(version=known("3.12.1")), "tensorflow==2.18.0"))
        == []
    )
    assert (
        found("python-unsupported", context(facts(version=UNREADABLE), "tensorflow==2.18.0"))
        == UNDECIDED
    )
    assert (
        found(
            "python-unsupported",
            context(facts(build("torch", "2.8.0"), version=UNREADABLE), "torch"),
        )
        == []
    )


def test_python_unsupported_ways_out() -> None:
    conda = facts(version=known("3.13.1"), kind=known("conda"))
    assert commands("python-unsupported", conda, "tensorflow==2.18.0") == [
        "conda create -n py312 python=3.12"
    ]
    windows = facts(version=known("3.13.1"), **WINDOWS)
    assert (
        commands("python-unsupported", windows, "tensorflow==2.18.0")[0]
        == "py -3.12 -m venv .venv-3.12"
    )
    free_threaded = facts(version=known("3.12.1"), abi_tag=known("cp312t"))
    assert (
        "(free-threaded)"
        in findings("python-unsupported", context(free_threaded, "torch"))[0].message
    )


def test_python_unsupported_by_what_a_release_asks_for() -> None:
    given = facts(version=known("3.11.1"))
    assert found("python-unsupported", context(given, "tensorflow[and-cuda]==2.14.0")) == [
        ("python-unsupported", "error")
    ]
    assert found("python-unsupported", context(given, "tensorflow==2.14.0")) == []


def test_package_removed() -> None:
    assert found("framework-package-removed", context(facts(), "tensorflow-gpu")) == [
        ("framework-package-removed", "error")
    ]
    assert commands("framework-package-removed", facts(), "tensorflow-gpu")[0].endswith(
        "install tensorflow[and-cuda]"
    )
    on_cpu = facts(gpus=Absent(("PCI",)))
    assert commands("framework-package-removed", on_cpu, "tensorflow-gpu")[0].endswith(
        "install tensorflow"
    )
    old = facts(version=known("3.10.1"))
    assert found("framework-package-removed", context(old, "tensorflow-gpu==2.10.1")) == []
    elsewhere = findings("framework-package-removed", context(facts(**ARM), "tensorflow-gpu"))
    assert "last real release" not in elsewhere[0].message


def test_release_unknown() -> None:
    unknown = [("release-unknown", "error")]
    assert found("release-unknown", context(facts(), "torch>=99")) == unknown
    assert found("release-unknown", context(facts(build("torch", "99.0")))) == unknown
    assert found("release-unknown", context(facts(build("torch", "2.8.0")))) == []
    assert found("release-unknown", context(facts(build("torch", "2.8.0+cu126")))) == []
    report = evaluate(
        context(facts(build("torch", "2.8.0")), rows=without_release("torch", "2.8.0")),
        frozenset({"release-unknown"}),
    )
    assert report.verdict == "undetermined"


def test_deleted_rows_leave_nothing_to_cite() -> None:
    def edit(document: Any) -> None:
        document["releases"]["torch"] = {}

    assert found("release-unknown", context(facts(), "torch", rows=edited_matrix(edit))) == [
        ("release-unknown", "error")
    ]
    # PyTorch's own index may serve what the matrix does not hold.
    assert (
        found(
            "platform-no-gpu-wheel",
            context(
                facts(build("torch", "2.8.0", cuda_build=known(False))), rows=edited_matrix(edit)
            ),
        )
        == []
    )


@pytest.mark.parametrize(
    ("version", "name", "where", "expected"),
    [
        ("2.11.0", "tensorflow", WINDOWS, True),
        ("2.10.1", "tensorflow", WINDOWS, False),
        ("2.19.0", "tensorflow", ARM, True),
        ("2.15.1", "tensorflow-cpu", {}, False),
        ("2.15.1", "tensorflow", {}, False),
    ],
)
def test_platform_without_gpu_wheel(
    version: str, name: str, where: dict[str, Any], expected: bool
) -> None:
    given = facts(build("tensorflow", version, name), **where)
    assert found("platform-no-gpu-wheel", context(given)) == (
        [("platform-no-gpu-wheel", "error")] if expected else []
    )
    assert found("platform-no-gpu-wheel", context(given, expect="cpu")) == []


def test_what_breaks_the_framework_comes_before_a_gpu_that_nobody_speaks_of() -> None:
    release = build("tensorflow", "2.15.0", "tensorflow-intel")
    installed = (distribution("tensorflow-intel", "2.15.0"), distribution("numpy", "2.0.2"))
    given = facts(release, distributions=installed, gpus=NOT_STATED, **WINDOWS)
    assert found("platform-no-gpu-wheel", context(given)) == [("platform-no-gpu-wheel", "warning")]
    report = evaluate(context(given))
    assert (report.verdict, report.findings[0].id) == ("incompatible", "numpy-abi")

    graver = [("platform-no-gpu-wheel", "error")]
    assert found("platform-no-gpu-wheel", context(given, expect="gpu")) == graver
    assert (
        found(
            "platform-no-gpu-wheel",
            context(replace(given, driver=DriverFacts(release=known("551.61")))),
        )
        == graver
    )
    assert (
        found("platform-no-gpu-wheel", context(facts(release, distributions=installed, **WINDOWS)))
        == graver
    )
    fitting = (installed[0], distribution("numpy", "1.26.4"))
    assert (
        found(
            "platform-no-gpu-wheel",
            context(facts(release, distributions=fitting, gpus=NOT_STATED, **WINDOWS)),
        )
        == graver
    )


def test_platform_of_a_framework_whose_files_do_not_tell() -> None:
    jax = facts(build("jax", "0.4.6"), **WINDOWS)
    assert found("platform-no-gpu-wheel", context(jax)) == [("platform-no-gpu-wheel", "error")]
    unread = facts(build("tensorflow", "99.0", cuda_build=UNREADABLE), **WINDOWS)
    assert found("platform-no-gpu-wheel", context(unread)) == UNDECIDED
    built = facts(build("tensorflow", "2.19.0", cuda_build=known(True)), **ARM)
    assert found("platform-no-gpu-wheel", context(built)) == []
    conda = (distribution("tensorflow", "2.11.0", installer="conda"),)
    assert (
        found(
            "platform-no-gpu-wheel",
            context(facts(build("tensorflow", "2.11.0"), distributions=conda, **WINDOWS)),
        )
        == []
    )


def test_release_newer_than_the_matrix_counts_as_its_newest() -> None:
    here = facts(build("tensorflow", "99.0", cuda_build=known(False)))
    assert found("platform-no-gpu-wheel", context(here)) == []
    assert found("framework-cpu-build", context(here)) == [("framework-cpu-build", "error")]


def test_platform_without_any_wheel() -> None:
    musl = facts(host={"libc_kind": known("musl"), "libc_version": known("1.2")})
    report = findings("platform-no-gpu-wheel", context(musl, "torch", expect="cpu"))
    assert [(item.id, item.severity) for item in report] == [("platform-no-gpu-wheel", "error")]
    assert "musl" in report[0].message
    assert found("platform-no-gpu-wheel", context(facts(**ARM), "tensorflow==1.15.2")) == [
        ("platform-no-gpu-wheel", "error")
    ]


def test_extra_that_does_not_resolve_here() -> None:
    given = context(facts(**ARM), "tensorflow[and-cuda]==2.17.0")
    assert ("platform-no-gpu-wheel", "error") in found("platform-no-gpu-wheel", given)


CPU = known(False)


@pytest.mark.parametrize(
    ("gpus", "expect", "expected"),
    [
        (None, "auto", [("framework-cpu-build", "error")]),
        (None, "gpu", [("framework-cpu-build", "error")]),
        (None, "cpu", []),
        (Absent(("PCI",)), "auto", []),
        (Absent(("PCI",)), "gpu", []),
        (UNREADABLE, "auto", [("framework-cpu-build", "error")]),
    ],
)
def test_cpu_build(gpus: Fact[Any] | None, expect: str, expected: list[tuple[str, str]]) -> None:
    given = facts(build("tensorflow", "2.15.1", "tensorflow-cpu"), gpus=gpus)
    assert found("framework-cpu-build", context(given, expect=expect)) == expected


def test_cpu_build_boundaries() -> None:
    assert found("framework-cpu-build", context(facts(build("tensorflow", "2.15.1")))) == []
    assert (
        found("framework-cpu-build", context(facts(build("torch", "99.0", cuda_build=UNREADABLE))))
        == UNDECIDED
    )
    assert (
        found("framework-cpu-build", context(facts(frameworks=Unknown("timeout", "slow"))))
        == UNDECIDED
    )
    assert (
        found(
            "framework-cpu-build", context(facts(build("jax", "0.4.31", "jaxlib", cuda_build=CPU)))
        )
        == []
    )
    beside = facts(
        build("torch", "2.8.0", cuda_build=known(True)),
        build("tensorflow", "2.15.1", "tensorflow-cpu"),
    )
    assert found("framework-cpu-build", context(beside)) == [("framework-cpu-build", "warning")]
    assert found("framework-cpu-build", context(beside, "tensorflow-cpu")) == [
        ("framework-cpu-build", "error")
    ]


@pytest.mark.parametrize(
    ("version", "name", "driver", "python", "expected"),
    [
        ("2.15.1", "tensorflow-cpu", "550.163.01", "3.11.7", "tensorflow[and-cuda]==2.15.1"),
        ("2.15.0", "tensorflow-cpu", "550.163.01", "3.11.7", "tensorflow[and-cuda]==2.15.1"),
        ("2.0.0", "tensorflow", "550.163.01", "3.7.9", "tensorflow-gpu==2.0.0"),
        ("2.15.1", "tensorflow-cpu", "470.256.02", "3.9.18", "tensorflow==2.13.1"),
    ],
)
def test_gpu_release_for_this_driver_and_python(
    version: str, name: str, driver: str, python: str, expected: str
) -> None:
    given = with_driver(
        facts(build("tensorflow", version, name, cuda_build=CPU), version=known(python)), driver
    )
    typed = commands("framework-cpu-build", given)[-1]
    last = typed.split()[-1]
    # the newest that driver 470 reaches under minor-version compatibility
    if expected == "tensorflow==2.13.1":
        assert last.startswith("tensorflow")
        assert "and-cuda]==2.15" not in last
    else:
        assert last == expected


@pytest.mark.parametrize(
    ("version", "driver", "ending"),
    [
        (
            "2.8.0+cpu",
            "550.163.01",
            "--index-url https://download.pytorch.org/whl/cu129 torch==2.8.0",
        ),
        (
            "2.7.1+cpu",
            "470.256.02",
            "--index-url https://download.pytorch.org/whl/cu118 torch==2.7.1",
        ),
        ("1.9.0", "550.163.01", "whl/cu129 "),
        ("2.8.0+cpu", "470.256.02", "--index-url https://download.pytorch.org/whl/cu118 torch=="),
    ],
)
def test_torch_from_its_own_index(version: str, driver: str, ending: str) -> None:
    given = with_driver(facts(build("torch", version, cuda_build=CPU)), driver)
    typed = commands("framework-cpu-build", given)[-1]
    assert "--force-reinstall" in typed
    assert ending in typed or (version == "1.9.0" and "download.pytorch.org/whl/cu1" in typed)


def test_no_gpu_release_fits() -> None:
    ancient = with_driver(
        facts(build("tensorflow", "2.15.1", "tensorflow-cpu"), version=known("3.11.7")), "304.137"
    )
    assert commands("framework-cpu-build", ancient) == []
    torch = with_driver(facts(build("torch", "2.8.0+cpu", cuda_build=CPU)), "304.137")
    assert commands("framework-cpu-build", torch) == []
    conda = (distribution("torch", "1.9.0", installer="conda"),)
    by_conda = facts(build("torch", "1.9.0", cuda_build=CPU), distributions=conda)
    assert commands("framework-cpu-build", by_conda) == [
        "conda install -c conda-forge pytorch=*=cuda*"
    ]
    odd = with_driver(facts(build("torch", "2.8.0+cpu", cuda_build=CPU)), "unreadable")
    assert commands("framework-cpu-build", odd)
    windows = with_driver(facts(build("torch", "2.8.0+cpu", cuda_build=CPU), **WINDOWS), "560.70")
    assert "torch==2.8.0" in commands("framework-cpu-build", windows)[-1]


def test_a_free_threaded_python_is_told_of_wheels_for_it_and_takes_those_without_compiled_code() -> (
    None
):
    free_threaded = facts(version=known("3.14.1"), abi_tag=known("cp314t"))
    assert found("python-unsupported", context(free_threaded, "jax==0.12.0.1")) == []
    (told,) = findings("python-unsupported", context(free_threaded, "tensorflow==2.21.0"))
    assert told.message.endswith(
        "2.21.0 has wheels for the regular builds of 3.10, 3.11, 3.12, 3.13."
    )
    no_such_build = facts(version=known("3.12.1"), abi_tag=known("cp312t"))
    (told,) = findings("python-unsupported", context(no_such_build, "torch==2.14.0"))
    assert told.message.endswith("3.14 and the free-threaded of 3.14.")

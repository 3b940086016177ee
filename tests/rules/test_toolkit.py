"""Is the CUDA Toolkit a build loads there: by what the loader finds, or by versions alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envcheck.model import Unknown
from tests.rules.factory_toolkit import (
    HANGS,
    NONE,
    SITE,
    findings,
    judged,
    known,
    lookup,
    machine,
    tensorflow,
    toolkit,
    torch,
)
from tests.typed import argv

IDS = ("toolkit-missing", "toolkit-wrong-version")
MISSING = ("toolkit-missing", "incompatible", "error")
WRONG = ("toolkit-wrong-version", "incompatible", "error")
UNREAD = ("probe-failed", "undetermined", "error")
UNLISTED = ("release-unknown", "undetermined", "error")


def test_a_build_without_toolkit_and_without_wheels() -> None:
    assert judged(machine(tensorflow()), *IDS) == [MISSING]
    assert judged(machine(tensorflow("2.11.0", lookup("libcudart.so.11.0"))), *IDS) == [MISSING]


def test_wheels_need_no_toolkit() -> None:
    assert judged(machine(torch(), tensorflow("2.18.0")), *IDS) == []
    assert (
        judged(machine(torch("2.5.1", lookup("libcudart.so.12", f"{SITE}/nvidia/x.so"))), *IDS)
        == []
    )
    plugin = replace(
        torch("0.6.0"), framework="jax", distribution="jax-cuda12-pjrt", cuda_build=known(True)
    )
    assert judged(machine(plugin), *IDS) == []


def test_missing_wheels_are_the_python_layers_matter() -> None:
    assert judged(machine(tensorflow("2.18.0", lookup("libcudart.so.12"))), *IDS) == []


def test_a_build_with_an_extra_that_runs_on_a_system_toolkit() -> None:
    cudart = lookup("libcudart.so.12", "/usr/local/cuda-12.5/lib64/libcudart.so.12")
    build = tensorflow("2.18.0", cudart, lookup("libcusolver.so.11"))
    assert judged(machine(build, toolkits=(toolkit("12.5"),)), *IDS) == [MISSING]


def test_no_framework_and_cpu_builds_need_nothing() -> None:
    assert judged(machine(), *IDS) == []
    assert judged(machine(tensorflow("2.11.0", cuda_build=known(False))), *IDS) == []


@pytest.mark.parametrize(
    ("version", "there", "expected"),
    [
        ("2.1.0", "10.2", [WRONG]),
        ("2.1.0", "10.1", []),
        ("2.11.0", "11.8", []),  # libcudart.so.11.0 serves every 11.x
        ("2.11.0", "11.2", []),
        ("2.11.0", "11.0", [WRONG]),  # libcusolver.so.10
        ("2.4.0", "11.2", [WRONG]),  # libcusolver.so.11
        ("2.11.0", "12.4", [WRONG]),
    ],
)
def test_by_versions_alone(version: str, there: str, expected: list[tuple[str, str, str]]) -> None:
    assert judged(machine(tensorflow(version), toolkits=(toolkit(there),)), *IDS) == expected


def test_one_of_several_toolkits_is_enough() -> None:
    assert judged(machine(tensorflow(), toolkits=(toolkit("12.4"), toolkit("11.8"))), *IDS) == []


def test_a_build_that_tells_its_cuda_major_only() -> None:
    jaxlib = replace(torch("0.4.13+cuda11.cudnn86"), framework="jax", distribution="jaxlib")
    assert judged(machine(jaxlib, toolkits=(toolkit("11.4"),)), *IDS) == []
    assert judged(machine(jaxlib, toolkits=(toolkit("12.4"),)), *IDS) == [WRONG]


def test_by_what_the_loader_finds() -> None:
    gone = tensorflow("2.11.0", lookup("libcudart.so.11.0"), lookup("libcublas.so.11"))
    assert judged(machine(gone, toolkits=(toolkit("12.4"),)), *IDS) == [WRONG]
    assert judged(machine(gone, toolkits=(toolkit("11.8"),)), *IDS) == [MISSING], (
        "11.8 has them, but not here"
    )
    assert judged(machine(gone, toolkits=NONE), *IDS) == [MISSING]
    found = tensorflow(
        "2.11.0", lookup("libcudart.so.11.0", "/usr/local/cuda-11.8/lib64/libcudart.so.11.0")
    )
    assert judged(machine(found, toolkits=HANGS), *IDS) == []


def test_what_a_build_does_not_insist_on_is_not_missed() -> None:
    spare = lookup("libcupti.so.11.2", mandatory=False)
    other = lookup("libnvinfer.so.7")
    of_cudnn = lookup("libcublasLt.so.12", needed_by="/usr/lib/libcudnn.so.8")
    assert judged(machine(tensorflow("2.11.0", spare, other, of_cudnn)), *IDS) == []


def test_decisive_facts_that_could_not_be_read() -> None:
    assert judged(machine(tensorflow(), toolkits=HANGS), *IDS) == [UNREAD]
    assert judged(machine(tensorflow(), toolkits=(toolkit(None, "/opt/cuda"),)), *IDS) == [UNREAD]
    unread = replace(lookup("libcudart.so.11.0"), found=HANGS)
    assert judged(machine(tensorflow("2.11.0", unread)), *IDS) == [UNREAD]
    silent = tensorflow(
        "2.99.0", cuda_build=known(True), cuda_version=Unknown("failed", "not told")
    )
    assert judged(machine(silent, toolkits=(toolkit("11.8"),)), *IDS) == [UNREAD]


def test_a_deleted_row_leaves_it_open() -> None:
    facts = machine(tensorflow(), toolkits=(toolkit("11.8"),))
    assert judged(facts, *IDS, without=("toolkits", "11.8")) == [UNLISTED]
    assert judged(facts, *IDS, without=("toolkits", "11.2")) == [UNLISTED]
    message = findings(facts, *IDS, without=("toolkits", "11.2"))[0].message
    assert message.startswith("CUDA 11.2 is not in the compatibility matrix")


def test_a_release_asked_for_is_judged_by_versions() -> None:
    python = replace(machine(toolkits=(toolkit("12.4"),)).python, version=known("3.10.4"))
    facts = replace(machine(toolkits=(toolkit("12.4"),)), python=python)
    assert judged(facts, *IDS, asked=("tensorflow==2.10.1",)) == [WRONG]


def test_an_absent_cuda_version_says_nothing() -> None:
    build = tensorflow("2.11.0", cuda_build=known(True), cuda_version=NONE)
    assert judged(machine(build, toolkits=(toolkit("12.4"),)), *IDS) == []


@pytest.mark.parametrize(("kind", "tool"), [("venv", "apt-get"), ("conda", "conda")])
def test_the_fix_names_the_version_and_the_tool(kind: str, tool: str) -> None:
    found = findings(machine(tensorflow(), kind=kind), "toolkit-missing")[0]
    assert found.fix is not None
    words = [word for command in found.fix.actions for word in argv(command)]
    assert tool in words
    assert {"cuda-libraries-11-2", "cudatoolkit=11.2"} & set(words)
    assert any(item.citation for item in found.evidence)
    assert any(item.source for item in found.evidence)

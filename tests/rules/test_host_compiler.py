"""Does nvcc accept the host compiler it would use, and PyTorch that nvcc?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from envcheck.model import CompilerFacts, Extension, Facts, ToolkitInstall
from tests.rules.factory_toolkit import (
    HANGS,
    NONE,
    findings,
    judged,
    known,
    machine,
    tensorflow,
    toolkit,
    torch,
)
from tests.typed import argv

NEW, OLD = "host-compiler-too-new", "host-compiler-too-old"
NVCC = {"nvcc_path": "/usr/local/cuda/bin/nvcc"}


def compiling(cuda: str, compiler: str, path: str = "/usr/bin/gcc", **more: Any) -> Facts:
    """Return a machine with PyTorch, a toolkit and the compiler its nvcc uses."""
    used: dict[str, Any] = {"nvcc_host_compiler": path, "nvcc_host_compiler_version": compiler}
    return machine(
        torch("2.5.1"), toolkits=(toolkit(cuda, "/usr/local/cuda", **NVCC),), **{**used, **more}
    )


@pytest.mark.parametrize(
    ("cuda", "compiler", "path", "expected"),
    [
        ("12.4", "13.3.0", "/usr/bin/gcc", []),
        ("12.4", "14.1.0", "/usr/bin/gcc", [NEW]),
        ("13.0", "12.2.0", "/usr/bin/gcc", []),
        ("7.5", "4.9.4", "/usr/bin/gcc", []),
        ("7.5", "5.4.0", "/usr/bin/gcc", [NEW]),
        ("11.6", "5.4.0", "/usr/bin/gcc", [OLD]),
        ("11.6", "6.1.0", "/usr/bin/gcc", []),
        ("9.0", "4.8.5", "/usr/bin/gcc", []),  # no lowest version is documented
        ("12.4", "17.0.6", "/usr/bin/clang-17", []),
        ("12.4", "18.1.0", "/usr/bin/clang", [NEW]),
        ("12.4", "19.40.33811", r"C:\VS\cl.exe", []),
        ("13.0", "19.50.35717", r"C:\VS\cl.exe", [NEW]),
        ("13.0", "19.16.27051", r"C:\VS\cl.exe", [OLD]),
        ("11.4", "19.29.30133", r"C:\VS\cl.exe", []),  # the matrix names no range for it
    ],
)
def test_the_range_each_toolkit_accepts(
    cuda: str, compiler: str, path: str, expected: list[str]
) -> None:
    found = judged(compiling(cuda, compiler, path), NEW, OLD)
    assert found == [(name, "incompatible", "warning") for name in expected]


@pytest.mark.parametrize("variable", ["NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"])
def test_the_check_can_be_switched_off(variable: str) -> None:
    facts = compiling("12.4", "14.1.0", environment={variable: "-allow-unsupported-compiler"})
    assert judged(facts, NEW, OLD) == []


def test_nothing_is_compiled() -> None:
    nvcc = (toolkit("11.8", "/c", **NVCC),)
    used: dict[str, Any] = {
        "nvcc_host_compiler": "/usr/bin/gcc",
        "nvcc_host_compiler_version": "14.1.0",
    }
    assert judged(machine(toolkits=nvcc, **used), NEW, OLD) == [], "no framework"
    assert (
        judged(
            machine(tensorflow("2.11.0", cuda_build=known(False)), toolkits=nvcc, **used), NEW, OLD
        )
        == []
    )
    assert judged(machine(torch(), toolkits=(toolkit("11.8"),), **used), NEW, OLD) == [], "no nvcc"
    assert judged(machine(torch(), **used), NEW, OLD) == [], "no toolkit"
    wheels = ToolkitInstall(
        "/env/nvidia", "wheels", version=known("11.8"), nvcc_path=known("/env/nvidia/nvcc")
    )
    assert judged(machine(torch(), toolkits=(wheels,), **used), NEW, OLD) == []


def test_the_toolkit_that_compiles() -> None:
    two = (toolkit("11.4", "/a", **NVCC), toolkit("13.0", "/b", **NVCC))
    used: dict[str, Any] = {
        "nvcc_host_compiler": "/usr/bin/gcc",
        "nvcc_host_compiler_version": "12.2.0",
    }
    assert judged(machine(torch(), toolkits=two, root_on_path="/b", **used), NEW) == []
    assert len(judged(machine(torch(), toolkits=two, root_on_path="/a", **used), NEW)) == 1
    assert (
        len(
            judged(
                machine(torch(), toolkits=two, cuda_home_root="/a", root_on_path="/b", **used), NEW
            )
        )
        == 1
    )
    assert judged(machine(torch(), toolkits=two, **used), NEW) == [], (
        "which one compiles is not told"
    )


def test_the_gcc_on_path_stands_in_where_nvcc_did_not_tell() -> None:
    facts = machine(torch(), toolkits=(toolkit("11.6", "/c", nvcc_path=HANGS),))
    old = CompilerFacts(gcc_version=known("5.4"))
    assert len(judged(replace(facts, compilers=old), OLD)) == 1
    assert judged(facts, NEW, OLD) == []
    without = replace(facts.toolkits, nvcc_host_compiler=NONE)
    assert judged(replace(facts, compilers=old, toolkits=without), OLD) == [], (
        "nvcc would find no compiler"
    )


def test_a_toolkit_that_is_not_in_the_matrix_is_a_note() -> None:
    facts = compiling("12.4", "14.1.0")
    assert judged(facts, NEW, OLD, without=("toolkits", "12.4")) == [
        ("release-unknown", "undetermined", "note")
    ]
    assert judged(machine(torch(), toolkits=(toolkit(None, "/c", **NVCC),)), NEW, OLD) == []


@pytest.mark.parametrize(
    ("others", "kind", "word"),
    [
        (
            {"/usr/bin/g++-12": "12", "/usr/bin/gcc-14": "14", "/usr/bin/clang-13": "13"},
            "venv",
            "export NVCC_PREPEND_FLAGS=-ccbin=/usr/bin/g++-12",
        ),
        ({}, "venv", "export NVCC_PREPEND_FLAGS=-ccbin=/usr/bin/g++-13"),
        ({"/usr/bin/gcc-5": "5"}, "conda", "conda install -c conda-forge gxx_linux-64=13"),
    ],
)
def test_the_fix_prefers_what_is_there(others: dict[str, str], kind: str, word: str) -> None:
    facts = compiling("12.4", "14.1.0", kind=kind)
    found = findings(replace(facts, compilers=CompilerFacts(others=known(others))), NEW)[0]
    assert found.fix is not None
    assert word in [" ".join(argv(command)) for command in found.fix.actions]
    assert any(item.citation for item in found.evidence)


def test_other_compilers_get_a_sentence() -> None:
    fix = findings(compiling("12.4", "18.1.0", "/usr/bin/clang"), NEW)[0].fix
    assert fix is not None
    assert "clang" in fix.summary


def test_a_clang_that_is_too_new_gives_way_to_the_gcc_that_is_there() -> None:
    facts = compiling("12.4", "18.1.0", "/usr/bin/clang")
    there = CompilerFacts(gcc_path=known("/usr/bin/gcc"), gcc_version=known("12.2.0"))
    fix = findings(replace(facts, compilers=there), NEW)[0].fix
    assert fix is not None
    assert [argv(command) for command in fix.actions] == [
        ("export", "NVCC_PREPEND_FLAGS=-ccbin=/usr/bin/gcc")
    ]


@pytest.mark.parametrize(
    ("cuda", "cl", "package"),
    [
        ("11.2", "19.41", "Microsoft.VisualStudio.2019.BuildTools"),
        ("12.1", "19.44", "Microsoft.VisualStudio.Component.VC.14.39.17.9.x86.x64"),
        ("12.6", "19.50", "Microsoft.VisualStudio.2022.BuildTools"),
    ],
)
def test_a_visual_studio_that_is_too_new_gets_build_tools_that_fit(
    cuda: str, cl: str, package: str
) -> None:
    fix = findings(compiling(cuda, cl, "C:\\VC\\cl.exe"), NEW)[0].fix
    assert fix is not None
    (command,) = fix.actions
    assert argv(command)[:2] == ("winget", "install")
    assert package in " ".join(argv(command))
    assert [way.summary for way in fix.alternatives] == [
        "Use a newer CUDA Toolkit, which accepts this compiler."
    ]


def test_an_nvcc_pytorch_refuses() -> None:
    wrong = "toolkit-wrong-version"
    other = compiling("11.8", "11.4.0")
    assert judged(other, wrong) == [(wrong, "incompatible", "note")]
    assert judged(compiling("12.1", "11.4.0"), wrong) == []
    extension = (Extension("torch-scatter", "/env/x.so", ("libtorch.so",)),)
    assert judged(compiling("11.8", "11.4.0", extensions=extension), wrong) == [
        (wrong, "incompatible", "warning")
    ]
    assert judged(compiling("11.8", "11.4.0", cuda_home="/usr/local/cuda"), wrong) == [
        (wrong, "incompatible", "warning")
    ]
    assert judged(other, wrong, without=("toolkits", "11.8")) == []

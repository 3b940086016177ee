"""Can CUDA code be built against the installed PyTorch: nvcc there, of its CUDA, and for this GPU?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from envcheck.model import Distribution, Facts, Gpu
from envcheck.rules import Context, Target, evaluate
from tests.rules.factory_machine import matrix
from tests.rules.factory_toolkit import NONE, known, machine, toolkit, torch

WRONG, PATH, MISSING = "toolkit-wrong-version", "toolkit-path-conflict", "toolkit-missing"
NEW, OLD = "gpu-arch-too-new", "gpu-arch-too-old"
NVCC = {"nvcc_path": "/usr/local/cuda/bin/nvcc"}
DEEPSPEED = Distribution("deepspeed", "0.15.1")


def found(facts: Facts, *ids: str, compiles: bool = True) -> list[tuple[str, str]]:
    report = evaluate(Context(facts, matrix(), Target("gpu", compiles=compiles)), frozenset(ids))
    return [(item.id, item.severity) for item in report.findings if item.id in ids]


def with_gpu(name: str, *toolkits: Any) -> Facts:
    gpus = known((Gpu(name=known(name)),))
    return replace(machine(torch("2.5.1+cu124"), toolkits=toolkits), gpus=gpus)


def test_an_nvcc_of_another_major_stops_a_build_and_no_run() -> None:
    facts = machine(torch("2.4.0+cu121"), toolkits=(toolkit("11.4", **NVCC),))
    assert found(facts, WRONG, PATH) == [(WRONG, "error")]
    assert found(facts, WRONG, PATH, compiles=False) == [(WRONG, "note")]


def test_the_right_nvcc_beside_the_one_that_is_found() -> None:
    two = (toolkit("10.1", "/usr", **NVCC), toolkit("11.8", "/usr/local/cuda-11.8", **NVCC))
    facts = machine(torch("2.0.1+cu118"), toolkits=two, root_on_path="/usr")
    assert found(facts, WRONG, PATH) == [(PATH, "error")]


@pytest.mark.parametrize("variable", ["TORCH_CUDA_ARCH_LIST", "NVCC_APPEND_FLAGS", "CUDACXX"])
def test_what_is_set_for_compiling_makes_it_a_warning(variable: str) -> None:
    facts = machine(
        torch("2.4.0+cu121"), toolkits=(toolkit("11.4", **NVCC),), environment={variable: "x"}
    )
    assert found(facts, WRONG, compiles=False) == [(WRONG, "warning")]


def test_a_package_that_builds_when_it_is_used() -> None:
    facts = machine(torch("2.4.0+cu121"), toolkits=(toolkit("11.4", **NVCC),))
    facts = replace(facts, python=replace(facts.python, distributions=known((DEEPSPEED,))))
    assert found(facts, WRONG, compiles=False) == [(WRONG, "warning")]
    bare = replace(facts, toolkits=replace(facts.toolkits, installs=NONE))
    assert found(bare, MISSING, compiles=False) == [(MISSING, "note")]


def test_no_nvcc() -> None:
    facts = machine(torch("2.4.0+cu121"))
    facts = replace(facts, toolkits=replace(facts.toolkits, installs=NONE))
    assert found(facts, MISSING) == [(MISSING, "error")]
    assert found(facts, MISSING, compiles=False) == []
    assert found(machine(torch("2.4.0+cu121"), toolkits=(toolkit("12.1", **NVCC),)), MISSING) == []


@pytest.mark.parametrize(
    ("gpu", "cuda", "expected"),
    [
        ("NVIDIA GeForce RTX 5090", "12.4", [(NEW, "error")]),
        ("NVIDIA GeForce RTX 4090", "12.4", []),
        ("Tesla K80", "12.4", [(OLD, "error")]),
    ],
)
def test_the_gpus_nvcc_builds_for(gpu: str, cuda: str, expected: list[tuple[str, str]]) -> None:
    facts = with_gpu(gpu, toolkit(cuda, **NVCC))
    said = evaluate(
        Context(facts, matrix(), Target("gpu", compiles=True)), frozenset((NEW, OLD))
    ).findings
    assert [(item.id, item.severity) for item in said if "nvcc" in item.message] == expected
    said = evaluate(Context(facts, matrix(), Target("gpu")), frozenset((NEW, OLD))).findings
    assert not [item for item in said if "nvcc" in item.message]

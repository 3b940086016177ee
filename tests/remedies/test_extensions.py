"""An extension that does not fit its torch: the file that its project built for that torch, else the build of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envcheck.actions import action_line
from envcheck.model import Facts, Fix, Remedy
from envcheck.model.fixes import (
    InstallProjectsBuild,
    MatchInstalledFramework,
    RebuildExtension,
    ReplaceLabelledBuild,
)
from envcheck.remedies import write_fix
from envcheck.remedies.situation import Situation
from envcheck.rules import Context, Target
from tests.rules.factory_machine import matrix
from tests.rules.factory_toolkit import known, machine, torch


def on(version: str, capability: str = "8.9", **distributions: str) -> Facts:
    named = {name.replace("_", "-"): release for name, release in distributions.items()}
    facts = machine(torch(version), distributions=named, capability=capability)
    return replace(
        facts, host=replace(facts.host, libc_version=known("2.35"), memory_bytes=known(32 * 10**9))
    )


def fix(facts: Facts, cure: Fix) -> Remedy:
    found = write_fix(cure, Situation(Context(facts, matrix(), Target())))
    assert found is not None
    return found


@pytest.mark.parametrize(
    "cure",
    [
        RebuildExtension("flash-attn"),  # of a machine
        InstallProjectsBuild("flash-attn"),  # of a log
        ReplaceLabelledBuild("flash-attn", "torch 2.8.0"),
        MatchInstalledFramework("flash-attn", "torch", "2.8.0"),
    ],
)
def test_the_file_for_the_installed_torch_is_named(cure: Fix) -> None:
    (step,) = fix(on("2.8.0"), cure).actions
    assert (
        "v2.8.3.post1/flash_attn-2.8.3.post1+cu12torch2.8cxx11abiTRUE-cp311-cp311"
        in action_line(step, "linux")
    )


def test_the_release_that_is_there_stays_where_it_has_such_a_file() -> None:
    for version, file in (("2.7.1", "2.8.2+cu12torch2.7"), ("2.8.0", "2.8.3.post1+cu12torch2.8")):
        found = fix(on(version, flash_attn="2.8.2"), RebuildExtension("flash-attn"))
        assert file in action_line(found.actions[0], "linux")


def test_without_such_a_file_it_is_built_for_this_gpu_with_nvcc_of_the_cuda_of_torch() -> None:
    found = fix(on("2.15.0"), RebuildExtension("flash-attn"))
    lines = [action_line(step, "linux") for step in found.actions]
    assert any("cuda-toolkit-13-2" in line for line in lines)
    assert "FLASH_ATTN_CUDA_ARCHS=80" in lines[-1]
    assert "--no-build-isolation" in lines[-1]
    assert "minutes of one core" in found.summary
    assert [action_line(step, "linux") for way in found.alternatives for step in way.actions] == [
        "envcheck plan flash-attn"
    ]


def test_a_gpu_that_it_has_no_code_for_is_said() -> None:
    found = fix(on("2.15.0", capability="7.0"), RebuildExtension("flash-attn"))
    assert found.summary == "flash-attn needs compute capability 8.0 or newer; the GPU has 7.0."

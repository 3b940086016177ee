"""Does XLA find libdevice, and a ptxas that knows the GPU?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from envcheck.model import Distribution, FrameworkBuild, Unknown
from tests.rules.factory_toolkit import (
    HANGS,
    NONE,
    SITE,
    findings,
    judged,
    known,
    machine,
    tensorflow,
    toolkit,
    torch,
)
from tests.typed import argv

DEVICE, PTXAS = "libdevice-missing", "ptxas-problem"
ABSENT = [(DEVICE, "incompatible", "warning")]
OLD = [(PTXAS, "incompatible", "warning")]
FILE = "/x/nvvm/libdevice/libdevice.10.bc"


def test_no_libdevice_anywhere() -> None:
    assert judged(machine(tensorflow("2.13.1")), DEVICE) == ABSENT
    assert judged(machine(tensorflow("2.13.1"), toolkits=(toolkit("11.8"),)), DEVICE) == ABSENT


def test_a_toolkit_xla_looks_into() -> None:
    assert (
        judged(
            machine(tensorflow("2.13.1"), toolkits=(toolkit("11.8", libdevice_path=FILE),)), DEVICE
        )
        == []
    )
    debian = replace(toolkit("11.8", "/usr/lib/cuda", libdevice_path=FILE), origin="debian")
    assert judged(machine(tensorflow("2.13.1"), toolkits=(debian,)), DEVICE) == ABSENT
    assert (
        judged(
            machine(tensorflow("2.13.1"), toolkits=(debian,), cuda_home_root="/usr/lib/cuda"),
            DEVICE,
        )
        == []
    )
    fix = findings(machine(tensorflow("2.13.1"), toolkits=(debian,)), DEVICE)[0].fix
    assert fix is not None
    assert argv(fix.actions[-1]) == ("export", "XLA_FLAGS=--xla_gpu_cuda_data_dir=/usr/lib/cuda")


def test_who_needs_no_libdevice() -> None:
    assert judged(machine(torch()), DEVICE) == []
    assert (
        judged(
            machine(tensorflow("2.13.1"), distributions={"nvidia-cuda-nvcc-cu11": "11.8.89"}),
            DEVICE,
        )
        == []
    )
    flags = {"XLA_FLAGS": "--xla_gpu_cuda_data_dir=/opt/x"}
    assert judged(machine(tensorflow("2.13.1"), environment=flags), DEVICE) == []


def test_what_is_not_known_is_not_blamed() -> None:
    assert judged(machine(tensorflow("2.13.1"), toolkits=HANGS), DEVICE) == []
    assert (
        judged(
            machine(tensorflow("2.13.1"), toolkits=(toolkit("11.8", libdevice_path=HANGS),)), DEVICE
        )
        == []
    )


def test_the_wheel_of_the_release_is_the_fix() -> None:
    fix = findings(machine(tensorflow("2.18.0")), DEVICE)[0].fix
    assert fix is not None
    assert "nvidia-cuda-nvcc-cu12==12.5.82" in argv(fix.actions[0])
    silent = tensorflow(
        "2.99.0", cuda_build=known(True), cuda_version=Unknown("failed", "not told")
    )
    assert findings(machine(silent), DEVICE)[0].fix is None


@pytest.mark.parametrize(
    ("version", "capability", "expected"),
    [("11.0", "8.6", OLD), ("11.1", "8.6", []), ("11.0", "8.0", [])],
)
def test_a_ptxas_older_than_the_gpu(version: str, capability: str, expected: list[Any]) -> None:
    there = toolkit(version, "/c", ptxas_path="/c/bin/ptxas")
    facts = machine(
        tensorflow("2.4.0"), toolkits=(there,), ptxas_on_path="/c/bin/ptxas", capability=capability
    )
    assert judged(facts, PTXAS) == expected


def test_which_ptxas_is_called() -> None:
    old = toolkit("11.0", "/old", ptxas_path="/old/bin/ptxas")
    wheel = replace(toolkit("12.5", "/env/nvidia", ptxas_path="/env/nvidia/ptxas"), origin="wheels")
    build = tensorflow("2.4.0")
    facts: dict[str, Any] = {"capability": "8.6", "ptxas_on_path": "/old/bin/ptxas"}
    assert judged(machine(build, toolkits=(old, wheel), **facts), PTXAS) == []
    assert (
        judged(machine(build, toolkits=(old,), capability="8.6", usr_local_cuda="/old"), PTXAS)
        == OLD
    )
    assert judged(machine(build, toolkits=(old,), capability="8.6"), PTXAS) == [], (
        "nobody looks there"
    )
    assert judged(machine(torch(), toolkits=(old,), **facts), PTXAS) == []
    jax = FrameworkBuild("jax", "jax-cuda12-plugin", "0.4.30", cuda_build=known(True))
    assert judged(machine(jax, toolkits=(old,), **facts), PTXAS) == OLD


SERVED: dict[str, Any] = {"compute_capabilities": known(("sm_90", "sm_110", "sm_120"))}


@pytest.mark.parametrize(
    ("triton", "capability", "variable", "newer"),
    [
        # ptxas of CUDA 12.8; DGX Spark's GPU is of 12.9
        ("3.5.1", "12.1", "TRITON_PTXAS_PATH", "triton 3.6"),
        ("3.6.0", "12.1", "", ""),
        ("3.6.0", "11.0", "TRITON_PTXAS_BLACKWELL_PATH", "triton 3.7"),  # Thor's is of CUDA 13.0
        ("3.7.0", "11.0", "", ""),
        ("3.5.1", "12.0", "", ""),
        ("3.5.0+git20251001", "12.1", "", ""),  # a build of NVIDIA's brings what it needs
        ("99.0", "12.1", "", ""),
    ],
)
def test_tritons_own_ptxas_knows_the_gpu(
    triton: str, capability: str, variable: str, newer: str
) -> None:
    new = toolkit("13.0", "/usr/local/cuda-13.0", ptxas_path="/usr/local/cuda-13.0/bin/ptxas")
    facts = machine(
        torch("2.9.1", **SERVED),
        toolkits=(new,),
        capability=capability,
        distributions={"triton": triton},
    )
    report = findings(facts, PTXAS)
    assert [item.severity for item in report] == ["warning"] * bool(variable)
    for item in report:
        assert item.fix is not None
        assert newer in item.fix.summary
        assert argv(item.fix.actions[0]) == ("export", f"{variable}=/usr/local/cuda-13.0/bin/ptxas")
    named = replace(facts, host=replace(facts.host, environment=known({variable: "/a/ptxas"})))
    assert judged(named, PTXAS) == []


def test_a_ptxas_that_no_shell_can_replace() -> None:
    there: dict[str, Any] = {"capability": "12.1", "distributions": {"triton": "3.3.1"}}
    assert (
        judged(machine(torch("2.7.1", compute_capabilities=known(("sm_90",))), **there), PTXAS)
        == []
    )
    (item,) = findings(machine(torch("2.7.1", **SERVED), **there), PTXAS)
    assert item.fix is not None
    assert item.fix.summary == "Install a torch that requires triton 3.6 or newer."
    assert not item.fix.actions


def test_a_gpu_or_toolkit_that_is_not_known() -> None:
    there = toolkit("11.0", "/c", ptxas_path="/c/bin/ptxas")
    facts = machine(
        tensorflow("2.4.0"), toolkits=(there,), ptxas_on_path="/c/bin/ptxas", capability="8.6"
    )
    assert judged(facts, PTXAS, without=("architectures", "8.6")) == []
    assert judged(replace(facts, gpus=HANGS), PTXAS) == []
    silent = replace(there, version=NONE)
    assert (
        judged(
            machine(tensorflow("2.4.0"), toolkits=(silent,), ptxas_on_path="/c/bin/ptxas"), PTXAS
        )
        == []
    )


def test_condas_libdevice_is_linked_to_where_xla_looks() -> None:
    prefix = toolkit(
        "11.2", "/opt/conda/envs/tf", libdevice_path="/opt/conda/envs/tf/lib/libdevice.10.bc"
    )
    conda = replace(prefix, origin="conda")
    (finding,) = findings(
        machine(tensorflow(cuda_build=known(True)), toolkits=(conda,)), "libdevice-missing"
    )
    assert finding.fix is not None
    assert [argv(command)[0] for command in finding.fix.actions] == ["mkdir", "ln", "export"]


def test_condas_own_build_finds_condas_libdevice() -> None:
    prefix = toolkit(
        "12.0",
        "/opt/conda/envs/tf",
        libdevice_path="/opt/conda/envs/tf/nvvm/libdevice/libdevice.10.bc",
    )
    facts = machine(tensorflow(cuda_build=known(True)), toolkits=(replace(prefix, origin="conda"),))
    by_conda = (Distribution("tensorflow", "2.11.0", SITE, installer="conda"),)
    own = replace(facts, python=replace(facts.python, distributions=known(by_conda)))
    assert judged(own, "libdevice-missing") == []

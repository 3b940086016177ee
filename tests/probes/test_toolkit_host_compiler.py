"""Which host compiler nvcc uses; the order is that of a real nvcc -dryrun."""

from __future__ import annotations

from typing import Any

import pytest

from envcheck.model import Absent, Unknown
from envcheck.probes.toolkit import find_host_compiler
from tests.hosts.recorded_host import RecordedHost

NVCC = "/opt/cuda/bin/nvcc"
FILES = {NVCC: "ELF", "/usr/bin/gcc": "ELF", "/usr/bin/g++-12": "ELF", "/opt/gcc-11/bin/gcc": "ELF"}


def chosen(files: dict[str, Any] | None = None, system: str = "linux", **environment: str) -> Any:
    recording = {
        "system": system,
        "environment": {"PATH": "/usr/bin", **environment},
        "files": {**FILES, **(files or {})},
    }
    return find_host_compiler(RecordedHost(recording), NVCC)


@pytest.mark.parametrize(
    ("environment", "path"),
    [
        ({}, "/usr/bin/gcc"),
        ({"NVCC_CCBIN": "/usr/bin/g++-12"}, "/usr/bin/g++-12"),
        ({"NVCC_CCBIN": "g++-12"}, "/usr/bin/g++-12"),
        ({"NVCC_CCBIN": "/opt/gcc-11/bin"}, "/opt/gcc-11/bin/gcc"),
        (
            {"NVCC_CCBIN": "g++-12", "NVCC_PREPEND_FLAGS": "-ccbin /opt/gcc-11/bin"},
            "/opt/gcc-11/bin/gcc",
        ),
        (
            {"NVCC_PREPEND_FLAGS": "-ccbin gcc", "NVCC_APPEND_FLAGS": "-ccbin g++-12"},
            "/usr/bin/g++-12",
        ),
        ({"NVCC_PREPEND_FLAGS": "-O2", "CXX": "g++-12", "CUDAHOSTCXX": "g++-12"}, "/usr/bin/gcc"),
    ],
)
def test_variables_in_the_order_of_nvcc(environment: dict[str, str], path: str) -> None:
    assert chosen(None, **environment).value == path


def test_a_gcc_beside_nvcc_precedes_path() -> None:
    assert chosen({"/opt/cuda/bin/gcc": "ELF"}).value == "/opt/cuda/bin/gcc"


def test_a_folder_named_gcc_beside_nvcc_is_ignored() -> None:
    assert chosen({"/opt/cuda/bin/gcc/x": "y"}).value == "/usr/bin/gcc"


@pytest.mark.parametrize("value", ["/gone/g++", "g++-99", "/empty"])
def test_a_missing_compiler(value: str) -> None:
    fact = chosen({"/empty/x": "y"}, NVCC_CCBIN=value)
    assert isinstance(fact, Absent)
    assert "NVCC_CCBIN" in fact.tried[0]


def test_an_unreadable_compiler() -> None:
    assert isinstance(
        chosen({"/secret/g++": {"error": "denied"}}, NVCC_CCBIN="/secret/g++"), Unknown
    )


def test_windows_uses_visual_cpp() -> None:
    cl = {
        "find_program": {
            "cl": {"known": "C:\\VS\\cl.exe", "source": {"kind": "file", "where": "PATH"}}
        }
    }
    host = RecordedHost({"system": "windows", "calls": cl})
    fact = find_host_compiler(host, r"C:\CUDA\bin\nvcc.exe")
    assert fact.value is not None
    assert fact.value == "C:\\VS\\cl.exe"

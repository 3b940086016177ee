"""Version files and outputs of real toolkits."""

from __future__ import annotations

from pathlib import Path

import pytest

from envcheck.model import Absent, Known, Unknown
from envcheck.probes.toolkit import (
    parse_ccbin,
    parse_cuda_define,
    parse_cudart_name,
    parse_nvcc_version,
    parse_nvcc_wrapper,
    parse_version_json,
    parse_version_txt,
    read_cudart_version,
    read_version_files,
)
from tests.hosts.recorded_host import RecordedHost

DATA = Path(__file__).parent / "data" / "nvcc"

# Release and build of each real output; note 7.5.18's V7.5.17 and 11.5.1's V11.5.119.
BUILDS = {
    "7.5": "7.5.17",
    "9.1": "9.1.85",
    "10.1": "10.1.243",
    "11.2": "11.2.152",
    "11.5": "11.5.119",
    "11.8": "11.8.89",
    "12.0": "12.0.140",
    "12.2": "12.2.140",
    "12.4": "12.4.131",
    "13.0": "13.0.88",
    "13.5": "13.5.37",
}


def data(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("release", BUILDS)
def test_real_nvcc_outputs(release: str) -> None:
    assert parse_nvcc_version(data(f"nvcc_{release}.txt")) == (release, BUILDS[release])


def test_broken_files_through_the_probe() -> None:
    files = {"/a/version.txt": "no version here", "/b/version.json": data("version_11.8.json")}
    host = RecordedHost({"files": files})
    toolkit, nvcc = read_version_files(host, ("/none", "/a", "/b"))
    assert isinstance(toolkit, Unknown)
    assert isinstance(nvcc, Absent)


def test_all_sample_outputs_are_tested() -> None:
    assert {path.name for path in DATA.glob("nvcc_*.txt")} == {
        f"nvcc_{release}.txt" for release in BUILDS
    }


@pytest.mark.parametrize(
    "text", ["", "Segmentation fault", "\ufffd\ufffd release", "Driver Version: 550.54.15"]
)
def test_other_outputs_have_no_nvcc_version(text: str) -> None:
    assert parse_nvcc_version(text) is None


def test_version_json_has_toolkit_and_nvcc() -> None:
    versions = parse_version_json(data("version_11.8.json"))
    assert versions is not None
    assert (versions["cuda"], versions["cuda_nvcc"]) == ("11.8.20220929", "11.8.89")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"cuda": "12.4"}',
        '{"cuda": {"version": null}}',
        '{"other": {"version": "1.2"}}',
    ],
)
def test_broken_version_json(text: str) -> None:
    assert parse_version_json(text) is None


def test_a_patch_line_does_not_change_the_version() -> None:
    assert parse_version_txt(data("version_10.0.txt")) == "10.0.130"


def test_broken_version_txt() -> None:
    assert parse_version_txt("CUDA Version") is None


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("#define CUDA_VERSION 13000", "13.0"),
        ("#define CUDA_VERSION 13050", "13.5"),
        ("#define CUDA_VERSION 11080", "11.8"),
        ("#define CUDA_VERSION 7050 /* that is 7.5 */", "7.5"),
        ("#define CUDA_VERSION_MAJOR 12000", None),
        ("// CUDA_VERSION 12000", None),
    ],
)
def test_cuda_h(line: str, version: str | None) -> None:
    assert parse_cuda_define(f"#define A 1\n{line}\n", "CUDA_VERSION") == version


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("libcudart.so.13.0.96", "13.0"),
        ("libcudart.so.11.8.89", "11.8"),
        ("libcudart.so.10.2", "10.2"),
        ("libcudart.so.11.0", None),
        ("libcudart.so.12", None),
        ("libcudart_static.a", None),
    ],
)
def test_cudart_names(name: str, version: str | None) -> None:
    assert parse_cudart_name(name) == version


def test_cudart_version_of_an_absent_library() -> None:
    assert read_cudart_version(Absent(("/x",))) == Absent(("/x",))
    assert isinstance(read_cudart_version(Known("/x/libcudart.so.12", None)), Unknown)  # type: ignore[arg-type]


def test_debians_wrapper_starts_the_real_nvcc() -> None:
    assert parse_nvcc_wrapper(data("debian_nvcc"), {}) == "/usr/lib/nvidia-cuda-toolkit/bin/nvcc"


@pytest.mark.parametrize(
    ("script", "target"),
    [
        ('#!/bin/bash\nexec "${CUDA_HOME}/bin/nvcc" "${@}"\n', "/opt/cuda/bin/nvcc"),
        ("#!/bin/sh\n/opt/x/nvcc.real $@\n", "/opt/x/nvcc.real"),
        ('#!/bin/sh\nexec "$NOWHERE/bin/nvcc"\n', None),
        ("#!/bin/sh\nsleep 100\n", None),
    ],
)
def test_other_wrappers(script: str, target: str | None) -> None:
    assert parse_nvcc_wrapper(script, {"CUDA_HOME": "/opt/cuda"}) == target


@pytest.mark.parametrize(
    ("flags", "chosen"),
    [
        ("-ccbin /usr/bin/g++-12", "/usr/bin/g++-12"),
        ("-ccbin=clang++-14 -O2", "clang++-14"),
        ("--compiler-bindir '/opt/my gcc/bin'", "/opt/my gcc/bin"),
        ("-ccbin a -ccbin b", "b"),
        ("-O2 -ccbin", None),
        ("-ccbin 'unclosed", "'unclosed"),
        ("", None),
    ],
)
def test_host_compiler_options(flags: str, chosen: str | None) -> None:
    assert parse_ccbin(flags) == chosen


@pytest.mark.parametrize("name", ["debian_nvcc.profile", "nvcc_13.0.profile"])
def test_the_profile_of_a_real_nvcc_names_no_compiler(name: str) -> None:
    assert not any(line.startswith("compiler-bindir") for line in data(name).splitlines())

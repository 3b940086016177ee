"""The driver's libraries: the loader's order, compat and stub copies, WSL, broken files, long search paths."""

from __future__ import annotations

from typing import Any

import pytest

from envcheck.model import Absent, Known, Source, Unknown
from envcheck.probes.nvml import (
    DriverLibraries,
    find_driver_libraries,
    parse_driver_library_name,
    read_library_version,
)
from tests.probes.gpu_machines import LIBRARIES, bare, installed

REAL = f"{LIBRARIES}/libcuda.so.550.163.01"
COMPAT = "/usr/local/cuda-12.6/compat/libcuda.so.560.35.05"
COMPAT_FILES = {
    COMPAT: "\x7fELF\x02",
    "/usr/local/cuda-12.6/compat/libcuda.so.1": {"link": "libcuda.so.560.35.05"},
    "/usr/local/cuda": {"link": "cuda-12.6"},
}


def find(files: dict[str, Any], path: str = "", **recording: Any) -> DriverLibraries:
    environment = {"LD_LIBRARY_PATH": path} if path else {}
    return find_driver_libraries(bare(files, environment=environment, **recording))


def test_default_folders() -> None:
    found = find(installed())
    assert found.libcuda.value == REAL
    assert found.libcuda_unversioned.value == REAL
    assert found.nvml.value == f"{LIBRARIES}/libnvidia-ml.so.550.163.01"
    assert found.nvml_to_query == found.nvml
    assert isinstance(found.libcuda_elsewhere, Absent)
    assert found.is_any_found


def test_the_cache_precedes_the_default_folders() -> None:
    other = "/opt/driver/libcuda.so.1"
    found = find({**installed(), other: "x"}, loader_cache={"libcuda.so.1": [other]})
    assert found.libcuda.value == other
    assert found.libcuda_elsewhere.value == (REAL,)
    stale = find(installed(), loader_cache={"libcuda.so.1": ["/gone/libcuda.so.1"]})
    assert stale.libcuda.value == REAL


def test_compat_library_ahead_of_the_driver() -> None:
    found = find({**installed(), **COMPAT_FILES}, "/nowhere:/usr/local/cuda/compat:")
    assert found.libcuda.value == COMPAT
    assert isinstance(found.libcuda, Known)
    assert found.libcuda.source.where == "/usr/local/cuda/compat/libcuda.so.1"
    assert read_library_version(found.libcuda).value == "560.35.05"
    assert found.libcuda_elsewhere.value == (REAL,)


def test_unused_compat_and_stub_libraries() -> None:
    stub = "/usr/local/cuda-12.6/lib64/stubs/libcuda.so"
    found = find({**installed(), **COMPAT_FILES, stub: "x"})
    assert found.libcuda.value == REAL
    assert found.libcuda_elsewhere.value is not None
    assert set(found.libcuda_elsewhere.value) == {COMPAT, stub}


def test_a_stub_folder_on_the_path() -> None:
    stub = "/usr/local/cuda-12.6/lib64/stubs/libcuda.so"
    found = find({stub: "x"}, "/usr/local/cuda-12.6/lib64/stubs")
    assert isinstance(found.libcuda, Absent)
    assert found.libcuda_unversioned.value == stub


def test_wsl_libraries_off_and_on_the_path() -> None:
    files = {"/usr/lib/wsl/lib/libcuda.so.1": "x", "/usr/lib/wsl/lib/libnvidia-ml.so.1": "x"}
    off = find(files)
    assert isinstance(off.libcuda, Absent)
    assert isinstance(off.nvml, Absent)
    assert off.nvml_to_query.value == "/usr/lib/wsl/lib/libnvidia-ml.so.1"
    assert off.is_any_found
    on = find(files, "/usr/lib/wsl/lib")
    assert on.libcuda.value == "/usr/lib/wsl/lib/libcuda.so.1"
    assert isinstance(on.libcuda_elsewhere, Absent)


def test_the_loader_skips_32_bit_libraries_and_stops_at_garbage() -> None:
    thirty_two = {**installed(), "/opt/a/libcuda.so.1": "\x7fELF\x01rest"}
    assert find(thirty_two, "/opt/a").libcuda.value == REAL
    garbage = {**installed(), "/opt/a/libcuda.so.1": "not a library"}
    assert find(garbage, "/opt/a").libcuda.value == "/opt/a/libcuda.so.1"


@pytest.mark.parametrize(
    "entry", [{"kind": "fifo"}, {"error": "denied"}, {"link": "libcuda.so.1"}, {"link": "gone"}]
)
def test_unloadable_files_are_skipped(entry: Any) -> None:
    assert find({**installed(), "/opt/a/libcuda.so.1": entry}, "/opt/a").libcuda.value == REAL


def test_an_unreadable_cache_makes_the_library_unknown() -> None:
    found = find({}, loader_cache={"unknown": ["unparsable", "not a cache"]})
    assert isinstance(found.libcuda, Unknown)
    assert found.libcuda.why == "unparsable"
    assert find(installed(), loader_cache={"unknown": ["denied", "x"]}).libcuda.value == REAL


def test_ten_thousand_entries() -> None:
    path = ":".join(f"/n/{number}" for number in range(10_000)) + ":/opt/a"
    assert find({"/opt/a/libcuda.so.1": "x"}, path).libcuda.value == "/opt/a/libcuda.so.1"


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("libcuda.so.550.163.01", "550.163.01"),
        ("libcuda.so.390.48", "390.48"),
        ("libcuda.so.1", None),
        ("libcuda.so.1.1", None),
        ("libcuda.so", None),
    ],
)
def test_versions_come_from_real_names(name: str, version: str | None) -> None:
    assert parse_driver_library_name(f"/usr/lib/{name}") == version
    fact = read_library_version(Known(f"/usr/lib/{name}", Source("file", "x")))
    assert fact.value == version
    assert isinstance(fact, (Known, Absent))

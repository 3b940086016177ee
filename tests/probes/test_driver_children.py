"""The children as the product starts them, with small fake libraries compiled here."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envcheck.host.local import LocalHost
from envcheck.model import Known, Unknown
from envcheck.probes.nvml import find_pynvml, parse_nvml

CUDA = """
#include <stdio.h>
#include <stdlib.h>
int cuInit(unsigned f) { puts("noise"); fflush(stdout); return getenv("CUDA_VISIBLE_DEVICES") ? 100 : 0; }
int cuDriverGetVersion(int *v) { *v = 12040; return CODE; }
"""
CRASH = "int cuInit(unsigned f) { return *(volatile int *)0; } int cuDriverGetVersion(int *v) { *v = 12040; return 0; }"
NVML = """
#include <string.h>
typedef struct { char l[16]; unsigned dom, bus, dev, id, ss; char b[32]; } Pci;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } Process;
int nvmlInit_v2() { return INIT; }
const char *nvmlErrorString(int c) { return "Driver/library version mismatch"; }
int nvmlSystemGetDriverVersion(char *b, unsigned n) { strcpy(b, "550.163.01"); return 0; }
int nvmlSystemGetCudaDriverVersion(int *v) { *v = 12040; return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 3; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = (void *)(long)(i + 1); return i == 2 ? 15 : 0; }
int nvmlDeviceGetName(void *d, char *b, unsigned n) {
  strcpy(b, d > (void *)1 ? "\\xff\\xfe" : "NVIDIA A100"); return 0; }
int nvmlDeviceGetUUID(void *d, char *b, unsigned n) { strcpy(b, d > (void *)9 ? "MIG-1" : "GPU-1"); return 0; }
int nvmlDeviceGetPciInfo_v3(void *d, Pci *p) {
  memset(p, 0, sizeof *p); p->id = 0x20b010de; strcpy(p->b, "00000000:07:00.0"); return 0; }
int nvmlDeviceGetCudaComputeCapability(void *d, int *a, int *b) { *a = 8; *b = 0; return 0; }
int nvmlDeviceGetMemoryInfo(void *d, Memory *m) { m->total = 100; m->used = 40; return d > (void *)1 ? 4 : 0; }
int nvmlDeviceGetComputeMode(void *d, int *m) { *m = 3; return 0; }
int nvmlDeviceGetMigMode(void *d, unsigned *c, unsigned *p) { *c = *p = d == (void *)1; return 0; }
int nvmlDeviceGetMaxMigDeviceCount(void *d, unsigned *n) { *n = 2; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *d, unsigned i, void **m) { *m = (void *)10; return i ? 6 : 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, Process *p) {
  if (!p) { *n = 1; return 7; } p->pid = 42; p->used = 9; *n = 1; return 0; }
int nvmlDeviceGetGraphicsRunningProcesses_v2(void *d, unsigned *n, Process *p) { *n = 0; return 0; }
int nvmlSystemGetProcessName(unsigned pid, char *b, unsigned n) {
  strcpy(b, "/opt/py/bin/python3 --key=secret"); return 0; }
"""
Compile = Callable[..., str]


@pytest.fixture
def compiled(tmp_path: Path) -> Compile:
    def compile_library(source: str, **macros: int) -> str:
        code, library = tmp_path / "library.c", tmp_path / "library.so"
        code.write_text(source)
        defined = [f"-D{name}={value}" for name, value in macros.items()]
        subprocess.run(
            ["gcc", "-w", "-shared", "-fPIC", *defined, str(code), "-o", str(library)], check=True
        )
        return str(library)

    return compile_library


def ask(script: str, *arguments: str) -> dict[str, Any]:
    answer = LocalHost().ask(script, *arguments)
    assert isinstance(answer, Known), answer
    return dict(answer.value)


@pytest.mark.needs("c-compiler")
def test_libcuda(compiled: Compile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # the test is of the driver, not of the variable
    library = compiled(CUDA, CODE=0)
    assert ask("libcuda_version", library) == {"version": 12040}
    assert ask("libcuda_version", library, "init") == {"init": 0}
    assert ask("libcuda_version", compiled(CUDA, CODE=34)) == {"error": 34}


@pytest.mark.needs("c-compiler", "posix")
def test_a_libcuda_that_crashes_in_cuinit_still_has_a_version(compiled: Compile) -> None:
    library = compiled(CRASH)
    assert ask("libcuda_version", library) == {"version": 12040}
    crash = LocalHost().ask("libcuda_version", library, "init")
    assert isinstance(crash, Unknown)
    assert crash.why == "crashed"


@pytest.mark.parametrize("content", [b"garbage", b"", b"\x7fELF\x02\x01\x01"])
def test_garbage_libraries(tmp_path: Path, content: bytes) -> None:
    library = tmp_path / "libcuda.so.1"
    library.write_bytes(content)
    assert set(ask("libcuda_version", str(library))) == {"load_error"}
    assert set(ask("nvml_devices", str(library), find_pynvml() or "")) == {"load_error"}


@pytest.mark.needs("c-compiler")
def test_libraries_of_another_kind(compiled: Compile) -> None:
    library = compiled("int nothing;")
    assert "cuDriverGetVersion" in ask("libcuda_version", library)["load_error"]
    assert "nvmlInit_v2" in ask("nvml_devices", library, find_pynvml() or "")["load_error"]


def test_a_folder_without_pynvml(tmp_path: Path) -> None:
    assert "pynvml" in ask("nvml_devices", "libnone.so", str(tmp_path))["load_error"]


@pytest.mark.needs("c-compiler")
def test_every_field_of_nvml(compiled: Compile) -> None:
    library = compiled(NVML, INIT=0)
    reading = parse_nvml(ask("nvml_devices", library, find_pynvml() or ""), library)
    assert reading.gpus.value is not None
    first, second, lost = reading.gpus.value
    values = {
        name: getattr(first, name).value
        for name in ("name", "uuid", "pci_address", "pci_id", "compute_capability")
    }
    assert list(values.values()) == ["NVIDIA A100", "GPU-1", "0000:07:00.0", "20b0", "8.0"]
    assert first.processes.value is not None
    assert [(process.pid, process.name) for process in first.processes.value] == [(42, "python3")]
    assert first.mig_devices.value is not None
    assert [device.uuid for device in first.mig_devices.value] == ["MIG-1"]
    assert first.compute_mode.value is not None
    assert first.compute_mode.value == "exclusive-process"
    assert isinstance(second.name, Unknown)  # not text
    assert isinstance(second.memory_bytes, Unknown)
    assert second.memory_bytes.why == "denied"
    assert isinstance(lost.uuid, Unknown)
    assert "15" in lost.uuid.detail
    assert reading.cuda_driver_version.value is not None  # by the older of two functions
    assert reading.cuda_driver_version.value == "12.4"


@pytest.mark.needs("c-compiler")
def test_a_pynvml_with_nvml_in_another_module(compiled: Compile, tmp_path: Path) -> None:
    # laid out as another project's package of the same name, often beside ours
    package = tmp_path / "pynvml"
    package.mkdir()
    (package / "nvml.py").write_text(
        Path(find_pynvml() or "", "pynvml.py").read_text(encoding="utf-8")
    )
    (package / "__init__.py").write_text("from .nvml import *\n")
    answer = ask("nvml_devices", compiled(NVML, INIT=0), str(tmp_path))
    assert (answer["init"], answer["driver"], len(answer["gpus"])) == (0, "550.163.01", 3)


@pytest.mark.needs("c-compiler")
def test_nvml_that_does_not_start(compiled: Compile) -> None:
    answer = ask("nvml_devices", compiled(NVML, INIT=18), find_pynvml() or "")
    assert answer == {"init": 18, "text": "Driver/library version mismatch"}

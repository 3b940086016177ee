"""Damaged toolkits on the real file system: nothing hangs, nothing raises, the rest is still read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envcheck.host.local import LocalHost
from envcheck.model import Absent, Fact, ToolkitFacts, ToolkitInstall, Unknown
from envcheck.probes.cuda_libraries import collect_libraries
from envcheck.probes.toolkit import collect_toolkits
from tests.patience import PATIENCE
from tests.work import assert_linear

pytestmark = pytest.mark.needs("posix")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A toolkit that only PATH and CUDA_HOME point to, with an intact header."""
    root = tmp_path / "cuda-12.4"
    (root / "bin").mkdir(parents=True)
    (root / "include").mkdir()
    (root / "include" / "cuda.h").write_text("#define CUDA_VERSION 12040\n")
    for name in ("CUDA_PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "NVCC_CCBIN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{root}/bin:/usr/bin:/bin")
    monkeypatch.setenv("CUDA_HOME", str(root))
    return root


def write_nvcc(root: Path, script: bytes, mode: int = 0o755) -> None:
    path = root / "bin" / "nvcc"
    path.write_bytes(script)
    path.chmod(mode)


def collect(root: Path, budget: float = PATIENCE) -> tuple[ToolkitFacts, ToolkitInstall]:
    facts = collect_toolkits(LocalHost(budget))
    assert facts.installs.value is not None
    return facts, next(item for item in facts.installs.value if item.root == os.path.realpath(root))


def why(fact: Fact[str]) -> str:
    return fact.why if isinstance(fact, Unknown) else ""


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (b"#!/bin/sh\necho nonsense\n", "unparsable"),
        (b"#!/bin/sh\nprintf '\\377\\376\\200release'\n", "unparsable"),
        (b"#!/bin/sh\nexit 255\n", "failed"),
        (b"#!/bin/sh\nkill -SEGV $$\n", "crashed"),
        (b"#!/nowhere/interpreter\n", "failed"),
        (b"\0\1\2 no program at all", "failed"),
    ],
)
def test_an_nvcc_that_misbehaves(root: Path, script: bytes, reason: str) -> None:
    write_nvcc(root, script)
    facts, install = collect(root)
    assert why(install.nvcc_release) == reason
    assert install.version.value == "12.4"
    assert facts.root_on_path.value == install.root


def test_a_hanging_nvcc_times_out(root: Path) -> None:
    write_nvcc(root, b"#!/bin/sh\nexec sleep 3600\n")
    _, install = collect(root, budget=1.0)
    assert why(install.nvcc_release) == "timeout"
    assert install.version.value == "12.4"


def test_an_nvcc_that_is_not_executable(root: Path) -> None:
    write_nvcc(root, b"#!/bin/sh\n", 0o644)
    facts, install = collect(root)
    assert why(install.nvcc_path) == "denied"
    assert facts.nvcc_on_path.value is None or facts.nvcc_on_path.value != str(
        root / "bin" / "nvcc"
    )


def test_an_nvcc_that_is_a_folder(root: Path) -> None:
    (root / "bin" / "nvcc").mkdir()
    _, install = collect(root)
    assert why(install.nvcc_path) == "failed"


def test_fifos_where_files_should_be(root: Path) -> None:
    for name in ("version.json", "bin/nvcc", "bin/ptxas"):
        os.mkfifo(root / name)
    (root / "include" / "cuda.h").unlink()
    os.mkfifo(root / "include" / "cuda.h")
    (root / "lib64").mkdir()
    (root / "lib64" / "libcudart.so.12.4.1").write_bytes(b"ELF")
    _, install = collect(root)
    for fact in (
        install.version_file,
        install.header_version,
        install.nvcc_path,
        install.ptxas_path,
    ):
        assert why(fact) == "failed"
    assert install.version.value == "12.4"


def test_symlink_loops(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "lib64").symlink_to("lib64")
    (root / "bin" / "ptxas").symlink_to("ptxas")
    _, install = collect(root)
    assert why(install.ptxas_path) == why(install.cudart_path) == "failed"
    loop = root / "loop"
    loop.symlink_to(loop)
    monkeypatch.setenv("CUDA_HOME", str(loop))
    assert isinstance(collect_toolkits(LocalHost()).cuda_home_root, (Absent, Unknown))


def test_bytes_that_are_not_utf8(root: Path) -> None:
    (root / "include" / "cuda.h").write_bytes(b"/* \xff\xfe */\n#define CUDA_VERSION 12040\n")
    (root / "version.json").write_bytes(b"\xff\xfe{}")
    _, install = collect(root)
    assert install.header_version.value == "12.4"
    assert why(install.version_file) == "unparsable"


def test_ten_thousand_entries(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(count: int) -> ToolkitFacts:
        entries = [f"{tmp_path}/gone/{number}/lib64" for number in range(count)]
        monkeypatch.setenv("LD_LIBRARY_PATH", ":".join([*entries, f"{root}/lib64", *entries]))
        monkeypatch.setenv("PATH", ":".join([*entries, "/usr/bin"]))
        facts, _ = collect(root)
        collect_libraries(LocalHost())
        return facts

    assert read(10_000).roots_on_library_path.value == (os.path.realpath(root),)
    assert_linear(read, 500)

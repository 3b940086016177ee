"""Folders in memory where there are some: an installation has the file system of its environment written through."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.install.wheels import make_environment, make_parts

_MEMORY = "/dev/shm"


def memory_folder() -> tempfile.TemporaryDirectory[str]:
    """Make a folder in memory where there is one."""
    usable = Path(_MEMORY).is_dir() and os.access(_MEMORY, os.W_OK)
    return tempfile.TemporaryDirectory(prefix="envcheck-install-", dir=_MEMORY if usable else None)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with memory_folder() as name:
        yield Path(name).resolve()


@pytest.fixture(scope="module")
def stock() -> Iterator[Path]:
    """Make wheels of both versions, the new ones of a megabyte, and an environment of the old one, to be copied."""
    with memory_folder() as name:
        folder = Path(name).resolve()
        make_parts(folder / "wheels", "1.0")
        make_parts(folder / "wheels", "2.0", ballast=1 << 20)
        make_environment(folder / "env", folder / "wheels", "1.0")
        yield folder


def work_with_own_wheels(folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder, with its `wheels` as the only index of pip and uv."""
    monkeypatch.chdir(folder)
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("UV_CACHE_DIR", str(cache))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder / "wheels"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)


@pytest.fixture
def here(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Work in a folder of its own, with wheels of JAX that hold nothing but their version."""
    work_with_own_wheels(tmp_path, tmp_path_factory.mktemp("uv"), monkeypatch)
    return tmp_path

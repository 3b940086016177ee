"""Fixtures of the matrix tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from envcheck.matrix.refresh import wheel_contents
from tests.matrix.index.server import LocalIndex, serve


@pytest.fixture(autouse=True)
def wheels_are_parts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare no wheel with its hash: the local index serves parts of wheels under the hashes of the whole ones."""
    if "hashes_compared" not in request.fixturenames:
        monkeypatch.setattr(wheel_contents, "compare_with_index", lambda *_: None)


@pytest.fixture
def hashes_compared() -> None:
    """Compare wheels with the index in this test."""


@pytest.fixture
def configured_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalIndex]:
    """Serve a local index and configure pip for it; nothing of this machine's user is read or written."""
    with serve() as served:
        for name in [
            name
            for name in os.environ
            if name.startswith("PIP_") or name.lower().endswith("_proxy")
        ]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_INDEX_URL", served.url)
        for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME", "LOCALAPPDATA", "HOME"):
            monkeypatch.setenv(name, str(tmp_path / name))
        yield served

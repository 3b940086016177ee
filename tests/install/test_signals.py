"""Signals in the first milliseconds of a step leave the old environment; bench/install_signals.py sends 400."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.install.conftest import memory_folder
from tests.install.signals import SIGNALS, Instant, interrupt, make_stock

pytestmark = pytest.mark.needs("linux")
_DICE = random.Random(15)


@pytest.fixture(scope="module")
def parts() -> Iterator[Path]:
    with memory_folder() as name:
        make_stock(Path(name).resolve())
        yield Path(name).resolve()


@pytest.mark.parametrize("installer", ["uv", "pip"])
@pytest.mark.parametrize("name", SIGNALS)
def test_a_signal_in_the_first_milliseconds_of_a_step(
    parts: Path, tmp_path: Path, name: str, installer: str
) -> None:
    delay, to_group = _DICE.uniform(0, 0.03), name == "SIGKILL" or _DICE.random() < 0.5
    instant = Instant(
        installer, is_there=True, signal=name, to_group=to_group, step="Install both", delay=delay
    )
    outcome = interrupt(parts, tmp_path / "try", instant)
    assert (outcome.held, outcome.wrong) == ("1.0", ())

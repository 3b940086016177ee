"""The CUDA wheels a release asks for, by its matrix row, where its metadata was not read."""

from __future__ import annotations

import pytest

from envcheck.model import FrameworkBuild
from tests.rules.factory_toolkit import SITE, judged, known, lookup, machine, torch

ID = "cuda-wheel-conflict"


@pytest.mark.parametrize(
    ("version", "wheel", "expected"),
    [
        ("2.7.1+cu126", "9.14.0.64", [(ID, "incompatible", "warning")]),
        ("2.7.1", "9.14.0.64", [(ID, "incompatible", "warning")]),
        ("2.7.1+cu126", "9.5.1.17", []),
        ("2.7.1+cu128", "9.7.1.26", []),  # the row describes the build for another CUDA
    ],
)
def test_an_exact_pin_of_torch(
    version: str, wheel: str, expected: list[tuple[str, str, str]]
) -> None:
    assert (
        judged(
            machine(torch(version), distributions={"torch": version, "nvidia-cudnn-cu12": wheel}),
            ID,
        )
        == expected
    )


def test_what_an_extra_asks_for_is_an_error_unless_all_was_found() -> None:
    there = {"jax-cuda12-plugin": "0.4.35", "nvidia-cudnn-cu12": "8.9.2.26"}
    plugin = FrameworkBuild("jax", "jax-cuda12-plugin", "0.4.35", SITE)
    assert judged(machine(plugin, distributions=there), ID) == [(ID, "incompatible", "error")]
    found = known((lookup("libcudnn.so.9", "/usr/lib/libcudnn.so.9"),))
    plugin = FrameworkBuild("jax", "jax-cuda12-plugin", "0.4.35", SITE, libraries=found)
    assert judged(machine(plugin, distributions=there), ID) == [(ID, "incompatible", "warning")]

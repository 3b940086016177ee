"""A message that states two releases names both in the sentence of its cause."""

from __future__ import annotations

import pytest

from tests.cases.judged import judge_text

# The words of the programs, with composed releases.
JAX = """\
RuntimeError: jaxlib version 0.4.30 is newer than and incompatible with jax version 0.4.20.
"""
XFORMERS = """\
WARNING[XFORMERS]: xFormers can't load C++/CUDA extensions. xFormers was built for:
    PyTorch 2.1.0+cu121 with CUDA 1201 (you have 2.0.1+cu118)
    Python  3.10.13 (you have 3.10.12)
"""
TENSORRT = """\
[TRT] [E] 1: Error Code 1: Serialization (Serialization assertion stdVersionRead == kVERSION failed.\
Version tag does not match. Note: Current Version: 232, Serialized Engine Version: 213)
"""
STATED = (
    (JAX, "jaxlib 0.4.30 is newer than jax 0.4.20 takes"),
    (XFORMERS, "built for PyTorch 2.1.0+cu121, and 2.0.1+cu118 is installed"),
    (TENSORRT, "its version is 213, that of the TensorRT here 232"),
)


@pytest.mark.parametrize(("log", "said"), STATED)
def test_both_releases_are_named(log: str, said: str) -> None:
    cause = next(item for item in judge_text(log).report.findings if item.primary)
    assert said in cause.message

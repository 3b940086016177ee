"""Builds that no row of the matrix describes: nightlies, vendors', conda's and those made from source."""

from __future__ import annotations

from typing import Any

import pytest

from envcheck.model import Unknown
from envcheck.rules import evaluate
from tests.rules.factory_python import build, context, distribution, facts, found, gpu, known

CUDA: dict[str, Any] = {
    "cuda_build": known(True),
    "cuda_version": known("12.4"),
    "cudnn_version": known("9.1.0.70"),
}


@pytest.mark.parametrize(
    ("framework", "dist", "version"),
    [
        ("torch", "torch", "2.5.0a0+e000cf0ad9.nv24.10"),
        ("torch", "torch", "2.6.0.dev20241112+cu124"),
        ("torch", "torch", "2.7.0a0+gitabc1234"),
        ("tensorflow", "tf-nightly", "2.19.0.dev20241201"),
        ("tensorflow", "nvidia-tensorflow", "1.15.5+nv23.3"),
        ("tensorflow", "intel-tensorflow", "2.13.0"),
    ],
)
def test_a_variant_of_a_known_release_is_judged_by_its_files(
    framework: str, dist: str, version: str
) -> None:
    given = context(facts(build(framework, version, dist, **CUDA)))
    assert found("release-unknown", given) == [("release-unknown", "note")]


@pytest.mark.parametrize(
    "version", ["99.0.0.dev20270101+cu124", "99.0", "2.5.0.dev0.broken", "2.5.99"]
)
def test_what_is_ahead_of_the_matrix_or_no_release_stays_open(version: str) -> None:
    assert found("release-unknown", context(facts(build("torch", version, **CUDA)))) == [
        ("release-unknown", "error")
    ]


def test_a_variant_of_which_nothing_was_read_stays_open() -> None:
    unread = build("torch", "2.6.0.dev20241112", cuda_build=Unknown("denied", "permission denied"))
    assert ("release-unknown", "error") in found("release-unknown", context(facts(unread)))


def test_the_wheels_row_does_not_describe_condas_build() -> None:
    # conda-forge compiles torch 2.8 for Pascal, which PyTorch's wheel for CUDA 12.8 left out.
    pascal = known((gpu("6.1"),))
    conda = (distribution("torch", "2.8.0", installer="conda"),)
    given = facts(build("torch", "2.8.0", **CUDA), distributions=conda, gpus=pascal)
    assert [
        item.id for item in evaluate(context(given)).findings if item.id.startswith("gpu-arch")
    ] == []
    wheel = facts(build("torch", "2.8.0", **{**CUDA, "cuda_version": known("12.8")}), gpus=pascal)
    assert found("gpu-arch-too-old", context(wheel)) == [("gpu-arch-too-old", "error")]


@pytest.mark.parametrize(
    ("requires", "asked", "severity"),
    [
        (("jax>=0.3.15",), (), "note"),
        ((), (), "error"),
        (("jax>=0.3.15",), ("jax==0.4.13",), "error"),
    ],
)
def test_what_a_known_release_requires_is_not_judged_by_itself(
    requires: tuple[str, ...], asked: tuple[str, ...], severity: str
) -> None:
    # The newest JAX for Python 3.8, which TensorFlow 2.12 brings there, was published as source
    # alone.
    here = facts(
        build("tensorflow", "2.12.1"),
        build("jax", "0.4.13"),
        distributions=(
            distribution("tensorflow", "2.12.1", requires=requires),
            distribution("jax", "0.4.13"),
        ),
    )
    assert found("release-unknown", context(here, *asked)) == [("release-unknown", severity)]

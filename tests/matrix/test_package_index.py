"""Builds of PyTorch's own index are rows like any other."""

from __future__ import annotations

import re

import pytest

from envcheck.matrix import load_matrix
from envcheck.matrix.package_index import index_url, is_index_label, is_proposed
from envcheck.model import major_minor, numbers

MATRIX = load_matrix()
LINUX = "linux_x86_64"


def labels(version: str, platform: str, framework: str = "torch") -> list[str]:
    return [row.local for row in MATRIX.builds(framework, platform, version.__eq__)]


@pytest.mark.parametrize(
    ("version", "platform", "expected"),
    [
        ("2.6.0", LINUX, ["", "cu126", "cu124", "cu118", "cpu"]),
        ("2.6.0", "win_amd64", ["", "cu126", "cu124", "cu118"]),
        ("2.8.0", "linux_aarch64", ["", "cu129"]),
        ("2.7.1", "linux_aarch64", [""]),
        ("2.6.0", "macosx_arm64", [""]),
        ("99.0", LINUX, []),
    ],
)
def test_a_release_is_followed_by_the_builds_of_its_index(
    version: str, platform: str, expected: list[str]
) -> None:
    assert labels(version, platform) == expected


def test_a_framework_without_an_index_has_the_same_releases_and_builds() -> None:
    assert tuple(MATRIX.builds("tensorflow", LINUX)) == MATRIX.releases("tensorflow", LINUX)


def test_a_build_has_cells_of_its_own() -> None:
    row = MATRIX.build("torch", "2.6.0", "cu118", LINUX)
    default = MATRIX.release("torch", "2.6.0", LINUX)
    assert row
    assert default
    assert (row.build_version, row.cuda, row.cudnn, row.cuda_wheels) == (
        "2.6.0+cu118",
        "11.8",
        None,
        (),
    )
    assert row.index == "https://download.pytorch.org/whl/cu118"
    assert row.compute_capabilities == tuple(default.variants["11.8"])
    assert (row.pythons, row.requires) == (default.pythons, default.requires)
    assert row.proof["compute_capabilities"] == "documented"
    assert "CURRENT_STABLE_VERSION 2.6.0: CUDA_ARCHES 11.8, 12.4, 12.6 " in row.citations[0].locator


def test_the_builds_of_each_release_rest_on_a_document_of_that_release() -> None:
    rows = [row for row in MATRIX.releases("torch") if row.variants]
    assert len(rows) > 100
    for row in rows:
        if row.proof.get("variants") == "documented":
            named = row.version if numbers(row.version) < (1, 13) else major_minor(row.version)
            assert re.search(rf"\bv?{re.escape(named)}\b", row.citations[1].locator)


def test_the_build_for_the_cuda_of_the_default_index_is_that_one() -> None:
    row = MATRIX.build("torch", "2.6.0", "cu124", LINUX)
    default = MATRIX.build("torch", "2.6.0", "", LINUX)
    assert row
    assert default
    assert (row.cudnn, row.compute_capabilities) == (default.cudnn, default.compute_capabilities)
    assert (default.index, row.index) == ("", "https://download.pytorch.org/whl/cu124")


def test_a_build_without_a_row_is_none() -> None:
    assert MATRIX.build("torch", "2.6.0", "cu999", LINUX) is None
    assert MATRIX.build("torch", "99.0", "cu118", LINUX) is None
    assert MATRIX.build("tensorflow", "2.15.0", "cu118", LINUX) is None


def test_labels_and_addresses() -> None:
    assert is_index_label("torch", "cu118")
    assert is_index_label("torch", "cpu")
    assert not any(is_index_label("torch", text) for text in ("", "rocm6.1", "cu118.post1", "mine"))
    assert not is_index_label("jax", "cuda12")
    assert (
        index_url("tensorflow", "cpu")
        == index_url("torch", "rocm6.1")
        == index_url("mxnet", "cpu")
        == ""
    )


def test_builds_that_lie_on_pages_of_another_layout_are_known_and_never_proposed() -> None:
    old, new = (
        MATRIX.build("torch", version, label, LINUX)
        for version, label in (("1.7.1", "cu110"), ("1.8.1", "cu111"))
    )
    assert old
    assert new
    assert (is_proposed(old), is_proposed(new)) == (False, True)

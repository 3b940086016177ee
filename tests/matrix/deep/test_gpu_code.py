"""GPU code by the share of fat binaries: a stray kernel is no support, kernels for newer GPUs alone are no lack."""

from __future__ import annotations

from typing import Any

import pytest

from envcheck.matrix.load import iterate_rows, load_document
from envcheck.matrix.refresh.binary_cells import derive_cells, lacks_counts
from envcheck.matrix.refresh.gpu_code import (
    MACHINE_CODE_SHARE,
    PTX_SHARE,
    list_supported,
    list_targets,
    parse,
)

# Composed after the libraries of vllm 0.19.1 for Linux x86_64: 106 fat binaries, of which one has
# code for sm_52.
STRAY = {
    "sm_90a": 20,
    "sm_75 sm_80 sm_90": 40,
    "sm_80 compute_80": 20,
    "sm_70 sm_75 sm_80": 25,
    "sm_52 compute_52": 1,
}


def supported(*codes: dict[str, int]) -> list[str]:
    return list_supported([{"gpu_code": code} for code in codes])


def test_one_stray_kernel_is_no_support() -> None:
    assert supported(STRAY) == ["sm_70", "sm_75", "sm_80", "sm_90", "sm_90a"]


def test_the_boundaries_of_both_shares() -> None:
    assert (MACHINE_CODE_SHARE, PTX_SHARE) == (0.1, 0.5)
    assert supported({"sm_80": 9, "sm_70 sm_80": 1}) == ["sm_70", "sm_80"]
    assert supported({"sm_80": 10, "sm_70 sm_80": 1}) == ["sm_80"]
    assert supported({"sm_80 compute_80": 1, "sm_80": 1}) == ["sm_80", "compute_80"]
    assert supported({"sm_80 compute_80": 1, "sm_80": 2}) == ["sm_80"]


def test_code_for_an_older_gpu_serves_a_newer_one() -> None:
    """sm_86 runs the code of sm_80, and every newer GPU older PTX; sm_90 does not run that of sm_80."""
    assert supported({"sm_80": 99, "sm_80 sm_86": 1}) == ["sm_80", "sm_86"]
    assert supported({"sm_70 compute_70": 99, "sm_70 compute_70 sm_90": 1}) == [
        "sm_70",
        "sm_90",
        "compute_70",
    ]
    assert supported({"sm_80": 99, "sm_80 sm_90": 1}) == ["sm_80"]
    assert supported({"sm_90a": 99, "sm_90": 1}) == ["sm_90", "sm_90a"]
    assert supported({"sm_90a": 99, "sm_100": 1}) == ["sm_90a"]


def test_libraries_that_are_alternatives() -> None:
    """bitsandbytes loads one library, by the CUDA of torch; a small one says little."""
    assert supported({"sm_50 sm_80": 3}, {"sm_80 sm_120": 3}) == ["sm_50", "sm_80", "sm_120"]
    assert supported({"sm_80": 79}, {"sm_52": 2, "sm_80": 14}) == ["sm_80"]


def test_facts_without_counts_count_whole() -> None:
    facts = {"architectures": ["sm_52", "sm_80", "compute_90", "lto_90"]}
    assert list_supported([facts]) == ["sm_52", "sm_80", "compute_90"]
    assert list_targets(facts) == facts["architectures"]
    assert list_supported([{}]) == list_supported([]) == []


def test_other_code_is_not_counted() -> None:
    assert supported({"lto_90": 99, "sm_80": 1}) == ["sm_80"]


ROWS: list[dict[str, Any]] = [
    row for row in iterate_rows({"releases": load_document()["releases"]}) if "binaries" in row
]


@pytest.mark.parametrize(
    "section", sorted({row["distribution"] for row in ROWS} - {"jax", "torch", "tensorflow"})
)
def test_rows_of_the_matrix_follow_the_rule(section: str) -> None:
    rows = [
        row for row in ROWS if row["distribution"] == section and not lacks_counts(row["binaries"])
    ]
    for row in rows:
        derived = derive_cells(section, row["binaries"]).get("compute_capabilities", [])
        if row["proof"].get("compute_capabilities") == "tier2":
            assert row["compute_capabilities"] == derived


def test_no_vllm_counts_a_gpu_of_one_kernel() -> None:
    rows = [row for row in ROWS if row["distribution"] == "vllm"]
    assert len(rows) > 70
    for row in rows:
        assert not any(parse(text)[1:3] < (7, 0) for text in row["compute_capabilities"])
        if row["platform"] == "linux_x86_64":  # two releases for aarch64 hold nothing for it
            assert "sm_80" in row["compute_capabilities"]
    libraries = [facts for row in rows for facts in row["binaries"]["read"].values()]
    # they hold some all the same
    assert sum("sm_52" in list_targets(facts) for facts in libraries) >= 38

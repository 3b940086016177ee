"""Packages that are published as source only: which built file of their projects fits which torch."""

from __future__ import annotations

import pytest

from envcheck.actions.environments import is_release_file
from envcheck.matrix.companions import TorchBuild, find_file

LINUX, ARM, WINDOWS = "linux_x86_64", "linux_aarch64", "win_amd64"


@pytest.mark.parametrize(
    ("name", "torch", "end"),
    [
        (
            "flash-attn",
            TorchBuild("2.8.0", "12.8", "3.12", LINUX),
            "+cu12torch2.8cxx11abiTRUE-cp312-cp312",
        ),
        (
            "flash-attn",
            TorchBuild("2.6.0", "12.4", "3.12", LINUX),
            "+cu12torch2.6cxx11abiFALSE-cp312-cp312",
        ),
        (
            "flash-attn",
            TorchBuild("2.6.0+cu126", "12.6", "3.12", LINUX),
            "+cu12torch2.6cxx11abiTRUE-cp312-cp312",
        ),
        # of a newer torch than any was built for
        ("flash-attn", TorchBuild("2.15.0", "13.2", "3.12", LINUX), ""),
        ("flash-attn", TorchBuild("2.8.0+cu118", "11.8", "3.12", LINUX), ""),
        ("flash-attn", TorchBuild("2.8.0", "12.8", "3.12", ARM), ""),
        (
            "mamba-ssm",
            TorchBuild("2.8.0", "12.8", "3.12", ARM),
            "/mamba_ssm-2.3.1+cu12torch2.8cxx11abiTRUE-cp312-cp312",
        ),
        (
            "mamba-ssm",
            TorchBuild("2.10.0+cu130", "13.0", "3.12", LINUX),
            "+cu13torch2.10cxx11abiTRUE-cp312-cp312",
        ),
        (
            "torch-scatter",
            TorchBuild("2.7.1+cu118", "11.8", "3.11", WINDOWS),
            "-2.1.2%2Bpt27cu118-cp311-cp311",
        ),
        # its page has 12.6 and 12.8
        ("torch-scatter", TorchBuild("2.7.1", "12.9", "3.11", LINUX), ""),
    ],
)
def test_the_file_that_fits(name: str, torch: TorchBuild, end: str) -> None:
    found = find_file(name, "", torch)
    assert (found.requirement if found else "").endswith(
        f"{end}-{torch.platform}.whl" if end else ""
    )
    assert found is None or is_release_file(found.requirement)


def test_a_release_of_which_nobody_read_the_files_has_none() -> None:
    assert (
        find_file("flash-attn", "==2.8.3.post2", TorchBuild("2.8.0", "12.8", "3.12", LINUX)) is None
    )


def test_files_for_a_newer_c_library_than_the_machines_do_not_fit() -> None:
    found = find_file("flash-attn", "", TorchBuild("2.6.0", "12.4", "3.12", LINUX, glibc="2.31"))
    assert found is not None
    assert found.version == "2.7.4.post1"

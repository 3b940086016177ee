"""A recorded wheel of the local index that contains the built library, and the matrix before its binaries were read."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from envcheck.matrix.load import iterate_rows
from envcheck.matrix.refresh.index import OddWheelError
from envcheck.matrix.refresh.refresh import add_binaries, list_framework
from tests.matrix.documents import document
from tests.matrix.index.renewal import reader
from tests.matrix.index.server import LocalIndex, archive, recorded

BUILT = Path(__file__).with_name("built")
SAMPLE = (BUILT / "sample.so").read_bytes()
WHEEL = "jax_cuda12_plugin-0.12.0.1-cp315-cp315t-manylinux_2_27_x86_64.whl"
FILE = f"/files/{WHEEL}"
SHA256 = recorded()["wheels"][WHEEL]["sha256"]
UNKNOWN = "2" * 64
SOLVER, VERSIONS = "jax_cuda12_plugin/_solver.so", "jax_cuda12_plugin/_versions.so"
KEY = ("jax", "0.12.0.1", "jax-cuda12-plugin", "linux_x86_64")


def fill(index: LocalIndex, members: Mapping[str, bytes]) -> None:
    """Serve the wheel with these members beside its metadata."""
    folder = "jax_cuda12_plugin-0.12.0.1"
    metadata = recorded()["texts"][recorded()["wheels"][WHEEL]["members"]["METADATA"]].encode()
    index.archives[WHEEL] = archive(
        {f"{folder}.dist-info/METADATA": metadata, **members}, folder=folder
    )


def row_of(matrix: dict[str, Any]) -> dict[str, Any]:
    rows: list[dict[str, Any]] = matrix["releases"]["jax"]["0.12.0.1"]
    return next(row for row in rows if (row["distribution"], row["platform"]) == KEY[2:])


def one_release() -> dict[str, Any]:
    """Return the built-in matrix with one release of JAX, which is quick to copy and to compare."""
    kept = deepcopy(
        {
            **document(),
            "citations": {},
            "releases": {"jax": {KEY[1]: document()["releases"]["jax"][KEY[1]]}},
        }
    )
    kept["citations"] = {
        name: dict(document()["citations"][name])
        for row in iterate_rows(kept)
        for name in row["citations"]
    }
    return kept


def unread(sha256: str = SHA256) -> dict[str, Any]:
    """Return that release as it was before the binaries of one of its wheels were read."""
    matrix = one_release()
    row = row_of(matrix)
    for cell in ("binaries", "compiler"):
        del row[cell]
        del row["proof"][cell]
    row["compute_capabilities"] = []
    del row["proof"]["compute_capabilities"]
    row["note"] += " Compute capabilities were not read."
    matrix["citations"][row["citations"][0]].update(locator="METADATA", sha256=sha256)
    return matrix


def list_as_unknown(index: LocalIndex) -> None:
    """List the wheel under a hash whose binaries no earlier run has read."""
    index.wheels[WHEEL] = {**index.wheels[WHEEL], "sha256": UNKNOWN}


def deepened(
    index: LocalIndex, matrix: dict[str, Any], cache: Path | None = None, **settings: Any
) -> dict[str, Any]:
    """Read the binaries of that row from the index, as `matrix refresh --deep` does; raises what it leaves out."""
    opened = reader(index, cache, **settings)
    try:
        listings = [list_framework(opened, "jax", "0.12.0.1")]
        left_out = add_binaries(
            matrix, listings, opened.open_binaries(), "2030-01-02", lambda *_: None, chosen={KEY}
        )
    finally:
        opened.close()
    if left_out:
        raise OddWheelError(*left_out)
    return matrix


def with_field(whole: bytes, member: str, offset: int, form: str, value: int) -> bytes:
    """Change a field of a member's entry in the directory of an archive."""
    data, at = bytearray(whole), -1
    while (at := whole.index(b"PK\1\2", at + 1)) and whole[
        at + 46 : at + 46 + len(member)
    ] != member.encode():
        pass
    struct.pack_into(form, data, at + offset, value)
    return bytes(data)

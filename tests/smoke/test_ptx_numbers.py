"""The driver test's kernels compute the right numbers: their PTX, run on the processor.

No GPU takes part.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.smoke.ptx_machine import Memory, compile_kernel, from_half, launch, to_half

KERNELS = Path(__file__).parents[2] / "envcheck" / "smoke" / "children"


def text(kernel: str) -> str:
    return (KERNELS / f"matmul_{kernel}.ptx").read_text(encoding="ascii")


def multiply(kernel: str, left: list[list[int]], right: list[list[int]]) -> list[list[float]]:
    half = kernel == "f16"
    rows, inner, columns = len(left), len(right), len(right[0])
    arrays: list[list[Any]] = [
        [float(value) for row in matrix for value in row] for matrix in (left, right)
    ]
    arrays = [[to_half(value) for value in array] if half else array for array in arrays]
    arrays.append([to_half(-1.0) if half else -1.0] * (rows * columns))
    launch(compile_kernel(text(kernel)), Memory(arrays, 2 if half else 4), (rows, columns, inner))
    found = [from_half(value) if half else value for value in arrays[2]]
    return [found[row * columns : (row + 1) * columns] for row in range(rows)]


def expected(left: list[list[int]], right: list[list[int]]) -> list[list[float]]:
    columns = list(zip(*right, strict=True))
    return [
        [float(sum(x * y for x, y in zip(row, column, strict=True))) for column in columns]
        for row in left
    ]


@pytest.mark.parametrize("kernel", ["f32", "f16"])
def test_the_small_product(kernel: str) -> None:
    assert multiply(kernel, [[1, 2, 3], [4, 5, 6]], [[1, 2], [3, 4], [5, 6]]) == [
        [22, 28],
        [49, 64],
    ]


@pytest.mark.parametrize("kernel", ["f32", "f16"])
@pytest.mark.parametrize(("rows", "inner", "columns"), [(66, 17, 3), (3, 33, 70)])
def test_products_that_reach_over_tiles_and_blocks(
    kernel: str, rows: int, inner: int, columns: int
) -> None:
    left = [[(row * 7 + column * 3) % 11 - 5 for column in range(inner)] for row in range(rows)]
    right = [[(row * 5 + column * 2) % 9 - 4 for column in range(columns)] for row in range(inner)]
    assert multiply(kernel, left, right) == expected(left, right)


def test_the_machine_notices_a_tile_that_is_not_aligned() -> None:
    loose = text("f32").replace(".shared .align 16", ".shared .align 4")
    arrays: list[list[Any]] = [[1.0] * 4, [1.0] * 4, [0.0] * 4]
    with pytest.raises(ValueError, match="misaligned"):
        launch(compile_kernel(loose), Memory(arrays, 4), (2, 2, 2))


def test_the_machine_notices_an_access_outside_a_matrix() -> None:
    arrays: list[list[Any]] = [[1.0] * 4, [1.0] * 4, [0.0] * 3]
    with pytest.raises(IndexError):
        launch(compile_kernel(text("f32")), Memory(arrays, 4), (2, 2, 2))

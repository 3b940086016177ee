"""The driver test's kernel computes the right numbers: its PTX, run on the processor.

No GPU takes part.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.smoke.ptx_machine import Memory, compile_kernel, launch

KERNEL = Path(__file__).parents[2] / "envcheck/smoke/children/matmul_f32.ptx"


def multiply(left: list[list[int]], right: list[list[int]]) -> list[list[float]]:
    rows, inner, columns = len(left), len(right), len(right[0])
    arrays: list[list[Any]] = [
        [float(value) for row in matrix for value in row] for matrix in (left, right)
    ]
    arrays.append([-1.0] * (rows * columns))
    launch(compile_kernel(KERNEL.read_text("ascii")), Memory(arrays), (rows, columns, inner))
    return [arrays[2][row * columns : (row + 1) * columns] for row in range(rows)]


def expected(left: list[list[int]], right: list[list[int]]) -> list[list[float]]:
    columns = list(zip(*right, strict=True))
    return [
        [float(sum(x * y for x, y in zip(row, column, strict=True))) for column in columns]
        for row in left
    ]


def test_the_small_product() -> None:
    assert multiply([[1, 2, 3], [4, 5, 6]], [[1, 2], [3, 4], [5, 6]]) == [
        [22, 28],
        [49, 64],
    ]


@pytest.mark.parametrize(("rows", "inner", "columns"), [(66, 17, 3), (3, 33, 70)])
def test_products_that_reach_over_tiles_and_blocks(rows: int, inner: int, columns: int) -> None:
    left = [[(row * 7 + column * 3) % 11 - 5 for column in range(inner)] for row in range(rows)]
    right = [[(row * 5 + column * 2) % 9 - 4 for column in range(columns)] for row in range(inner)]
    assert multiply(left, right) == expected(left, right)


def test_the_machine_notices_a_tile_that_is_not_aligned() -> None:
    loose = KERNEL.read_text("ascii").replace(".shared .align 16", ".shared .align 4")
    arrays: list[list[Any]] = [[1.0] * 4, [1.0] * 4, [0.0] * 4]
    with pytest.raises(ValueError, match="misaligned"):
        launch(compile_kernel(loose), Memory(arrays), (2, 2, 2))


def test_the_machine_notices_an_access_outside_a_matrix() -> None:
    arrays: list[list[Any]] = [[1.0] * 4, [1.0] * 4, [0.0] * 3]
    with pytest.raises(IndexError):
        launch(compile_kernel(KERNEL.read_text("ascii")), Memory(arrays), (2, 2, 2))

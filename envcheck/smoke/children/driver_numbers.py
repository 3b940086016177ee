"""Large matrices and their product's check without any library: exact to rounding, in a second of plain Python."""

import array
import random
import struct
from typing import TYPE_CHECKING, Any, List, Tuple

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZE = 2048
PERIOD = 8191  # a prime, so that no two rows are alike
STEPS = 16  # values are multiples of 1/16: exact in float16, too
ALLOWED = {"matmul_f32": 1e-4, "matmul_f16": 5e-3}  # error, as a share of the typical number
BYTES = {"matmul_f32": 4, "matmul_f16": 2}


def matrix(seed: int) -> List[float]:
    """Make a matrix, row by row, of multiples of 1/16 between -1 and 1."""
    source = random.Random(seed)  # noqa: S311 - test data
    some = [source.randint(-STEPS, STEPS) / STEPS for _ in range(PERIOD)]
    return (some * (SIZE * SIZE // PERIOD + 1))[: SIZE * SIZE]


def packed(values: "Sequence[float]", kernel: str) -> Any:
    """Return numbers as the kernel reads them: float32, or float16 as raw 16-bit words."""
    if kernel == "matmul_f32":
        return array.array("f", values)
    words = array.array("H")
    words.frombytes(struct.pack("%de" % len(values), *values))
    return words


def unpacked(values: Any, kernel: str) -> "Sequence[float]":
    """Return a kernel's results as numbers."""
    if kernel == "matmul_f32":
        return list(values)
    return tuple(struct.unpack("%de" % len(values), values.tobytes()))


def largest_error(left: List[float], right: List[float], product: "Sequence[float]") -> float:
    """Return the largest error of a product's rows, as a share of the typical number.

    Freivalds: with random signs s, each row of product * s must be that row of left * (right * s). A wrong number
    anywhere in a row shows; the cost is that of three vectors, not of a second product.
    """
    source = random.Random(3)  # noqa: S311 - test data
    signs = [source.choice((-1.0, 1.0)) for _ in range(SIZE)]
    wanted = times(left, times(right, signs))
    found = times(product, signs)
    typical = (sum(value * value for value in product[:SIZE]) / SIZE) ** 0.5 * SIZE**0.5
    errors = [abs(one - other) for one, other in zip(found, wanted)]
    worst = max(errors) if all(error == error for error in errors) else float("nan")  # noqa: PLR0124 - a NaN is not
    return worst / typical if typical else float("inf")


def times(numbers: "Sequence[float]", vector: List[float]) -> List[float]:
    """Multiply a square matrix, given row by row, with a vector."""
    rows = range(0, SIZE * SIZE, SIZE)
    return [sum(map(float.__mul__, numbers[row : row + SIZE], vector)) for row in rows]


def flops() -> Tuple[int, str]:
    """Return the operations of one product, and its size in words."""
    return 2 * SIZE**3, "%d x %d" % (SIZE, SIZE)

"""Large matrices and the error of their product, by NumPy."""

from typing import Any

import numpy as np


def random_factors(kind: str, size: int) -> Any:
    """Return two square matrices of a precision."""
    return np.random.RandomState(0).standard_normal((2, size, size)).astype(kind)


def product_error(found: Any, factors: Any) -> float:
    """Return the largest error of a product, as a share of the typical number: the root of the size."""
    left, right = (each.astype("float64") for each in factors)
    return float(np.abs(np.asarray(found).astype("float64") - np.matmul(left, right)).max() / len(left) ** 0.5)

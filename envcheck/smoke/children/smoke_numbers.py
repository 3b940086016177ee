"""What every framework computes with.

Small matrices whose product is known, large ones, and how far a result errs.
"""

from typing import Any, Callable, List, Tuple

Answer = Tuple[Any, str]  # numbers, and the device that made them
Action = Callable[[], Any]  # what is timed: it ends when its work is done
LEFT, RIGHT = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
PRODUCT = [[22.0, 28.0], [49.0, 64.0]]
MISSING = "GPU:99"  # a device that no machine has


def to_array(numbers: Any) -> Any:
    """Return float32 of rows; what is an array stays as it is."""
    import numpy as np

    return numbers if hasattr(numbers, "dtype") else np.array(numbers, "float32")


def channels_last(image: List[List[float]]) -> Tuple[Any, Any]:
    """Return an image and 3 x 3 ones as TensorFlow's convolution takes them."""
    return [[[[value] for value in row] for row in image]], [[[[1.0]]] * 3] * 3


def random_factors(kind: str, size: int) -> Any:
    """Return two square matrices of a precision."""
    import numpy as np

    return np.random.RandomState(0).standard_normal((2, size, size)).astype(kind)


def product_error(found: Any, factors: Any) -> float:
    """Return the largest error of a product, as a share of the typical number.

    The root of the size.
    """
    import numpy as np

    left, right = (each.astype("float64") for each in factors)
    return float(
        np.abs(np.asarray(found).astype("float64") - np.matmul(left, right)).max()
        / len(left) ** 0.5
    )

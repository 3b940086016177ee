"""What a step says of an exception."""

from __future__ import annotations

import pytest

from tests.smoke.children import Heard

ONE = """InternalError: Graph execution error:

Detected at node 'MatMul' defined at (most recent call last):
    File "x.py", line 3
Node: 'MatMul'
Attempting to perform BLAS operation using StreamExecutor without BLAS support
\t [[{{node MatMul}}]] [Op:__inference_product_12]"""
SEVERAL = """InternalError: Graph execution error:

Detected at node Add defined at (most recent call last):
<stack traces unavailable>
2 root error(s) found.
  (0) INTERNAL:  Failed to build OpKernel for Add
\t [[{{node Add}}]]
  (1) CANCELLED:  Function was cancelled
0 successful operations."""


@pytest.mark.parametrize(
    ("error", "outcome", "message"),
    [
        (RuntimeError("one\ntwo"), "error", "RuntimeError: one"),
        (RuntimeError(), "error", "RuntimeError:"),
        (
            ValueError(ONE),
            "error",
            "Attempting to perform BLAS operation using StreamExecutor without BLAS support",
        ),
        (ValueError(SEVERAL), "error", "(0) INTERNAL:  Failed to build OpKernel for Add"),
        (ValueError("Graph execution error:"), "error", "ValueError: Graph execution error:"),
        (MemoryError(), "out-of-memory", "MemoryError:"),
        (
            RuntimeError("CUDA out of memory. Tried to allocate"),
            "out-of-memory",
            "RuntimeError: CUDA out of memory.",
        ),
    ],
)
def test_an_exception_becomes_an_outcome_with_its_most_telling_line(
    error: Exception, outcome: str, message: str
) -> None:
    heard = Heard("cpu")
    with heard.report.step("matmul", "CPU:0"):
        raise error
    told = heard.results["matmul"]
    assert (told["outcome"], told["message"][: len(message)]) == (outcome, message)
    assert told["error"].startswith(type(error).__name__)

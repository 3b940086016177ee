"""The compatibility matrix: what works with what, each row with its citation."""

from envcheck.matrix.load import MatrixError, load_matrix
from envcheck.matrix.query import Matrix

__all__ = ["Matrix", "MatrixError", "load_matrix"]

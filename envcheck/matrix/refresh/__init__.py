"""Refresh the matrix from the published wheels, and verify it against them."""

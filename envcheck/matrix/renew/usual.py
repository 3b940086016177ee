"""The index that is asked where none is configured."""

from __future__ import annotations


def usual_index() -> str:
    """Return its address; "" where the library that knows it is not here."""
    try:
        from pypi_simple import PYPI_SIMPLE_ENDPOINT
    except ImportError:
        return ""
    return str(PYPI_SIMPLE_ENDPOINT)

"""Read a machine: every probe, and how their facts become a snapshot.

What is named here lies in `collection`, which imports every probe: who needs one probe does not pay for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envcheck.probes.collection import PROBES, collect
    from envcheck.probes.python import PythonSelection

__all__ = ["PROBES", "PythonSelection", "collect"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from envcheck.probes import collection

    return getattr(collection, name)

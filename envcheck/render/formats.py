"""Every format that every document can be written in."""

from __future__ import annotations

from importlib import import_module

from envcheck.render.document import Document

# Each is imported when it is asked for: XML, hashes and templates take milliseconds.
_MODULES = {
    "text": "text",
    "html": "html",
    "junit": "junit",
    "sarif": "sarif",
    "github": "markdown",
    "markdown": "markdown",
    "jsonl": "monitoring",
    "prometheus": "monitoring",
    "npd": "monitoring",
    "nhc": "monitoring",
}
FORMATS = tuple(_MODULES)
# These state the verdict and what was found; what to type about it is in the others.
STATES = ("prometheus", "npd", "nhc")


def render(document: Document, form: str) -> str:
    """Write a document in one of FORMATS."""
    return str(
        getattr(import_module(f"envcheck.render.{_MODULES[form]}"), f"render_{form}")(document)
    )

"""Read JSON, TOML and YAML that somebody else wrote: any value may be of any type."""

from __future__ import annotations

import json
import sys
from typing import Any, Dict, List


def parse_object(text: str | bytes) -> Dict[str, Any]:
    """Read a JSON object; an empty one stands for every other text."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def parse_toml(text: str) -> Dict[str, Any]:
    """Load a TOML document; raises ValueError, for one that nests too deep as well."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib  # the library tomllib came from
    try:
        document: Dict[str, Any] = tomllib.loads(text)
    except RecursionError as error:
        raise ValueError(str(error)) from None
    return document


def dig(document: object, *keys: str) -> Any:
    """Return what stands below these keys; None where a step is no table or lacks its key."""
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def table_in(document: object, *keys: str) -> Dict[str, Any]:
    """Return the table below these keys; an empty one where there is none."""
    found = dig(document, *keys)
    return found if isinstance(found, dict) else {}


def list_in(document: object, *keys: str) -> List[Any]:
    """Return the list below these keys; an empty one where there is none."""
    found = dig(document, *keys)
    return found if isinstance(found, list) else []


def tables_in(document: object, *keys: str) -> List[Dict[str, Any]]:
    """Return the tables in the list below these keys; what is no table is left out."""
    return [item for item in list_in(document, *keys) if isinstance(item, dict)]

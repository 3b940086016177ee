"""Decode a single value, where the product decodes whole records."""

from __future__ import annotations

from typing import Any

from envcheck.model import codec


def decode_as(annotation: str, owner: type, value: Any) -> Any:
    """Build a value of an annotation such as "Fact[Tuple[Gpu, ...]]"; names resolve in `owner`'s module."""
    parsed = codec._parse_annotation(annotation, owner)
    return parsed.decode(parsed.inner, value)

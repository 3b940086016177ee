"""The names of a record's fields, told without making `dataclasses` of it."""

from __future__ import annotations

from dataclasses import fields

from envcheck.model import Gpu, Known, Source, list_fields


def test_a_record_and_its_class_have_the_same_names() -> None:
    assert list_fields(Known("1", Source("file", "/x"))) == list_fields(Known) == ("value", "source")
    assert list_fields(Gpu) == tuple(item.name for item in fields(Gpu))


def test_nothing_else_has_any() -> None:
    assert [list_fields(item) for item in ("text", 1, None, {"a": 1}, int)] == [()] * 5

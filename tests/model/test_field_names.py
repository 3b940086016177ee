"""List the field names of a record without loading `dataclasses`."""

from __future__ import annotations

from dataclasses import fields

from envcheck.model import Gpu, Known, Source, list_fields


def test_a_record_and_its_class_list_the_same_fields() -> None:
    assert (
        list_fields(Known("1", Source("file", "/x"))) == list_fields(Known) == ("value", "source")
    )
    assert list_fields(Gpu) == tuple(item.name for item in fields(Gpu))


def test_other_objects_have_no_fields() -> None:
    assert [list_fields(item) for item in ("text", 1, None, {"a": 1}, int)] == [()] * 5

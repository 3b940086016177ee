"""Row-by-row reading says what reading the whole document says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from envcheck.matrix.rows import SECTIONS, Sections
from tests.matrix.documents import document, text


def whole(value: Any) -> Any:
    return {key: whole(item) for key, item in value.items()} if isinstance(value, Mapping) else value


def test_reads_the_same_document_in_the_same_order() -> None:
    assert json.dumps(whole(Sections(text()))) == json.dumps(document())


def test_names_every_section() -> None:
    assert list(Sections(text())) == list(SECTIONS) == list(document())


@pytest.mark.parametrize("path", [("drivers", "551"), ("releases", "mxnet"), ("releases", "tensorflow", "9.9"), ("x",)])
def test_missing_key(path: tuple[str, ...]) -> None:
    table: Any = Sections(text())
    for key in path[:-1]:
        table = table[key]
    assert path[-1] not in table
    with pytest.raises(KeyError):
        table[path[-1]]


def test_keys_of_other_tables_are_not_found() -> None:
    sections = Sections(text())
    assert "12.6" in sections["toolkits"]
    assert "12.6" not in sections["drivers"]
    assert "2.15.1" in sections["releases"]["tensorflow"]
    assert "2.15.1" not in sections["releases"]["torch"]
    assert len(sections["drivers"]) == len(document()["drivers"])


def test_empty_table() -> None:
    sections = Sections('{\n "schema": "x",\n "drivers": {},\n "problems": []\n}\n')
    assert (sections["drivers"], sections["problems"]) == ({}, [])

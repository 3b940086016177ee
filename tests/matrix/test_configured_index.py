"""Compare the matrix with the index that pip is configured for, if it answers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from packaging.version import Version

from envcheck.host.pip_settings import read_pip_settings
from envcheck.matrix.refresh.files import format_document
from envcheck.matrix.refresh.reader import Reader
from envcheck.matrix.refresh.refresh import list_framework, refresh
from envcheck.matrix.refresh.verify import verify
from tests.matrix.documents import document
from tests.matrix.index.renewal import without

pytestmark = [pytest.mark.network, pytest.mark.needs("package-index")]


@pytest.fixture
def published() -> Iterator[Reader]:
    reader = Reader(read_pip_settings(os.environ), None)
    yield reader
    reader.close()


def test_the_newest_three_tensorflow_releases_come_back_as_they_were(published: Reader) -> None:
    newest = sorted(document()["releases"]["tensorflow"], key=Version)[-3:]
    listing = list_framework(published, "tensorflow", newest[0])
    found = refresh(
        without("tensorflow", *newest), [listing], published, "2030-01-02", lambda *_: None
    ).document
    for version in newest:
        assert (
            found["releases"]["tensorflow"][version]
            == document()["releases"]["tensorflow"][version]
        )
    cited = {
        name
        for version in newest
        for row in document()["releases"]["tensorflow"][version]
        for name in row["citations"]
    }
    assert {name: _unchecked(found, name) for name in cited} == {
        name: _unchecked(document(), name) for name in cited
    }


def test_the_same_index_gives_the_same_bytes(published: Reader) -> None:
    listing = list_framework(published, "tensorflow", "2.21")
    old = without("tensorflow", "2.21.0")
    first, second = (
        refresh(old, [listing], published, "2030-01-02", lambda *_: None) for _ in range(2)
    )
    assert format_document(first.document) == format_document(second.document)


def test_a_sample_of_each_framework_agrees_with_its_wheels(published: Reader) -> None:
    listings = [list_framework(published, name) for name in document()["releases"]]
    found = verify(document(), listings, published, 12, lambda *_: None)
    # what was published since is no disagreement: `matrix refresh` brings it
    of_listed = [
        item
        for item in found.disagreements
        if item.matrix != "missing" or _is_listed(item.framework, item.version)
    ]
    assert (found.rows, of_listed, found.unread) == (12, [], [])


def _is_listed(framework: str, version: str) -> bool:
    return version in document()["releases"][framework]


def _unchecked(found: dict[str, Any], name: str) -> dict[str, Any]:
    return {**found["citations"][name], "checked": ""}

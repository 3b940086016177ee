"""Are the header and the library of one cuDNN copy of one release?"""

from __future__ import annotations

from typing import Any

import pytest

from tests.rules.factory_toolkit import (
    HANGS,
    NONE,
    cudnn,
    judged,
    known,
    lookup,
    machine,
    tensorflow,
    torch,
)

ID = "cudnn-shadowed"
USED = tensorflow(
    "2.13.1", lookup("libcudnn.so.8", "/usr/lib/libcudnn.so.8.9.7", version=known("8.9.7"))
)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (known("8.6.0"), 1),
        (known("8.9.7"), 0),
        (known("8.9.2"), 0),
        (known("9"), 1),
        (NONE, 0),
        (HANGS, 0),
    ],
)
def test_header_and_library(header: Any, expected: int) -> None:
    facts = machine(USED, copies=(cudnn("8.9.7", header_version=header),))
    assert judged(facts, ID) == [(ID, "incompatible", "warning")] * expected


def test_nothing_uses_that_copy() -> None:
    torn = (cudnn("8.9.7", header_version=known("8.6.0")),)
    assert judged(machine(copies=torn), ID) == []
    assert judged(machine(torch(), copies=torn), ID) == []

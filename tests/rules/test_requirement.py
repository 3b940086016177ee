"""Requirements: plain ones are read as packaging reads them, and all else is packaging's to read or refuse."""

from __future__ import annotations

import pytest
from packaging.requirements import InvalidRequirement
from packaging.requirements import Requirement as Parsed

from envcheck.model import canonical_name
from envcheck.rules.requirements import read_requirement

PLAIN = (
    "tensorflow",
    "Tensor_Flow.x",
    "tensorflow[and-cuda]",
    "tensorflow [ b , and-cuda ] >= 2.15, <3",
    "torch==2.7.1+cu118",
    "torch!=2.7.*",
    "jax[cuda12]==0.9",
    "a>1,<2,!=1.5",
    " torch ",
)
OTHER = (
    "torch~=2.4",
    "torch==2.7.1rc1",
    "torch; python_version < '3.9'",
    "torch @ https://example.org/torch.whl",
    "torch[]",
    "torch (>=2)",
    "torch===2.7",
)
NONE = ("", "-r file", "torch 2.7", "torch>=", "[x]", "torch\n", "\ntorch", "torch>=2.*", "t\u00f6rch", "torch,jax")


@pytest.mark.parametrize("text", [*PLAIN, *OTHER])
def test_a_requirement_is_read_as_packaging_reads_it(text: str) -> None:
    read, wanted = read_requirement(text), Parsed(text)
    assert (read.name, read.extras, read.url) == (wanted.name, tuple(sorted(wanted.extras)), wanted.url or "")
    assert (read.specifier, read.marker) == (str(wanted.specifier), str(wanted.marker or ""))
    assert [*map("".join, read.clauses)] == [*map(str, sorted(wanted.specifier, key=str))]


@pytest.mark.parametrize("text", NONE)
def test_what_is_no_requirement_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequirement):
        read_requirement(text)


def test_names_are_written_as_an_index_does() -> None:
    assert canonical_name("Tensorflow__GPU.x") == "tensorflow-gpu-x"

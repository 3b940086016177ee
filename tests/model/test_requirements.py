"""Requirements: plain ones are read as packaging reads them, and all else is packaging's to read or refuse."""

from __future__ import annotations

import pytest
from packaging.requirements import Requirement as Parsed

from envcheck.model import RequestError, canonical_name
from envcheck.model.versions import (
    Requirement,
    find_requirement,
    name_of,
    read_requirement,
    write_pin,
)

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
NONE = (
    "",
    "-r file",
    "torch 2.7",
    "torch>=",
    "[x]",
    "torch\n",
    "\ntorch",
    "torch>=2.*",
    "t\u00f6rch",
    "torch,jax",
)


@pytest.mark.parametrize("text", [*PLAIN, *OTHER])
def test_a_requirement_is_read_as_packaging_reads_it(text: str) -> None:
    read, wanted = read_requirement(text), Parsed(text)
    assert (read.text, read.name, read.url) == (text, canonical_name(wanted.name), wanted.url or "")
    assert read.extras == tuple(sorted(map(canonical_name, wanted.extras)))
    assert (read.specifier, read.marker) == (str(wanted.specifier), str(wanted.marker or ""))
    assert [*map("".join, read.clauses)] == [*map(str, sorted(wanted.specifier, key=str))]


@pytest.mark.parametrize("text", NONE)
def test_what_is_no_requirement_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="is not a requirement"):
        read_requirement(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("torch=2.6", r"'torch=2\.6' is not a requirement\. Did you mean torch==2\.6\?"),
        ("torch>=" + "9" * 5000, "longer than 4000 characters"),
        ("torch\0", "holds a NUL"),
        ("torch; " + "(" * 2000 + "python_version<'3'" + ")" * 1900, "more than 50 parentheses"),
    ],
)
def test_a_refusal_says_why_in_one_bounded_line(text: str, said: str) -> None:
    with pytest.raises(RequestError, match=said) as error:
        read_requirement(text)
    assert len(str(error.value)) < 250
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "plain", "pin", "label"),
    [
        ("Torch == 2.7.1+cu118", "torch==2.7.1+cu118", "2.7.1+cu118", "cu118"),
        ("torch[Opt_Einsum,b]>=2,<3; python_version>'3'", "torch[b,opt-einsum]<3,>=2", "", ""),
        ("torch==2.7.*", "torch==2.7.*", "", ""),
        ("torch===2.7,!=2.6.0+cpu", "torch!=2.6.0+cpu,===2.7", "2.7", ""),
    ],
)
def test_what_a_requirement_names(text: str, plain: str, pin: str, label: str) -> None:
    read = read_requirement(text)
    assert (read.plain, read.pin, read.label) == (plain, pin, label)


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("numpy (>=1.23.5, <2.0)", ("numpy", (), ">=1.23.5,<2.0", "", "")),
        (
            "nvidia_cudnn-cu12 (>=9.3) ; extra == 'and-cuda'",
            ("nvidia-cudnn-cu12", (), ">=9.3", "extra == 'and-cuda'", ""),
        ),
        (
            "jaxlib[cuda12]==0.4.1;python_version<'4'",
            ("jaxlib", ("cuda12",), "==0.4.1", "python_version<'4'", ""),
        ),
        ("h5py (>=2.*)", ("h5py", (), ">=2.*", "", "")),  # no longer valid, and installed for years
        ("x @ https://example.org/x.whl", ("x", (), "", "", "https://example.org/x.whl")),
    ],
)
def test_metadata_is_read_as_it_was_written_once(line: str, read: tuple[object, ...]) -> None:
    assert find_requirement(line) == Requirement(line, *read)  # type: ignore[arg-type]


@pytest.mark.parametrize("line", ["", "-r file", "(>=2)", "==2", "torch 2.7"])
def test_a_line_that_names_no_distribution_is_left_out(line: str) -> None:
    assert find_requirement(line) is None


def test_a_name_is_cut_off_whatever_follows_it() -> None:
    texts = (
        "Numpy>=2",
        "numpy [x] <2",
        "numpy",
        " numpy; extra == 'x'",
        "numpy @ https://example.org",
        ">=2",
    )
    assert [*map(name_of, texts)] == ["numpy"] * 5 + [""]


def test_names_are_written_as_an_index_does() -> None:
    assert canonical_name("Tensorflow__GPU.x") == "tensorflow-gpu-x"


@pytest.mark.parametrize(
    ("extras", "pin"),
    [
        ((), "jax==0.10.0"),
        ((None,), "jax==0.10.0"),
        (("",), "jax==0.10.0"),
        (("cuda12",), "jax[cuda12]==0.10.0"),
        (("cuda12", "", "k8s"), "jax[cuda12,k8s]==0.10.0"),
    ],
)
def test_a_pin_holds_the_extras_that_are_not_empty(
    extras: tuple[str | None, ...], pin: str
) -> None:
    assert write_pin("jax", "0.10.0", extras) == pin

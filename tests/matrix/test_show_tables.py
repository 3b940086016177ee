"""`envcheck matrix show` of tables: toolkits, cuDNN, TensorRT, conda, companions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest

from envcheck.cli.group import run
from envcheck.matrix.load import load_matrix
from envcheck.rules.matrix_question import TABLES, find_table_rows

SCHEMA = Path(__file__).parents[2] / "envcheck" / "schemas" / "matrix-tables.schema.json"
MATRIX = load_matrix()


def asked(capsys: pytest.CaptureFixture[str], text: str, code: int = 0) -> Any:
    assert run(["matrix", "show", text, "--format", "json"]) == code
    document = json.loads(capsys.readouterr().out)
    fastjsonschema.compile(json.loads(SCHEMA.read_text(encoding="utf-8")))(document)
    return document


@pytest.mark.parametrize(
    ("text", "name", "cell", "value"),
    [
        ("cuda==12.6.77", "CUDA Toolkit 12.6", "forward_compatibility", "cuda-compat-12-6"),
        ("driver==550.163.01", "driver branch 550", "cuda", "12.4"),
        ("architecture=8.9", "compute capability 8.9", "name", "Ada"),
        ("cuDNN == 9.10.2.21", "cuDNN 9.10 for CUDA 11", "soname", "libcudnn.so.9"),
        ("tensorrt==8.6.1", "TensorRT 8.6 for CUDA 11", "cudnn", "8.9"),
        ("conda==cuda-version", "cuda-version of the channel conda-forge", "versions", ">=11.2"),
        ("keras==2.2.5", "keras==2.2.5 on any", "tensorflow", ">=1.14,<1.15"),
        ("tf_keras~=2.15.0", "tf-keras==2.15.1 on any", "tensorflow", ">=2.15,<2.16"),
        (
            "tensorflow-metal==1.0.0",
            "tensorflow-metal==1.0.0 on macosx_arm64",
            "tensorflow",
            ">=2.13,<2.14",
        ),
        (
            "tensorrt-cu12-bindings==10.3.0",
            "tensorrt-cu12-bindings==10.3.0 on linux_x86_64",
            "cuda",
            "12",
        ),
    ],
)
def test_show_a_row_of_a_table(
    capsys: pytest.CaptureFixture[str], text: str, name: str, cell: str, value: str
) -> None:
    row = next(row for row in asked(capsys, text)["rows"] if row["name"] == name)
    assert row["cells"][cell] == value
    assert row["citations"]


@pytest.mark.parametrize("table", TABLES)
def test_show_a_whole_table(capsys: pytest.CaptureFixture[str], table: str) -> None:
    document = asked(capsys, table)
    assert len(document["rows"]) >= 14
    assert len({row["name"] for row in document["rows"]}) > 4


@pytest.mark.parametrize(
    "text", ["cuda==99.1", "driver==111", "architecture==1.1", "cudnn==99", "conda==numpy"]
)
def test_show_of_a_missing_table_row_is_undetermined(
    capsys: pytest.CaptureFixture[str], text: str
) -> None:
    assert asked(capsys, text, code=3)["verdict"] == "undetermined"


def test_show_a_table_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["matrix", "show", "tensorrt==10.5", "-v"]) == 0
    printed = capsys.readouterr().out
    assert "TensorRT 10.5 for CUDA 12 [" in printed
    assert "  compute capability min  7.5 *" in printed
    assert "proof" in printed
    assert "sha256" in printed
    assert printed.endswith("2 rows. * documented, not read from an artifact.\n")
    assert run(["matrix", "show", "conda==cudnn", "-q"]) == 0
    assert "not read" not in capsys.readouterr().out.split("[1] ")[0]


def test_frameworks_are_no_tables() -> None:
    assert find_table_rows(MATRIX, "tensorflow==2.15.1") is None
    assert find_table_rows(MATRIX, "torch") is None
    assert find_table_rows(MATRIX, "<<") is None


def test_show_a_release_with_what_goes_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["matrix", "show", "tensorflow==2.15.1", "-v"]) == 0
    printed = capsys.readouterr().out
    assert (
        "tensorflow==2.15.1 on macosx_arm64 goes with: keras==2.15.0 tf-keras==2.15.1 tensorflow-metal==1.1.0"
        in printed
    )
    assert "tensorflow==2.15.1 on linux_x86_64 built with: clang 17.0.2, TensorRT 8.6.1" in printed

"""Rows of the CSV file: a GPU that disappears from the bus keeps its row."""

from __future__ import annotations

from envcheck.gpus.listing import COLUMNS, RowBuilder
from envcheck.model import Absent, Unknown
from tests.gpus.made import GIB, gpu, known, lost

NOW = "2026/11/21 14:03:59.123"


def test_a_row_has_the_columns_of_nvidia_smi() -> None:
    assert COLUMNS == (
        "timestamp", "name", "index", "utilization.gpu", "memory.total", "memory.used", "power.draw",
    )  # fmt: skip
    (row,) = RowBuilder().build_rows(NOW, known((gpu(used=GIB, total=24 * GIB),)))
    assert row == (NOW, "Fake L4", "0", "97", "24576", "1024", "71.25")


def test_a_gpu_that_disappears_keeps_its_row_and_its_name() -> None:
    builder = RowBuilder()
    builder.build_rows(NOW, known((gpu(), gpu(1))))
    gone = (NOW, "Fake L4", "1", "[GPU is lost]", "24576", "[GPU is lost]", "[GPU is lost]")
    assert builder.build_rows(NOW, known((gpu(), lost(1))))[1] == gone
    # NVML does not even count it any more
    assert builder.build_rows(NOW, known((gpu(),)))[1] == gone
    assert builder.build_rows(NOW, known((gpu(), gpu(1))))[1][3] == "97"  # it came back


def test_when_nvml_does_not_answer_every_gpu_keeps_its_row() -> None:
    builder = RowBuilder()
    assert builder.build_rows(NOW, Unknown("timeout", "3 s")) == []
    builder.build_rows(NOW, known((gpu(),)))
    for failed in (Unknown("timeout", "3 s"), Absent(("NVML",)), known(())):
        (row,) = builder.build_rows(NOW, failed)
        assert row[3:] == ("[Unknown Error]", "24576", "[Unknown Error]", "[Unknown Error]")


def test_a_gpu_lost_from_the_start_has_no_name() -> None:
    assert RowBuilder().build_rows(NOW, known((lost(),)))[0][1:4] == (
        "[Unknown Error]",
        "0",
        "[GPU is lost]",
    )


def test_unsupported_values_are_not_available() -> None:
    (row,) = RowBuilder().build_rows(
        NOW, known((gpu(memory_used_bytes=Absent(("NVML: Not Supported (3)",))),))
    )
    assert row[5] == "[N/A]"

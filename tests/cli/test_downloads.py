"""Downloads, as pip 26 and uv 0.9 printed them."""

from __future__ import annotations

import pytest

from envcheck.cli.downloads import Downloads, format_bytes

PIP = """Collecting onnxruntime==1.32.0
  Downloading onnxruntime-1.32.0-cp313-cp313-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl (27.8 MB)
Progress 0 of 27780404
Progress 13890202 of 27780404
Progress 27780404 of 27780404
Collecting numpy>=1.21.6 (from onnxruntime==1.32.0)
  Downloading numpy-2.4.6-cp313-cp313-manylinux_2_28_x86_64.whl (16.2 MB)
Progress 16200000 of 16200000
Installing collected packages: numpy, onnxruntime
Successfully installed numpy-2.4.6 onnxruntime-1.32.0""".splitlines()
UV = """Using Python 3.11.2 environment at: e1
Resolved 5 packages in 261ms
Downloading onnxruntime (16.0MiB)
Downloading numpy (8.0MiB)
 Downloaded numpy
 Downloaded onnxruntime
Prepared 5 packages in 789ms
Installed 5 packages in 163ms
 + numpy==2.4.6
 + onnxruntime==1.32.0""".splitlines()
INSTALLED = {"numpy": "2.4.6", "onnxruntime": "1.32.0"}


def statuses(lines: list[str]) -> tuple[Downloads, list[str]]:
    downloads, shown = Downloads(), []
    for line in lines:
        downloads.hears(line)
        shown.append(downloads.status())
    return downloads, shown


def test_pip_tells_each_byte() -> None:
    downloads, shown = statuses(PIP)
    assert shown[:3] == ["", "0.0 kB of 28 MB: onnxruntime", "0.0 kB of 28 MB: onnxruntime"]
    assert shown[3].startswith("14 MB of 28 MB, ")
    assert shown[3].endswith(" s left: onnxruntime")
    assert shown[6].startswith("28 MB of 44 MB, ")
    assert shown[-2:] == ["", ""]
    assert downloads.installed == INSTALLED
    assert downloads.received == 27780404 + 16200000


def test_uv_tells_each_file() -> None:
    downloads, shown = statuses(UV)
    assert shown[3] == "0.0 kB of 25 MB: numpy"
    assert shown[4].startswith("8.4 MB of 25 MB, ")
    assert shown[5:] == [""] * 5
    assert downloads.installed == INSTALLED
    assert downloads.received == 24 << 20


def test_only_counts_of_bytes_are_nothing_but_progress() -> None:
    assert [line for line in (*PIP, *UV) if Downloads().hears(line)] == [
        line for line in PIP if line.startswith("Progress")
    ]


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0.0 kB"), (262e3, "262 kB"), (9.96e6, "10.0 MB"), (2.9e9, "2.9 GB")]
)
def test_sizes_are_written_as_installers_do(count: float, text: str) -> None:
    assert format_bytes(count) == text

"""The table of the CUDA driver API's results."""

from __future__ import annotations

import json

from envcheck.host.data_files import read_data
from envcheck.rules.catalogue import catalogue

ROWS = json.loads(read_data("nvidia/cuda_results.json"))["results"]


def test_every_result_is_named_once_and_points_to_a_finding_of_the_catalogue() -> None:
    assert len(ROWS) == 106
    assert len({row["code"] for row in ROWS}) == len({row["name"] for row in ROWS}) == len(ROWS)
    assert [row["code"] for row in ROWS] == sorted(row["code"] for row in ROWS)
    assert all(row["means"] and row["name"].startswith("CUDA_") for row in ROWS)
    assert {row["finding"] for row in ROWS if row["code"]} <= set(catalogue())
    assert ROWS[0] == {"code": 0, "name": "CUDA_SUCCESS", "means": "no error", "finding": ""}


def test_well_known_results_point_where_users_look() -> None:
    findings = {row["code"]: row["finding"] for row in ROWS}
    assert findings[100] == "gpu-absent"
    assert findings[803] == "driver-library-mismatch"
    assert findings[804] == "forward-compat-misused"
    assert findings[222] == "driver-too-old"
    assert findings[714] == "gpu-hardware-fault"
    assert findings[900] == "probe-failed"

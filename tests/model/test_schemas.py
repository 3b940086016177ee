"""The JSON documents fit their schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest

from envcheck.actions import Reboot
from envcheck.diagnosis import with_steps
from envcheck.model import (
    SCHEMA_VERSION,
    Absent,
    Citation,
    DriverFacts,
    Evidence,
    Facts,
    Finding,
    Gpu,
    Known,
    Remedy,
    Report,
    Snapshot,
    Source,
    Unknown,
)
from envcheck.render.json_contracts import render_json, render_snapshot
from tests.model.snapshot_schema import PATH, text

SCHEMAS = PATH.parent


def check(name: str, document: Any) -> None:
    fastjsonschema.compile(
        json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))
    )(document)


def snapshot() -> Snapshot:
    source = Source("file", "/sys/module/nvidia/version", "550.163.01")
    driver = DriverFacts(
        release=Known("550.163.01", source), libcuda_path=Absent(("libcuda.so.1",))
    )
    gpus = Known((Gpu(name=Known("A", source), uuid=Unknown("denied", "no")),), source)
    return Snapshot(
        SCHEMA_VERSION, "0", "host", "2026-01-01T00:00:00Z", Facts(driver=driver, gpus=gpus)
    )


def test_snapshot_schema_matches_the_model() -> None:
    assert PATH.read_text(encoding="utf-8") == text(), "run: python -m tests.model.snapshot_schema"


def test_snapshot_document_fits_its_schema() -> None:
    check("snapshot", json.loads(render_snapshot(snapshot())))


@pytest.mark.parametrize(
    "change", [{"schema": "envcheck/snapshot/0"}, {"extra": 1}, {"facts": {"gpus": {"known": []}}}]
)
def test_snapshot_schema_rejects_other_documents(change: dict[str, Any]) -> None:
    document = {**json.loads(render_snapshot(snapshot())), **change}
    with pytest.raises(fastjsonschema.JsonSchemaValueException):
        check("snapshot", document)


def test_report_document_fits_its_schema() -> None:
    fix = Remedy("Reboot.", (Reboot(purpose="load the new module"),))
    evidence = (
        Evidence("driver.release", "550", Source("file", "x")),
        Evidence("row", "y", citation=Citation("doc")),
    )
    finding = Finding(
        "driver-too-old", "incompatible", "error", "Too old.", evidence, fix, primary=True
    )
    report = with_steps(Report("incompatible", "gpu", "No.", (finding,), ("driver-too-old",)))
    document = json.loads(render_json(report, snapshot()))
    check("report", document)
    (step,) = document["plan"]["steps"]
    assert step["argv"] == ["sudo", "reboot"]
    assert step["scope"] == "system"
    assert step["resolves"] == document["plan"]["resolves"] == ["driver-too-old"]
    assert document["findings"][0]["resolved_by"] == [step["id"]]
    check("snapshot", document["snapshot"])
    assert "snapshot" not in json.loads(render_json(report, None))


def test_schemas_are_part_of_the_package() -> None:
    assert {path.name for path in Path(SCHEMAS).glob("*.json")} >= {
        "snapshot.schema.json",
        "report.schema.json",
        "error.schema.json",
    }

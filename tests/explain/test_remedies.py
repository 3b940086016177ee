"""The rows of remedies: their shape, and that every cause has one."""

from __future__ import annotations

import json
import re

import fastjsonschema

from envcheck.explain.problem import answerable
from envcheck.explain.signatures import load_signatures
from envcheck.host.data_files import read_data
from envcheck.remedies import findings_with_functions
from envcheck.remedies.rows import document, findings_with_rows, named_values, rows_of
from envcheck.rules import catalogue

ROWS = document()["remedies"]
SIGNATURES = {item.name: item for item in load_signatures()}
DANGEROUS = re.compile(
    r"allow-unsupported|ln -s|KMP_DUPLICATE_LIB_OK=|--force-depends|rm -rf|chmod 777|DISABLE_REQUIRE"
)


def test_the_file_fits_its_schema() -> None:
    fastjsonschema.compile(json.loads(read_data("remedies.schema.json")))(document())


def test_each_cause_has_a_remedy_for_any_log() -> None:
    pointed_at = {item.finding for item in SIGNATURES.values() if item.finding and item.role != "noise"}
    assert pointed_at - findings_with_rows() - set(findings_with_functions()) == set()
    assert {row["finding"] for row in ROWS} | set(findings_with_functions()) <= set(catalogue())


def test_rows_name_signatures_and_values_that_there_are() -> None:
    named = {name for row in ROWS for name in row.get("cases", ())}
    assert named - set(SIGNATURES) == set()
    asked = {name for row in ROWS for name in named_values(row["finding"])}
    assert asked
    assert {name for name in asked if not answerable(name)} == set()


def test_no_row_proposes_what_harms() -> None:
    assert [row for row in ROWS if DANGEROUS.search(json.dumps(row))] == []


def test_reading_the_rows_of_one_finding_leaves_none_out() -> None:
    findings = dict.fromkeys(row["finding"] for row in ROWS)
    assert {name: list(rows_of(name)) for name in findings} == {
        name: [row for row in ROWS if row["finding"] == name] for name in findings
    }

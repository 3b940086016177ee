"""The rows of remedies: their shape, and that every cause has one."""

from __future__ import annotations

import ast
import json
import re
from functools import cached_property

import fastjsonschema

from envcheck.explain.claim_values import SHAPES, ClaimValues
from envcheck.explain.cures import CURES
from envcheck.explain.signatures import load_signatures
from envcheck.host.data_files import load_data, read_data
from envcheck.model import OtherGpuVendors
from envcheck.remedies.rows import make_action
from envcheck.rules import catalogue
from tests.remedies.rows import list_rows_by_finding
from tests.structure import modules

ROWS = list_rows_by_finding()
SIGNATURES = {item.name: item for item in load_signatures()}
DANGEROUS = re.compile(
    r"allow-unsupported|ln -s|KMP_DUPLICATE_LIB_OK=|--force-depends|rm -rf|chmod 777|DISABLE_REQUIRE"
)


def has_value(name: str) -> bool:
    """Tell whether there is a value of that name for some log."""
    is_derived = isinstance(getattr(ClaimValues, name, None), (property, cached_property))
    return is_derived or name in SHAPES or name in ("line", "message", "place", "tool")


def test_the_file_fits_its_schema() -> None:
    fastjsonschema.compile(json.loads(read_data("advice/remedies.schema.json")))(
        json.loads(read_data("advice/remedies.json"))
    )


def test_each_cause_has_a_remedy_for_any_log() -> None:
    pointed_at = {
        item.finding for item in SIGNATURES.values() if item.finding and item.role != "noise"
    }
    for_any = {
        name
        for name, rows in ROWS.items()
        if any(not row.is_special and not row.when for row in rows)
    }
    assert pointed_at - for_any - set(CURES) == set()
    assert set(ROWS) | set(CURES) <= set(catalogue())


def test_rows_name_signatures_and_values_that_there_are() -> None:
    named = {name for rows in ROWS.values() for row in rows for name in row.cases}
    rules = [module.tree for module in modules().values() if module.layer in ("rules", "smoke")]
    stated = {
        node.value for tree in rules for node in ast.walk(tree) if isinstance(node, ast.Constant)
    }
    vendors = set(load_data("program/other_gpus", OtherGpuVendors).vendors)
    assert named - set(SIGNATURES) - stated - vendors == set()
    asked = {
        name for rows in ROWS.values() for row in rows for name in (*row.shown, *row.where)
    } - {"python"}
    assert asked
    of_smoke_tests, of_rules = {"log", "smoked"}, {"installer"}
    assert {name for name in asked if not has_value(name)} == of_smoke_tests | of_rules


def test_no_row_proposes_what_harms() -> None:
    assert DANGEROUS.search(read_data("advice/remedies.json").decode()) is None


def test_every_row_names_one_kind_of_action_in_each_place() -> None:
    every = [row for rows in ROWS.values() for row in rows]
    others = [item for row in every for way in row.alternatives for item in way.actions]
    actions = [*(item for row in every for item in row.actions), *others]
    assert len(actions) > 300
    assert [item for item in actions if len(item) != 1] == []
    assert all(map(make_action, actions))

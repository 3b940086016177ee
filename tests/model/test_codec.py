"""Snapshots survive JSON; invalid JSON is rejected with its place and never crashes."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envcheck.model import (
    NOT_STATED,
    Absent,
    CodecError,
    CompilerFacts,
    DriverFacts,
    Facts,
    Gpu,
    HostFacts,
    Known,
    PythonFacts,
    Snapshot,
    Source,
    ToolkitFacts,
    Unknown,
    decode,
    encode,
)
from tests.model.decoding import decode_as
from tests.model.strategies import instances

SOURCE = Source("file", "/sys/module/nvidia/version", "550.54.15")
EMPTY = Snapshot(1, "0.1", "host", "2026-01-01T00:00:00Z", Facts())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    "model", [HostFacts, DriverFacts, Gpu, ToolkitFacts, CompilerFacts, PythonFacts]
)
def test_every_section_survives_json(model: type) -> None:
    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(instances(model))
    def survives(value: Any) -> None:
        assert decode(model, json.loads(json.dumps(encode(value)))) == value

    survives()


def test_a_snapshot_survives_json_without_unstated_facts() -> None:
    driver = DriverFacts(
        release=Known("550.54.15", SOURCE), smi_path=Absent(("nvidia-smi on PATH",))
    )
    snapshot = replace(EMPTY, facts=Facts(driver=driver))
    text = json.dumps(encode(snapshot))
    assert decode(Snapshot, json.loads(text)) == snapshot
    assert "not stated" not in text


def snapshot_with(driver: Any) -> dict[str, Any]:
    document: dict[str, Any] = encode(EMPTY)
    document["facts"]["driver"] = driver
    return document


DEEP: Any = "x"
for _ in range(5000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("driver", "message"),
    [
        ([], "driver: expected an object, found list"),
        (None, "driver: expected an object, found NoneType"),
        ({"cuda_version": {"absent": []}}, "unknown field 'cuda_version'"),
        ({"release": "550"}, "driver.release: expected a fact, found str"),
        ({"release": {}}, "expected known, absent, or unknown"),
        ({"release": {"known": "550"}}, "driver.release.source: expected an object"),
        (
            {"release": {"known": 550, "source": {"kind": "file", "where": "x"}}},
            "expected str, found int",
        ),
        ({"release": {"known": "1", "source": {"kind": "file"}}}, "source: .*where"),
        (
            {"release": {"known": "1", "source": {"kind": "file", "where": "x"}, "why": "?"}},
            "unknown field 'why'",
        ),
        (
            {"release": {"known": "1", "source": {"kind": "file", "where": "x"}, "absent": []}},
            "unknown field 'absent'",
        ),
        ({"release": {"absent": "everywhere"}}, "expected a list of strings"),
        ({"release": {"absent": [1]}}, "expected a list of strings"),
        ({"release": {"unknown": "tired"}}, "unknown with one of timeout"),
        ({"release": {"unknown": ["timeout"]}}, "unknown with one of timeout"),
        ({"release": {"unknown": "timeout", "detail": 3}}, "unknown with one of timeout"),
        ({"release": {"unknown": "timeout", "tried": {}}}, "expected a list of strings"),
        (
            {"nvml_result": {"known": True, "source": {"kind": "library", "where": "x"}}},
            "expected int, found bool",
        ),
        (
            {"nvml_result": {"known": 1e400, "source": {"kind": "library", "where": "x"}}},
            "expected int, found float",
        ),
        (
            {"uvm_loaded": {"known": 1, "source": {"kind": "file", "where": "x"}}},
            "expected bool, found int",
        ),
        (
            {"dkms": {"known": {}, "source": {"kind": "file", "where": "x"}}},
            "expected a list, found dict",
        ),
        (
            {"dkms": {"known": ["x"], "source": {"kind": "file", "where": "x"}}},
            r"dkms\[0\]: expected an object",
        ),
        (
            {"packages": {"known": [], "source": {"kind": "file", "where": "x"}}},
            "expected an object, found list",
        ),
        (
            {"packages": {"known": {"a": 1}, "source": {"kind": "file", "where": "x"}}},
            r"packages\[a\]: expected str",
        ),
        (
            {"release": {"known": DEEP, "source": {"kind": "file", "where": "x"}}},
            "expected str, found list",
        ),
        (DEEP, "expected an object, found list"),
    ],
)
def test_invalid_json_is_rejected_with_its_place(driver: Any, message: str) -> None:
    with pytest.raises(CodecError, match=message):
        decode(Snapshot, snapshot_with(driver))


def test_huge_numbers_and_strings_are_accepted() -> None:
    huge = {"nvml_result": {"known": 10**4000, "source": {"kind": "library", "where": "x" * 10**6}}}
    facts = decode(Snapshot, snapshot_with(huge)).facts
    assert facts.driver.nvml_result.value == 10**4000


def test_a_missing_required_field_is_rejected() -> None:
    with pytest.raises(CodecError, match="taken_at"):
        decode(Snapshot, {key: value for key, value in encode(EMPTY).items() if key != "taken_at"})


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(JSON)
def test_any_json_is_decoded_or_rejected(value: Any) -> None:
    for document in (value, snapshot_with(value), snapshot_with({"release": value})):
        with suppress(CodecError):
            decode(Snapshot, document)


def test_a_single_fact_is_decoded_by_its_annotation() -> None:
    fact = decode_as("Fact[Tuple[Gpu, ...]]", Facts, {"known": [{}], "source": encode(SOURCE)})
    assert fact == Known((Gpu(),), SOURCE)
    assert decode_as("Fact[float]", Facts, {"known": 2, "source": encode(SOURCE)}) == Known(
        2, SOURCE
    )


def test_only_a_known_fact_has_a_value() -> None:
    assert Known("x", SOURCE).value == "x"
    assert Absent().value is None
    assert Unknown("timeout", "slow").value is None
    assert NOT_STATED.value is None

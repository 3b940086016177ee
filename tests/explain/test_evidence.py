"""The table of evidence: its order is total, every kind has a reason, and the data name its kinds."""

from __future__ import annotations

import inspect
import json
import re

from envcheck.explain.log import Claim, Strength, rank_claims
from envcheck.explain.signatures import load_signatures
from envcheck.host.data_files import read_data


def test_kinds_stand_in_order_with_a_reason_each() -> None:
    places = [kind.value for kind in Strength]
    assert places == sorted(set(places), reverse=True)
    written = re.findall(r"((?:    # .*\n)+)    (\w+) = \d+\n", inspect.getsource(Strength))
    reasons = [" ".join(comment.replace("#", " ").split()) for comment, _ in written]
    assert [name for _, name in written] == [kind.name for kind in Strength]
    assert len(set(reasons)) == len(places)
    assert all(3 < len(reason.split()) <= 20 for reason in reasons)


def test_signatures_and_their_schema_name_kinds_of_the_table() -> None:
    schema = json.loads(read_data("advice/signatures.schema.json"))
    named = schema["definitions"]["signature"]["properties"]["strength"]["enum"]
    assert {item.strength for item in load_signatures()} - {""} <= set(named)
    assert [Strength.named(name) for name in named] == sorted(
        map(Strength.named, named), reverse=True
    )


def test_the_strongest_claim_of_a_cause_speaks_for_it() -> None:
    weak = Claim("gpu-absent", Strength.OPEN, "weak", severity="warning")
    strong = Claim("gpu-absent", Strength.DERIVED, "strong")
    other = Claim("driver-missing", Strength.LIKELY, "other")
    assert [claim.message for claim in rank_claims((weak, other, strong))] == ["strong", "other"]

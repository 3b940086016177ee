"""No remedy shows a field that nobody filled: a row whose field is unknown is not offered."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator

import pytest

from envcheck.actions import action_line
from envcheck.model import Alternative, Fix, FollowRow, Remedy, list_fields
from envcheck.remedies import find_writer, remedy_of_message, write_fix
from envcheck.remedies.rows import (
    RemedyRow,
    RuleValues,
    fill_row,
    load_rows,
    remedy_table,
)
from envcheck.remedies.situation import Situation
from envcheck.rules import Context
from envcheck.rules.described_machine import Description, planned_facts
from tests.cases.case_facts import matrix
from tests.remedies.fixes import kinds_of_fixes, samples
from tests.remedies.rows import list_rows_by_finding

FIELD = re.compile(r"\{[a-z_]\w*\}")
# what an empty value leaves in a sentence
GAP = re.compile(r"\{[a-z_]\w*\}|  +| [.,;:)](?:\s|$)|CUDA [:;]|\bNone\b")
ROWS = list_rows_by_finding()
SITUATIONS = [
    Situation(
        Context(
            planned_facts(None, Description(platform=platform), matrix(), expects_gpu=False),
            matrix(),
        ),
        from_log=True,
    )
    for platform in ("linux_x86_64", "win_amd64")
]


def gaps(fix: Remedy) -> Iterator[str]:
    """Yield the sentences and commands in which a field is left, or a gap in its place."""
    ways: tuple[Remedy | Alternative, ...] = (fix, *fix.alternatives)
    for way in ways:
        yield from (way.summary,) if GAP.search(way.summary) else ()
        texts = (text for action in way.actions for text in (action_line(action), action.purpose))
        yield from (text for text in texts if FIELD.search(text))


class Values(RuleValues):
    """What a log may state of a finding: some values, its messages, a framework."""

    def __init__(
        self, signatures: tuple[str, ...], framework: str, values: Iterable[tuple[str, str]]
    ) -> None:
        super().__init__(FollowRow(values=tuple(values)), framework)
        self.signatures = signatures


def values_of(finding_id: str) -> Iterator[Values]:
    """Yield the values of each row with nothing known, with one value missing, and for each framework."""
    for row in (None, *ROWS.get(finding_id, ())):
        cases = row.cases if row else ()
        names = tuple(name for name in row.shown if name != "python") if row else ()
        kept = (
            values
            for size in (0, len(names) - 1)
            for values in itertools.combinations(names, max(size, 0))
        )
        for values in dict.fromkeys(kept):
            for framework in ("", "tensorflow", "torch", "jax"):
                yield Values(cases, framework, ((name, "1") for name in values))


@pytest.mark.parametrize("finding_id", ROWS)
def test_no_field_is_left_in_a_remedy(finding_id: str) -> None:
    left = {
        text
        for situation in SITUATIONS
        for values in values_of(finding_id)
        for text in gaps(remedy_of_message(finding_id, values, None, situation) or Remedy(""))
    }
    assert left == set()


@pytest.mark.parametrize("kind", kinds_of_fixes(), ids=lambda kind: kind.__name__)
def test_each_fix_is_written_without_a_gap(kind: type[Fix]) -> None:
    has_rows = kind.__name__ in remedy_table().fixes
    assert (
        find_writer(kind).__module__ == f"envcheck.remedies.{'rows' if has_rows else kind.subject}"
    )
    for fix, situation in itertools.product(samples(kind), SITUATIONS):
        assert list(gaps(write_fix(fix, situation) or Remedy(""))) == []


def test_rows_of_fixes_name_records_and_their_fields() -> None:
    fields = {kind.__name__: set(list_fields(kind)) for kind in kinds_of_fixes()}
    for name in remedy_table().fixes:
        for row in load_rows(name):
            assert {*row.shown, *row.where} <= {"python", *fields[name]}, name
            assert row.cases == ()


def test_a_row_with_an_unknown_field_is_not_offered() -> None:
    row = RemedyRow("Install CUDA {cuda_wanted}.")
    assert fill_row(row, RuleValues(FollowRow()), SITUATIONS[0]) is None
    filled = fill_row(row, RuleValues(FollowRow(values=(("cuda_wanted", "12.4"),))), SITUATIONS[0])
    assert filled is not None
    assert filled.summary == "Install CUDA 12.4."

"""The most reported incompatibilities of the packages on top of a framework: one root cause, and the remedy that mends.

The headings of tests/cases/stack.txt state what was expected before the log was first judged: `ROW | CAUSE … | REMEDY`.
REMEDY are patterns of which each must fit the first remedy, joined by &&; after ~ they must fit any of its ways.
"""

from __future__ import annotations

import re

import pytest

from envcheck.actions import action_line
from envcheck.model import Alternative, Remedy
from tests.cases.judged import FOLDER, judge_text
from tests.hosts.test_hosts import context_of

PARTS = [
    part.partition("\n")
    for part in (FOLDER / "stack.txt").read_text(encoding="utf-8").split("##### ")[1:]
]


def lines(way: Remedy | Alternative) -> str:
    return "\n".join([way.summary, *map(action_line, way.actions)])


def test_each_of_the_thirty_has_several_forms() -> None:
    rows = [re.match(r"\d+", heading)[0] for heading, _, _ in PARTS]  # type: ignore[index]
    assert {row: rows.count(row) >= 3 for row in rows} == {
        str(number): True for number in range(1, 31)
    }


@pytest.mark.parametrize(
    ("heading", "log"), [(heading, log) for heading, _, log in PARTS], ids=lambda text: text[:3]
)
def test_a_log_has_its_cause_and_a_remedy_that_mends(heading: str, log: str) -> None:
    _, causes, said = heading.split(" | ", 2)
    judged = judge_text(log)
    assert judged.primary in causes.split()
    fix = next(finding for finding in judged.report.findings if finding.primary).fix
    assert fix is not None
    shown = "\n".join([lines(fix), *(map(lines, fix.alternatives) if said.startswith("~") else ())])
    assert [
        pattern for pattern in said.lstrip("~").split(" && ") if not re.search(pattern, shown)
    ] == []


LACKS = "OSError: /v/lib/python3.12/site-packages/torchaudio/lib/libtorchaudio.so: undefined symbol: aoti_torch_abi_version"


@pytest.mark.parametrize(
    "machine",
    [
        "torch-wheels-need-no-toolkit",  # the log names no torch: the machine does
        # where the rules find the same of flash-attn, which the log does not name
        "extension-of-another-cuda",
    ],
)
def test_the_machines_facts_name_the_release(machine: str) -> None:
    context = context_of(machine)
    judged = judge_text(LACKS, context.facts, target=context.target)
    fix = next(finding for finding in judged.report.findings if finding.primary).fix
    assert fix is not None
    assert fix.summary == "Install torchaudio==2.5.1, which was made for torch 2.5.1."


def test_a_symbol_that_the_listed_torch_has_shows_another_copy() -> None:
    symbol = "flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so: undefined symbol: _ZN3c104cuda9SetDeviceEa"
    assert judge_text(f"torch 2.6.0+cu124\nImportError: /v/lib/{symbol}").primary == "env-mixed"
    assert (
        judge_text(f"torch 2.8.0+cu128\nImportError: /v/lib/{symbol}").primary
        == "extension-build-mismatch"
    )

"""What to do about a GPU: the action that NVIDIA's catalogue names for each Xid.

What to do about a CPU.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from envcheck.actions import Action, Reboot, RunCommand
from envcheck.host.data_files import load_data
from envcheck.model import ERROR, INCOMPATIBLE, Finding
from envcheck.model.fixes import UseOtherProcessor
from envcheck.remedies import with_remedy
from envcheck.remedies.hardware import _XID_ORDER
from envcheck.remedies.situation import Situation
from envcheck.rules.hardware import XidTable
from tests.cases.judged import judge_text
from tests.rules.factory_machine import UNREAD, context, known


def fix_of(*messages: str) -> tuple[str, tuple[Action, ...]]:
    log = "\n".join(f"[ 12.3] NVRM: Xid (PCI:0000:01:00): {message}" for message in messages)
    (main,) = [finding for finding in judge_text(log).report.findings if finding.primary]
    assert main.fix is not None
    return main.fix.summary, main.fix.actions


@pytest.mark.parametrize(
    ("message", "first_words"),
    [
        ("46, pid=1, name=python, GPU stopped", "End every program on the GPU, then reset it."),
        (
            "63, pid=1896, Row Remapper: new row marked for remapping",
            "Nothing has to be done at once.",
        ),
        ("94, pid=7, name=python, Contained: SM", "Restart the program: the GPU itself is well."),
        (
            "119, pid=1, Timeout after 6s of waiting for RPC response from GPU0 GSP!",
            "End every program on the GPU",
        ),
        (
            "120, pid=1, GSP Error: Task 1 raised error code",
            "End every program on the GPU, then reset it.",
        ),
        (
            "154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
            "Restart the machine.",
        ),
        (
            "154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)",
            "Let no new work start",
        ),
        ("48, pid=1, DBE (double bit error)", "Let no new work start"),
        ("31, pid=1, name=python, MMU Fault", "Restart the program: the GPU itself is well."),
    ],
)
def test_each_xid_has_the_action_of_nvidias_catalogue(message: str, first_words: str) -> None:
    assert fix_of(message)[0].startswith(first_words)


def test_the_gpu_of_the_line_is_reset() -> None:
    (reset,) = [
        item for item in fix_of("46, pid=1, GPU stopped")[1] if isinstance(item, RunCommand)
    ]
    assert reset.argv == ("nvidia-smi", "--gpu-reset", "-i", "0000:01:00.0")


def test_of_several_the_drivers_recommendation_counts() -> None:
    summary, actions = fix_of(
        "63, pid=1, Row Remapper", "94, pid=1, Contained", "154, GPU recovery action changed from 0x0 (None) to "
        "0x2 (Node Reboot Required)",
    )  # fmt: skip
    assert summary.startswith("Restart the machine.")
    assert [type(item) for item in actions] == [Reboot]


def test_every_action_has_a_sentence_and_an_order() -> None:
    table = load_data("nvidia/xid", XidTable)
    assert {row.action for row in table.xids} <= set(_XID_ORDER)
    assert {row.action for row in table.xids} | {row.follow_up for row in table.xids} - {""} <= set(
        table.actions
    )
    assert len({row.code for row in table.xids}) == len(table.xids) > 100


@pytest.mark.parametrize("framework", ["tensorflow", "torch"])
@pytest.mark.parametrize(
    ("host", "said"),
    [
        ({"cpu_flags": UNREAD}, "If th(is CPU|e processor) has no AVX, use one that has"),
        ({"cpu_flags": known(("sse", "sse2"))}, "use (one that has|a machine whose CPU has AVX)"),
        ({}, "^AVX is not the cause here"),
        (
            {"architecture": known("aarch64"), "cpu_flags": known(("asimd",))},
            "^AVX is not the cause here",
        ),
    ],
)
def test_an_illegal_instruction_alone_does_not_blame_avx(
    host: dict[str, Any], said: str, framework: str
) -> None:
    cure = UseOtherProcessor(framework, is_stated=False)  # of the smoke test, and of a log
    found = Finding("cpu-missing-avx", INCOMPATIBLE, ERROR, "m", cure=cure)
    fix = with_remedy(found, Situation(context(host=host))).fix
    assert fix is not None
    assert re.search(said, fix.summary)

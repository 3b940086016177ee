"""A placement log of TensorFlow, old and new, becomes a table."""

from __future__ import annotations

import pytest

from envcheck.explain.placements import list_placements, list_reasons
from tests.cases.judged import judge_text

TABLES = {
    "a: (Const): /job:localhost/replica:0/task:0/device:GPU:0\n"
    "b: (Const): /job:localhost/replica:0/task:0/cpu:0": [("GPU:0", 1, ("Const",)), ("CPU:0", 1, ("Const",))],
    "MatMul: (MatMul)/job:localhost/replica:0/task:0/gpu:0": [("GPU:0", 1, ("MatMul",))],
    "2024-01-01 10:00:00.000000: I tensorflow/core/common_runtime/eager/execute.cc:1423] Executing op"
    " MatMul in device /job:localhost/replica:0/task:0/device:GPU:1\n"
    "Executing op AddV2 in device /job:worker/replica:0/task:3/device:CPU:0": [("GPU:1", 1, ("MatMul",))],
}  # fmt: skip


@pytest.mark.parametrize("text", TABLES, ids=["2017", "2016", "today, and again without the file"])
def test_operations_are_counted_by_device(text: str) -> None:
    rows = list_placements(judge_text(text).events)
    assert [(row.device, row.count, row.kinds) for row in rows] == TABLES[text]


def test_a_placement_log_reports_no_failure() -> None:
    judged = judge_text("a: (Const): /job:localhost/replica:0/task:0/device:CPU:0")
    assert judged.report.verdict == "compatible"
    assert judged.report.headline == "Nothing in this log reports a failure: nothing to repair."


def test_why_operations_stay_on_the_processor_is_said() -> None:
    text = (
        "Colocation Debug Info:\nVariableV2: CPU\nIdentity: GPU CPU\nCast: XLA_CPU\n"
        "Ignoring device specification /device:GPU:0 for node 'b' because the input edge from 'a'"
        " is a reference connection and already has a device field set to /device:CPU:0\n"
    )
    assert list_reasons(judge_text(text).events) == (
        "VariableV2 has no kernel for a GPU here.",
        "Cast has no kernel for a GPU here.",
        "b stays with its input a.",
    )


def test_an_empty_name_of_the_gpu_leads_to_what_both_majors_of_tensorflow_run() -> None:
    finding = judge_text(">>> tf.test.gpu_device_name()\n''\n").report.findings[0]
    assert finding.fix is not None
    (action,) = finding.fix.actions
    assert "device_lib.list_local_devices()" in " ".join(action.command())
    assert "tf.config" not in " ".join(action.command())

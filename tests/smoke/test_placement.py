"""TensorFlow's placement logs, as 1.15, 2.10, 2.15 and 2.21 really wrote them; cut down to the lines that differ."""

from __future__ import annotations

import pytest

from envcheck.smoke.events import Result
from envcheck.smoke.placements import (
    EXECUTED,
    PLACER,
    judge_placements,
    list_asked,
    parse_placements,
)

CPU = "/job:localhost/replica:0/task:0/device:CPU:"
# Recorded: TensorFlow 1.15 writes the session's graph, with the nodes in any order, to standard
# error ...
TF_1_15 = f"""2026-11-20 23:01:40.946057: I tensorflow/core/common_runtime/direct_session.cc:359] Device mapping:
/job:localhost/replica:0/task:0/device:XLA_CPU:0 -> device: XLA_CPU device

##### envcheck step matmul	CPU:1
2026-11-20 23:01:40.946688: I tensorflow/core/common_runtime/placer.cc:54] mm: (MatMul): {CPU}0
2026-11-20 23:01:40.946697: I tensorflow/core/common_runtime/placer.cc:54] mm_1: (MatMul): {CPU}1
2026-11-20 23:01:40.946703: I tensorflow/core/common_runtime/placer.cc:54] a: (Const): {CPU}0
"""
# ... and once more, without date and file, to standard output, which is buffered and so stands
# anywhere.
ON_STDOUT = f"mm: (MatMul): {CPU}0\na: (_Arg): {CPU}0\n"
TF_2_10 = f"""##### envcheck step matmul	CPU:1
2026-11-20 23:01:03.854043: I tensorflow/core/common_runtime/placer.cc:114] a: (_Arg): {CPU}1
2026-11-20 23:01:03.854057: I tensorflow/core/common_runtime/placer.cc:114] _MklMatMul: (_MklMatMul): {CPU}1
2026-11-20 23:01:03.854061: I tensorflow/core/common_runtime/placer.cc:114] product_RetVal: (_Retval): {CPU}1
2026-11-20 23:01:03.854343: I tensorflow/core/common_runtime/eager/execute.cc:1423] Executing op _MklMatMul in device {CPU}1
##### envcheck step function	CPU:1
2026-11-20 23:01:03.875347: I tensorflow/core/common_runtime/placer.cc:114] x: (_Arg): {CPU}1
2026-11-20 23:01:03.875362: I tensorflow/core/common_runtime/placer.cc:114] MatMul: (MatMul): {CPU}1
2026-11-20 23:01:03.875368: I tensorflow/core/common_runtime/placer.cc:114] Identity: (Identity): {CPU}0
2026-11-20 23:01:03.881866: I tensorflow/core/common_runtime/eager/execute.cc:1423] Executing op __inference_f_10 in device {CPU}0
"""
TF_2_21 = f"""##### envcheck step matmul	CPU:0
I0000 00:00:1795215654.705859   24254 placer.cc:162] _MklMatMul: (_MklMatMul): {CPU}0
I0000 00:00:1795215654.706339   24254 execute.cc:1775] Executing op _MklMatMul in device {CPU}0
"""
# Recorded: soft placement was on, GPU:0 was asked for, and the processor did it without a word of
# warning.
SOFT = f"""##### envcheck step matmul	GPU:0
2026-11-20 23:00:59.659452: I tensorflow/core/common_runtime/eager/execute.cc:1750] Executing op _MklMatMul in device {CPU}0
"""
# Composed, in the form that TensorFlow 1.0 to 1.12 is known to have written.
TF_1_0 = """##### envcheck step matmul	GPU:0
2017-03-01 10:00:00.000000: I tensorflow/core/common_runtime/placer.cc:841] mm: (MatMul)/job:localhost/replica:0/task:0/gpu:0
"""


def passed(check: str, device: str) -> tuple[Result, ...]:
    return (Result(check, device, "passed", ran_on=device),)


@pytest.mark.parametrize(
    ("log", "found"),
    [
        (
            TF_1_15,
            [("MatMul", "CPU:0", PLACER), ("MatMul", "CPU:1", PLACER), ("Const", "CPU:0", PLACER)],
        ),
        (
            TF_1_15 + ON_STDOUT,
            [("MatMul", "CPU:0", PLACER), ("MatMul", "CPU:1", PLACER), ("Const", "CPU:0", PLACER)],
        ),
        (TF_2_21, [("_MklMatMul", "CPU:0", PLACER), ("_MklMatMul", "CPU:0", EXECUTED)]),
        (TF_1_0, [("MatMul", "GPU:0", PLACER)]),
        ("a line about /job:worker that is no placement\n: (MatMul): /job:x\n", []),
    ],
)
def test_every_format_is_read(log: str, found: list[tuple[str, str, str]]) -> None:
    assert [(item.op, item.device, item.by) for item in parse_placements(log)] == found


def test_lines_belong_to_the_step_above_them() -> None:
    steps = {(item.check, item.asked) for item in parse_placements(TF_2_10)}
    assert steps == {("matmul", "CPU:1"), ("function", "CPU:1")}


@pytest.mark.parametrize(
    ("log", "check", "device", "outcome"),
    [
        (TF_2_10, "matmul", "CPU:1", "passed"),
        # the call and Identity lie on CPU:0; what computes does not
        (TF_2_10, "function", "CPU:1", "passed"),
        (TF_2_21, "matmul", "CPU:0", "passed"),
        (TF_1_15, "matmul", "CPU:1", "failed"),  # one of the two MatMul of this graph ran elsewhere
        (SOFT, "matmul", "GPU:0", "failed"),
        (TF_1_0, "matmul", "GPU:0", "passed"),
        (ON_STDOUT, "matmul", "CPU:0", "skipped"),  # nothing was checked: not a pass
        ("", "matmul", "CPU:0", "skipped"),
    ],
)
def test_what_computes_is_held_against_what_was_asked(
    log: str, check: str, device: str, outcome: str
) -> None:
    (judged,) = judge_placements(parse_placements(log), passed(check, device))
    assert (judged.check, judged.device, judged.outcome) == (f"{check} placement", device, outcome)


def test_a_soft_placed_operation_points_to_its_finding() -> None:
    (judged,) = judge_placements(parse_placements(SOFT), passed("matmul", "GPU:0"))
    assert judged.finding == "device-placement"
    assert "asked for GPU:0" in judged.message
    assert "_MklMatMul on CPU:0" in judged.message
    assert judged.ran_on == "CPU:0"


TOWERS = f"""##### envcheck step towers on GPU:0 and GPU:1\tCPU:0
I0000 00:00:1795215654.706339   24254 execute.cc:1775] Executing op MatMul in device {CPU[:-4]}GPU:0
I0000 00:00:1795215654.706340   24254 execute.cc:1775] Executing op MatMul in device {CPU[:-4]}GPU:1
I0000 00:00:1795215654.706341   24254 execute.cc:1775] Executing op AddN in device {CPU}0
##### envcheck step gradients over GPU:0, GPU:1\t
I0000 00:00:1795215654.706342   24254 execute.cc:1775] Executing op MatMul in device {CPU[:-4]}GPU:0
I0000 00:00:1795215654.706343   24254 execute.cc:1775] Executing op _MklMatMul in device {CPU}0
##### envcheck step matmul 2048 float32\tGPU:0
I0000 00:00:1795215654.706344   24254 execute.cc:1775] Executing op MatMul in device {CPU[:-4]}GPU:0
"""


def test_checks_of_several_words_and_devices_are_held_against_the_log_as_well() -> None:
    placed = parse_placements(TOWERS)
    assert list(dict.fromkeys((item.check, item.asked) for item in placed)) == [
        ("towers on GPU:0 and GPU:1", "CPU:0"),
        ("gradients over GPU:0, GPU:1", ""),
        ("matmul 2048 float32", "GPU:0"),
    ]
    results = (
        *passed("towers on GPU:0 and GPU:1", "CPU:0"),
        *passed("gradients over GPU:0, GPU:1", ""),
        *passed("matmul 2048 float32", "GPU:0"),
        *passed("all-reduce over GPU:0, GPU:1", ""),  # of which the log says nothing
    )
    judged = judge_placements(placed, results)
    assert [(item.check, item.outcome) for item in judged] == [
        ("towers on GPU:0 and GPU:1 placement", "passed"),
        ("gradients over GPU:0, GPU:1 placement", "failed"),
        ("matmul 2048 float32 placement", "passed"),
    ]
    assert (
        judged[1].message
        == "asked for GPU:0, GPU:1, but TensorFlow's own log says _MklMatMul on CPU:0"
    )


@pytest.mark.parametrize(
    ("check", "device", "asked"),
    [
        ("matmul 2048 float32", "GPU:0", ("GPU:0",)),
        ("towers on GPU:0 and GPU:1", "CPU:0", ("GPU:0", "GPU:1")),
        ("towers on CPU:0 and CPU:0", "CPU:0", ("CPU:0",)),
        ("gradients over GPU:0, GPU:1", "", ("GPU:0", "GPU:1")),
        ("copy from GPU:0", "GPU:1", ("GPU:1",)),  # where it came from is not where it goes
        ("soft placement", "", ()),
    ],
)
def test_a_check_asks_for_its_device_or_for_those_it_runs_over(
    check: str, device: str, asked: tuple[str, ...]
) -> None:
    assert list_asked(check, device) == asked


def test_steps_without_a_number_are_not_judged() -> None:
    results = (
        *passed("import", ""),
        Result("matmul", "GPU:0", "crashed"),
        *passed("convolution", "CPU:0"),
    )
    assert judge_placements(parse_placements(SOFT), results) == []

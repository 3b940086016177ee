"""What a program went on after is not what ended it: each message before another one, and behind a healthy log."""

from __future__ import annotations

from functools import cache
from itertools import islice

import pytest

from envcheck.explain.signatures import signatures_by_name
from tests.cases.judged import judge_text
from tests.explain.test_healthy import LOGS
from tests.explain.test_variants import own_lines

WORK = "epoch 1 step 100 loss 2.1\nepoch 1 step 200 loss 1.9\nepoch 2 step 300 loss 1.7\n"


@cache
def causes() -> dict[str, str]:
    """Map the line of every fifth signature that names a cause by itself to that cause."""
    known = signatures_by_name()
    lines = (line for name, line in own_lines().items() if known[name].role == "cause")
    judged = {line: judge_text(line) for line in islice(lines, 0, None, 5)}
    return {
        line: item.primary
        for line, item in judged.items()
        if item.raises_error and "-" in item.primary
    }


def test_what_failed_last_is_the_cause() -> None:
    lines = list(causes())
    pairs = [(a, b) for a, b in zip(lines, lines[43:] + lines[:43]) if causes()[a] != causes()[b]]
    missed = [(a, b) for a, b in pairs if judge_text(f"{a}\n{WORK}{b}\n").primary != causes()[b]]
    assert len(pairs) > 90
    assert len(missed) <= 0.06 * len(pairs), missed


def test_a_failure_after_what_works_is_the_cause() -> None:
    lines = list(causes()) * 2
    ends = list(zip(LOGS.values(), lines))
    missed = [
        (log, line)
        for log, line in ends
        if judge_text(f"{log.rstrip()}\n{line}\n").primary != causes()[line]
    ]
    assert len(missed) <= 0.06 * len(ends), missed


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (
            "PyTorch version: 2.2.2+cpu\nnvcc fatal   : Unsupported gpu architecture 'compute_120'",
            "gpu-arch-too-new",
        ),
        (
            "PyTorch version: 2.2.2+cpu\nAssertionError: Torch not compiled with CUDA enabled",
            "framework-cpu-build",
        ),
    ],
)
def test_what_is_installed_stands_behind_a_failure_that_it_does_not_explain(
    log: str, cause: str
) -> None:
    assert judge_text(log).primary == cause


@pytest.mark.parametrize(
    "line",
    [
        "tests/test_gpu.py::test_error[CUDA out of memory] PASSED [ 50%]",
        "test_driver (t.T) CUDA driver version is insufficient ... ok",
        "tests/test_gpu.py::test_run SKIPPED (No CUDA GPUs are available)",
        "CUDA out of memory. Tried to allocate 2.00 GiB; retrying with half the batch",
    ],
)
def test_a_line_that_tells_that_its_failure_was_meant_or_avoided_is_no_failure(line: str) -> None:
    assert not judge_text(f"{line}\n===== 12 passed in 3.1s =====\n").raises_error


def test_a_failure_that_no_message_explains_is_shown_and_never_called_harmless() -> None:
    noise = "I tensorflow/core/platform/cpu_feature_guard.cc:182] This TensorFlow binary is optimized to use AVX2\n"
    assert judge_text(noise).report.verdict == "compatible"
    report = judge_text(f"{noise}myprog: failed to open the plan\n").report
    assert report.verdict == "undetermined"
    assert report.headline.endswith("myprog: failed to open the plan")
    (found,) = [item for item in report.findings if item.severity == "error"]
    assert found.evidence[0].shown.endswith("failed to open the plan")


def test_what_a_tool_advises_is_its_own_words() -> None:
    report = judge_text("Error: the workspace moved. Run `pixi update` to go on\n").report
    assert report.verdict == "undetermined"
    assert report.findings[0].fix is not None
    assert report.findings[0].fix.summary == "The tool itself says: pixi update"


STATED = """Traceback (most recent call last):
  File "/home/u/train.py", line 30, in main
    model = build(cfg)
  File "/home/u/.venv/lib/python3.11/site-packages/transformers/quantizers/quantizer_hqq.py", line 68, in check
    raise ImportError("A valid HQQ version is not available")
ImportError: A valid HQQ version is not available
"""


def test_what_a_package_says_that_it_lacks_is_the_cause() -> None:
    report = judge_text(STATED).report
    assert report.findings[0].id == "dependency-conflict"
    assert (
        report.headline
        == "transformers lacks what it asks for: A valid HQQ version is not available."
    )
    by_accident = STATED.replace(
        '    raise ImportError("A valid HQQ version is not available")\n', ""
    )
    assert judge_text(by_accident).report.verdict == "undetermined"


def test_the_exception_is_the_last_error_whatever_its_name_is() -> None:
    died = STATED.replace("ImportError", "StageAborted")
    shown = "The last error is none that envcheck knows: StageAborted: A valid HQQ version is not available"
    assert judge_text(died).report.headline == shown
    built = f"{died}  ERROR: Failed building wheel for foo\n"
    assert judge_text(built).report.headline == shown

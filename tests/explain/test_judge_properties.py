"""Noise lines and the order of unrelated lines never change the primary finding."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases.judged import FOLDER, NOISE, judge_text, read_cases

CASES = [
    case
    for name in ("reported", "composed")
    for case in read_cases(FOLDER / f"{name}.jsonl")
    if case["decidable_from"] == "log"
]
NOISES = [line for case in CASES if case["id"].startswith("composed-noise-") for line in case["log"].splitlines()]
# Lines that show a working GPU say something; so does what no signature of noise matches.
HARMLESS = [line for line in NOISES if judge_text(line).primary == NOISE and "device:GPU" not in line]
PLAIN = ["", "Epoch 3/10", "loss: 0.25 accuracy: 0.91", "Saving checkpoint", "INFO:root:starting", "  ^", "100%|###|"]


@settings(max_examples=60, deadline=None)
@given(
    case=st.sampled_from(CASES),
    lines=st.lists(st.tuples(st.integers(0, 20), st.sampled_from([*HARMLESS, *PLAIN])), min_size=1, max_size=8),
)
def test_noise_never_changes_the_primary_finding(case: dict[str, Any], lines: list[tuple[int, str]]) -> None:
    before = judge_text(case["log"]).primary
    text = case["log"].splitlines()
    for place, line in lines:
        text.insert(min(place, len(text)), line)
    after = judge_text("\n".join(text)).primary
    assert after == (NOISE if before == "undetermined" and after == NOISE else before)


@settings(max_examples=60, deadline=None)
@given(case=st.sampled_from(CASES), other=st.sampled_from(HARMLESS), seed=st.randoms(use_true_random=False))
def test_the_order_of_lines_never_changes_the_primary_finding(case: dict[str, Any], other: str, seed: Any) -> None:
    text = [*case["log"].splitlines(), other, "Epoch 1/10"]
    shuffled = list(text)
    seed.shuffle(shuffled)
    assert judge_text("\n".join(shuffled)).primary == judge_text("\n".join(text)).primary

"""Noise lines and the order of unrelated lines never change the primary finding."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envcheck.explain.judge import judge_log
from envcheck.explain.signatures import load_signatures
from tests.cases.case_facts import facts_of, matrix
from tests.cases.judged import FOLDER, NOISE, Judged, judge_text, read_cases

# What follows the first line is the rest of it: one write of PyTorch's sentence, and a shell's
# command with its answer. A line between the two takes the sentence apart.
WHOLE = {"composed-nvcc-beside", "composed-tf-dup-list"}
CASES = [
    case
    for name in ("reported", "composed")
    for case in read_cases(FOLDER / f"{name}.jsonl")
    # A question at a prompt and its answer are no unrelated lines.
    if case["decidable_from"] == "log"
    and ">>> " not in case["log"]
    and not case["id"].startswith("composed-answer-")
    and case["id"] not in WHOLE
]
NOISES = [
    line
    for case in CASES
    if case["id"].startswith("composed-noise-")
    for line in case["log"].splitlines()
]
# Lines that show a working GPU say something; so does what no signature of noise matches.
# what makes another message harmless: TensorFlow for Windows calls no ptxas
ANSWERS = {"ptxas-not-on-windows"}
ROLES = {item.name: item.role for item in load_signatures()}


def is_harmless(line: str) -> bool:
    judged = judge_text(line)
    says = {event.signature for event in judged.events}
    return (
        judged.primary == NOISE
        and says.isdisjoint(ANSWERS)
        and all(ROLES[name] != "healthy" for name in says)
    )


@st.deferred
# judged when a test runs, not in every process that collects it
def harmless() -> st.SearchStrategy[str]:
    return st.sampled_from([line for line in NOISES if is_harmless(line)])


def primary_of(text: str) -> str:
    """Name the primary finding by the messages alone: how a log ends is another question."""
    events = judge_text(text).events
    return Judged({}, events, judge_log(events, matrix(), None)).primary


PLAIN = [
    "",
    "Epoch 3/10",
    "loss: 0.25 accuracy: 0.91",
    "Saving checkpoint",
    "INFO:root:starting",
    "  ^",
    "100%|###|",
]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    case=st.sampled_from(CASES),
    lines=st.lists(
        st.tuples(st.integers(0, 20), st.one_of(harmless, st.sampled_from(PLAIN))),
        min_size=1,
        max_size=8,
    ),
)
def test_noise_never_changes_the_primary_finding(
    case: dict[str, Any], lines: list[tuple[int, str]]
) -> None:
    before = primary_of(case["log"])
    text = case["log"].splitlines()
    for place, line in lines:
        text.insert(min(place, len(text)), line)
    after = primary_of("\n".join(text))
    assert after == (NOISE if before == "undetermined" and after == NOISE else before)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=st.sampled_from(CASES), other=harmless, seed=st.randoms(use_true_random=False))
def test_the_order_of_lines_never_changes_the_primary_finding(
    case: dict[str, Any], other: str, seed: Any
) -> None:
    text = "\n".join([case["log"], other, "Epoch 1/10"])
    blocks = list_blocks(text)
    seed.shuffle(blocks)
    assert primary_of("\n".join(blocks)) == primary_of(text)


def list_blocks(text: str) -> list[str]:
    """List the lines, each frame of a traceback with source: what follows it is taken for it."""
    blocks: list[str] = []
    for line in text.splitlines():
        is_source = bool(blocks) and line.startswith("    ") and 'File "' in blocks[-1]
        if is_source:
            blocks[-1] += f"\n{line}"
        else:
            blocks.append(line)
    return [each + "\n    run()" * is_bare_frame(each) for each in blocks]


def is_bare_frame(block: str) -> bool:
    return 'File "' in block and "\n" not in block


MESSAGES = st.sampled_from(load_signatures()).flatmap(lambda item: st.from_regex(item.expression))
JOINED = st.lists(MESSAGES, min_size=1, max_size=3).map("\n".join)


@settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(
    text=JOINED,
    stated=st.sampled_from([None, {"gpus": []}, {"os": "Windows", "packages": {"torch": "2.1.0"}}]),
)
def test_whatever_matches_is_judged(text: str, stated: dict[str, Any] | None) -> None:
    judged = judge_text(text, None if stated is None else facts_of(stated))
    assert judged.report.verdict in ("compatible", "incompatible", "other-cause", "undetermined")
    assert sum(finding.primary for finding in judged.report.findings) <= 1
    assert judged.report.verdict != "incompatible" or judged.report.findings[0].primary

"""The output of a host becomes a snapshot or a kind of failure."""

from __future__ import annotations

import json

import pytest

from envcheck.fleet.collector import MARK
from envcheck.fleet.results import BROKEN, HUNG, TOO_OLD, Failure, classify_failure, find_answer
from envcheck.model import Snapshot
from tests.fleet.hostile import document


def test_the_answer_is_found_in_the_output_of_login_scripts() -> None:
    printed = f"Welcome!\r\n\x1b[31mmotd{MARK}{json.dumps(document())}\r\nlogout\n"
    assert isinstance(find_answer(printed, ""), Snapshot)


def test_a_login_script_that_prints_the_mark_does_not_hide_the_answer() -> None:
    body = {**document(), "tool_version": MARK}
    printed = f"{MARK}\n{MARK}{{}}\n{MARK}{json.dumps(body)}\n"
    assert isinstance(find_answer(printed, ""), Snapshot)


@pytest.mark.parametrize(
    ("printed", "message"),
    [
        (MARK + '{"half": [1, 2', "not JSON"),
        (MARK + "[" * 100_000, "not JSON"),
        (MARK + "9" * 10_000, ""),
        (MARK + '{"schema": "envcheck/snapshot/1", "facts": {}}', "not a valid snapshot"),
        (MARK + '{"schema": "envcheck/snapshot/1"}' + "trailing", "not JSON"),
        ("\x1b[2J" * 5000, "\x1b[2J"),
        ("", "it exited without an answer"),
    ],
    ids=["half", "deep", "digits", "no-facts", "trailing", "escapes", "silent"],
)
def test_garbage_is_a_broken_host_with_a_short_reason(printed: str, message: str) -> None:
    answer = find_answer(printed, printed)
    assert isinstance(answer, Failure)
    assert answer.kind == BROKEN
    assert message in answer.reason
    assert len(answer.reason) <= 2000


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("Shared connection closed. envcheck: no Python 3.8 or newer on this host", TOO_OLD),
        ("Task failed: Timed out after 20 second(s).", HUNG),
        ("The action failed to execute in the expected time frame (60) and was terminated", HUNG),
        ("slurmstepd: error: *** STEP 4.0 ON c1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***", HUNG),
        ("Segmentation fault", BROKEN),
    ],
)
def test_kinds_of_failure(words: str, kind: str) -> None:
    assert classify_failure(words).kind == kind

"""Read what the collector printed, wherever it ran."""

from __future__ import annotations

import json
import re

from envcheck.fleet.collector import MARK
from envcheck.fleet.results import BROKEN, HUNG, TOO_OLD, Failure, parse_answer
from envcheck.model.snapshot import Snapshot


def answer_of(output: str, words: str) -> Snapshot | Failure:
    """Find the collector's line among what login scripts print; without one, `words` tell why."""
    lines = [line for line in output.splitlines() if MARK in line]  # the answer comes last, after what logins print
    found = lines[-1].split(MARK, 1)[1] if lines else ""
    if not found:
        return failure_of(words)
    try:
        return parse_answer(json.loads(found))
    except (ValueError, RecursionError) as error:
        return Failure(BROKEN, f"its answer is not JSON: {str(error)[:200]}")


def failure_of(words: str) -> Failure:
    """Tell the kinds of failure apart by what was printed."""
    text = " ".join(words.split())[:2000] or "it ended without an answer"
    if re.search(r"no Python [\d.]+ or newer on this host", text):
        return Failure(TOO_OLD, text)
    timed = re.search(r"expected time frame|timed? ?out|DUE TO TIME LIMIT", text, re.IGNORECASE)
    return Failure(HUNG if timed else BROKEN, text)

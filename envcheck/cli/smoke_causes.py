"""Ask the room that reads logs which finding the words of a failed smoke test point to."""

from __future__ import annotations


def explain_words(text: str) -> str:
    """Return the id of the root cause that a log names, or "" where it names none."""
    from envcheck.explain.judge import judge_log
    from envcheck.explain.scan import scan
    from envcheck.explain.signatures import load_signatures
    from envcheck.matrix.load import load_matrix

    found = scan([("smoke test", [text.encode("utf-8", "replace")])], load_signatures())
    findings = judge_log(found.events, load_matrix(None), None).findings
    return next((finding.id for finding in findings if finding.primary), "")

"""Ask the room that reads logs which findings the words of a failed smoke test point to."""

from __future__ import annotations

from envcheck.model.findings import NOTE


def explain_words(text: str) -> tuple[str, ...]:
    """Return the ids of what a log names, the root cause first; nothing where it names no root cause."""
    from envcheck.explain.judge import judge_log
    from envcheck.explain.scan import scan
    from envcheck.explain.signatures import load_signatures
    from envcheck.matrix.load import load_matrix

    found = scan([("smoke test", [text.encode("utf-8", "replace")])], load_signatures())
    findings = judge_log(found.events, load_matrix(None), None).findings
    if not any(finding.primary for finding in findings):
        return ()
    told = [finding for finding in findings if finding.severity != NOTE]
    return tuple(finding.id for finding in sorted(told, key=lambda finding: not finding.primary))

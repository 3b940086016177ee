"""Forecast how often the next report says what no report said before (Good and Turing).

    python bench/explain_forecast.py [FILE.jsonl ...]

Each report is left out in turn. What decides it, its signatures or the sentence that was read, counts
as known only where another report has it: a signature that one report alone supports was written
from that report. The share of reports that nothing else supports is the forecast for the next one.
It is printed by signature, and by finding id, for which the signatures of one id are merged.
Without FILE, the project's own real reports.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.cases.judged import Judged, judge, read_cases  # noqa: E402 - after the path is set


def share_alone(keys: list[frozenset[str]]) -> str:
    """Write for how many reports no other report holds one of the keys that decide it."""
    counted = Counter(key for held in keys for key in held)
    alone = sum(all(counted[key] == 1 for key in held) for held in keys)
    return f"{alone}/{len(keys)} ({100 * alone / len(keys):.1f} %)" if keys else "-"


def main() -> int:
    """Judge every report and print the two shares."""
    files = [Path(name) for name in sys.argv[1:]] or [ROOT / "tests" / "cases" / "reported.jsonl"]
    judged: dict[str, Judged] = {}
    for path in files:
        for case in read_cases(path):
            if case["decidable_from"] in ("log", "log+facts"):
                judged[case["id"]] = judge(case)
    right = [item for item in judged.values() if item.is_lenient and item.deciding]
    print("| key | reports that nothing else supports |\n|---|---|")
    print(f"| signature | {share_alone([frozenset(item.deciding) for item in right])} |")
    print(f"| finding id | {share_alone([frozenset((item.primary,)) for item in right])} |")
    missed = len(judged) - sum(item.is_lenient for item in judged.values())
    print(
        f"\n{len(judged)} reports whose log counts, {len(right)} decided by lines, {missed} missed"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

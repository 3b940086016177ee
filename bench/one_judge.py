"""Ask `doctor --for`, `plan`, `check` and `matrix query` about random machines and requests: they must agree.

    python bench/one_judge.py [--cases 2000] [--seed 1]

Prints each disagreement, and the numbers as a table in Markdown; exits 1 with any disagreement.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.diagnosis.test_one_judge import compare_all, draw_case  # noqa: E402 - the path is set above


def main() -> int:
    """Draw the cases, compare the four on each, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    generator, start = random.Random(options.seed), time.monotonic()
    counts: Counter[str] = Counter()
    for _ in range(options.cases):
        machine, row = draw_case(generator)
        disagreements = compare_all(machine, row)
        counts["cases"] += 1
        counts["disagreements"] += bool(disagreements)
        for text in disagreements:
            print(f"{machine}\n  {text}", flush=True)
    print(
        f"| cases | disagreements | seconds |\n|---|---|---|\n| {counts['cases']} |"
        f" {counts['disagreements']} |",
        end="",
    )
    print(f" {time.monotonic() - start:.0f} |")
    return 1 if counts["disagreements"] else 0


if __name__ == "__main__":
    sys.exit(main())

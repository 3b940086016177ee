"""Interrupt every command at random instants, and see how each ends and what it leaves.

    python bench/interrupted.py [--tries 60] [--seconds 2.0] [--seed 1]

An instant counts from when the program has begun: until then, some 20 ms, Python answers in its own
words. A command that ends before its instant is not interrupted, and counted apart. Linux.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.faults.interrupting import Ended, command_lines, interrupt, left_behind  # noqa: E402 - the path is set above

CLEAN = ("", "envcheck: Interrupted.")


def main() -> int:
    """Print a line for each command; 1 when one ended otherwise than it should."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    chance, bad = random.Random(asked.seed), 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for command, line in command_lines(folder).items():
            # Most commands take a tenth of the time: half of their instants lie in there.
            spans = [
                asked.seconds if command == "gpus" or turn % 2 else 0.15
                for turn in range(asked.tries)
            ]
            found = Counter(
                _how(interrupt(line, chance.uniform(0, span), folder)) for span in spans
            )
            # whole: as asked for
            left = [name for name in left_behind(folder) if not name.endswith("machine.json")]
            bad += found["otherwise"] + len(left)
            print(
                f"{command:10}",
                ", ".join(f"{how} {count}" for how, count in sorted(found.items())),
                left or "",
            )
    print("not met" if bad else "met: 130 or done before, one sentence, nothing left")
    return 1 if bad else 0


def _how(ended: Ended) -> str:
    if ended.code == 130 and ended.stderr.strip() in CLEAN and ended.seconds < 1:
        return "interrupted"
    if ended.code in (0, 1, 2, 3) and "Traceback" not in ended.stderr:
        return "done before"
    print(ended, file=sys.stderr)
    return "otherwise"


if __name__ == "__main__":
    sys.exit(main())

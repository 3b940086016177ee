"""Send signals at random instants of an installation: the environment is the old or the new one, and it is said which.

    python -m bench.install_signals [--count 400] [--first 100] [--seed 1] [--signals SIGINT ...]

SIGINT, SIGTERM and SIGHUP to the process or to its group, SIGKILL to the group; by uv and by pip; over an environment
and over none; with small wheels of many files. `--first` of them lie in the first 30 ms of a step. Afterwards the files
are compared, nothing of the installation may run, and what was said, and the journal, must be true. Prints a table in
Markdown; 1 when anything is otherwise. Linux.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.install.signals import NEW, SIGNALS, choose_instant, interrupt, make_stock, time_whole


def main() -> int:
    """Interrupt, count and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--first", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--signals", nargs="+", choices=SIGNALS, default=SIGNALS)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        return run(Path(name).resolve(), asked, random.Random(asked.seed))


def run(top: Path, asked: argparse.Namespace, dice: random.Random) -> int:
    """Make the wheels and interrupt so many installations."""
    make_stock(top / "stock")
    ways = [(installer, is_there) for installer in ("uv", "pip") for is_there in (True, False)]
    seconds = {
        way: time_whole(top / "stock", top / f"whole{way}", way[0], is_there=way[1]) for way in ways
    }
    found: Counter[tuple[str, str, str, str]] = Counter()
    for number in range(asked.count):
        instant = choose_instant(
            dice, seconds, first=number < asked.first, signals=tuple(asked.signals)
        )
        outcome = interrupt(top / "stock", top / str(number), instant)
        # what still runs writes into it
        shutil.rmtree(top / str(number), ignore_errors=bool(outcome.wrong))
        for words in outcome.wrong:
            print(f"{number}: {instant}: {words}", file=sys.stderr, flush=True)
        left = "wrong" if outcome.wrong else "new" if outcome.held == NEW else "old"
        found["first" if instant.step else "any", instant.installer, instant.signal, left] += 1
    print("| instant | by | signal | old | new | else |\n|---|---|---|---|---|---|")
    for when, title in (("first", "first 30 ms of a step"), ("any", "any")):
        for installer in ("uv", "pip"):
            for name in asked.signals:
                told = (found[when, installer, name, left] for left in ("old", "new", "wrong"))
                print(f"| {title} | {installer} | {name} |", " | ".join(map(str, told)), "|")
    return 1 if any(left == "wrong" for *_, left in found) else 0


if __name__ == "__main__":
    sys.exit(main())

"""Score what should change nothing: outputs of programs that worked, and logs written otherwise.

    python bench/explain_unchanged.py [--worked ARCHIVE] [--logs FILE.jsonl] [--number 40] [--seed 0]

ARCHIVE holds real outputs without a failure: an error or an incompatible verdict is an alarm. From
FILE, labelled logs, `number` that are judged right are drawn by `seed`, and each is judged again in
every other writing of WRITINGS, none of which changes what the log says. Exits 1 over 2 % changed
causes, or over one alarm in a hundred.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tarfile
import textwrap
from collections import Counter
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.cases.judged import Judged, judge, judge_text, read_cases  # noqa: E402 - after the path is set

NEWLINE = "\n"
PROSE = "Hello, I tried this today. What does it mean?"


def each(change: Callable[[str], str]) -> Callable[[str], str]:
    """Return what changes a log line by line."""
    return lambda log: NEWLINE.join(map(change, log.split(NEWLINE)))


def double_blanks(line: str) -> str:
    """Write each blank between two words twice."""
    return re.sub(r"(?<=\S) (?=\S)", "  ", line)


def wrap(width: int) -> Callable[[str], str]:
    """Return what breaks a line between words, as mail programs do."""

    def broken(line: str) -> str:
        pieces = textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False)
        return NEWLINE.join(pieces) or line

    return broken


def fold(width: int) -> Callable[[str], str]:
    """Return what breaks a line at a width, as terminals do."""
    return lambda line: NEWLINE.join(
        line[at : at + width] for at in range(0, max(len(line), 1), width)
    )


WRITINGS: dict[str, Callable[[str], str]] = {
    "doubled blanks": each(double_blanks),
    "blank before a colon": each(lambda line: re.sub(r"(?<=\w): ", " : ", line)),
    "wrapped at 60": each(wrap(60)),
    "wrapped at 80": each(wrap(80)),
    "folded at 80": each(fold(80)),
    "folded at 120": each(fold(120)),
    "times": each(lambda line: f"2026-11-27 10:11:12,345 {line}"),
    "syslog": each(lambda line: f"Nov 27 10:11:12 node7 python[4242]: {line}"),
    "ranks": each(lambda line: f"[rank3]: {line}"),
    "compose": each(lambda line: f"trainer-1  | {line}"),
    "quoted": each(lambda line: f"> {line}"),
    "indented": each(lambda line: f"    {line}"),
    "tabs": each(lambda line: line.replace("    ", "\t")),
    "trailing blanks": each(lambda line: f"{line}   "),
    "Windows' line ends": lambda log: log.replace(NEWLINE, "\r\n"),
    "typographic quotes": lambda log: re.sub(r"'([^'\n]*)'", "\u2018\\1\u2019", log),
    "blank lines": lambda log: log.replace(NEWLINE, NEWLINE * 2),
    "cut head": lambda log: f"...{NEWLINE}{log}",
    "cut tail": lambda log: f"{log}{NEWLINE}...",
    "prose around": lambda log: f"{PROSE}{NEWLINE * 2}{log}{NEWLINE * 2}{PROSE}",
    "code fence": lambda log: f"```{NEWLINE}{log}{NEWLINE}```",
    "twice": lambda log: f"{log}{NEWLINE}{log}",
}


def score_writings(path: Path, number: int, seed: int) -> bool:
    """Print how often another writing of a log changes its cause; say whether it is seldom."""
    right = [item for item in map(judge, read_cases(path)) if item.is_lenient]
    right = [item for item in right if item.case["decidable_from"] == "log"]
    drawn = random.Random(seed).sample(right, min(number, len(right)))
    changed: Counter[str] = Counter()
    for item in drawn:
        for name, write in WRITINGS.items():
            # as asked for: a case may expect a GPU
            again = judge({**item.case, "log": write(str(item.case["log"]))}).primary
            if again != item.primary:
                changed[name] += 1
                print(f"- {name}: {item.case['id']}: {item.primary} becomes {again}")
    tried = len(drawn) * len(WRITINGS)
    share = 100 * changed.total() / max(tried, 1)
    print(f"\n{changed.total()} of {tried} ({share:.1f} %) change the cause: {dict(changed)}")
    return share <= 2


def is_alarm(judged: Judged) -> bool:
    """Say whether a report calls a program that worked broken."""
    return judged.raises_error or judged.report.verdict == "incompatible"


def score_worked(path: Path) -> bool:
    """Print the alarms over outputs without a failure; say whether there are next to none."""
    alarms, number = 0, 0
    with tarfile.open(path) as archive:
        for member in sorted(archive, key=lambda item: item.name):
            file = archive.extractfile(member) if member.name.endswith(".log") else None
            if file is None:
                continue
            judged = judge_text(file.read().decode("utf-8", "replace"))
            number += 1
            if is_alarm(judged):
                alarms += 1
                print(f"- alarm: {member.name}: {judged.primary}")
    print(f"\n{alarms} of {number} outputs that worked raise an alarm")
    return alarms <= number / 100


def main() -> int:
    """Score what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worked", type=Path)
    parser.add_argument("--logs", type=Path, default=ROOT / "tests" / "cases" / "reported.jsonl")
    parser.add_argument("--number", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    met = score_writings(asked.logs, asked.number, asked.seed)
    met = (asked.worked is None or score_worked(asked.worked)) and met
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())

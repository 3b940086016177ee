"""Judge labelled logs and print how often the primary finding is the confirmed cause.

    python bench/explain_cases.py [FILE.jsonl ...]

Without FILE, the project's own: reported.jsonl are real reports with a confirmed cause,
composed.jsonl were written here from the frameworks' own messages and prove nothing about accuracy;
unseen.jsonl were written without a look at the signatures, and what they proved they proved when
first judged (bench/README.md). A case gives the log, the facts or both, as its `decidable_from`
says; "no" marks those that neither decides. Strict: the primary finding is `root_cause`; lenient:
it is that or in `also_acceptable`. For the real reports it also prints where their confirmed fix
stands (a row of tests/cases/answers.jsonl each): in the first remedy, in another way, or nowhere.
Exits 1 below 95 % lenient where the log decides, or where fewer than 85 % of the first remedies
have the confirmed fix.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.cases.answers import FIRST, MISSING, OTHER_WAY, answers, grade  # noqa: E402 - after the path is set
from tests.cases.judged import NOISE, Judged, judge, read_cases  # noqa: E402 - after the path is set

KINDS = ("log", "log+facts", "facts", "no")


def share(part: int, whole: int) -> str:
    """Write a share as "12/15 (80 %)"."""
    return f"{part}/{whole} ({100 * part / whole:.0f} %)" if whole else "-"


def row(name: str, judged: list[Judged]) -> str:
    """Write one row of a table."""
    strict = sum(item.is_strict for item in judged)
    lenient = sum(item.is_lenient for item in judged)
    return (
        f"| {name} | {len(judged)} | {share(strict, len(judged))} | {share(lenient, len(judged))} |"
    )


def tables(judged: list[Judged]) -> None:
    """Print the shares per kind and per confirmed cause."""
    print("| decided by | cases | strict | lenient |\n|---|---|---|---|")
    for kind in KINDS:
        found = [item for item in judged if item.case["decidable_from"] == kind]
        if found:
            print(row(kind, found))
    by_cause: dict[str, list[Judged]] = defaultdict(list)
    for item in judged:
        by_cause[item.case["root_cause"]].append(item)
    print("\n| confirmed cause | cases | strict | lenient |\n|---|---|---|---|")
    for cause in sorted(by_cause):
        print(row(cause, by_cause[cause]))


def noise(judged: list[Judged]) -> None:
    """Print for how many harmless logs no error was raised."""
    found = [item for item in judged if item.case["root_cause"] == NOISE]
    quiet = sum(not item.raises_error for item in found)
    print(f"\nharmless logs without an error raised: {share(quiet, len(found))}")


def misses(judged: Iterable[Judged]) -> None:
    """Print what was not found, and what was found in its place."""
    for item in judged:
        if not item.is_lenient:
            case = item.case
            print(
                f"- miss ({case['decidable_from']}): {case['id']}: {case['root_cause']}, found"
                f" {item.primary}"
            )


def supported_once(judged: Iterable[Judged]) -> None:
    """Print the signatures that decide only one of these cases."""
    counted = Counter(name for item in judged if item.is_lenient for name in item.deciding)
    once = sorted(name for name, number in counted.items() if number == 1)
    print(
        f"\nsignatures that only one case supports ({len(once)} of {len(counted)} that decide):"
        f" {', '.join(once)}"
    )


def fixes(judged: Iterable[Judged]) -> bool:
    """Print where the confirmed fix of each report stands; tell whether enough stand in the first remedy."""
    confirmed = answers()
    known = [item for item in judged if item.case["id"] in confirmed]
    graded = [(item.case["id"], grade(item, confirmed[item.case["id"]])) for item in known]
    if not graded:
        return True
    print("\n| confirmed fix | reports |\n|---|---|")
    for place in (FIRST, OTHER_WAY, MISSING):
        print(f"| {place} | {share(sum(found == place for _, found in graded), len(graded))} |")
    for case, place in graded:
        if place != FIRST:
            print(f"- {place}: {case}: {confirmed[case].fix}")
    return sum(place == FIRST for _, place in graded) >= 0.85 * len(graded)


def main() -> int:
    """Judge every file and print its tables."""
    files = [Path(name) for name in sys.argv[1:]] or [
        ROOT / "tests" / "cases" / "reported.jsonl",
        ROOT / "tests" / "cases" / "composed.jsonl",
        ROOT / "tests" / "cases" / "unseen.jsonl",
    ]
    met = True
    for path in files:
        judged = [judge(case) for case in read_cases(path)]
        print(f"\n## {path.name}: {len(judged)} cases\n")
        tables(judged)
        noise(judged)
        misses(judged)
        supported_once(judged)
        met = fixes(judged) and met
        by_log = [item for item in judged if item.case["decidable_from"] == "log"]
        met = met and sum(item.is_lenient for item in by_log) >= 0.95 * len(by_log)
    print(
        f"\n{'met' if met else 'MISSED'}: 95 % lenient where the log decides, 85 % of the confirmed"
        " fixes first"
    )
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())

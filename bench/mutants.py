"""Change one place of the code at a time, and see whether the tests of its package notice.

    python -m bench.mutants --seed 7 [--count 100] [--packages rules remedies plan explain probes] [--seconds 300]

A copy of the checkout is changed, never the checkout itself. One run of each package's own tests (tests/PACKAGE, without
the files of SWEEPS, which judge thousands of machines) with coverage says which tests reach which line. The seed draws
the places, as many in each package; a place is changed by the first operator of OPERATORS that fits it, and the tests
that reach its line are run until one fails. A line that no test reaches is a survivor. Prints a table by package and
each survivor with its line before and after, so that one can see which of them change nothing.
"""

from __future__ import annotations

import argparse
import ast
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from coverage import CoverageData

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("rules", "remedies", "plan", "explain", "probes")
SWEEPS = (
    "tests/rules/test_unread_facts.py",
    "tests/rules/test_newest_release.py",
    "tests/rules/test_documented_gpus.py",
    "tests/remedies/test_same_situation.py",
    "tests/plan/test_sweep.py",
)
_PYTEST = ("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "--no-header", "--tb=no")
_COMPARISONS = {
    "Eq": ("==", "!="),
    "NotEq": ("!=", "=="),
    "Lt": ("<", "<="),
    "LtE": ("<=", "<"),
    "Gt": (">", ">="),
    "GtE": (">=", ">"),
    "In": ("in", "not in"),
    "NotIn": ("not in", "in"),
    "Is": ("is", "is not"),
    "IsNot": ("is not", "is"),
}


@dataclass(frozen=True)
class Mutant:
    """One changed place: the characters of a file from `start` to `end` become `text`."""

    file: Path  # in the copy
    line: int
    start: int
    end: int
    text: str
    operator: str


class _Places:
    """Finds the places in a file that can be changed, outside annotations and docstrings."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.source = file.read_text(encoding="utf-8")
        self._starts = [0]
        for line in self.source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def _at(self, line: int, column: int) -> int:
        text = self.source[self._starts[line - 1] : self._starts[line]]
        return self._starts[line - 1] + len(text.encode()[:column].decode())

    def _span(self, node: ast.expr) -> tuple[int, int]:
        end = self._at(node.end_lineno or node.lineno, node.end_col_offset or 0)
        return self._at(node.lineno, node.col_offset), end

    def _make(self, node: ast.expr, text: str, operator: str) -> Mutant:
        start, end = self._span(node)
        return Mutant(self.file, node.lineno, start, end, text, operator)

    def find(self) -> Iterator[Mutant]:
        """Yield a mutant for each place inside a function."""
        functions = (
            node for node in ast.walk(ast.parse(self.source)) if isinstance(node, ast.FunctionDef)
        )
        seen: set[tuple[int, int]] = set()
        for function in functions:
            for node in (each for part in function.body for each in ast.walk(part)):
                for mutant in self._change(node):
                    if (mutant.start, mutant.end) not in seen:
                        seen.add((mutant.start, mutant.end))
                        yield mutant

    def _change(self, node: ast.AST) -> Iterator[Mutant]:
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from self._swap_comparison(node)
        elif isinstance(node, ast.BoolOp):
            yield from self._swap_and_or(node)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inside = self.source[slice(*self._span(node.operand))]
            yield self._make(node, f"bool({inside})", "not dropped")
        elif isinstance(node, (ast.If, ast.IfExp)) and isinstance(node.test, (ast.Name, ast.Call)):
            test = self.source[slice(*self._span(node.test))]
            yield self._make(node.test, f"not ({test})", "condition turned")
        elif isinstance(node, ast.Return) and isinstance(node.value, (ast.Call, ast.Name)):
            yield self._make(node.value, "None", "None returned")
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            yield self._make(node, str(node.value + 1), "number moved")

    def _swap_comparison(self, node: ast.Compare) -> Iterator[Mutant]:
        old, new = _COMPARISONS[type(node.ops[0]).__name__]
        start, end = self._span(node.left)[1], self._span(node.comparators[0])[0]
        between = self.source[start:end]
        if between.count(old) == 1:
            text = between.replace(old, new)
            yield Mutant(self.file, node.lineno, start, end, text, "comparison swapped")

    def _swap_and_or(self, node: ast.BoolOp) -> Iterator[Mutant]:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        start, end = self._span(node.values[0])[1], self._span(node.values[1])[0]
        between = self.source[start:end]
        if between.count(old) == 1:
            yield Mutant(self.file, node.lineno, start, end, between.replace(old, new), "and/or")


OPERATORS = (
    "comparison swapped",
    "and/or",
    "not dropped",
    "condition turned",
    "None returned",
    "number moved",
)


def _copy(folder: Path) -> Path:
    """Copy what git tracks, so that nothing of the checkout is changed."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, timeout=60
    )
    copy = folder / "checkout"
    for name in filter(None, listed.stdout.decode().split("\0")):
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    return copy


def _tests_of(package: str) -> list[str]:
    ignored = [f"--ignore={file}" for file in SWEEPS if file.startswith(f"tests/{package}/")]
    return [f"tests/{package}", *ignored]


def _reaching(copy: Path, package: str) -> CoverageData:
    """Run a package's own tests once, and return which of them reach which line."""
    data = copy / f".coverage.{package}"
    settings = copy / "coverage.ini"
    settings.write_text(
        f"[run]\ndata_file = {data}\ndynamic_context = test_function\nsource = envcheck.{package}\n",
        encoding="utf-8",
    )
    command = ["-m", "coverage", "run", f"--rcfile={settings}", *_PYTEST, *_tests_of(package)]
    ended = subprocess.run([sys.executable, *command], cwd=copy, check=False, timeout=3600)
    if ended.returncode:
        sys.exit(f"tests/{package} does not pass unchanged")
    found = CoverageData(str(data))
    found.read()
    return found


def _list_tests(copy: Path, found: CoverageData, mutant: Mutant) -> list[str]:
    """List the test functions that reach a line, as pytest takes them."""
    tests = set()
    for name in found.contexts_by_lineno(str(mutant.file)).get(mutant.line, []):
        module, _, function = name.rpartition(".")
        file = module.replace(".", "/") + ".py"
        if (copy / file).is_file():
            tests.add(f"{file}::{function}")
    return sorted(tests)


def _survives(copy: Path, mutant: Mutant, tests: list[str], seconds: float) -> bool:
    """Run the tests that reach a changed line; a run over its time has noticed, too."""
    if not tests:
        return True
    source = mutant.file.read_text(encoding="utf-8")
    changed = source[: mutant.start] + mutant.text + source[mutant.end :]
    mutant.file.write_text(changed, encoding="utf-8")
    listed = copy / "tests.txt"  # thousands of names: longer than a command may be
    listed.write_text("\n".join(tests), encoding="utf-8")
    try:
        command = [sys.executable, *_PYTEST, "-x", f"@{listed}"]
        ended = subprocess.run(command, cwd=copy, capture_output=True, check=False, timeout=seconds)
        no_import = b"\nERROR tests/" in ended.stdout  # of a test's own module: 4, and killed
        if ended.returncode not in (0, 1, 2) and not no_import:
            sys.exit(f"pytest could not run: {ended.stdout.decode()[-500:]}")
        passed = ended.returncode == 0
    except subprocess.TimeoutExpired:
        passed = False
    finally:
        mutant.file.write_text(source, encoding="utf-8")
    return passed


def _describe(mutant: Mutant, copy: Path, *, reached: bool) -> str:
    source = mutant.file.read_text(encoding="utf-8")
    old = " ".join(source[mutant.start : mutant.end].split())
    line = source.splitlines()[mutant.line - 1].strip()
    place = f"{mutant.file.relative_to(copy)}:{mutant.line}"
    what = f"{mutant.operator}: `{old}` -> `{' '.join(mutant.text.split())}` in `{line}`"
    return f"{place}: {what}{'' if reached else ' (no test reaches it)'}"


def main() -> int:
    """Draw mutants, run the tests that reach them, and print who survived."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--packages", nargs="+", default=PACKAGES, choices=PACKAGES)
    parser.add_argument("--seconds", type=float, default=300.0, help="for the tests of a mutant")
    asked = parser.parse_args()
    share = asked.count // len(asked.packages)
    survived: Counter[str] = Counter()
    total: Counter[str] = Counter()
    survivors = []
    with tempfile.TemporaryDirectory(prefix="envcheck-mutants-") as folder:
        copy = _copy(Path(folder))
        dice = random.Random(asked.seed)
        for package in asked.packages:
            files = sorted((copy / "envcheck" / package).rglob("*.py"))
            files = [file for file in files if "children" not in file.parts]
            places = [mutant for file in files for mutant in _Places(file).find()]
            found = _reaching(copy, package)
            for mutant in dice.sample(places, min(share, len(places))):
                tests = _list_tests(copy, found, mutant)
                total[package] += 1
                if _survives(copy, mutant, tests, asked.seconds):
                    survived[package] += 1
                    survivors.append(_describe(mutant, copy, reached=bool(tests)))
                    print(survivors[-1], file=sys.stderr, flush=True)
    print("\n| package | mutants | survive |\n|---|---|---|")
    for package in asked.packages:
        part = survived[package] / max(1, total[package])
        print(f"| {package} | {total[package]} | {survived[package]} ({part:.0%}) |")
    whole = sum(survived.values()) / max(1, sum(total.values()))
    print(f"| all | {sum(total.values())} | {sum(survived.values())} ({whole:.0%}) |")
    return 0


if __name__ == "__main__":
    sys.exit(main())

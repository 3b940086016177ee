"""Compare what `check` says of a pin beside a framework with what uv resolves.

    python bench/file_pins.py [--pairs 150] [--seed 1]

Each pair is a release of a framework and a release of a package that the metadata of some release
names, drawn at random, as the two lines of a requirements file for a Python that the framework has
a wheel for, on Linux x86_64. uv resolves the two from the index that pip is configured for, without
building anything. Prints how often both refuse, both accept, and each difference; pairs of which
one alone does not resolve are left out and counted.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import tempfile
from collections import Counter
from pathlib import Path

from packaging.specifiers import SpecifierSet

from envcheck import api
from envcheck.matrix.query import Matrix
from envcheck.model import Environment, FrameworkRelease, RequirementSet
from envcheck.plan.verify import UnreachableError, UnresolvableError, resolve

PLATFORM = "linux_x86_64"
FRAMEWORKS = ("tensorflow", "torch", "jax", "onnxruntime")


def main() -> None:
    """Draw the pairs, ask both, and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    matrix = api.load_matrix()
    rows = [
        row
        for name in FRAMEWORKS
        for row in matrix.releases(name, PLATFORM)
        if row.requires and row.pythons
    ]
    versions = _list_versions(matrix, rows)
    counts: Counter[str] = Counter()
    while sum(counts.values()) < options.pairs:
        row = chance.choice(rows)
        name = chance.choice(sorted(set(row.requires) & set(versions)) or ["numpy"])
        python, pin = chance.choice(sorted(row.pythons)), f"{name}=={chance.choice(versions[name])}"
        answer = _compare(row, pin, python)
        counts[answer] += 1
        if answer.startswith("only"):
            print(f"{answer}: {row.distribution}=={row.version} {pin} Python {python}", flush=True)
    print(", ".join(f"{count} {answer}" for answer, count in counts.most_common()))


def _list_versions(matrix: Matrix, rows: list[FrameworkRelease]) -> dict[str, list[str]]:
    """Map each package to the releases that bounds on it name."""
    found: dict[str, set[str]] = {}
    for row in rows:
        for name, text in row.requires.items():
            if not matrix.framework_of(name) and not name.startswith("nvidia-"):
                bounds = {bound.version for bound in SpecifierSet(text)}
                found.setdefault(name, set()).update(
                    item for item in bounds if re.fullmatch(r"\d+(\.\d+)+", item)
                )
    return {name: sorted(items) for name, items in found.items() if items}


def _compare(row: FrameworkRelease, pin: str, python: str) -> str:
    texts = (f"{row.distribution}=={row.version}", pin)
    environment = Environment("", "pip", python, PLATFORM, machine_glibc="2.35")
    try:
        for each in texts:  # what does not resolve alone says nothing about the pair
            resolve(environment, RequirementSet((each,)), os.environ)
    except (UnreachableError, UnresolvableError):
        return "left out"
    try:
        resolve(environment, RequirementSet(texts), os.environ)
        is_refused = False
    except UnreachableError:
        return "left out"
    except UnresolvableError:
        is_refused = True
    is_named = _is_named(texts, python)
    if is_refused == is_named:
        return "both refuse" if is_refused else "both accept"
    return "only uv refuses" if is_refused else "only check refuses"


def _is_named(texts: tuple[str, ...], python: str) -> bool:
    """Tell whether `check` says that pip refuses the two lines, in an image with that Python."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "requirements.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
        lines = (
            f"FROM python:{python}",
            "COPY requirements.txt .",
            "RUN pip install -r requirements.txt",
        )
        Path(folder, "Dockerfile").write_text("\n".join(lines) + "\n", encoding="utf-8")
        report = api.check(file=f"{folder}/Dockerfile").report
    return any(
        item.id == "dependency-conflict" and item.severity == "error" for item in report.findings
    )


if __name__ == "__main__":
    main()

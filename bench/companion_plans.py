"""Plan releases of packages on top of a framework x Pythons x platforms x CUDA majors, and resolve each plan with uv.

    python bench/companion_plans.py [--package vllm] [--sample 600] [--seed 18] [--jobs 2]

Needs the extra `plan`. A cell resolves from wheels, or the plan says why there is none. Where it says that nothing goes
together, uv is asked for the package and its usual framework: what it then resolves is a disagreement (REFUSED), unless
the reason is one that uv does not see. The exit code is 1 if a cell is missed or refused. The index of PyTorch is
treated as in bench/plan.py.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from envcheck.matrix.companions import companion_row, load_companions
from envcheck.matrix.load import load_matrix
from envcheck.matrix.query import Matrix
from envcheck.model import Environment, Plan, RequirementSet
from envcheck.plan.build import build_plan
from envcheck.plan.requests import PlanOptions, read_requests
from envcheck.plan.verify import find_uv
from envcheck.rules.described_machine import Description, planned_facts

sys.path.insert(0, str(Path(__file__).parent))
from plan import PLATFORMS, resolved  # type: ignore[import-not-found]

# the newest branch for each CUDA major; no GPU
DRIVERS = {"12": "570.195.03", "13": "580.95.05", "": ""}
GPU, GLIBC = "8.0", "2.39"
RESOLVES, NO = "resolves", "no"


# Reasons of a plan that uv does not see, as the metadata does not bound it.
_UNSEEN_BY_UV = {
    "does not state support for Python": (
        "its wheel is for any Python, and its classifiers do not name this one"
    ),
    "which does not go with it here": (
        "what it requires has no release for this Python, by its classifiers, or CUDA"
    ),
    "works with keras": "which TensorFlow this Keras is for stands in the release notes alone",
}


# What keeps uv from resolving and is in no matrix: counted apart.
_NOT_OF_THE_PLAN = {
    "Failed to build `tensorrt": (
        "TensorRT's source distributions fetch NVIDIA's wheels, whose index is out of reach"
    ),
    r"Because (all of: )?(cuda-tile|nvidia-cudnn-frontend)": (
        "a dependency that the matrix does not hold has no wheel"
    ),
    "only certifi": "the index lacks a release of certifi that is a week old",
}


@dataclass(frozen=True)
class Cell:
    """One plan to make."""

    package: str
    version: str
    python: str
    platform: str
    cuda: str  # major that the driver runs; "" without a GPU

    def __str__(self) -> str:
        """Name it in a line of the report."""
        return f"{self.package}=={self.version} {self.python} {self.platform} {self.cuda or 'cpu'}"


@dataclass(frozen=True)
class Outcome:
    """What came of a cell: resolves, no (with the reason), MISSED, or half a proof of bench/plan.py."""

    cell: Cell
    kind: str
    what: str = ""


def list_cells(matrix: Matrix, packages: list[str]) -> list[Cell]:
    """List every cell: the Pythons are those of any wheel of the package."""
    cells = []
    for name in packages:
        rows = [row for row in matrix.companion_releases(name) if not row.yanked]
        pythons = sorted(
            {minor for row in rows for minor in row.pythons if minor.startswith("3.")}, key=Version
        )
        cells += [
            Cell(name, version, python, platform, cuda)
            for version in dict.fromkeys(row.version for row in rows)
            for python in pythons
            if Version(python) >= Version("3.8")  # what uv resolves for
            for platform in PLATFORMS
            for cuda in (("",) if platform.startswith("macosx") else DRIVERS)
        ]
    return cells


def plan_cell(matrix: Matrix, cell: Cell) -> Plan:
    """Make the plan of a cell."""
    glibc = GLIBC if cell.platform.startswith("linux") else ""
    said = Description(
        cell.python, DRIVERS[cell.cuda], (GPU,) if cell.cuda else (), glibc, cell.platform
    )
    facts = planned_facts(None, said, matrix, expects_gpu=bool(cell.cuda))
    requests = read_requests(
        (f"{cell.package}=={cell.version}", _usual_framework(cell.package)), matrix
    )
    return build_plan(
        facts, matrix, requests, PlanOptions("gpu" if cell.cuda else "auto", description=said)
    )


def _usual_framework(package: str) -> str:
    return companion_row(package).frameworks[0]


def try_cell(matrix: Matrix, cell: Cell) -> Outcome:
    """Plan a cell and resolve it; ask uv for the package alone where the plan says that nothing goes together."""
    plan = plan_cell(matrix, cell)
    if not plan.releases:
        return _check_refusal(cell, plan)
    made = plan.environments[0]
    answers = [resolved(made, wanted) for wanted in made.sets]
    worst = next((answer for answer in answers if answer != RESOLVES), RESOLVES)
    for said, meaning in _NOT_OF_THE_PLAN.items():
        if worst.startswith("MISSED") and re.search(said, worst):
            return Outcome(cell, "unproven", meaning)
    return Outcome(cell, "MISSED" if worst.startswith("MISSED") else worst, worst)


def _check_refusal(cell: Cell, plan: Plan) -> Outcome:
    why = (
        plan.rejected[0].why
        if plan.rejected
        else plan.blocked_by[0].message
        if plan.blocked_by
        else "?"
    )
    if not plan.rejected or plan.rejected[0].finding != "dependency-conflict":
        return Outcome(cell, NO, plan.rejected[0].finding if plan.rejected else why)
    made = Environment("", "pip", cell.python, cell.platform, machine_glibc=GLIBC, macos="15.0")
    alone = resolved(
        made, RequirementSet((f"{cell.package}=={cell.version}", _usual_framework(cell.package)))
    )
    reason = re.sub(
        rf"^{cell.package} {re.escape(cell.version)} ", "", why.partition(". ")[2] or why
    )
    if alone != RESOLVES:
        return Outcome(cell, NO, reason)
    for said, meaning in _UNSEEN_BY_UV.items():
        if said in reason:
            return Outcome(cell, NO, meaning)
    return Outcome(cell, "REFUSED", why)


def report(outcomes: list[Outcome]) -> int:
    """Print one line per package, the reasons, and the cells that are missed; return their number."""
    kinds = list(dict.fromkeys(item.kind for item in outcomes))
    print(f"| package | cells | {' | '.join(kinds)} |\n|---|---|{'---|' * len(kinds)}")
    for name in dict.fromkeys(item.cell.package for item in outcomes):
        own = [item.kind for item in outcomes if item.cell.package == name]
        print(f"| {name} | {len(own)} | {' | '.join(str(own.count(kind)) for kind in kinds)} |")
    total = Counter(item.kind for item in outcomes)
    print(f"| **all** | {len(outcomes)} | {' | '.join(str(total[kind]) for kind in kinds)} |\n")
    for (kind, reason), number in Counter(
        (item.kind, item.what) for item in outcomes if item.kind in (NO, "unproven")
    ).most_common():
        print(f"- {kind}: {number} x {reason}")
    missed = [item for item in outcomes if item.kind in ("MISSED", "REFUSED")]
    for item in missed:
        print(f"- {item.kind} {item.cell}: {item.what}")
    return len(missed)


def main() -> int:
    """Try a sample of the cells."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--package", default="", help="this package only")
    parser.add_argument(
        "--sample", type=int, default=600, help="cells, drawn evenly from the packages; 0: all"
    )
    parser.add_argument("--seed", type=int, default=18)
    parser.add_argument("--jobs", type=int, default=2, help="uv processes at once")
    options = parser.parse_args()
    rows = [row for row in load_companions().rows if row.releases and row.frameworks]
    names = [name for row in rows for name in row.distributions if options.package in ("", name)]
    matrix, drawn = load_matrix(), random.Random(options.seed)
    cells = []
    for name in names:
        own = list_cells(matrix, [name])
        share = options.sample // len(names) if options.sample else len(own)
        cells += drawn.sample(own, min(share, len(own)))
    find_uv(os.environ)
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = list(pool.map(lambda cell: try_cell(matrix, cell), cells))
    return 1 if report(outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())

"""Plan every cell of TensorFlow, PyTorch and JAX releases x Pythons x platforms, and resolve each plan on the index.

    python bench/plan.py [--framework tensorflow] [--line 2.15] [--platform win_amd64] [--jobs 2] [--last 10]
    python bench/plan.py --speed 15

Needs the extras `plan` and `conda`. A cell is resolved from wheels, or the matrix says why it cannot be; anything else
is missed and the exit code is 1. Where a conda channel or PyTorch's own index gives no answer, the cell says what was
proven without it: pip's part of the environment, or the dependencies of the same release's usual wheel.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from packaging.version import Version

from envcheck.matrix.load import load_matrix
from envcheck.matrix.query import Matrix
from envcheck.model import Environment, Plan, RequirementSet, replace
from envcheck.plan.build import build_plan
from envcheck.plan.requests import PlanOptions, read_requests
from envcheck.plan.verify import UnreachableError, UnresolvableError, find_uv, resolve, solve
from envcheck.rules.described_machine import Description, planned_facts

PLATFORMS = ("linux_x86_64", "linux_aarch64", "win_amd64", "macosx_arm64")
# A V100, which every TensorFlow 2 has code for; an A100 for the others, whose usual builds left the
# V100 behind.
GPUS = {"tensorflow": "7.0", "torch": "8.0", "jax": "8.0"}
DRIVER, GLIBC = "580.65.06", "2.35"  # Ubuntu 22.04
PIPS_PART, DEPENDENCIES, NOTHING = (
    "pip's part; conda unreached",
    "all but the file; its index unreached",
    "unproven",
)
UNREACHED: set[str] = set()  # channels and indexes that gave no answer


@dataclass(frozen=True)
class Cell:
    """One plan to make: a requirement for a Python on a platform, for the CPU or the GPU."""

    requirement: str
    python: str
    platform: str
    goal: str


@dataclass(frozen=True)
class Outcome:
    """What came of a cell: resolves, impossible (with the finding), missed, or one of the kinds of half a proof."""

    cell: Cell
    kind: str
    what: str


def lines_of(matrix: Matrix, framework: str, last: int, major: str = "2") -> list[str]:
    """List what is asked for, newest first: each minor line of a major of TensorFlow, the others' last releases."""
    versions = [
        version for version in matrix.versions(framework) if not Version(version).is_prerelease
    ]
    if framework == "tensorflow":
        minors = dict.fromkeys(
            ".".join(version.split(".")[:2])
            for version in versions
            if version.startswith(f"{major}.")
        )
        return [f"tensorflow=={minor}.*" for minor in minors]
    return [f"{framework}=={version}" for version in versions[:last]]


def cells_of(matrix: Matrix, requirement: str, framework: str) -> list[Cell]:
    """List the cells of one line: every Python 3 any of its wheels is for, on every platform."""
    version = requirement.partition("==")[2].removesuffix(".*")
    rows = matrix.releases(
        framework, admits=lambda held: held == version or held.startswith(f"{version}.")
    )
    pythons = sorted(
        {minor for row in rows for minor in row.pythons if minor.startswith("3.")}, key=Version
    )
    goals = {
        platform: ["cpu", *(["gpu"] if _has_cuda(rows, platform) else [])] for platform in PLATFORMS
    }
    return [
        Cell(requirement, python, platform, goal)
        for platform in PLATFORMS
        for goal in goals[platform]
        for python in pythons
    ]


def _has_cuda(rows: tuple[object, ...], platform: str) -> bool:
    return any(getattr(row, "cuda_build") and getattr(row, "platform") == platform for row in rows)  # noqa: B009


def framework_of(cell: Cell) -> str:
    """Return the framework a cell asks for."""
    return cell.requirement.partition("==")[0]


def plan_cell(matrix: Matrix, cell: Cell) -> Plan:
    """Make the plan of a cell."""
    linux, gpu = cell.platform.startswith("linux"), cell.goal == "gpu"
    said = Description(
        cell.python,
        DRIVER if gpu else "",
        (GPUS[framework_of(cell)],) if gpu else (),
        GLIBC if linux else "",
        cell.platform,
    )
    facts = planned_facts(None, said, matrix, expects_gpu=gpu)
    return build_plan(
        facts,
        matrix,
        read_requests((cell.requirement,), matrix),
        PlanOptions(cell.goal, description=said),
    )


def resolved(made: Environment, wanted: RequirementSet) -> str:
    """Resolve one set: "resolves", a kind of half a proof, or MISSED with what was said."""
    if wanted.index in UNREACHED:
        return _by_dependencies(made, wanted)
    try:
        resolve(made, wanted, os.environ)
    except UnresolvableError as error:
        return f"MISSED {error}"
    except UnreachableError as error:
        if not wanted.index:
            return f"MISSED {error}"
        UNREACHED.add(wanted.index)
        return _by_dependencies(made, wanted)
    return "resolves"


def _by_dependencies(made: Environment, wanted: RequirementSet) -> str:
    """Resolve the same release's usual wheel, which requires all that its other builds do, and CUDA's besides."""
    usual = tuple(text.partition("+")[0] for text in wanted.requirements)
    answer = resolved(made, replace(wanted, requirements=usual, index=""))
    return DEPENDENCIES if answer == "resolves" else answer


def _solved(made: Environment) -> str:
    """Solve conda's part."""
    if not made.packages:
        return "resolves"
    try:
        if made.channels[0] not in UNREACHED:
            solve(made, os.environ)
            return "resolves"
    except UnresolvableError as error:
        return f"MISSED {error}"
    except UnreachableError:
        UNREACHED.add(made.channels[0])
    return PIPS_PART if made.sets else NOTHING


def try_cell(matrix: Matrix, cell: Cell) -> Outcome:
    """Plan a cell, and resolve all that can be reached."""
    plan = plan_cell(matrix, cell)
    if not plan.releases:
        found = Counter(item.finding for item in plan.rejected).most_common(1)
        return Outcome(cell, "impossible", found[0][0] if found else "no release for this platform")
    made = plan.environments[0]
    answers = [*(resolved(made, wanted) for wanted in made.sets), _solved(made)]
    worst = next((answer for answer in answers if answer != "resolves"), "resolves")
    return Outcome(cell, "missed" if worst.startswith("MISSED") else worst, worst)


def report(outcomes: list[Outcome]) -> int:
    """Print one table line per requirement and the cells missed; return their number."""
    columns = list(dict.fromkeys((item.cell.platform, item.cell.goal) for item in outcomes))
    print("| asked for | " + " | ".join(f"{platform} {goal}" for platform, goal in columns) + " |")
    print("|---|" + "---|" * len(columns))
    for requirement in dict.fromkeys(item.cell.requirement for item in outcomes):
        own = [item for item in outcomes if item.cell.requirement == requirement]
        shown = [
            _shown([item for item in own if (item.cell.platform, item.cell.goal) == key])
            for key in columns
        ]
        print(f"| `{requirement}` | " + " | ".join(shown) + " |")
    counts = Counter(item.kind for item in outcomes)
    print(
        f"\n{len(outcomes)} cells: "
        + ", ".join(f"{number} {kind}" for kind, number in counts.most_common())
    )
    missed = [item for item in outcomes if item.kind == "missed"]
    for item in missed:
        print(
            f"- MISSED {item.cell.requirement} {item.cell.python} {item.cell.platform}"
            f" {item.cell.goal}: {item.what}"
        )
    return len(missed)


def _shown(outcomes: list[Outcome]) -> str:
    by_kind: dict[str, list[str]] = {}
    for item in outcomes:
        label = {"resolves": "", "impossible": f"no ({item.what})", "missed": "MISSED"}.get(
            item.kind, item.kind
        )
        by_kind.setdefault(label, []).append(item.cell.python)
    return "; ".join(
        f"{' '.join(pythons)}{f': {label}' if label else ''}" for label, pythons in by_kind.items()
    )


def speed(runs: int) -> int:
    """Time the command beside a bare start, interleaved; print medians of wall time and the least processor time."""
    hand = [
        "--platform",
        "linux_x86_64",
        "--python",
        "3.11",
        "--gpu",
        "8.9",
        "--driver",
        "550.54.14",
    ]
    start = "from envcheck.cli import main; main()"
    commands = {
        "python -c pass": ["-c", "pass"],
        "envcheck plan tensorflow": ["-c", start, "plan", "tensorflow"],
        "envcheck plan tensorflow --platform ... --gpu ... --driver ...": [
            "-c",
            start,
            "plan",
            "tensorflow",
            *hand,
        ],
    }
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(runs):
        for name, argv in commands.items():
            begun = time.perf_counter()
            with subprocess.Popen([sys.executable, *argv], stdout=subprocess.PIPE) as process:
                assert process.stdout is not None
                process.stdout.read()
                _, _, usage = os.wait4(process.pid, 0)
                process.returncode = 0
            taken[name].append((time.perf_counter() - begun, usage.ru_utime + usage.ru_stime))
    first = taken["python -c pass"]
    bare = statistics.median(wall for wall, _ in first), min(cpu for _, cpu in first)
    print("| command | median ms | x | least processor ms | x |\n|---|---|---|---|---|")
    for name, samples in taken.items():
        wall, cpu = statistics.median(one for one, _ in samples), min(one for _, one in samples)
        print(
            f"| `{name}` | {wall * 1e3:.0f} | {wall / bare[0]:.1f} | {cpu * 1e3:.0f} |"
            f" {cpu / bare[1]:.1f} |"
        )
    return 0


def main() -> int:
    """Try every cell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--framework", default="tensorflow", choices=["tensorflow", "torch", "jax"])
    parser.add_argument("--line", default="", help="this line or release only")
    parser.add_argument("--jobs", type=int, default=2, help="uv processes at once")
    parser.add_argument("--last", type=int, default=10, help="releases of torch and jax")
    parser.add_argument("--major", default="2", help="of TensorFlow: 2, or 1")
    parser.add_argument(
        "--platform", default="", choices=["", *PLATFORMS], help="this platform only"
    )
    parser.add_argument(
        "--speed", type=int, default=0, metavar="RUNS", help="time the command instead"
    )
    options = parser.parse_args()
    if options.speed:
        return speed(options.speed)
    matrix = load_matrix()
    asked = lines_of(matrix, options.framework, options.last, options.major)
    asked = [
        text
        for text in asked
        if not options.line or options.line == text.partition("==")[2].removesuffix(".*")
    ]
    cells = [cell for text in asked for cell in cells_of(matrix, text, options.framework)]
    cells = [cell for cell in cells if options.platform in ("", cell.platform)]
    find_uv(os.environ)  # Python's sysconfig fills its table once, and not safely for two threads
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = list(pool.map(lambda cell: try_cell(matrix, cell), cells))
    return 1 if report(outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())

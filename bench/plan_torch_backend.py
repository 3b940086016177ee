"""Hold `envcheck plan torch` against the choice of `uv pip install --torch-backend=auto`, drivers x GPUs.

    python bench/plan_torch_backend.py [--python 3.12]

uv tells in its debug lines which of PyTorch's indexes it asks, newest CUDA first, for a driver that
UV_CUDA_DRIVER_VERSION names; it takes the newest torch of the first that has one. Its requests go to a closed
port here: what the index holds is the matrix's word, and both choices are judged by envcheck's own rules.
Exits 1 where envcheck's choice is worse.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from dataclasses import dataclass

from packaging.version import Version

from envcheck.matrix.load import load_matrix
from envcheck.matrix.query import Matrix
from envcheck.model import FrameworkRelease
from envcheck.plan.build import build_plan
from envcheck.plan.candidates import Candidate, cuda_sources
from envcheck.plan.choose import Judge
from envcheck.plan.requests import PlanOptions, read_requests
from envcheck.plan.verify import find_uv
from envcheck.rules import Context, Target
from envcheck.rules.described_machine import Description, planned_facts

DRIVERS = ("470.57.02", "525.60.13", "535.104.05", "550.54.14", "570.86.15", "580.65.06")
GPUS = {"GTX 1080": "6.1", "V100": "7.0", "T4": "7.5", "RTX 4090": "8.9", "RTX 5090": "12.0"}
PLATFORM, GLIBC = "linux_x86_64", "2.35"
CLOSED = "http://127.0.0.1:9"


@dataclass(frozen=True)
class Pick:
    """One choice of torch: what is installed, and what the rules say against it; "" for nothing."""

    shown: str
    version: str
    against: str


def uv_backend(driver: str) -> str:
    """Return the CUDA of the first index that uv asks for a driver: cu129."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("UV_")},
        "UV_CUDA_DRIVER_VERSION": driver,
        "UV_HTTP_RETRIES": "0",
        "ALL_PROXY": CLOSED,
    }
    argv = [
        find_uv(os.environ),
        "pip",
        "install",
        "-v",
        "--dry-run",
        "--no-config",
        "--torch-backend=auto",
    ]
    argv += ["--no-cache", "--target", "/nonexistent", "--python", sys.executable, "torch"]
    told = subprocess.run(
        argv, env=environment, capture_output=True, text=True, timeout=60, check=False
    ).stderr
    asked = {int(found) for found in re.findall(r"/whl/cu(\d+)/torch/", told)}
    return f"cu{max(asked)}" if asked else "cpu"


def newest_of(matrix: Matrix, backend: str, python: str) -> FrameworkRelease | None:
    """Return the newest release that the matrix knows of on an index, for a Python."""
    cuda = f"{backend[2:-1]}.{backend[-1]}"
    rows = matrix.releases("torch", PLATFORM)
    fits = (row for row in rows if python in row.pythons and not Version(row.version).is_prerelease)
    return next(
        (row for row in fits if cuda in row.variants or (row.cuda or "").startswith(cuda)), None
    )


def pick_of_uv(matrix: Matrix, judge: Judge, backend: str, python: str) -> Pick:
    """Judge what uv would install."""
    newest = newest_of(matrix, backend, python)
    row = matrix.build("torch", newest.version, backend, newest.platform) if newest else None
    if row is None:
        return Pick(f"{backend}: nothing known", "0", "no release")
    text = f"torch=={row.build_version}"
    candidate = Candidate(row, text, (text,))
    judged = judge.judge(candidate, cuda_sources(judge.context, candidate, "")[0])
    reasons = (*judged.errors, *judged.doubts)
    return Pick(f"{row.version}+{backend}", row.version, reasons[0].id if reasons else "")


def picks(matrix: Matrix, driver: str, backend: str, gpu: str, python: str) -> tuple[Pick, Pick]:
    """Return envcheck's choice and uv's for one machine."""
    said = Description(python, driver, (GPUS[gpu],), GLIBC, PLATFORM)
    facts = planned_facts(None, said, matrix, expects_gpu=True)
    plan = build_plan(
        facts, matrix, read_requests(("torch",), matrix), PlanOptions("gpu", description=said)
    )
    judge = Judge(Context(facts, matrix, Target("gpu")))
    theirs = pick_of_uv(matrix, judge, backend, python)
    if not plan.releases:
        reason = plan.blocked_by[0].id if plan.blocked_by else plan.rejected[0].finding
        return Pick(f"none: {reason}", "0", reason), theirs
    (chosen,) = plan.releases
    against = chosen.doubts[0].id if chosen.doubts else ""
    return (
        Pick(chosen.requirement.partition("==")[2], chosen.version.partition("+")[0], against),
        theirs,
    )


def verdict(ours: Pick, theirs: Pick) -> str:
    """Say which choice is better: one that works beats one that does not, then the newer one."""
    if ours.version == "0":
        return "same: neither works" if theirs.against else "WORSE: uv's works"
    if theirs.against:
        return f"better: uv's does not work ({theirs.against})"
    if Version(ours.version) == Version(theirs.version):
        return "same"
    return "better: newer" if Version(ours.version) > Version(theirs.version) else "WORSE: older"


def main() -> int:
    """Compare every driver with every GPU."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default="3.12")
    options = parser.parse_args()
    matrix, counts = load_matrix(), dict.fromkeys(("same", "better", "WORSE"), 0)
    print(
        "| driver | GPU | `envcheck plan torch` | uv asks | uv installs | envcheck's is"
        " |\n|---|---|---|---|---|---|"
    )
    for driver in DRIVERS:
        backend = uv_backend(driver)
        for gpu in GPUS:
            ours, theirs = picks(matrix, driver, backend, gpu, options.python)
            told = verdict(ours, theirs)
            counts[told.partition(":")[0]] += 1
            print(f"| {driver} | {gpu} | {ours.shown} | {backend} | {theirs.shown} | {told} |")
    print("\n" + ", ".join(f"{number} {kind}" for kind, number in counts.items()))
    return 1 if counts["WORSE"] else 0


if __name__ == "__main__":
    sys.exit(main())

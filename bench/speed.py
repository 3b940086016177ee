"""Measure `matrix query` and `plan` against a bare start of the same interpreter.

    python bench/speed.py [--runs 7] [--before CHECKOUT]
    python bench/speed.py --starts [--runs 40] --before CHECKOUT
    python bench/speed.py --resolving [--runs 9]

Runs each case of this checkout, and of another one that `--before` names, in turns with `python -c
pass`. Plans are not resolved on an index. Prints the shortest of the runs as a multiple of the
shortest bare start, by the clock and by processor time, which other work on the machine changes
less.

--starts compares the processor time of `doctor` and `plan` with that of another checkout, in pairs:
other work on the machine changes it less than the time by the clock. Each is run in an empty
folder.

--resolving takes the time of plans that are resolved on the package index, and of the calls of uv
in them, after one that fills uv's cache. What a plan takes beside uv is the program's own time: its
start, planning and printing.
"""

from __future__ import annotations

import argparse
import compileall
import os
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BARE = "-c pass"
CASES = {
    "-m envcheck matrix query --driver 535.104": 15,
    "-m envcheck matrix query --driver 535.104 --python 3.11": 15,
    "-m envcheck matrix query --driver 535.104 --gpu 'RTX 4090'": 15,
    "-m envcheck matrix query --gpu 'RTX 4090'": 15,
    "-m envcheck matrix query --platform linux_x86_64": 15,
    "-m envcheck plan torch --driver 550.54 --gpu 'RTX 4090' --python 3.11 --no-verify": 20,
    "-m envcheck plan vllm --driver 570 --gpu 'RTX 4090' --python 3.12 --no-verify": 20,
    "-m envcheck plan sglang --driver 610 --gpu B200 --python 3.12 --no-verify": 20,
    "-m envcheck plan xformers --driver 450.80.02 --gpu 3.5 --python 3.11 --no-verify": 20,
    "-m envcheck plan tensorflow --driver 470.57.02 --gpu 'RTX 5090' --python 3.11 --no-verify": 20,
    "-m envcheck plan tensorflow --driver 525.60.13 --gpu 'RTX 5090' --python 3.11 --no-verify": 20,
}
STARTS = (
    "-m envcheck doctor",
    "-m envcheck plan torch --driver 550.54 --gpu 'RTX 4090' --python 3.11",
)
MOST = 1.03  # of the processor time of the checkout before
RESOLVED = ("torch", "vllm", "sglang")
MOST_BESIDE_UV = 0.3  # seconds
NOTES_CALLS = """
import resource, sys, time
from envcheck.plan import verify

run, noted = verify.run_program, sys.argv.pop(1)

def spent():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter(), used.ru_utime + used.ru_stime

def run_and_note(*arguments):
    begun, before = spent()
    answer = run(*arguments)
    ended, after = spent()
    with open(noted, "a") as file:
        file.write(f"{ended - begun} {after - before}\\n")
    return answer

verify.run_program = run_and_note
from envcheck.cli import main
main()
"""


def measure(command: str, checkout: Path) -> tuple[float, float]:
    """Run a command once in a checkout; return the seconds, and those of processor time."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    argv = [sys.executable, *shlex.split(command)]
    done = subprocess.run(
        argv, cwd=checkout, capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode not in (0, 1, 3):
        sys.exit(f"{command}\n{done.stderr}")
    taken, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return taken, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def take_processor_time(command: str, checkout: Path, folder: str) -> float:
    """Run a command of a checkout once in a folder; return the seconds of processor time."""
    environ = {**os.environ, "PYTHONPATH": str(checkout), "ENVCHECK_VERIFY": "0"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    argv = [sys.executable, *shlex.split(command)]
    done = subprocess.run(
        argv, cwd=folder, env=environ, capture_output=True, text=True, timeout=120, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1, 3):
        sys.exit(f"{command}\n{done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compare_starts(before: Path, runs: int) -> int:
    """Print how the processor times of two checkouts compare; return 1 where this one takes too much more."""
    missed = 0
    for checkout in (before, ROOT):  # one without bytecode would be compiled again at every start
        compileall.compile_dir(checkout / "envcheck", quiet=2)
    print(
        "| start | before, ms | ratio of the least | median ratio of pairs | allowed"
        " |\n|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as folder:
        for command in STARTS:
            times: dict[Path, list[float]] = {before: [], ROOT: []}
            for number in range(runs + 1):
                for checkout in (before, ROOT) if number % 2 else (ROOT, before):
                    times[checkout].append(take_processor_time(command, checkout, folder))
            # bytecode first
            pairs = [new / old for old, new in zip(times[before][1:], times[ROOT][1:], strict=True)]
            least, median = min(times[ROOT]) / min(times[before]), statistics.median(pairs)
            missed += min(least, median) > MOST
            shown = f"{min(times[before]) * 1e3:.0f} | {least:.3f} | {median:.3f} | {MOST}"
            print(f"| `{command.removeprefix('-m ')}` | {shown} |", flush=True)
    return 1 if missed else 0


def compare_with_uv(runs: int) -> int:
    """Print what resolved plans take beside uv; return 1 where that is more than is allowed."""
    missed = 0
    print(
        "| plan | calls of uv | the plan, s | beside uv | allowed | processor time"
        " |\n|---|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as folder:
        noted = Path(folder) / "seconds"
        for name in RESOLVED:
            command = f"plan {name} --driver 580 --gpu 'RTX 4090' --python 3.12 --verify-timeout 60"
            # the first fills uv's cache
            taken = [time_resolved(command, noted) for _ in range(runs + 1)][1:]
            whole, beside, used = (
                statistics.median(column) for column in list(zip(*taken, strict=True))[1:]
            )
            missed += beside > MOST_BESIDE_UV
            shown = f"{taken[0][0]} | {whole:.2f} | {beside:.2f} | {MOST_BESIDE_UV} | {used:.2f}"
            print(f"| `{name}` | {shown} |", flush=True)
    return 1 if missed else 0


def time_resolved(command: str, noted: Path) -> tuple[int, float, float, float]:
    """Run a plan that is resolved; return the calls of uv, the seconds, and those beside uv by clock and processor."""
    noted.unlink(missing_ok=True)
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    argv = [sys.executable, "-c", NOTES_CALLS, str(noted), *shlex.split(command)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    taken, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if "  resolved: " not in done.stdout:
        sys.exit(f"{command}\n{done.stdout}{done.stderr}")
    calls = [
        tuple(map(float, line.split())) for line in noted.read_text(encoding="utf-8").splitlines()
    ]
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return (
        len(calls),
        taken,
        taken - sum(call[0] for call in calls),
        used - sum(call[1] for call in calls),
    )


def main() -> int:
    """Print the table; exit with 1 where this checkout takes longer than the case allows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--before", type=Path, metavar="CHECKOUT")
    parser.add_argument("--starts", action="store_true")
    parser.add_argument("--resolving", action="store_true")
    options = parser.parse_args()
    if options.resolving:
        return compare_with_uv(options.runs)
    if options.starts:
        return compare_starts(options.before.resolve(), options.runs)
    checkouts = [item for item in (options.before, ROOT) if item]
    bare: list[tuple[float, float]] = []
    times: dict[tuple[str, Path], list[tuple[float, float]]] = {}
    for _ in range(options.runs):
        for command in CASES:
            bare.append(measure(BARE, ROOT))
            for checkout in checkouts:
                times.setdefault((command, checkout), []).append(measure(command, checkout))
    least = [min(column) for column in zip(*bare, strict=True)]
    print(f"`python {BARE}`: {least[0] * 1e3:.1f} ms, {least[1] * 1e3:.1f} ms of processor time\n")
    titles = ["before, x bare start", "by processor time"] if options.before else []
    titles += ["x bare start", "by processor time", "allowed"]
    print(f"| case | {' | '.join(titles)} |\n|---|{'---|' * len(titles)}")
    missed = 0
    for command, allowed in CASES.items():
        columns = [
            column
            for checkout in checkouts
            for column in zip(*times[command, checkout], strict=True)
        ]
        ratios = [min(column) / least[place % 2] for place, column in enumerate(columns)]
        missed += ratios[-2] > allowed
        shown = " | ".join(f"{ratio:.1f}" for ratio in ratios)
        print(f"| `{command.removeprefix('-m ')}` | {shown} | {allowed} |")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

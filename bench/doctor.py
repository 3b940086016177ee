"""Measure `envcheck doctor` beside its peers, in one run on one machine: medians and ratios.

    python bench/doctor.py [--runs 21] [--torch torch==2.13.0]

Builds two fresh environments under a temporary folder (this checkout's wheel; the peers), runs
every command piped, and prints a table in Markdown. Exits 1 when a target is missed. --torch also
installs that release of PyTorch to time `torch.utils.collect_env`.
"""

from __future__ import annotations

import argparse
import json
import os
import stat
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PEERS = ("cuda-doctor==0.2.0", "env-doctor==0.3.5")
TOOLS = ("nvidia-smi", "nvcc", "gcc", "g++", "clang", "ptxas", "ldconfig", "docker", "conda")


@dataclass(frozen=True)
class Timing:
    """One command's median wall time in milliseconds and its largest resident set in MiB."""

    milliseconds: float
    mebibytes: float


def run(argv: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Run a command once, output piped; return seconds and peak resident bytes."""
    start = time.perf_counter()
    with subprocess.Popen(
        argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        process.stdout.read()
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
    return time.perf_counter() - start, usage.ru_maxrss * 1024.0


def measure(
    commands: dict[str, list[str]], runs: int, environment: dict[str, str]
) -> dict[str, Timing]:
    """Time every command `runs` times, interleaved so that a busy moment touches all alike."""
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(runs + 1):
        for name, argv in commands.items():
            samples[name].append(run(argv, environment))
    return {
        name: Timing(
            statistics.median(s for s, _ in taken[1:]) * 1e3, max(b for _, b in taken[1:]) / 2**20
        )
        for name, taken in samples.items()
    }


def environments(work: Path, *, torch: str) -> tuple[Path, Path]:
    """Make the environment of the tool and that of the peers; return their bin folders."""
    ours, peers = work / "ours", work / "peers"
    for folder, packages in ((ours, [str(ROOT)]), (peers, [*PEERS, *([torch] if torch else [])])):
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run(
            [str(folder / "bin/python"), "-m", "pip", "install", "-q", *packages],
            check=True,
            timeout=1200,
        )
    return ours / "bin", peers / "bin"


def clean_environment() -> dict[str, str]:
    """Return the environment without an active venv, and with bytecode caches as users have them."""
    dropped = ("VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH")
    return {name: value for name, value in os.environ.items() if name not in dropped}


def commands(ours: Path, peers: Path, snapshot: Path, *, torch: str) -> dict[str, list[str]]:
    """List what is timed, by the name the table shows."""
    listed = {
        "python -c pass": [str(ours / "python"), "-c", "pass"],
        "envcheck doctor": [str(ours / "envcheck"), "doctor"],
        "envcheck doctor --snapshot": [
            str(ours / "envcheck"),
            "doctor",
            "--snapshot",
            str(snapshot),
        ],
        "cuda-doctor diagnose": [str(peers / "cuda-doctor"), "diagnose"],
        "env-doctor check": [str(peers / "env-doctor"), "check"],
    }
    if torch:
        listed["torch.utils.collect_env"] = [str(peers / "python"), "-m", "torch.utils.collect_env"]
    return listed


def hanging_seconds(ours: Path, work: Path) -> tuple[float, str, int]:
    """Run doctor where every external tool hangs: seconds, verdict, processes left behind."""
    folder = work / "hanging"
    folder.mkdir()
    for tool in TOOLS:
        script = folder / tool
        script.write_text(f"#!/bin/sh\nexec sleep 987{len(tool)}\n")
        script.chmod(script.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    environment = {**clean_environment(), "PATH": f"{folder}:{os.environ['PATH']}"}
    start = time.perf_counter()
    argv = [str(ours / "envcheck"), "doctor", "--format", "json"]
    done = subprocess.run(argv, env=environment, capture_output=True, timeout=60, check=False)
    seconds = time.perf_counter() - start
    listing = subprocess.run(
        ["ps", "-eo", "args"], capture_output=True, text=True, timeout=10, check=True
    ).stdout
    left = sum(line.startswith("sleep 987") for line in listing.splitlines())
    return seconds, str(json.loads(done.stdout)["verdict"]), left


def matrix_speed(ours: Path) -> float:
    """Return the milliseconds that loading the whole matrix takes for each MB of it; a command loads its part."""
    code = (
        "import time, statistics\nfrom envcheck.matrix.load import load_document\nfrom"
        " envcheck.matrix.refresh.files import format_document\nsize ="
        " len(format_document(load_document())) / 1e6; taken = []\nfor _ in range(21):\n    start ="
        " time.perf_counter(); load_document(); taken.append(time.perf_counter() -"
        " start)\nprint(statistics.median(taken) * 1e3 / size)"
    )
    done = subprocess.run(
        [str(ours / "python"), "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    return float(done.stdout)


def report(timings: dict[str, Timing], hanging: tuple[float, str, int], speed: float) -> list[str]:
    """Print the tables; return the targets missed."""
    bare = timings["python -c pass"].milliseconds
    print("| command | median ms | x `python -c pass` | peak MiB |\n|---|---|---|---|")
    for name, timing in timings.items():
        print(
            f"| `{name}` | {timing.milliseconds:.0f} | {timing.milliseconds / bare:.1f} |"
            f" {timing.mebibytes:.0f} |"
        )
    print(
        f"\nEvery external tool hanging: {hanging[0]:.1f} s, verdict {hanging[1]}, {hanging[2]}"
        " processes left."
    )
    print(f"Matrix load: {speed:.1f} ms per MB.")
    doctor, saved = timings["envcheck doctor"], timings["envcheck doctor --snapshot"]
    targets = {
        "doctor <= 12 x python -c pass": doctor.milliseconds <= 12 * bare,
        "doctor <= half of cuda-doctor": (
            doctor.milliseconds <= timings["cuda-doctor diagnose"].milliseconds / 2
        ),
        "doctor --snapshot <= 9 x": saved.milliseconds <= 9 * bare,
        "peak memory <= 60 MB": doctor.mebibytes * 1.048576 <= 60,
        "hanging tools: report within 5 s": hanging[0] <= 5,
        "hanging tools: nothing left": hanging[2] == 0,
        "matrix load <= 10 ms per MB": speed <= 10,
    }
    for target, met in targets.items():
        print(f"- {'met' if met else 'MISSED'}: {target}")
    return [target for target, met in targets.items() if not met]


def main() -> int:
    """Run the whole benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=21)
    parser.add_argument("--torch", metavar="REQ", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        ours, peers = environments(work, torch=options.torch)
        snapshot, environment = work / "machine.json", clean_environment()
        saving = [str(ours / "envcheck"), "snapshot", "-o", str(snapshot)]
        subprocess.run(saving, env=environment, check=True, timeout=60)
        timings = measure(
            commands(ours, peers, snapshot, torch=options.torch), options.runs, environment
        )
        return 1 if report(timings, hanging_seconds(ours, work), matrix_speed(ours)) else 0


if __name__ == "__main__":
    sys.exit(main())

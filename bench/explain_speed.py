"""How fast a log is read, beside `grep -cF` with the same fragments in the same run.

    python bench/explain_speed.py [--megabytes 1000] [--runs 3] [--without-hyperscan]

The log is composed: lines as trainers write them, and messages that frameworks write, with ever new
numbers. Three are made: one without any known message, one of words of this project's documents in
random order, so that no line resembles another, and one in which every hundredth line is known. The
last is read again as a stream: twice, through a pipe; as one line without an end; and packed. What
is measured is the plain installation; --without-hyperscan removes Hyperscan from it: that leaves
the expression, as on Windows.
"""

from __future__ import annotations

import argparse
import gzip
import os
import random
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import BinaryIO

ROOT = Path(__file__).parents[1]
FLOOR = 50.0  # MB/s
CEILING = 64.0  # MiB of a process that reads a stream of any size
START_UP = 7.0  # x `python -c pass`
PIECE = 32 << 20  # bytes composed; a log repeats its pieces

TIME = "2026-11-20 23:01:{a:02d}.{b:06d}: "
QUIET = (
    (
        "2026-11-20 23:01:{a:02d}.{b:03d} INFO trainer step={c} epoch={a} loss=0.{b} lr=1.0e-4"
        " grad_norm=0.{b} cuda:{d}"
    ),
    "[{c}/300000] train_loss: 0.{b} | acc: 0.{b} | CUDA device {d} | ETA 0:12:{a:02d}",
    "[rank{d}]: DEBUG:torch.distributed:allreduce bucket {c} finished in 0.{b} s",
    TIME + "I tensorflow/core/common_runtime/placer.cc:125] MatMul_{c}: (MatMul): /device:GPU:{d}",
    (
        "Epoch {a}:  {a}%|\u2588\u2588\u2588\u258f      | {c}/300000 [00:{a:02d}<10:{a:02d},"
        " {b}.1it/s, loss=0.{b}]"
    ),
)
NUMA = (
    "I tensorflow/stream_executor/cuda/cuda_gpu_executor.cc:937] successful NUMA node read from"
    " SysFS had negative value (-1), but there must be at least one NUMA node, so returning NUMA"
    " node zero"
)
OUT_OF_MEMORY = (
    "[rank{d}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {b}.00 MiB. GPU {d}"
    " has a total capacity of 23.69 GiB of which {b}.00 MiB is free."
)
MISSING = (
    "W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not load dynamic library"
    " 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open shared object file: No such file"
    " or directory"
)
KNOWN = (
    TIME + "W tensorflow/compiler/tf2tensorrt/utils/py_utils.cc:38] TF-TRT Warning: Could not find"
    " TensorRT",
    TIME + NUMA,
    OUT_OF_MEMORY,
    TIME + MISSING,
    (
        "[ {c}.{b:06d}] NVRM: Xid (PCI:0000:{a:02d}:00): 31, pid={c}, name=python, Ch 00000008,"
        " intr 10000000. MMU Fault"
    ),
)


def piece(every: int, size: int) -> bytes:
    """Compose about `size` bytes of a log: one line in `every` is a known message (0: none; -1: prose, none meant)."""
    rng = random.Random(20261121)
    prose = (
        re.findall(
            r"[A-Za-z][\w.'-]+", (ROOT / "docs/reference/explain.md").read_text(encoding="utf-8")
        )
        if every < 0
        else []
    )
    lines: list[str] = []
    length = 0
    while length < size:
        known = every > 0 and len(lines) % every == every - 1
        words = {
            "a": rng.randrange(60),
            "b": rng.randrange(100, 1000),
            "c": rng.randrange(300_000),
            "d": rng.randrange(8),
        }
        usual = rng.choice(KNOWN if known else QUIET).format(**words)
        lines.append(" ".join(rng.choices(prose, k=14)) if prose else usual)
        length += len(lines[-1]) + 1
    return ("\n".join(lines) + "\n").encode()


def pour(stream: BinaryIO, size: int, every: int) -> None:
    """Write a log of about `size` bytes."""
    one = piece(every, min(PIECE, size))
    stream.writelines(one for _ in range(max(1, round(size / len(one)))))


def run(argv: list[str], source: int = subprocess.DEVNULL) -> tuple[float, float, str]:
    """Run a command on this standard input; return seconds, peak resident MiB and its output."""
    start = time.perf_counter()
    environment = {**os.environ, "LC_ALL": "C", "PYTHONDONTWRITEBYTECODE": ""}
    with subprocess.Popen(
        argv, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    ) as process:
        assert process.stdout is not None
        said = process.stdout.read().decode()
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
    return time.perf_counter() - start, usage.ru_maxrss / 1024, said


def medians(commands: dict[str, list[str]], runs: int) -> dict[str, tuple[float, float]]:
    """Run every command by turns, once to warm up; return median seconds and largest MiB."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(runs + 1):
        for name, argv in commands.items():
            taken[name].append(run(argv)[:2])
    return {
        name: (statistics.median(s for s, _ in some[1:]), max(m for _, m in some[1:]))
        for name, some in taken.items()
    }


def fragments(path: Path) -> int:
    """Write the fragments of all signatures, one a line, for grep; return how many."""
    sys.path.insert(0, str(ROOT))
    from envcheck.explain.signatures import load_signatures

    known = sorted({fragment for item in load_signatures() for fragment in item.fragments})
    path.write_text("\n".join(known) + "\n", encoding="utf-8")
    return len(known)


def installed(work: Path, *, without_hyperscan: bool) -> Path:
    """Install the tool into an environment of its own; return the folder of its programs."""
    subprocess.run([sys.executable, "-m", "venv", str(work / "venv")], check=True)
    pip = [str(work / "venv/bin/python"), "-m", "pip"]
    subprocess.run([*pip, "install", "-q", str(ROOT)], check=True, timeout=600)
    if without_hyperscan:
        subprocess.run([*pip, "uninstall", "-q", "-y", "hyperscan"], check=True)
    return work / "venv/bin"


def throughput(work: Path, programs: Path, size: int, runs: int) -> list[bool]:
    """Print megabytes per second of both programs on both logs; return which goals are met."""
    met = []
    print("| log | program | MB/s | seconds | peak MiB | x grep |\n|---|---|---|---|---|---|")
    log = work / "train.log"
    for name, every in (("no known line", 0), ("prose", -1), ("1 % known lines", 100)):
        # In a process of its own: a child begins with its parent's resident set, and that is what
        # would be measured.
        with log.open("wb") as stream:
            subprocess.run(
                [sys.executable, __file__, "--pour", str(size), str(every)],
                stdout=stream,
                check=True,
            )
        megabytes = log.stat().st_size / 1e6
        grep = ["grep", "-cFf", str(work / "fragments"), str(log)]
        found = medians(
            {
                "`grep -cF`": grep,
                "`envcheck explain`": [str(programs / "envcheck"), "explain", str(log)],
            },
            runs,
        )
        for program, (seconds, peak) in found.items():
            ratio = found["`grep -cF`"][0] / seconds
            print(
                f"| {name} | {program} | {megabytes / seconds:.0f} | {seconds:.2f} | {peak:.0f} |"
                f" {ratio:.2f} |"
            )
        met.append(megabytes / found["`envcheck explain`"][0] >= FLOOR)
    return met


def streams(work: Path, programs: Path) -> bool:
    """Print what the last log costs as a stream; return whether the memory stays bounded."""
    peaks = []
    print("| stream | MB | MB/s | peak MiB |\n|---|---|---|---|")
    explain = [str(programs / "envcheck"), "explain", "-"]
    log = work / "train.log"
    megabytes = log.stat().st_size / 1e6
    packed = work / "train.log.gz"
    with packed.open("wb") as stream:
        subprocess.run(["gzip", "-1c", str(log)], stdout=stream, check=True)
    for name, times, command in (
        ("a pipe", 2, ["cat", str(log), str(log)]),
        ("one line without an end", 1, ["sh", "-c", f"tr '\\n' ' ' < {shlex.quote(str(log))}"]),
        ("gzip", 1, ["cat", str(packed)]),
    ):
        with subprocess.Popen(command, stdout=subprocess.PIPE) as source:
            assert source.stdout is not None
            seconds, peak, _ = run(explain, source.stdout.fileno())
        print(
            f"| {name} | {megabytes * times:.0f} | {megabytes * times / seconds:.0f} | {peak:.0f} |"
        )
        peaks.append(peak)
    return max(peaks) <= CEILING


def start_up(work: Path, programs: Path) -> bool:
    """Print what explaining a small log costs beside a bare interpreter; return whether the goal is met."""
    log = work / "small.log"
    log.write_bytes(piece(10, 4000))
    packed = work / "small.log.gz"
    packed.write_bytes(gzip.compress(log.read_bytes()))
    bare = [str(programs / "python"), "-c", "pass"]
    ours = [str(programs / "envcheck"), "explain", str(log)]
    found = medians({"bare": bare, "explain": ours, "gzip": [*ours[:-1], str(packed)]}, 21)
    ratio = found["explain"][0] / found["bare"][0]
    for name, (seconds, peak) in found.items():
        print(f"{name}: {seconds * 1e3:.0f} ms, {seconds / found['bare'][0]:.1f} x, {peak:.0f} MiB")
    return ratio <= START_UP


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--without-hyperscan",
        action="store_true",
        help="measure what finds the fragments elsewhere",
    )
    parser.add_argument(
        "--pour", nargs=2, type=int, metavar=("SIZE", "EVERY"), help="write a log to stdout and end"
    )
    chosen = parser.parse_args()
    if chosen.pour:
        pour(sys.stdout.buffer, *chosen.pour)
        return
    size = chosen.megabytes * 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        programs = installed(work, without_hyperscan=chosen.without_hyperscan)
        print(f"{fragments(work / 'fragments')} fragments, {prefilter(programs)}, {grep_version()}")
        met = [
            start_up(work, programs),
            *throughput(work, programs, size, chosen.runs),
            streams(work, programs),
        ]
    goals = (
        f"start-up <= {START_UP:.0f} x python -c pass",
        f">= {FLOOR:.0f} MB/s",
        f">= {FLOOR:.0f} MB/s of prose",
        f">= {FLOOR:.0f} MB/s with 1 % known",
        f"peak memory <= {CEILING:.0f} MiB whatever the size",
    )
    for goal, reached in zip(goals, met, strict=True):
        print(f"- {'met' if reached else 'NOT MET'}: {goal}")
    sys.exit(0 if all(met) else 1)


def prefilter(programs: Path) -> str:
    """Say what finds the fragments in the environment that is measured."""
    said = run([str(programs / "python"), "-c", "import hyperscan; print(hyperscan.__version__)"])[
        2
    ].strip()
    return (
        f"Hyperscan's binding {said}"
        if said
        else "no Hyperscan: pyahocorasick or an expression finds them"
    )


def grep_version() -> str:
    """Return grep's own name and version."""
    return subprocess.run(
        ["grep", "--version"], capture_output=True, text=True, check=True
    ).stdout.split("\n", 1)[0]


if __name__ == "__main__":
    main()

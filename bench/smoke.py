"""Run `envcheck smoke` in real environments of each framework, TensorFlow 1.15 to 2.21, and measure what it costs.

    python bench/smoke.py [--runs 15] [--environments FOLDER] [--only NAME...]

Makes each environment (CPU builds) below FOLDER with pip, unless it is there; one for which this machine has no Python
or the index no wheel is left out, with the reason. Runs the quick and the full level in each, prints a table in
Markdown with what the smoke script, and the whole command around it, cost over the bare import and matmul of the same
Python, and exits 1 when a run failed or the whole command takes more than 10 % more processor time, with all that it
started: the median of what it takes more in each of the interleaved runs. Wall time, which others' work on the machine
lengthens at random, is the quickest run's.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ALLOWED = 10.0  # percent
HEADS = ["framework", "quick (checks)", "full (checks)"]
HEADS += [
    "bare, wall s",
    "script",
    "command",
    "command +",
    "bare, CPU s",
    "script",
    "command",
    "command +",
]

TENSORFLOW_1 = (
    "import tensorflow as tf\nwith tf.Session() as session:\n"
    "    print(session.run(tf.matmul(tf.constant(LEFT), tf.constant(RIGHT))).tolist())"
)
TENSORFLOW_2 = (
    "import tensorflow as tf\nprint(tf.matmul(tf.constant(LEFT),"
    " tf.constant(RIGHT)).numpy().tolist())"
)
TORCH = "import torch\nprint(torch.matmul(torch.tensor(LEFT), torch.tensor(RIGHT)).tolist())"
JAX = (
    "import jax, numpy\nprint(numpy.asarray(jax.numpy.matmul(*map(jax.numpy.array, (LEFT,"
    " RIGHT)))).tolist())"
)
ONNXRUNTIME = (
    "import sys, onnxruntime,"
    f" numpy\nsys.path.append({str(ROOT / 'envcheck' / 'smoke' / 'children')!r})\nimport"
    " check_onnxruntime\nsession = onnxruntime.InferenceSession(check_onnxruntime.product_model(2,"
    " 3, 2), providers=['CPUExecutionProvider'])\nfed = {'a': numpy.array(LEFT, 'float32'), 'b':"
    " numpy.array(RIGHT, 'float32')}\nprint(session.run(None, fed)[0].tolist())"
)
NUMBERS = "LEFT, RIGHT = [[1., 2., 3.], [4., 5., 6.]], [[1., 2.], [3., 4.], [5., 6.]]\n"
LEAVE = "\nimport os, sys\nsys.stdout.flush()\nos._exit(0)"
START = ROOT / "envcheck" / "smoke" / "children" / "start.py"
PRODUCT = "[[22.0, 28.0], [49.0, 64.0]]"


@dataclass(frozen=True)
class Subject:
    """A framework to test: the Python it needs, what pip installs, and its bare import and matmul."""

    python: str
    requirements: tuple[str, ...]
    bare: str
    script: str
    is_bounded: bool = True


SUBJECTS = {
    "tf115": Subject(
        "3.7",
        ("tensorflow==1.15.5", "protobuf<3.21", "numpy<1.19"),
        TENSORFLOW_1,
        "check_tensorflow1",
    ),
    "tf210": Subject(
        "3.10", ("tensorflow-cpu==2.10.1", "numpy<2"), TENSORFLOW_2, "check_tensorflow2"
    ),
    "tf215": Subject("3.11", ("tensorflow-cpu==2.15.1",), TENSORFLOW_2, "check_tensorflow2"),
    "tf221": Subject("3.12", ("tensorflow==2.21.*",), TENSORFLOW_2, "check_tensorflow2"),
    "torch": Subject("3.11", ("torch==2.13.0",), TORCH, "check_torch"),
    "jax": Subject("3.12", ("jax",), JAX, "check_jax"),
    # It starts in less time than this program itself, of which no share can be held to a tenth.
    "onnxruntime": Subject(
        "3.12", ("onnxruntime",), ONNXRUNTIME, "check_onnxruntime", is_bounded=False
    ),
}


def find_python(version: str) -> str | None:
    """Find a Python of this minor version that starts: on PATH, or as pyenv keeps it."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    kept = [str(path / "bin" / "python") for path in versions.glob(f"{version}.*")]
    for found in (shutil.which(f"python{version}"), *kept):
        if (
            found
            and subprocess.run([found, "-c", "pass"], capture_output=True, check=False).returncode
            == 0
        ):
            return found
    return None


def make(name: str, folder: Path) -> tuple[str, str]:
    """Make an environment, unless it is there; return its Python, or "" and the reason."""
    subject, python = SUBJECTS[name], folder / name / "bin" / "python"
    if python.exists():
        return str(python), ""
    base = find_python(subject.python)
    if base is None:
        return "", f"no Python {subject.python} on this machine"
    subprocess.run([base, "-m", "venv", str(folder / name)], check=True, timeout=120)
    install = [str(python), "-m", "pip", "install", "-q", *subject.requirements]
    done = subprocess.run(install, capture_output=True, text=True, timeout=1800, check=False)
    if done.returncode:
        shutil.rmtree(folder / name)
        words = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
        return "", f"pip installs no {' '.join(subject.requirements)}: {words}"
    return str(python), ""


def timed(argv: list[str], environment: dict[str, str]) -> tuple[float, float, str]:
    """Run a command; return wall seconds, processor seconds with its children, and what it printed."""
    begun = time.perf_counter()
    with subprocess.Popen(
        argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        printed = process.stdout.read()
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
    return (
        time.perf_counter() - begun,
        usage.ru_utime + usage.ru_stime,
        printed.decode("utf-8", "replace"),
    )


def commands(name: str, python: str) -> dict[str, list[str]]:
    """List what is timed: the bare framework, the smoke script alone, the whole command."""
    start = [
        python,
        "-I",
        "-B",
        str(START),
        "--script",
        SUBJECTS[name].script,
        "--report",
        "/dev/stdout",
        "--gpu",
        "cpu",
        "--count",
        "0",
    ]
    return {
        # It leaves as a smoke script leaves: taking a framework down would count for the bare one
        # only.
        "bare": [python, "-I", "-B", "-c", NUMBERS + SUBJECTS[name].bare + LEAVE],
        "script": [*start, "--level", "quick"],
        "command": smoke(python, "quick"),
    }


def smoke(python: str, level: str) -> list[str]:
    """Return the command that smokes an environment."""
    return [
        sys.executable,
        "-m",
        "envcheck",
        "smoke",
        "--python",
        python,
        "--level",
        level,
        "--format",
        "json",
    ]


def measure(
    name: str, python: str, runs: int, environment: dict[str, str]
) -> tuple[list[str], bool]:
    """Run one environment at both levels, time the quick one beside the bare framework; return a row and a verdict."""
    taken: dict[str, list[tuple[float, float]]] = {"bare": [], "script": [], "command": []}
    printed: dict[str, str] = {}
    # interleaved, so that a busy moment touches all alike; the first warms the caches
    for _ in range(runs + 1):
        for kind, argv in commands(name, python).items():
            wall, used, printed[kind] = timed(argv, environment)
            taken[kind].append((wall, used))
    levels = [
        json.loads(printed["command"]),
        json.loads(timed(smoke(python, "full"), environment)[2]),
    ]
    runs_of = [level["runs"][0] for level in levels]
    passed = [f"{run['outcome']} ({len(run['results'])})" for run in runs_of]
    title = f"{runs_of[0]['framework']} {runs_of[0]['version']}, Python {SUBJECTS[name].python}"
    quickest = {kind: min(run[0] for run in each[1:]) for kind, each in taken.items()}
    processor = {
        kind: statistics.median(run[1] for run in each[1:]) for kind, each in taken.items()
    }
    longer = 100 * (quickest["command"] / quickest["bare"] - 1)
    more = [
        command[1] / bare[1]
        for command, bare in zip(taken["command"][1:], taken["bare"][1:], strict=True)
    ]
    busier = 100 * (statistics.median(more) - 1)
    times = [f"{quickest[kind]:.2f}" for kind in taken] + [f"{longer:+.1f} %"]
    times += [f"{processor[kind]:.2f}" for kind in taken] + [f"{busier:+.1f} %"]
    good = PRODUCT in printed["bare"] and {level["verdict"] for level in levels} == {"compatible"}
    return [title, *passed, *times], good and (busier <= ALLOWED or not SUBJECTS[name].is_bounded)


def main() -> int:
    """Run the whole benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument(
        "--environments", type=Path, default=Path(tempfile.gettempdir()) / "envcheck-bench-smoke"
    )
    parser.add_argument("--only", nargs="*", choices=list(SUBJECTS), default=list(SUBJECTS))
    options = parser.parse_args()
    options.environments.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    print(f"| {' | '.join(HEADS)} |")
    print("|---" * len(HEADS) + "|")
    failed = []
    for name in options.only:
        python, reason = make(name, options.environments)
        if not python:
            print(f"| {name} | not run: {reason}" + " |" * 10, flush=True)
            continue
        row, good = measure(name, python, options.runs, environment)
        print(f"| {' | '.join(row)} |", flush=True)
        failed += [] if good else [name]
    missed = f"MISSED by {', '.join(failed)}" if failed else "met"
    print(
        f"\n{missed}: every level passes, the whole command takes {ALLOWED:.0f} % more processor"
        " time at most"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

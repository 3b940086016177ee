"""Do what a plan prints, install it, and kill an installation at random instants.

    python bench/install.py printed [--only 2.15] [--environments FOLDER]
    python bench/install.py gpu [--only 2.21] [--environments FOLDER]      needs root: the driver is
    a stand-in python bench/install.py installed [--only 2.15]
    python bench/install.py kills [--count 50] [--seed 1]

`printed`: the script of `envcheck plan` is run by a fresh shell, with no more variables than PATH,
HOME and those of pip; then the doctor must find the environment compatible, and `envcheck smoke`
places a matmul and checks its numbers. `gpu`: the same for the CUDA builds on a stand-in GPU host,
where TensorFlow opens its CUDA libraries itself, in the activated environment.
`installed`: `envcheck install --smoke` does it. `kills`: kill -9 at random instants inside the
steps of an installation of small wheels over an environment that is there; it must be the old one
or the new one. Prints tables in Markdown; exits 1 when anything is not as it must be.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
ENVCHECK = [sys.executable, "-m", "envcheck"]
# TensorFlow -> Python
PRINTED = {"1.15": "3.7", "2.10": "3.10", "2.15": "3.11", "2.16": "3.12", "2.21": "3.12"}
GPU = {"2.20": "3.12", "2.21": "3.12"}
LOADED = (
    "import tensorflow as tf; print(tf.config.list_physical_devices('GPU')); "
    "lines = [line for line in open('/proc/self/maps') if '/nvidia/' in line and '.so' in line]; "
    "names = {line.split('/')[-1].strip() for line in lines}; "
    "print('loaded', *sorted(names))"
)


@dataclass(frozen=True)
class Outcome:
    """What came of one release: the verdict of the doctor, the smoke test, seconds, and what went wrong."""

    verdict: str
    smoke: str
    seconds: float
    wrong: str = ""


def fresh_variables() -> dict[str, str]:
    """Return what a fresh shell has: the Pythons on its PATH, a home, the settings of pip and of TLS."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    folders = [str(path / "bin") for path in sorted(versions.glob("3.*"))]
    kept = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(("PIP_", "SSL_", "REQUESTS_"))
    }
    return {
        **kept,
        "PATH": ":".join([*folders, os.defpath, "/usr/sbin:/sbin"]),
        "HOME": str(Path.home()),
        "PYTHONPATH": str(ROOT),
    }


def run(argv: list[str], folder: Path, seconds: float = 1800.0) -> subprocess.CompletedProcess[str]:
    """Run a command with a fresh shell's variables."""
    return subprocess.run(
        argv,
        cwd=folder,
        env=fresh_variables(),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def wanted(line: str, goal: str) -> list[str]:
    """Write what is asked of `plan` and `install` for one line of TensorFlow."""
    if goal == "gpu":
        return [f"tensorflow[and-cuda]=={line}.*", "--expect", "gpu"]
    return [f"tensorflow=={line}.*", "--expect", "cpu"]


def do_printed(line: str, python: str, folder: Path) -> Outcome:
    """Run the printed script, then the doctor and the smoke test."""
    begun = time.monotonic()
    asked = [
        "plan",
        *wanted(line, "cpu"),
        "--python",
        python,
        "--env",
        f"tf{line}",
        "--format",
        "script",
    ]
    script = run([*ENVCHECK, *asked], folder)
    if script.returncode:
        return Outcome("", "", 0.0, script.stdout + script.stderr)
    done = run(["sh", "-c", script.stdout], folder)
    seconds = time.monotonic() - begun
    if done.returncode:
        return Outcome("", "", seconds, (done.stdout + done.stderr)[-600:])
    return judged(line, folder, seconds)


def judged(line: str, folder: Path, seconds: float) -> Outcome:
    """Have an environment judged as a user would."""
    doctor = run(
        [*ENVCHECK, "doctor", "--env", f"tf{line}", "--expect", "cpu", "--format", "json"], folder
    )
    report = json.loads(doctor.stdout)
    smoke = run(
        [*ENVCHECK, "smoke", "--env", f"tf{line}", "--expect", "cpu", "--format", "json"], folder
    )
    verdict, placed = report["verdict"], json.loads(smoke.stdout)["verdict"]
    good = verdict == "compatible" and placed == "compatible"
    return Outcome(
        verdict, placed, seconds, "" if good else f"{report['headline']} {smoke.stdout[-300:]}"
    )


def do_installed(line: str, python: str, folder: Path) -> Outcome:
    """Let `envcheck install --smoke` do it."""
    begun = time.monotonic()
    shutil.rmtree(folder / f"tf{line}", ignore_errors=True)
    asked = [*wanted(line, "cpu"), "--python", python, "--env", f"tf{line}", "--yes", "--smoke"]
    done = run([*ENVCHECK, "install", *asked], folder)
    seconds = time.monotonic() - begun
    return (
        judged(line, folder, seconds)
        if done.returncode == 0
        else Outcome("", "", seconds, done.stderr[-600:])
    )


def do_gpu(line: str, python: str, folder: Path) -> Outcome:
    """Run the printed script on a stand-in GPU host, and let TensorFlow open its libraries there."""
    from tests.fakes.gpu_host import run_on_gpu_host
    from tests.fakes.machine import GpuHost

    begun, host = time.monotonic(), GpuHost()
    # what is written outside /tmp lies in memory there
    variables = {**fresh_variables(), "PIP_NO_CACHE_DIR": "1"}

    def on_host(argv: list[str]) -> subprocess.CompletedProcess[str]:
        return run_on_gpu_host(
            host, ["sh", "-c", 'cd "$0"; exec "$@"', str(folder), *argv], variables, 1800
        )

    asked = [
        "plan",
        *wanted(line, "gpu"),
        "--python",
        python,
        "--env",
        f"tf{line}",
        "--format",
        "script",
    ]
    script = on_host([*ENVCHECK, *asked])
    # the last step computes: a stand-in driver cannot
    without_last = script.stdout.rpartition("\n\n# ")[0]
    made = on_host(["sh", "-c", without_last])
    if script.returncode or made.returncode:
        return Outcome(
            "", "", time.monotonic() - begun, (script.stderr + made.stdout + made.stderr)[-600:]
        )
    activated = ["sh", "-c", '. "$0/bin/activate" && exec "$@"', f"tf{line}"]
    report = json.loads(
        on_host(
            [
                *activated,
                *ENVCHECK,
                "doctor",
                "--env",
                f"tf{line}",
                "--expect",
                "gpu",
                "--format",
                "json",
            ]
        ).stdout
    )
    loaded = on_host([*activated, "python", "-c", LOADED])
    missed = "Cannot dlopen" in loaded.stderr or "loaded lib" not in loaded.stdout
    good = report["verdict"] == "compatible" and not missed
    names = loaded.stdout.rpartition("loaded ")[2].split()
    found = "; ".join(item["message"] for item in report["findings"][:3])
    told = (
        ""
        if good
        else f"{report['headline']} {found} {loaded.stdout[-300:]} {loaded.stderr[-3000:]}"
    )
    return Outcome(
        report["verdict"],
        f"{len(names)} libraries: {' '.join(names)}",
        time.monotonic() - begun,
        told,
    )


def kill_once(stock: Path, folder: Path, delay: float, place_file: str) -> tuple[str, str]:
    """Kill one installation after `delay` seconds; return what the environment holds and what the journal says."""
    from envcheck.host.file_changes import copy_tree, lock_file
    from envcheck.install.journal import Journal
    from envcheck.install.places import place_of
    from tests.install.wheels import held_by, tree_hash

    environment = folder / place_file
    copy_tree(stock / "env", environment)
    before, place = tree_hash(environment), place_of(environment)
    argv = [
        sys.executable,
        "-m",
        "tests.install.session",
        str(environment),
        str(stock / "wheels"),
        "pip",
    ]
    process = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(delay)
    process.kill()
    process.wait()
    if place.state.is_dir():
        with lock_file(str(place.lock), 30):
            pass
    said = (
        "new"
        if place.identities() and Journal(place, place.identities()[-1]).is_installed
        else "old"
    )
    held = held_by(environment)
    same = held == "2.0" or (held == "1.0" and tree_hash(environment) == before)
    return (held if same else f"changed {held}"), said


def do_kills(count: int, seed: int) -> bool:
    """Kill installations at random instants over the time that one takes."""
    from tests.install.wheels import make_environment, make_parts

    dice, found = random.Random(seed), list[tuple[str, str]]()
    with tempfile.TemporaryDirectory() as name:
        stock = Path(name)
        make_parts(stock / "wheels", "1.0")
        make_parts(stock / "wheels", "2.0")
        make_environment(stock / "env", stock / "wheels", "1.0")
        begun = time.monotonic()
        kill_once(stock, stock, 0.0, "warm")
        longest = usual_seconds(stock)
        found += [
            kill_once(stock, stock, dice.uniform(0.0, longest), f"env{number}")
            for number in range(count)
        ]
        seconds = time.monotonic() - begun
    good = [pair for pair in found if pair in {("1.0", "old"), ("2.0", "new")}]
    old = sum(pair[0] == "1.0" for pair in good)
    print(
        f"{count} times kill -9 within {longest:.1f} s: {old} old, {len(good) - old} new,"
        f" {count - len(good)} else"
    )
    print(
        f"({seconds:.0f} s in all, seed {seed})",
        *[pair for pair in found if pair not in good],
        sep="\n",
    )
    return len(good) == count


def usual_seconds(stock: Path) -> float:
    """Measure one installation that nobody kills."""
    from envcheck.host.file_changes import copy_tree

    copy_tree(stock / "env", stock / "usual")
    argv = [
        sys.executable,
        "-m",
        "tests.install.session",
        str(stock / "usual"),
        str(stock / "wheels"),
        "pip",
    ]
    begun = time.monotonic()
    subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, timeout=120)
    return time.monotonic() - begun


def table(kind: str, only: list[str], folder: Path, *, keep: bool) -> bool:
    """Do every release of a kind, and print what came of it."""
    work = {"printed": do_printed, "installed": do_installed, "gpu": do_gpu}[kind]
    rows = GPU if kind == "gpu" else PRINTED
    print(
        f"| TensorFlow | Python | doctor | {'libraries' if kind == 'gpu' else 'matmul'} | seconds |"
    )
    print("|---|---|---|---|---|")
    wrong = []
    for line, python in rows.items():
        if not only or line in only:
            shutil.rmtree(folder / f"tf{line}", ignore_errors=True)
            outcome = work(line, python, folder)
            if not keep:
                shutil.rmtree(folder / f"tf{line}", ignore_errors=True)
            told = (outcome.verdict or "-", outcome.smoke or "-", f"{outcome.seconds:.0f}")
            print(f"| {line} | {python} | {' | '.join(told)} |", flush=True)
            wrong += [f"{line}: {outcome.wrong}"] if outcome.wrong else []
    print(*wrong, sep="\n", file=sys.stderr)
    return not wrong


def main() -> int:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=("printed", "gpu", "installed", "kills"))
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--environments", type=Path, default=None)
    parser.add_argument("--keep", action="store_true", help="leave the environments where they are")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    if asked.kind == "kills":
        return 0 if do_kills(asked.count, asked.seed) else 1
    with tempfile.TemporaryDirectory() as name:
        folder = asked.environments or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        return 0 if table(asked.kind, asked.only, folder, keep=asked.keep) else 1


if __name__ == "__main__":
    sys.exit(main())

"""Install into environments that are there, and kill the whole command at random instants.

    python bench/install_into.py real [--only beside] [--environments FOLDER]
    python bench/install_into.py kills [--count 50] [--seed 1]

`real`: environments are made of wheels from the index, each with something in it that an
installation must reckon with; then `envcheck install --smoke`. What was well must be so afterwards
at the same release, and compute; or nothing is changed, and it is said why; and `--rollback` brings
the tree back file by file. `kills`: the command itself, from its start to the judgement, over a
bare environment and over none, by turns, with small wheels of JAX's names: SIGKILL, SIGTERM or
SIGINT. It must be the old or the new one, and `--resume` says which. Prints a table in Markdown;
exits 1 when anything is not as it must be.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
ENVCHECK = [sys.executable, "-m", "envcheck", "install"]


@dataclass(frozen=True)
class Case:
    """What an environment holds, what is asked for, and what must come of it."""

    name: str
    python: str
    holds: tuple[tuple[str, ...], ...]  # each installed by a command of its own
    asked: tuple[str, ...]
    outcome: str  # installed, unchanged, refused
    then: tuple[str, ...]  # what the environment must hold, name==version


CASES = (
    Case("beside", "3.12", (("jax==0.10.1",),), ("tensorflow",), "installed", ("jax==0.10.1",)),
    Case(
        "older",
        "3.12",
        (("tensorflow-cpu==2.16.2",),),
        ("jax",),
        "installed",
        ("tensorflow-cpu==2.16.2",),
    ),
    Case(
        "clash",
        "3.11",
        (("tensorflow-cpu==2.15.1",),),
        ("jax>=0.10",),
        "refused",
        ("tensorflow-cpu==2.15.1",),
    ),
    Case(
        "two of one module",
        "3.12",
        (("tensorflow==2.20.0", "jax==0.10.1"), ("tensorflow-cpu==2.20.0",)),
        ("tensorflow",),
        "installed",
        ("jax==0.10.1",),
    ),
    Case(
        "a plugin left", "3.12", (("jax-cuda12-plugin==0.9.2", "numpy"),), ("jax",), "installed", ()
    ),
    Case("there already", "3.12", (("jax==0.10.1",),), ("jax",), "unchanged", ("jax==0.10.1",)),
)


def run(argv: list[str], folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, this tree's program importable."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **more}
    return subprocess.run(
        argv, cwd=folder, env=variables, capture_output=True, text=True, timeout=1800, check=False
    )


def make(case: Case, folder: Path) -> None:
    """Make a case's environment with uv."""
    from envcheck.host.prerequisites import find_python
    from envcheck.plan.verify import find_uv

    uv = find_uv(os.environ)
    argvs = [
        [uv, "venv", "-q", "--python", find_python(case.python, os.environ) or case.python, "env"]
    ]
    argvs += [
        [uv, "pip", "install", "-q", "--python", "env/bin/python", *held] for held in case.holds
    ]
    for argv in argvs:
        subprocess.run(argv, cwd=folder, check=True, timeout=1800)


def held(folder: Path) -> set[str]:
    """List what an environment holds, as name==version."""
    code = (
        "from importlib.metadata import distributions as d; print(*{f'{i.name}=={i.version}' for i"
        " in d()})"
    )
    told = run([str(folder / "env/bin/python"), "-B", "-c", code], folder).stdout.split()
    return {item.lower().replace("_", "-") for item in told}


def came_of(case: Case, folder: Path) -> tuple[str, str]:
    """Install as a case says; return what came of it, and what is wrong with that."""
    from tests.install.wheels import tree_hash

    make(case, folder)
    before = tree_hash(folder / "env")
    done = run(
        [*ENVCHECK, *case.asked, "--env", "env", "--yes", "--smoke", "--format", "json"], folder
    )
    told = json.loads(done.stdout)
    outcome = told.get("outcome", "refused")
    lost = [item for item in case.then if item not in held(folder)]
    wrong = (
        f"{outcome}: {done.stderr[-600:]}"
        if outcome != case.outcome
        else f"lost {lost}"
        if lost
        else ""
    )
    if outcome == "installed":
        run([*ENVCHECK, "--rollback", "--env", "env", "--yes"], folder)
    back = tree_hash(folder / "env") == before
    return outcome + f": {told.get('error', '')[:160]}" * (outcome == "refused"), wrong or (
        "" if back else "changed"
    )


def do_real(only: list[str], folder: Path) -> bool:
    """Do every case, and print what came of it."""
    print("| environment | asked for | what came of it | seconds |\n|---|---|---|---|")
    wrong = []
    for case in CASES:
        if only and case.name not in only:
            continue
        own = folder / case.name.replace(" ", "-")
        shutil.rmtree(own, ignore_errors=True)
        own.mkdir(parents=True)
        begun = time.monotonic()
        outcome, fault = came_of(case, own)
        shutil.rmtree(own)
        holds = ", then ".join(" ".join(item) for item in case.holds)
        print(
            f"| {holds} | {' '.join(case.asked)} | {outcome} | {time.monotonic() - begun:.0f} |",
            flush=True,
        )
        wrong += [f"{case.name}: {fault}"] if fault else []
    print(*wrong, sep="\n", file=sys.stderr)
    return not wrong


NO_INDEX = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "PYTHONPATH": str(ROOT)}


def start(folder: Path, stock: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Start the installation of JAX's small wheels into folder/env."""
    variables = {**os.environ, **NO_INDEX, "PIP_FIND_LINKS": str(stock)}
    argv = [*ENVCHECK, "jax==0.10.2", "--env", "env", "--yes", "--expect", "cpu", "-q", *arguments]
    return subprocess.Popen(
        argv, cwd=folder, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def left(
    folder: Path, before: str, new: frozenset[str] = frozenset(("jax==0.10.2", "jaxlib==0.10.2"))
) -> str:
    """Wait for the guard of what was killed; return what is there then, as --resume says it: old, new, or what else."""
    from envcheck.host.file_changes import lock_file
    from envcheck.install.places import MARKER, place_of
    from tests.install.wheels import tree_hash

    place = place_of(folder / "env")
    if place.state.is_dir():
        with lock_file(str(place.lock), 30):
            pass
    resumed = run([*ENVCHECK, "--resume", "--env", "env"], folder)
    if place.folder.is_dir() and new & held(folder):
        whole = new <= held(folder) and not (place.folder / MARKER).exists()
        return (
            "new"
            if whole and "is the new environment" in resumed.stdout
            else f"half {resumed.stderr}"
        )
    said = resumed.returncode == 2 or any(
        word in resumed.stdout for word in ("the old environment", "not there")
    )
    return (
        "old"
        if said and tree_hash(place.folder) == before
        else f"changed {resumed.stdout}{resumed.stderr}"
    )


def prepared(folder: Path, *, there: bool) -> str:
    """Make a folder, with a bare environment or none; return what hashes it."""
    from tests.install.wheels import tree_hash

    folder.mkdir()
    if there:
        subprocess.run(
            [sys.executable, "-m", "venv", "--without-pip", "env"], cwd=folder, check=True
        )
    return tree_hash(folder / "env")


def do_kills(count: int, seed: int) -> bool:
    """Kill the command over the time that it takes: over an environment and over none, by pip and by uv."""
    from tests.install.wheels import make_wheel

    dice, found, seconds = random.Random(seed), Counter[tuple[str, str]](), dict[str, float]()
    ways = [
        (f"{installer} {'over one' if there else 'new'}", installer, there)
        for there in (False, True)
        for installer in ("uv", "pip")
    ]
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        make_wheel(top / "stock", "jaxlib", "0.10.2", ballast=8 << 20)
        make_wheel(top / "stock", "jax", "0.10.2", ("jaxlib==0.10.2",))
        for way, installer, there in ways:
            prepared(top / way, there=there)
            begun = time.monotonic()
            start(top / way, top / "stock", "--installer", installer).wait(300)
            seconds[way] = time.monotonic() - begun
        for turn in range(count):
            way, installer, there = ways[turn % len(ways)]
            folder = top / str(turn)
            before = prepared(folder, there=there)
            process = start(folder, top / "stock", "--installer", installer)
            time.sleep(dice.uniform(0.2, seconds[way]))
            process.send_signal(
                dice.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
            )
            process.wait(60)
            found[way, left(folder, before)] += 1
            shutil.rmtree(folder)
    print(f"{count} times, seed {seed}")
    for way, _, _ in ways:
        told = ", ".join(
            f"{times} {what}" for (of, what), times in sorted(found.items()) if of == way
        )
        print(f"- {way}, {seconds[way]:.1f} s: {told}")
    return {what for _, what in found} <= {"old", "new"}


def main() -> int:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=("real", "kills"))
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--environments", type=Path, default=None)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    if asked.kind == "kills":
        return 0 if do_kills(asked.count, asked.seed) else 1
    with tempfile.TemporaryDirectory() as name:
        return 0 if do_real(asked.only, asked.environments or Path(name)) else 1


if __name__ == "__main__":
    sys.exit(main())

"""Measure a fleet: real sshd hosts beside `ansible -m ping`, and the report on thousands of synthetic snapshots.

    python bench/fleet.py hosts [--hosts 200] [--runs 3] [--forks 50]     needs root, gcc, iproute2, sshd and Ansible
    python bench/fleet.py report [--counts 1000 3000 10000] [--alike] [--days 30]

`hosts` starts stand-in hosts, each a network namespace with its own sshd, driver and CUDA, and asks them all with
`envcheck fleet run` and with `ansible all -m ping`, in turns, every connection new. `report` makes synthetic
snapshots, recordings of tests/hosts with 300 packages each, varied so that no two are equal, and times `envcheck fleet
report` on them; with `--alike` hosts of a recording differ in name and identities of GPUs alone. With `--days` a report
is stored for each day before: 1 of 100 hosts has got a trouble since the day before, or lost it. Both print a table in
Markdown and exit 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
ENVCHECK = [sys.executable, "-m", "envcheck", "fleet"]
RATIO, SECONDS, MEGABYTES = 1.5, 60.0, 1000.0


def timed(argv: list[str], folder: Path) -> tuple[float, float, float, int]:
    """Return seconds, processor seconds, peak MB of the largest process and exit code of a command."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (folder / "words").open("wb") as words:
        begun = time.monotonic()
        process = subprocess.Popen(argv, cwd=folder, env=environment, stdout=words, stderr=words)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return (
            time.monotonic() - begun,
            used.ru_utime + used.ru_stime,
            used.ru_maxrss / 1000,
            process.returncode,
        )


def measure_hosts(count: int, runs: int, forks: int) -> bool:
    """Ask the hosts by both programs, in turns."""
    from tests.fakes.ssh_hosts import SshHost, ssh_hosts
    from tests.fleet.test_ssh_hosts import KINDS, machine

    kinds = list(KINDS)
    names = [(kinds[at % len(kinds)], at) for at in range(count)]
    begun = time.monotonic()
    with (
        ssh_hosts(
            {f"{kind}{at:03}": SshHost(machine(kind, at)) for kind, at in names}, 300
        ) as inventory,
        tempfile.TemporaryDirectory() as name,
    ):
        folder = Path(name)
        print(
            f"{count} hosts up in {time.monotonic() - begun:.1f} s, {forks} at a time.\n",
            flush=True,
        )
        ansible = str(Path(sys.executable).with_name("ansible"))
        commands = {
            "`ansible all -m ping`": [
                ansible,
                "all",
                "-i",
                str(inventory),
                "-m",
                "ping",
                "-f",
                str(forks),
            ],
            "`envcheck fleet run`": [
                *ENVCHECK,
                "run",
                f"-i{inventory}",
                "-oout",
                "--again",
                f"--forks={forks}",
            ],
        }
        taken: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(runs):
            for label, argv in commands.items():
                time.sleep(7)  # connections are kept for five seconds
                seconds, _, _, code = timed([*argv], folder)
                taken[label].append(seconds)
                if code:
                    raise SystemExit(
                        f"{label} ended with {code}:\n{(folder / 'words').read_text()[-3000:]}"
                    )
        answered = len(list((folder / "out").glob("*.json")))
    return tell_hosts(taken, answered, count)


def tell_hosts(taken: dict[str, list[float]], answered: int, count: int) -> bool:
    """Print the table and say whether the target is met."""
    print("| command | median s | each run |\n|---|---|---|")
    for label, seconds in taken.items():
        print(
            f"| {label} | {statistics.median(seconds):.1f} |"
            f" {', '.join(f'{one:.1f}' for one in seconds)} |"
        )
    ping, run = (statistics.median(seconds) for seconds in taken.values())
    met = run <= RATIO * ping and answered == count
    print(f"\n{answered} of {count} hosts read; ratio {run / ping:.2f}.")
    print(f"- {'met' if met else 'MISSED'}: fleet run <= {RATIO} x ping, and every host is read")
    return met


PACKAGES = 300  # of a real environment


def with_packages(document: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """Fill the list of a recording's distributions up, as a real environment has them."""
    distributions = document["facts"]["python"].get("distributions", {})
    known = distributions.get("known")
    if known is None:
        return document
    names = [f"package-{number}" for number in range(PACKAGES - len(known))]
    for name in names:
        requires = [
            f"{other}>=1.{chance.randrange(9)}"
            for other in chance.sample(names, min(6, len(names)))
        ]
        version = f"{chance.randrange(9)}.{chance.randrange(30)}"
        known.append({"name": name, "version": version, "installer": "pip", "requires": requires})
    return document


def synthetic(base: str, number: int, *, alike: bool) -> str:
    """Vary a recording's document: host and GPU identities; unless `alike`, also kernel and driver builds."""
    chance = random.Random(number)
    text = re.sub(r"GPU-[0-9a-f]{8}", f"GPU-{number:08x}", base)
    if alike:
        return json.dumps({**json.loads(text), "host": f"synthetic-{number:05}"})
    build = f"{chance.randrange(100):02}"
    text = re.sub(r"\b(470|525|535|550|560|570|580)\.(\d+)\.\d\d\b", rf"\1.\2.{build}", text)
    document: dict[str, Any] = json.loads(text)
    document["host"] = f"synthetic-{number:05}"
    source = {"kind": "command", "where": "uname -r", "excerpt": ""}
    document["facts"]["host"]["kernel_release"] = {
        "known": f"6.{number % 20}.{number}-synthetic",
        "source": source,
    }
    return json.dumps(document)


def make_folder(folder: Path, count: int, *, alike: bool = False) -> float:
    """Write `count` synthetic snapshots; return their mean size in KB."""
    from envcheck.fleet.results import SNAPSHOT
    from envcheck.model import encode
    from tests.hosts.test_hosts import NAMES, snapshot_of

    chance = random.Random(0)
    documents = [{"schema": SNAPSHOT, **encode(snapshot_of(name))} for name in NAMES]
    bases = [json.dumps(with_packages(json.loads(json.dumps(item)), chance)) for item in documents]
    folder.mkdir()
    size = 0
    for number in range(count):
        text = synthetic(bases[number % len(bases)], number, alike=alike)
        size += len(text)
        (folder / f"synthetic-{number:05}.json").write_text(text, encoding="utf-8")
    return size / count / 1000


def make_history(folder: Path, days: int) -> float:
    """Store a report of each day before today; return the size of the history in MB."""
    from envcheck.fleet.history import store_report
    from envcheck.fleet.report import HostRow
    from envcheck.fleet.results import HISTORY, get_host, list_result_files

    chance = random.Random(0)
    troubles = ("driver-too-old", "gpu-hardware-fault", "unreachable", "")
    causes = {get_host(path): chance.choice(troubles) for path in list_result_files(folder)}
    for day in range(days, 0, -1):
        for host in chance.sample(sorted(causes), len(causes) // 100):
            causes[host] = chance.choice(troubles)
        verdicts = {"": "compatible", "unreachable": "undetermined"}
        rows = [
            HostRow(host, verdicts.get(cause, "incompatible"), cause, cause)
            for host, cause in causes.items()
        ]
        store_report(folder / HISTORY, rows, "auto", int(time.time()) - day * 86400)
    return (folder / HISTORY).stat().st_size / 1e6 if days else 0.0


def measure_report(counts: list[int], *, alike: bool, days: int) -> bool:
    """Judge folders of growing size, and say whether the time and memory stay below what is allowed."""
    print(
        "| synthetic snapshots | KB each | s | ms each | processor s | peak MB of a process | page"
        " MB | history MB |"
    )
    print("|---|---|---|---|---|---|---|---|")
    met = True
    with tempfile.TemporaryDirectory() as name:
        for count in counts:
            folder = Path(name, str(count))
            size = make_folder(folder, count, alike=alike)
            stored = make_history(folder, days)
            argv = [
                *ENVCHECK,
                "report",
                str(folder),
                "--golden",
                "synthetic-00000",
                "--html",
                "page.html",
                *(["--since", "yesterday"] if days else []),
            ]
            seconds, processor, peak, code = timed(argv, Path(name))
            page = Path(name, "page.html").stat().st_size / 1e6
            each = seconds / count * 1000
            line = (
                f"{size:.0f} | {seconds:.1f} | {each:.1f} | {processor:.1f} | {peak:.0f} |"
                f" {page:.1f} | {stored:.1f}"
            )
            print(f"| {count} | {line} |", flush=True)
            met = met and code == 1 and processor <= SECONDS and peak <= MEGABYTES
    print(
        f"\n- {'met' if met else 'MISSED'}: at most {SECONDS:.0f} s of the processors and {MEGABYTES:.0f} MB for each"
    )
    return met


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["hosts", "report"])
    parser.add_argument("--hosts", type=int, default=200)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--forks", type=int, default=50)
    parser.add_argument("--alike", action="store_true")
    parser.add_argument("--days", type=int, default=0)
    parser.add_argument("--counts", type=int, nargs="+", default=[1000, 3000, 10000])
    given = parser.parse_args()
    hosts = given.what == "hosts"
    met = (
        measure_hosts(given.hosts, given.runs, given.forks)
        if hosts
        else measure_report(given.counts, alike=given.alike, days=given.days)
    )
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()

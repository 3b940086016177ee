"""Measure on the index what room installations take, and write data/program/install.json.

    python bench/room.py [--only tensorflow-gpu] [--write]

Needs the extras `plan` and `matrix`, and a pip of 22.2 or newer in each Python named. uv resolves,
pip says which wheels those are (nothing is installed); of each wheel the server tells the size, and
the wheel's own directory, read over byte ranges, what it holds unpacked. Prints a table in
Markdown.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import requests
from remotezip import RemoteZip

from envcheck.host.prerequisites import find_python
from envcheck.model import Environment, RequirementSet
from envcheck.plan.verify import resolve

DATA = Path(__file__).resolve().parent.parent / "data" / "program" / "install.json"
MIB = 1 << 20
LINUX = [
    *(f"manylinux_2_{minor}_x86_64" for minor in range(35, 16, -1)),
    "manylinux2014_x86_64",
    "manylinux2010_x86_64",
]
TAGS = {"linux_x86_64": LINUX, "win_amd64": ["win_amd64"]}
# framework, build, requirement, Python, platform
ASKED = (
    ("tensorflow", "cpu", "tensorflow-cpu==2.15.1", "3.11", "linux_x86_64"),
    ("tensorflow", "cpu", "tensorflow-cpu==2.21.0", "3.12", "linux_x86_64"),
    ("tensorflow", "gpu", "tensorflow[and-cuda]==2.15.1", "3.11", "linux_x86_64"),
    ("tensorflow", "gpu", "tensorflow[and-cuda]==2.20.0", "3.12", "linux_x86_64"),
    ("tensorflow", "gpu", "tensorflow[and-cuda]==2.21.0", "3.12", "linux_x86_64"),
    # Builds of torch for the CPU on Linux lie on PyTorch's own index; the usual wheel for Windows
    # is one, too.
    ("torch", "cpu", "torch==2.15.0", "3.12", "win_amd64"),
    ("torch", "gpu", "torch==2.7.1", "3.12", "linux_x86_64"),
    ("torch", "gpu", "torch==2.15.0", "3.12", "linux_x86_64"),
    ("jax", "cpu", "jax==0.12.0.1", "3.12", "linux_x86_64"),
    ("jax", "gpu", "jax[cuda12]==0.6.2", "3.12", "linux_x86_64"),
    ("jax", "gpu", "jax[cuda13]==0.12.0.1", "3.12", "linux_x86_64"),
)


@dataclass(frozen=True)
class Room:
    """What one installation takes, in bytes."""

    count: int
    wheels: int
    unpacked: int


def wheels_of(requirement: str, python: str, platform: str) -> list[str]:
    """Return the addresses of the wheels that would be installed."""
    made = Environment(".venv", "pip", python, platform, machine_glibc="2.35")
    pins = [pin.split()[0] for pin in resolve(made, RequirementSet((requirement,)), os.environ)]
    tags = [part for tag in [*TAGS[platform], "any"] for part in ("--platform", tag)]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        argv = [
            find_python(python, os.environ),
            "-m",
            "pip",
            "install",
            "-q",
            "--dry-run",
            "--ignore-installed",
        ]
        argv += ["--no-deps", "--only-binary=:all:", "--report", str(report), "--target", folder]
        subprocess.run([*argv, "--python-version", python, *tags, *pins], check=True, timeout=900)
        return [item["download_info"]["url"] for item in json.loads(report.read_text())["install"]]


def room_of(urls: list[str]) -> Room:
    """Add up what the wheels take packed and unpacked."""
    wheels = unpacked = 0
    session = requests.Session()
    session.verify = os.environ.get("PIP_CERT", session.verify)
    for url in urls:
        with RemoteZip(url, session=session) as archive:
            unpacked += sum(_on_disk(info.file_size) for info in archive.infolist())
        answer = session.head(url, allow_redirects=True, timeout=60)
        wheels += int(answer.headers["Content-Length"])
    return Room(len(urls), wheels, unpacked)


def _on_disk(size: int) -> int:
    return -(-size // 4096) * 4096  # whole blocks


def row(framework: str, build: str, requirement: str, found: Room) -> dict[str, object]:
    """Write one row of the data, rounded up."""
    release = requirement.partition("==")[2]
    sizes = {"wheels_mib": -(-found.wheels // MIB), "unpacked_mib": -(-found.unpacked // MIB)}
    return {"framework": framework, "build": build, "release": release, **sizes}


def main() -> int:
    """Measure each requirement; with --write keep what was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    rows = []
    print("| requirement | Python | wheels | packed MiB | unpacked MiB |\n|---|---|---|---|---|")
    for framework, build, requirement, python, platform in ASKED:
        if asked.only not in ("", f"{framework}-{build}"):
            continue
        found = room_of(wheels_of(requirement, python, platform))
        rows.append(row(framework, build, requirement, found))
        sizes = f"{found.wheels / MIB:.0f} | {found.unpacked / MIB:.0f}"
        print(f"| {requirement} | {python} | {found.count} | {sizes} |", flush=True)
    if asked.write:
        loaded = json.loads(DATA.read_text())
        loaded["room"]["rows"] = rows
        loaded["room"]["citation"]["checked"] = time.strftime("%Y-%m-%d", time.gmtime())
        lines = ",\n".join(f"   {json.dumps(each)}" for each in rows)
        text = json.dumps(
            {**loaded, "room": {**loaded["room"], "rows": "ROWS"}}, indent=1, ensure_ascii=False
        )
        DATA.write_text(text.replace('"ROWS"', f"[\n{lines}\n  ]") + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

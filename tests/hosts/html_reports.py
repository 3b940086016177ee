"""Write HTML reports of recorded machines: `python -m tests.hosts.html_reports FOLDER`, for a browser to look at."""

from __future__ import annotations

import sys
from pathlib import Path

from envcheck.cli.group import run
from envcheck.render.json_contracts import render_snapshot
from tests.hosts.test_hosts import snapshot_of

MACHINES = (
    "docker-with-gpu",
    "tensorflow-without-cuda-extra",
    "cudnn-too-old",
    "no-gpu-auto",
    "nvidia-uvm-missing",
)


def write_reports(folder: Path) -> None:
    """Write the report of each machine, and one of all as a fleet."""
    snapshots = folder / "snapshots"
    snapshots.mkdir(parents=True, exist_ok=True)
    for name in MACHINES:
        file = snapshots / f"{name}.json"
        file.write_text(render_snapshot(snapshot_of(name)), encoding="utf-8")
        with (folder / f"doctor-{name}.html").open("w", encoding="utf-8") as sys.stdout:
            run(["doctor", "--snapshot", str(file), "--format", "html"])
        sys.stdout = sys.__stdout__
    run(["fleet", "report", str(snapshots), "--html", str(folder / "fleet.html"), "-q"])


if __name__ == "__main__":
    write_reports(Path(sys.argv[1]))

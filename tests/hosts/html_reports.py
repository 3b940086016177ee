"""Write HTML reports of recorded machines, one as a notebook shows it: `python -m tests.hosts.html_reports FOLDER`, for a browser to look at."""

from __future__ import annotations

import sys
from pathlib import Path

import envcheck
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
# The page of a notebook, in the colours of the system.
NOTEBOOK = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Notebook</title>
<meta name="viewport" content="width=device-width"><style>html {{ color-scheme: light dark; background: Canvas; color: CanvasText; }}</style></head>
<body><main><h1>Notebook</h1>{}</main></body></html>"""


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
    report = envcheck.doctor(snapshot=snapshots / f"{MACHINES[1]}.json")
    page = NOTEBOOK.format(report._repr_html_())
    (folder / "notebook.html").write_text(page, encoding="utf-8")
    run(["fleet", "report", str(snapshots), "--html", str(folder / "fleet.html"), "-q"])


if __name__ == "__main__":
    write_reports(Path(sys.argv[1]))

"""Let a real Slurm on this one machine run the printed health check, and see which node it drains.

    python bench/slurm_health.py      needs root, gcc; apt-get install slurmctld slurmd slurm-client munge

The script is that of docs/how-to/report-gpu-nodes-to-your-monitoring.md, as it stands there; slurmd starts it. The node is
asked three times, each with a Slurm of its own, in a stand-in GPU host of two GPUs: one that has what it must have, one
that has a GPU too few, and one where that cannot be decided. Prints the state and the reason that Slurm
states, and how long the script takes by itself. Exits 1 unless the second node alone is drained, in 2 s.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from bench.fleet_slurm import slurm, told  # noqa: E402 - found from anywhere

PAGE = ROOT / "docs" / "how-to" / "report-gpu-nodes-to-your-monitoring.md"
LIMIT = 2.0  # seconds
# what the node must have; the stand-in driver does not report its PCIe link
CASES = {
    "works": "gpu-count = 2",
    "a GPU too few": "gpu-count = 3",
    "not decided": "pcie-width = 16",
}
WAITS = 12.0  # seconds; the check runs every 2 s


def write_recipe(work: Path, demand: str) -> Path:
    """Write the printed script and table; only its paths are those of a temporary folder, and Slurm's too."""
    block = re.search(
        r'```bash title="envcheck-health.sh"\n(.*?)```', PAGE.read_text("utf-8"), re.DOTALL
    )
    assert block
    table = work / "node.toml"
    table.write_text(f"[tool.envcheck]\n{demand}\n", encoding="utf-8")
    (work / "bin").mkdir()
    program = work / "bin" / "envcheck"
    standing_in = {key: text for key, text in os.environ.items() if key.startswith("STANDIN_")}
    words = " ".join(f"{key}={shlex.quote(text)}" for key, text in standing_in.items())
    program.write_text(
        f'#!/bin/sh\nexport {words}\nexport PYTHONPATH={os.pathsep.join(sys.path)}\n'
        f'exec {sys.executable} -m envcheck "$@"\n', encoding="utf-8",
    )  # fmt: skip
    script = work / "envcheck-health.sh"
    text = block[1].replace("/opt/envcheck/bin", str(work / "bin"))
    text = text.replace("#!/bin/sh\n", f"#!/bin/sh\nexport SLURM_CONF={work}/slurm.conf\n")
    script.write_text(text.replace("/etc/envcheck/node.toml", str(table)), encoding="utf-8")
    for each in (program, script):
        each.chmod(0o755)
    return script


def ask(demand: str) -> dict[str, object]:
    """Run a Slurm of one node with the health check; return what became of the node."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        script = write_recipe(work, demand)
        lines = f"HealthCheckProgram={script}\nHealthCheckInterval=2\n"
        with slurm(1, "", work, lines) as environment:
            time.sleep(WAITS)
            shown = told(["scontrol", "show", "node", "node1"], environment)
            begun = time.monotonic()
            quiet = {**environment, "SLURMD_NODENAME": "node1"}
            subprocess.run([str(script)], env=quiet, check=False, timeout=60)
            seconds = time.monotonic() - begun
        found = {
            key: re.search(rf"{key}=(.*?)(?: \w+=|\n|$)", shown) for key in ("State", "Reason")
        }
        return {
            **{key: each[1] if each else "" for key, each in found.items()},
            "seconds": round(seconds, 2)
        }  # fmt: skip


def ask_in(case: str) -> dict[str, object]:
    """Ask in the stand-in GPU host."""
    from tests.fakes.gpu_host import run_on_gpu_host
    from tests.fakes.machine import GpuHost

    argv = [sys.executable, str(Path(__file__)), case]
    ended = run_on_gpu_host(GpuHost(), argv, timeout=120)
    if ended.returncode:
        raise SystemExit(ended.stdout + ended.stderr)
    return dict(json.loads(ended.stdout.strip().rpartition("\n")[2]))


def main() -> None:
    """Ask in each case, print what Slurm says, and hold it against what it must be."""
    if sys.argv[1:]:
        print(json.dumps(ask(CASES[sys.argv[1]])))
        return
    right = True
    for case in CASES:
        found = ask_in(case)
        print(f"{case}: {found}", flush=True)
        drained = "DRAIN" in str(found["State"])
        right = (
            right and drained == (case == "a GPU too few") and float(str(found["seconds"])) <= LIMIT
        )
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()

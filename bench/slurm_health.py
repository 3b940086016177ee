"""Let a real Slurm on this one machine run the printed recipes, and see which node they drain.

    python bench/slurm_health.py [--nhc FOLDER]     needs root, gcc; apt-get install slurmctld slurmd slurm-client munge

The scripts are those of docs/how-to/report-gpu-nodes-to-your-monitoring.md, as they stand there: slurmd starts the health
check and the prolog, and LBNL's Node Health Check (FOLDER: its source, github.com/mej/nhc, with executable helpers) the check for it. The node is asked
three times by each, with a Slurm of its own, in a stand-in GPU host of two GPUs: one that has what it must have, one
that has a GPU too few, and one where that cannot be decided. Prints the state and the reason that Slurm states, what
became of a job that waits behind the prolog, and how long the script takes by itself. Exits 1 unless the second
node alone is drained, and each script of Slurm's takes 2 s at most.
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


def write_recipe(work: Path, name: str, demand: str) -> Path:
    """Write a printed script and its table; only its paths are those of a temporary folder, and Slurm's too."""
    block = re.search(rf'```bash title="{name}"\n(.*?)```', PAGE.read_text("utf-8"), re.DOTALL)
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
    script = work / name
    text = block[1].replace("/opt/envcheck/bin", str(work / "bin"))
    text = text.replace("#!/bin/sh\n", f"#!/bin/sh\nexport SLURM_CONF={work}/slurm.conf\n")
    script.write_text(text.replace("/etc/envcheck/node.toml", str(table)), encoding="utf-8")
    for each in (program, script):
        each.chmod(0o755)
    return script


def time_script(argv: list[str], environment: dict[str, str]) -> float:
    """Return how many seconds a script takes by itself."""
    begun = time.monotonic()
    quiet = {**environment, "SLURMD_NODENAME": "node1"}
    subprocess.run(argv, env=quiet, check=False, timeout=60, stdout=subprocess.DEVNULL)
    return round(time.monotonic() - begun, 2)


def read_node(environment: dict[str, str]) -> dict[str, object]:
    """Return the state and the reason that Slurm states."""
    shown = told(["scontrol", "show", "node", "node1"], environment)
    found = {key: re.search(rf"{key}=(.*?)(?: \w+=|\n|$)", shown) for key in ("State", "Reason")}
    return {key: each[1] if each else "" for key, each in found.items()}


def ask_health(demand: str, work: Path, _: str) -> dict[str, object]:
    """Run a Slurm of one node with the health check; return what became of the node."""
    script = write_recipe(work, "envcheck-health.sh", demand)
    lines = f"HealthCheckProgram={script}\nHealthCheckInterval=2\n"
    with slurm(1, "", work, lines) as environment:
        time.sleep(WAITS)
        return {**read_node(environment), "seconds": time_script([str(script)], environment)}


def ask_prolog(demand: str, work: Path, _: str) -> dict[str, object]:
    """Run a job on a node with the prolog; return what became of both."""
    script = write_recipe(work, "envcheck-prolog.sh", demand)
    with slurm(1, "", work, f"Prolog={script}\nPrologFlags=Alloc\n") as environment:
        told(["sbatch", "--output", "/dev/null", "--wrap", "true"], environment)
        time.sleep(WAITS)
        shown = re.search(r"JobState=(\S+)", told(["scontrol", "show", "job"], environment))
        job = shown[1] if shown else ""
        seconds = time_script([str(script)], environment)
        return {**read_node(environment), "job": job, "seconds": seconds}


def ask_nhc(demand: str, work: Path, source: str) -> dict[str, object]:
    """Run LBNL's Node Health Check with the check; it marks the node in Slurm by itself."""
    script = write_recipe(work, "envcheck.nhc", demand)
    (work / "nhc").mkdir()
    script.rename(work / "nhc" / script.name)
    for each in Path(source, "scripts").glob("*.nhc"):
        (work / "nhc" / each.name).write_text(each.read_text("utf-8"), encoding="utf-8")
    (work / "nhc.conf").write_text("* || check_envcheck\n", encoding="utf-8")
    with slurm(1, "", work) as environment:
        values = {
            "INCDIR": work / "nhc", "HELPERDIR": Path(source, "helpers"), "NHC_RM": "slurm",
            "RESULTFILE": work / "status", "HOSTNAME": "node1", "MARK_OFFLINE": "1",
        }  # fmt: skip
        words = [f"{name}={value}" for name, value in values.items()]
        argv = ["bash", f"{source}/nhc", "-c", str(work / "nhc.conf"), "-l", "/dev/null", *words]
        code = subprocess.run(argv, env=environment, check=False, timeout=60).returncode
        found = read_node(environment)
        return {**found, "exit": code, "seconds": time_script(argv, environment)}


WAYS = {"health": ask_health, "prolog": ask_prolog, "nhc": ask_nhc}


def ask_in(way: str, case: str, source: str) -> dict[str, object]:
    """Ask in the stand-in GPU host."""
    from tests.fakes.gpu_host import run_on_gpu_host
    from tests.fakes.machine import GpuHost

    argv = [sys.executable, str(Path(__file__)), "--inside", way, case, source]
    ended = run_on_gpu_host(GpuHost(), argv, timeout=120)
    if ended.returncode:
        raise SystemExit(ended.stdout + ended.stderr)
    return dict(json.loads(ended.stdout.strip().rpartition("\n")[2]))


def main() -> None:
    """Ask in each case, print what Slurm says, and hold it against what it must be."""
    if sys.argv[1:2] == ["--inside"]:
        way, case, source = sys.argv[2:]
        with tempfile.TemporaryDirectory() as name:
            print(json.dumps(WAYS[way](CASES[case], Path(name), source)))
        return
    source = sys.argv[2] if sys.argv[1:2] == ["--nhc"] else ""
    right = True
    for way in WAYS:
        for case in CASES if way != "nhc" or source else ():
            found = ask_in(way, case, source)
            print(f"{way}: {case}: {found}", flush=True)
            drained = "DRAIN" in str(found["State"])
            is_right = drained == (case == "a GPU too few")
            in_time = way == "nhc" or float(str(found["seconds"])) <= LIMIT  # NHC allows 30 s
            right = right and is_right and in_time
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()

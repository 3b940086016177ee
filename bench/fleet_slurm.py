"""Ask the nodes of a real Slurm on this one machine: munge, slurmctld and several slurmd, all below a temporary folder.

    python bench/fleet_slurm.py [--nodes 5]      needs root; apt-get install slurmctld slurmd slurm-client munge

The last three nodes are given away: one is busy with another job, one is drained, and the daemon of one is not started.
The busy one is free again for a second run. Prints each node's answer after each, and exits 1 when one is not what it
must be: a snapshot from each node that takes a job, a reason from each that does not.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONF = """\
ClusterName=envcheck
SlurmctldHost={host}
SlurmctldPort=16817
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={work}/munge.socket
CredType=cred/munge
StateSaveLocation={work}/state
SlurmdSpoolDir={work}/spool-%n
SlurmctldPidFile={work}/slurmctld.pid
SlurmdPidFile={work}/slurmd-%n.pid
SlurmctldLogFile={work}/slurmctld.log
SlurmdLogFile={work}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/linear
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SlurmdTimeout=30
{nodes}
PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@contextlib.contextmanager
def slurm(count: int, down: str, work: Path, lines: str = "") -> Iterator[dict[str, str]]:
    """Start a Slurm of `count` nodes, but for one; yield the environment its commands need; end what was started.

    `lines` are further ones of slurm.conf.
    """
    names = [f"node{at}" for at in range(1, count + 1)]
    host = socket.gethostname()
    rows = (
        f"NodeName={name} NodeHostname={host} Port={17000 + at} CPUs=1"
        for at, name in enumerate(names)
    )
    conf = work / "slurm.conf"
    text = CONF.format(host=host, work=work, nodes="\n".join(rows))
    conf.write_text(text + lines, encoding="utf-8")
    (work / "state").mkdir()
    (work / "munge.key").write_bytes(os.urandom(128))
    (work / "munge.key").chmod(0o400)
    files = [f"--{name}={work}/munge.{end}" for name, end in MUNGE_FILES.items()]
    daemons = [["munged", "--foreground", "--force", *files], ["slurmctld", "-D", "-f", str(conf)]]
    daemons += [["slurmd", "-D", "-N", name, "-f", str(conf)] for name in names if name != down]
    environment = {**os.environ, "SLURM_CONF": str(conf), "PYTHONPATH": str(ROOT)}
    with contextlib.ExitStack() as stack, (work / "words").open("wb") as words:
        for argv in daemons:
            process = subprocess.Popen(argv, env=environment, stdout=words, stderr=words, cwd=work)
            stack.callback(process.wait, 20)
            stack.callback(process.terminate)
            time.sleep(1.0)  # the next one needs this one
        wait(environment, len(daemons) - 2)
        yield environment


MUNGE_FILES = {
    "socket": "socket",
    "key-file": "key",
    "pid-file": "pid",
    "log-file": "log",
    "seed-file": "seed",
}


def wait(environment: dict[str, str], count: int) -> None:
    """Wait until `count` nodes are idle, or drained already."""
    deadline = time.monotonic() + 40
    while True:
        said = told(["sinfo", "--noheader", "--Node", "--format", "%N %T"], environment)
        if said.count(" idle\n") + said.count(" drained\n") >= count:
            return
        if time.monotonic() > deadline:
            raise SystemExit(f"Slurm did not come up: {said}")
        time.sleep(0.5)


def told(argv: list[str], environment: dict[str, str]) -> str:
    """Return what a command printed."""
    done = subprocess.run(
        argv, env=environment, capture_output=True, text=True, check=False, timeout=30
    )
    return done.stdout + done.stderr


def ask(environment: dict[str, str], work: Path) -> dict[str, str]:
    """Run the fleet, and return what each node has become: a snapshot or a kind of failure."""
    argv = [
        sys.executable,
        "-m",
        "envcheck",
        "fleet",
        "run",
        "--engine",
        "slurm",
        "--partition",
        "gpu",
        "-o",
        "out",
    ]
    begun = time.monotonic()
    limits = ["--timeout", "30", "--connect-timeout", "5"]
    code = subprocess.run(
        [*argv, *limits], env=environment, cwd=work, check=False, timeout=300
    ).returncode
    read = {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in (work / "out").glob("*.json")
    }
    kinds = {host: document.get("kind", "snapshot") for host, document in sorted(read.items())}
    print(f"exit code {code} after {time.monotonic() - begun:.1f} s: {kinds}", flush=True)
    return kinds


def main() -> None:
    """Ask the nodes twice and hold the answers against what they must be."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=5)
    count = parser.parse_args().nodes
    *working, busy, drained, down = (f"node{at}" for at in range(1, count + 1))
    expected = dict.fromkeys(working, "snapshot") | dict.fromkeys(
        (busy, drained, down), "unreachable"
    )
    with tempfile.TemporaryDirectory() as name, slurm(count, down, Path(name)) as environment:
        told(
            ["scontrol", "update", f"nodename={drained}", "state=drain", "reason=bench"],
            environment,
        )
        told(
            ["sbatch", f"--nodelist={busy}", "--output=/dev/null", "--wrap=sleep 300"], environment
        )
        time.sleep(2)
        print(told(["sinfo", "--version"], environment), end="")
        print(
            told(["sinfo", "--noheader", "--Node", "--format", "%N %T"], environment),
            end="",
            flush=True,
        )
        first = ask(environment, Path(name))
        told(["scancel", "--user=root"], environment)
        time.sleep(2)
        second = ask(environment, Path(name))
    sys.exit(0 if first == expected and second == expected | {busy: "snapshot"} else 1)


if __name__ == "__main__":
    main()

"""An interrupted or terminated run keeps its results and leaves no process or file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fleet.command import ROOT
from tests.fleet.test_slurm import kinds
from tests.patience import PATIENCE

pytestmark = pytest.mark.needs("linux")
SLOW = "#!/bin/sh\nexec sleep 61.{number}\n"
SINFO = "#!/bin/sh\nfor number in 1 2 3 4 5 6 7 8; do echo gpu0$number idle; done\n"
SRUN = """#!/bin/sh
for word; do case $word in --nodelist=*) node=${word#*=};; esac; done
while [ "$1" != sh ]; do shift; done
case $node in gpu01|gpu02) exec "$@";; esac
touch "$STANDIN/$node"
"""


def program(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def interrupted(
    folder: Path,
    number: signal.Signals,
    after: int,
    *arguments: str,
    path: str = os.environ["PATH"],
) -> subprocess.Popen[str]:
    """Start a run, send it a signal when `after` hosts have answered, and wait until it has ended."""
    (folder / "temporary").mkdir(exist_ok=True)
    own = {
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(folder / "temporary"),
        "PATH": path,
        "STANDIN": str(folder),
    }
    argv = [sys.executable, "-m", "envcheck", "fleet", "run", "-o", "out", *arguments]
    environment = {**os.environ, **own}
    process = subprocess.Popen(
        argv, cwd=folder, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    read = 0
    while read < after:
        line = process.stderr.readline()
        assert line, "it ended too early"
        read += line.endswith(": read\n")
    process.send_signal(number)
    process.communicate(timeout=PATIENCE)
    return process


def left(mark: str) -> list[str]:
    listed = subprocess.run(
        ["ps", "-eo", "args"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [line for line in listed if mark in line]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
def test_ansible_and_its_children_end(number: signal.Signals, tmp_path: Path) -> None:
    hosts = "one ansible_connection=local\ntwo ansible_connection=local ansible_shell_executable={}/slow/sh\n"
    program(tmp_path / "slow/sh", SLOW.format(number=os.getpid()))
    (tmp_path / "hosts.ini").write_text(hosts.format(tmp_path), encoding="utf-8")
    process = interrupted(tmp_path, number, 1, "-i", "hosts.ini")
    assert process.returncode == (130 if number == signal.SIGINT else -number)
    assert kinds(tmp_path / "out") == {"one": "read"}
    assert left(str(tmp_path)) == []
    assert left(f"sleep 61.{os.getpid()}") == []
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_slurm_reads_no_further_node(number: signal.Signals, tmp_path: Path) -> None:
    program(tmp_path / "bin/sinfo", SINFO)
    program(tmp_path / "bin/srun", SRUN + f"exec sleep 62.{os.getpid()}\n")
    path = f"{tmp_path}/bin:/usr/bin:/bin"
    process = interrupted(tmp_path, number, 2, "--engine", "slurm", "--forks", "2", path=path)
    assert process.returncode == (130 if number == signal.SIGINT else -number)
    assert kinds(tmp_path / "out") == {"gpu01": "read", "gpu02": "read"}
    assert left(f"sleep 62.{os.getpid()}") == []
    assert len(list(tmp_path.glob("gpu0*"))) <= 2, "nodes were read after the interrupt"
    assert list((tmp_path / "temporary").iterdir()) == []

"""Slurm as the engine, with fake programs `sinfo` and `srun`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envcheck.fleet.slurm import Node, parse_nodes
from tests.fleet.command import fleet

pytestmark = pytest.mark.needs("posix")

SINFO = """#!/bin/sh
echo "$@" >> "$STANDIN/sinfo.log"
printf 'gpu01 idle\\ngpu02 down*\\ngpu03 mixed\\ngpu04 idle~\\ngpu05 allocated\\ngpu06 idle\\n'
"""
# A fake srun: runs the task here, as the node that --nodelist names.
SRUN = """#!/bin/sh
for word; do case $word in --nodelist=*) node=${word#*=};; esac; done
echo "$node $*" >> "$STANDIN/srun.log"
while [ "$1" != sh ]; do shift; done
case $node in
  gpu04) [ -e "$STANDIN/slept" ] || { touch "$STANDIN/slept"; exec sleep 3600; };;
  gpu05) echo 'srun: error: gpu05: anna: Unable to allocate resources: Requested nodes are busy: hf_abcDEF0123456789abcd' >&2; exit 1;;
  gpu06) echo 'login banner'; printf 'ENVCHECK-SNAPSHOT {"a": \\033]0;owned\\007 [[[\\n'; exit 0;;
esac
exec "$@"
"""


@pytest.fixture
def cluster(tmp_path: Path) -> dict[str, str]:
    """Put the stand-ins on PATH; a node's own temporary files go to a folder of their own."""
    for name, text in (("sinfo", SINFO), ("srun", SRUN)):
        (tmp_path / name).write_text(text, encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "node").mkdir()
    return {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "STANDIN": str(tmp_path),
        "TMPDIR": str(tmp_path / "node"),
    }


def kinds(folder: Path) -> dict[str, str]:
    found = {
        path.stem: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")
    }
    return {name: document.get("kind", "read") for name, document in found.items()}


def run(tmp_path: Path, cluster: dict[str, str], *more: str) -> tuple[int, list[str]]:
    limits = ("--timeout", "15", "--connect-timeout", "1", "--partition", "gpu")
    done = fleet("run", "--engine", "slurm", "-o", "out", *limits, *more, cwd=tmp_path, env=cluster)
    return done.returncode, done.stderr.splitlines()


def test_every_node_is_a_row_and_a_further_run_reads_the_others(
    tmp_path: Path, cluster: dict[str, str]
) -> None:
    code, lines = run(tmp_path, cluster)
    expected = {
        "gpu01": "read",
        "gpu02": "unreachable",
        "gpu03": "read",
        "gpu04": "hung",
        "gpu05": "unreachable",
    }
    assert kinds(tmp_path / "out") == {**expected, "gpu06": "broken"}
    assert code == 3
    reason = json.loads((tmp_path / "out/gpu05.json").read_text(encoding="utf-8"))["reason"]
    assert "gpu05" in reason
    assert "Requested nodes are busy: ***" in reason
    assert lines[0] == "6 hosts to ask"
    assert lines[-1] == "2 hosts read, 4 without an answer."
    assert "\x1b" not in "".join(lines)
    assert "--partition gpu" in (tmp_path / "sinfo.log").read_text(encoding="utf-8")
    commands = (tmp_path / "srun.log").read_text(encoding="utf-8").splitlines()
    starts = [line.split(" sh -c ")[0] for line in commands if "--nodes=1" in line]
    assert len(starts) == 5, "a node that is down is skipped"
    assert all(
        "--ntasks=1" in line and "--time=1" in line and "--partition=gpu" in line for line in starts
    )
    (tmp_path / "srun.log").unlink()
    code, lines = run(tmp_path, cluster)
    assert (code, lines[0]) == (3, "4 hosts to ask")
    assert lines[-1] == "1 host read, 3 without an answer, 2 had answered before."
    assert kinds(tmp_path / "out") == {**expected, "gpu04": "read", "gpu06": "broken"}


def test_nothing_remains_on_a_node_and_the_interpreter_is_one_word(
    tmp_path: Path, cluster: dict[str, str]
) -> None:
    (tmp_path / "sinfo").write_text("#!/bin/sh\necho 'gpu01 idle'\n", encoding="utf-8")
    code, lines = run(tmp_path, cluster, "--python", "/nowhere/py thon;touch $(echo owned)")
    assert (code, lines[0]) == (0, "1 host to ask")
    left = [path.name for path in (tmp_path / "node").iterdir() if not path.is_dir()]
    assert left == []
    assert not list(tmp_path.rglob("owned"))
    assert "python=/nowhere/py thon;touch $(echo owned)" in (tmp_path / "srun.log").read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            "echo 'slurm_load_partitions: Unable to contact slurm controller' >&2; exit 1",
            "Unable to contact slurm",
        ),
        ("true", "the partition is empty"),
        (None, "run this command on a machine that submits jobs to Slurm"),
    ],
)
def test_a_missing_slurm_is_reported(
    script: str | None, message: str, tmp_path: Path, cluster: dict[str, str]
) -> None:
    if script is None:
        (tmp_path / "sinfo").unlink()
        cluster = {**cluster, "PATH": str(tmp_path)}  # this machine may have a Slurm of its own
    else:
        (tmp_path / "sinfo").write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    code, lines = run(tmp_path, cluster)
    assert code == 2
    assert message in lines[-1]


def test_nodes_are_parsed_without_the_suffixes_of_their_states() -> None:
    text = "a idle\na idle\nb down*\nc DRAINED~\nd allocated+\n\nodd line of four\n"
    assert parse_nodes(text) == [
        Node("a", "idle"),
        Node("b", "down"),
        Node("c", "drained"),
        Node("d", "allocated"),
    ]

"""A fleet of fake hosts behind real sshd, each a network namespace: none is lost, none delays others."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.machine import FakeGpu, GpuHost
from tests.fakes.ssh_hosts import SshHost, ssh_hosts
from tests.fleet.command import document, fleet

pytestmark = pytest.mark.needs("sshd")
FEW = 4  # are asked beside the one that hangs
COUNT = 12  # with a verdict of their own, the odd ones beside them; bench/fleet.py has 200
K80 = FakeGpu(name="Tesla K80", device_id="102d", capability="3.7")
NOUVEAU = FakeGpu(bound_to="nouveau")
# What a host is, and the verdict and cause its row must have where a GPU is expected to run torch
# 2.6.
KINDS = {
    "fine": (GpuHost(driver="550.{}.01"), "compatible", ""),
    "old": (GpuHost(driver="470.{}.02", cuda=11040), "incompatible", "driver-too-old"),
    "stale": (
        GpuHost(driver="550.{}.01", kernel_driver="535.261.03"),
        "incompatible",
        "driver-library-mismatch",
    ),
    "nouveau": (
        GpuHost(kernel_driver=None, nouveau=True, gpus=(NOUVEAU,)),
        "incompatible",
        "driver-nouveau",
    ),
    "k80": (
        GpuHost(driver="470.{}.02", cuda=11040, gpus=(K80,)),
        "incompatible",
        "gpu-arch-too-old",
    ),
    "bare": (GpuHost(driver="550.{}.01", libraries=False), "incompatible", "libcuda-not-on-path"),
}
NO_PYTHON = dict.fromkeys(
    ("python", "python3", *(f"python3.{minor}" for minor in range(8, 15))), "exit 1"
)
GARBAGE = """[ "$1" = -c ] || printf 'ENVCHECK-SNAPSHOT {"a": \\033]0;owned\\007\\033[2J\\n'"""
ODD = {
    "dead": (SshHost(), "unreachable"),
    "hanging": (SshHost(GpuHost(), command="sleep 600"), "hung"),
    "too-old": (SshHost(GpuHost(programs=NO_PYTHON)), "too-old"),
    "garbage": (SshHost(GpuHost(programs={"python3": GARBAGE})), "broken"),
}
SLOW = SshHost(GpuHost(), command='sleep 0.4; exec sh -c "$SSH_ORIGINAL_COMMAND"')


def machine(kind: str, number: int) -> GpuHost:
    """Return a host of a kind, with a driver and a CUDA toolkit (its version file) of its own."""
    base, toolkit = KINDS[kind][0], f"{10 + number % 3}.{number // 3}.1"
    text = json.dumps({"cuda": {"name": "CUDA SDK", "version": toolkit}})
    return GpuHost(**{
        **vars(base),
        "driver": base.driver.format(100 + number),
        "files": {"/usr/local/cuda/version.json": text},
    })  # fmt: skip


def expected() -> dict[str, tuple[str, str]]:
    """Return the verdict and cause each host must have, by its name."""
    kinds = list(KINDS)
    named = {
        f"{kinds[at % len(kinds)]}{at:03}": KINDS[kinds[at % len(kinds)]][1:] for at in range(COUNT)
    }
    odd = {name: ("undetermined", cause) for name, (_, cause) in ODD.items()}
    return {**named, **odd, "slow": ("compatible", "")}


@pytest.fixture(scope="module")
def inventory() -> Iterator[Path]:
    """Start the hosts, some of which never answer as they should."""
    names = [name for name in expected() if name[-3:].isdigit()]
    hosts = {name: SshHost(machine(name[:-3], int(name[-3:]))) for name in names}
    odd = {name: host for name, (host, _) in ODD.items()}
    with ssh_hosts({"hanging": odd.pop("hanging"), **odd, "slow": SLOW, **hosts}) as file:
        yield file


Asked = tuple[Path, "subprocess.CompletedProcess[str]"]
AMPLE = ("--timeout", "600", "--connect-timeout", "60")  # for a busy machine


@pytest.fixture(scope="module")
def asked_beside_one_that_hangs(inventory: Path, tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """Ask a few of them, and at the same time one that hangs."""
    folder = tmp_path_factory.mktemp("fleet")
    few = ",".join(["hanging", *list(expected())[:FEW]])
    limits = ("--timeout", "20", "--connect-timeout", "60", "--forks", "2", "--limit", few)
    return folder, fleet("run", "-i", inventory, "-o", "out", *limits, cwd=folder)


@pytest.fixture(scope="module")
def asked(asked_beside_one_that_hangs: Asked, inventory: Path) -> Asked:
    """Ask the others, each once."""
    folder = asked_beside_one_that_hangs[0]
    limits = (*AMPLE, "--forks", "16", "--limit", "!hanging")
    return folder, fleet("run", "-i", inventory, "-o", "out", *limits, cwd=folder)


def test_a_host_that_hangs_holds_up_no_other(asked_beside_one_that_hangs: Asked) -> None:
    lines = asked_beside_one_that_hangs[1].stderr.splitlines()
    assert lines[0] == f"{FEW + 1} hosts to ask"
    assert answered(lines)[-1] == "hanging", "it was asked among the first"
    assert lines[-1] == f"{FEW} hosts read, 1 without an answer."


def answered(lines: list[str]) -> list[str]:
    return [line.split(" ", 1)[1].split(":")[0] for line in lines if line.startswith("[")]


def test_every_host_has_its_expected_verdict_and_cause(asked: Asked) -> None:
    folder, done = asked
    assert done.returncode == 3, done.stderr
    judged_for = ("--expect", "gpu", "--for", "torch==2.6.0", "--golden", "fine000")
    report = fleet("report", "out", *judged_for, "--format", "json", cwd=folder)
    found = {host["host"]: (host["verdict"], host["cause"]) for host in document(report)["hosts"]}
    assert found == expected()
    assert len({row for row in found.values() if row[0] != "undetermined"}) >= 5
    assert report.returncode == 1
    rows = {host["host"]: host for host in document(report)["hosts"]}
    assert rows["fine000"]["drift"] == []
    assert any(item.startswith("Driver: 470.101.02") for item in rows["old001"]["drift"])
    assert any(item.startswith("CUDA: 11.0 in /usr/local/cuda") for item in rows["old001"]["drift"])
    assert rows["fine000"]["machine"]["CUDA"].startswith("10.0 in")


def test_each_answer_is_printed_once_without_terminal_escapes(asked: Asked) -> None:
    lines = asked[1].stderr.splitlines()
    others = set(expected()) - {"hanging", *list(expected())[:FEW]}
    assert lines[0] == f"{len(others)} hosts to ask"
    assert sorted(answered(lines)) == sorted(others)
    counts = f"{COUNT + 1 - FEW} hosts read, {len(ODD) - 1} without an answer, {FEW} had answered before."
    assert lines[-1] == counts
    assert "\x1b" not in asked[1].stderr
    assert "\x07" not in asked[1].stderr


def test_only_connections_for_the_next_run_remain(asked: Asked, inventory: Path) -> None:
    lines = subprocess.run(
        ["ps", "-eo", "args"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    ours = [line for line in lines if str(inventory.parent) in line]
    assert [line for line in ours if line.startswith("ssh ") or "ansible-playbook" in line] == []


def test_a_further_run_reads_only_hosts_without_an_answer(asked: Asked, inventory: Path) -> None:
    folder = asked[0]
    before = {path.name: path.stat().st_mtime_ns for path in (folder / "out").glob("*[0-9].json")}
    # Without known host keys and open connections: keys are checked, and no host is read.
    text = (
        inventory.read_text(encoding="utf-8")
        .replace("known_hosts", "no_known_hosts")
        .replace("cp-%C", "no-%C")
    )
    strangers = inventory.with_name("strangers.ini")
    strangers.write_text(text, encoding="utf-8")
    done = fleet("run", "-i", strangers, "-o", "out", *AMPLE, "--limit", "!hanging", cwd=folder)
    assert done.returncode == 3
    assert done.stderr.startswith("3 hosts to ask\n"), done.stderr
    assert (
        done.stderr.splitlines()[-1]
        == f"0 hosts read, 3 without an answer, {COUNT + 1} had answered before."
    )
    assert done.stderr.count("Host key verification failed") == 2
    assert {
        path.name: path.stat().st_mtime_ns for path in (folder / "out").glob("*[0-9].json")
    } == before

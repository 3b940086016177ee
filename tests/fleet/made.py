"""Folders of results for tests: recordings of tests/hosts under the names of hosts."""

from __future__ import annotations

from pathlib import Path

from envcheck.fleet.results import (
    BROKEN,
    HUNG,
    TOO_OLD,
    UNREACHABLE,
    Failure,
    HostResult,
    write_result,
)
from envcheck.model import Snapshot
from tests.hosts.test_hosts import snapshot_of

MEMBERS: dict[str, Snapshot | Failure | str] = {
    "gpu001": "docker-with-gpu",
    "gpu002": "docker-with-gpu",
    "gpu003": "driver-470-for-cuda-12",
    "gpu004": Failure(UNREACHABLE, "No route to host"),
    "gpu005": Failure(HUNG, "Timed out"),
    "gpu006": Failure(TOO_OLD, "no Python 3.8 or newer on this host"),
    "gpu007": Failure(BROKEN, "\x1b]0;owned\x07=cmd()"),
}
WORKING = ("gpu001", "gpu002")


def make(folder: Path, *hosts: str) -> Path:
    """Write the results of these hosts, or of all, and return the folder."""
    folder.mkdir(exist_ok=True)
    for host in hosts or MEMBERS:
        member = MEMBERS[host]
        write_result(
            folder, HostResult(host, snapshot_of(member) if isinstance(member, str) else member)
        )
    return folder

"""Five composed clusters with known trouble, and what the first screen must name of each.

Composed: recordings of tests/hosts under the names of hosts, with drivers, GPUs and answers changed. `EXPECTED` was written before
the report could say it: for each section of the first screen its title without counts, and the hosts that it names.
"""

from __future__ import annotations

from envcheck.fleet.results import DENIED, HUNG, UNREACHABLE, Failure
from envcheck.model import Known, Snapshot, Source, replace
from tests.fleet.test_outliers import XEON, machine
from tests.hosts.test_hosts import snapshot_of

Answers = dict[str, "Snapshot | Failure"]


def plain(driver: str) -> Snapshot:
    """Return a working machine without frameworks, which runs with any driver."""
    snapshot = snapshot_of("docker-with-gpu")
    release = Known(driver, Source("file", "composed"))
    facts = snapshot.facts
    return replace(snapshot, facts=replace(facts, driver=replace(facts.driver, release=release)))


def drivers_left_behind() -> Answers:
    """Compose 19 hosts: 11 were upgraded to 550, 6 wait with 535; 470 and 418 were forgotten."""
    drivers = ["550.163.01"] * 11 + ["535.183.01"] * 6 + ["470.256.02", "418.226.00"]
    return {f"gpu{number:03}": plain(driver) for number, driver in enumerate(drivers, 1)}


def lost_gpu_and_dead_host() -> Answers:
    """Compose 12 hosts with 8 GPUs: gpu007 has lost one, gpu009 does not answer; one login node."""
    hosts: Answers = {f"gpu{number:03}": machine(8) for number in range(1, 13)}
    silent = Failure(UNREACHABLE, "ssh: connect to host gpu009 port 22: No route to host")
    return {**hosts, "gpu007": machine(7), "gpu009": silent, "login1": machine(0, XEON)}


def three_causes() -> Answers:
    """Compose 9 hosts: two have a CPU build, one no driver; their accounts differ in nothing else."""
    hosts: Answers = {f"gpu{number:03}": machine(1) for number in range(1, 7)}
    cpu = snapshot_of("torch-cpu-beside-gpu")
    return {**hosts, "ws01": cpu, "ws02": cpu, "ws03": snapshot_of("no-driver")}


def logins() -> Answers:
    """Compose 30 hosts of one image: two refuse the login, one hangs."""
    hosts: Answers = {f"node{number:02}": machine(4) for number in range(30)}
    refused = Failure(DENIED, "Permission denied (publickey).")
    return {**hosts, "node03": refused, "node11": refused, "node29": Failure(HUNG, "timed out")}


def healthy() -> Answers:
    """Compose 40 hosts of two kinds, half of each; nothing is wrong with any."""
    big: Answers = {f"a100-{number:02}": machine(8) for number in range(20)}
    small: Answers = {
        f"l40s-{number:02}": machine(4, XEON, name="NVIDIA L40S") for number in range(20)
    }
    return big | small


CLUSTERS = (drivers_left_behind, lost_gpu_and_dead_host, three_causes, logins, healthy)
EXPECTED: dict[str, dict[str, list[str]]] = {
    "drivers_left_behind": {
        "Driver differs": [*(f"gpu{number:03}" for number in range(12, 18)), "gpu018", "gpu019"]
    },
    "lost_gpu_and_dead_host": {"gpu-hardware-fault": ["gpu007"], "unreachable": ["gpu009"]},
    "three_causes": {"framework-cpu-build": ["ws01", "ws02"], "driver-missing": ["ws03"]},
    "logins": {"denied": ["node03", "node11"], "hung": ["node29"]},
    "healthy": {},
}

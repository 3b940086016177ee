"""Machines that are well, or merely odd: on each of them any finding would be a false alarm."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envcheck.model import COMPATIBLE
from tests.rules.factory_machine import known
from tests.scenarios.machine import (
    A100,
    MULTIARCH,
    NODE,
    RTX4090,
    Card,
    Machine,
    judge,
    told,
    torch,
)

LAPTOP = Card("25a2", "NVIDIA GeForce RTX 3050 Laptop GPU", "8.6", "0000:01:00.0")
INTEL = {
    f"/sys/bus/pci/devices/0000:00:02.0/{name}": text
    for name, text in (("vendor", "0x8086\n"), ("device", "0x46a6\n"), ("class", "0x030000\n"))
}
REFUSED = {"error": 4, "text": "Insufficient Permissions"}
SPLIT = {
    "mig_enabled": True,
    "mig_devices": [{"uuid": "MIG-1111", "name": "NVIDIA A100 MIG 1g.5gb"}],
}
TWO_SPLIT = {
    **SPLIT,
    "mig_devices": [{"uuid": "MIG-1111", "name": "a"}, {"uuid": "MIG-2222", "name": "b"}],
}
EIGHT = tuple(replace(A100, slot=f"0000:{index:02x}:00.0") for index in range(7, 15))
SWITCH = Card("1af1", "", "", "0000:c0:00.0", "nvidia-nvswitch", "0x068000", listed=False)
FABRIC = {
    "/usr/bin/nv-fabricmanager": "x",
    "/var/run/nvidia-fabricmanager/nv-fabricmanager.pid": "1234\n",
    "/proc/1234/comm": "nv-fabricmanage\n",
}
FABRIC_VERSION = {
    "argv": ["/usr/bin/nv-fabricmanager", "--version"],
    "stdout": "Fabric Manager version is : 550.163.01\n",
}
DOCKER = {"/.dockerenv": ""}
OWNED_BY_NOBODY = {
    f"/dev/{name}": {**NODE, "owner": "65534:65534"}
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm")
}
NO_NVML = {f"{MULTIARCH}/libnvidia-ml.so.1": None, f"{MULTIARCH}/libnvidia-ml.so.550.163.01": None}
DESKTOP = [{"pid": 1500, "name": "Xorg", "memory_bytes": 300 << 20}]
OTHERS = {"nouveau": "0fc6", "vfio-pci": "20b0"}


def with_card(*cards: Card, **more: object) -> Machine:
    return replace(Machine(cards=cards or (A100,)), **more)  # type: ignore[arg-type]


HARDWARE = {
    "server": Machine(),
    "desktop-open-module": with_card(RTX4090, open_module=True, driver="570.124.06", cuda=12080),
    "desktop-in-use": with_card(
        replace(RTX4090, told={"processes": DESKTOP, "memory_used_bytes": 600 << 20})
    ),
    "optimus": with_card(LAPTOP, files=INTEL, driver="535.183.01", cuda=12020),
    "optimus-asleep": with_card(
        replace(LAPTOP, told={"memory_used_bytes": {"error": 999, "text": "Unknown Error"}})
    ),
    "dgx": Machine(cards=(*EIGHT, SWITCH), files=FABRIC, commands=(FABRIC_VERSION,)),
    "hgx-passed-through-without-switches": Machine(cards=EIGHT),
    "mig": with_card(replace(A100, told=SPLIT)),
    "mig-one-chosen-of-two": with_card(
        replace(A100, told=TWO_SPLIT), env={"CUDA_VISIBLE_DEVICES": "MIG-2222"}
    ),
    "mig-in-a-container": with_card(
        replace(
            A100,
            told={
                **SPLIT,
                "memory_bytes": REFUSED,
                "memory_used_bytes": REFUSED,
                "processes": REFUSED,
            },
        ),
        files=DOCKER,
    ),
    "vgpu": with_card(
        Card("2230", "NVIDIA RTXA6000-48Q", "8.6", "0000:02:00.0"), driver="535.183.06", cuda=12020
    ),
    "cloud-l4": with_card(Card("27b8", "NVIDIA L4", "8.9", "0000:00:03.0")),
    "id-newer-than-the-table": with_card(
        Card("3fff", "NVIDIA GeForce RTX 6090", "8.9"), driver="590.48.01"
    ),
    "exclusive-and-idle": with_card(replace(A100, told={"compute_mode": "exclusive-process"})),
    "uvm-loaded-on-demand": Machine(uvm=False),
    **{
        f"the-other-gpu-keeps-{driver}": with_card(
            A100, Card(device, "", "", "0000:0a:00.0", bound_to=driver, listed=False)
        )
        for driver, device in OTHERS.items()
    },
}
LAYOUTS = {
    "lib64": with_card(libraries="/usr/lib64", release="ID=fedora\nVERSION_ID=41\n"),
    "arch": with_card(libraries="/usr/lib", release="ID=arch\n", driver="580.95.05", cuda=13000),
    "suse": with_card(
        libraries="/usr/lib64", release='ID="opensuse-leap"\nID_LIKE="suse opensuse"\n'
    ),
    "nixos": with_card(
        libraries="/run/opengl-driver/lib",
        cached=False,
        env={"LD_LIBRARY_PATH": "/run/opengl-driver/lib"},
        release="ID=nixos\n",
    ),
    "ubuntu-nvidia-branch-folder": with_card(libraries="/usr/lib/nvidia-550"),
    "a-second-copy-of-the-same-release": with_card(
        files={f"{MULTIARCH}/nvidia/current/libcuda.so.550.163.01": "\x7fELF\x02"}
    ),
}
CONTAINERS = {
    "docker": with_card(
        files=DOCKER, facts={"is_root": True}, env={"NVIDIA_VISIBLE_DEVICES": "all"}
    ),
    "docker-second-gpu-only": with_card(
        replace(A100, listed=False),
        replace(A100, slot="0000:0a:00.0"),
        files=DOCKER,
        nodes=("nvidia1", "nvidiactl", "nvidia-uvm"),
    ),
    "docker-compute-without-utility": with_card(files={**DOCKER, **NO_NVML}),
    "docker-nothing-listed-in-dev": with_card(files=DOCKER, nodes=()),
    "podman-rootless": with_card(
        files={"/run/.containerenv": "", **OWNED_BY_NOBODY}, env={"container": "podman"}
    ),
    "pod": with_card(env={"KUBERNETES_SERVICE_HOST": "10.0.0.1", "NVIDIA_VISIBLE_DEVICES": "void"}),
    "pod-libraries-by-path": with_card(
        env={"KUBERNETES_SERVICE_HOST": "10.0.0.1", "LD_LIBRARY_PATH": "/usr/local/nvidia/lib64"},
        libraries="/usr/local/nvidia/lib64",
        cached=False,
    ),
    "apptainer": with_card(
        env={"APPTAINER_CONTAINER": "/x.sif", "LD_LIBRARY_PATH": "/.singularity.d/libs"},
        libraries="/.singularity.d/libs",
        cached=False,
    ),
    "lxc": with_card(files={"/run/systemd/container": "lxc"}),
    "job-with-a-device-cgroup": with_card(
        A100, replace(A100, slot="0000:08:00.0", listed=False), env={"CUDA_VISIBLE_DEVICES": "0"}
    ),
}
DRIVERS = {
    release: with_card(driver=release, cuda=cuda)
    for release, cuda in (
        ("525.147.05", 12000),
        ("545.29.06", 12030),
        ("570.211.01", 12080),
        ("580.126.09", 13000),
        ("590.48.01", 13010),
        ("595.45.04", 13020),
        ("610.43.02", 13030),
    )
}
WELL = {**HARDWARE, **LAYOUTS, **CONTAINERS, **DRIVERS}


@pytest.mark.parametrize("name", WELL)
def test_nothing_is_found(name: str) -> None:
    report = judge(WELL[name], torch())
    assert (report.verdict, told(report)) == (COMPATIBLE, "")
    assert report.goal == "gpu"


def test_nothing_is_found_on_arm() -> None:
    card = Card("2342", "NVIDIA GH200 480GB", "9.0", "0009:01:00.0")
    files = {"/proc/cpuinfo": "processor\t: 0\nFeatures\t: fp asimd sve\n"}
    folder = "/usr/lib/aarch64-linux-gnu"
    machine = with_card(
        card, open_module=True, libraries=folder, facts={"machine": "aarch64"}, files=files
    )
    arm = replace(torch(), compute_capabilities=known(("sm_90",)))
    report = judge(machine, arm, python={"architecture": known("aarch64")})
    assert (report.verdict, told(report)) == (COMPATIBLE, "")

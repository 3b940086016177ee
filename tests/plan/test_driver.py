"""The driver's plan for composed machines: a distribution's release, its cards, and its state.

The expected commands were written by hand from the facts on each release (NVIDIA's guide, the
distributions' indexes and manuals) before the planner was run. No machine here is a real one.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from envcheck import api
from envcheck.actions import Action, InstallSystemPackages
from envcheck.cli.group import run
from envcheck.host.data_files import read_data
from envcheck.model import DkmsModule, Plan, RequestError, UserError, replace
from envcheck.plan.build import verdict_on
from envcheck.plan.driver import DriverRequest, plan_driver
from envcheck.remedies import write_fix
from envcheck.remedies.situation import Situation
from envcheck.rules.catalogue import catalogue
from envcheck.rules.engine import judge_release
from tests.rules.factory_machine import NO_DRIVER, NONE, context, driver, gpu, known

# Cards by their compute capability.
K80, M60, GTX1080, V100, T4, A100 = "3.7", "5.2", "6.1", "7.0", "7.5", "8.0"
RTX4090, H100, RTX5090 = "8.9", "9.0", "12.0"

# Releases of distributions: what os-release and uname say.
DEB11 = ("debian", "", "11", "5.10.0-35-amd64")
DEB12 = ("debian", "", "12", "6.1.0-56-amd64")
CLOUD = ("debian", "", "12", "6.1.0-56-cloud-amd64")
DEB13 = ("debian", "", "13", "6.12.117+deb13-amd64")
UB20 = ("ubuntu", "debian", "20.04", "5.4.0-216-generic")
UB22 = ("ubuntu", "debian", "22.04", "5.15.0-160-generic")
UB24 = ("ubuntu", "debian", "24.04", "6.17.0-20-generic")
UB26 = ("ubuntu", "debian", "26.04", "7.0.0-10-generic")
EL8 = ("rocky", "rhel fedora", "8.10", "4.18.0-553.el8_10.x86_64")
EL9 = ("rocky", "rhel centos fedora", "9.6", "5.14.0-570.el9.x86_64")
EL10 = ("almalinux", "rhel centos fedora", "10.0", "6.12.0-55.el10.x86_64")
RHEL9 = ("rhel", "fedora", "9.6", "5.14.0-570.el9.x86_64")
FC43 = ("fedora", "", "43", "6.17.1-300.fc43.x86_64")
SLES15 = ("sles", "suse", "15.6", "6.4.0-150600.23-default")
AMZN = ("amzn", "fedora", "2023", "6.1.150-174.amzn2023.x86_64")
ARCH = ("arch", "", "", "7.0.1-arch1-1")

# Pieces of plans.
OLD = "components main contrib non-free"
NEW = f"{OLD} non-free-firmware"
HEAD11 = "install linux-headers-5.10.0-35-amd64 linux-headers-amd64"
HEAD12 = "install linux-headers-6.1.0-56-amd64 linux-headers-amd64"
HEAD13 = "install linux-headers-6.12.117+deb13-amd64 linux-headers-amd64"
PLAIN12 = (NEW, "update", HEAD12)
PLAIN13 = (NEW, "update", HEAD13)
DRIVER12 = "install nvidia-driver firmware-misc-nonfree"
PIN580 = "install nvidia-driver-pinning-580"
UBUNTU = ("update", "install ubuntu-drivers-common", "ubuntu-drivers install")
MOK = "mokutil --import /var/lib/dkms/mok.pub"
GRUBBY = "grubby --args=nouveau.modeset=0 rd.driver.blacklist=nouveau --update-kernel=ALL"
CRB = ("install epel-release", "dnf config-manager --enable crb")
HEAD_EL = "install kernel-devel-matched kernel-headers"
PURE = dict.fromkeys(("module_file", "module_file_signed", "dkms"), NONE)


def nvidia(name: str) -> tuple[str, ...]:
    """Return how NVIDIA's repository is added to Debian: its key is fetched and looked at."""
    add = ("update", "install ca-certificates curl gpg", f"fetch {name}", f"add {name}")
    return (NEW, *add, "update")


def nvidia_el(name: str) -> tuple[str, str]:
    return (f"fetch {name}", f"add {name}")


def fresh(**more: Any) -> dict[str, Any]:
    """Return the state of a machine where no driver is."""
    return {**NO_DRIVER, **PURE, **more}


BUILT = {"module_file": known("/lib/modules/x/updates/dkms/nvidia.ko")}
SIGNED, UNSIGNED = ({"module_file_signed": known(value)} for value in (True, False))
OTHER_KERNEL = {"dkms": known((DkmsModule("535.309.01", "6.1.0-50-amd64", "installed"),))}
NOUVEAU = {"nouveau_loaded": known(True)}
SECURE = {"secure_boot": known(True)}
NVSWITCH = {"nvswitch_present": known(True)}

Machine = tuple[
    str, tuple[str, str, str, str], tuple[str, ...], str, dict[str, Any], tuple[str, ...]
]
# name, system, cards, lowest driver, host and driver facts, the expected commands
MACHINES: tuple[Machine, ...] = (
    ("d11-k80", DEB11, (K80,), "", {}, (OLD, "update", HEAD11, "install nvidia-tesla-470-driver", "reboot")),
    ("d11-1080", DEB11, (GTX1080,), "", {}, (OLD, "update", HEAD11, DRIVER12, "reboot")),
    ("d11-a100", DEB11, (A100,), "450.80.02", {}, (OLD, "update", HEAD11, DRIVER12, "reboot")),
    ("d11-5090", DEB11, (RTX5090,), "", {}, ()),
    ("d12-k80", DEB12, (K80,), "", {}, (*PLAIN12, "install nvidia-tesla-470-driver", "reboot")),
    ("d12-t4", DEB12, (T4,), "525.60.13", {}, (*PLAIN12, DRIVER12, "reboot")),
    ("d12-v100-570", DEB12, (V100,), "570", {},
     (*nvidia("debian12"), HEAD12, PIN580, "install cuda-drivers-580", "reboot")),
    ("d12-a100-570", DEB12, (A100,), "570", {},
     (*nvidia("debian12"), HEAD12, PIN580, "install nvidia-open-580", "reboot")),
    ("d12-5090", DEB12, (RTX5090,), "", {},
     (*nvidia("debian12"), HEAD12, PIN580, "install nvidia-open-580", "reboot")),
    ("d12-5090-secure", DEB12, (RTX5090,), "", SECURE,
     (*nvidia("debian12"), HEAD12, PIN580, "install nvidia-open-580", "install mokutil openssl", MOK, "reboot")),
    ("d12-cloud-t4", CLOUD, (T4,), "", {},
     (NEW, "update", "install linux-headers-6.1.0-56-cloud-amd64 linux-headers-cloud-amd64", DRIVER12, "reboot")),
    ("d12-t4-nouveau", DEB12, (T4,), "", NOUVEAU, (*PLAIN12, DRIVER12, "reboot")),
    ("d12-t4-half-updated", DEB12, (T4,), "", {
        "release": known("535.261.03"), "kernel_module_version": known("535.261.03"),
        "libcuda_version": known("535.309.01"), "libnvidia_ml_version": known("535.309.01"),
        "cuda_init_result": known(803), "nvml_result": known(18)}, ("reboot",)),
    ("d12-t4-other-kernel", DEB12, (T4,), "", OTHER_KERNEL, (HEAD12, "dkms autoinstall", "modprobe nvidia")),
    ("d12-t4-not-loaded", DEB12, (T4,), "", {**BUILT, **SIGNED}, ("modprobe nvidia",)),
    ("d12-t4-unsigned", DEB12, (T4,), "", {**BUILT, **UNSIGNED, **SECURE},
     ("install mokutil openssl", "dkms autoinstall --force", MOK, "reboot")),
    ("d12-1080-and-a100", DEB12, (GTX1080, A100), "", {}, (*PLAIN12, DRIVER12, "reboot")),
    ("d12-1080-and-5090", DEB12, (GTX1080, RTX5090), "", {}, ()),
    ("d13-1080", DEB13, (GTX1080,), "", {}, (*PLAIN13, "install nvidia-driver", "reboot")),
    ("d13-a100", DEB13, (A100,), "", {},
     (*PLAIN13, "install nvidia-open-kernel-dkms nvidia-driver", "reboot")),
    ("d13-a100-570", DEB13, (A100,), "570", {}, (*nvidia("debian13"), HEAD13, "install nvidia-open", "reboot")),
    ("d13-5090-secure", DEB13, (RTX5090,), "", SECURE,
     (*nvidia("debian13"), HEAD13, "install nvidia-open", "install mokutil openssl", MOK, "reboot")),
    ("d13-k80", DEB13, (K80,), "", {}, ()),
    ("d13-5090-arm", DEB13, (RTX5090,), "", {"architecture": known("aarch64")}, ()),
    ("u20-a100", UB20, (A100,), "", {}, (*UBUNTU, "reboot")),
    ("u20-5090", UB20, (RTX5090,), "", {}, ()),
    ("u22-4090", UB22, (RTX4090,), "", {}, (*UBUNTU, "reboot")),
    ("u22-h100-nvswitch", UB22, (H100, H100), "", NVSWITCH,
     ("update", "install ubuntu-drivers-common", "ubuntu-drivers install --gpgpu nvidia:580-server-open",
      "install nvidia-utils-580-server", "install nvidia-fabricmanager-580 libnvidia-nscq-580",
      "systemctl enable --now nvidia-fabricmanager", "reboot")),
    ("u22-half-updated", UB22, (T4,), "", {
        "release": known("570.133.07"), "kernel_module_version": known("570.133.07"),
        "libcuda_version": known("570.172.08"), "libnvidia_ml_version": known("570.172.08"),
        "cuda_init_result": known(803), "nvml_result": known(18)}, ("reboot",)),
    ("u24-4070-secure", UB24, (RTX4090,), "", SECURE, (*UBUNTU, "reboot")),
    ("u24-k80", UB24, (K80,), "", {},  # written after ubuntu-drivers named no driver for it
     ("update", "install linux-headers-6.17.0-20-generic", "install nvidia-driver-470", "reboot")),
    ("u24-1080", UB24, (GTX1080,), "", {}, (*UBUNTU[:2], "ubuntu-drivers install nvidia:580", "reboot")),
    ("u26-k80", UB26, (K80,), "", {}, ()),
    ("el8-a100", EL8, (A100,), "", {},
     ("install epel-release", "install kernel-devel-4.18.0-553.el8_10.x86_64 kernel-headers-4.18.0-553.el8_10.x86_64",
      *nvidia_el("rhel8"), "dnf -y module enable nvidia-driver:open-dkms", "install nvidia-open", GRUBBY, "reboot")),
    ("el9-v100", EL9, (V100,), "", {},
     (*CRB, HEAD_EL, *nvidia_el("rhel9"), "dnf -y module enable nvidia-driver:580-dkms", "install cuda-drivers",
      GRUBBY, "reboot")),
    ("el9-5090-secure", EL9, (RTX5090,), "", SECURE,
     (*CRB, HEAD_EL, *nvidia_el("rhel9"), "dnf -y module enable nvidia-driver:open-dkms", "install nvidia-open",
      GRUBBY, MOK, "reboot")),
    ("el10-pro6000", EL10, (RTX5090,), "", {},
     (*CRB, HEAD_EL, "repository rhel10", "install nvidia-open", GRUBBY, "reboot")),
    ("el10-1080", EL10, (GTX1080,), "", {},
     (*CRB, HEAD_EL, "repository rhel10", "install cuda-drivers-580", GRUBBY, "reboot")),
    ("rhel9-k80", RHEL9, (K80,), "", {}, ()),
    ("rhel9-a100", RHEL9, (A100,), "", {},
     (HEAD_EL, *nvidia_el("rhel9"), "dnf -y module enable nvidia-driver:open-dkms", "install nvidia-open",
      GRUBBY, "reboot")),
    ("fc43-4090", FC43, (RTX4090,), "", {},
     ("rpmfusion 43", "install kernel-devel-6.17.1-300.fc43.x86_64", "install akmod-nvidia xorg-x11-drv-nvidia-cuda",
      "akmods --force --kernels 6.17.1-300.fc43.x86_64", "modinfo -F version nvidia", "reboot")),
    ("sles15-h100", SLES15, (H100,), "", {},
     (*nvidia_el("sles15"), "install nv-prefer-signed-open-driver", "utilities G06", "reboot")),
    ("amzn-t4", AMZN, (T4,), "", {},
     (f"install kernel-devel-{AMZN[3]} kernel-headers-{AMZN[3]} kernel-modules-extra-{AMZN[3]}", "install nvidia-release", "install nvidia-open", "reboot")),
    ("arch-4090", ARCH, (RTX4090,), "", {}, ("install nvidia-open nvidia-utils", "reboot")),
    ("d12-closed-module-5090", DEB12, (RTX5090,), "", {
        "release": known("580.65.06"), "kernel_module_version": known("580.65.06"),
        "kernel_module_kind": known("proprietary"), "cuda_init_result": known(100)},
     (*nvidia("debian12"), HEAD12, PIN580, "install nvidia-open-580", "reboot")),
    ("wsl", UB24, (RTX4090,), "", {"wsl_version": known(2)}, ()),
    ("jetson", UB22, ("8.7",), "", {"jetson_release": known("R36.3.0")}, ()),
    ("container", DEB12, (T4,), "", {"container": known("docker")}, ()),
    ("d12-t4-works", DEB12, (T4,), "525.60.13", {"works": "535.309.01"}, ()),
    ("cloud-image-works", UB22, (A100,), "", {"works": "570.133.20"}, ()),
    ("d12-a100-too-old", DEB12, (A100,), "570", {"works": "535.309.01"},
     (*nvidia("debian12"), HEAD12, PIN580, "install nvidia-open-580", "reboot")),
)  # fmt: skip


def compose(
    system: tuple[str, str, str, str], cards: tuple[str, ...], state: dict[str, Any]
) -> Any:
    """Return the facts of a machine: nothing of a driver but what its state says."""
    name, like, version, kernel = system
    on_host = {"secure_boot", "architecture", "wsl_version", "jetson_release", "container"}
    host = {key: value for key, value in state.items() if key in on_host}
    host |= {
        "distribution_id": known(name),
        "distribution_like": known(like) if like else NONE,
        "distribution_version": known(version) if version else NONE,
        "kernel_release": known(kernel),
        "is_root": known(True),
    }
    if "works" in state:
        parts = driver(state["works"])
    else:
        others = {k: v for k, v in state.items() if k not in on_host}
        parts = replace(driver(), **fresh(**others))
    owner = NONE if "works" not in state else known("nvidia")
    if "nouveau_loaded" in state:
        owner = known("nouveau")
    gpus = tuple(
        gpu("NVIDIA GPU", capability, place, kernel_driver=owner)
        for place, capability in enumerate(cards)
    )
    return context(*gpus, host=host, driver=parts, expect="gpu")


_SPELLING = (  # a pattern of a command, and how it is written here
    (r".*s/\^Components:\.\*/Components: ([^/]*)/.*", r"components \1"),
    (r"curl .*/repos/(\w+)/.*", r"fetch \1"),
    (r"sh -c keys=.* cuda-\w+(?:-x86_64)?\.pub [0-9A-F]{40} .*/repos/(\w+)/.*", r"add \1"),
    (r".*rpmfusion-nonfree-release-(\d+)\..*", r"rpmfusion \1"),
    (r".*nvidia-compute-utils-(G0\d).*", r"utilities \1"),
    (r"(?:dnf|zypper) .*/repos/(\w+)/.*", r"repository \1"),
    (r"apt-get update", "update"),
)


def brief(action: Action) -> str:
    """Write a command without the spelling that package managers share."""
    if isinstance(action, InstallSystemPackages):
        return f"install {' '.join(action.packages)}"
    text = " ".join(action.command("linux"))
    for pattern, written in _SPELLING:
        if re.fullmatch(pattern, text):
            return re.sub(pattern, written, text)
    return text


def typed(plan: Plan) -> tuple[str, ...]:
    shown = tuple(brief(step.action) for step in plan.steps)
    return tuple(line for line in shown if line != "zypper refresh")


@pytest.mark.parametrize(
    ("system", "cards", "floor", "state", "expected"),
    [pytest.param(*row[1:], id=row[0]) for row in MACHINES],
)
def test_a_machine_gets_its_commands(
    system: tuple[str, str, str, str],
    cards: tuple[str, ...],
    floor: str,
    state: dict[str, Any],
    expected: tuple[str, ...],
) -> None:
    plan = plan_driver(DriverRequest(floor), compose(system, cards, state))
    assert typed(plan) == expected
    is_well = "works" in state and not expected
    assert verdict_on(plan) == ("compatible" if expected or is_well else "incompatible")
    assert plan.driver or plan.rejected[0].why


# The commands that the facts on drivers hold from memory, by what stands in no other.
FROM_MEMORY = (
    *("nvidia-driver-470-server", "powertools", "akmod-nvidia-470xx", "nvidia-470xx-cuda"),
    *("download.nvidia.com/opensuse", "--gpg-auto-import-keys", "base-devel", "aur.archlinux.org"),
    *("nvidia-580xx-utils", "makepkg", "azl3", "tdnf", "/usr/lib/wsl/lib/nvidia-smi"),
    *("nvidia-smi.exe", "--test-key", "kmodgenca", "/build", "modprobe -v", "suse16"),
)
# The others have a document by now: nvidia-driver-470 (packages.ubuntu.com: jammy, noble), the fabric
# manager's unit (Amazon EC2 User Guide; NVIDIA's guide), kernel-devel (NVIDIA's guide), mokutil
# --sb-state and uname (their manuals), wsl.exe --update (its --help).


@pytest.mark.parametrize("word", FROM_MEMORY)
def test_nothing_from_memory_is_a_command(word: str) -> None:
    plans = [
        plan_driver(DriverRequest(row[3], engine), compose(row[1], row[2], row[4]))
        for row in MACHINES
        for engine in ("", "docker")
    ]
    lines = [" ".join(step.action.command()) for plan in plans for step in plan.steps]
    assert len(lines) > 200
    written = Path(__file__).parents[1] / "remedies" / "written.txt"
    texts = written.read_text(encoding="utf-8").splitlines()
    lines += [text for text in texts if text.lstrip().startswith("$ ")]
    assert [line for line in lines if word in line] == []
    systems = json.loads(read_data("nvidia/driver_install.json"))["systems"]
    assert word not in json.dumps([{**row, "note": "", "citations": []} for row in systems])


def test_a_module_that_is_merely_not_loaded_is_loaded_and_nothing_is_installed() -> None:
    machine = compose(DEB12, (T4,), {**BUILT, **SIGNED})
    found = judge_release(machine, frozenset(catalogue()) - {"gpu-absent"}).report.findings
    driver = next(item for item in found if item.id == "driver-missing")
    assert driver.cure is not None
    remedy = write_fix(driver.cure, Situation(machine))
    assert remedy is not None
    assert [brief(action) for action in remedy.actions] == ["modprobe nvidia"]
    assert all("nvidia-driver" not in " ".join(each.command()) for each in remedy.actions)


@pytest.mark.parametrize(
    ("system", "state", "is_told"),
    [
        (DEB12, NVSWITCH, True),
        (UB22, NVSWITCH, False),  # whose packages bring the fabric manager with the driver
        (DEB12, {}, False),
        (DEB12, {**NVSWITCH, **BUILT, **SIGNED}, False),  # loading a module needs no restart
    ],
)
def test_the_fabric_manager_is_planned_after_the_restart(
    system: tuple[str, str, str, str], state: dict[str, Any], *, is_told: bool
) -> None:
    plan = plan_driver(DriverRequest(), compose(system, (H100, H100), state))
    assert plan.steps
    assert any("NVSwitch connects the GPUs" in note for note in plan.notes) is is_told


def test_every_step_that_a_system_names_is_there() -> None:
    systems = json.loads(read_data("nvidia/driver_install.json"))["systems"]
    steps = json.loads(read_data("advice/machine_steps.json"))["steps"]
    named = [name for row in systems for name in (*row.get("prepare", ()), *row.get("finish", ()))]
    offers = [offer for row in systems for offer in row["offers"]]
    named += [offer["program"] for offer in offers if "program" in offer]
    named.append("repository-unpinned")
    assert len(set(named)) > 7
    assert set(named) <= set(steps)


def test_there_are_forty_machines() -> None:
    assert len({row[0] for row in MACHINES}) == len(MACHINES) >= 40


def test_releases_that_are_asked_for_raise_the_driver() -> None:
    wanted = {"system": "debian 12", "gpu": "T4"}
    plain = api.plan_driver(**wanted)
    assert "nvidia-driver" in " ".join(plain.commands)
    newer = api.plan_driver(requirements="torch==2.11.0", **wanted)
    assert "nvidia-open-580" in " ".join(newer.commands)
    assert "580.65.06 or newer" in newer.plan.driver


@pytest.mark.parametrize(
    ("engine", "word"),
    [
        ("docker", "--runtime=docker"),
        ("containerd", "--runtime=containerd"),
        ("podman", "cdi generate"),
    ],
)
def test_containers_get_the_gpus_after_the_driver(engine: str, word: str) -> None:
    lines = api.plan_driver(system="rocky 9", gpu="A100", containers=engine).commands
    assert word in lines[-1 if engine == "podman" else -2]
    restart = next(place for place, line in enumerate(lines) if line.endswith("reboot"))
    assert restart < next(place for place, line in enumerate(lines) if word in line)


def test_secure_boot_says_what_the_next_start_shows() -> None:
    notes = plan_driver(DriverRequest(), compose(DEB12, (RTX5090,), SECURE)).notes
    assert any("MOK" in note and "console" in note for note in notes)


def test_a_described_machine_has_to_bring_its_headers() -> None:
    assert any(
        "uname -r" in note for note in api.plan_driver(system="debian 13", gpu="L4").plan.notes
    )


@pytest.mark.parametrize(
    "asked", [{"driver": "new"}, {"containers": "lxd"}, {"system": "12"}, {"gpu": "no such card"}]
)
def test_what_cannot_be_planned_is_refused(asked: dict[str, str]) -> None:
    with pytest.raises((RequestError, UserError)):
        api.plan_driver(**{"system": "debian 12", "gpu": "T4", **asked})


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "driver", "--os", "debian 12", "--gpu", "RTX 5090"]
    assert run([*words, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["driver"].startswith("Install NVIDIA")
    assert document["steps"][-1]["argv"] == ["sudo", "reboot"]
    assert run(["plan", "driver", "--os", "debian 11", "--gpu", "RTX 5090"]) == 1
    assert "NO PLAN  No driver that serves this GPU" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["torch", "--os", "debian 12"], "go with `envcheck plan driver`"),
        (["driver", "--env", "x"], "leave out --env"),
        (["driver", "-r", "x.txt"], "leave out --requirement"),
        (["driver", "--os", "debian 12", "--gpu", "T4", "--format", "script"], "text or json"),
    ],
)
def test_options_of_something_else(words: list[str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        run(["plan", *words])

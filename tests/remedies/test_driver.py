"""The commands for each operating system."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import envcheck
from envcheck.actions import InstallSystemPackages, Reboot
from envcheck.host.data_files import load_data
from envcheck.model import Fix, Gpu, Remedy
from envcheck.model.fixes import BuildDriver, InstallKernelModule, StartFabricManager
from envcheck.remedies import write_fix
from envcheck.remedies.driver_install import Offer, bring_driver, is_from_elsewhere
from envcheck.remedies.rows import MachineSteps
from envcheck.remedies.situation import Situation
from tests.rules.factory_machine import NONE, UNREAD, build, context, driver, known
from tests.typed import argv, argvs


def distribution(name: str, like: str = "") -> dict[str, Any]:
    return {"distribution_id": known(name), "distribution_like": known(like) if like else NONE}


def on(**host: Any) -> Situation:
    return Situation(context(host=host) if host else context())


def remedy(fix: Fix, situation: Situation) -> Remedy:
    found = write_fix(fix, situation)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("host", "family", "words"),
    [
        (distribution("ubuntu", "debian"), "ubuntu", ("sudo", "ubuntu-drivers", "install")),
        (distribution("debian"), "debian", ("sudo", "apt-get", "install")),
        (distribution("rocky", "rhel centos fedora"), "rhel", ("sudo", "dnf", "install")),
        (distribution("fedora"), "fedora", ("sudo", "dnf", "install")),
        (distribution("opensuse-leap", "suse opensuse"), "suse", ("sudo", "zypper", "install")),
        (distribution("manjaro", "arch"), "arch", ("sudo", "pacman", "-S")),
        (distribution("kali", "debian"), "debian", ("sudo", "apt-get", "install")),
        ({"wsl_version": known(2)}, "wsl", ("wsl.exe", "--update")),
    ],
)
def test_each_family_has_its_commands(
    host: dict[str, Any], family: str, words: tuple[str, ...]
) -> None:
    situation = on(**host)
    assert situation.family == family
    found = bring_driver(situation, "525.60.13")
    assert words in {line[:3] for line in argvs(found.actions)}
    assert "525.60.13 or newer" in found.summary
    assert {action.scope for action in found.actions} == {"system"}


@pytest.mark.parametrize(
    ("host", "word"),
    [
        ({"os": known("windows")}, "Windows"),
        ({"os": known("darwin")}, "macOS"),
        ({"container": known("docker")}, "host"),
        ({"jetson_release": known("R36.3.0")}, "JetPack"),
        (distribution("nixos"), "package manager"),
    ],
)
def test_where_no_command_helps_a_sentence_does(host: dict[str, Any], word: str) -> None:
    found = bring_driver(on(**host))
    assert word in found.summary
    assert found.actions == ()


def machine(name: str, version: str, gpu: str = "", **host: Any) -> Situation:
    """Return a machine of a distribution's release, with a GPU of this compute capability."""
    gpus = known((Gpu(known(0), compute_capability=known(gpu)),)) if gpu else UNREAD
    named = {**distribution(name), "distribution_version": known(version), **host}
    return Situation(context(host=named, gpus=gpus))


def packages(found: Remedy) -> list[str]:
    """Name what the package manager is told to install."""
    return [
        name
        for step in found.actions
        if isinstance(step, InstallSystemPackages)
        for name in step.packages
    ]


def test_an_exact_branch() -> None:
    found = bring_driver(machine("ubuntu", "22.04", "3.7"), "470", exact=True)
    assert packages(found)[-1] == "nvidia-driver-470"
    assert "470," in found.summary
    newer = bring_driver(machine("ubuntu", "24.04", "12.0"), "595", exact=True)
    assert packages(newer)[-1] == "nvidia-driver-595-open"
    rocky = bring_driver(machine("rocky", "9.4", "7.0"), "470", exact=True)
    assert "nvidia-driver:470-dkms" in argvs(rocky.actions)[-4]
    assert bring_driver(machine("arch", "", "8.9"), "470", exact=True).actions == ()


KERNEL = {"debian": "6.1.0-56-amd64", "fedora": "6.17.1-300.fc43.x86_64"}


# (distribution, release, compute capability, lowest driver, packages): the RTX 5090 is 12.0, the
# T4 7.5, the GTX 1080 Ti 6.1, the H100 9.0, the V100 7.0, the K80 3.7. Composed by hand from the
# distributions' indexes and NVIDIA's guide, before the code.
@pytest.mark.parametrize(
    ("name", "version", "gpu", "floor", "wanted"),
    [
        ("debian", "12", "12.0", "570", ["nvidia-driver-pinning-580", "nvidia-open-580"]),
        ("debian", "12", "7.5", "525.60.13", ["nvidia-driver", "firmware-misc-nonfree"]),
        ("debian", "12", "7.0", "570", ["nvidia-driver-pinning-580", "cuda-drivers-580"]),
        ("debian", "12", "8.6", "580.65.06", ["nvidia-driver-pinning-580", "nvidia-open-580"]),
        ("debian", "12", "3.7", "", ["nvidia-tesla-470-driver"]),
        ("debian", "13", "6.1", "525.60.13", ["nvidia-driver"]),
        ("debian", "13", "12.0", "570", ["nvidia-open"]),
        ("debian", "13", "8.9", "580.65.06", ["nvidia-open"]),
        ("debian", "11", "8.0", "450", ["nvidia-driver", "firmware-misc-nonfree"]),
        ("rocky", "9.4", "7.0", "570", ["cuda-drivers"]),
        ("almalinux", "10", "12.0", "580", ["nvidia-open"]),
        ("almalinux", "10", "6.1", "570", ["cuda-drivers-580"]),
        ("fedora", "43", "8.9", "570", ["akmod-nvidia", "xorg-x11-drv-nvidia-cuda"]),
        ("fedora", "43", "6.1", "570", ["akmod-nvidia-580xx", "xorg-x11-drv-nvidia-580xx-cuda"]),
        ("amzn", "2023", "7.0", "570", ["cuda-drivers"]),
        ("arch", "", "8.9", "570", ["nvidia-open", "nvidia-utils"]),
        ("opensuse-leap", "15.6", "9.0", "570", ["nv-prefer-signed-open-driver"]),
    ],
)
def test_the_driver_fits_the_card_and_the_release(
    name: str, version: str, gpu: str, floor: str, wanted: list[str]
) -> None:
    kernel = known(KERNEL.get(name, "5.14.0-427.el9.x86_64"))
    found = bring_driver(machine(name, version, gpu, kernel_release=kernel), floor)
    assert packages(found)[-len(wanted) :] == wanted
    assert isinstance(found.actions[-1], Reboot)


@pytest.mark.parametrize(
    ("name", "version", "gpu", "floor"),
    [
        ("debian", "11", "12.0", "570"),  # no branch from 570 on
        ("debian", "13", "3.7", ""),  # 470 ended with Debian 12
        ("debian", "13", "6.1", "570"),  # NVIDIA's repository for it has no 580
        ("ubuntu", "20.04", "12.0", "570"),
        ("arch", "", "6.1", ""),  # only from the AUR
    ],
)
def test_no_command_where_no_package_serves_the_card(
    name: str, version: str, gpu: str, floor: str
) -> None:
    found = bring_driver(machine(name, version, gpu), floor)
    assert found.actions == ()
    assert "No driver that serves this GPU is known in the packages for" in found.summary


def test_names_that_nobody_verified_are_no_command() -> None:
    found = bring_driver(machine("opensuse-leap", "16.0", "9.0"), "570")
    assert found.actions == ()
    assert "not verified" in found.summary


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        ("COLAB_RELEASE_TAG", "select a GPU (Colab: Runtime > Change runtime type"),
        ("KAGGLE_KERNEL_RUN_TYPE", "Kaggle: Settings > Accelerator"),
        ("SPACE_ID", "choose GPU hardware in the Space's settings"),
    ],
)
def test_a_managed_service_brings_the_driver(variable: str, words: str) -> None:
    found = bring_driver(machine("ubuntu", "22.04", "7.5", environment=known({variable: "1"})))
    assert found.actions == ()
    assert words in found.summary


@pytest.mark.parametrize(
    ("name", "version", "words"),
    [
        ("bottlerocket", "1.68.0", "start the node from one that holds NVIDIA driver"),
        ("cos", "121", "Google's installer brings NVIDIA driver"),
    ],
)
def test_a_managed_image_brings_the_driver(name: str, version: str, words: str) -> None:
    situation = machine(name, version, "9.0")
    found = bring_driver(situation, "570")
    assert found.actions == ()
    assert words in found.summary
    assert is_from_elsewhere(situation)


def test_a_fresh_debian_gets_components_key_and_headers_first() -> None:
    debian = machine("debian", "12", "12.0", kernel_release=known("6.1.0-56-cloud-amd64"))
    lines = [" ".join(words) for words in argvs(bring_driver(debian, "570").actions)]
    assert "contrib non-free non-free-firmware" in lines[0]
    assert lines[3].endswith("/debian12/x86_64/3bf863cc.pub")
    assert "EB693B3035CD5710E231E123A4B469963BF863CC" in lines[4]
    assert lines[6].endswith("linux-headers-6.1.0-56-cloud-amd64 linux-headers-cloud-amd64")


def test_secure_boot_is_answered_where_the_module_is_built_here() -> None:
    def enrolled(name: str, version: str) -> bool:
        steps = bring_driver(machine(name, version, "8.9", secure_boot=known(True))).actions
        return any("mokutil" in words for words in argvs(steps))

    assert enrolled("debian", "12")
    assert not enrolled("ubuntu", "24.04"), "its modules are signed"


def test_the_other_kind_of_module_is_a_package_of_its_own() -> None:
    def kind(situation: Situation, name: str) -> list[str]:
        return packages(remedy(InstallKernelModule(name), situation))

    assert kind(on(**distribution("debian")), "open")[-1] == "nvidia-open"
    assert kind(on(), "open")[-1] == "nvidia-driver-550-open", "the branch that is there, on Ubuntu"
    assert kind(machine("rocky", "9.4", "7.0"), "proprietary")[-1] == "cuda-drivers"
    assert kind(on(**distribution("arch")), "proprietary") == []


def test_what_is_no_release_enters_no_command() -> None:
    assert "rm" not in bring_driver(on(), "470; rm -rf /").summary
    found = bring_driver(on(), "$(x)", exact=True)
    assert all("$(x)" not in word for line in argvs(found.actions) for word in line)


def test_root_needs_no_sudo() -> None:
    assert argv(Reboot(on(is_root=known(True)).sudo)) == ("reboot",)
    assert argv(Reboot(on(is_root=UNREAD).sudo)) == ("sudo", "reboot")


def test_kernel_headers_only_for_plain_names() -> None:
    def built(name: str, kernel: str) -> tuple[str, ...]:
        situation = on(**distribution(name), kernel_release=known(kernel))
        return argv(remedy(BuildDriver(), situation).actions[0])

    assert built("fedora", "6.8.9-300.fc40.x86_64")[-1] == "kernel-devel-6.8.9-300.fc40.x86_64"
    assert built("fedora", "6.8 $(x)") == ("sudo", "dkms", "autoinstall")
    assert built("arch", "6.8")[1] == "dkms"


def test_the_fabric_manager_of_a_release() -> None:
    rocky = Situation(context(host=distribution("rocky", "rhel")))
    found = remedy(StartFabricManager(), rocky)
    assert argv(found.actions[0])[-1] == "nvidia-fabric-manager-550.163.01"
    unread = remedy(StartFabricManager(), Situation(context(driver=driver(UNREAD))))
    assert argvs(unread.actions)[0][0] == "nvidia-smi", "its package is named by the release"


def test_every_step_that_is_asked_for_by_name_is_there() -> None:
    steps = load_data("advice/machine_steps", MachineSteps).steps
    package = Path(envcheck.__file__).parent
    sources = (path.read_text(encoding="utf-8") for path in package.rglob("*.py"))
    named = {
        name for text in sources for name in re.findall(r'machine_steps\(\s*"([a-z-]+)"', text)
    }
    assert len(named) > 12
    assert named <= set(steps)


@pytest.mark.parametrize(
    ("floor", "serves"), [("535.309.00", True), ("535.309.01", True), ("535.309.02", False)]
)
def test_an_offer_of_the_very_release_that_is_needed_serves(floor: str, *, serves: bool) -> None:
    assert Offer("open", release="535.309.01").reaches(floor, exact=False) is serves


def test_of_two_builds_the_one_of_the_named_distribution_is_meant() -> None:
    builds = (
        build("1.20.0", "onnxruntime"),
        build("1.21.0", "onnxruntime", distribution="onnxruntime-gpu"),
    )
    situation = Situation(context(builds=builds))
    for name in ("onnxruntime", "onnxruntime-gpu"):
        found = situation.build("onnxruntime", name)
        assert found is not None
        assert found.distribution == name

"""The commands for each operating system."""

from __future__ import annotations

from typing import Any

import pytest

from envcheck.actions import Reboot
from envcheck.model import Fix, Remedy
from envcheck.model.fixes.driver import BuildDriver, InstallKernelModule, StartFabricManager
from envcheck.remedies import write_fix
from envcheck.remedies.situation import Situation
from envcheck.remedies.system import install_driver
from tests.rules.factory_machine import NONE, UNREAD, context, driver, known
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
        (distribution("rocky", "rhel centos fedora"), "rhel", ("sudo", "dnf", "module")),
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
    found = install_driver(situation, "525.60.13")
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
    found = install_driver(on(**host))
    assert word in found.summary
    assert found.actions == ()


def test_an_exact_branch() -> None:
    found = install_driver(on(), "470", exact=True)
    assert ("sudo", "apt-get", "install", "-y", "nvidia-driver-470") in argvs(found.actions)
    assert "470," in found.summary
    rocky = install_driver(on(**distribution("rocky", "rhel")), "470", exact=True)
    assert argv(rocky.actions[0])[-1] == "nvidia-driver:470-dkms"
    assert install_driver(on(**distribution("arch")), "470", exact=True).actions == ()


def test_debians_own_driver_is_taken_where_it_is_new_enough() -> None:
    bookworm = on(**distribution("debian"), distribution_version=known("12"))
    assert argv(install_driver(bookworm, "525.60.13").actions[0])[-2:] == (
        "nvidia-driver",
        "firmware-misc-nonfree",
    )
    newer = install_driver(bookworm, "575.51.03")
    assert argv(newer.actions[0]) == ("sudo", "apt-get", "install", "-y", "nvidia-open")
    assert "NVIDIA's CUDA repository" in newer.summary


def test_rhel_10_has_no_modules_to_install() -> None:
    for version, words in (
        ("9.4", ("module", "install")),
        ("10.0", ("install", "-y")),
        ("2023", ("module", "install")),
    ):
        situation = on(**distribution("rocky", "rhel"), distribution_version=known(version))
        assert argv(install_driver(situation).actions[0])[2:4] == words


def test_the_other_kind_of_module_is_a_package_of_its_own() -> None:
    def kind(situation: Situation, name: str) -> list[tuple[str, ...]]:
        return argvs(remedy(InstallKernelModule(name), situation).actions)

    assert kind(on(**distribution("debian")), "open")[0][-1] == "nvidia-open"
    assert kind(on(**distribution("fedora")), "proprietary")[0][-1] == "cuda-drivers"
    assert kind(on(**distribution("arch")), "proprietary") == []


def test_what_is_no_release_enters_no_command() -> None:
    assert "rm" not in install_driver(on(), "470; rm -rf /").summary
    found = install_driver(on(), "$(x)", exact=True)
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

"""The commands for each operating system."""

from __future__ import annotations

from typing import Any

import pytest

from envcheck.model import Fix
from envcheck.rules.fixes_driver import other_module, rebuild_module, start_fabric_manager
from envcheck.rules.fixes_system import as_root, install_driver, system_family
from tests.rules.factory_machine import NONE, UNREAD, context, known


def distribution(name: str, like: str = "") -> dict[str, Any]:
    return {"distribution_id": known(name), "distribution_like": known(like) if like else NONE}


def first_words(fix: Fix) -> set[tuple[str, ...]]:
    return {command.argv[:3] for command in fix.commands}


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
def test_each_family_has_its_commands(host: dict[str, Any], family: str, words: tuple[str, ...]) -> None:
    judged = context(host=host)
    assert system_family(judged) == family
    fix = install_driver(judged, "525.60.13")
    assert words in first_words(fix)
    assert "525.60.13 or newer" in fix.summary
    assert {command.scope for command in fix.commands} == {"system"}


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
    fix = install_driver(context(host=host), None)
    assert word in fix.summary
    assert fix.commands == ()


def test_an_exact_branch() -> None:
    fix = install_driver(context(), "470", exact=True)
    assert ("sudo", "apt-get", "install", "-y", "nvidia-driver-470") in [command.argv for command in fix.commands]
    assert "470," in fix.summary
    rocky = install_driver(context(host=distribution("rocky", "rhel")), "470", exact=True)
    assert rocky.commands[0].argv[-1] == "nvidia-driver:470-dkms"
    assert install_driver(context(host=distribution("arch")), "470", exact=True).commands == ()


def test_debians_own_driver_is_taken_where_it_is_new_enough() -> None:
    bookworm = context(host={**distribution("debian"), "distribution_version": known("12")})
    assert install_driver(bookworm, "525.60.13").commands[0].argv[-2:] == ("nvidia-driver", "firmware-misc-nonfree")
    newer = install_driver(bookworm, "575.51.03")
    assert newer.commands[0].argv == ("sudo", "apt-get", "install", "-y", "nvidia-open")
    assert "NVIDIA's CUDA repository" in newer.summary


def test_rhel_10_has_no_modules_to_install() -> None:
    for version, words in (
        ("9.4", ("module", "install")),
        ("10.0", ("install", "-y")),
        ("2023", ("module", "install")),
    ):
        judged = context(host={**distribution("rocky", "rhel"), "distribution_version": known(version)})
        assert install_driver(judged, None).commands[0].argv[2:4] == words


def test_the_other_kind_of_module_is_a_package_of_its_own() -> None:
    assert other_module(context(host=distribution("debian")), "open").commands[0].argv[-1] == "nvidia-open"
    assert other_module(context(host=distribution("fedora")), "proprietary").commands[0].argv[-1] == "cuda-drivers"
    assert other_module(context(host=distribution("arch")), "proprietary").commands == ()


def test_what_is_no_release_enters_no_command() -> None:
    fix = install_driver(context(), "470; rm -rf /")
    assert "rm" not in fix.summary
    fix = install_driver(context(), "$(x)", exact=True)
    assert all("$(x)" not in word for command in fix.commands for word in command.argv)


def test_root_needs_no_sudo() -> None:
    assert as_root(context(host={"is_root": known(True)}), "reboot").argv == ("reboot",)
    assert as_root(context(host={"is_root": UNREAD}), "reboot").argv == ("sudo", "reboot")


def test_kernel_headers_only_for_plain_names() -> None:
    fedora = context(host=distribution("fedora"))
    assert rebuild_module(fedora, "6.8.9-300.fc40.x86_64").commands[0].argv[-1] == "kernel-devel-6.8.9-300.fc40.x86_64"
    assert rebuild_module(fedora, "6.8 $(x)").commands[0].argv == ("sudo", "dkms", "autoinstall")
    assert rebuild_module(context(host=distribution("arch")), "6.8").commands[0].argv[1] == "dkms"


def test_the_fabric_manager_of_a_release() -> None:
    rocky = start_fabric_manager(context(host=distribution("rocky", "rhel")), "550.163.01")
    assert rocky.commands[0].argv[-1] == "nvidia-fabric-manager-550.163.01"
    assert len(start_fabric_manager(context(), "").commands) == 1

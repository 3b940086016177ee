"""How a command is seen to have worked, and taken back."""

from __future__ import annotations

import json

import fastjsonschema
import pytest

from envcheck.host.data_files import read_data
from envcheck.model import Command
from envcheck.model.plans import SYSTEM, Step
from envcheck.model.writing import Writing, writing_argv
from envcheck.plan.paths import removal_of
from envcheck.plan.proofs import Proof, proof_of, proven, step_of


def test_the_table_fits_its_schema() -> None:
    fastjsonschema.compile(json.loads(read_data("commands.schema.json")))(json.loads(read_data("commands.json")))


@pytest.mark.parametrize(
    ("line", "verify", "undo"),
    [
        ("sudo apt-get install -y g++-12", "g++-12 --version", "sudo apt-get purge -y --auto-remove g++-12"),
        (
            "sudo dnf install -y gcc-toolset-12-gcc-c++",
            "/opt/rh/gcc-toolset-12/root/usr/bin/g++ --version",
            "sudo dnf remove -y gcc-toolset-12-gcc-c++",
        ),
        ("zypper install -y gcc12-c++", "g++-12 --version", "zypper remove -y --clean-deps gcc12-c++"),
        (
            "sudo dnf install -y cuda-toolkit-12-4",
            "/usr/local/cuda-12.4/bin/nvcc --version",
            "sudo dnf remove -y cuda-toolkit-12-4",
        ),
        ("sudo pacman -S --needed nvidia-open", "pacman -Q nvidia-open", "sudo pacman -Rs nvidia-open"),
        ("sudo modprobe nvidia", "test -d /sys/module/nvidia", "sudo modprobe -r nvidia"),
        ("mv torch.py my.py", "test -e my.py", "mv my.py torch.py"),
    ],
)
def test_a_command_is_seen_and_taken_back_by_its_own_words(line: str, verify: str, undo: str) -> None:
    assert proof_of(tuple(line.split())) == Proof(tuple(verify.split()), tuple(undo.split()))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("sudo reboot", "a restart is not taken back"),
        ("lspci -d 10de:", "it changes nothing"),
        ("export CUDA_VISIBLE_DEVICES=0", "it holds in this shell alone"),
        ("sudo ubuntu-drivers install", "history.log"),
    ],
)
def test_what_no_command_takes_back_says_why(line: str, why: str) -> None:
    found = proof_of(tuple(line.split()))
    assert why in found.lasting
    assert not found.undo


def test_what_the_table_does_not_know_gets_nothing_made_up() -> None:
    assert proof_of(("sudo", "frobnicate", "--all")) == Proof()
    assert proof_of(("sh", "-c", "echo /x; reboot > /etc/ld.so.conf.d/a.conf && ldconfig")) == Proof()


def test_an_environment_is_removed_as_its_system_removes_folders() -> None:
    argv = ("py", "-3.12", "-m", "venv", ".venv")
    assert proof_of(argv, "windows").undo == removal_of(".venv", windows=True)
    assert proof_of(argv, "windows").verify == (".venv\\Scripts\\python.exe", "--version")
    assert proof_of(("python3", "-m", "venv", ".venv")).undo == ("rm", "-rf", "--", ".venv")


def test_a_file_that_is_written_is_taken_away_again() -> None:
    assert proof_of(writing_argv(Writing("/e/bin/x.sh", ("true",)))).undo == ("rm", "-f", "/e/bin/x.sh")
    added = proof_of(writing_argv(Writing("/e/bin/activate", ("true", "false"), appends=True)))
    assert added.verify == ("grep", "-qxF", "--", "true", "/e/bin/activate")
    assert "/e/bin/activate" in added.lasting


def test_a_debian_package_that_is_unpacked_alone_is_not_there() -> None:
    found = proof_of(("apt-get", "install", "-y", "a", "b"))
    assert found.verify[-3:] == ("sh", "a", "b")
    assert "grep -qx installed" in found.verify[2]  # dpkg-query lists what is half configured, too
    assert found.undo == ("apt-get", "purge", "-y", "--auto-remove", "a", "b")


def test_what_a_step_tells_itself_stands() -> None:
    step = proven(Step("a", "Load it.", ("modprobe", "nvidia"), scope=SYSTEM, verify=("lsmod",)))
    assert (step.verify, step.undo) == (("lsmod",), ("modprobe", "-r", "nvidia"))
    made = step_of("b", Command(("sudo", "reboot"), SYSTEM), "Restart.", "driver-too-old")
    assert (made.purpose, made.resolves, made.verify) == ("Restart.", ("driver-too-old",), ("nvidia-smi",))
    by_hand = proven(Step("c", "Switch it on.", ()))
    assert (by_hand.unverified, by_hand.lasting) == (
        "whoever does it sees whether it worked",
        "whoever did it takes it back",
    )

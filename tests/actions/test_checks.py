"""How an action is seen to have worked, and taken back."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from envcheck.actions import (
    APT,
    DNF,
    PACMAN,
    WINGET,
    ZYPPER,
    Action,
    ActivateEnvironment,
    AddLoaderFolder,
    AddPip,
    AskPerson,
    BuildModules,
    CreateEnvironment,
    ImportFrameworks,
    InstallCondaPackages,
    InstallLock,
    InstallPackages,
    InstallSystemPackages,
    LinkFile,
    LoadModule,
    MakeFolder,
    Reboot,
    RefreshPackageLists,
    ReinstallPackages,
    RemoveCondaPackages,
    RemoveSystemPackages,
    RenameFile,
    RestartService,
    RunCommand,
    RunEnvcheck,
    RunPython,
    SetCondaVariable,
    SetVariables,
    Show,
    ShowKernelLog,
    StartService,
    Trace,
    UninstallPackages,
    UnloadModules,
    UnsetVariable,
    UpgradePip,
    WriteFile,
    folder_removal,
)
from envcheck.model import CONDA, LINUX, MACOS, UV, WINDOWS, Step
from envcheck.remedies.driver_install import bring_driver
from envcheck.remedies.situation import Situation
from envcheck.remedies.system import install
from tests.rules.factory_machine import context, known
from tests.typed import argv, lasting, undo, unverified, verify

PY = "e/bin/python"
ACTIONS: list[Action] = [
    ActivateEnvironment("e"),
    ActivateEnvironment("e", CONDA),
    AddLoaderFolder("/usr/lib/nvidia"),
    AddPip(PY),
    AskPerson("Switch it on."),
    BuildModules(),
    BuildModules(force=True),
    CreateEnvironment("e", python="3.12"),
    CreateEnvironment("e", UV, "3.12"),
    CreateEnvironment("e", CONDA, packages=("python=3.12",)),
    CreateEnvironment(installer=CONDA, name="gcc-12", packages=("gxx_linux-64=12",)),
    ImportFrameworks("import jax", "e"),
    ImportFrameworks("import jax", "e", CONDA, activated=True),
    InstallCondaPackages(("cudnn=8.9",)),
    InstallCondaPackages(("cudnn=8.9",), folder="e"),
    InstallLock("pylock.toml", PY),
    InstallLock("pylock.toml", PY, UV),
    InstallPackages(("jax",), PY),
    InstallPackages(("jax",), PY, UV),
    *(InstallSystemPackages(manager, ("a",)) for manager in (APT, DNF, ZYPPER, PACMAN, WINGET)),
    *(InstallSystemPackages(manager, ("a",), upgrade=True) for manager in (APT, DNF, ZYPPER)),
    LinkFile("libcudnn.so.8", "libcudnn.so"),
    LoadModule("nvidia"),
    MakeFolder("e/lib"),
    Reboot(),
    RefreshPackageLists(),
    ReinstallPackages(("torch==2.2.2",), PY),
    ReinstallPackages(("torch==2.2.2",), PY, UV, modules=("torch",)),
    RemoveCondaPackages(("cudnn",), "e"),
    RemoveSystemPackages(("nvidia-driver-535",)),
    RemoveSystemPackages(("^nvidia-.*",)),
    RenameFile("torch.py", "my.py"),
    RestartService("docker"),
    RunCommand(("nvidia-smi", "-mig", "0"), sudo=True, undo_argv=("nvidia-smi", "-mig", "1")),
    RunCommand(
        ("kill", "7"), check_argv=("sh", "-c", "! kill -0 7"), lasting="the process has ended"
    ),
    RunEnvcheck(("doctor",)),
    RunPython("import jax", PY),
    SetCondaVariable("CUDA_HOME", "/e"),
    SetVariables((("CUDA_VISIBLE_DEVICES", "0"),)),
    Show(("lspci", "-d", "10de:")),
    ShowKernelLog(),
    StartService("nvidia-fabricmanager"),
    UninstallPackages(("jax",), PY),
    UninstallPackages(("jax",), PY, UV),
    UnloadModules(("nvidia_uvm", "nvidia")),
    UnsetVariable("CUDA_VISIBLE_DEVICES"),
    UpgradePip(PY),
    WriteFile("e/bin/x.sh", ("true",)),
    WriteFile("e/bin/activate", ("true",), appends=True),
]


def on(distribution: str, like: str = "", **host: Any) -> Situation:
    return Situation(
        context(
            host={"distribution_id": known(distribution), "distribution_like": known(like), **host}
        )
    )


def installed(what: str, situation: Situation, **values: str) -> Action:
    (action,) = install(situation, what, "", **values)
    return action


UBUNTU = on("ubuntu", "debian")
ROCKY = on("rocky", "rhel centos fedora", distribution_version=known("9.4"))
SUSE_ROOT = on("opensuse-leap", "suse opensuse", is_root=known(True))


def test_every_kind_of_action_is_in_the_list() -> None:
    ours = {kind for kind in Action.__subclasses__() if kind.__module__.startswith("envcheck.")}
    assert {type(item) for item in ACTIONS} == ours


@pytest.mark.parametrize("system", [LINUX, MACOS, WINDOWS])
@pytest.mark.parametrize("action", ACTIONS, ids=repr)
def test_an_action_says_how_it_is_seen_and_taken_back_or_why_not(
    action: Action, system: str
) -> None:
    if not action.runs_on(system):
        return
    for trace in (action.check(system), action.undo(system)):
        assert bool(trace.argv) != bool(trace.reason), trace
    assert "sudo" not in verify(action, system)
    if undo(action, system):
        assert (undo(action, system)[0] == "sudo") == (argv(action, system)[0] == "sudo")
    assert "sudo" not in (
        *argv(action.without_sudo(), system),
        *undo(action.without_sudo(), system),
    )


@pytest.mark.parametrize(
    ("action", "line", "check", "back"),
    [
        (
            installed("compiler-release", UBUNTU, major="12"),
            "sudo apt-get install -y g++-12",
            "g++-12 --version",
            "sudo apt-get purge -y --auto-remove g++-12",
        ),
        (
            installed("compiler-release", ROCKY, major="12"),
            "sudo dnf install -y gcc-toolset-12-gcc-c++",
            "/opt/rh/gcc-toolset-12/root/usr/bin/g++ --version",
            "sudo dnf remove -y gcc-toolset-12-gcc-c++",
        ),
        (
            installed("compiler-release", SUSE_ROOT, major="12"),
            "zypper install -y gcc12-c++",
            "g++-12 --version",
            "zypper remove -y --clean-deps gcc12-c++",
        ),
        (
            installed("cuda-toolkit", ROCKY, cuda="12-4"),
            "sudo dnf install -y cuda-toolkit-12-4",
            "/usr/local/cuda-12.4/bin/nvcc --version",
            "sudo dnf remove -y cuda-toolkit-12-4",
        ),
        (
            InstallSystemPackages(PACMAN, ("nvidia-open",)),
            "sudo pacman -S --needed nvidia-open",
            "pacman -Q nvidia-open",
            "sudo pacman -Rs nvidia-open",
        ),
        (
            LoadModule("nvidia"),
            "sudo modprobe nvidia",
            "test -d /sys/module/nvidia",
            "sudo modprobe -r nvidia",
        ),
        (
            RenameFile("torch.py", "my.py"),
            "mv torch.py my.py",
            "test -e my.py",
            "mv my.py torch.py",
        ),
    ],
)
def test_an_action_is_seen_and_taken_back_by_its_own_words(
    action: Action, line: str, check: str, back: str
) -> None:
    assert argv(action) == tuple(line.split())
    assert verify(action) == tuple(check.split())
    assert undo(action) == tuple(back.split())


@pytest.mark.parametrize(
    ("action", "line", "why"),
    [
        (Reboot(), "sudo reboot", "a restart is not taken back"),
        (Show(("lspci", "-d", "10de:")), "lspci -d 10de:", "it changes nothing"),
        (SetVariables((("A", "0"),)), "export A=0", "it holds in this shell alone"),
        (bring_driver(UBUNTU).actions[2], "sudo ubuntu-drivers install", "history.log"),
    ],
)
def test_what_no_command_takes_back_says_why(action: Action, line: str, why: str) -> None:
    assert argv(action) == tuple(line.split())
    assert why in lasting(action)
    assert not undo(action)


def test_an_environment_is_removed_as_its_system_removes_folders() -> None:
    made = CreateEnvironment(".venv", python="3.12")
    assert argv(made, "windows") == ("py", "-3.12", "-m", "venv", ".venv")
    assert undo(made, "windows") == folder_removal(".venv", "windows")
    assert verify(made, "windows")[0] == ".venv\\Scripts\\python.exe"
    assert argv(made) == ("python3.12", "-m", "venv", ".venv")
    assert undo(made) == ("rm", "-rf", "--", ".venv")


def test_a_file_that_is_written_is_taken_away_again() -> None:
    assert undo(WriteFile("/e/bin/x.sh", ("true",))) == ("rm", "-f", "/e/bin/x.sh")
    added = WriteFile("/e/bin/activate", ("true", "false"), appends=True)
    assert verify(added) == ("grep", "-qxF", "--", "true", "/e/bin/activate")
    assert "/e/bin/activate" in lasting(added)


@pytest.mark.needs("linux")
@pytest.mark.parametrize(
    "action",
    [
        LinkFile("torch.py", "link.py"),
        MakeFolder("e"),
        RenameFile("torch.py", "my.py"),
        WriteFile("x.sh", ("true",), is_program=True),
        WriteFile("x.txt", ("it's", "$HOME")),
        WriteFile(
            "torch.py", ("# envcheck: begin", "pass", "# envcheck: end"), appends=True, block=True
        ),
    ],
    ids=repr,
)
def test_a_file_is_seen_and_as_before_by_commands_that_run(action: Action, tmp_path: Path) -> None:
    def status(words: tuple[str, ...]) -> int:
        return subprocess.run(
            words, cwd=tmp_path, capture_output=True, timeout=10, check=False
        ).returncode

    def tree() -> dict[str, str]:
        return {
            path.name: path.read_text() if path.is_file() else "" for path in tmp_path.iterdir()
        }

    (tmp_path / "torch.py").write_text("print()\n")
    before = tree()
    assert status(verify(action)) != 0
    assert status(argv(action)) == 0
    assert tree() != before
    assert status(verify(action)) == 0
    assert status(undo(action)) == 0
    assert tree() == before


def test_a_debian_package_that_is_unpacked_alone_is_not_there() -> None:
    found = InstallSystemPackages(APT, ("a", "b"), sudo=False)
    assert verify(found)[-3:] == ("sh", "a", "b")
    assert "grep -qx installed" in verify(found)[2]  # dpkg-query lists what is half configured, too
    assert undo(found) == ("apt-get", "purge", "-y", "--auto-remove", "a", "b")


def test_what_a_step_says_itself_stands() -> None:
    step = Step("a", LoadModule("nvidia", sudo=False, purpose="Load it."), check=Trace(("lsmod",)))
    assert (verify(step), undo(step)) == (("lsmod",), ("modprobe", "-r", "nvidia"))
    made = Step("b", Reboot(purpose="Restart."), ("driver-too-old",))
    assert (made.purpose, made.resolves, verify(made)) == (
        "Restart.",
        ("driver-too-old",),
        ("nvidia-smi",),
    )
    by_hand = Step("c", AskPerson("Switch it on."))
    assert (unverified(by_hand), lasting(by_hand)) == (
        "whoever does it sees whether it worked",
        "whoever did it takes it back",
    )

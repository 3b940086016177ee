"""Install a driver with programs that stand in for the system's: nothing of this machine is touched.

PATH holds nothing but the stand-ins. Each writes down its arguments; the machine that is read is
composed, and changes as they run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envcheck import api
from envcheck.actions.program import program_words
from envcheck.cli.group import run
from envcheck.install import driver as driver_module
from envcheck.install import transaction
from envcheck.install.driver import driver_place
from envcheck.install.journal import WAITING, Journal
from envcheck.install.removals import parse_chosen, parse_removed
from envcheck.model import Fact, GpuProcess, Snapshot, UserError, replace
from tests.install.instants import kill_at
from tests.plan.test_driver import (
    ARCH,
    BUILT,
    DEB12,
    EL9,
    EL10,
    NOUVEAU,
    SECURE,
    SIGNED,
    SLES15,
    T4,
    UB22,
    UNSIGNED,
    compose,
)
from tests.rules.factory_machine import NONE, known

pytestmark = pytest.mark.needs("posix")
PROGRAMS = (
    *(
        "apt-get",
        "apt-cache",
        "curl",
        "dkms",
        "dnf",
        "docker",
        "dpkg",
        "dpkg-query",
        "gpg",
        "grep",
        "grubby",
    ),
    *("modinfo", "modprobe", "mokutil", "nvidia-ctk", "nvidia-smi", "reboot", "rm", "rpm", "sh"),
    *("systemctl", "test", "ubuntu-drivers", "update-initramfs", "zypper"),
)
# prints what a file holds for this program, and fails where one says so
STANDIN = """#!/bin/sh
name=${0##*/}
echo "$name $*" >> STAGE/log
case "$name $*" in "apt-get -s"*|"dnf install --assumeno"*|"zypper -n -x install"*) name=simulation ;; esac
if [ -e STAGE/$name.out ]; then while IFS= read -r line; do echo "$line"; done < STAGE/$name.out; fi
if [ -s STAGE/kills ]; then
  read -r last < STAGE/kills
  case "$name $*" in "$last"*) : > STAGE/kills; kill -9 "$PPID" ;; esac
fi
[ "$name" != modprobe ] || : > STAGE/loaded
[ ! -e STAGE/$name.fails ]
"""
WORKS: dict[str, Any] = {"works": "535.309.01"}


class Stage:
    """A machine of stand-ins."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.system, self.cards, self.state = DEB12, (T4,), dict[str, Any]()
        self.processes: tuple[GpuProcess, ...] = ()
        self.packages: Fact[Any] = NONE
        self.restart()
        self.say("apt-cache", "nvidia-tesla-470-driver | 470.256.02-1 | a repository")

    def say(self, name: str, text: str) -> None:
        (self.folder / f"{name}.out").write_text(f"{text}\n", encoding="utf-8")

    def fail(self, name: str, *, fails: bool = True) -> None:
        path = self.folder / f"{name}.fails"
        path.touch() if fails else path.unlink()

    def restart(self) -> None:
        boot = self.folder / "boot"
        boot.write_text(f"{boot.read_text() if boot.exists() else ''}x", encoding="ascii")

    def read(self, *_: object, **__: object) -> Snapshot:
        """Return the machine as a probe would read it now."""
        state = WORKS if (self.folder / "loaded").exists() else self.state
        facts = compose(self.system, self.cards, state).facts
        gpus = tuple(replace(each, processes=known(self.processes)) for each in facts.gpus.value)
        parts = replace(facts.driver, packages=self.packages)
        return Snapshot(1, "", "", "", replace(facts, gpus=known(gpus), driver=parts))

    def typed(self) -> list[str]:
        """List what was run, without checks and simulations."""
        path = self.folder / "log"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        checks = ("sh -c for each;", "test ", "apt-cache", "nvidia-smi", "apt-get -s", "rpm ")
        return [line.removeprefix("env ") for line in lines if not line.startswith(checks)]

    def install(self, *words: str, driver: tuple[str, ...] = ("driver", "--system")) -> int:
        """Type the command, about the driver unless other words are given."""
        return type_command("install", *driver, *words)


def type_command(*words: str) -> int:
    """Type a command in this process; an error of its user is a sentence and exit code 2."""
    try:
        return run(list(words))
    except UserError as error:
        print(error, file=sys.stderr)
        return 2


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in (*PROGRAMS, "env"):
        text = STANDIN.replace("STAGE", str(tmp_path))
        if name == "env":  # which starts what it is given
            text = '#!/bin/sh\nshift\nexec "$@"\n'
        (programs / name).write_text(text, encoding="utf-8")
        (programs / name).chmod(0o755)
    made = Stage(tmp_path)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setattr(api, "read_machine", made.read)
    monkeypatch.setattr(driver_module, "is_root", lambda: True)
    monkeypatch.setattr(driver_module, "DRIVER_FOLDER", tmp_path / "state" / "driver")
    monkeypatch.setattr(driver_module, "_BOOT", tmp_path / "boot")
    monkeypatch.setattr(transaction, "TERMINAL", str(tmp_path / "boot"))
    monkeypatch.setattr(driver_module, "_UNFINISHED", tmp_path / "updates")
    yield made
    program_words.cache_clear()  # what starts envcheck is found on PATH


def test_it_stops_for_the_restart_and_goes_on(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    assert stage.install("--yes", "--driver", "525.60.13") == 3
    assert "apt-get install -y nvidia-driver firmware-misc-nonfree" in stage.typed()
    assert "reboot " not in stage.typed()
    assert "--resume" in capsys.readouterr().err
    before = stage.typed()
    assert stage.install("--resume", "--yes") == 2
    assert "restart the machine first" in capsys.readouterr().err
    stage.restart()
    stage.state = WORKS
    assert stage.install("--resume", "--yes") == 0
    assert "The driver works." in capsys.readouterr().err
    assert stage.typed() == before
    assert stage.install("--resume", "--yes") == 2
    assert "nothing to resume" in capsys.readouterr().err


def test_what_remains_after_the_restart_is_planned_again(stage: Stage) -> None:
    assert stage.install("--yes") == 3
    stage.restart()
    stage.state = {**BUILT, **SIGNED}
    assert stage.install("--resume", "--yes") == 0
    assert stage.typed()[-1] == "modprobe nvidia"


def test_containers_come_after_the_restart(stage: Stage) -> None:
    assert stage.install("--yes", "--containers", "docker") == 3
    assert not any("nvidia-ctk" in line for line in stage.typed())
    stage.restart()
    stage.state = WORKS
    assert stage.install("--resume", "--yes") == 0
    assert "nvidia-ctk runtime configure --runtime=docker" in stage.typed()
    assert "systemctl restart docker" in stage.typed()


def test_the_restart_has_its_option(stage: Stage) -> None:
    assert stage.install("--yes", "--reboot") == 3
    assert stage.typed()[-1] == "reboot "
    place = driver_place()
    assert Journal(place, place.identities()[-1]).last(WAITING)["boot"] == "x"


@pytest.mark.parametrize(
    ("machine", "option", "command"),
    [
        (
            (DEB12, {**BUILT, **UNSIGNED, **SECURE}),
            "--enrol-key",
            "mokutil --import /var/lib/dkms/",
        ),
        ((UB22, NOUVEAU), "--blacklist-nouveau", "sh -c printf 'blacklist nouveau"),
    ],
)
def test_yes_alone_does_not_agree_to_everything(
    stage: Stage,
    capsys: pytest.CaptureFixture[str],
    machine: tuple[tuple[str, str, str, str], dict[str, Any]],
    option: str,
    command: str,
) -> None:
    stage.system, stage.state = machine
    assert stage.install("--yes") == 2
    assert option in capsys.readouterr().err
    assert stage.typed() == []
    assert stage.install("--yes", option) == 3
    assert any(line.startswith(command) for line in stage.typed())


def test_what_would_be_removed_is_shown_and_has_its_option(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.say(
        "simulation",
        "Inst nvidia-driver (535.309.01-0+deb12u1)\nRemv nvidia-tesla-470-driver [470.256.02-1]",
    )
    assert stage.install("--yes") == 4
    assert "would remove nvidia-tesla-470-driver" in capsys.readouterr().err
    assert not any(line.startswith("apt-get install -y nvidia-driver") for line in stage.typed())
    assert stage.install("--yes", "--remove-other-driver") == 3


def test_what_no_repository_has_is_not_removed(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.say("simulation", "Remv nvidia-driver-local [470.1]")
    (stage.folder / "apt-cache.out").unlink()
    assert stage.install("--yes", "--remove-other-driver") == 4
    assert "nothing would lead back" in capsys.readouterr().err


# What the real programs printed of small packages made for it, dnf 4.14.0 and zypper 1.14.42.
REPLACES = """\
Dependencies resolved.
================================================================================
 Package                  Architecture  Version            Repository      Size
================================================================================
Installing:
 nvidia-open              noarch        580.95.05-1        toy            5.6 k
     replacing  nvidia-470-local.noarch 470.256.02-1
 xorg-x11-drv-nvidia-with-a-name-longer-than-its-column
                          noarch        1-1                toy            5.4 k
Removing dependent packages:
 toy-needs-470            noarch        1-1                @System          0

Transaction Summary
================================================================================
Install  2 Packages
Remove   1 Package
"""
INSTALLS = REPLACES.partition("     replacing")[0] + "\nTransaction Summary\n"
SUMMARY = """\
<install-summary download-size="11314" space-usage-diff="0" packages-to-change="3">
<to-install>
<solvable type="package" name="nvidia-open" edition="580.95.05-1" arch="noarch" summary="toy">
<description>toy</description></solvable>
</to-install>
<to-remove>
<solvable type="package" name="nvidia-470-driver" edition="470.256.02-1" arch="noarch" summary="toy">
<description>toy</description></solvable>
<solvable type="package" name="nvidia-470-local" edition="470.256.02-1" arch="noarch" summary="toy">
<description>toy</description></solvable>
</to-remove>
</install-summary>
"""
BOTH_470 = ("nvidia-470-driver", "nvidia-470-local")


@pytest.mark.parametrize(
    ("manager", "printed", "removed"),
    [
        (
            "apt-get",
            "Inst a [1] (2)\nRemv nvidia-driver-535 [535.261.03-0ubuntu1]\nPurg b [1]\nConf a (2)\n",
            ("nvidia-driver-535", "b"),
        ),
        ("dnf", REPLACES, ("nvidia-470-local", "toy-needs-470")),
        ("dnf", INSTALLS, ()),
        ("zypper", SUMMARY, BOTH_470),
        ("zypper", SUMMARY.replace("to-remove", "to-upgrade"), ()),
    ],
)
def test_the_words_of_package_managers(
    manager: str, printed: str, removed: tuple[str, ...]
) -> None:
    assert parse_removed(manager, printed) == removed


# What the real program printed in roots of Ubuntu 22.04 and 24.04, for the PCI id of an RTX 4090.
# With a kernel it adds the modules.
FOR_COMPUTING = (
    "nvidia-driver-615-server, (kernel modules provided by linux-modules-nvidia-615-server-generic)\n"
    "nvidia-driver-580-server-open, (kernel modules provided by linux-modules-nvidia-580-server-open-generic)\n"
)
OF_580 = "nvidia-driver-580, (kernel modules provided by linux-modules-nvidia-580-generic)\n"
CHOSEN = "nvidia-driver-595-open\nnvidia-driver-580-open\nnvidia-driver-615-open\n"


@pytest.mark.parametrize(
    ("printed", "kind", "packages"),
    [
        (CHOSEN, "", ("nvidia-driver-595-open",)),  # no kernel, so no modules
        ("nvidia-driver-595-open linux-modules-nvidia-595-open-generic\n", "",
         ("nvidia-driver-595-open", "linux-modules-nvidia-595-open-generic")),
        (FOR_COMPUTING, "580-server-open", ("nvidia-driver-580-server-open", "linux-modules-nvidia-580-server-open-generic")),
        (f"nvidia-driver-390, (kernel modules provided by linux-modules-nvidia-390-generic)\n{OF_580}", "580",
         ("nvidia-driver-580", "linux-modules-nvidia-580-generic")),
        ("ERROR:root:aplay command not found\n", "", ()),
    ],
)  # fmt: skip
def test_the_packages_that_ubuntus_tool_takes(
    printed: str, kind: str, packages: tuple[str, ...]
) -> None:
    assert parse_chosen(printed, kind) == packages


def test_what_ubuntus_tool_would_remove_is_shown_and_has_its_option(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.system = UB22
    stage.say("ubuntu-drivers", CHOSEN)
    stage.say(
        "simulation",
        "Inst nvidia-driver-595-open (595.1)\nRemv nvidia-tesla-470-driver [470.256.02-1]",
    )
    words = ("--yes", "--blacklist-nouveau")
    assert stage.install(*words) == 4
    assert "would remove nvidia-tesla-470-driver" in capsys.readouterr().err
    assert "ubuntu-drivers install" not in stage.typed()
    assert stage.install(*words, "--remove-other-driver") == 3
    assert "ubuntu-drivers install" in stage.typed()


def test_a_driver_that_nothing_names_is_not_installed(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.system = UB22
    stage.fail("ubuntu-drivers")
    assert stage.install("--yes", "--blacklist-nouveau") == 4
    assert "see `ubuntu-drivers list`" in capsys.readouterr().err


# system, its package manager, what it prints of a removal, of none, and of what repositories have
RPM_SYSTEMS = (
    (EL9, "dnf", REPLACES, INSTALLS, "nvidia-470-local.noarch 1\ntoy-needs-470.noarch 1"),
    (SLES15, "zypper", SUMMARY, "<install-summary>",
     '<solvable status="not-installed" kind="package" repository="toy"/>'),
)  # fmt: skip


@pytest.mark.parametrize("machine", RPM_SYSTEMS, ids=["dnf", "zypper"])
def test_removals_of_rpm_systems_are_shown_and_have_their_option(
    stage: Stage, capsys: pytest.CaptureFixture[str], machine: tuple[Any, ...]
) -> None:
    stage.system, name, removing, nothing, available = machine
    stage.say("simulation", removing)
    stage.say(name, available)
    words = ("--yes", "--blacklist-nouveau")
    assert stage.install(*words) == 4
    assert "would remove nvidia-470" in capsys.readouterr().err
    assert not any(line.startswith(f"{name} ") and " -y " in line for line in stage.typed())
    (stage.folder / f"{name}.out").unlink()
    assert stage.install(*words, "--remove-other-driver") == 4
    assert "nothing would lead back" in capsys.readouterr().err
    stage.say("simulation", "Error: something else")
    assert stage.install(*words) == 4
    assert "nothing says what it would remove" in capsys.readouterr().err
    stage.say("simulation", nothing)
    assert stage.install(*words) == 3
    assert any(line.startswith(f"{name} ") and " -y " in line for line in stage.typed())


def test_a_driver_that_rpm_does_not_know_keeps_it_out(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    (stage.folder / "bin" / "dpkg-query").unlink()
    stage.system, stage.state = EL9, WORKS
    words = ("--yes", "--driver", "570", "--blacklist-nouveau")
    assert stage.install(*words) == 2
    assert "nothing would lead back" in capsys.readouterr().err
    stage.say("simulation", INSTALLS)
    stage.say("rpm", "nvidia-driver-535.261.03-1.el9.x86_64")
    assert stage.install(*words) == 3


def test_a_repository_whose_key_is_not_known_is_for_the_person(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.system = EL10
    assert stage.install("--yes", "--blacklist-nouveau") == 2
    assert "https alone vouches for its key" in capsys.readouterr().err
    assert stage.typed() == []


def test_a_process_that_computes_keeps_it_out(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.processes = (GpuProcess(4711, "python"),)
    assert stage.install("--yes") == 2
    assert "python (process 4711)" in capsys.readouterr().err
    assert stage.typed() == []


def test_a_driver_that_came_by_no_package_keeps_it_out(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.state, stage.packages = WORKS, known({})
    assert stage.install("--yes", "--driver", "570") == 2
    assert "nothing would lead back" in capsys.readouterr().err


def test_a_module_is_loaded_without_a_restart(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.state = {**BUILT, **SIGNED}
    assert stage.install("--yes") == 0
    assert stage.typed() == ["modprobe nvidia"]
    assert "The driver works." in capsys.readouterr().err


def test_a_step_that_fails_lists_what_was_done(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.state = WORKS
    stage.fail("nvidia-ctk")
    assert stage.install("--yes", "--containers", "docker") == 4
    told = capsys.readouterr().err
    assert "exit status 1" in told
    assert "undo: apt-get purge -y --auto-remove nvidia-container-toolkit" in told
    stage.fail("nvidia-ctk", fails=False)
    assert stage.install("--resume", "--yes", "--containers", "docker") == 0


def settled(stage: Stage, machine: dict[str, Any]) -> tuple[list[str], list[str], bool]:
    """Install to the end, across a restart.

    Return what was typed last, of each command once, the events of the newest journal, and whether
    every journal has come to its end.
    """
    before = len(stage.typed())
    assert stage.install("--yes", "--containers", "docker") == 3
    typed = stage.typed()[before:]
    stage.restart()
    stage.state = machine
    assert stage.install("--resume", "--yes") == 0
    place = driver_place()
    journals = [Journal(place, name) for name in place.identities()]
    events = [str(line["event"]) for line in journals[-1].lines()]
    return typed, events, all(each.is_settled for each in journals)


# begun, asked, two lines for each of four steps, waiting: eleven lines, an instant before and after
@pytest.mark.parametrize("instant", range(22))
def test_killed_at_an_instant_it_is_not_left_half_done(stage: Stage, instant: int) -> None:
    place = driver_place()
    killed = kill_at(instant, lambda: stage.install("--yes", "--containers", "docker"), place)
    assert killed is None
    assert all(Journal(place, name).is_settled for name in place.identities())
    typed, events, is_settled = settled(stage, WORKS)
    assert is_settled
    assert "apt-get install -y nvidia-driver firmware-misc-nonfree" in typed
    assert "apt-get update" in typed
    assert events[-2:] == ["installed", "finished"]


def test_there_are_no_more_instants(stage: Stage) -> None:
    work = lambda: stage.install("--yes", "--containers", "docker")  # noqa: E731 - as in the test above
    assert kill_at(22, work, driver_place()) == 3


@pytest.mark.parametrize(
    "program",
    ["sh -c for each", "apt-get update", "apt-get install -y linux", "apt-get install -y nvidia"],
)
def test_killed_inside_a_program_it_goes_on(stage: Stage, program: str) -> None:
    """The stand-in of apt kills what called it, in the middle of its own work."""
    (stage.folder / "kills").write_text(f"{program}\n", encoding="ascii")
    place = driver_place()
    assert kill_at(1000, lambda: stage.install("--yes", "--containers", "docker"), place) is None
    typed, events, is_settled = settled(stage, WORKS)
    assert is_settled
    assert "apt-get install -y nvidia-driver firmware-misc-nonfree" in typed
    assert events[-2:] == ["installed", "finished"]


def test_what_dpkg_left_half_done_comes_first(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    (stage.folder / "updates").mkdir()
    (stage.folder / "updates" / "0001").touch()
    assert stage.install("--yes") == 2
    assert "run `dpkg --configure -a` first" in capsys.readouterr().err
    assert stage.typed() == []


def test_where_removals_are_not_read_it_does_not_begin(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.system = ARCH
    assert stage.install("--yes") == 2
    assert "take the steps of `envcheck plan driver` yourself" in capsys.readouterr().err
    assert stage.typed() == []


def test_what_changes_nothing(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    assert stage.install("--yes", driver=("driver",)) == 2
    assert "add --system" in capsys.readouterr().err
    assert stage.install("--dry-run") == 0
    assert stage.install() == 2  # nobody can be asked
    assert stage.install("--reboot", "--yes", driver=("torch",)) == 2
    stage.state = WORKS
    assert stage.install("--yes") == 0
    assert stage.typed() == []


def test_a_user_is_refused(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_module, "is_root", lambda: False)
    assert stage.install("--yes") == 2
    assert stage.typed() == []

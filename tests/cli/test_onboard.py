"""`envcheck onboard` as it is typed: from a bare machine, across a restart and crashes, to the end.

The driver's part is played by programs that stand in for the system's, on a composed machine; the
environment is installed for real, from wheels of a JAX that holds nothing but its version, for the
processor. What computes is another test's subject: a session that passed stands in for it here.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest

from envcheck import api
from envcheck.cli import onboard as onboard_module
from envcheck.cli.doctor import compute
from envcheck.cli.install import change_environment
from envcheck.install.driver import driver_place
from envcheck.install.journal import Journal
from envcheck.install.places import Place, place_of
from envcheck.install.replacement import begin, put_in_place
from envcheck.model import replace
from envcheck.plan.verify import find_uv
from envcheck.smoke.devices import CPU_DEVICE
from envcheck.smoke.events import PASSED, RAISED, Result
from envcheck.smoke.session import Job, Run, Session, Subject
from tests.install.conftest import memory_folder, work_with_own_wheels
from tests.install.instants import kill_at
from tests.install.test_command import make_wheels
from tests.install.test_driver import WORKS, Stage, stage, type_command
from tests.plan.test_driver import BUILT, SIGNED
from tests.rules.factory_machine import known

__all__ = ["stage"]  # a fixture

pytestmark = pytest.mark.needs("posix")
ARGUMENTS = ("--for", "jax", "--yes", "-o", "page.txt")


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with memory_folder() as name:
        yield Path(name).resolve()


def computed(outcome: str) -> Session:
    """Return a smoke test on the processor that ended so."""
    result = Result("matmul", "CPU", outcome, "gave [[22.0]]")
    work = Run(Job(Subject("jax", "0.7.2"), CPU_DEVICE), outcome, (result,))
    return Session("quick", (work,), expect="cpu")


class Machine:
    """A bare machine with a GPU, a folder to work in, and what `onboard` leaves there."""

    def __init__(self, stage: Stage, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stage, self.folder, self.outcome = stage, folder, PASSED
        composed, real = stage.read, _READ

        def read(python: str = "", env: str = "", *rest: Any, **named: Any) -> Any:
            if not (python or env):
                return composed()
            found = real(python, env, *rest, **named)
            facts = composed().facts
            return replace(found, facts=replace(found.facts, gpus=facts.gpus, driver=facts.driver))

        def install(asked: Any, *rest: Any, **named: Any) -> Any:
            return change_environment(replace(asked, expect="cpu"), *rest, **named)

        def doctor(**named: Any) -> Any:
            return _DOCTOR(**{**named, "expect": "cpu"})

        def run_alone(wanted: Any, *_: Any) -> Session:
            assert wanted.expect == "cpu"
            return computed(self.outcome)

        def work(found: Any, wanted: Any, *rest: Any, **named: Any) -> Any:
            session = computed(self.outcome)
            monkeypatch.setattr("envcheck.cli.smoke.run_session", lambda *_, **__: session)
            return compute(found, replace(wanted, expect="cpu"), *rest, **named)

        monkeypatch.setattr(api, "read_machine", read)
        monkeypatch.setattr(api, "doctor", doctor)
        monkeypatch.setattr(onboard_module, "change_environment", install)
        monkeypatch.setattr(onboard_module, "compute", work)
        monkeypatch.setattr(onboard_module, "run_here", run_alone)
        monkeypatch.setattr(onboard_module, "is_root", lambda: True)

    def onboard(self, *words: str) -> int:
        """Type the command with its usual arguments, or with these."""
        return type_command("onboard", *(words or ARGUMENTS))

    def restart(self) -> None:
        """Play a restart, after which the driver that was installed is loaded."""
        self.stage.restart()
        self.stage.state = WORKS

    def state(self) -> tuple[Any, ...]:
        """Return all that any run must come to: files, packages, journals, and what the page lists."""
        golden = json.loads((self.folder / "golden.json").read_text())
        found = golden["facts"]["python"]["distributions"]["known"]
        frameworks = sorted(each["name"] for each in found)
        env = place_of(".venv")
        settled = [
            Journal(place, name).is_settled
            for place in (driver_place(), env)
            for name in place.identities()
        ]
        files = sorted(path.name for path in self.folder.iterdir() if path.name not in _OF_STAGE)
        packages = [path.name for path in env.folder.glob("lib/*/site-packages/jax*")]
        page = (self.folder / "page.txt").read_text()
        done = re.findall(r"(?m)^    \$ .*?(sh -c|apt-get \w+|uv \w+|python -c)", page)
        whole = all(settled) and not list(env.folder.glob(".envcheck-incomplete"))
        return files, len(packages), frameworks, whole, done


UNDISTURBED = (
    [".envcheck-.venv", ".venv", "golden.json", "page.txt", "wheels"],
    4,  # two packages, each with its metadata
    ["jax", "jaxlib"],
    True,
    ["sh -c", "apt-get update", *["apt-get install"] * 2, "uv venv", "uv pip", "python -c"],
)
_READ, _DOCTOR = api.read_machine, api.doctor
_OF_STAGE = frozenset(("bin", "log", "boot", "state", "apt-cache.out", "simulation.out", "loaded"))


@pytest.fixture
def machine(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: Any
) -> Machine:
    work_with_own_wheels(tmp_path, tmp_path_factory.mktemp("uv"), monkeypatch)
    monkeypatch.setenv("ENVCHECK_VERIFY", "0")
    uv = find_uv({"PATH": os.defpath})
    (tmp_path / "bin" / "uv").symlink_to(uv)
    (tmp_path / "bin" / "python3").symlink_to(Path(sys.base_prefix, "bin", "python3"))
    make_wheels(tmp_path)
    return Machine(stage, tmp_path, monkeypatch)


def test_from_bare_to_proven_across_a_restart(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert machine.onboard() == 3
    assert "Restart the machine, then type the same command again." in capsys.readouterr().err
    page = (machine.folder / "page.txt").read_text()
    assert page.startswith("UNDETERMINED  Restart the machine")
    assert "apt-get install -y nvidia-driver firmware-misc-nonfree" in page
    assert not Path(".venv").exists()
    typed = machine.stage.typed()
    assert machine.onboard() == 3  # nobody restarted: nothing is done twice
    assert machine.stage.typed() == typed
    machine.restart()
    assert machine.onboard() == 0, capsys.readouterr().err
    page = (machine.folder / "page.txt").read_text()
    assert page.startswith("COMPATIBLE  ")
    for line in ("Driver  ", "Environment  ", "Proof  ", "Snapshot  ", "Done to this machine"):
        assert f"\n{line}" in page
    assert "apt-get install -y nvidia-driver firmware-misc-nonfree" in page
    assert machine.stage.typed() == typed
    golden = Path("golden.json").read_text()
    assert machine.state() == UNDISTURBED
    assert machine.onboard() == 0
    assert machine.state() == UNDISTURBED
    assert Path("golden.json").read_text() == golden


# The driver's part: begun, asked, two lines for each of four steps, waiting. Every instant of it is
# tried in tests/install/test_driver.py.
@pytest.mark.parametrize("instant", range(0, 22, 6))
def test_killed_before_the_restart_it_goes_on(machine: Machine, instant: int) -> None:
    assert kill_at(instant, machine.onboard, driver_place()) is None
    assert machine.onboard() == 3
    last = Journal(driver_place(), driver_place().identities()[-1])
    assert last.is_waiting
    assert "apt-get install -y nvidia-driver firmware-misc-nonfree" in machine.stage.typed()


@pytest.fixture
def restarted(machine: Machine) -> Machine:
    assert machine.onboard() == 3
    machine.restart()
    return machine


# The environment's part: begun, made, two lines for each of three steps, verifying, installed,
# finished. Every boundary of it is tried in tests/install/test_faults.py.
@pytest.mark.parametrize("instant", range(1, 23, 4))
def test_killed_after_the_restart_it_goes_on(restarted: Machine, instant: int) -> None:
    env = place_of(".venv")
    assert kill_at(instant, restarted.onboard, env) is None
    held = bool(list(env.folder.glob("lib/*/site-packages/jax-*")))
    assert held == any(Journal(env, name).is_installed for name in env.identities())
    assert restarted.onboard() == 0
    assert restarted.state() == UNDISTURBED


def leave_half_made(place: Place) -> Path:
    """Leave what a power cut leaves of an environment, when nothing is there to undo it; return the journal."""
    place.state.mkdir()
    journal = Journal(place, "20260101T000000-1")
    begin(journal, ("jax",))
    put_in_place(journal)
    return place.journal(journal.identity)


def test_what_a_power_cut_left_of_the_environment_goes(restarted: Machine) -> None:
    leave_half_made(place_of(".venv"))
    assert restarted.onboard() == 0
    assert restarted.state() == UNDISTURBED


def test_a_journal_that_came_with_a_repository_is_not_followed(
    restarted: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    path = leave_half_made(place_of(".venv"))
    path.write_text(re.sub(r'"at": "\d{4}', '"at": "2021', path.read_text()))
    assert restarted.onboard() == 2
    assert "envcheck did not make it" in capsys.readouterr().err
    assert list(Path(".venv").iterdir())


def test_killed_before_the_snapshot_is_there(
    restarted: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("envcheck.cli.common.write_file", killed)
        with pytest.raises(KeyboardInterrupt):
            restarted.onboard()
    assert not Path("golden.json").exists()
    assert restarted.onboard() == 0
    assert Path("golden.json").exists()


def test_a_failed_proof_saves_nothing(
    restarted: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    restarted.outcome = RAISED
    assert restarted.onboard() == 4
    assert not Path("golden.json").exists()
    assert "1 of 1 runs failed" in capsys.readouterr().err
    restarted.outcome = PASSED
    assert restarted.onboard() == 0
    assert Path("golden.json").exists()


def test_without_root_the_environment_is_made_for_the_driver_that_is_named(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(onboard_module, "is_root", lambda: False)
    assert machine.onboard("--for", "jax", "--yes", "--reboot") == 1
    printed = capsys.readouterr().out
    assert printed.startswith("INCOMPATIBLE  On the processor alone, until the driver works")
    assert "$ sudo " in printed
    assert "envcheck install driver --system --for jax --reboot" in printed
    assert machine.stage.typed() == []
    assert list(place_of(".venv").folder.glob("lib/*/site-packages/jax-*"))
    assert not Path("golden.json").exists(), "the machine is not proven"
    # root installs the driver; the same command goes on
    machine.restart()
    machine.stage.state = WORKS
    assert machine.onboard("--for", "jax", "--yes", "--reboot") == 0
    assert "is already installed, and works" in capsys.readouterr().out
    assert Path("golden.json").exists()


def test_the_environment_of_a_coming_driver_is_judged_as_if_cuda_started(
    machine: Machine,
) -> None:
    """Nothing that a driver brings is read before it is there, and no GPU is listed."""
    from envcheck.cli.install import _read_with_driver
    from envcheck.plan.steps import without_gpu_check

    doctor = api.make_doctor("gpu", ("torch==2.6.0",))
    doctor = replace(doctor, read=partial(_read_with_driver, "535.309.01", doctor.matrix))
    report = doctor.examine("", "").report
    assert not any("driver." in item.message for item in report.findings)
    plan = api.plan(("torch==2.6.0",), expect="gpu", snapshot=doctor.read("", "")).plan
    lines = [" ".join(step.action.command()) for step in plan.steps]
    assert any("no GPU seen" in line for line in lines)
    changed = without_gpu_check(plan)
    lines = [" ".join(step.action.command()) for step in changed.steps]
    assert not any("no GPU seen" in line for line in lines)
    assert "import torch" in lines[-1]
    assert len(changed.steps) == len(plan.steps)


def test_without_root_a_proof_that_fails_on_the_processor_is_an_error(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onboard_module, "is_root", lambda: False)
    machine.outcome = RAISED
    assert machine.onboard("--for", "jax", "--yes") == 4


def test_without_root_and_a_package_for_the_card_the_environment_waits(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(onboard_module, "is_root", lambda: False)
    machine.stage.state = {**BUILT, **SIGNED}  # a driver of an unknown release, not loaded
    assert machine.onboard("--for", "jax", "--yes") == 1
    assert "Load the driver's kernel module" in capsys.readouterr().out
    assert not Path(".venv").exists()


def test_without_root_containers_stop_nothing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(onboard_module, "is_root", lambda: False)
    # a driver that works and containers that are not set up stop nothing
    machine.stage.state = WORKS
    assert machine.onboard("--for", "jax", "--yes", "--containers", "docker") == 0
    assert "install driver --system --for jax --containers docker" in capsys.readouterr().out
    assert machine.stage.typed() == []
    assert Path("golden.json").exists()


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ({"container": known("docker")}, "on the host, not in the container"),
        ({"wsl_version": known(2)}, "in Windows (nvidia.com/drivers), not inside WSL"),
        ({"jetson_release": known("R36.4")}, "install a newer JetPack release"),
    ],
)
def test_where_the_driver_comes_from_elsewhere_nothing_is_installed(
    machine: Machine, capsys: pytest.CaptureFixture[str], place: dict[str, Any], words: str
) -> None:
    machine.stage.state = place
    assert machine.onboard("--for", "jax", "--yes") == 1
    assert words in " ".join(capsys.readouterr().out.split())
    assert machine.stage.typed() == []
    assert not Path(".venv").exists()


def test_a_dry_run_shows_what_is_left(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    assert machine.onboard("--for", "jax", "--dry-run") == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("PLAN  What is left to do here.")
    assert "$ apt-get update" in printed.err
    assert "Planned once the driver works." in printed.out
    assert machine.stage.typed() == []
    machine.stage.state = WORKS
    assert machine.onboard("--for", "jax", "--dry-run") == 0
    assert "jax==" in capsys.readouterr().out
    assert not Path(".venv").exists()
    assert not Path("golden.json").exists()


def test_a_file_states_the_options(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    text = 'for = ["jax"]\ngolden = "g.json"\nexpect = "cpu"\nreboot = true\n'
    Path("onboard.toml").write_text(text)
    assert machine.onboard("--config", "onboard.toml", "--yes") == 0
    assert Path("g.json").exists()
    assert machine.onboard("--config", "onboard.toml", "--yes", "--golden", "other.json") == 0
    assert Path("other.json").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("for = 'jax'", "for must be an array"),
        ("for = [1]", "for must be an array"),
        ("reboot = 'yes'", "reboot must be true or false"),
        ("python = 3.1", "python must be a text"),
        ("env = ''", "env must be a text"),
        ("expect = 'tpu'", "tpu"),
        ("yes = true", "there is no key 'yes'"),
        ("[tool]\nfor = []", "there is no key 'tool'"),
        ("for", "is not TOML"),
        (f"env = '{'x' * 70_000}'", "larger than"),
    ],
)
def test_a_file_is_read_strictly(
    machine: Machine, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    Path("onboard.toml").write_text(text)
    assert machine.onboard("--config", "onboard.toml", "--yes") == 2
    assert words in capsys.readouterr().err


def test_what_must_work_is_named_once(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    assert machine.onboard("--yes") == 2
    assert machine.onboard("--yes", "--for", "jax", "--lock", "pylock.toml") == 2
    assert "name what must work here" in capsys.readouterr().err


def test_an_older_snapshot_is_kept_and_said_to_be_old(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.stage.state = WORKS
    Path("golden.json").write_text("mine")
    os.utime("golden.json", (0, 0))
    assert machine.onboard("--for", "jax", "--yes") == 0
    assert "golden.json is older than the last change" in capsys.readouterr().out
    assert Path("golden.json").read_text() == "mine"


def test_the_page_as_json(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    schema = (Path(onboard_module.__file__).parents[1] / "schemas/onboard.schema.json").read_text()
    check = fastjsonschema.compile(json.loads(schema))
    assert machine.onboard("--for", "jax", "--yes", "--json") == 3
    waiting = json.loads(capsys.readouterr().out)
    check(waiting)
    assert [part["name"] for part in waiting["parts"]] == ["Driver"]
    assert waiting["report"] is None
    machine.restart()
    assert machine.onboard("--for", "jax", "--yes", "--json") == 0
    proven = json.loads(capsys.readouterr().out)
    check(proven)
    assert [part["state"] for part in proven["parts"]] == ["ok"] * 4
    assert proven["report"]["smoke"]["verdict"] == "compatible"


@pytest.mark.parametrize("form", ["markdown", "html"])
def test_the_page_in_other_formats(machine: Machine, form: str) -> None:
    machine.stage.state = WORKS
    name = f"page.{form}"
    assert machine.onboard("--for", "jax", "--yes", "--format", form, "-o", name) == 0
    page = Path(name).read_text()
    assert "Smoke test" in page
    assert "golden.json" in page

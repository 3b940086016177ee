"""Whatever happens to an installation: the environment is the old or the new one, it starts, and it is said which."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envcheck.cli.group import run
from envcheck.host.file_changes import copy_tree, lock_file
from envcheck.install.journal import Journal
from envcheck.install.places import Place, place_of
from envcheck.model import UserError
from tests.install.session import HELD
from tests.install.wheels import held_by, make_environment, tree_hash
from tests.patience import PATIENCE, wait_for

pytestmark = pytest.mark.needs("posix")
ROOT = Path(__file__).parents[2]
# Every line of a journal is a boundary: kill once so many lines are there.
LINES_OF_EXISTING = 9  # begun copied step done step done verifying installed finished
LINES_OF_NEW = 11  # begun made (step done) x 3 verifying installed finished


@pytest.fixture
def existing(stock: Path, tmp_path: Path) -> Path:
    copy_tree(stock / "env", tmp_path / "env")
    return tmp_path / "env"


def start(folder: Path, wheels: Path | str, how: str = "accept") -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "tests.install.session", str(folder), str(wheels), how]
    return subprocess.Popen(
        argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def finished(process: subprocess.Popen[str]) -> str:
    said, _ = process.communicate(timeout=PATIENCE)
    return said


def journal_of(place: Place) -> Journal:
    return Journal(place, place.identities()[-1])


def wait_for_lines(place: Place, count: int, process: subprocess.Popen[str]) -> None:
    wait_for(
        lambda: (
            process.poll() is not None
            or (place.identities() and len(journal_of(place).lines()) >= count)
        ),
        f"{count} lines of the journal",
    )


def kill(process: subprocess.Popen[str], place: Place) -> None:
    """Kill -9, and wait until nobody holds the environment: its guard is done then."""
    process.kill()
    finished(process)
    if place.state.is_dir():
        with lock_file(str(place.lock), PATIENCE):
            pass


def boundaries(count: int) -> list[int]:
    return list(range(1, count + 1))


@pytest.mark.parametrize("lines", boundaries(LINES_OF_EXISTING))
def test_killed_at_a_step_boundary_of_an_existing_environment(
    stock: Path, existing: Path, lines: int
) -> None:
    before, place = tree_hash(existing), place_of(existing)
    process = start(existing, stock / "wheels")
    wait_for_lines(place, lines, process)
    kill(process, place)
    held = held_by(existing)
    assert held == ("2.0" if journal_of(place).is_installed else "1.0")
    assert held == "2.0" or tree_hash(existing) == before
    assert journal_of(place).is_settled


@pytest.mark.parametrize("lines", boundaries(LINES_OF_NEW))
def test_killed_at_a_step_boundary_of_a_new_environment(
    stock: Path, tmp_path: Path, lines: int
) -> None:
    folder = tmp_path / "env"
    process = start(folder, stock / "wheels")
    wait_for_lines(place_of(folder), lines, process)
    kill(process, place_of(folder))
    assert held_by(folder) == ("2.0" if journal_of(place_of(folder)).is_installed else "none")


@pytest.mark.parametrize("delay", [0.4, 0.8])
def test_killed_at_some_instant_inside_pip(stock: Path, existing: Path, delay: float) -> None:
    before, place = tree_hash(existing), place_of(existing)
    process = start(existing, stock / "wheels", "pip")
    time.sleep(delay)
    kill(process, place)
    held = held_by(existing)
    assert held in {"1.0", "2.0"}
    assert held == "2.0" or tree_hash(existing) == before


@pytest.mark.parametrize("lines", [2, 3, 5])
def test_power_loss_is_settled_by_resume(
    stock: Path, existing: Path, lines: int, capfd: pytest.CaptureFixture[str]
) -> None:
    before, place = tree_hash(existing), place_of(existing)
    process = start(existing, stock / "wheels", "wait")
    wait_for_lines(place, lines, process)
    for number in everything_below(process.pid):
        os.kill(number, signal.SIGKILL)
    finished(process)
    assert not journal_of(place).is_settled
    assert run(["install", "--resume", "--env", str(existing)]) == 0
    assert "is the old environment, as it was before" in capfd.readouterr().err
    assert held_by(existing) == "1.0"
    assert tree_hash(existing) == before
    assert run(["install", "--resume", "--env", str(existing)]) == 0
    assert "There is nothing to do" in capfd.readouterr().out


def everything_below(number: int) -> list[int]:
    """List a process with its children, its guard first, so that nobody is left to put things right."""
    children = [
        int(word) for word in Path(f"/proc/{number}/task/{number}/children").read_text().split()
    ]
    return [*(below for child in children for below in everything_below(child)), number]


def test_power_loss_after_the_commit_is_finished_by_resume(
    stock: Path, existing: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert start(existing, stock / "wheels").wait(PATIENCE) == 0
    place = place_of(existing)
    path = place.journal(journal_of(place).identity)
    # cut off in the last line
    path.write_text("\n".join(path.read_text().splitlines()[:-1]) + '\n{"event": "fini')
    (existing / ".envcheck-incomplete").write_text("as it was when the power failed")
    assert run(["install", "--resume", "--env", str(existing)]) == 0
    assert "is the new environment" in capfd.readouterr().err
    assert held_by(existing) == "2.0"


def test_the_activation_says_that_an_installation_is_not_complete(
    stock: Path, tmp_path: Path
) -> None:
    for folder in (tmp_path / "env", tmp_path / "new"):
        if folder.name == "env":
            # a copy's activation would name the original
            make_environment(folder, stock / "wheels", "1.0")
        process = start(folder, stock / "wheels", "wait")
        wait_for_lines(place_of(folder), 7 if folder.name == "env" else 9, process)
        assert "installation into this environment is not complete" in activate(folder)
        (tmp_path / "go").touch()
        assert "settled new" in finished(process)
        assert activate(folder) == ""
        assert "# envcheck" not in (folder / "bin/activate").read_text()
        (tmp_path / "go").unlink()


def activate(folder: Path) -> str:
    script = f"set -eu; . {folder}/bin/activate"
    return subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stderr


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_interrupted_terminated_or_hung_up(stock: Path, existing: Path, name: str) -> None:
    before, place = tree_hash(existing), place_of(existing)
    process = start(existing, stock / "wheels", "wait")
    wait_for_lines(place, 7, process)
    process.send_signal(getattr(signal, name))
    assert "settled old interrupted" in finished(process)
    assert process.returncode == -getattr(signal, name)
    assert tree_hash(existing) == before


def test_a_verification_that_fails_brings_the_old_environment_back(
    stock: Path, existing: Path
) -> None:
    before = tree_hash(existing)
    process = start(existing, stock / "wheels", "refuse")
    assert "settled old the test refuses it" in finished(process)
    assert process.returncode == 4
    assert tree_hash(existing) == before
    assert held_by(existing) == "1.0"


def test_two_at_once_exclude_each_other(stock: Path, existing: Path) -> None:
    first = start(existing, stock / "wheels", "wait")
    wait_for_lines(place_of(existing), 7, first)
    second = start(existing, stock / "wheels")
    assert second.wait(PATIENCE) == HELD
    with pytest.raises(UserError, match=f"process {first.pid}.* is running"):
        run(["install", "--resume", "--env", str(existing)])
    (existing.parent / "go").touch()
    assert "settled new" in finished(first)
    assert held_by(existing) == "2.0"


def test_going_back_restores_all_that_was_there(
    stock: Path, existing: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = tree_hash(existing)
    assert start(existing, stock / "wheels").wait(PATIENCE) == 0
    assert held_by(existing) == "2.0"
    assert run(["install", "--rollback", "--env", str(existing), "--yes"]) == 0
    assert "is the old environment, as it was before" in capfd.readouterr().out
    assert tree_hash(existing) == before  # the editable install among it
    with pytest.raises(UserError, match="left to undo"):
        run(["install", "--rollback", "--env", str(existing), "--yes"])


def test_a_copy_of_the_project_goes_back_too(
    stock: Path, existing: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """`cp -a` takes the kept environment along; every folder gets another number."""
    before = tree_hash(existing)
    assert start(existing, stock / "wheels").wait(PATIENCE) == 0
    copy = tmp_path_factory.mktemp("copied") / "project"
    subprocess.run(["cp", "-a", existing.parent, copy], check=True)
    folder = copy / existing.name
    assert run(["install", "--rollback", "--env", str(folder), "--yes"]) == 0
    assert tree_hash(folder) == before
    assert held_by(existing) == "2.0"


def test_only_the_last_environment_is_kept(stock: Path, existing: Path) -> None:
    for _ in range(2):
        assert start(existing, stock / "wheels").wait(PATIENCE) == 0
    place = place_of(existing)
    first, second = place.identities()
    assert [path.name for path in place.leftovers()] == [f"{second}.kept"]
    with pytest.raises(UserError, match="no longer kept"):
        run(["install", "--rollback", first, "--env", str(existing), "--yes"])
    with pytest.raises(UserError, match=f"the last one is {second}"):
        run(["install", "--rollback", "nothing", "--env", str(existing), "--yes"])

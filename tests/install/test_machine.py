"""What an installation did to the machine is written down, and told where the installation failed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import fastjsonschema
import pytest

from envcheck.cli.installation import InstallProgress
from envcheck.install.journal import Journal
from envcheck.install.places import Place, place_of
from envcheck.install.transaction import system_changes
from envcheck.model import RESTORED, SYSTEM, Outcome, Step, SystemChange
from envcheck.render.plan import render_install_json
from tests.install.session import creating, transaction
from tests.model.test_schemas import SCHEMAS
from tests.typed import argv, command_step

pytestmark = pytest.mark.needs("posix")


def touching(name: str, path: Path) -> Step:
    """Write a step that stands in for one of the machine's: it makes a file."""
    words = (sys.executable, "-c", f"open({str(path)!r}, 'w')")
    undo = ("sudo", "rm", "-f", str(path))
    check = ("test", "-e", str(path))
    return command_step(name, *words, purpose="Make it.", scope=SYSTEM, check=check, undo=undo)


def failed(tmp_path: Path, *machine: Step) -> tuple[Journal, Outcome]:
    """Install with steps of the machine, and a step of the environment that fails."""
    place: Place = place_of(tmp_path / "env")
    broken = command_step("install", sys.executable, "-c", "raise SystemExit(3)")
    outcome = transaction(place.folder, *machine, creating(place.folder), broken).run(
        InstallProgress(5)
    )
    assert outcome.outcome == RESTORED
    return Journal(place, place.identities()[-1]), outcome


def test_what_was_done_to_the_machine_is_told_where_a_later_step_fails(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    restart = command_step("lists", "true", scope=SYSTEM, lasting="it reads lists alone")
    journal, outcome = failed(tmp_path, touching("one", first), restart, touching("two", second))
    assert first.exists()
    assert second.exists()
    assert [item.id for item in system_changes(journal)] == ["two", "lists", "one"]
    assert system_changes(journal)[0] == SystemChange(
        "two", argv(touching("two", second)), ("sudo", "rm", "-f", str(second))
    )
    told = capfd.readouterr().err
    assert "Changes to this machine, newest first" in told
    assert told.index(f"undo: sudo rm -f {second}") < told.index(f"undo: sudo rm -f {first}")
    assert "(it reads lists alone)" in told
    document = json.loads(render_install_json(outcome, None))
    fastjsonschema.compile(
        json.loads((SCHEMAS / "install.schema.json").read_text(encoding="utf-8"))
    )(document)
    assert [item["id"] for item in document["machine"]] == ["two", "lists", "one"]


def test_what_was_there_before_is_not_taken_away(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    there = tmp_path / "there"
    there.touch()
    journal, _ = failed(tmp_path, touching("one", there))
    assert system_changes(journal) == (
        SystemChange("one", argv(touching("one", there)), (), "it was there before, so it stays"),
    )
    assert "undo:" not in capfd.readouterr().err


def test_a_step_of_the_machine_that_brings_nothing_fails(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    idle = command_step(
        "idle", "true", scope=SYSTEM, check=("test", "-e", str(tmp_path / "x")), undo=("x",)
    )
    journal, outcome = failed(tmp_path, idle)
    assert outcome.why == "the step idle did not have its effect: exit status 1"
    assert [item.id for item in system_changes(journal)] == ["idle"]
    assert not journal.place.folder.exists()
    assert "Make" not in capfd.readouterr().err


def test_an_installation_without_such_steps_tells_of_none(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    journal, outcome = failed(tmp_path)
    assert system_changes(journal) == ()
    assert outcome.machine == ()
    assert "Done to this machine" not in capfd.readouterr().err


def test_journal_and_log_keep_no_credentials_of_an_index(tmp_path: Path) -> None:
    index = "https://anna:s3cret@packages.example/simple"
    shown = command_step(
        "show", sys.executable, "-c", "import sys; print(sys.argv[1])", "--index-url=" + index
    )
    journal, _ = failed(tmp_path, shown)
    kept = [
        path.read_text(encoding="utf-8") for path in journal.place.state.iterdir() if path.is_file()
    ]
    assert any("--index-url=https://***@packages.example/simple" in text for text in kept)
    assert not any("s3cret" in text for text in kept)

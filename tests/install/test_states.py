"""Journals in states that crashes leave, and how it is told where somebody watches."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from envcheck.cli.group import run
from envcheck.cli.install import format_activation_hint
from envcheck.cli.installation import InstallProgress
from envcheck.host.file_changes import lock_file
from envcheck.install.journal import Journal, new_identity
from envcheck.install.places import MARKER, Place, place_of
from envcheck.install.replacement import (
    NEW,
    OLD,
    ChangeError,
    begin,
    commit,
    put_in_place,
    restore,
    settle,
    unsettled,
)
from envcheck.install.transaction import UnsettledError, hold, outcome_of
from envcheck.model import INSTALLED, RESTORED, Outcome, UserError
from tests.install.session import Told, transaction
from tests.typed import command_step

pytestmark = pytest.mark.needs("posix")
FIRST = "20260101T000000-7"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    found = place_of(tmp_path / "env")
    found.state.mkdir()
    return found


def installed(place: Place, identity: str = FIRST) -> Journal:
    journal = Journal(place, identity)
    begin(journal, ("demo",))
    put_in_place(journal)
    (place.folder / "new").write_text(identity)
    commit(journal)
    return journal


def test_a_journal_without_a_line_is_of_nothing(place: Place) -> None:
    place.journal(FIRST).touch()
    assert unsettled(place) == ()
    assert settle(Journal(place, FIRST), "why") == OLD
    assert place.identities() == ()


def test_what_is_settled_is_left_alone(place: Place) -> None:
    journal = installed(place)
    before = journal.lines()
    assert settle(journal, "why") == NEW
    restore(journal, "asked for")
    assert settle(journal, "why") == OLD
    assert len(journal.lines()) == len(before) + 2
    assert not place.folder.exists()


def test_the_next_installation_settles_the_one_before(
    place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    journal = Journal(place, FIRST)
    begin(journal, ("demo",))
    put_in_place(journal)
    with hold(place, Told()):
        assert journal.is_settled
    assert "settled old it was interrupted" in capfd.readouterr().out
    assert not place.folder.exists()


def test_conda_makes_its_folder_itself(place: Place) -> None:
    journal = Journal(place, FIRST)
    begin(journal, ("demo",))
    put_in_place(journal, marked=False)
    assert not place.folder.exists()
    place.folder.mkdir()
    assert settle(journal, "why") == OLD
    assert not place.folder.exists()


def test_identities_grow_also_when_the_clock_goes_back(place: Place) -> None:
    place.journal("29990101T000000-7").touch()
    assert new_identity(place, 1) == "29990101T000000-8"


def test_another_environment_in_its_place_is_left_as_it_is(place: Place) -> None:
    installed(place)
    place.folder.rename(place.folder.parent / "moved")
    place.folder.mkdir()
    with pytest.raises(UserError, match="is not the environment that"):
        run(["install", "--rollback", "--env", str(place.folder), "--yes"])


def test_what_cannot_be_put_back_is_said(
    place: Place, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    installed(place)

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("envcheck.install.transaction.restore", fail)
    assert run(["install", "--rollback", "--env", str(place.folder), "--yes"]) == 4
    assert f"not restored: {place.folder}: Input/output error. Fix that" in capfd.readouterr().err


def test_a_held_environment_is_not_rolled_back(place: Place) -> None:
    installed(place)
    with lock_file(str(place.lock), 0.0), pytest.raises(UserError, match="is running in"):
        run(["install", "--rollback", "--env", str(place.folder), "--yes"])


def test_the_last_line_is_shown_where_somebody_watches(
    place: Place, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    progress = InstallProgress(2)
    progress.begins("Install it.")
    progress.hears("Downloading \x1b[31mdemo")
    progress.settled(Outcome(RESTORED, str(place.folder), why="the test refuses it"), existed=True)
    said = capfd.readouterr().err
    assert "[1/2] Install it. (0 s)\n" in said
    assert " 0/2 Downloading \ufffd[31mdemo (0 s)\r\x1b[K" in said
    assert "Not installed: the test refuses it." in said


def test_a_terminal_that_was_closed_ends_no_installation(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(_: str) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(sys.stderr, "write", gone)
    step = command_step("say", "echo", "Downloading", purpose="Install it.")
    assert (
        transaction(place.folder, step).run(InstallProgress(1, verbose=True)).outcome == INSTALLED
    )


def test_an_installation_that_can_neither_be_finished_nor_undone_is_said_to_be(
    place: Place, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    begin(Journal(place, FIRST), ("demo",))

    def refuse(*_: object) -> None:
        raise ChangeError("the environment as it was is at none of these.")

    monkeypatch.setattr("envcheck.install.transaction.settle", refuse)
    assert run(["install", "--resume", "--env", str(place.folder), "--format", "json"]) == 4
    said = capfd.readouterr()
    assert (
        "could not be restored: the environment as it was is at none of these. The old " in said.err
    )
    assert '"outcome": "unsettled"' in said.out


@pytest.mark.parametrize("installer", ["pip", "conda"])
def test_an_environment_with_a_hook_is_to_be_activated(tmp_path: Path, installer: str) -> None:
    folder = tmp_path / "a b"
    (folder / "conda-meta" if installer == "conda" else folder).mkdir(parents=True)
    line = f"conda activate '{folder}'" if installer == "conda" else f". '{folder}/bin/activate'"
    assert format_activation_hint(place_of(folder)).endswith(f"zsh: {line}")


def test_every_line_to_paste_names_the_folder_whatever_it_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    place = place_of(tmp_path / "my 'own' $HOME \"env\"")
    place.state.mkdir()
    InstallProgress(1).settled(outcome_of(installed(place)), existed=False)
    back = capfd.readouterr().err.splitlines()[0].partition("To remove it: ")[2]
    assert shlex.split(back) == ["envcheck", "install", "--rollback", "--env", str(place.folder)]
    assert shlex.split(format_activation_hint(place).partition("zsh: ")[2]) == [
        ".",
        f"{place.folder}/bin/activate",
    ]
    journal = Journal(place, "20260101T000001-7")
    begin(journal, ("demo",))
    put_in_place(journal)
    resume = ["envcheck", "install", "--resume", "--env", str(place.folder)]
    assert shlex.split((place.folder / MARKER).read_text().splitlines()[1]) == resume
    monkeypatch.setattr("envcheck.install.transaction.settle", lambda *_: refused())
    with pytest.raises(UnsettledError) as told, hold(place, Told()):
        pass
    assert shlex.split(str(told.value).split("`")[1]) == resume


def refused() -> str:
    raise ChangeError("no.")


@pytest.mark.parametrize(
    "text",
    [
        "garbage\n",
        '{"event": "begun"}\n',
        '{"event": 5}\n',
        "[]\n",
        '{"event": "installed", "at": "soon", "inode": 1}\n',
    ],
)
def test_a_journal_that_does_not_tell_what_was_there_is_said_to_be_broken(
    place: Place, text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    place.journal(FIRST).write_text(text)
    place.folder.mkdir()
    (place.folder / "kept").touch()
    for asked, code in ((["--resume"], 4), (["--resume", "--format", "json"], 4)):
        assert run(["install", *asked, "--env", str(place.folder)]) == code
        assert (
            f"{place.folder} may be the old environment, the new one or half of it"
            in capfd.readouterr().err
        )
    with pytest.raises(UserError, match=f"then remove {place.state}"):
        run(["install", "jax", "--env", str(place.folder), "--yes"])
    with pytest.raises(UserError, match="left to undo"):
        run(["install", "--rollback", "--env", str(place.folder), "--yes"])
    assert (place.folder / "kept").exists()


def test_an_installation_whose_first_line_is_lost_cannot_be_undone(place: Place) -> None:
    path = installed(place).place.journal(FIRST)
    path.write_text(path.read_text().replace('"existed": false', '"existed": 7'))
    with pytest.raises(UserError, match="does not record what was there before"):
        run(["install", "--rollback", "--env", str(place.folder), "--yes"])
    assert (place.folder / "new").exists()

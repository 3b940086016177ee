"""What the surroundings of an installation do to it: a full disk, an index that goes away, steps that fail."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from envcheck.actions import AskPerson
from envcheck.install.journal import Journal
from envcheck.install.places import place_of
from envcheck.install.replacement import ChangeError
from envcheck.install.transaction import describe_error
from envcheck.model import INSTALLED, SYSTEM, UNSETTLED, Step
from tests.install.session import Told, transaction, unpacking
from tests.install.wheels import PARTS, held_by, make_environment, tree_hash
from tests.typed import command_step

pytestmark = pytest.mark.needs("posix")
ROOT = Path(__file__).parents[2]
# Runs in a private mount namespace: an environment on a small disk, then an installation that fills
# it.
_SMALL_DISK = """
set -e
mount -t tmpfs -o size=$4 tmpfs "$1"
cp -a "$2/env" "$1/env"
cd "$3"
"$5" -m tests.install.session "$1/env" "$2/wheels" accept && echo RETURNED 0 || echo RETURNED $?
"$5" -c 'from tests.install.wheels import *; p = Path("'$1'/env"); print("HELD", held_by(p), tree_hash(p))'
"""


class Vanishing(BaseHTTPRequestHandler):
    """An index that serves the first part, and goes away in the middle of the second."""

    wheels: Path

    def do_GET(self) -> None:
        parts = self.path.strip("/").split("/")
        if parts[0] == "simple" and len(parts) > 1:
            name = parts[1].replace("-", "_")
            self._send(
                f'<a href="/files/{name}-2.0-py3-none-any.whl">{name}-2.0-py3-none-any.whl</a>'.encode()
            )
        elif parts[0] == "files" and PARTS[0] in parts[1]:
            self._send((self.wheels / parts[1]).read_bytes())
        else:
            self.send_response(200)
            self.send_header("Content-Length", "100000")
            self.end_headers()
            self.wfile.write(b"PK")
            self.connection.close()
            threading.Thread(target=self.server.shutdown).start()  # nobody answers any more

    def _send(self, data: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def environment(stock: Path, tmp_path: Path) -> Path:
    make_environment(tmp_path / "env", stock / "wheels", "1.0")
    return tmp_path / "env"


@pytest.fixture
def index(stock: Path) -> Iterator[str]:
    Vanishing.wheels = stock / "wheels"
    with ThreadingHTTPServer(("127.0.0.1", 0), Vanishing) as server:
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/simple"
        server.shutdown()


@pytest.mark.needs("mount-namespace")
# full in the middle of a step; while the copy is made
@pytest.mark.parametrize("room", ["1500k", "400k"])
def test_a_full_disk(stock: Path, tmp_path: Path, room: str) -> None:
    argv = [
        "unshare",
        "-m",
        "sh",
        "-c",
        _SMALL_DISK,
        "sh",
        str(tmp_path),
        str(stock),
        str(ROOT),
        room,
        sys.executable,
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert "RETURNED 4" in done.stdout, done.stdout + done.stderr
    assert "settled old" in done.stdout
    assert "No space left" in done.stdout
    assert f"HELD 1.0 {tree_hash(stock / 'env')}" in done.stdout


def test_an_index_that_goes_away(environment: Path, index: str) -> None:
    before = tree_hash(environment)
    argv = [sys.executable, "-m", "tests.install.session", str(environment), index, "pip"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    variables = {**clean, "PIP_CONFIG_FILE": os.devnull, "NO_PROXY": "127.0.0.1"}
    done = subprocess.run(
        argv, cwd=ROOT, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 4, done.stdout + done.stderr
    assert "settled old the step install failed: exit status" in done.stdout
    assert held_by(environment) == "1.0"
    assert tree_hash(environment) == before


def changed(folder: Path, *steps: Step, judged: str = "") -> bool:
    """Run steps; return whether the environment is the new one."""
    return transaction(folder, *steps, judge=lambda: judged).run(Told()).outcome == INSTALLED


def fails(*words: str, check: tuple[str, ...] = ()) -> Step:
    return command_step(
        "fails", *(words or (sys.executable, "-c", "raise SystemExit(3)")), check=check
    )


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (fails(), "the step fails failed: exit status 3"),
        (fails("/nowhere/program"), "the step fails failed: /nowhere/program could not be started"),
        (fails("sh", "-c", "kill -9 $$"), "the step fails failed: ended by signal 9"),
        (fails("true", check=("false",)), "the step fails did not have its effect: exit status 1"),
    ],
)
def test_a_step_that_fails(
    environment: Path, step: Step, why: str, capfd: pytest.CaptureFixture[str]
) -> None:
    before = tree_hash(environment)
    assert not changed(environment, step)
    assert why in capfd.readouterr().out
    assert tree_hash(environment) == before


def test_what_a_step_prints_is_heard_and_logged(
    environment: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    step = command_step("say", "sh", "-c", "echo out; echo err >&2")
    assert changed(environment, step)
    assert "hears out\nhears err\n" in capfd.readouterr().out
    place = place_of(environment)
    assert place.log(place.identities()[-1]).read_text() == "out\nerr\n"


def test_steps_of_the_machine_come_before_the_environment_is_touched(environment: Path) -> None:
    step = command_step(
        "driver", "sh", "-c", f"test ! -e {environment}/.envcheck-incomplete", scope=SYSTEM
    )
    after = command_step("own", "test", "-e", f"{environment}/.envcheck-incomplete")
    assert changed(environment, after, step)


def test_a_restart_is_left_to_a_person(
    environment: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = tree_hash(environment)
    first = command_step("driver", "touch", f"{environment.parent}/driver", scope=SYSTEM)
    restart = Step(
        "restart", AskPerson("Restart the machine, then type the same command again.", SYSTEM)
    )
    assert not changed(environment, first, restart)
    assert (
        "settled old Restart the machine, then type the same command again\n"
        in capfd.readouterr().out
    )
    assert (environment.parent / "driver").exists()
    assert tree_hash(environment) == before


def test_an_empty_folder_is_an_empty_folder_again(stock: Path, tmp_path: Path) -> None:
    folder = tmp_path / "env"
    folder.mkdir()
    steps = (
        command_step("create", sys.executable, "-m", "venv", "--without-pip", str(folder)),
        fails(),
    )
    assert not changed(folder, *steps)
    assert list(folder.iterdir()) == []


def test_without_an_exchange_of_folders_two_renames_do(
    stock: Path, environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree_hash(environment)
    monkeypatch.setattr("envcheck.host.file_changes._exchange_atomically", lambda *_: False)
    assert not changed(environment, *unpacking(environment, stock / "wheels"), judged="no")
    assert tree_hash(environment) == before
    assert changed(environment, *unpacking(environment, stock / "wheels"))
    assert held_by(environment) == "2.0"


def test_a_folder_that_cannot_be_renamed_stays(
    environment: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    before = tree_hash(environment)

    def refuse(*_: object) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr("envcheck.install.replacement.swap_folders", refuse)
    assert not changed(environment)
    assert (
        "cannot be replaced (Device or resource busy): is it a mount point, or in use?"
        in capfd.readouterr().out
    )
    assert tree_hash(environment) == before


def test_what_cannot_be_put_back_is_left_to_the_guard(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree_hash(environment)

    def refuse(*_: object) -> None:
        raise OSError(5, "Input/output error", "/a/file")

    monkeypatch.setattr("envcheck.install.transaction.settle", refuse)
    outcome = transaction(environment, fails()).run(Told())
    assert outcome.outcome == UNSETTLED
    assert re.search(
        r"could not be restored: /a/file: Input/output error\. .*--resume --env /", outcome.why
    )
    assert tree_hash(environment) == before


def test_an_environment_that_is_lost_is_said_to_be(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("envcheck.install.replacement.get_inode", lambda _: 1)
    monkeypatch.setattr(
        "envcheck.install.journal.Journal.last", lambda *_: {"existed": True, "inode": 2}
    )
    from envcheck.install.replacement import restore

    place = place_of(environment)
    place.state.mkdir()
    with pytest.raises(ChangeError, match="is at none of"):
        restore(Journal(place, "20260101T000000-1"), "why")


def test_of_a_full_disk_the_copy_is_named(tmp_path: Path) -> None:
    place, copied = (
        place_of(tmp_path / "env"),
        ("No space left on device", "/the/old", None, "/the/copy"),
    )
    assert describe_error(OSError(28, *copied), place) == "/the/copy: No space left on device"
    assert (
        describe_error(OSError(13, "Permission denied", "/the/old"), place)
        == "/the/old: Permission denied"
    )

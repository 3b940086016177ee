"""Ctrl-C and a closed reader for every command: its exit code, one sentence at most, and nothing left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.doctor import command, environment
from tests.faults.interrupting import command_lines, interrupt, left_behind

pytestmark = pytest.mark.needs("linux")
NAMES = ["doctor", "snapshot", "plan", "explain", "gpus", "check", "diff", "query"]
MORE = {
    "help": ["--help"],
    "show": ["matrix", "show", "torch"],
    "gpus once": ["gpus"],
    "install": ["install", "jax", "--dry-run", "--env", "new"],
    "smoke": ["smoke", "--framework", "driver"],
    "no command": ["nonsense"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("interrupted")


@pytest.fixture(scope="module")
def lines(folder: Path) -> dict[str, list[str]]:
    return command_lines(folder)


@pytest.mark.parametrize("name", NAMES)
def test_an_interrupt_ends_every_command(
    lines: dict[str, list[str]], folder: Path, name: str
) -> None:
    for delay in (0.0, 0.01, 0.03, 0.06):
        ended = interrupt(lines[name], delay, folder)
        if ended.code in (0, 1, 2, 3):
            assert name != "gpus"  # it had finished before: a watch never does
            continue
        assert ended.code == 130, ended
        assert "Interrupted." in ended.stdout + ended.stderr, ended
        assert ended.stderr.strip() in ("", "envcheck: Interrupted."), ended
    (folder / "out" / "machine.json").unlink(missing_ok=True)  # it had finished before
    assert left_behind(folder) == []


@pytest.mark.parametrize("name", [*NAMES, *MORE])
@pytest.mark.parametrize("reader", ["head -n 1", "true"])
def test_a_closed_reader_ends_every_command(
    lines: dict[str, list[str]], folder: Path, name: str, reader: str
) -> None:
    argv = command(*({**lines, **MORE}[name]))
    script = f'set -o pipefail; "$@" | {reader} > first'
    done = subprocess.run(
        ["bash", "-c", script, "sh", *argv],
        cwd=folder, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1, 2, 3, 141), done
    assert "Traceback" not in done.stderr
    assert "Broken pipe" not in done.stderr
    assert "Error" not in done.stderr


_AT_FIRST_IMPORT = """
import os, signal, sys
from importlib.abc import MetaPathFinder

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background is started with it ignored


class Interrupting(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "envcheck.host.interruption" and self in sys.meta_path:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)


sys.meta_path.insert(0, Interrupting())
from envcheck.cli import main
main()
"""


def test_an_interrupt_before_the_programs_own_handler_is_a_sentence(folder: Path) -> None:
    argv = [sys.executable, "-c", _AT_FIRST_IMPORT, "--version"]
    done = subprocess.run(
        argv, cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (130, "envcheck: Interrupted.\n")

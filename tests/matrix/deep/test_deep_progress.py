"""Progress while binaries are read, and what an interruption leaves."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from envcheck.cli.group import run
from envcheck.cli.matrix_refresh import Progress
from envcheck.matrix.refresh.files import format_document
from tests.matrix.deep.deep_index import (
    FILE,
    SAMPLE,
    SOLVER,
    UNKNOWN,
    WHEEL,
    fill,
    list_as_unknown,
    row_of,
    unread,
)
from tests.matrix.index.server import Handler, LocalIndex
from tests.patience import PATIENCE, wait_for

ROOT = Path(__file__).parents[3]
PIECE = 256 << 10  # bytes that are written at a time


class Terminal(io.StringIO):
    """A stand-in for a terminal: it takes text and says that it is one."""

    def isatty(self) -> bool:
        return True


def watch(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Let the program write its diagnostics to a terminal; called in the test, since the runner sets its own stream."""
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("CI", raising=False)
    return shown


def test_the_bar_counts_wheels_and_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watch(monkeypatch)
    with closing(Progress("Reading binaries")) as bar:
        bar.count_bytes(5_000_000)  # before it is known how many there are nothing is drawn
        assert terminal.getvalue() == ""
        bar.count_wheels(0, 2)
        bar.count_bytes(400_000)
        drawn = terminal.getvalue()
        bar.count_bytes(700_000)
        bar.count_wheels(1, 2)
    assert "5 MB received" in drawn
    assert "Reading binaries, 6 MB received" in terminal.getvalue()
    assert "1/2" in terminal.getvalue()


def test_no_bar_without_a_terminal_or_with_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watch(monkeypatch)
    with closing(Progress(quiet=True)) as bar:
        bar.count_wheels(0, 2)
    monkeypatch.setattr(terminal, "isatty", lambda: False)
    with closing(Progress()) as bar:
        bar.count_wheels(0, 2)
        bar.count_bytes(9_000_000)
    assert terminal.getvalue() == ""


def test_the_command_shows_the_megabytes_received(
    configured_index: LocalIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = watch(monkeypatch)
    fill(configured_index, {SOLVER: large()})
    list_as_unknown(configured_index)
    assert run(asked(tmp_path)) == 0
    assert "Reading binaries, 1 MB received" in terminal.getvalue()


def large() -> bytes:
    """Return the library with noise behind it, which no packing makes smaller."""
    return SAMPLE + random.Random(7).randbytes(6 * PIECE)


def asked(tmp_path: Path) -> list[str]:
    own = tmp_path / "own.json"
    own.write_text(format_document(unread(UNKNOWN)), encoding="utf-8")
    new = str(tmp_path / "new.json")
    words = ["matrix", "refresh", "--framework", "jax", "--matrix", str(own), "--output", new]
    return [*words, "--deep", "--since", "0.12.0.1"]


def stalled(handler: Handler, stopped: list[tuple[int, int]]) -> None:
    """Send a little more than two pieces of a long range, note it, then send nothing."""
    whole = handler.index.archive(WHEEL)
    first, _, last = handler.headers["Range"].partition("=")[2].partition("-")
    if not first or int(last) - int(first) < PIECE:
        handler._file(whole)
        return
    stopped.append((int(first), int(last)))
    data = whole[int(first) : int(last) + 1]
    handler.send_response(206)
    handler.send_header("Content-Range", f"bytes {first}-{last}/{len(whole)}")
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data[: 2 * PIECE + 1000])
    handler.wfile.flush()
    handler.never()


def parts(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.part") if path.stat().st_size >= 2 * PIECE)


@pytest.mark.needs("posix")
def test_an_interruption_changes_nothing_and_the_next_run_continues(
    configured_index: LocalIndex, tmp_path: Path
) -> None:
    fill(configured_index, {SOLVER: large()})
    list_as_unknown(configured_index)
    stopped: list[tuple[int, int]] = []
    configured_index.answers[FILE] = lambda handler: stalled(handler, stopped)
    words, new, cache = asked(tmp_path), tmp_path / "new.json", Path(os.environ["XDG_CACHE_HOME"])
    new.write_text("as it was", encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    running = subprocess.Popen(
        [sys.executable, "-m", "envcheck", *words],
        cwd=ROOT,
        env=environment,
        stderr=subprocess.PIPE,
    )
    wait_for(lambda: parts(cache), "two pieces of the wheel")
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=PATIENCE)
    assert (running.returncode, b"Traceback" in err) == (130, False), err
    assert new.read_text(encoding="utf-8") == "as it was"
    (part,) = parts(cache)
    first, last = stopped[0]
    resumed = f"bytes={first + part.stat().st_size}-{last}"
    ranges: list[str] = []

    def watched(handler: Handler) -> None:
        ranges.append(handler.headers["Range"])
        handler._file(handler.index.archive(WHEEL))

    configured_index.answers[FILE] = watched
    assert run(words) == 0
    assert resumed in ranges
    assert f"bytes={first}-{last}" not in ranges
    assert row_of(json.loads(new.read_text(encoding="utf-8")))["binaries"]["sha256"] == UNKNOWN
    assert not part.exists()

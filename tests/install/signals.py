"""Send a signal at some instant of an installation; look what is there, what runs, and whether the message is true."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from envcheck.host.file_changes import copy_tree, lock_file
from envcheck.install.journal import Journal
from envcheck.install.places import place_of
from envcheck.install.replacement import newest
from tests.install.wheels import (
    PARTS,
    held_by,
    make_environment,
    make_wheel,
    site_packages,
    tree_hash,
)
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGKILL")
NEW, OLD = "2.0", "1.0"
_FILES = 300  # in each part: uv takes some time to remove and to link them
_FIRST = 0.03  # seconds that count as the first of a step


@dataclass(frozen=True)
class Instant:
    """When which signal is sent, and to whom."""

    installer: str  # uv, pip
    is_there: bool  # the environment exists
    signal: str
    to_group: bool
    step: str  # counted from the beginning of this step; "": of the process
    delay: float


@dataclass(frozen=True)
class Outcome:
    """What an interrupted installation left."""

    held: str  # 1.0, 2.0, none, or a mix
    wrong: tuple[str, ...]  # each in words


def make_stock(folder: Path) -> None:
    """Make the wheels of both versions, and an environment that holds the old one."""
    for version in (OLD, NEW):
        for name in PARTS:
            files = {
                f"{name}/part{number}.py": f"VERSION = {version!r}\n".encode()
                for number in range(_FILES)
            }
            make_wheel(folder / "wheels", name, version, more=files)
    make_environment(folder / "env", folder / "wheels", OLD)


def choose_instant(
    dice: random.Random,
    seconds: dict[tuple[str, bool], float],
    *,
    first: bool,
    signals: tuple[str, ...] = SIGNALS,
) -> Instant:
    """Choose an instant: in the `first` milliseconds of a step, or anywhere in the time that it takes."""
    installer, is_there = dice.choice(sorted(seconds))
    name, to_group = dice.choice(signals), dice.random() < 0.5
    step = (
        dice.choice(["Install both parts."] if is_there else ["Install both parts.", "Create it."])
        if first
        else ""
    )
    delay = dice.uniform(0, _FIRST if first else seconds[installer, is_there])
    return Instant(installer, is_there, name, to_group or name == "SIGKILL", step, delay)


def time_whole(stock: Path, folder: Path, installer: str, *, is_there: bool) -> float:
    """Return the seconds of an installation that nobody interrupts."""
    process = _start(stock, folder, installer, is_there=is_there)
    begun = time.monotonic()
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert held_by(folder / "env") == NEW
    return time.monotonic() - begun


def interrupt(stock: Path, folder: Path, instant: Instant) -> Outcome:
    """Install in a new folder, send the signal, and look once all is over."""
    process = _start(stock, folder, instant.installer, is_there=instant.is_there)
    environment = folder / "env"
    before = tree_hash(stock / "env") if instant.is_there else ""
    begun = _read_until(process, instant.step)
    time.sleep(instant.delay)
    number = getattr(signal, instant.signal)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number) if instant.to_group else process.send_signal(number)
    said = begun + process.communicate(timeout=PATIENCE)[0]
    # the message is true when it is read
    at_once = held_by(environment) if instant.signal != "SIGKILL" else ""
    _wait_for_guard(environment)
    held, old = held_by(environment), OLD if instant.is_there else "none"
    wrong = [] if held in {old, NEW} else [held]
    wrong += ["the old one is changed"] if held == OLD and tree_hash(environment) != before else []
    wrong += ["the new one is not whole"] if held == NEW and not _is_whole(environment) else []
    wrong += [f"it was {at_once} when it ended"] if at_once not in {"", held} else []
    wrong += [f"still runs: {line}" for line in _list_programs(folder)]
    wrong += _judge_words(said, held, old)
    wrong += _judge_journal(newest(place_of(environment)), held)
    return Outcome(held, tuple(wrong))


def _start(stock: Path, folder: Path, installer: str, *, is_there: bool) -> subprocess.Popen[str]:
    folder.mkdir()
    if is_there:
        copy_tree(stock / "env", folder / "env")
    argv = [
        sys.executable,
        "-m",
        "tests.install.session",
        str(folder / "env"),
        str(stock / "wheels"),
        installer,
        "said",
    ]
    variables = {**os.environ, "UV_CACHE_DIR": str(folder / "cache"), "PIP_CONFIG_FILE": os.devnull}
    return subprocess.Popen(
        argv,
        cwd=ROOT,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=_reset_signals,  # noqa: PLW1509 - the tests start no threads here
    )


def _reset_signals() -> None:
    """Let the signals have their effect: a job in the background, or under nohup, is started with some ignored."""
    for name in SIGNALS[:3]:
        signal.signal(getattr(signal, name), signal.SIG_DFL)


def _read_until(process: subprocess.Popen[str], step: str) -> str:
    said = ""
    assert process.stdout is not None
    while step and step not in said:
        line = process.stdout.readline()
        said += line
        if not line:
            break
    return said


def _is_whole(environment: Path) -> bool:
    found = [path.read_text() for path in site_packages(environment).glob("demo_*/part*.py")]
    return found == [f"VERSION = {NEW!r}\n"] * (_FILES * len(PARTS))


def _wait_for_guard(environment: Path) -> None:
    place = place_of(environment)
    if place.state.is_dir():
        with lock_file(str(place.lock), PATIENCE):
            pass


def _list_programs(folder: Path) -> list[str]:
    """List the programs whose command line names the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().decode(errors="replace").split("\0")
            if any(word.startswith(str(folder)) for word in words):
                found.append(" ".join(words))
    return found


def _judge_words(said: str, held: str, old: str) -> list[str]:
    """Compare what the command said with what is there."""
    wrong = ["a traceback"] if "Traceback" in said and "KeyboardInterrupt" not in said else []
    if "is the new environment" in said and held != NEW:
        wrong.append("it says: the new environment")
    if ("as it was before" in said or "is not there, as before" in said) and held != old:
        wrong.append("it says: the old environment")
    return [f"{what}: {said[-300:]}" for what in wrong]


def _judge_journal(journal: Journal | None, held: str) -> list[str]:
    if journal is None or not journal.lines():
        return ["no journal, and the new environment"] if held == NEW else []
    wrong = [] if journal.is_settled else ["the journal is not settled"]
    return (
        wrong if journal.is_installed == (held == NEW) else [*wrong, "the journal says otherwise"]
    )

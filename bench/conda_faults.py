"""What may befall an installation by conda: kill -9, a channel that goes, a package it lacks, another at work."""

from __future__ import annotations

import http.server
import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from bench.conda_room import ENVCHECK, Room, WrongError

ASKED = ["jax==0.6.2", "--installer", "conda", "--python", "3.11", "--expect", "cpu"]
ENV = ["--env", "e", "--yes"]


def started(room: Room, *more: str) -> subprocess.Popen[str]:
    """Start an installation and go on."""
    words = [*(word for word in ASKED if word not in more), *ENV]
    return subprocess.Popen(
        [*ENVCHECK, "install", *words],
        cwd=room.folder,
        env=room.variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def settled(room: Room, before: str, resumed: str, *, was_there: bool) -> str:
    """Tell which environment is there, and see that it is whole, that --resume names it and that conda lists it."""
    held = {path.name.rpartition("-")[0] for path in room.folder.glob("e/conda-meta/*.json")}
    if room.tree() == before:
        if "the new environment" in resumed:
            raise WrongError(resumed)
        if was_there:
            room.holds("six==1.17.0")
        return "old"
    whole = "jax-0.6.2" in held and not (room.folder / "e/.envcheck-incomplete").exists()
    if not whole or "is the new environment" not in resumed:
        raise WrongError(f"a mix: {sorted(held)}; {resumed}")
    room.holds("jax==0.6.2", "jaxlib==0.6.2", "numpy==2.4.6")
    room.run("e/bin/python", "-c", "import jax; jax.numpy.ones(3).sum()")
    return "new"


def after_kill(room: Room, delay: float, before: str, *, was_there: bool) -> str:
    """Kill an installation after `delay` seconds, wait for its guard, and have --resume say what is there."""
    from envcheck.host.file_changes import lock_file
    from envcheck.install.places import place_of

    process = started(room)
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    place = place_of(room.folder / "e")
    if place.state.is_dir():
        with lock_file(str(place.lock), 60):
            pass
    resumed = room.start((*ENVCHECK, "install", "--resume", "--env", "e"), {})
    if resumed.returncode not in (0, 2):
        raise WrongError(f"--resume: {resumed.returncode}: {resumed.stdout}{resumed.stderr}")
    return settled(room, before, resumed.stdout + resumed.stderr, was_there=was_there)


def emptied(room: Room) -> None:
    """Take away the environment and what lies beside it."""
    room.run("rm", "-rf", "e", ".envcheck-e")


def seconds_of_one(room: Room) -> float:
    """Tell how long an installation takes here."""
    begun = time.monotonic()
    room.envcheck("install", *ASKED, *ENV)
    emptied(room)
    return time.monotonic() - begun


def do_kills(room: Room, count: int, seed: int) -> str:
    """Kill the command over the time that it takes, with no environment and with one that is there, by turns."""
    dice, found = random.Random(seed), Counter[str]()
    whole = seconds_of_one(room)
    for turn in range(count):
        before = room.made("six", "jax=0.5.3") if turn % 2 else room.tree()
        was = "there" if turn % 2 else "new"
        how = after_kill(
            room,
            dice.uniform(0.2, whole * (2.2 if turn % 2 else 1.5)),
            before,
            was_there=bool(turn % 2),
        )
        found[f"{was}: {how}"] += 1
        emptied(room)
    return f"{count} times within {whole:.0f} s, seed {seed}: " + ", ".join(
        f"{what} {times}" for what, times in sorted(found.items())
    )


def do_resumed(room: Room) -> str:
    """Kill the command and its guard at once, as a power failure does: --resume puts it right."""
    before = room.made("six", "jax=0.5.3")
    process = started(room)
    state = room.folder / ".envcheck-e"
    until(
        lambda: any('"step"' in path.read_text(encoding="utf-8") for path in state.glob("*.jsonl"))
    )
    time.sleep(1.0)
    for number in (*children(process.pid), process.pid):
        os.kill(number, signal.SIGKILL)
    process.communicate(timeout=60)
    if not (room.folder / "e/.envcheck-incomplete").exists():
        raise WrongError("it was not cut off")
    done = room.envcheck("install", "--resume", "--env", "e")
    resumed = done.stdout + done.stderr
    how = settled(room, before, resumed, was_there=True)
    return (
        f"half of it was there, with its marker; then {how}:"
        f" {resumed.strip().replace(str(room.folder), '')}"
    )


def children(number: int) -> list[int]:
    """List the processes that a process started, and those they started, the guard among them."""
    found = []
    for path in Path("/proc").glob(f"{number}/task/*/children"):
        found += [int(word) for word in path.read_text(encoding="utf-8").split()]
    return [each for child in found for each in (*children(child), child)]


def until(holds: Any, seconds: float = 120.0) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise WrongError("waited in vain")
        time.sleep(0.05)


def refused(room: Room, before: str, done: subprocess.CompletedProcess[str], *words: str) -> str:
    """See that an installation that could not be said so in words, and left the old environment."""
    told = (done.stdout + done.stderr).replace(str(room.folder), "")
    if (
        done.returncode != 4
        or "Traceback" in told
        or room.tree() != before
        or not any(word in told for word in words)
    ):
        raise WrongError(f"{done.returncode}: {told[-900:]}")
    return told.strip().splitlines()[-1]


def do_missing(room: Room) -> str:
    """Ask for a build that the channel lacks, with no environment and with one that is there."""
    told = []
    for before in (room.tree, partial(room.made, "six")):
        tree = before()
        done = room.start(
            (
                *ENVCHECK,
                "install",
                "torch==2.5.1",
                *ASKED[1:3],
                "--expect",
                "cpu",
                "--python",
                "3.11",
                *ENV,
            ),
            {},
        )
        told.append(refused(room, tree, done, "the old environment", "not there"))
    return " / ".join(told)


class Server(http.server.ThreadingHTTPServer):
    """A server that says nothing of who hangs up."""

    def handle_error(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def served(folder: Path, lasts: int) -> Iterator[str]:
    """Serve a channel that vanishes after so many packages: one more is cut off in the middle, then nothing answers."""
    given = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            packages = self.path.endswith(".conda")
            given.extend([1] * packages)
            if len(given) > lasts:
                self.send_response(200)
                self.send_header("Content-Length", "100000000")
                self.end_headers()
                self.wfile.write(b"half")
                self.close_connection = True
                if len(given) > lasts + 1:
                    server.socket.close()
                return
            super().do_GET()

    server = Server(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def do_gone(room: Room) -> str:
    """Let the channel vanish while packages are fetched, and before anything is."""
    channel = Path(unquote(urlsplit(room.variables["CONDA_CHANNEL_ALIAS"]).path))
    told = []
    for was_there, lasts in ((False, 2), (True, 2), (True, 0)):
        emptied(room)
        before = room.made("six") if was_there else room.tree()
        with served(channel, lasts) as address:
            more = {
                "CONDA_CHANNEL_ALIAS": address,
                "CONDA_PKGS_DIRS": str(room.folder / f"packages-{was_there}-{lasts}"),
            }
            done = room.start(
                (
                    *ENVCHECK,
                    "install",
                    *ASKED[:3],
                    "--expect",
                    "cpu",
                    *(() if was_there else ASKED[3:5]),
                    *ENV,
                ),
                more,
            )
        told.append(refused(room, before, done, "the old environment", "not there"))
    return " / ".join(dict.fromkeys(told))


def do_two(room: Room) -> str:
    """Start two at once: one does it, the other is refused and says who is at work."""
    both = [started(room), started(room)]
    told = [process.communicate(timeout=900)[0] for process in both]
    codes = sorted(process.returncode for process in both)
    if codes != [0, 2] or not any("is at work" in text for text in told):
        raise WrongError(f"{codes}: {told[0][-400:]} / {told[1][-400:]}")
    room.holds("jax==0.6.2")
    room.run("e/bin/python", "-c", "import jax; jax.numpy.ones(3).sum()")
    return "one installed, the other refused (2): another installation is at work"

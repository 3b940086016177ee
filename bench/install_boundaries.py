"""Kill the whole command with -9 at every boundary of its steps: the environment is the old or the new one.

    python -m bench.install_boundaries          needs root: the GPUs are a stand-in

Killed once the journal holds one line, two, and so on to the last: pip is brought, removes a plugin that is in the way
and installs; uv makes an environment; on a stand-in GPU host the loader paths are written, and the last check fails,
since nothing can compute there. Wheels are small ones of the real names, made on the spot. Prints a table in Markdown;
exits 1 when anything else is there than the old environment or the new one, or when `--resume` does not say which.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.install_faults import GIVES_UP, environment, lines_of, make_stock, wait_for
from bench.install_into import ENVCHECK, NO_INDEX, left, start
from envcheck.install.places import place_of
from tests.fakes.gpu_host import entering
from tests.fakes.machine import GpuHost
from tests.fakes.stage import stage
from tests.install.wheels import tree_hash

Launch = Callable[[Path], "subprocess.Popen[bytes]"]


def boundaries(what: str, top: Path, launch: Launch, *, there: bool, plugin: bool = False) -> bool:
    """Kill at each line of the journal; tell how often the old and the new environment were there."""
    usual = top / "usual"
    usual.mkdir()
    if there:
        environment(usual, plugin=plugin)
    launch(usual).wait(GIVES_UP)
    events = lines_of(place_of(usual / "env"))
    found = []
    for count in range(1, len(events) + 1):
        folder = top / str(count)
        folder.mkdir()
        before = environment(folder, plugin=plugin) if there else tree_hash(folder / "env")
        process = launch(folder)
        wait_for(place_of(folder / "env"), count, process)
        process.kill()
        process.wait()
        found.append(left(folder, before))
        shutil.rmtree(folder)
    wrong = [
        f"after {count} lines: {seen}"
        for count, seen in enumerate(found, 1)
        if seen not in {"old", "new"}
    ]
    print(
        f"| {what} | {' '.join(events)} | {found.count('old')} | {found.count('new')} |"
        f" {len(wrong)} |",
        flush=True,
    )
    print(*wrong, sep="\n", file=sys.stderr)
    return not wrong


def do_boundaries(top: Path) -> bool:
    """Kill at every boundary of three installations."""
    make_stock(top / "stock")
    (top / "live").mkdir()
    stage(GpuHost(), top / "staged")
    asked = (
        "tensorflow==2.21.0",
        "--env",
        "env",
        "--yes",
        "-q",
        "--expect",
        "gpu",
        "--installer",
        "uv",
    )

    def on_host(folder: Path) -> subprocess.Popen[bytes]:
        variables = {
            **os.environ,
            **GpuHost().environment(),
            **NO_INDEX,
            "PIP_FIND_LINKS": str(top / "stock"),
        }
        argv = entering(top / "staged", top / "live", [*ENVCHECK, *asked])
        return subprocess.Popen(
            argv, cwd=folder, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    print("| installation | its journal | old | new | else |\n|---|---|---|---|---|")
    cases: tuple[tuple[str, Launch, bool, bool], ...] = (
        (
            "over one, by pip",
            lambda folder: start(folder, top / "stock", "--installer", "pip"),
            True,
            True,
        ),
        (
            "new, by uv",
            lambda folder: start(folder, top / "stock", "--installer", "uv"),
            False,
            False,
        ),
        ("over one, loader paths", on_host, True, False),
    )
    good = True
    for number, (what, launch, there, plugin) in enumerate(cases):
        own = top / f"case{number}"
        own.mkdir()
        good &= boundaries(what, own, launch, there=there, plugin=plugin)
    return good


if __name__ == "__main__":
    # which the stand-in GPU host shares with this machine
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        sys.exit(0 if do_boundaries(Path(name)) else 1)

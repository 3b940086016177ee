"""Run `envcheck fleet` as users do, with hosts that have time: python -m tests.fleet.command run ..."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import fastjsonschema

from envcheck.host.data_files import read_packaged
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]


def fleet(
    *arguments: str | Path, cwd: Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "tests.fleet.command", *map(str, arguments)]
    whole = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
    return subprocess.run(
        argv, capture_output=True, text=True, errors="replace", check=False, cwd=cwd, env=whole
    )


def main() -> None:
    """Run the program with a collector that waits for what it starts, as `tests.patience` does here."""
    from envcheck.cli import main as program
    from envcheck.fleet import collector

    patient = (
        "run = LocalHost._run\n"
        f"LocalHost._run = lambda host, argv, _, environment: run(host, argv, {PATIENCE}, environment)\n"
        f"LocalHost.__init__.__defaults__ = ({PATIENCE},)\n"
        f"LIMIT = {PATIENCE}\n"
    )
    assert "selection = " in collector._MAIN
    collector._MAIN = collector._MAIN.replace("selection = ", patient + "selection = ")
    sys.argv[1:1] = ["fleet"]
    program()


@cache
def _check(document: str) -> Any:
    return fastjsonschema.compile(json.loads(read_packaged("schemas", f"{document}.schema.json")))


def document(done: subprocess.CompletedProcess[str], name: str = "fleet-report") -> Any:
    """Return the one JSON document on standard output, which fits its schema."""
    found = json.loads(done.stdout)
    _check(name)(found)
    return found


if __name__ == "__main__":
    main()

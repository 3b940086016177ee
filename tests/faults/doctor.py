"""Run the program like a user, and check each run: no traceback, a valid report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.patience import patient_command

ROOT = Path(__file__).parents[2]
_OF_THIS_MACHINE = (
    "CUDA",
    "LD_LIBRARY_PATH",
    "NVIDIA_",
    "NVCC_",
    "XLA_FLAGS",
    "ENVCHECK_",
    "VIRTUAL_ENV",
    "CONDA_",
)


@dataclass(frozen=True)
class Run:
    """One run of the program."""

    code: int
    stdout: str
    stderr: str

    @property
    def report(self) -> dict[str, Any]:
        """Return the JSON report, the one document on standard output."""
        parsed: dict[str, Any] = json.loads(self.stdout)
        return parsed

    def fact(self, name: str) -> Any:
        """Return a fact of the snapshot by its dotted name, in its JSON form."""
        value = self.report["snapshot"]["facts"]
        for part in name.split("."):
            value = value[part]
        return value

    @property
    def findings(self) -> list[str]:
        """Return the ids of the findings."""
        return [finding["id"] for finding in self.report["findings"]]

    @property
    def primary(self) -> list[str]:
        """Return the id of the primary finding, if any."""
        return [finding["id"] for finding in self.report["findings"] if finding["primary"]]


def environment(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment without what configures CUDA here, and with `changes`."""
    own = {
        name: value for name, value in os.environ.items() if not name.startswith(_OF_THIS_MACHINE)
    }
    return {**own, "PYTHONPATH": str(ROOT), **(changes or {})}


def command(*arguments: str) -> list[str]:
    """Return the command line of the program."""
    return [sys.executable, "-m", "envcheck", *arguments]


def envcheck(
    *arguments: str,
    changes: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    gives_up: bool = False,
) -> Run:
    """Run `envcheck ARGUMENTS` and check what every run owes; where something hangs it must give up as for users."""
    done = subprocess.run(
        command(*arguments) if gives_up else patient_command(*arguments),
        env=environment(changes),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    run = Run(done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8"))
    hold_to_its_word(run)
    return run


def hold_to_its_word(run: Run) -> None:
    """Check that a run ended with a documented code and without a traceback."""
    assert "Traceback" not in run.stdout + run.stderr, run.stderr
    assert run.code in (0, 1, 2, 3), (run.code, run.stderr)


def doctor(
    *arguments: str,
    changes: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    path: Path | None = None,
    gives_up: bool = False,
) -> Run:
    """Run `envcheck doctor --format json`, with the folder `path` ahead of PATH; the report must be whole."""
    changes = dict(changes or {})
    if path is not None:
        changes["PATH"] = f"{path}:{os.environ['PATH']}"
    run = envcheck(
        "doctor", "--format", "json", *arguments, changes=changes, cwd=cwd, gives_up=gives_up
    )
    assert (
        run.code == {"compatible": 0, "incompatible": 1, "undetermined": 3}[run.report["verdict"]]
    )
    assert set(run.report["snapshot"]["facts"]) == SECTIONS
    return run


SECTIONS = {
    "host",
    "driver",
    "gpus",
    "other_gpus",
    "toolkits",
    "cudnn",
    "tensorrt",
    "nccl",
    "compilers",
    "python",
}

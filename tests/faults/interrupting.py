"""Interrupt the program at some instant of a command, and look what it leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.faults.doctor import environment
from tests.patience import PATIENCE

_MARK = "ENCHK_INTERRUPTED_IN"  # an inherited variable: who has it belongs to the command
# Until main() has started, Python itself handles the interrupt: this reports the start.
_START = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background is started with it ignored
from envcheck.host import interruption
writer = int(sys.argv.pop(1))
install_handler = interruption.install_handler
def install(): install_handler(); os.close(writer)
interruption.install_handler = install
from envcheck.cli import main
main()
"""
_LOG = "epoch 1\n" * 20_000 + "Failed to initialize NVML: Driver/library version mismatch\n"


@dataclass(frozen=True)
class Ended:
    """How an interrupted command ended."""

    code: int
    stdout: str
    stderr: str
    seconds: float  # from the interruption to the end: bench/interrupted.py has a limit for it


def command_lines(folder: Path) -> dict[str, list[str]]:
    """Return a command line for each command that takes its time; what they read is written to `folder`."""
    (folder / "pyproject.toml").write_text(
        '[tool.envcheck]\nrequirements = ["tensorflow==2.15.*"]\n'
    )
    (folder / "train.log").write_text(_LOG)
    machine = str(folder / "machine.json")
    snapshot = [sys.executable, "-m", "envcheck", "snapshot", "-o", machine]
    subprocess.run(snapshot, env=environment(), check=True, capture_output=True)
    return {
        "doctor": ["doctor", "--format", "json"],
        "snapshot": ["snapshot", "-o", str(folder / "out" / "machine.json")],
        "plan": ["plan", "torch"],
        "explain": ["explain", str(folder / "train.log")],
        "gpus": ["gpus", "--watch", "0.1"],
        "check": ["check", "--config", str(folder / "pyproject.toml")],
        "diff": ["diff", machine, machine],
        "query": ["matrix", "query", "--python", "3.11", "--driver", "535.104"],
    }


def interrupt(arguments: list[str], delay: float, folder: Path) -> Ended:
    """Run a command, interrupt it `delay` seconds after it began, and wait for its end."""
    with _begun(arguments, folder) as process:
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        sent = time.monotonic()
        stdout, stderr = process.communicate(timeout=PATIENCE)
        return Ended(process.returncode, stdout, stderr, time.monotonic() - sent)


@contextmanager
def _begun(arguments: list[str], folder: Path) -> Iterator[subprocess.Popen[str]]:
    for name in ("tmp", "out"):
        (folder / name).mkdir(exist_ok=True)
    reader, writer = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", _START, str(writer), *arguments],
        env=environment({_MARK: str(folder), "TMPDIR": str(folder / "tmp")}),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        pass_fds=(writer,),
    )
    os.close(writer)
    try:
        os.read(reader, 1)  # until the program closes its end
        yield process
    finally:
        os.close(reader)
        process.kill()
        process.wait()


_DYING = 0.5  # seconds that a killed process may take to be gone where the processors are busy


def left_behind(folder: Path) -> list[str]:
    """Name the temporary files, and the processes of the interrupted commands that still run (Linux)."""
    files = [str(path) for name in ("tmp", "out") for path in (folder / name).rglob("*")]
    end = time.monotonic() + _DYING
    while (
        running := [name for name in _processes() if _belongs(name, folder)]
    ) and time.monotonic() < end:
        time.sleep(0.01)
    return files + running


def _processes() -> list[str]:
    return [path.name for path in Path("/proc").iterdir() if path.name.isdigit()]


def _belongs(pid: str, folder: Path) -> bool:
    with suppress(OSError):
        return f"{_MARK}={folder}\0".encode() in Path(f"/proc/{pid}/environ").read_bytes()
    return False

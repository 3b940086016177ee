"""Tell on standard error, device by device, what a smoke test is doing."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

from envcheck.render.inert import inert
from envcheck.smoke.devices import Job, Run


class SmokeProgress:
    """Say which check begins where somebody watches, and how each run ended in any case; nothing when quiet."""

    def __init__(self, total: int, while_it_runs: Callable[[], object], *, quiet: bool) -> None:
        self._total, self._done, self._quiet = total, 0, quiet
        self._waiting: list[Callable[[], object]] = [while_it_runs]
        self._watched = sys.stderr.isatty()
        self._lock = threading.Lock()

    def begins(self, job: Job, check: str, device: str) -> None:
        """Say that a check begins."""
        if self._watched:
            self._say(f"{job.title}: {check} {device}".rstrip() + " ...")
        with self._lock:  # once: the process that says this has just begun to import its framework
            work, self._waiting = self._waiting, []
        for each in work:
            each()

    def ends(self, run: Run) -> None:
        """Say how a run ended."""
        self._done += 1
        self._say(f"[{self._done}/{self._total}] {run.job.title}: {run.outcome} ({run.seconds:.1f} s)")

    def _say(self, line: str) -> None:
        if self._quiet:
            return
        with self._lock:  # runs report from threads of their own
            sys.stderr.write(inert(line) + "\n")
            sys.stderr.flush()

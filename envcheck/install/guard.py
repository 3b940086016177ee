"""The process that puts an environment back when the one that installs is killed."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Sequence

from envcheck.host.file_changes import FileLockedError, lock_file
from envcheck.host.guard import LEFT, end_last_program, is_recovery_needed
from envcheck.host.process import ignore_signals
from envcheck.install.journal import Journal
from envcheck.install.places import Place, place_of
from envcheck.install.replacement import ChangeError, settle

# seconds until a killed process's lock is free, and what it had begun has let go of its files
_PATIENCE = 10.0
_PAUSE = 0.2


def main() -> None:
    """Listen until the installing process is gone; settle its journal where it was killed.

    Arguments: FOLDER ID.
    """
    with ignore_signals():
        lines = sys.stdin.read().splitlines()
        if is_recovery_needed(lines) and end_last_program(lines):
            journal = Journal(place_of(sys.argv[2]), sys.argv[3])
            with (
                contextlib.suppress(FileLockedError),
                _hold_environment(journal.place, lines),
            ):  # who holds it now settles it as well
                _settle(journal)


def _hold_environment(
    place: Place, lines: Sequence[str]
) -> contextlib.AbstractContextManager[object]:
    """Hold the environment by the inherited descriptor; on Windows by an own lock."""
    if os.name == "posix" or lines[-1:] == [LEFT]:
        return contextlib.nullcontext()
    return lock_file(str(place.lock), _PATIENCE)


def _settle(journal: Journal) -> None:
    """Settle; on Windows what was killed may hold its files for a moment."""
    deadline = time.monotonic() + (0.0 if os.name == "posix" else _PATIENCE)
    while True:
        is_last = time.monotonic() >= deadline
        try:
            settle(journal, "the installation was killed")
        except (ChangeError, OSError):
            if is_last:
                raise
            time.sleep(_PAUSE)
        else:
            return

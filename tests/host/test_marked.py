"""Processes that left their session end by the mark they inherited, and no other process does."""

from __future__ import annotations

import os
import subprocess
import time

import pytest

from envcheck.host.watched import end_marked
from tests.patience import PATIENCE

pytestmark = pytest.mark.needs("linux")


def test_what_bears_the_mark_ends_in_whatever_session_it_is() -> None:
    environment = {"PATH": os.environ["PATH"], "ENVCHECK_MARK": "one"}
    # The shell has a session of its own, and what it leaves behind has another.
    argv = ["sh", "-c", f"sleep 3661.{os.getpid()} </dev/null >/dev/null 2>&1 & exec sleep 3661.{os.getpid()}"]
    begun = [subprocess.Popen(argv, env=environment, start_new_session=True) for _ in range(2)]
    other = subprocess.Popen(["sleep", f"3661.{os.getpid()}"], env={**environment, "ENVCHECK_MARK": "one more"})
    try:
        time.sleep(0.2)
        end_marked("ENVCHECK_MARK", "one")
        assert [process.wait(PATIENCE) for process in begun] == [-9, -9]
        assert other.poll() is None
        left = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        assert left.splitlines().count(f"sleep 3661.{os.getpid()}") == 1
    finally:
        for process in (*begun, other):
            process.kill()
            process.wait()


def test_a_mark_that_nothing_bears_ends_nothing() -> None:
    end_marked("ENVCHECK_MARK", "of nobody")

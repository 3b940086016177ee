"""Kill processes that left their session by a variable they inherited, and no other process."""

from __future__ import annotations

import os
import subprocess
import time

import pytest

from envcheck.host.system import kill_processes_with_variable
from tests.patience import PATIENCE

pytestmark = pytest.mark.needs("linux")


def test_processes_with_the_variable_end_in_any_session() -> None:
    environment = {"PATH": os.environ["PATH"], "ENVCHECK_MARK": "one"}
    # The shell has a session of its own, and its background child another.
    argv = [
        "sh",
        "-c",
        f"sleep 3661.{os.getpid()} </dev/null >/dev/null 2>&1 & exec sleep 3661.{os.getpid()}",
    ]
    processes = [subprocess.Popen(argv, env=environment, start_new_session=True) for _ in range(2)]
    other = subprocess.Popen(
        ["sleep", f"3661.{os.getpid()}"], env={**environment, "ENVCHECK_MARK": "one more"}
    )
    try:
        time.sleep(0.2)
        kill_processes_with_variable("ENVCHECK_MARK", "one")
        assert [process.wait(PATIENCE) for process in processes] == [-9, -9]
        assert other.poll() is None
        left = subprocess.run(
            ["ps", "-eo", "args"], capture_output=True, text=True, check=True
        ).stdout
        assert left.splitlines().count(f"sleep 3661.{os.getpid()}") == 1
    finally:
        for process in (*processes, other):
            process.kill()
            process.wait()


def test_a_variable_that_no_process_has_ends_nothing() -> None:
    kill_processes_with_variable("ENVCHECK_MARK", "of none")

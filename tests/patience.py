"""How long tests wait for what must happen, and the program with time to spare for what it starts.

No test says how quick something must be: bench/ does. A wait ends when what is waited for has
happened, and fails by limits that no busy machine reaches; `timeout` in pyproject.toml is the limit
of a whole test, and longer."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from envcheck.host.local import LocalHost
from envcheck.host.protocol import Completed
from envcheck.model import Fact

T = TypeVar("T")
PATIENCE = 240.0  # seconds for what takes one: no machine is that busy
FOREVER = 3600  # seconds a program sleeps that must be ended: longer than any wait for its end
_PAUSE = 0.01


def wait_for(look: Callable[[], T], what: str) -> T:
    """Look again and again until there is something; return it."""
    end = time.monotonic() + PATIENCE
    while not (found := look()):
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain for {what}")
        time.sleep(_PAUSE)
    return found


def wait_out_programs() -> None:
    """Let a host of this process wait for its programs as long as they take, but for what a test itself limits.

    The product gives up after seconds, which a healthy program needs on a machine that does twenty things at once.
    A test of such a limit sets the budget of its host, or one below a second, or runs the program as users do.
    """
    run = LocalHost._run

    def patient(
        host: LocalHost, argv: Sequence[str], timeout: float, environment: Mapping[str, str]
    ) -> Fact[Completed]:
        return run(host, argv, timeout if timeout < 1 else PATIENCE, environment)

    LocalHost._run = patient  # type: ignore[assignment,method-assign]
    LocalHost.__init__.__defaults__ = (PATIENCE,)


def patient_command(*arguments: str) -> list[str]:
    """Return a command line of the program that waits for what it starts."""
    return [sys.executable, "-c", "from tests.patience import main; main()", *arguments]


def main() -> None:
    """Run the program."""
    wait_out_programs()
    from envcheck.cli import main as program

    program()

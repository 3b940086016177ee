"""Kill an installation at one of its instants: a process of its own, which stops itself for good.

An instant lies before or after each line of a journal: all that is done stands between two of them.
"""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable

from envcheck.host.file_changes import append_durably, lock_file
from envcheck.install import journal
from envcheck.install.places import Place
from tests.patience import PATIENCE


def kill_at(instant: int, work: Callable[[], int], *places: Place) -> int | None:
    """Do the work in a process that is killed at an instant; return its exit code, None if killed.

    Even instants lie before a line of a journal, odd ones after it. `places`: where nobody may
    work any more when this returns: the guard of what was killed is done then.
    """
    process = os.fork()
    if process == 0:
        _count(instant)
        code = 70
        try:
            code = work()
        except BaseException:  # noqa: BLE001 - this process ends here, whatever happens
            traceback.print_exc()
        os._exit(code)
    _, status = os.waitpid(process, 0)
    for place in places:
        if place.state.is_dir():
            with lock_file(str(place.lock), PATIENCE):
                pass
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return None
    return os.WEXITSTATUS(status)


def _count(instant: int) -> None:
    seen = [0]

    def reach() -> None:
        if seen[0] == instant:
            os.kill(os.getpid(), signal.SIGKILL)
        seen[0] += 1

    def append(path: str, line: str) -> None:
        reach()
        append_durably(path, line)
        reach()

    setattr(journal, "append_durably", append)  # noqa: B010 - a name that it does not hand out

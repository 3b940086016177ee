"""Run independent programs at once, so that they cost the time of one."""

from __future__ import annotations

import threading
from typing import Dict, List, Sequence

from envcheck.host.protocol import Completed, Host
from envcheck.model.facts import Fact, Unknown


def run_together(host: Host, commands: Sequence[Sequence[str]], timeout: float = 2.0) -> List[Fact[Completed]]:
    """Run each command and return the answers in the order of `commands`."""
    answers: Dict[int, Fact[Completed]] = {}
    missing: List[LookupError] = []

    def work(index: int) -> None:
        try:
            answers[index] = host.run(commands[index], timeout)
        except LookupError as error:  # a recording that lacks the command: to be raised in the caller's thread
            missing.append(error)

    threads = [threading.Thread(target=work, args=(index,), daemon=True) for index in range(1, len(commands))]
    for thread in threads:
        thread.start()
    if commands:
        work(0)
    for thread in threads:
        thread.join()
    if missing:
        raise missing[0]
    crashed = Unknown("crashed", "the thread that ran it died")
    return [answers.get(index, crashed) for index in range(len(commands))]

"""Run independent programs at once, so that they cost the time of one."""

from __future__ import annotations

from functools import partial
from typing import Dict, List, Mapping, Sequence

from envcheck.host.protocol import Completed, Host
from envcheck.host.threads import start_thread
from envcheck.model.facts import Fact, Unknown


def run_together(host: Host, commands: Mapping[str, Sequence[str]], timeout: float = 2.0) -> Dict[str, Fact[Completed]]:
    """Run the commands and return each one's answer under its name."""
    answers: Dict[str, Fact[Completed]] = {}
    missing: List[LookupError] = []

    def work(name: str) -> None:
        try:
            answers[name] = host.run(commands[name], timeout)
        except LookupError as error:  # a recording that lacks the command: to be raised in the caller's thread
            missing.append(error)

    names = list(commands)
    threads = [start_thread(partial(work, name)) for name in names[1:]]
    for name in names[:1]:  # one of them needs no thread of its own
        work(name)
    for thread in filter(None, threads):
        thread.join()
    if missing:
        raise missing[0]
    return {name: answers.get(name, Unknown("crashed", f"{commands[name][0]}: its thread died")) for name in names}

"""Ask the hosts of an inventory through Ansible: its inventories, its SSH, its become, its limits."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envcheck.fleet.answers import answer_of
from envcheck.fleet.collector import build_collector
from envcheck.fleet.engine import Asked, EngineError, Listener
from envcheck.fleet.results import BROKEN, UNREACHABLE, Failure, HostResult
from envcheck.host.programs import installed_program
from envcheck.host.streaming import run_streaming
from envcheck.model.snapshot import Snapshot

EVENT = "ENVCHECK-EVENT "
_LONGEST = 6 * 3600.0  # seconds for a whole fleet; each host has its own limit
_PLUGINS = Path(__file__).with_name("ansible_plugins")


def run_ansible(asked: Asked, listener: Listener) -> None:
    """Run the collector on every host of an inventory; raises EngineError when Ansible did not."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "collector").write_bytes(build_collector())
        (work / "play.json").write_text(json.dumps(_play(asked, work / "collector")), encoding="utf-8")
        events = _Events(listener, asked.skip)
        with (work / "log").open("wb") as log:
            environment = _environment(asked.environment or {}, work)
            ended = run_streaming(_command(asked, work), environment, events.hear, log=log, seconds=_LONGEST)
        words = (work / "log").read_text(encoding="utf-8", errors="replace")
        events.finish(ended.detail or words)


def _command(asked: Asked, work: Path) -> list[str]:
    program = installed_program("ansible-playbook")
    if program is None:
        raise EngineError("ansible-playbook is not installed: pip install 'envcheck-gpu[fleet]'")
    options = [
        "--forks",
        str(asked.forks),
        "--timeout",
        str(asked.connect_seconds),
        *(["--become"] if asked.become else []),
    ]
    return [program, "--inventory", asked.inventory, *options, str(work / "play.json")]


def _environment(environment: Mapping[str, str], work: Path) -> dict[str, str]:
    return {
        **environment,
        "ANSIBLE_STDOUT_CALLBACK": "envcheck_events",
        "ANSIBLE_CALLBACK_PLUGINS": str(_PLUGINS),
        "ANSIBLE_DEPRECATION_WARNINGS": "0",
        "ANSIBLE_RETRY_FILES_ENABLED": "0",
        "ANSIBLE_PIPELINING": "1",
        "ANSIBLE_LOCAL_TEMP": str(work / "local"),
    }


def _play(asked: Asked, collector: Path) -> list[dict[str, Any]]:
    """Make the play, as data: a name from the inventory or the command line is never a part of a shell's line."""
    pattern = ":".join([asked.pattern, *(f"!{host}" for host in sorted(asked.skip))])
    words = [_quoted(str(collector)), *([_quoted(f"python={asked.python}")] if asked.python else [])]
    task = {
        "name": "collect",
        # The action copies one file and starts it with a shell: no Python is needed for that on the other side.
        "ansible.builtin.script": {"cmd": " ".join(words), "executable": "/bin/sh"},
        "timeout": asked.host_seconds,
        "changed_when": False,
    }
    play = {"hosts": pattern, "gather_facts": False, "any_errors_fatal": False, "strategy": "free", "tasks": [task]}
    return [{"name": "envcheck", **play}]


def _quoted(word: str) -> str:
    import shlex

    if "{{" in word or "{%" in word or "{#" in word:
        raise EngineError(f"{word!r} holds template marks, which Ansible would act on")
    return shlex.quote(word)


class _Events:
    """Turn Ansible's events into results; a host that never came to an end is told as broken."""

    def __init__(self, listener: Listener, skipped: frozenset[str]) -> None:
        self._listener, self._skipped = listener, skipped
        self._heard = False
        self._open: dict[str, None] = {}
        self._begun = False

    def hear(self, line: str) -> None:
        """Take one line of Ansible's output."""
        if not line.startswith(EVENT):
            return
        event = json.loads(line[len(EVENT) :])
        if event["kind"] == "hosts":
            self._begun = True
            self._heard = bool(event["hosts"])
            self._open = dict.fromkeys(host for host in event["hosts"] if host not in self._skipped)
            self._listener.heard_of(list(self._open))
        elif event["host"] in self._open:
            del self._open[event["host"]]
            self._listener.told(HostResult(event["host"], _answer(event)))

    def finish(self, words: str) -> None:
        """Account for every host that gave no answer."""
        if not self._begun:
            raise EngineError(f"Ansible did not run: {' '.join(words.split())[:1000] or 'no host matches'}")
        if not self._heard and not self._skipped:
            raise EngineError("the inventory names no such host")
        for host in self._open:
            self._listener.told(HostResult(host, Failure(BROKEN, "Ansible ended before this host did")))


def _answer(event: dict[str, Any]) -> Snapshot | Failure:
    if event["kind"] == "unreachable":
        return Failure(UNREACHABLE, " ".join(event.get("msg", "").split())[:2000])
    words = " ".join(event.get(name, "") for name in ("stderr", "module_stderr", "msg", "stdout"))
    return answer_of(event.get("stdout", ""), words)

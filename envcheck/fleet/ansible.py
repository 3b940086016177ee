"""Ask the hosts of an inventory through Ansible: its inventories, its SSH, its become, its limits."""

from __future__ import annotations

import json
import re
import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envcheck.fleet.collector import build_collector
from envcheck.fleet.results import BROKEN, UNREACHABLE, Asked, EngineError, Failure, HostResult, Listener, answer_of
from envcheck.host.prerequisites import find_installed_program
from envcheck.host.process import run_lines
from envcheck.host.system import kill_processes_with_variable
from envcheck.model import Snapshot

MARK = "ENVCHECK_EVENT_MARK"  # the variable that tells the callback how its lines begin
_LONGEST = 6 * 3600.0  # seconds for a whole fleet; each host has its own limit
_PLUGINS = Path(__file__).with_name("ansible_plugins")
_ANSWERED = "envcheck_answered"  # a group of our own, beside those of the inventory


def run_ansible(asked: Asked, listener: Listener) -> None:
    """Run the collector on every host of an inventory; raises EngineError when Ansible did not."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "collector").write_bytes(build_collector())
        _write_json(work / "play.json", _play(asked, work / "collector"))
        _write_json(work / "answered.json", _answered(asked.skip))
        events = _Events(listener, secrets.token_hex(16))  # no host can guess how an event begins
        environment = _environment(asked.environment or {}, work, events.mark)
        with (work / "log").open("wb") as log:
            try:
                ended = run_lines(_command(asked, work), environment, events.hear, log=log, seconds=_LONGEST)
            finally:
                kill_processes_with_variable(
                    MARK, events.mark
                )  # the ssh of a host that hangs, and all of it after an interruption
        words = (work / "log").read_text(encoding="utf-8", errors="replace")
        events.finish(ended.detail or words, answered_before=bool(asked.skip))


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def _command(asked: Asked, work: Path) -> list[str]:
    program = find_installed_program("ansible-playbook")
    if program is None:
        raise EngineError("ansible-playbook is not installed: pip install 'envcheck-gpu[fleet]'")
    return [
        program,
        *(f"--inventory={source}" for source in (asked.inventory, work / "answered.json")),
        *([f"--limit={asked.pattern}"] if asked.pattern != "all" else []),
        f"--forks={asked.forks}",
        f"--timeout={asked.connect_seconds}",
        *(["--become"] if asked.become else []),
        str(work / "play.json"),
    ]


def _environment(environment: Mapping[str, str], work: Path, mark: str) -> dict[str, str]:
    return {
        **environment,
        MARK: mark,
        "ANSIBLE_STDOUT_CALLBACK": "envcheck_events",
        "ANSIBLE_CALLBACK_PLUGINS": str(_PLUGINS),
        "ANSIBLE_DEPRECATION_WARNINGS": "0",
        "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "1",  # it goes on with the half that it read
        "ANSIBLE_RETRY_FILES_ENABLED": "0",
        "ANSIBLE_PIPELINING": "1",
        "ANSIBLE_LOCAL_TEMP": str(work / "local"),
    }


def _answered(hosts: frozenset[str]) -> dict[str, Any]:
    """Make a group of the hosts not to ask, as an inventory of its own.

    Names are data there, never a pattern that could mean a whole group of the same name. One that Ansible's YAML
    inventories would read as a range or a port is left out: that host is asked again.
    """
    plain = [host for host in sorted(hosts) if re.fullmatch(r"\w[\w.-]*", host)]
    return {_ANSWERED: {"hosts": dict.fromkeys(plain)}}


def _play(asked: Asked, collector: Path) -> list[dict[str, Any]]:
    """Make the play, as data: a name from the inventory or the command line is never a part of a shell's line."""
    words = [_quoted(str(collector)), *([_quoted(f"python={asked.python}")] if asked.python else [])]
    task = {
        "name": "collect",
        # The action copies one file and starts it with a shell: no Python is needed for that on the other side.
        "ansible.builtin.script": {"cmd": " ".join(words), "executable": "/bin/sh"},
        "timeout": asked.host_seconds,
        "changed_when": False,
    }
    hosts = ["all", f"!{_ANSWERED}"]
    play = {"hosts": hosts, "gather_facts": False, "any_errors_fatal": False, "strategy": "free", "tasks": [task]}
    return [{"name": "envcheck", **play}]


def _quoted(word: str) -> str:
    import shlex

    if "{{" in word or "{%" in word or "{#" in word:
        raise EngineError(f"{word!r} holds template marks, which Ansible would act on")
    return shlex.quote(word)


class _Events:
    """Turn Ansible's events into results; a host that never came to an end is told as broken."""

    def __init__(self, listener: Listener, mark: str) -> None:
        self.mark = mark
        self._listener = listener
        self._open: dict[str, None] | None = None  # None until Ansible has named the hosts
        self._asked = False

    def hear(self, line: str) -> None:
        """Take one line of Ansible's output."""
        event = _parsed(line[len(self.mark) :]) if line.startswith(self.mark) else {}
        if event.get("kind") == "hosts":
            self._open = dict.fromkeys(event["hosts"])
            self._asked = bool(self._open)
            self._listener.heard_of(list(self._open))
        elif self._open and event.get("host") in self._open:
            del self._open[event["host"]]
            self._listener.told(HostResult(event["host"], _answer(event)))

    def finish(self, words: str, *, answered_before: bool) -> None:
        """Account for every host that gave no answer, and hand on what Ansible warned of."""
        said = " ".join(words.split())
        if self._open is None:
            raise EngineError(f"Ansible did not run: {said[:1000] or 'no host matches'}")
        if not self._asked and not answered_before:
            raise EngineError(f"the inventory names no such host. {said[:1000]}".strip())
        for line in words.splitlines():
            self._listener.warned(line[:1000])
        for host in self._open:
            self._listener.told(HostResult(host, Failure(BROKEN, f"Ansible ended before this host did. {said[:500]}")))


def _parsed(text: str) -> dict[str, Any]:
    try:
        event = json.loads(text)
    except ValueError:  # a worker of Ansible printed into the line: its host is told as broken at the end
        return {}
    return event if isinstance(event, dict) else {}


def _answer(event: dict[str, Any]) -> Snapshot | Failure:
    if event["kind"] == "unreachable":
        return Failure(UNREACHABLE, " ".join(event.get("msg", "").split())[:2000])
    words = " ".join(event.get(name, "") for name in ("stderr", "module_stderr", "msg", "stdout"))
    return answer_of(event.get("stdout", ""), words)

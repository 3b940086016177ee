"""Run the collector through Ansible, with its inventories, SSH, become and limits."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envcheck.actions.extras import describe_missing_extra
from envcheck.fleet.collector import written_collector
from envcheck.fleet.results import (
    BROKEN,
    UNREACHABLE,
    EngineError,
    Failure,
    FleetListener,
    FleetRequest,
    HostResult,
    classify_failure,
    find_answer,
)
from envcheck.host.documents import parse_object
from envcheck.host.prerequisites import find_installed_program
from envcheck.host.process import run_lines
from envcheck.host.system import kill_processes_with_variable
from envcheck.model import Snapshot

MARK = "ENVCHECK_EVENT_MARK"  # the variable with the prefix of the callback's lines
_MAX_SECONDS = 6 * 3600.0  # for a whole fleet; each host has its own limit
_PLUGINS = Path(__file__).with_name("ansible_plugins")
_ANSWERED = "envcheck_answered"  # a group beside those of the inventory


def run_ansible(request: FleetRequest, listener: FleetListener) -> None:
    """Run the collector on every host of an inventory; raises EngineError where Ansible fails."""
    with written_collector() as collector:
        work = collector.parent
        _write_json(work / "play.json", _make_play(request, collector))
        _write_json(work / "answered.json", _make_answered_group(request.skip))
        events = _Events(listener, secrets.token_hex(16))  # no host can forge an event
        environment = _make_environment(request.environment or {}, work, events.mark)
        with (work / "log").open("wb") as log:
            try:
                command = _make_command(request, work)
                ended = run_lines(
                    command, environment, events.handle, log=log, seconds=_MAX_SECONDS
                )
            finally:
                # The ssh of a hanging host, and everything after an interrupt.
                kill_processes_with_variable(MARK, events.mark)
        words = (work / "log").read_text(encoding="utf-8", errors="replace")
        events.finish(ended.detail or words, answered_before=bool(request.skip))


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def _make_command(request: FleetRequest, work: Path) -> list[str]:
    program = find_installed_program("ansible-playbook")
    if not program:
        raise describe_missing_extra("fleet", "--engine ansible")
    return [
        program,
        *(f"--inventory={source}" for source in (request.inventory, work / "answered.json")),
        *([f"--limit={request.pattern}"] if request.pattern != "all" else []),
        f"--forks={request.forks}",
        f"--timeout={request.connect_seconds}",
        *(["--become"] if request.become else []),
        str(work / "play.json"),
    ]


def _make_environment(environment: Mapping[str, str], work: Path, mark: str) -> dict[str, str]:
    return {
        **environment,
        MARK: mark,
        "ANSIBLE_STDOUT_CALLBACK": "envcheck_events",
        "ANSIBLE_CALLBACK_PLUGINS": str(_PLUGINS),
        "ANSIBLE_DEPRECATION_WARNINGS": "0",
        # else it continues with the part that it could read
        "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "1",
        "ANSIBLE_RETRY_FILES_ENABLED": "0",
        "ANSIBLE_PIPELINING": "1",
        "ANSIBLE_LOCAL_TEMP": str(work / "local"),
    }


def _make_answered_group(hosts: frozenset[str]) -> dict[str, Any]:
    """Build an inventory with a group of the hosts to skip.

    Names are data there, never a pattern that could match a group of the same name. A name that
    Ansible's YAML inventories would parse as a range or a port is left out, so that host is read
    again.
    """
    plain = [host for host in sorted(hosts) if re.fullmatch(r"\w[\w.-]*", host)]
    return {_ANSWERED: {"hosts": dict.fromkeys(plain)}}


def _make_play(request: FleetRequest, collector: Path) -> list[dict[str, Any]]:
    """Build the play as data.

    No name from the inventory or the command line becomes part of a shell line.
    """
    words = map(_quote, (str(collector), *request.collector_arguments))
    task = {
        "name": "collect",
        # This action copies one file and starts it with a shell, so the host needs no Python for
        # it.
        "ansible.builtin.script": {"cmd": " ".join(words), "executable": "/bin/sh"},
        "timeout": request.host_seconds,
        "changed_when": False,
    }
    hosts = ["all", f"!{_ANSWERED}"]
    play = {
        "hosts": hosts,
        "gather_facts": False,
        "any_errors_fatal": False,
        "strategy": "free",
        "tasks": [task],
    }
    return [{"name": "envcheck", **play}]


def _quote(word: str) -> str:
    import shlex

    if "{{" in word or "{%" in word or "{#" in word:
        raise EngineError(f"{word!r} contains template marks, which Ansible would expand")
    return shlex.quote(word)


class _Events:
    """Convert Ansible's events into results; a host without a final event is broken."""

    def __init__(self, listener: FleetListener, mark: str) -> None:
        self.mark = mark
        self._listener = listener
        self._pending: dict[str, None] | None = None  # None until Ansible lists the hosts
        self._has_hosts = False

    def handle(self, line: str) -> None:
        """Handle one line of Ansible's output."""
        event: dict[str, Any] = {}
        if line.startswith(self.mark):
            # empty where a worker of Ansible printed into the line: its host is broken at the end
            event = parse_object(line[len(self.mark) :])
        if event.get("kind") == "hosts":
            self._pending = dict.fromkeys(event["hosts"])
            self._has_hosts = bool(self._pending)
            self._listener.on_hosts(list(self._pending))
        elif self._pending and event.get("host") in self._pending:
            del self._pending[event["host"]]
            self._listener.on_result(HostResult(event["host"], _parse_answer(event)))

    def finish(self, words: str, *, answered_before: bool) -> None:
        """Report every host without an answer, and the warnings of Ansible."""
        text = " ".join(words.split())
        if self._pending is None:
            raise EngineError(f"Ansible did not run: {text[:1000] or 'no host matches'}")
        if not self._has_hosts and not answered_before:
            raise EngineError(f"no host of the inventory matches. {text[:1000]}".strip())
        for line in words.splitlines():
            self._listener.on_warning(line[:1000])
        for host in self._pending:
            failure = Failure(BROKEN, f"Ansible ended before this host answered. {text[:500]}")
            self._listener.on_result(HostResult(host, failure))


def _parse_answer(event: dict[str, Any]) -> Snapshot | Failure:
    if event["kind"] == "unreachable":
        return classify_failure(event.get("msg", ""), UNREACHABLE)
    words = " ".join(event.get(name, "") for name in ("stderr", "module_stderr", "msg", "stdout"))
    return find_answer(event.get("stdout", ""), words)

"""An Ansible callback that prints one JSON line per host as soon as the host has finished.

Runs inside ansible-playbook, with Ansible's own modules; see
https://docs.ansible.com/ansible/latest/dev_guide/developing_plugins.html#callback-plugins.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: envcheck_events
type: stdout
short_description: one JSON line per host
description: Prints the answer of the collector on each host as soon as the host has finished.
"""
FIELDS = ("stdout", "stderr", "msg", "module_stderr", "rc")
# characters: more than any answer has; a truncated one is rejected as invalid JSON
MAX_FIELD = 17 << 20
_MARK = os.environ.get("ENVCHECK_EVENT_MARK", "")


class CallbackModule(CallbackBase):  # type: ignore[misc]  # Ansible publishes no types
    """Print an event with the hosts of the play, and one for the end of each host."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "envcheck_events"

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """Print the hosts of the play."""
        hosts = play.get_variable_manager().get_vars(play=play)["ansible_play_hosts_all"]
        _print_event({"kind": "hosts", "hosts": [str(host) for host in hosts]})

    def v2_runner_on_ok(self, result: Any) -> None:
        """Print the answer of a host."""
        _print_result("ok", result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002
        """Print the failure of a host."""
        _print_result("failed", result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Print why a host is unreachable."""
        _print_result("unreachable", result)


def _print_result(kind: str, result: Any) -> None:
    fields = result.result if hasattr(result, "result") else result._result  # noqa: SLF001 - public since ansible-core 2.19
    host = result.host if hasattr(result, "host") else result._host  # noqa: SLF001
    kept = {name: str(fields[name])[:MAX_FIELD] for name in FIELDS if name in fields}
    _print_event({"kind": kind, "host": host.get_name(), **kept})


def _print_event(event: dict[str, Any]) -> None:
    sys.stdout.write(_MARK + json.dumps(event) + "\n")
    sys.stdout.flush()
